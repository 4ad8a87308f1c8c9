"""A worker's part of a state space: the native loops with their memory, whatever carries the records."""

from __future__ import annotations

from dataclasses import asdict, dataclass

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
from veristream.search.shared.checkpoint import Saved, read_saved, read_states, write_states
from veristream.search.shared.contract import Value

OUTBOX_BYTES = 1 << 20
LATELY = 1 << 16
QUANTUM = 1 << 14
CLAIMED_STATES = 1 << 18
"""How many states room on disk is claimed for at a time."""


@dataclass(frozen=True, slots=True)
class Parent:
    """Where a state was found from: a state of a part; None for the initial one."""

    part: int
    index: int


class Part:
    """The states of one part out of `count`."""

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
            self.exploration.work.control[native.ARENA_SIZE] = 0  # nothing is claimed yet
        self.saved = 0  # states that are in checkpoints
        self.orbit = 0  # the kernel's code that counts the states that one stands for
        self._saved = Saved()
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
        """Takes the initial state if it belongs here."""
        row = initial.view(np.int64).copy()
        address = int(row.ctypes.data)
        if owner_of(fingerprint(address, self.word_count), self.count) != self.number:
            return False
        record = np.zeros(self.record, np.int64)
        record[: len(row)], record[len(row)] = row, ROOT
        self.take_in(self.number, record.tobytes())
        return True

    def work(self, quantum: int = QUANTUM) -> int:
        """Expands states of the level; gives `partition`'s reason for coming back, which only is QUANTUM,
        LEVEL or FULL_OUTBOX. Raises OutOfMemoryError."""
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
        """Outboxes must hold what a few states send."""
        tally = self._sharing.tally
        self._sharing = self._make_sharing()._replace(tally=tally)

    def _extend(self, more: int) -> None:
        """Makes room for so many more states; raises OutOfMemoryError and DiskFullError."""
        exploration = self.exploration
        if self.state_count + more > exploration.arena_size:
            raise OutOfMemoryError
        room = min(self.state_count + more + CLAIMED_STATES, exploration.arena_size)
        for array, size in self._files():
            array.claim(size * room)
        exploration.work.control[native.ARENA_SIZE] = room

    def _make_room(self) -> None:
        """More room for edges, for states, or for the table, whichever is lacking."""
        if self.edges[partition.EDGE_COUNT] + 1 > self.edges[partition.EDGE_LIMIT]:
            self._extend_edges(1)
        elif self.state_count + 1 > self.exploration.work.control[native.ARENA_SIZE]:
            self._extend(1)
        else:
            self.exploration.grow_table()

    def _extend_edges(self, more: int) -> None:
        """Makes room for so many more edges; raises OutOfMemoryError and DiskFullError."""
        raise OutOfMemoryError

    def _files(self) -> list[tuple[Spill, int]]:
        memory = self.exploration.memory
        arrays = ((memory.rows, 8 * self.word_count), (memory.parents, 4), (self.owners, 2))
        return [(array, size) for array, size in arrays if isinstance(array, Spill)]

    def _check_budget(self) -> None:
        """Raises OutOfMemoryError; states in files are let go of instead."""
        exploration = self.exploration
        files = self._files()
        if not files:
            if self.byte_count > exploration.budget:
                raise OutOfMemoryError
            return
        table = 8 * exploration.memory.slot_count
        if table > exploration.budget:
            raise OutOfMemoryError
        kept = (self.state_count - self._forgotten) * sum(size for _, size in files)
        if table + kept > exploration.budget:
            for array, size in files:
                array.forget(size * self.state_count)
            self._forgotten = self.state_count

    def outbox(self, part: int) -> bytes:
        """Takes the records that wait for another part."""
        room = self._sharing.outboxes.size // self.count
        used = int(self._sharing.used[part]) * self.record
        self._sharing.used[part] = 0
        first = part * room
        return self._sharing.outboxes[first : first + used].tobytes()

    def take_in(self, sender: int, records: bytes) -> None:
        """Keeps the records of another part that are new here; raises OutOfMemoryError."""
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
        """Makes what was found the level to expand; gives its size."""
        return int(next_level(self.exploration.work))

    @property
    def state_count(self) -> int:
        """States found."""
        return self.exploration.state_count

    @property
    def byte_count(self) -> int:
        """Memory in use."""
        return self.exploration.byte_count

    @property
    def sent(self) -> int:
        """Records sent to other parts."""
        return int(self._sharing.tally[partition.SENT])

    def take_hits(self) -> list[Hit]:
        """What was noted since the last time."""
        found = list(self.exploration.hits)
        self.exploration.hits.clear()
        return found

    def row(self, index: int) -> Row:
        """The row of a state."""
        return self.exploration.row(index)

    def parent(self, index: int) -> Parent | None:
        """Where a state was found from."""
        found = int(self.exploration.memory.parents.words.view(np.uint32)[index])
        if found == ROOT:
            return None
        return Parent(int(self.owners.words.view(np.uint16)[index]), found)

    def unsaved(self) -> tuple[NDArray[np.int64], NDArray[np.uint32], NDArray[np.uint16]]:
        """Rows, parents' indices and parents' parts of the states that are in no checkpoint yet."""
        memory, first, last = self.exploration.memory, self.saved, self.state_count
        return (
            memory.rows.words[first * self.word_count : last * self.word_count].reshape(
                -1, self.word_count
            ),
            memory.parents.words.view(np.uint32)[first:last],
            self.owners.words.view(np.uint16)[first:last],
        )

    def put_back(
        self, rows: NDArray[np.int64], parents: NDArray[np.uint32], owners: NDArray[np.uint16]
    ) -> None:
        """Takes states of a checkpoint, in their order; raises OutOfMemoryError."""
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

    def go_on_from(self, frontier: int, transitions: int, seen: int, best: list[list[int]]) -> None:
        """Makes the states from `frontier` on the level to expand, after a checkpoint was read."""
        work, own = self.exploration.work, self.exploration.own[0]
        work.cursors[0], work.ends[0] = frontier, self.state_count
        own.tally[native.TRANSITIONS], own.tally[native.SEEN] = transitions, seen
        own.best[:] = np.array(best, np.int64).reshape(own.best.shape)

    def accept(self, count: int, blob: bytes) -> None:
        """Takes states that were found elsewhere, in their order; raises OutOfMemoryError."""
        rows = np.frombuffer(blob, np.int64, count * self.word_count)
        parents = np.frombuffer(blob, np.uint32, count, rows.nbytes)
        owners = np.frombuffer(blob, np.uint16, count, rows.nbytes + parents.nbytes)
        self.put_back(rows, parents, owners)

    def go_on(self, frontier: int, told: Value) -> None:
        """Makes the states from `frontier` on, of those that were taken, the level to expand."""
        self.saved = 0
        self.go_on_from(frontier, told["transitions"], told["seen"], told["best"])

    def save(self, folder: str, level: int) -> Value:
        """Writes what was found since the last checkpoint; raises OSError."""
        self._saved = save_part(self, folder, level, self._saved.files)
        return asdict(self._saved)

    def load(self, folder: str, saved: Value) -> None:
        """Reads what was saved; raises OSError and OutOfMemoryError."""
        self._saved = read_saved(saved)
        load_part(self, folder, self._saved)

    def report(self) -> Value:
        """Counters, best values, hits and bytes on disk, for the driver at the end of a level."""
        hits = [[hit.kind, hit.source, hit.other] for hit in self.take_hits()]
        best = self.exploration.own[0].best.tolist()
        spilled = self.state_count * sum(size for _, size in self._files())
        return {"numbers": self.numbers().tolist(), "best": best, "hits": hits, "spilled_bytes": spilled}

    def tell(self, index: int) -> Value:
        """The row of a state and where it was found from."""
        parent = self.parent(index)
        where = None if parent is None else [parent.part, parent.index]
        return {"row": [int(word) for word in self.row(index)], "parent": where}

    def hear(self, question: Value) -> Value:
        """Stops watching for a kind of hit, or counts the states that those here stand for."""
        match question:
            case {"unwatch": kind}:
                self.exploration.unwatch(kind)
                return {}
            case {"count": "orbits"}:
                return {"orbits": self.exploration.count_orbits(self.orbit)}
            case _:
                raise AssertionError(f"the driver asks {question}")

    @property
    def frontier(self) -> int:
        """The first state of the level to expand."""
        return int(self.exploration.work.cursors[0])

    def numbers(self) -> NDArray[np.int64]:
        """Counters: states, transitions, records sent, the propositions seen, bytes in use."""
        exploration = self.exploration
        return np.array(
            [
                exploration.state_count,
                exploration.counts.transitions,
                self.sent,
                exploration.seen,
                self.byte_count,
            ],
            np.int64,
        )


def save_part(part: Part, folder: str, level: int, files: tuple[str, ...]) -> Saved:
    """Writes what the part has found since the last checkpoint; raises OSError."""
    rows, parents, owners = part.unsaved()
    if len(parents):
        name = f"part-{part.number}-{level}.parquet"
        write_states(folder, name, rows, parents, owners)
        files = (*files, name)
        part.saved = part.state_count
    numbers = part.numbers()
    best = tuple(tuple(map(int, one)) for one in part.exploration.own[0].best)
    return Saved(files, part.frontier, int(numbers[1]), int(numbers[3]), best)


def load_part(part: Part, folder: str, saved: Saved) -> None:
    """Reads what the part had saved; raises OSError and OutOfMemoryError."""
    for name in saved.files:
        part.put_back(*read_states(folder, name, part.word_count))
    part.go_on_from(saved.frontier, saved.transitions, saved.seen, [list(one) for one in saved.best])
