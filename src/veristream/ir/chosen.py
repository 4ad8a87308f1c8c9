"""Properties by the names that a user gives."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from veristream.errors import ModelError
from veristream.source import Span


def find_named(
    names: Sequence[str], known: Collection[str], span: Span, whose: str = "the model"
) -> list[str]:
    """Resolves names, ignoring spaces; a word that occurs in only one property's name is enough."""
    found: list[str] = []
    for name in names:
        squeezed = "".join(name.split())
        same = [one for one in known if one == name] or [
            one for one in known if "".join(one.split()) == squeezed
        ]
        near = same or [one for one in known if re.search(rf"(?<!\w){re.escape(name)}(?!\w)", one)]
        if len(near) > 1:
            raise ModelError(f"several properties match {name}", span, "choose one of " + "; ".join(near))
        if not near:
            raise ModelError(f"{whose} has no property called {name}", span, _guess(name, known))
        found.append(near[0])
    return list(dict.fromkeys(found))


def _guess(name: str, known: Collection[str]) -> str:
    if not known:
        return "the model states no properties"
    from difflib import get_close_matches  # used only to explain an error

    close = get_close_matches(name, known, n=1)
    question = f"did you mean {close[0]}? " if close else ""
    between = "; " if any("," in one for one in known) else ", "
    return f"{question}its properties are {between.join(known)}"
