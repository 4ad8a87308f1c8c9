"""One part's turn at a level, where no worker stays between two levels.

Between two levels a part is blocks of bytes that somebody else keeps: the states that were found level by
level, and the records that other parts have sent. A turn makes the part again from these, or goes on with
the one that an earlier turn left in this process; it takes the records in, expands the level, and gives new
blocks. Whatever process takes it, and however often, a turn gives the same states: records are taken in the
order of their senders, so a state has the same index always.
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
from veristream.search.shared.assignment import Opened, Order
from veristream.search.shared.checkpoint import read_states
from veristream.search.shared.messages import Counters, LevelReport, SavedPart, Totals, Unwatch
from veristream.search.shared.state_part import Part, load_part, save_part

BLOCK_STATES = 1 << 18
LEFT_BYTES_MAX = 1 << 30
"""Where the parts that turns left in this process have more memory than this, only the last one stays."""

NOT_SAVED = SavedPart()
NO_REPORT = LevelReport()


class Kind(IntEnum):
    """What is in a block: states of levels that have begun; states of the next one that a part found by
    itself, which its next block of states will have too; records for another part."""

    STATES = 0
    AHEAD = 1
    RECORDS = 2


class Block(NamedTuple):
    """Bytes that a part gave at its turn at a level; `place` is the index of the first state, or the
    number of a block of records."""

    kind: Kind
    level: int
    sender: int
    place: int
    payload: bytes


@dataclass(frozen=True, slots=True)
class Standing:
    """What a part says after its turn at a level."""

    level: int
    part: int
    size: int = 0  # states of the level
    begun: int = 0  # states of this level and of those before it: where the next one begins
    report: LevelReport = NO_REPORT
    absorbed: tuple[Hit, ...] = ()  # hits in states of the level; those of the report are one level deeper
    sent: int = 0  # records for others, at all turns so far
    saved: SavedPart = NOT_SAVED  # the last checkpoint
    saved_count: int = 0  # states in it
    failure: str | None = None  # empty: no memory is left; else why a disk cannot be written to


Item = Block | Standing
Sent = tuple[int, Item]
"""An item and the part that it is for."""


@dataclass(frozen=True, slots=True)
class Resumed:
    """The checkpoint that a run began from."""

    folder: str
    parts: tuple[SavedPart, ...]


@dataclass(frozen=True, slots=True)
class Turn:
    """What all parts of a run are to do at a level; levels are counted from 1 here."""

    run: str
    order: Order
    level: int
    depth: int = 0  # the level's number in the whole search
    unwatched: tuple[int, ...] = ()
    resumed: Resumed | None = None
    saves_to: str | None = None  # a folder, where a checkpoint is due


@dataclass(slots=True)
class Left:
    """A part as a turn at a level left it; its kernel lives as long as `opened`."""

    opened: Opened
    part: Part
    level: int


@dataclass(slots=True)
class Leftovers:
    """The parts of one run that turns left in this process. They spare work; nothing else depends on
    them."""

    run: str = ""
    parts: dict[int, Left] = field(default_factory=dict)

    def take(self, turn: Turn, number: int) -> Left | None:
        """The part, unless it has gone as far as this turn already."""
        if self.run != turn.run:
            self.run = turn.run
            self._drop(list(self.parts))
        if number in self.parts and self.parts[number].level >= turn.level:
            self._drop([number])
        return self.parts.pop(number, None)

    def put(self, left: Left) -> None:
        """Leaves a part for a later turn."""
        self.parts[left.part.number] = left
        if sum(one.part.byte_count for one in self.parts.values()) > LEFT_BYTES_MAX:
            self._drop([number for number in self.parts if number != left.part.number])

    def _drop(self, numbers: list[int]) -> None:
        for number in numbers:
            part = self.parts.pop(number).part
            for array in (part.owners, part.exploration.memory.rows, part.exploration.memory.parents):
                if isinstance(array, Spill):
                    array.close()


_LEFT = Leftovers()


@dataclass(frozen=True, slots=True)
class States:
    """States of a part that follow each other, from an index on."""

    first: int
    rows: NDArray[np.int64]
    parents: NDArray[np.uint32]
    owners: NDArray[np.uint16]

    @property
    def end(self) -> int:
        """The index after the last one."""
        return self.first + len(self.parents)


def first_standing(part: int, frontier: int, totals: Totals, saved: SavedPart = NOT_SAVED) -> Standing:
    """Returns the standing of a part that begins with known states, of a checkpoint or handed over."""
    counters = Counters(transitions=totals.transitions, seen=totals.seen)
    return Standing(0, part, begun=frontier, report=LevelReport(counters, totals.best), saved=saved)


def read_block(block: Block, width: int) -> States:
    """The states of a block, whose rows have so many words."""
    count = len(block.payload) // (8 * width + 6)
    rows = np.frombuffer(block.payload, np.int64, count * width)
    parents = np.frombuffer(block.payload, np.uint32, count, rows.nbytes)
    owners = np.frombuffer(block.payload, np.uint16, count, rows.nbytes + parents.nbytes)
    return States(block.place, rows, parents, owners)


def read_all(number: int, items: Iterable[Item], width: int, resumed: Resumed | None) -> Iterator[States]:
    """All states of a part, those that the next level begins with included; some may come twice."""
    first = 0
    for name in () if resumed is None else resumed.parts[number].files:
        assert resumed is not None
        states = States(first, *read_states(resumed.folder, name, width))
        first = states.end
        yield states
    for item in items:
        if isinstance(item, Block) and item.kind != Kind.RECORDS:
            yield read_block(item, width)


def take_turn(turn: Turn, number: int, items: Iterable[Item]) -> Iterator[Sent]:
    """What a part gives at its turn: blocks, and at the end its standing."""
    try:
        rebuilt = rebuild(turn, number, items)
        part, standing = rebuilt.left.part, _begin_level(turn, rebuilt)
        yield from _blocks(part, Kind.STATES, turn.level, rebuilt.standing.begun)
        sent = rebuilt.standing.sent
        for other, block in _expand(part, turn.level):
            sent += len(block.payload) // (8 * part.record)
            yield other, block
        yield from _blocks(part, Kind.AHEAD, turn.level, standing.begun)
    except OutOfMemoryError:
        yield number, Standing(turn.level, number, failure="")
    except DiskFullError as error:
        yield number, Standing(turn.level, number, failure=str(error))
    else:
        yield number, replace(standing, report=part.level_report(), sent=sent)
        rebuilt.left.level = turn.level
        _LEFT.put(rebuilt.left)


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """A part as it was after its last turn, what it said then, and what others have sent it since."""

    left: Left
    standing: Standing
    records: list[Block]


def rebuild(turn: Turn, number: int, items: Iterable[Item]) -> Rebuilt:
    """The part as it was before the turn. All items are read, whether they are needed or not: Spark does
    not use a process again that leaves some."""
    left = _LEFT.take(turn, number) or _open(turn, number)
    last, standing = turn.level - 1, None
    records: list[Block] = []
    early: list[States] = []
    for item in items:
        match item:
            case Standing():
                standing = item if item.level == last else standing
            case Block(kind=Kind.RECORDS):
                records += [item] if item.level == last else []
            case Block(kind=kind, level=level) if kind == Kind.STATES or level == last:
                early = _put_back(left.part, [*early, read_block(item, left.part.word_count)])
    assert standing is not None and not early, "blocks of the part are missing"
    left.level = last
    return Rebuilt(left, standing, sorted(records, key=lambda block: (block.sender, block.place)))


def _open(turn: Turn, number: int) -> Left:
    """The part with nothing in it but the checkpoint that the run began from."""
    opened = turn.order.open_part(turn.order, number)
    assert isinstance(opened.part, Part)
    if turn.resumed is not None:
        load_part(opened.part, turn.resumed.folder, turn.resumed.parts[number])
    return Left(opened, opened.part, 0)


def count_orbits(turn: Turn, number: int, items: Iterable[Item]) -> Iterator[int]:
    """How many states those of the part stand for, by symmetry."""
    left = rebuild(turn, number, items).left
    yield left.part.count_orbits()
    _LEFT.put(left)


def _put_back(part: Part, waiting: list[States]) -> list[States]:
    """Puts states into the part as far as they follow those in it; gives those that do not yet."""
    for states in sorted(waiting, key=lambda one: one.first):
        if states.first > part.state_count:
            break
        known = part.state_count - states.first
        if known < len(states.parents):
            rows = states.rows[known * part.word_count :]
            part.put_back(rows, states.parents[known:], states.owners[known:])
    return [states for states in waiting if states.end > part.state_count]


def _begin_level(turn: Turn, rebuilt: Rebuilt) -> Standing:
    """Takes in what others have sent, so that the level is whole; saves it where that is due."""
    part, before = rebuilt.left.part, rebuilt.standing
    for kind in turn.unwatched:
        part.answer(Unwatch(kind))
    saved, saved_count = before.saved, before.saved_count
    if before.level == 0 and turn.resumed is not None:
        saved_count = part.state_count
    part.resume_from(before.begun, before.report.totals)
    for block in rebuilt.records:
        part.take_in(block.sender, block.payload)
    absorbed = tuple(part.take_hits())
    part.resume_from(before.begun, part.level_report().totals)
    if turn.saves_to is not None:
        part.saved = saved_count
        try:
            saved = save_part(part, turn.saves_to, turn.depth, saved.files)
        except OSError as error:
            raise DiskFullError(str(error)) from error
        saved_count = part.state_count
    return Standing(
        turn.level,
        part.number,
        size=part.state_count - before.begun,
        begun=part.state_count,
        absorbed=absorbed,
        saved=saved,
        saved_count=saved_count,
    )


def _expand(part: Part, level: int) -> Iterator[tuple[int, Block]]:
    """Expands the level; gives the records that it finds for others, in the order in which it does."""
    place, reason = 0, partition.QUANTUM
    while reason != partition.LEVEL:
        reason = part.work()
        if reason == partition.QUANTUM:
            continue  # blocks are to be large
        for other in range(part.count):
            records = b"" if other == part.number else part.outbox(other)
            if records:
                yield other, Block(Kind.RECORDS, level, part.number, place, records)
                place += 1


def _blocks(part: Part, kind: Kind, level: int, first: int) -> Iterator[Sent]:
    """The states from an index on, as blocks that come back to the part itself."""
    part.saved = first
    rows, parents, owners = part.unsaved()
    for begin in range(0, len(parents), BLOCK_STATES):
        some = slice(begin, begin + BLOCK_STATES)
        payload = rows[some].tobytes() + parents[some].tobytes() + owners[some].tobytes()
        yield part.number, Block(kind, level, part.number, first + begin, payload)
