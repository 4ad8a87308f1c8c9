"""Limits of a storage party's answers, and what it answers if it cannot return what was asked for."""

from __future__ import annotations

from dataclasses import dataclass

ANSWER_BYTES_MAX = 12 << 20
RANGE_BATCHES_MAX = 1000
"""How many batches, or appends to a topic that is not validated, an answer holds."""


@dataclass(frozen=True, slots=True)
class Absent:
    """The party does not have it."""


@dataclass(frozen=True, slots=True)
class Below:
    """It was released or never accepted: the party keeps only what is at or above the mark."""

    low_water: int
