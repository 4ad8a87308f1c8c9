"""Maps names of a model to identifiers of another language."""

from __future__ import annotations

import re
from dataclasses import dataclass, field


def identifier(name: str) -> str:
    """Replaces every run of characters other than ASCII letters and digits by one underscore."""
    return re.sub(r"_+", "_", re.sub(r"[^A-Za-z0-9_]", "_", name)).strip("_") or "x"


@dataclass(slots=True)
class Globals:
    """One identifier per name; a prefix avoids clashes with keywords and library names."""

    taken: dict[str, str] = field(default_factory=dict)  # identifier to its owner

    def name(self, prefix: str, name: str) -> str:
        """Returns the identifier of a name, always the same one."""
        wanted = f"{prefix}_{identifier(name)}"
        found, number = wanted, 1
        while self.taken.setdefault(found, f"{prefix} {name}") != f"{prefix} {name}":
            number += 1
            found = f"{wanted}_{number}"
        return found


@dataclass(slots=True)
class Locals:
    """Short identifiers for the numbered locals of one command."""

    given: dict[str, str] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)

    def name(self, local: str, size: int | None = None) -> str:
        """Returns the identifier of a local; an array's includes its size, so commands can share it."""
        if local not in self.given:
            base = f"l_{identifier(local.partition('$')[0])}"
            if size is not None:
                base = f"{base}_of_{size}"
            self.counts[base] = self.counts.get(base, 0) + 1
            number = self.counts[base]
            # No other identifier contains two adjacent underscores, so `x__2` is unique.
            self.given[local] = base if number == 1 else f"{base}__{number}"
        return self.given[local]
