"""A local exploration that is handed over to a crew, once it is large.

Small state spaces never leave this process; of larger ones the states found so far are shared out, between
two levels, and the workers go on.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from veristream.kernel.layout import Row
from veristream.search import channel
from veristream.search import expand as native
from veristream.search.crew import Crew, SharedExploration
from veristream.search.explore import Exploration, Hit
from veristream.search.partition import share
from veristream.search.visited import ROOT
from veristream.search.worker import Say

PIECE = 1 << 18
WIDE = 1 << 12
"""At the beginning of a level of so many states it is asked whether it is time."""

IsTime = Callable[[Exploration], bool]
Start = Callable[[], SharedExploration]
"""Gathers a crew that waits for states, and gives the exploration that it will share."""


class Handover:
    """An exploration that begins here, and goes on elsewhere once `is_time` says so of it."""

    def __init__(self, local: Exploration, is_time: IsTime, start: Start) -> None:
        self.local: Exploration = local
        self.is_time, self.start = is_time, start
        self.shared: SharedExploration | None = None
        self.unwatched: list[int] = []
        local.work.control[native.WIDE] = WIDE

    @property
    def now(self) -> Exploration | SharedExploration:
        """Who explores."""
        return self.local if self.shared is None else self.shared

    def advance(self, quantum: int) -> None:
        """Explores on; hands over first where it is time to."""
        if self.shared is None and self._between_levels() and self.is_time(self.local):
            self._hand_over()
        self.now.advance(quantum)

    def _between_levels(self) -> bool:
        work, own = self.local.work, self.local.own[0]
        return bool(own.pending[0] >= own.pending[1] and work.cursors[0] == work.control[native.FIRST])

    def _hand_over(self) -> None:
        shared = self.start()
        give(self.local, shared.crew)
        shared.depth = self.local.depth
        for kind in self.unwatched:
            shared.unwatch(kind)
        shared.numbers = [[self.state_count, self.local.transition_count, 0, self.local.seen, 0]]
        self.shared = shared

    @property
    def hits(self) -> list[Hit]:
        """What was noted lately."""
        return self.now.hits

    @property
    def complete(self) -> bool:
        """Whether all is explored."""
        return self.now.complete

    @property
    def state_count(self) -> int:
        """States found."""
        return self.now.state_count

    @property
    def transition_count(self) -> int:
        """Steps seen."""
        return self.now.transition_count

    @property
    def depth(self) -> int:
        """The number of the level that is expanded."""
        return self.now.depth

    @property
    def frontier(self) -> int:
        """States found but not yet expanded."""
        return self.now.frontier

    @property
    def byte_count(self) -> int:
        """Memory in use."""
        return self.now.byte_count

    @property
    def budget(self) -> int:
        """Memory that may be used."""
        return self.now.budget

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
        self.unwatched.append(kind)
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


def give(local: Exploration, crew: Crew) -> None:
    """Sends every state to the worker that owns it, in the order in which they were found."""
    count, width = local.state_count, local.word_count
    owners, places = np.zeros(count, np.uint16), np.zeros(count, np.uint32)
    share(local.store(), count, crew.part_count, owners, places)
    rows = local.memory.rows.words[: count * width].reshape(-1, width)
    parents = local.memory.parents.words.view(np.uint32)[:count]
    known = np.where(parents == ROOT, 0, parents)
    parent_places = np.where(parents == ROOT, ROOT, places[known]).astype(np.uint32)
    parent_owners = owners[known]
    first = int(local.work.control[native.FIRST])
    for part in range(crew.part_count):
        mine = np.nonzero(owners == part)[0]
        for begin in range(0, len(mine), PIECE):
            some = mine[begin : begin + PIECE]
            blob = rows[some].tobytes() + parent_places[some].tobytes() + parent_owners[some].tobytes()
            crew.give(part, channel.frame(Say.TAKE, len(some), blob))
        frontier = int((mine < first).sum())
        crew.tell(part, Say.TAKEN, frontier, _numbers(local, part, owners, places))


def _numbers(local: Exploration, part: int, owners: np.ndarray, places: np.ndarray) -> dict[str, object]:
    """Counters so far: all with part 0, the best values with the owners of their states."""
    best = []
    for value, index in local.own[0].best.tolist():
        here = index >= 0 and owners[index] == part
        best.append([value, int(places[index])] if here else [-1, -1])
    transitions = local.transition_count if part == 0 else 0
    return {"transitions": transitions, "seen": local.seen if part == 0 else 0, "best": best}
