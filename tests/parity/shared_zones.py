"""Searches of zones with threads as workers: everything except Spark."""

from __future__ import annotations

import ctypes
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from random import Random

import numpy as np

from tests.parity.shared import sharing_with_threads
from veristream.ir.network import Network
from veristream.ir.oracle.timed import TimedInterpreter, TimedStep
from veristream.ir.property import Property
from veristream.ir.show import show_timed
from veristream.kernel.extrapolate import covers
from veristream.kernel.layout import Row
from veristream.kernel.zones import Zone, includes
from veristream.search.limits import Limits, silent
from veristream.search.reach import partition
from veristream.search.shared.zone_part import ZonePart
from veristream.search.shared.zones import SharedZones, opening_zones_shared
from veristream.search.zones.explore import ZoneExploration
from veristream.search.zones.inquiry import Inquiry
from veristream.search.zones.kept import COVERED
from veristream.search.zones.safety import (
    ExploringZones,
    OpenZones,
    groups_of,
    opening_zones_locally,
    search_group,
)
from veristream.verdict import Holds, Result, Step, Trace, word


def opening_zones_with_threads(
    part_count: int, memory_max_mib: int = 64, folder: str | None = None
) -> OpenZones:
    """Opens zone searches that threads share."""
    share = sharing_with_threads(part_count, memory_max_mib, folder)
    return opening_zones_shared(share, memory_max_mib)


def check_zones(
    network: Network, properties: Sequence[Property], open_: OpenZones, limits: Limits | None = None
) -> list[Result]:
    """Returns the results of safety properties of a timed network, in their order."""
    found: dict[str, Result] = {}
    for group in groups_of(properties):
        bounds = (limits or Limits(), silent)
        found |= search_group(network, group, bounds, open_, time.monotonic()).results()
    return [found[one.name] for one in properties]


@dataclass(slots=True)
class Recorded:
    """Opens searches, and records the number of discrete states of those that were completed."""

    open: OpenZones
    counts: list[int | None] = field(default_factory=list)

    @contextmanager
    def __call__(self, inquiry: Inquiry) -> Iterator[ExploringZones]:
        with self.open(inquiry) as zones:
            yield zones
            assert isinstance(zones, ZoneExploration | SharedZones)
            self.counts.append(zones.discrete_count if zones.complete else None)


def run_here(inquiry: Inquiry) -> ZoneExploration:
    """Explores all zones, without watching for anything."""
    zones = inquiry.explore(64)
    zones.watched.open[:] = 0
    zones.begin(inquiry.initial())
    while not zones.complete:
        zones.advance(1 << 20)
    return zones


def run_parts(inquiry: Inquiry, count: int, random: Random) -> list[ZoneExploration]:
    """Explores all zones in parts; a random part expands one node or takes in one message at a time."""
    parts = [ZonePart(inquiry.explore(64), number, count) for number in range(count)]
    for part in parts:
        part.exploration.watched.open[:] = 0
        part.seed(inquiry.initial())
    while sum([part.end_level() for part in parts]):
        _run_level(parts, random)
    return [part.exploration for part in parts]


def _run_level(parts: Sequence[ZonePart], random: Random) -> None:
    busy, waiting = list(parts), [(part, deque[tuple[int, bytes]]()) for part in parts]
    while busy or any(inbox for _, inbox in waiting):
        part, inbox = random.choice(waiting)
        if inbox and random.random() < 0.5:
            part.take_in(*inbox.popleft())
        elif part in busy:
            part.pace.count = 1
            if part.work() == partition.LEVEL:
                busy.remove(part)
            for other, its_inbox in waiting:
                if other is not part and (records := part.outbox(other.number)):
                    its_inbox.append((part.number, records))


def kept_zones(searches: Sequence[ZoneExploration]) -> dict[bytes, list[Zone]]:
    """The zones of each discrete state that no other zone covers."""
    kept: dict[bytes, list[Zone]] = {}
    for zones in searches:
        for node in range(zones.state_count):
            if not zones.nodes.flags[node] & COVERED:
                kept.setdefault(zones.row(node).tobytes(), []).append(zones.zone(node))
    return kept


def check_kept_alike(searches: Sequence[ZoneExploration], others: Sequence[ZoneExploration]) -> None:
    """Asserts that both keep as many zones, and that each has exactly one among the others that covers it
    and that it covers: which of two such zones is kept depends on the order."""
    ours, theirs = kept_zones(searches), kept_zones(others)
    assert ours.keys() == theirs.keys()
    for row, mine in ours.items():
        covers_other = covering(searches[0], np.frombuffer(row, np.uint64))
        assert len(mine) == len(theirs[row])
        for zone in mine:
            assert sum(covers_other(zone, one) and covers_other(one, zone) for one in theirs[row]) == 1


def covering(zones: ZoneExploration, row: Row) -> Callable[[Zone, Zone], bool]:
    """Whether one zone covers another in the discrete state, from the tables of its locations."""
    shape, n = zones.shape, zones.shape.n
    if len(shape.differences):
        return lambda big, small: includes(big, small, n)
    words, places = row.copy(), np.zeros(shape.component_count, np.int64)
    kind = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p)
    kind(zones.code.places)(words.ctypes.data, places.ctypes.data)
    lower, upper = np.full(n, -1, np.int32), np.full(n, -1, np.int32)
    for place in places[places >= 0]:
        for clock, low, high in shape.bounds[shape.first[place] : shape.first[place + 1]]:
            lower[clock], upper[clock] = max(lower[clock], low), max(upper[clock], high)
    return lambda big, small: covers(big, small, n, lower, upper)


def check_alike(network: Network, properties: Sequence[Property], open_: OpenZones) -> None:
    """Asserts that the shared search finds what the local one does: verdicts, best values, discrete states,
    and the lengths of shortest traces; and that its traces are runs."""
    here, there = Recorded(opening_zones_locally(Limits())), Recorded(open_)
    local = check_zones(network, properties, here)
    shared = check_zones(network, properties, there)
    for property_, one, other in zip(properties, local, shared, strict=True):
        check_result_alike(network, property_, one, other)
    for one_count, other_count in zip(here.counts, there.counts, strict=True):
        assert one_count == other_count or one_count is None or other_count is None


def check_result_alike(network: Network, property_: Property, local: Result, shared: Result) -> None:
    """Asserts that the results of one property agree."""
    assert word(shared.verdict) == word(local.verdict), property_.name
    if isinstance(local.verdict, Holds) and isinstance(shared.verdict, Holds):
        told = (shared.verdict.reason, shared.verdict.vacuous)
        assert told == (local.verdict.reason, local.verdict.vacuous)
    one, other = local.verdict.trace, shared.verdict.trace
    assert (one is None) == (other is None)
    if one is None or other is None:
        return
    replay(TimedInterpreter(network), other)
    if one.shortest and other.shortest:
        assert action_count(other) == action_count(one), property_.name


def replay(interpreter: TimedInterpreter, trace: Trace) -> None:
    """Asserts that the trace is a run of the interpreter."""
    network, now = interpreter.network, interpreter.initial()
    for step in trace.steps[1:]:
        assert step.delay is not None
        later = interpreter.delay(now, Fraction(step.delay))
        assert later is not None, "the delay violates an invariant"
        now = later
        if step.action is not None:
            found = [one.target for one in interpreter.steps(now) if is_shown(network, one, step)]
            assert found, f"no such step: {step}"
            now = found[0]
        assert show_timed(network, now.state, now.clocks) == step.state


def is_shown(network: Network, taken: TimedStep, step: Step) -> bool:
    """Whether the step of the trace shows the step taken."""
    told = show_timed(network, taken.target.state, taken.target.clocks)
    return (taken.taken.label, taken.taken.process, told) == (step.action, step.process, step.state)


def action_count(trace: Trace) -> int:
    """The number of steps of a trace that are not mere delays."""
    return sum(step.action is not None for step in trace.steps)
