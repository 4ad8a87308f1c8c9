"""A local exploration that is handed over to the parts of a shared one once it is large.

Small state spaces never leave this process. For larger ones, the parts receive the states that were known
at the beginning of a level, and continue from there. If the memory of this process is exhausted within a
level, the states of that level are discarded, and the parts find them again. The states that several
threads have found are in no reproducible order, so all of them are discarded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from veristream.kernel.layout import Row
from veristream.search.memory import OutOfMemoryError
from veristream.search.reach import expand as native
from veristream.search.reach.explore import Exploration
from veristream.search.reach.partition import share
from veristream.search.reach.visited import ROOT
from veristream.search.session import Hit
from veristream.search.shared.exploration import Recipient, SharedExploration, global_index
from veristream.search.shared.messages import Best, Counters, Totals
from veristream.verdict import Counts, Spread

PIECE = 1 << 18
WIDE = 1 << 12
"""A level needs this many states for `is_time` to be asked at its beginning."""

IsTime = Callable[[Exploration], bool]
Start = Callable[[], SharedExploration]
"""Returns a shared exploration whose parts wait for states."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A local exploration as it was at the beginning of a level; `first` is that level's first state."""

    states: int
    first: int
    depth: int
    transitions: int
    seen: int
    best: NDArray[np.int64]


def mark_level(local: Exploration) -> Mark:
    """Returns the mark of an exploration that is at the beginning of a level."""
    first, best = int(local.work.control[native.FIRST]), local.own[0].best.copy()
    counts = local.counts
    return Mark(counts.states, first, counts.depth, counts.transitions, local.seen, best)


class Handover:
    """An exploration that begins in this process, and continues in parts once `is_time` returns true."""

    def __init__(self, local: Exploration, is_time: IsTime, start: Start) -> None:
        self.local: Exploration | None = local
        self.is_time, self.start = is_time, start
        self.mark = mark_level(local)
        self.shared: SharedExploration | None = None
        self.noted: list[Hit] = []  # the hits that decided a property here
        local.work.control[native.WIDE] = WIDE

    @property
    def now(self) -> Exploration | SharedExploration:
        """The exploration in charge."""
        found = self.local if self.shared is None else self.shared
        assert found is not None, "the local exploration is dropped only once a shared one exists"
        return found

    def advance(self, quantum: int) -> None:
        """Explores more; hands over if it is time, or if memory is exhausted."""
        local = self.local
        if local is not None and local.workers == 1 and _between_levels(local):
            self.mark = mark_level(local)
            if self.is_time(local):
                self._hand_over(local)
        try:
            self.now.advance(quantum)
        except OutOfMemoryError:
            if self.local is None:
                raise
            self._hand_over(self.local)
            self.now.advance(quantum)

    def _hand_over(self, local: Exploration) -> None:
        shared, mark = self.start(), self.mark
        index_of = give(local, mark, shared.recipient)
        shared.depth = mark.depth
        for hit in self.noted:
            # Hits past the mark are found again, and enter checkpoints then.
            if max(hit.source, hit.other) < mark.states:
                shared.hits.append(Hit(hit.kind, index_of(hit.source), index_of(hit.other)))
                shared.unwatch(hit.kind)
        shared.counters = [Counters(mark.states, mark.transitions, seen=mark.seen)]
        self.shared, self.local = shared, None  # frees its memory for workers on this machine

    @property
    def hits(self) -> list[Hit]:
        """The hits of the last advance."""
        return self.now.hits

    @property
    def complete(self) -> bool:
        return self.now.complete

    @property
    def counts(self) -> Counts:
        """The depth is the number of the level being expanded."""
        return self.now.counts

    @property
    def byte_count(self) -> int:
        return self.now.byte_count

    @property
    def budget(self) -> int:
        return self.now.budget

    @property
    def spread(self) -> Spread | None:
        """How the parts share the search; None before the handover."""
        return None if self.shared is None else self.shared.spread

    @property
    def seen(self) -> int:
        """Bits of the propositions that held in some state."""
        return self.now.seen

    def rows_to(self, index: int) -> Iterable[Row]:
        """Returns the rows of the states from the initial one to this one."""
        return self.now.rows_to(index)

    def unwatch(self, kind: int) -> None:
        """Stops noting hits of a kind."""
        if self.shared is None:
            self.noted += [hit for hit in self.hits if hit.kind == kind]
        self.now.unwatch(kind)

    def best(self, measure: int) -> tuple[int, int] | None:
        """Returns the best value of a measure and the state that has it."""
        return self.now.best(measure)

    def count_orbits(self, orbit: int) -> int:
        """Returns how many states the found ones represent, by symmetry."""
        return self.now.count_orbits(orbit)

    def close(self) -> None:
        """Stops the threads of the exploration."""
        self.now.close()


def _between_levels(local: Exploration) -> bool:
    work, own = local.work, local.own[0]
    return bool(own.pending[0] >= own.pending[1] and work.cursors[0] == work.control[native.FIRST])


def give(local: Exploration, mark: Mark, recipient: Recipient) -> Callable[[int], int]:
    """Sends the states up to the mark to their parts, in the order in which they were found; returns a
    function from local to global indices."""
    count, width = mark.states, local.word_count
    owners, places = np.zeros(count, np.uint16), np.zeros(count, np.uint32)
    share(
        local.store(), count, recipient.part_count, owners, places, np.zeros(recipient.part_count, np.int64)
    )
    rows = local.memory.rows.words[: count * width].reshape(-1, width)
    parents = local.memory.parent_indices[:count]
    known = np.where(parents == ROOT, 0, parents)
    parent_places = np.where(parents == ROOT, ROOT, places[known]).astype(np.uint32)
    parent_owners = owners[known]
    for part in range(recipient.part_count):
        mine = np.nonzero(owners == part)[0]
        for begin in range(0, len(mine), PIECE):
            some = mine[begin : begin + PIECE]
            blob = rows[some].tobytes() + parent_places[some].tobytes() + parent_owners[some].tobytes()
            recipient.give_states(part, len(some), blob)
        frontier = int((mine < mark.first).sum())
        recipient.end_states(part, frontier, _totals(mark, part, owners, places))
    return lambda index: global_index(int(owners[index]), int(places[index]))


def _totals(mark: Mark, part: int, owners: NDArray[np.uint16], places: NDArray[np.uint32]) -> Totals:
    """Returns a part's totals: part 0 gets all counts, the owner of a best state gets its value."""
    best = []
    for value, index in mark.best.tolist():
        here = index >= 0 and owners[index] == part
        best.append(Best(value, int(places[index])) if here else Best(-1, -1))
    transitions, seen = (mark.transitions, mark.seen) if part == 0 else (0, 0)
    return Totals(transitions, seen, tuple(best))
