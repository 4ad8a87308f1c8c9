"""A local exploration that is handed over to a crew, once it is large.

Small state spaces never leave this process; of larger ones the states found so far are shared out, as they
were at the beginning of a level, and the workers go on. Where the memory here is used up within a level,
what that level has found is given up: the workers find it again. What several threads have found is in no
order that could be shared out, so all of it is given up.
"""

from __future__ import annotations

from collections.abc import Callable
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
from veristream.search.shared import channel
from veristream.search.shared.crew import Crew, SharedExploration, global_index
from veristream.search.shared.worker import Say
from veristream.verdict import Counts, Spread

PIECE = 1 << 18
WIDE = 1 << 12
"""At the beginning of a level of so many states it is asked whether it is time."""

IsTime = Callable[[Exploration], bool]
Start = Callable[[], SharedExploration]
"""Gathers a crew that waits for states, and gives the exploration that it will share."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A local exploration as it was at the beginning of a level, of which `first` is the first state."""

    states: int
    first: int
    depth: int
    transitions: int
    seen: int
    best: NDArray[np.int64]


def mark_level(local: Exploration) -> Mark:
    """The exploration as it is, at the beginning of a level."""
    first, best = int(local.work.control[native.FIRST]), local.own[0].best.copy()
    counts = local.counts
    return Mark(counts.states, first, counts.depth, counts.transitions, local.seen, best)


class Handover:
    """An exploration that begins here, and goes on elsewhere once `is_time` says so of it."""

    def __init__(self, local: Exploration, is_time: IsTime, start: Start) -> None:
        self.local: Exploration | None = local
        self.is_time, self.start = is_time, start
        self.mark = mark_level(local)
        self.shared: SharedExploration | None = None
        self.noted: list[Hit] = []  # what decided something, here
        local.work.control[native.WIDE] = WIDE

    @property
    def now(self) -> Exploration | SharedExploration:
        """Who explores."""
        found = self.local if self.shared is None else self.shared
        assert found is not None, "what is here is let go only when it is shared"
        return found

    def advance(self, quantum: int) -> None:
        """Explores on; hands over where it is time to, or where there is no more room here."""
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
        index_of = give(local, mark, shared.crew)
        shared.depth = mark.depth
        for hit in self.noted:
            # What was found past the mark is found again, and is to be in checkpoints then.
            if max(hit.source, hit.other) < mark.states:
                shared.hits.append(Hit(hit.kind, index_of(hit.source), index_of(hit.other)))
                shared.unwatch(hit.kind)
        shared.numbers = [[mark.states, mark.transitions, 0, mark.seen, 0]]
        self.shared, self.local = shared, None  # its memory may be wanted by workers on this machine

    @property
    def hits(self) -> list[Hit]:
        """What was noted lately."""
        return self.now.hits

    @property
    def complete(self) -> bool:
        """Whether all is explored."""
        return self.now.complete

    @property
    def counts(self) -> Counts:
        """The depth is the number of the level being expanded."""
        return self.now.counts

    @property
    def byte_count(self) -> int:
        """Memory in use."""
        return self.now.byte_count

    @property
    def budget(self) -> int:
        """Memory that may be used."""
        return self.now.budget

    @property
    def spread(self) -> Spread | None:
        """How the workers share the search; None as long as it is here."""
        return None if self.shared is None else self.shared.spread

    @property
    def seen(self) -> int:
        """The state propositions that held somewhere."""
        return self.now.seen

    def row(self, index: int) -> Row:
        """The row of a state."""
        return self.now.row(index)

    def path(self, index: int) -> list[int]:
        """The states from the initial one to this one."""
        return self.now.path(index)

    def unwatch(self, kind: int) -> None:
        """Stops noting hits of a kind."""
        if self.shared is None:
            self.noted += [hit for hit in self.hits if hit.kind == kind]
        self.now.unwatch(kind)

    def best(self, measure: int) -> tuple[int, int] | None:
        """The best value of a measure and the state that has it."""
        return self.now.best(measure)

    def count_orbits(self, orbit: int) -> int:
        """How many states those found stand for, by symmetry."""
        return self.now.count_orbits(orbit)

    def close(self) -> None:
        """Lets threads go."""
        self.now.close()


def _between_levels(local: Exploration) -> bool:
    work, own = local.work, local.own[0]
    return bool(own.pending[0] >= own.pending[1] and work.cursors[0] == work.control[native.FIRST])


def give(local: Exploration, mark: Mark, crew: Crew) -> Callable[[int], int]:
    """Sends the states up to the mark to their owners, in the order in which they were found; what it
    gives tells their indices there."""
    count, width = mark.states, local.word_count
    owners, places = np.zeros(count, np.uint16), np.zeros(count, np.uint32)
    share(local.store(), count, crew.part_count, owners, places)
    rows = local.memory.rows.words[: count * width].reshape(-1, width)
    parents = local.memory.parents.words.view(np.uint32)[:count]
    known = np.where(parents == ROOT, 0, parents)
    parent_places = np.where(parents == ROOT, ROOT, places[known]).astype(np.uint32)
    parent_owners = owners[known]
    for part in range(crew.part_count):
        mine = np.nonzero(owners == part)[0]
        for begin in range(0, len(mine), PIECE):
            some = mine[begin : begin + PIECE]
            blob = rows[some].tobytes() + parent_places[some].tobytes() + parent_owners[some].tobytes()
            crew.give(part, channel.frame(Say.TAKE, len(some), blob))
        frontier = int((mine < mark.first).sum())
        crew.tell(part, Say.TAKEN, frontier, _numbers(mark, part, owners, places))
    return lambda index: global_index(int(owners[index]), int(places[index]))


def _numbers(mark: Mark, part: int, owners: np.ndarray, places: np.ndarray) -> dict[str, object]:
    """Counters so far: all with part 0, the best values with the owners of their states."""
    best = []
    for value, index in mark.best.tolist():
        here = index >= 0 and owners[index] == part
        best.append([value, int(places[index])] if here else [-1, -1])
    transitions, seen = (mark.transitions, mark.seen) if part == 0 else (0, 0)
    return {"transitions": transitions, "seen": seen, "best": best}
