"""A worker's part of a state space: the native loops and their memory, independent of the transport."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from veristream.kernel.layout import Row
from veristream.search.memory import OutOfMemoryError, Reserve, Spill, reserve, spill
from veristream.search.reach import expand as native
from veristream.search.reach import partition
from veristream.search.reach.expand import Code, next_level
from veristream.search.reach.explore import Exploration, Plan, prepare
from veristream.search.reach.partition import Sharing, absorb, owner_of, record_size, restore, scatter
from veristream.search.reach.visited import ROOT, fingerprint
from veristream.search.session import Hit
from veristream.search.shared.checkpoint import read_states, write_states
from veristream.search.shared.messages import (
    Answer,
    Best,
    Count,
    Counters,
    CountOrbits,
    Done,
    FoundState,
    LevelReport,
    LookReport,
    Question,
    SavedPart,
    StateRef,
    Totals,
    Unwatch,
)

OUTBOX_BYTES = 1 << 20
LATELY = 1 << 16
QUANTUM = 1 << 14
CLAIMED_STATES = 1 << 18
"""How many states to reserve disk space for at a time."""


class Part:
    """The states of one of `count` parts."""

    def __init__(
        self,
        code: Code,
        word_count: int,
        plan: Plan,
        number: int,
        count: int,
        memory_max_mib: int | None = None,
        spill_folder: str | None = None,
    ) -> None:
        self.number, self.count, self.word_count = number, count, word_count
        self.exploration: Exploration = prepare(code, word_count, plan, 1, memory_max_mib, spill_folder)
        size = 2 * self.exploration.arena_size
        self.owners: Reserve | Spill = reserve(size) if spill_folder is None else spill(size, spill_folder)
        if spill_folder is not None:
            self.exploration.work.control[native.ARENA_SIZE] = 0  # no disk space is reserved yet
        self.saved = 0  # states that are in checkpoints
        self.orbit = 0  # the kernel's code that counts the states that one represents
        self._saved = SavedPart()
        self._forgotten = 0
        self.hits: list[Hit] = []
        self.edges = np.zeros(partition.EDGE_CONTROL, np.int64)
        self.edges[partition.EDGE_LIMIT] = 1 << 62
        self._sharing = self._make_sharing()

    @property
    def record(self) -> int:
        """Words of a record."""
        return record_size(self.word_count, self.edges)

    def _make_sharing(self) -> Sharing:
        record = self.record
        own = self.exploration.own[0]
        room = max(OUTBOX_BYTES // (8 * record), 4 * own.out_actions.size) * record
        return Sharing(
            self.number,
            self.count,
            self.owners.address,
            np.zeros(self.count * room, np.int64),
            np.zeros(self.count, np.int64),
            np.zeros(LATELY * record, np.int64),
            np.zeros(partition.SHARING_TALLY, np.int64),
            self.edges,
        )

    def seed(self, initial: Row) -> bool:
        """Takes the initial state if it belongs to this part; returns whether it does."""
        row = initial.view(np.int64).copy()
        address = int(row.ctypes.data)
        if owner_of(fingerprint(address, self.word_count), self.count) != self.number:
            return False
        record = np.zeros(self.record, np.int64)
        record[: len(row)], record[len(row)] = row, ROOT
        self.take_in(self.number, record.tobytes())
        return True

    def work(self, quantum: int = QUANTUM) -> int:
        """Expands states of the level; returns `partition`'s QUANTUM, LEVEL or FULL_OUTBOX.

        Raises OutOfMemoryError and DiskFullError.
        """
        exploration = self.exploration
        while True:
            own = exploration.own[0]
            store = exploration.store()
            reason = scatter(exploration.code, store, exploration.work, own, self._sharing, quantum)
            exploration.collect(own)
            match reason:
                case partition.NEED_BUFFER if self._sharing.used.any():
                    return partition.FULL_OUTBOX  # outboxes are emptied before buffers grow
                case partition.NEED_BUFFER:
                    exploration.enlarge_buffers()
                    self._make_room_in_outboxes()
                case partition.NEED_TABLE:
                    exploration.grow_table()
                case partition.NEED_ARENA:
                    self._extend(own.out_actions.size)
                case partition.NEED_EDGES:
                    self._extend_edges(own.out_actions.size)
                case _:
                    self._check_budget()
                    return int(reason)

    def _make_room_in_outboxes(self) -> None:
        """Enlarges the outboxes, which must hold what a few states send."""
        tally = self._sharing.tally
        self._sharing = self._make_sharing()._replace(tally=tally)

    def _extend(self, more: int) -> None:
        """Makes room for more states; raises OutOfMemoryError and DiskFullError."""
        exploration = self.exploration
        if self.state_count + more > exploration.arena_size:
            raise OutOfMemoryError
        room = min(self.state_count + more + CLAIMED_STATES, exploration.arena_size)
        for array, size in self._files():
            array.claim(size * room)
        exploration.work.control[native.ARENA_SIZE] = room

    def _make_room(self) -> None:
        """Makes room for edges, states or the table, whichever is full."""
        if self.edges[partition.EDGE_COUNT] + 1 > self.edges[partition.EDGE_LIMIT]:
            self._extend_edges(1)
        elif self.state_count + 1 > self.exploration.work.control[native.ARENA_SIZE]:
            self._extend(1)
        else:
            self.exploration.grow_table()

    def _extend_edges(self, more: int) -> None:
        """Makes room for more edges; raises OutOfMemoryError and DiskFullError."""
        raise OutOfMemoryError

    def _files(self) -> list[tuple[Spill, int]]:
        memory = self.exploration.memory
        arrays = ((memory.rows, 8 * self.word_count), (memory.parents, 4), (self.owners, 2))
        return [(array, size) for array, size in arrays if isinstance(array, Spill)]

    def _check_budget(self) -> None:
        """Raises OutOfMemoryError if the budget is exceeded; evicts states that are in files instead."""
        exploration = self.exploration
        files = self._files()
        if not files:
            if self.byte_count > exploration.budget:
                raise OutOfMemoryError
            return
        table = exploration.memory.table.byte_count
        if table > exploration.budget:
            raise OutOfMemoryError
        kept = (self.state_count - self._forgotten) * sum(size for _, size in files)
        if table + kept > exploration.budget:
            for array, size in files:
                array.forget(0, size * self.state_count)
            self._forgotten = self.state_count

    def outbox(self, part: int) -> bytes:
        """Removes and returns the records for another part."""
        room = self._sharing.outboxes.size // self.count
        used = int(self._sharing.used[part]) * self.record
        self._sharing.used[part] = 0
        first = part * room
        return self._sharing.outboxes[first : first + used].tobytes()

    def take_in(self, sender: int, records: bytes) -> None:
        """Adds the records of another part that are new here; raises OutOfMemoryError."""
        words = np.frombuffer(records, np.int64)
        size = self.record
        count, taken = len(words) // size, 0
        exploration = self.exploration
        while taken < count:
            address = int(words.ctypes.data) + 8 * size * taken
            store = exploration.store()
            args = (self._sharing, address, count - taken, sender)
            taken += absorb(exploration.code, store, exploration.work, exploration.own[0], *args)
            if taken < count:
                self._make_room()
        exploration.collect(exploration.own[0])
        self._check_budget()

    def end_level(self) -> int:
        """Makes the states found the level to expand; returns its size."""
        return int(next_level(self.exploration.work))

    @property
    def state_count(self) -> int:
        return self.exploration.state_count

    @property
    def byte_count(self) -> int:
        return self.exploration.byte_count

    @property
    def sent(self) -> int:
        """Records sent to other parts."""
        return int(self._sharing.tally[partition.SENT])

    def take_hits(self) -> list[Hit]:
        """Removes and returns the hits since the last call."""
        found = list(self.exploration.hits)
        self.exploration.hits.clear()
        return found

    def row(self, index: int) -> Row:
        return self.exploration.row(index)

    def parent(self, index: int) -> StateRef | None:
        """Returns the state that another one was found from; None for the initial state."""
        found = int(self.exploration.memory.parent_indices[index])
        if found == ROOT:
            return None
        return StateRef(int(self.owners.words.view(np.uint16)[index]), found)

    def unsaved(self) -> tuple[NDArray[np.int64], NDArray[np.uint32], NDArray[np.uint16]]:
        """Returns rows, parents' indices and parents' parts of the states that are in no checkpoint yet."""
        memory, first, last = self.exploration.memory, self.saved, self.state_count
        return (
            memory.rows.words[first * self.word_count : last * self.word_count].reshape(
                -1, self.word_count
            ),
            memory.parent_indices[first:last],
            self.owners.words.view(np.uint16)[first:last],
        )

    def put_back(
        self, rows: NDArray[np.int64], parents: NDArray[np.uint32], owners: NDArray[np.uint16]
    ) -> None:
        """Adds states of a checkpoint, in their order; raises OutOfMemoryError."""
        taken, count = 0, len(parents)
        exploration = self.exploration
        while taken < count:
            first = int(rows[taken * self.word_count :].ctypes.data)
            beside = int(parents[taken:].ctypes.data), int(owners[taken:].ctypes.data)
            args = (self._sharing, first, *beside, count - taken)
            taken += restore(exploration.store(), exploration.work, *args)
            if taken < count:
                self._make_room()
        self.saved = self.state_count

    def resume_from(self, frontier: int, totals: Totals) -> None:
        """Makes the states from `frontier` on the level to expand."""
        work, own = self.exploration.work, self.exploration.own[0]
        work.cursors[0], work.ends[0] = frontier, self.state_count
        own.tally[native.TRANSITIONS], own.tally[native.SEEN] = totals.transitions, totals.seen
        best = [(one.value, one.index) for one in totals.best]
        own.best[:] = np.array(best, np.int64).reshape(own.best.shape)

    def accept(self, count: int, blob: bytes) -> None:
        """Adds states that the driver found, in their order; raises OutOfMemoryError."""
        rows = np.frombuffer(blob, np.int64, count * self.word_count)
        parents = np.frombuffer(blob, np.uint32, count, rows.nbytes)
        owners = np.frombuffer(blob, np.uint16, count, rows.nbytes + parents.nbytes)
        self.put_back(rows, parents, owners)

    def take_over(self, frontier: int, totals: Totals) -> None:
        """Makes the accepted states from `frontier` on the level to expand; none is in a checkpoint yet."""
        self.saved = 0
        self.resume_from(frontier, totals)

    def save(self, folder: str, level: int) -> SavedPart:
        """Writes what was found since the last checkpoint; raises OSError."""
        self._saved = save_part(self, folder, level, self._saved.files)
        return self._saved

    def load(self, folder: str, saved: SavedPart) -> None:
        """Reads what was saved; raises OSError and OutOfMemoryError."""
        self._saved = saved
        load_part(self, folder, saved)

    def report(self) -> LevelReport | LookReport:
        """Returns what the driver needs to know at the end of a level."""
        return self.level_report()

    def level_report(self) -> LevelReport:
        """Returns counters, best values, bytes on disk, and the hits since the last report."""
        spilled = self.state_count * sum(size for _, size in self._files())
        return LevelReport(self.counters(), self.best(), tuple(self.take_hits()), spilled)

    def best(self) -> tuple[Best, ...]:
        """Returns the best value of each measure."""
        return tuple(Best(value, index) for value, index in self.exploration.own[0].best.tolist())

    def describe(self, index: int) -> FoundState:
        """Returns the row of a state and the state that it was found from."""
        return FoundState(tuple(int(word) for word in self.row(index)), self.parent(index))

    def answer(self, question: Question) -> Answer:
        """Stops watching for a kind of hit, or counts the states that those here represent."""
        match question:
            case Unwatch(kind):
                self.exploration.unwatch(kind)
                return Done()
            case CountOrbits():
                return Count(self.count_orbits())
            case _:
                raise AssertionError(f"unexpected question: {question}")

    def count_orbits(self) -> int:
        """Returns how many states those here represent, by symmetry."""
        return self.exploration.count_orbits(self.orbit)

    @property
    def frontier(self) -> int:
        """The first state of the level to expand."""
        return int(self.exploration.work.cursors[0])

    def counters(self) -> Counters:
        found = self.exploration
        return Counters(
            found.state_count, found.counts.transitions, self.sent, int(found.seen), self.byte_count
        )


def save_part(part: Part, folder: str, level: int, files: tuple[str, ...]) -> SavedPart:
    """Writes what the part has found since the last checkpoint; raises OSError."""
    rows, parents, owners = part.unsaved()
    if len(parents):
        name = f"part-{part.number}-{level}.parquet"
        write_states(folder, name, rows, parents, owners)
        files = (*files, name)
        part.saved = part.state_count
    counters = part.counters()
    return SavedPart(files, part.frontier, Totals(counters.transitions, counters.seen, part.best()))


def load_part(part: Part, folder: str, saved: SavedPart) -> None:
    """Reads what the part had saved; raises OSError and OutOfMemoryError."""
    for name in saved.files:
        part.put_back(*read_states(folder, name, part.word_count))
    part.resume_from(saved.frontier, saved.totals)
