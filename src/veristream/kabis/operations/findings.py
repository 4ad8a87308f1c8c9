"""What `kabis doctor` finds."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """An error needs work now; a warning may become one."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Finding:
    """What is wrong, where (a path or a party), and what to do about it."""

    what: str
    where: str
    do: str
    severity: Severity = Severity.ERROR


def warn(what: str, where: str, do: str) -> Finding:
    """Returns a warning."""
    return Finding(what, where, do, Severity.WARNING)
