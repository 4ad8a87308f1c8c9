"""The task of one part at one level, for explorations without workers that stay between levels.

Between two levels a part consists of blocks of bytes that Spark keeps: the states that were found level by
level, and the records that other parts have sent. A task rebuilds the part from these, or continues with
the part that an earlier task cached in this process. It takes in the records, expands the level, and
returns new blocks. A task returns the same states in any process, however often it runs: it takes in
records in the order of their senders, so a state always has the same index.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from veristream.search.memory import DiskFullError, OutOfMemoryError, Spill
from veristream.search.reach import partition
from veristream.search.session import Hit
from veristream.search.shared.assignment import Assignment, Opened
from veristream.search.shared.checkpoint import read_states
from veristream.search.shared.messages import Counters, LevelReport, SavedPart, Totals, Unwatch
from veristream.search.shared.state_part import Part, load_part, save_part

BLOCK_STATES = 1 << 18
CACHE_BYTES_MAX = 1 << 30
"""If the cached parts of this process exceed this much memory, only the last one stays."""

NOT_SAVED = SavedPart()
NO_REPORT = LevelReport()


class Kind(IntEnum):
    """What a block contains: states of levels that have begun; states of the next level that a part found
    by itself, which its next block of STATES repeats; or records for another part."""

    STATES = 0
    AHEAD = 1
    RECORDS = 2


class Block(NamedTuple):
    """Bytes that a part returned at a level; `place` is the index of the first state, or the number of a
    block of records."""

    kind: Kind
    level: int
    sender: int
    place: int
    payload: bytes


@dataclass(frozen=True, slots=True)
class PartStatus:
    """What a part reports after a level."""

    level: int
    part: int
    size: int = 0  # states of the level
    begun: int = 0  # states of this level and of all before it: where the next level begins
    report: LevelReport = NO_REPORT
    absorbed: tuple[Hit, ...] = ()  # hits in states of the level; those of the report are one level deeper
    sent: int = 0  # records for others, at all levels so far
    saved: SavedPart = NOT_SAVED  # the last checkpoint
    saved_count: int = 0  # states in it
    failure: str | None = None  # empty: memory is exhausted; else why the disk cannot be written


Item = Block | PartStatus
Addressed = tuple[int, Item]
"""An item, after the number of the part that it is for."""


@dataclass(frozen=True, slots=True)
class Resumed:
    """The checkpoint that a run continues."""

    folder: str
    parts: tuple[SavedPart, ...]


@dataclass(frozen=True, slots=True)
class LevelTask:
    """What all parts of a run do at a level; levels are counted from 1 here."""

    run: str
    assignment: Assignment
    level: int
    depth: int = 0  # the level's number in the whole search
    unwatched: tuple[int, ...] = ()
    resumed: Resumed | None = None
    saves_to: str | None = None  # a folder, if a checkpoint is due


@dataclass(slots=True)
class CachedPart:
    """A part as it was after a level; `opened` owns its kernel."""

    opened: Opened
    part: Part
    level: int


@dataclass(slots=True)
class PartCache:
    """The parts of one run that earlier tasks left in this process. They only save work."""

    run: str = ""
    parts: dict[int, CachedPart] = field(default_factory=dict)

    def take(self, task: LevelTask, number: int) -> CachedPart | None:
        """Removes and returns the part, unless it is past the level before the task's."""
        if self.run != task.run:
            self.run = task.run
            self._drop(list(self.parts))
        if number in self.parts and self.parts[number].level >= task.level:
            self._drop([number])
        return self.parts.pop(number, None)

    def put(self, cached: CachedPart) -> None:
        """Keeps a part for a later task."""
        self.parts[cached.part.number] = cached
        if sum(one.part.byte_count for one in self.parts.values()) > CACHE_BYTES_MAX:
            self._drop([number for number in self.parts if number != cached.part.number])

    def _drop(self, numbers: list[int]) -> None:
        for number in numbers:
            part = self.parts.pop(number).part
            for array in (part.owners, part.exploration.memory.rows, part.exploration.memory.parents):
                if isinstance(array, Spill):
                    array.close()


_CACHE = PartCache()


@dataclass(frozen=True, slots=True)
class States:
    """Consecutive states of a part, from an index on."""

    first: int
    rows: NDArray[np.int64]
    parents: NDArray[np.uint32]
    owners: NDArray[np.uint16]

    @property
    def end(self) -> int:
        """The index after the last state."""
        return self.first + len(self.parents)


def first_status(part: int, frontier: int, totals: Totals, saved: SavedPart = NOT_SAVED) -> PartStatus:
    """Returns the status of a part that begins with known states, of a checkpoint or handed over."""
    counters = Counters(transitions=totals.transitions, seen=totals.seen)
    return PartStatus(0, part, begun=frontier, report=LevelReport(counters, totals.best), saved=saved)


def read_block(block: Block, width: int) -> States:
    """Returns the states of a block, with rows of `width` words."""
    count = len(block.payload) // (8 * width + 6)
    rows = np.frombuffer(block.payload, np.int64, count * width)
    parents = np.frombuffer(block.payload, np.uint32, count, rows.nbytes)
    owners = np.frombuffer(block.payload, np.uint16, count, rows.nbytes + parents.nbytes)
    return States(block.place, rows, parents, owners)


def read_all(number: int, items: Iterable[Item], width: int, resumed: Resumed | None) -> Iterator[States]:
    """Returns all states of a part, including those of the next level; some may come twice."""
    first = 0
    for name in () if resumed is None else resumed.parts[number].files:
        assert resumed is not None
        states = States(first, *read_states(resumed.folder, name, width))
        first = states.end
        yield states
    for item in items:
        if isinstance(item, Block) and item.kind != Kind.RECORDS:
            yield read_block(item, width)


def run_level_task(task: LevelTask, number: int, items: Iterable[Item]) -> Iterator[Addressed]:
    """Runs the task for one part; returns blocks, and at the end the part's status."""
    try:
        rebuilt = rebuild(task, number, items)
        part, status = rebuilt.cached.part, _begin_level(task, rebuilt)
        yield from _blocks(part, Kind.STATES, task.level, rebuilt.status.begun)
        sent = rebuilt.status.sent
        for other, block in _expand(part, task.level):
            sent += len(block.payload) // (8 * part.record)
            yield other, block
        yield from _blocks(part, Kind.AHEAD, task.level, status.begun)
    except OutOfMemoryError:
        yield number, PartStatus(task.level, number, failure="")
    except DiskFullError as error:
        yield number, PartStatus(task.level, number, failure=str(error))
    else:
        yield number, replace(status, report=part.level_report(), sent=sent)
        rebuilt.cached.level = task.level
        _CACHE.put(rebuilt.cached)


@dataclass(frozen=True, slots=True)
class RebuiltPart:
    """A part as it was after the last level, what it reported then, and what others have sent it since."""

    cached: CachedPart
    status: PartStatus
    records: list[Block]


def rebuild(task: LevelTask, number: int, items: Iterable[Item]) -> RebuiltPart:
    """Returns the part as it was before the task. Reads all items, even if they are not needed: Spark does
    not reuse a process that leaves some unread."""
    cached = _CACHE.take(task, number) or _open(task, number)
    last, status = task.level - 1, None
    records: list[Block] = []
    early: list[States] = []
    for item in items:
        match item:
            case PartStatus():
                status = item if item.level == last else status
            case Block(kind=Kind.RECORDS):
                records += [item] if item.level == last else []
            case Block(kind=kind, level=level) if kind == Kind.STATES or level == last:
                early = _put_back(cached.part, [*early, read_block(item, cached.part.word_count)])
    assert status is not None and not early, "blocks of the part are missing"
    cached.level = last
    return RebuiltPart(cached, status, sorted(records, key=lambda block: (block.sender, block.place)))


def _open(task: LevelTask, number: int) -> CachedPart:
    """Returns the part with only the states of the checkpoint that the run continues."""
    opened = task.assignment.open_part(task.assignment, number)
    assert isinstance(opened.part, Part)
    if task.resumed is not None:
        load_part(opened.part, task.resumed.folder, task.resumed.parts[number])
    return CachedPart(opened, opened.part, 0)


def count_orbits(task: LevelTask, number: int, items: Iterable[Item]) -> Iterator[int]:
    """Returns how many states those of the part represent, by symmetry."""
    cached = rebuild(task, number, items).cached
    yield cached.part.count_orbits()
    _CACHE.put(cached)


def _put_back(part: Part, waiting: list[States]) -> list[States]:
    """Adds the states that follow those in the part; returns those that do not follow yet."""
    for states in sorted(waiting, key=lambda one: one.first):
        if states.first > part.state_count:
            break
        known = part.state_count - states.first
        if known < len(states.parents):
            rows = states.rows[known * part.word_count :]
            part.put_back(rows, states.parents[known:], states.owners[known:])
    return [states for states in waiting if states.end > part.state_count]


def _begin_level(task: LevelTask, rebuilt: RebuiltPart) -> PartStatus:
    """Takes in what others have sent, which completes the level; saves it if that is due."""
    part, before = rebuilt.cached.part, rebuilt.status
    for kind in task.unwatched:
        part.answer(Unwatch(kind))
    saved, saved_count = before.saved, before.saved_count
    if before.level == 0 and task.resumed is not None:
        saved_count = part.state_count
    part.resume_from(before.begun, before.report.totals)
    for block in rebuilt.records:
        part.take_in(block.sender, block.payload)
    absorbed = tuple(part.take_hits())
    part.resume_from(before.begun, part.level_report().totals)
    if task.saves_to is not None:
        part.saved = saved_count
        try:
            saved = save_part(part, task.saves_to, task.depth, saved.files)
        except OSError as error:
            raise DiskFullError(str(error)) from error
        saved_count = part.state_count
    return PartStatus(
        task.level,
        part.number,
        size=part.state_count - before.begun,
        begun=part.state_count,
        absorbed=absorbed,
        saved=saved,
        saved_count=saved_count,
    )


def _expand(part: Part, level: int) -> Iterator[tuple[int, Block]]:
    """Expands the level; returns the records for others, in the order in which they are found."""
    place, reason = 0, partition.QUANTUM
    while reason != partition.LEVEL:
        reason = part.work()
        if reason == partition.QUANTUM:
            continue  # so that blocks are large
        for other in range(part.count):
            records = b"" if other == part.number else part.outbox(other)
            if records:
                yield other, Block(Kind.RECORDS, level, part.number, place, records)
                place += 1


def _blocks(part: Part, kind: Kind, level: int, first: int) -> Iterator[Addressed]:
    """Returns the states from an index on, as blocks for the part itself."""
    part.saved = first
    rows, parents, owners = part.unsaved()
    for begin in range(0, len(parents), BLOCK_STATES):
        some = slice(begin, begin + BLOCK_STATES)
        payload = rows[some].tobytes() + parents[some].tobytes() + owners[some].tobytes()
        yield part.number, Block(kind, level, part.number, first + begin, payload)
