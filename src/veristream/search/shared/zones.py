"""Safety properties of timed networks whose zones workers share: the driver's end; see `crew`.

Zones are searched here first. A search that becomes large is begun again by workers: what is found here by
then costs them little.
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
from veristream.search.shared.assignment import Order
from veristream.search.shared.contract import Value
from veristream.search.shared.crew import SharedExploration, global_index, split_index
from veristream.search.shared.threshold import is_large, limits_here
from veristream.search.shared.worker import Say
from veristream.search.shared.zone_part import (
    DISCRETE,
    NO_ACTION_TOLD,
    SKEWED,
    found_of,
    make_zone_order,
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

ShareZones = Callable[[Callable[[int], Order]], AbstractContextManager[SharedExploration]]
"""Has an order, made for a number of parts, explored by workers that begin with the initial state."""

Again = Callable[[Callable[[], ZoneSearch]], ZoneSearch]
"""Runs a search, and begins it again where a worker was lost."""


class SharedZones:
    """A search of zones that a crew shares; see `zones.explore.ZoneExploration`.

    What was found stays known where the search goes on from a checkpoint: it is a hit again.
    """

    def __init__(self, shared: SharedExploration, questions: Questions) -> None:
        self.shared, self.directions = shared, directions_of(questions)
        self.hits = [found_of(number) for number in shared.unwatched]

    def advance(self, quantum: int) -> None:
        """Explores one level, however large."""
        self.shared.advance(quantum)
        self.hits = [_without_part(hit) for hit in self.shared.hits]

    def unwatch(self, hit: Hit) -> None:
        """Stops asking for the case of which a part was found."""
        number = number_of(hit)
        if number not in self.shared.unwatched:
            self.shared.unwatch(number)

    def extreme(self, measure: int) -> tuple[int, int, int] | None:
        """The best value of a measure, the nearest node that has it, and in which part of the case."""
        found = [
            (-value * self.directions[measure], depth, value, global_index(part, node), asked)
            for part, bests in enumerate(self.shared.bests)
            for value, node, asked, depth in [bests[measure]]
            if node >= 0
        ]
        return min(found)[2:] if found else None

    def origin(self, node: int) -> Origin:
        """Where a node was found from."""
        part, index = split_index(node)
        self.shared.crew.tell(part, Say.TELL, index)
        told: Value = self.shared.crew.hear(part).json()
        where = None if told["parent"] is None else global_index(*told["parent"])
        return Origin(np.array(told["row"], np.uint64), where, told["entry"])

    @property
    def is_shortest(self) -> bool:
        """Whether the first way found to each zone so far has the fewest steps."""
        return not any(one[SKEWED] for one in self.shared.numbers)

    @property
    def room(self) -> tuple[int, int]:
        """The most successors, and the most pieces of a zone, that a worker had room for."""
        rooms = [answer["room"] for answer in self.shared.ask_all({"room": "most"})]
        return max(capacity for capacity, _ in rooms), max(pieces for _, pieces in rooms)

    @property
    def discrete_count(self) -> int:
        """Discrete states found."""
        return sum(one[DISCRETE] for one in self.shared.numbers)

    @property
    def counts(self) -> Counts:
        """Of zones; the depth is the number of steps to the farthest one."""
        return self.shared.counts

    @property
    def byte_count(self) -> int:
        """Memory in use by all workers."""
        return self.shared.byte_count

    @property
    def budget(self) -> int:
        """Memory that may be used by all."""
        return self.shared.budget

    @property
    def complete(self) -> bool:
        """Whether all is explored."""
        return self.shared.complete

    def close(self) -> None:
        """Nothing to wait for: the workers stay to tell what they found."""

    @property
    def spread(self) -> Spread | None:
        """How it is shared."""
        return spread_of(self.shared)


def directions_of(questions: Questions) -> tuple[int, ...]:
    """Which values of measures are better: 1 for greater ones, as bounds of clocks are on either side."""
    watched = questions.watched()
    pairs = zip(watched.clocks.tolist(), watched.signs.tolist(), strict=True)
    return tuple(1 if clock else sign for clock, sign in pairs)


def _without_part(hit: Hit) -> Hit:
    """The hit as a search knows it: its other is a depth or an action, not a node of the part."""
    _, other = split_index(hit.other)
    return replace(hit, other=NO_ACTION if other == NO_ACTION_TOLD else other)


def opening_zones_shared(share: ShareZones, memory_max_mib: int | None) -> OpenZones:
    """Searches of zones that workers share from the initial state on."""

    @contextmanager
    def open_(inquiry: Inquiry) -> Iterator[ExploringZones]:
        with share(lambda part_count: make_zone_order(inquiry, part_count, memory_max_mib)) as shared:
            yield SharedZones(shared, inquiry.questions)

    return open_


@dataclass(frozen=True, slots=True)
class Workers:
    """Who shares a search, once it has more zones than `start_states`, or than the memory here holds."""

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
