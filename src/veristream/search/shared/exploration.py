"""The driver's view of an exploration in parts, which a search uses like a local one.

`SharedExploration` keeps what the parts report, however the driver reaches them; `CrewExploration` reaches
them through the sockets of a crew. A state's index has the number of its part above 32 bits.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeVar

import numpy as np

from veristream.errors import EnvironmentFailure
from veristream.kernel.layout import Row
from veristream.search.memory import OutOfMemoryError
from veristream.search.reach.expand import FAULT
from veristream.search.session import Hit
from veristream.search.shared.checkpoint import Manifest, write_manifest
from veristream.search.shared.crew import Crew
from veristream.search.shared.messages import (
    Ask,
    Best,
    Count,
    Counters,
    CountOrbits,
    Done,
    Failure,
    FoundState,
    LevelDone,
    LevelReport,
    Question,
    SavedPart,
    SaveTo,
    Totals,
    Unwatch,
)
from veristream.search.shared.worker import MessageKind
from veristream.verdict import Counts, Spread

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

INDEX_BITS = 32

Reply = TypeVar("Reply", bound="DataclassInstance")


class Recipient(Protocol):
    """Takes the states of a local exploration that is handed over, and brings them to their parts."""

    part_count: int

    def give_states(self, part: int, count: int, blob: bytes) -> None:
        """Takes states of a part: all rows, all parents' indices, all parents' parts."""

    def end_states(self, part: int, frontier: int, totals: Totals) -> None:
        """Lets a part continue, from the state at `frontier` on, with the states that were given for it."""


@dataclass(slots=True)
class Checkpoints:
    """Where and how often an exploration is saved."""

    folder: str
    digest: str
    seconds: float
    last: float = field(default_factory=time.monotonic)

    @property
    def is_due(self) -> bool:
        return time.monotonic() - self.last >= self.seconds

    def restart_clock(self) -> None:
        """Counts the time to the next checkpoint from now on."""
        self.last = time.monotonic()


@dataclass(slots=True)
class SharedExploration(ABC):
    """An exploration in parts, level by level; to a search it looks like `explore.Exploration`."""

    budget: int
    directions: tuple[int, ...] = ()  # of measures: 1 for the greatest, -1 for the least
    hits: list[Hit] = field(default_factory=list)
    complete: bool = False
    depth: int = 0
    frontier: int = 1
    counters: list[Counters] = field(default_factory=list)  # of each part
    moved: list[tuple[int, int]] = field(default_factory=list)  # of each part: bytes sent, bytes on disk
    bests: list[tuple[Best, ...]] = field(default_factory=list)  # of each part, by measure
    unwatched: list[int] = field(default_factory=list)
    noted: dict[int, Hit] = field(default_factory=dict)  # by kind: the hits that decided a property
    checkpoints: Checkpoints | None = None

    @property
    @abstractmethod
    def recipient(self) -> Recipient:
        """Takes the states of a local exploration, before the first level."""

    @abstractmethod
    def advance(self, quantum: int) -> None:
        """Explores one level, however large."""

    @abstractmethod
    def row(self, index: int) -> Row:
        """Returns the row of a state."""

    @abstractmethod
    def path(self, index: int) -> list[int]:
        """Returns the states from the initial one to this one."""

    def rows_to(self, index: int) -> Iterable[Row]:
        """Returns the rows of the states from the initial one to this one."""
        return map(self.row, self.path(index))

    @abstractmethod
    def unwatch(self, kind: int) -> None:
        """Stops noting hits of a kind."""

    @abstractmethod
    def count_orbits(self, orbit: int) -> int:
        """Returns how many states the found ones represent, by symmetry."""

    def add_hits(self, part: int, hits: Iterable[Hit]) -> None:
        """Notes hits of a part, with indices among all states."""
        for hit in hits:
            other = (
                hit.other if hit.kind == FAULT else global_index(part, hit.other)
            )  # a fault's is an action
            self.hits.append(Hit(hit.kind, global_index(part, hit.source), other))

    def manifest(self, digest: str, parts: tuple[SavedPart, ...]) -> Manifest:
        """Returns the checkpoint of what the parts have saved."""
        return Manifest(digest, self.depth, tuple(self.unwatched), tuple(self.noted.values()), parts)

    def resume(self, manifest: Manifest) -> None:
        """Continues from a checkpoint; hits that decided a property are reported again to the search."""
        self.depth = manifest.depth
        self.hits[:] = manifest.hits
        again = {hit.kind for hit in self.hits}
        for kind in manifest.unwatched:
            if kind not in again:
                self.unwatch(kind)

    def require_room(self, failures: Sequence[Failure]) -> None:
        """Raises EnvironmentFailure if a worker's disk is full, and OutOfMemoryError if its memory is."""
        full = next((one.disk for one in failures if one.disk), "")
        if full:
            counts = self.counts
            raise EnvironmentFailure(
                f"a worker's disk is full ({full}); explored so far: {counts.states:,} states,"
                f" {counts.transitions:,} transitions, {counts.depth:,} levels",
                "free disk space, or give --spill or --checkpoint a folder on a larger disk;"
                " --resume continues from the last checkpoint",
            )
        if failures:
            raise OutOfMemoryError

    def remember(self, kind: int) -> None:
        """Notes that a kind of hit is no longer watched; checkpoints keep the hit that there was."""
        self.unwatched.append(kind)
        for hit in self.hits:
            if hit.kind == kind:
                self.noted.setdefault(kind, hit)

    @property
    def spread(self) -> Spread | None:
        """How evenly the parts share the states, and what they move; None before the first level."""
        return spread_of_parts([one.states for one in self.counters], self.moved) if self.moved else None

    @property
    def state_count(self) -> int:
        return sum(one.states for one in self.counters) if self.counters else 1

    @property
    def counts(self) -> Counts:
        """The depth is the number of the level being expanded; after the end, the greatest distance."""
        transitions = sum(one.transitions for one in self.counters)
        return Counts(self.state_count, transitions, self.depth, frontier=self.frontier)

    @property
    def seen(self) -> int:
        """Bits of the propositions that held in some state."""
        bits = 0
        for one in self.counters:
            bits |= one.seen
        return bits

    @property
    def byte_count(self) -> int:
        """Memory in use by all workers."""
        return sum(one.byte_count for one in self.counters)

    def best(self, measure: int) -> tuple[int, int] | None:
        """Returns the best value of a measure and the state that has it."""
        found = [
            (best[measure].value, global_index(part, best[measure].index))
            for part, best in enumerate(self.bests)
            if best[measure].index >= 0
        ]
        sign = self.directions[measure]
        return max(found, key=lambda one: one[0] * sign) if found else None

    def close(self) -> None:  # noqa: B027  # no subclass needs more
        """Does nothing: the parts stay to describe what they found."""


@dataclass(slots=True)
class CrewExploration(SharedExploration):
    """An exploration whose parts belong to workers that stay connected."""

    crew: Crew = field(kw_only=True)

    @property
    def recipient(self) -> Recipient:
        return self.crew

    def advance(self, quantum: int) -> None:
        """Explores one level, however large."""
        self.hits.clear()
        done = self.run_level(self.depth)
        reports = [_level_report(one) for one in done]
        self.counters = [report.counters for report in reports]
        self.moved = [
            (one.sent_bytes, report.spilled_bytes) for one, report in zip(done, reports, strict=True)
        ]
        self.bests = [report.best for report in reports]
        self.frontier = sum(one.size for one in done)
        for part, report in enumerate(reports):
            self.add_hits(part, report.hits)
        self.complete = self.frontier == 0
        self.depth += not self.complete
        if not self.complete and not self.hits:
            self._save_if_due()

    def run_level(self, number: int) -> list[LevelDone]:
        """Lets all parts run a level or a wave to its end.

        Raises WorkerLostError, OutOfMemoryError and EnvironmentFailure.
        """
        self.crew.tell_all(MessageKind.GO, number)
        return self._replies(LevelDone)

    def _save_if_due(self) -> None:
        points = self.checkpoints
        if points is None or not points.is_due:
            return
        self.crew.tell_all(MessageKind.SAVE, self.depth, SaveTo(points.folder))
        parts = tuple(self._replies(SavedPart))
        write_manifest(points.folder, self.manifest(points.digest, parts))
        points.restart_clock()

    def ask_all(self, question: Question, expected: type[Reply]) -> list[Reply]:
        """Returns the answer of each part, in order.

        Raises WorkerLostError, OutOfMemoryError and EnvironmentFailure.
        """
        self.crew.tell_all(MessageKind.ASK, 0, Ask(question))
        return self._replies(expected)

    def _replies(self, expected: type[Reply]) -> list[Reply]:
        messages = self.crew.hear_all()
        self.require_room([one.read(Failure) for one in messages if one.kind == MessageKind.FAILED])
        return [one.read(expected) for one in messages]

    def describe(self, index: int) -> FoundState:
        """Returns the row of a state and how it was found."""
        part, place = split_index(index)
        self.crew.tell(part, MessageKind.DESCRIBE, place)
        return self.crew.hear(part).read(FoundState)

    def row(self, index: int) -> Row:
        """Returns the row of a state."""
        return np.array(self.describe(index).row, np.uint64)

    def path(self, index: int) -> list[int]:
        """Returns the states from the initial one to this one."""
        path = [index]
        while (parent := self.describe(path[-1]).parent) is not None:
            path.append(global_index(parent.part, parent.index))
        return path[::-1]

    def unwatch(self, kind: int) -> None:
        """Stops noting hits of a kind."""
        self.remember(kind)
        self.ask_all(Unwatch(kind), Done)

    def count_orbits(self, orbit: int) -> int:
        """Returns how many states the found ones represent, by symmetry."""
        return sum(answer.states for answer in self.ask_all(CountOrbits(), Count))


def _level_report(done: LevelDone) -> LevelReport:
    assert isinstance(done.report, LevelReport), "the part is in a look"
    return done.report


def spread_of_parts(states: Sequence[int], moved: Sequence[tuple[int, int]]) -> Spread:
    """Returns how evenly parts share a search, given each one's states, bytes sent and bytes on disk."""
    skew = max(states) * len(states) / max(1, sum(states))
    return Spread(len(states), skew, sum(sent for sent, _ in moved), sum(disk for _, disk in moved))


def global_index(part: int, index: int) -> int:
    """Returns the index of a part's state among all states."""
    return (part << INDEX_BITS) | index


def split_index(index: int) -> tuple[int, int]:
    """Returns the part of a state, and its index there."""
    return index >> INDEX_BITS, index & ((1 << INDEX_BITS) - 1)
