"""Safety properties of timed networks, with zones shared among workers: the driver's side; see `crew`.

The driver searches alone first. If the search becomes large, workers start it again: what the driver has
found by then costs them little.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace

import numpy as np

from veristream.ir.network import Network
from veristream.ir.property import Property
from veristream.search.limits import Limits, Report
from veristream.search.session import Hit, spread_of
from veristream.search.shared.assignment import Assignment
from veristream.search.shared.exploration import CrewExploration, global_index, split_index
from veristream.search.shared.messages import AskRoom, Room
from veristream.search.shared.threshold import is_large, limits_here
from veristream.search.shared.zone_part import (
    NO_ACTION_TOLD,
    found_of,
    make_zone_assignment,
    number_of,
)
from veristream.search.zones.explore import Origin
from veristream.search.zones.faults import NO_ACTION
from veristream.search.zones.inquiry import Inquiry
from veristream.search.zones.safety import (
    ExploringZones,
    OpenZones,
    ZoneSearch,
    opening_zones_locally,
    search_group,
)
from veristream.search.zones.watch import Questions
from veristream.verdict import Counts, Result, Spread

ShareZones = Callable[[Callable[[int], Assignment]], AbstractContextManager[CrewExploration]]
"""Lets workers explore an assignment, made for a number of parts, from the initial state on."""

Again = Callable[[Callable[[], ZoneSearch]], ZoneSearch]
"""Runs a search, and runs it again if a worker is lost."""


class SharedZones:
    """A zone search that a crew shares, with the interface of `zones.explore.ZoneExploration`.

    If the search continues from a checkpoint, earlier hits are reported again.
    """

    def __init__(self, shared: CrewExploration, questions: Questions) -> None:
        self.shared, self.directions = shared, directions_of(questions)
        self.hits = [found_of(number) for number in shared.unwatched]

    def advance(self, quantum: int) -> None:
        """Explores one level, however large."""
        self.shared.advance(quantum)
        self.hits = [_without_part(hit) for hit in self.shared.hits]

    def unwatch(self, hit: Hit) -> None:
        """Stops asking for the case that the hit belongs to."""
        number = number_of(hit)
        if number not in self.shared.unwatched:
            self.shared.unwatch(number)

    def extreme(self, measure: int) -> tuple[int, int, int] | None:
        """Returns the best value of a measure, the nearest node that has it, and the part of the case."""
        found = [
            (
                -best.value * self.directions[measure],
                best.depth,
                best.value,
                global_index(part, best.index),
                best.asked,
            )
            for part, bests in enumerate(self.shared.bests)
            for best in [bests[measure]]
            if best.index >= 0
        ]
        return min(found)[2:] if found else None

    def origin(self, node: int) -> Origin:
        """Returns the row of a node, its parent, and the step that led to it."""
        found = self.shared.describe(node)
        parent = None if found.parent is None else global_index(found.parent.part, found.parent.index)
        return Origin(np.array(found.row, np.uint64), parent, found.entry)

    @property
    def is_shortest(self) -> bool:
        """Whether the first path found to each zone so far has the fewest steps."""
        return all(one.is_shortest for one in self.shared.counters)

    @property
    def room(self) -> tuple[int, int]:
        """The most successors, and the most pieces of a zone, that a worker had room for."""
        rooms = self.shared.ask_all(AskRoom(), Room)
        return max(room.successors for room in rooms), max(room.pieces for room in rooms)

    @property
    def discrete_count(self) -> int:
        return sum(one.discrete for one in self.shared.counters)

    @property
    def counts(self) -> Counts:
        """Counts of zones; the depth is the number of steps to the farthest one."""
        return self.shared.counts

    @property
    def byte_count(self) -> int:
        """Memory in use by all workers."""
        return self.shared.byte_count

    @property
    def budget(self) -> int:
        """Memory that all workers together may use."""
        return self.shared.budget

    @property
    def complete(self) -> bool:
        return self.shared.complete

    def close(self) -> None:
        """Does nothing: the workers stay to describe what they found."""

    @property
    def spread(self) -> Spread | None:
        """How the workers share the search."""
        return spread_of(self.shared)


def directions_of(questions: Questions) -> tuple[int, ...]:
    """Returns which values of each measure are better: 1 for greater ones, as for bounds of clocks."""
    watched = questions.watched()
    pairs = zip(watched.clocks.tolist(), watched.signs.tolist(), strict=True)
    return tuple(1 if clock else sign for clock, sign in pairs)


def _without_part(hit: Hit) -> Hit:
    """Returns the hit for the search: `other` is a depth or an action, not a node of the part."""
    _, other = split_index(hit.other)
    return replace(hit, other=NO_ACTION if other == NO_ACTION_TOLD else other)


def opening_zones_shared(share: ShareZones, memory_max_mib: int | None) -> OpenZones:
    """Opens zone searches that workers share from the initial state on."""

    @contextmanager
    def open_(inquiry: Inquiry) -> Iterator[ExploringZones]:
        with share(lambda part_count: make_zone_assignment(inquiry, part_count, memory_max_mib)) as shared:
            yield SharedZones(shared, inquiry.questions)

    return open_


@dataclass(frozen=True, slots=True)
class Workers:
    """Workers that share a search once it exceeds `start_states` zones, or the driver's memory."""

    share: ShareZones
    start_states: int | None
    again: Again

    def search(
        self, network: Network, group: Sequence[Property], limits: Limits, report: Report
    ) -> ZoneSearch:
        """Searches in the driver first, then shared if the search is large."""
        started = time.monotonic()
        if self.start_states != 0:
            few = limits_here(limits, self.start_states)
            found = search_group(network, group, (few, report), opening_zones_locally(few), started)
            if not is_large(found.session, limits, self.start_states):
                return found
        open_ = opening_zones_shared(self.share, limits.memory_max_mib)
        return self.again(lambda: search_group(network, group, (limits, report), open_, started))


def check_shared_zones(
    network: Network, group: Sequence[Property], limits: Limits, report: Report, workers: Workers
) -> dict[str, Result]:
    """The results of a group of safety properties of a timed network, by name; shared once large."""
    return workers.search(network, group, limits, report).results()
