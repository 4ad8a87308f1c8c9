"""What a storage party answers when it cannot return the batch or the events that were asked for."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Absent:
    """The party does not have it."""


@dataclass(frozen=True, slots=True)
class Below:
    """It was released or never accepted: the party keeps only what is at or above the mark."""

    low_water: int
