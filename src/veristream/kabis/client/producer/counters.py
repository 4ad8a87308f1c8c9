"""What a producer counts."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Counters:
    """How often a producer did what."""

    pushed: int = 0
    acknowledged: int = 0
    failed: int = 0
    batches: int = 0
    stores: int = 0
    submits: int = 0
    recovered: int = 0
