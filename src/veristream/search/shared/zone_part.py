"""A worker's part of a zone search: the native loops and their memory, independent of the transport."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from veristream.ir.text.printer import print_network
from veristream.kernel.layout import Row
from veristream.search.memory import OutOfMemoryError, reserve
from veristream.search.reach import partition
from veristream.search.reach.partition import owner_of
from veristream.search.reach.visited import ROOT, fingerprint
from veristream.search.session import Hit
from veristream.search.shared.assignment import Assignment, Opened, digest_of, only_with
from veristream.search.shared.codec import decode, encode
from veristream.search.shared.messages import (
    Answer,
    AskRoom,
    Best,
    Counters,
    Done,
    FoundState,
    LevelReport,
    Question,
    Room,
    SavedPart,
    StateRef,
    Totals,
    Unwatch,
    ZoneProgress,
)
from veristream.search.zones import expand as native
from veristream.search.zones import kept
from veristream.search.zones import partition as sharing
from veristream.search.zones.expand import absorb_zones, scatter_zones
from veristream.search.zones.explore import MODEL_FAILS, Pace, ZoneExploration
from veristream.search.zones.inquiry import Inquiry, inquire, pose
from veristream.search.zones.partition import ZoneSharing, record_words, zone_words
from veristream.search.zones.records import pack, read_nodes, restore_zones, write_nodes

OUTBOX_BYTES = 1 << 20
LATELY_BYTES = 4 << 20

HIT_BITS = 48
"""Bits of a node's index, including the number of its part."""

NO_ACTION_TOLD = 0xFFFFFFFF
"""Reported instead of an action if a state itself fails: reported indices are not negative."""


class ZonePart:
    """The discrete states of one of `count` parts, with all their zones."""

    def __init__(self, exploration: ZoneExploration, number: int, count: int) -> None:
        self.exploration, self.number, self.count = exploration, number, count
        self.word_count = exploration.shape.word_count
        self.record = int(record_words(self.word_count, exploration.shape.n))
        self.owners = reserve(2 * exploration.memory.node_count_max)
        self.pace = Pace()
        self._files: tuple[str, ...] = ()
        self._saved_count = 0  # nodes that are in checkpoints
        place = self.word_count + int(zone_words(exploration.shape.n)) + 1
        lately = np.zeros(max(LATELY_BYTES // (8 * place), 1) * place, np.int64)
        tally = np.zeros(sharing.SHARING_TALLY, np.int64)
        self._sharing = self._share(max(OUTBOX_BYTES // (8 * self.record), 1), lately, tally)

    def _share(self, room: int, lately: NDArray[np.int64], tally: NDArray[np.int64]) -> ZoneSharing:
        """Returns the native structure, with outboxes for `room` records each."""
        outboxes = np.zeros(self.count * room * self.record, np.int64)
        return ZoneSharing(
            self.number,
            self.count,
            self.owners.words.view(np.uint16),
            outboxes,
            outboxes.view(np.int32),
            np.zeros(self.count, np.int64),
            lately,
            lately.view(np.int32),
            tally,
        )

    @property
    def _room(self) -> int:
        """The number of records that an outbox holds."""
        return self._sharing.outboxes.size // (self.count * self.record)

    def seed(self, initial: Row) -> bool:
        """Takes the initial state if it belongs to this part; returns whether it does."""
        row = initial.view(np.int64).copy()
        if owner_of(fingerprint(int(row.ctypes.data), self.word_count), self.count) != self.number:
            return False
        self.exploration.begin(initial)
        return True

    def work(self) -> int:
        """Expands nodes of the level for a while; returns `partition`'s QUANTUM, LEVEL or FULL_OUTBOX."""
        exploration = self.exploration
        fresh = not self._sharing.used.any()
        while True:
            expanded = exploration.tally[kept.EXPANDED]
            with self.pace.kept():
                reason = scatter_zones(*exploration.native(), self._sharing, self.pace.count)
            match reason:
                case native.QUANTUM:
                    exploration.check_budget()
                    return partition.QUANTUM
                case native.COMPLETE | native.FAULT:
                    exploration.check_budget()
                    return partition.LEVEL
                case native.NEED_OUTBOX if fresh and expanded == exploration.tally[kept.EXPANDED]:
                    self._widen_outboxes()
                case native.NEED_OUTBOX:
                    return partition.FULL_OUTBOX
                case _:
                    exploration.make_room(reason)

    def _widen_outboxes(self) -> None:
        """Enlarges the outboxes for a node that fills one alone; what is in them is found again."""
        room = 2 * self._room
        if 8 * self.count * room * self.record > self.exploration.budget:
            raise OutOfMemoryError
        self._sharing = self._share(room, np.zeros_like(self._sharing.lately), self._sharing.tally)

    def outbox(self, part: int) -> bytes:
        """Removes and returns the records for another part."""
        first = part * self._room * self.record
        used = int(self._sharing.used[part]) * self.record
        self._sharing.used[part] = 0
        return self._sharing.outboxes[first : first + used].tobytes()

    def take_in(self, sender: int, records: bytes) -> None:
        """Adds the zones of another part that no zone here includes; raises OutOfMemoryError."""
        words = np.frombuffer(records, np.int64).copy()
        taken, count = 0, words.size // self.record
        exploration = self.exploration
        while taken < count:
            args = (self._sharing, words, words.view(np.int32), taken, sender)
            taken = absorb_zones(*exploration.native(), *args)
            if taken < count:
                exploration.make_room_for_one()
        exploration.check_budget()

    def end_level(self) -> int:
        """Makes the nodes found the level to expand; returns its size."""
        tally = self._sharing.tally
        tally[sharing.LEVEL_END] = self.exploration.state_count
        tally[sharing.COMING] += 1
        return self.exploration.counts.frontier

    def report(self) -> LevelReport:
        """Returns counters, best values and the hits since the last report."""
        exploration = self.exploration
        watched = exploration.watched
        depths = exploration.nodes.depths
        hits = [Hit(part, node, int(depths[node])) for node, part in watched.hits.tolist() if node >= 0]
        watched.hits[:] = -1
        node, action = watched.fault.tolist()
        if node >= 0:
            hits.append(Hit(MODEL_FAILS, node, NO_ACTION_TOLD if action < 0 else action))
        return LevelReport(self.counters(), self.best(), tuple(hits))

    def best(self) -> tuple[Best, ...]:
        """Returns the best value of each measure."""
        depths = self.exploration.nodes.depths
        rows = self.exploration.watched.best.tolist()
        return tuple(Best(value, node, asked, int(depths[node])) for value, node, asked in rows)

    def counters(self) -> Counters:
        exploration = self.exploration
        return Counters(
            exploration.counts.states,
            exploration.counts.transitions,
            int(self._sharing.tally[sharing.SENT]),
            0,  # hits report the propositions that were seen
            exploration.byte_count + 2 * exploration.state_count,
            exploration.discrete_count,
            exploration.is_shortest,
        )

    def describe(self, index: int) -> FoundState:
        """Returns the row of a node, its parent, and the step that led to it."""
        nodes = self.exploration.nodes
        parent = int(nodes.parents[index])
        where = None if parent == ROOT else StateRef(int(self._sharing.owners[index]), parent)
        row = tuple(int(word) for word in self.exploration.row(index))
        return FoundState(row, where, int(nodes.entries[index]))

    def answer(self, question: Question) -> Answer:
        """Stops asking for a case, which the driver names by a hit of it; or returns the room needed."""
        match question:
            case Unwatch(found):
                self.exploration.unwatch(found_of(found))
                return Done()
            case AskRoom():
                return Room(*self.exploration.room)
            case _:
                raise AssertionError(f"unexpected question: {question}")

    def _restore(self, count: int, blob: bytes) -> None:
        """Adds nodes of a checkpoint, in their order; raises OutOfMemoryError."""
        words = np.frombuffer(blob, np.int64).copy()
        exploration, taken = self.exploration, 0
        while taken < count:
            code, shape, store, nodes, tally, scratch, _ = exploration.native()
            args = (self._sharing.owners, words, words.view(np.int32), taken)
            taken = restore_zones(code, shape, scratch, store, nodes, tally, *args)
            if taken < count:
                exploration.make_room_for_one()
        exploration.check_budget()

    def _resume_from(self, frontier: int, progress: ZoneProgress) -> None:
        """Makes the restored nodes from `frontier` on the level to expand."""
        tally, watched = self.exploration.tally, self.exploration.watched
        tally[kept.EXPANDED], tally[kept.LEVEL] = frontier, progress.level - 1
        tally[kept.TRANSITIONS], tally[kept.SKEWED] = progress.transitions, not progress.is_shortest
        waiting = self.exploration.nodes.flags[frontier : self.exploration.state_count]
        tally[kept.AHEAD] = np.count_nonzero(waiting & kept.COVERED)
        best = [(one.value, one.index, one.asked) for one in progress.best]
        watched.best[:] = np.array(best, np.int64).reshape(watched.best.shape)
        self._sharing.tally[sharing.COMING] = progress.level
        self.end_level()

    def save(self, folder: str, level: int) -> SavedPart:
        """Writes what was found since the last checkpoint; raises OSError."""
        exploration = self.exploration
        fresh = np.arange(self._saved_count, exploration.state_count)
        if len(fresh):
            nodes, owners = exploration.nodes, self._sharing.owners
            records = pack(exploration, fresh, nodes.parents[fresh], owners[fresh])
            name = f"part-{self.number}-{level}.parquet"
            write_nodes(records, self.word_count, folder, name)
            self._files = (*self._files, name)
            self._saved_count = exploration.state_count
        counters = self.counters()
        progress = ZoneProgress(
            level, counters.transitions, counters.is_shortest, self.best(), Room(*exploration.room)
        )
        beside = f"part-{self.number}-{level}.json"
        Path(folder, beside).write_bytes(encode(progress))
        frontier = int(exploration.tally[kept.EXPANDED])
        return SavedPart((*self._files, beside), frontier, Totals(counters.transitions))

    def load(self, folder: str, saved: SavedPart) -> None:
        """Reads what was saved; raises OSError and OutOfMemoryError."""
        *files, beside = saved.files
        for name in files:
            records = read_nodes(self.word_count, self.exploration.shape.n, folder, name)
            self._restore(len(records), records.tobytes())
        self._files, self._saved_count = tuple(files), self.exploration.state_count
        progress = decode(ZoneProgress, Path(folder, beside).read_bytes())
        while self.exploration.room < (progress.room.successors, progress.room.pieces):
            self.exploration.enlarge()
        self._resume_from(saved.frontier, progress)


def number_of(hit: Hit) -> int:
    """Returns a hit as one number: the part of the question, and the node."""
    return hit.kind << HIT_BITS | hit.source


def found_of(number: int) -> Hit:
    """Returns the hit of `number_of`'s number."""
    return Hit(number >> HIT_BITS, number & (1 << HIT_BITS) - 1, 0)


def make_zone_assignment(inquiry: Inquiry, part_count: int, memory_max_mib: int | None) -> Assignment:
    """Returns the assignment for the properties that one zone search decides."""
    mine, reach = only_with(inquiry.network, [case.property for case in inquiry.cases]), inquiry.reach
    digest = digest_of(mine, inquiry.questions.watch(), reach=reach)
    return Assignment(_open_zones, print_network(mine), digest, part_count, memory_max_mib, reach=reach)


def _open_zones(assignment: Assignment, number: int) -> Opened:
    """Returns the numbered part of a zone search, with its kernel compiled or loaded."""
    network = assignment.network(lambda read: pose(read, read.properties)[0].watch())
    inquiry = inquire(network, network.properties, assignment.reach)
    part = ZonePart(inquiry.explore(assignment.memory_max_mib), number, assignment.part_count)
    return Opened(part, inquiry.initial(), inquiry.kernel)
