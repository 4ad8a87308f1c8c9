"""What a search may use, and what it says while it runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of a search; a bound that is hit gives `Unknown`. None is no bound of the user's."""

    workers: int = 1
    states_max: int | None = None
    seconds_max: float | None = None
    memory_max_mib: int | None = None  # None: a share of the machine's memory
    symmetry: bool = True  # of states that differ only in which instance is which, explore one


@dataclass(frozen=True, slots=True)
class SparkOptions:
    """Which Spark cluster explores, in how many parts, and folders that all its machines see."""

    master: str | None = None  # None: the session that is there, else this machine
    parts: int | None = None  # None: one for each core of the cluster
    checkpoint: str | None = None  # saved here now and then, and gone on from where something is there
    checkpoint_seconds: float = 30.0
    spill: str | None = None  # states that do not fit into memory
    start_states: int | None = 200_000  # explored here first; None: until the memory here is nearly used up


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a search is."""

    task: str  # what is searched, such as a property's name
    states: int
    transitions: int
    depth: int
    frontier: int
    memory_mib: float
    seconds: float


Report = Callable[[Progress], None]
"""Called now and then while a search runs, from its driver."""


def silent(progress: Progress) -> None:
    """Reports nothing."""
