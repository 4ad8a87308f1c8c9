"""The limits of a search, and the progress that it reports."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Literal

from veristream.verdict import Counts, Spread

WORKERS_MAX = 256
HASH_BITS_MIN, HASH_BITS_MAX = 8, 64
QUOTA = Path("/sys/fs/cgroup/cpu.max")


class Order(StrEnum):
    """Which of the states found is expanded next: the first one, or the last one."""

    BREADTH = "breadth"
    DEPTH = "depth"


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of a search; what is undecided when one is reached is `Unknown`. None is no limit."""

    workers: int | None = None  # threads; None: one for each core that this process may use
    states_max: int | None = None
    seconds_max: float | None = None
    memory_max_mib: int | None = None  # None: a share of the machine's memory
    symmetry: bool = True  # explore one of the states that differ only by a permutation of instances
    reduction: bool = False  # explore fewer interleavings of independent actions, where that is sound
    shortest: bool = False  # with reduction or depth-first: search again in full for a shortest trace
    remedy: str = "--max-memory-mib"  # the hint in the message that the memory is used up
    order: Order = Order.BREADTH  # depth: for safety of untimed networks, by one worker, without reduction
    hash_bits: int | None = None  # keep so many bits of each visited state; for the same searches as depth


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
"""How workers exchange states: over their own sockets, through Spark's shuffle, or whichever works."""

Tell = Callable[[str, str], None]
"""Called by the driver of a search with a heading and one line to show beneath it."""


def tell_nobody(heading: str, thing: str) -> None:
    """Says nothing."""


@dataclass(frozen=True, slots=True)
class SparkOptions:
    """How to search on a Spark cluster; all its machines must be able to access the folders."""

    master: str | None = None  # None: the active session if there is one, else this machine
    parts: int | None = None  # None: one for each core of the cluster
    checkpoint: str | None = None  # saved here periodically; a checkpoint found here is resumed
    checkpoint_seconds: float = 30.0
    spill: str | None = None  # states that do not fit into memory
    start_states: int | None = 200_000  # explored in the driver first; None: until memory is short
    exchange: Exchange = "auto"  # sockets if they are available, else shuffles
    tell: Tell = tell_nobody  # notices for the user, such as what the driver searched alone


@dataclass(frozen=True, slots=True)
class Progress(Counts):
    """How far a search has got."""

    task: str  # what is searched for, such as a property's name
    memory_mib: float
    seconds: float
    spread: Spread | None = None  # if the search is shared


Report = Callable[[Progress], None]
"""Called periodically by the driver of a search."""


def silent(progress: Progress) -> None:
    """Reports nothing."""
