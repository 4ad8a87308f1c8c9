"""Settings by what they belong to: `broker.KEY=VALUE` is one of the broker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from veristream.errors import ModelError, suggest


def split_settings(
    flat: Mapping[str, str], parts: Sequence[str], what: str, example: str
) -> dict[str, dict[str, str]]:
    """Returns the settings of each part by their keys; raises ModelError for names that belong to no part.

    `what` says in the error what such a name belongs to, as in "nothing of NSQ".
    """
    found: dict[str, dict[str, str]] = {part: {} for part in parts}
    for name, value in flat.items():
        part, dot, key = name.partition(".")
        if part not in found or not dot or not key:
            known = ", ".join(f"{each}.KEY" for each in parts)
            raise ModelError(
                f"`{name}` belongs to {what}",
                hint=suggest(part, parts, f"write {known}; for example {example}"),
            )
        found[part][key] = value
    return found
