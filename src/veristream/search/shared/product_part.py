"""A worker's part of a product: keeps the edges too, and finds the states that a fair run can stay in."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from veristream.search.memory import OutOfMemoryError, Reserve, Spill, reserve, spill
from veristream.search.reach import partition
from veristream.search.reach.visited import ROOT, find_or_add, fingerprint
from veristream.search.runs import elimination
from veristream.search.runs.elimination import (
    NOWHERE,
    WAVE_FULL,
    Backward,
    Goal,
    Wave,
    begin_cut,
    begin_reach,
    begin_trim,
    run_wave,
    sort_edges,
    touch,
    touch_all,
)
from veristream.search.runs.fairness import Words, enabled_of
from veristream.search.runs.product import Product
from veristream.search.shared.checkpoint import read_edges, save_edges
from veristream.search.shared.messages import (
    Answer,
    BeginLook,
    Count,
    CutReached,
    CutStruck,
    CutUnreached,
    Done,
    EnabledUnits,
    EndLook,
    FindEnabled,
    FindLeft,
    FirstLeft,
    KeepLeft,
    LevelReport,
    LookReport,
    Question,
    ReachMark,
    ReachState,
    ReachUnit,
    RestoreLeft,
    SavedPart,
    StateRef,
)
from veristream.search.shared.remainder import Share
from veristream.search.shared.state_part import CLAIMED_STATES, Part

WAVE_QUANTUM = 1 << 16
WAVE_OUTBOX = 1 << 16
_EDGE_BYTES = 16 + 2
_SORTED_BYTES = 4 + 2 + 8


class ProductPart(Part):
    """The states of one part of a product, with the edges that lead to them.

    Between two levels of the exploration the driver may start a *look*: waves that search what is explored
    so far (see `elimination`).
    """

    def __init__(
        self,
        product: Product,
        number: int,
        count: int,
        memory_max_mib: int | None = None,
        spill_folder: str | None = None,
    ) -> None:
        super().__init__(
            product.code, product.width, product.plan, number, count, memory_max_mib, spill_folder
        )
        self.product, self.units = product, product.units
        self._spill_folder = spill_folder
        budget = self.exploration.budget
        self._words, self._owners = self._lend(2 * budget), self._lend(budget)
        self._outs = self._lend(4 * self.exploration.arena_size)
        self.edges[partition.EDGE_WORDS] = self._words.address
        self.edges[partition.EDGE_OWNERS] = self._owners.address
        self.edges[partition.EDGE_OUTS] = self._outs.address
        self._edges_max = 2 * budget // 16
        self.edges[partition.EDGE_LIMIT] = 0 if spill_folder else self._edges_max
        self._sharing = self._make_sharing()
        self._edges_saved, self._outs_saved = 0, 0
        self._edge_files: tuple[str, ...] = ()
        self._look: Look | None = None
        self._borrowed: list[Spill] = []  # for the look

    def _lend(self, byte_count: int) -> Reserve | Spill:
        if self._spill_folder is None:
            return reserve(byte_count)
        return spill(byte_count, self._spill_folder)

    def _files(self) -> list[tuple[Spill, int]]:
        files = super()._files()
        return [*files, (self._outs, 4)] if isinstance(self._outs, Spill) else files

    def _extend_edges(self, more: int) -> None:
        room = min(self.edge_count + more + 8 * CLAIMED_STATES, self._edges_max)
        if self.edge_count + more > room:
            raise OutOfMemoryError
        for array, size in ((self._words, 16), (self._owners, 2)):
            if isinstance(array, Spill):
                array.claim(size * room)
        self.edges[partition.EDGE_LIMIT] = room

    @property
    def edge_count(self) -> int:
        """The number of edges that lead to states of this part."""
        return int(self.edges[partition.EDGE_COUNT])

    @property
    def byte_count(self) -> int:
        """Memory in use, including the edges as they are kept and as a look sorts them."""
        return super().byte_count + 4 * self.state_count + (_EDGE_BYTES + _SORTED_BYTES) * self.edge_count

    def work(self, quantum: int = WAVE_QUANTUM) -> int:
        """Continues with the level, or with the wave of a look."""
        if self._look is None:
            return super().work()
        return partition.FULL_OUTBOX if self._look.run() == WAVE_FULL else partition.LEVEL

    def outbox(self, part: int) -> bytes:
        """Removes and returns the records for another part; in a look, its states that the wave reached."""
        return super().outbox(part) if self._look is None else self._look.outbox(part)

    def take_in(self, sender: int, records: bytes) -> None:
        """Adds the records of another part."""
        if self._look is None:
            super().take_in(sender, records)
        else:
            touch_all(self._look.wave, np.frombuffer(records, np.int64))

    def end_level(self) -> int:
        """Ends the level and returns the size of the next; in a look, returns the length of the queue."""
        return super().end_level() if self._look is None else self._look.waiting

    def report(self) -> LevelReport | LookReport:
        """Returns what the driver needs to know at the end of a level or of a wave."""
        if self._look is None:
            return self.level_report()
        return LookReport(self._look.left, self._look.edge_count)

    def answer(self, question: Question) -> Answer:
        """Begins or ends a look, or does what the driver asks during it."""
        match question:
            case BeginLook():
                self._look = Look(self, self._sort())
                return Done()
            case EndLook():
                self._end_look()
                return Done()
            case _ if self._look is not None:
                return self._look.answer(question)
            case _:
                return super().answer(question)

    def save(self, folder: str, level: int) -> SavedPart:
        """Writes the states and edges that were found since the last checkpoint; raises OSError."""
        saved = super().save(folder, level)
        first, last = self._edges_saved, self.edge_count
        words = self._words.words[2 * first : 2 * last]
        owners = self._owners.words.view(np.uint16)[first:last]
        name = f"edges-{self.number}-{level}.parquet"
        save_edges((words, owners), self.outs[self._outs_saved : self.frontier], folder, name)
        self._edge_files = (*self._edge_files, name)
        self._edges_saved, self._outs_saved = last, self.frontier
        return replace(saved, edges=self._edge_files)

    def load(self, folder: str, saved: SavedPart) -> None:
        """Reads what was saved; raises OSError, OutOfMemoryError and DiskFullError."""
        super().load(folder, saved)
        for name in saved.edges:
            (words, owners), outs = read_edges(folder, name)
            first, last = self.edge_count, self.edge_count + owners.size
            if last > self.edges[partition.EDGE_LIMIT]:
                self._extend_edges(owners.size)
            self._words.words[2 * first : 2 * last] = words
            self._owners.words.view(np.uint16)[first:last] = owners
            self.outs[self._outs_saved : self._outs_saved + outs.size] = outs
            self.edges[partition.EDGE_COUNT] = self._edges_saved = last
            self._outs_saved += outs.size
        self._edge_files = saved.edges

    def accept(self, count: int, blob: bytes) -> None:
        """Adds states that the driver found; in a look, notes states that no fair run can stay in."""
        if self._look is None:
            super().accept(count, blob)
        else:
            self._look.strike(self._indices(np.frombuffer(blob, np.int64)))

    def _indices(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns the indices of the states with these rows, all of which are in this part."""
        store, size = self.exploration.store(), 8 * self.word_count
        found = np.empty(rows.nbytes // size, np.int64)
        for k in range(found.size):
            row = int(rows.ctypes.data) + size * k
            found[k] = find_or_add(store, row, fingerprint(row, self.word_count), self.state_count, ROOT)
        assert (found < self.state_count).all(), "the driver strikes out only states of this part"
        return found

    def _sort(self) -> Backward:
        """Returns the edges so far, sorted by target; raises DiskFullError."""
        states, edges = self.state_count, self.edge_count
        backward = Backward(
            self._borrow(states + 1, 8).view(np.int64)[: states + 1],
            self._borrow(edges, 4).view(np.uint32)[:edges],
            self._borrow(edges, 2).view(np.uint16)[:edges],
            self._borrow(edges, 8).view(np.int64)[:edges],
        )
        sort_edges(self._words.address, self._owners.address, edges, backward)
        return backward

    def _borrow(self, count: int, size: int) -> NDArray[np.int64]:
        """Returns room for items of a look, in memory or on disk as for states and edges."""
        lent = self._lend(size * count)
        if isinstance(lent, Spill):
            self._borrowed.append(lent)
            lent.claim(size * count)
        return lent.words

    def _end_look(self) -> None:
        self._look = None
        for lent in self._borrowed:
            lent.close()
        self._borrowed.clear()

    def share(self) -> Iterator[bytes]:
        """Returns what a look has left: states, rows, and the edges that lead to them."""
        assert self._look is not None
        backward, left = self._look.backward, self._look.wave.left
        states = np.flatnonzero(left)
        rows = self.exploration.memory.rows.words[: self.state_count * self.word_count]
        inside = np.repeat(left, np.diff(backward.first))
        targets = np.repeat(np.arange(left.size, dtype=np.uint32), np.diff(backward.first))[inside]
        yield from Share(
            states.astype(np.uint32),
            rows.reshape(-1, self.word_count)[states],
            targets,
            backward.sources[inside],
            backward.owners[inside],
            backward.entries[inside],
        ).pieces()

    def enabled(self, states: Words) -> Words:
        """Returns the units of fairness that are enabled in each of the states, as bit words."""
        rows, successors = self.exploration.memory.rows.address, self.product.kernel.successors
        return enabled_of(self.units, successors, rows, self.word_count, states)

    @property
    def outs(self) -> NDArray[np.uint32]:
        """The number of edges that leave each state."""
        return self._outs.words.view(np.uint32)[: self.state_count]


class Look:
    """One search for fair accepting runs in what is explored so far, by waves that remove states."""

    def __init__(self, part: ProductPart, backward: Backward) -> None:
        self.part, self.backward = part, backward
        states = part.state_count
        self.wave = Wave(
            part.number,
            np.empty(states, np.bool_),
            np.zeros(states, np.bool_),
            part.outs.copy(),
            np.empty(states, np.uint32),
            np.zeros(elimination.WAVE_CONTROL, np.int64),
            np.empty((part.count, WAVE_OUTBOX), np.int64),
            np.zeros(part.count, np.int64),
        )
        self.goal = Goal(0, part.units.of_action, 0, 0)
        self._kept: NDArray[np.bool_] | None = None
        self._enabled: Words | None = None
        self._struck = np.zeros(states, np.bool_)
        begin_trim(self.wave)

    def answer(self, question: Question) -> Answer:
        """Does what the driver asks between two waves."""
        match question:
            case CutUnreached(unit):
                return Count(int(begin_cut(self.wave, self._spared(unit))))
            case FindLeft():
                places = np.flatnonzero(self.wave.left)[:1]
                return FirstLeft(int(places[0]) if places.size else None)
            case FindEnabled():
                words = np.bitwise_or.reduce(self._enabled_units()[self.wave.left], axis=0)
                return EnabledUnits(tuple(words.tolist()))
            case _:
                self._obey(question)
                return Done()

    def _obey(self, question: Question) -> None:
        match question:
            case ReachMark(bit):
                self._reach(Goal(1 << bit, self.part.units.of_action, 0, 0))
            case ReachUnit(unit):
                self._reach_unit(unit)
            case ReachState(StateRef(part, index)):
                self._reach(NOWHERE)
                if part == self.part.number:
                    touch(self.wave, index)
            case CutStruck():
                self.wave.reached[:] = ~self._struck
                self._struck[:] = False
                begin_cut(self.wave, np.zeros(self.wave.left.size, np.bool_))
            case CutReached():
                self.wave.left[self.wave.reached] = False
            case KeepLeft():
                self._kept = self.wave.left.copy()
            case RestoreLeft():
                assert self._kept is not None
                self.wave.left[:] = self._kept
            case _:
                raise AssertionError(f"unexpected question: {question}")

    def _reach(self, goal: Goal) -> None:
        self.goal = goal
        begin_reach(self.wave)

    def _reach_unit(self, unit: int) -> None:
        """Begins a wave from where the unit is taken, and for a weak unit, from where it is not enabled."""
        word, bit = divmod(unit, 63)
        self._reach(Goal(0, self.part.units.of_action, word, bit))
        if not self.part.units.strong[word] >> bit & 1:
            touch_all(self.wave, np.flatnonzero(self.wave.left & ~self._enables(unit)))

    def _spared(self, unit: int | None) -> NDArray[np.bool_]:
        """Returns the states that need not reach a strong unit: those that do not enable it."""
        if unit is None or not self.part.units.strong[unit // 63] >> unit % 63 & 1:
            return np.zeros(self.wave.left.size, np.bool_)
        return ~self._enables(unit)

    def _enables(self, unit: int) -> NDArray[np.bool_]:
        return (self._enabled_units()[:, unit // 63] >> unit % 63 & 1).astype(np.bool_)

    def _enabled_units(self) -> Words:
        """Returns the enabled units of every state that is left; computed once per look."""
        if self._enabled is None:
            left = np.flatnonzero(self.wave.left)
            self._enabled = np.zeros((self.wave.left.size, self.part.units.weak.size), np.int64)
            self._enabled[left] = self.part.enabled(left)
        return self._enabled

    def strike(self, states: Words) -> None:
        """Notes states to remove at the next CutStruck."""
        self._struck[states] = True

    def run(self) -> int:
        """Continues with the wave."""
        return int(run_wave(self.backward, self.wave, self.goal, WAVE_QUANTUM))

    def outbox(self, part: int) -> bytes:
        """Removes and returns the states of another part that the wave reached."""
        used = int(self.wave.used[part])
        self.wave.used[part] = 0
        return self.wave.outboxes[part, :used].tobytes()

    @property
    def waiting(self) -> int:
        """The number of states in the queue."""
        return int(self.wave.control[elimination.TAIL] - self.wave.control[elimination.HEAD])

    @property
    def edge_count(self) -> int:
        """The number of edges that lead to states that are left."""
        return int(np.diff(self.backward.first)[self.wave.left].sum())

    @property
    def left(self) -> int:
        """The number of states that are left."""
        return int(self.wave.left.sum())
