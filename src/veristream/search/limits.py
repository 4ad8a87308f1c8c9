"""What a search may use, and what it says while it runs."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from veristream.verdict import Counts, Spread

WORKERS_MAX = 256
QUOTA = Path("/sys/fs/cgroup/cpu.max")


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of a search; a bound that is hit gives `Unknown`. None is no bound of the user's."""

    workers: int | None = None  # threads; None: one for each core that this process may use
    states_max: int | None = None
    seconds_max: float | None = None
    memory_max_mib: int | None = None  # None: a share of the machine's memory
    symmetry: bool = True  # of states that differ only in which instance is which, explore one
    remedy: str = "--max-memory-mib"  # what to say to somebody whose memory is used up


def count_cores() -> int:
    """The cores that this process may use: those it is bound to, within its control group's quota."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        quota, period = QUOTA.read_text(encoding="ascii").split()
        if quota != "max":
            cores = min(cores, math.ceil(int(quota) / int(period)))
    except (OSError, ValueError):
        pass  # no control group of version 2
    return min(max(cores, 1), WORKERS_MAX)


Exchange = Literal["auto", "sockets", "shuffle"]
"""How workers exchange states: by sockets of their own, through Spark's shuffle, or as it is to be had."""

Tell = Callable[[str, str], None]
"""Called with a heading and one thing to say beneath it, from the driver of a search."""


def tell_nobody(heading: str, thing: str) -> None:
    """Says nothing."""


@dataclass(frozen=True, slots=True)
class SparkOptions:
    """Which Spark cluster explores, in how many parts, and folders that all its machines see."""

    master: str | None = None  # None: the session that is there, else this machine
    parts: int | None = None  # None: one for each core of the cluster
    checkpoint: str | None = None  # saved here now and then, and gone on from where something is there
    checkpoint_seconds: float = 30.0
    spill: str | None = None  # states that do not fit into memory
    start_states: int | None = 200_000  # explored here first; None: until the memory here is nearly used up
    exchange: Exchange = "auto"  # sockets where they are to be had, else shuffles
    tell: Tell = tell_nobody  # what a user should know of how the search went, such as what stayed here


@dataclass(frozen=True, slots=True)
class Progress(Counts):
    """How far a search has got."""

    task: str  # what is searched for, such as a property's name
    memory_mib: float
    seconds: float
    spread: Spread | None = None  # where the search is shared


Report = Callable[[Progress], None]
"""Called now and then while a search runs, from its driver."""


def silent(progress: Progress) -> None:
    """Reports nothing."""
