"""Timed networks: safety properties by searching zones.

Properties that speak neither of clocks nor of deadlocks share one search; each of the others has its own,
as far as its constants need zones to be told apart.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

from veristream.ir.clocks import Bound
from veristream.ir.disjuncts import mentions_clocks
from veristream.ir.expr import ClockValue, Expr
from veristream.ir.network import Network
from veristream.ir.oracle.evaluate import ModelFault
from veristream.ir.oracle.timed import TimedInterpreter
from veristream.ir.property import Always, DeadlockFree, Property, Reachable, kind_of
from veristream.ir.text.printer import print_expr
from veristream.ir.vacuity import initially, sentence_initial, sentence_never
from veristream.kernel.zones import INFINITY
from veristream.search.limits import Limits, Report
from veristream.search.session import INTERRUPTED, Advancing, Hit, Session
from veristream.search.zones.cases import Inquiry, TimedCase, inquire
from veristream.search.zones.expand import BEYOND
from veristream.search.zones.explore import MODEL_FAILS, Origin, code_of, scratch_of, shape_of
from veristream.search.zones.faults import FaultTeller, failure_at_first
from veristream.search.zones.path import Walker
from veristream.search.zones.trace import Hop, Teller, zone_bounds
from veristream.verdict import Holds, Result, Trace, Unknown, Verdict, Violated

REACH_FIRST, REACH_MAX = 16, 1 << 16
"""How far a measured clock is told apart at first and at most."""


class Originated(Protocol):
    """What knows where its nodes were found from."""

    def origin(self, node: int) -> Origin: ...


class ExploringZones(Advancing, Originated, Protocol):
    """A search of zones as `TimedSearch` looks at it, local or shared."""

    @property
    def hits(self) -> list[Hit]: ...
    @property
    def is_shortest(self) -> bool: ...
    @property
    def room(self) -> tuple[int, int]: ...
    def unwatch(self, hit: Hit) -> None: ...
    def extreme(self, measure: int) -> tuple[int, int, int] | None: ...


OpenZones = Callable[[Inquiry], AbstractContextManager[ExploringZones]]
"""Begins a search of zones, to be asked what the inquiry asks."""

SearchGroup = Callable[[Network, Sequence[Property], Limits, Report], "TimedSearch"]
"""Searches for the properties of one group."""


def opening_zones_locally(limits: Limits) -> OpenZones:
    """Searches of zones in this process."""

    @contextmanager
    def open_(inquiry: Inquiry) -> Iterator[ExploringZones]:
        zones = inquiry.explore(limits.memory_max_mib)
        zones.begin(inquiry.initial())
        yield zones

    return open_


def check_timed_safety(
    network: Network,
    properties: Sequence[Property],
    limits: Limits,
    report: Report,
    search: SearchGroup | None = None,
) -> dict[str, Result]:
    """The results of safety properties of a timed network, by name."""
    results: dict[str, Result] = {}
    interrupted = False
    for group in groups_of(properties):
        if interrupted:
            found = _not_begun(network, group, limits, report)
        else:
            found = (search or search_here)(network, group, limits, report)
        interrupted = found.session.stopped == INTERRUPTED
        for case in found.cases:
            assert case.verdict is not None and case.effort is not None
            name = case.property.name
            results[name] = Result(name, kind_of(case.claim), case.verdict, case.effort)
    return results


def groups_of(properties: Sequence[Property]) -> list[list[Property]]:
    """The properties that are decided by one search."""
    plain = [one for one in properties if not _needs_clocks(one)]
    return ([plain] if plain else []) + [[one] for one in properties if _needs_clocks(one)]


def _needs_clocks(property_: Property) -> bool:
    match property_.claim:
        case DeadlockFree():
            return True
        case Reachable(condition=condition, optimise=optimise):
            measured = optimise is not None and isinstance(optimise.value, ClockValue)
            return measured or mentions_clocks(condition)
        case Always(condition=condition):
            return mentions_clocks(condition)
        case _:
            raise AssertionError(f"not a safety property: {property_.claim}")


def search_here(network: Network, group: Sequence[Property], limits: Limits, report: Report) -> TimedSearch:
    """Searches in this process."""
    return search_group(network, group, limits, report, opening_zones_locally(limits), time.monotonic())


def search_group(
    network: Network,
    group: Sequence[Property],
    limits: Limits,
    report: Report,
    open_: OpenZones,
    started: float,
) -> TimedSearch:
    """Searches, and where a clock was measured beyond what was told apart, searches again."""
    reach = REACH_FIRST
    while True:
        search = TimedSearch(inquire(network, group, reach), limits, report, started)
        with search.opened(open_):
            search.run()
        if not search.beyond_reach or reach >= REACH_MAX:
            return search
        reach *= 16


def _not_begun(network: Network, group: Sequence[Property], limits: Limits, report: Report) -> TimedSearch:
    """The search of a group that an interrupt came before."""
    search = TimedSearch(inquire(network, group, REACH_FIRST), limits, report, time.monotonic())
    with search.opened(opening_zones_locally(limits)):
        search.session.stopped = INTERRUPTED
        search.run()
    return search


class TimedSearch:
    """One search of zones for some properties."""

    def __init__(self, inquiry: Inquiry, limits: Limits, report: Report, started: float) -> None:
        self.inquiry, self.limits, self.report, self.started = inquiry, limits, report, started
        self.questions, self.cases = inquiry.questions, inquiry.cases
        network, kernel = inquiry.network, inquiry.kernel
        self.interpreter = TimedInterpreter(network)
        self.shape = shape_of(network, kernel, self.questions.bounds(exact=False, reach=inquiry.reach))
        self.teller = Teller(network, kernel, self.shape, self.interpreter)
        self.session: Session[ExploringZones]
        self.found: set[int] = set()  # questions, of cases or of premises
        self.beyond_reach = False

    @contextmanager
    def opened(self, open_: OpenZones) -> Iterator[None]:
        """With a search of zones under way."""
        task = ", ".join(case.property.name for case in self.cases)
        with open_(self.inquiry) as zones:
            self.session = Session(zones, self.limits, self.report, task, self.started)
            yield

    @property
    def zones(self) -> ExploringZones:
        """The search of zones under way."""
        return self.session.exploration

    def run(self) -> None:
        """Gives every case its verdict."""
        failure = failure_at_first(self.interpreter)
        if failure is not None:
            self._decide_all(failure)
            return
        self.interpreter.initial()  # raises where there is none
        for _ in self.session.rounds():
            # The nearest nodes first; what is found in the level in which the model fails is found.
            for hit in sorted(self.zones.hits, key=lambda hit: (hit.kind == MODEL_FAILS, hit.other)):
                self._take(hit)
            if not self._open():
                return
        for case in self._open():
            self._decide(case, self._at_end(case))

    def _open(self) -> list[TimedCase]:
        return [case for case in self.cases if case.verdict is None]

    def _decide(self, case: TimedCase, verdict: Verdict) -> None:
        case.verdict, case.effort = verdict, self.session.effort()

    def _decide_all(self, verdict: Verdict) -> None:
        for case in self._open():
            self._decide(case, verdict)

    def _take(self, hit: Hit) -> None:
        """Decides the case of which a part was found, or notes that it was if it is a premise. Where the
        model fails, whatever is open stays unknown."""
        if hit.kind == MODEL_FAILS:
            if self._open():
                teller = FaultTeller(self.teller, self._walker(), self.questions)
                self._decide_all(teller.tell(way_to(self.zones, hit.source), hit.other))
            return
        number = self.questions.parts[hit.kind].case
        if number in self.found:
            return
        self.found.add(number)
        self.zones.unwatch(hit)
        for case in self._open():
            if case.number == number:
                self._decide(case, self._found(case, hit.source, hit.kind))

    def _walker(self) -> Walker:
        network, kernel = self.inquiry.network, self.inquiry.kernel
        scratch = scratch_of(self.shape, network, self.questions.watch(), *self.zones.room)
        return Walker(code_of(kernel, network), self.shape, scratch, kernel)

    def _trace(self, node: int, part: int, extra: Sequence[Bound] = ()) -> Trace:
        """The run to a node where a part of a condition holds."""
        walker = self._walker()
        deadlock = self.questions.parts[part].disjunct.deadlock
        found = walker.walk(way_to(self.zones, node), walker.satisfying(part, deadlock))
        assert found is not None, "a way of zones is a run"
        way, zone = found
        final = (*zone_bounds(zone, self.shape.n), *extra)
        return self.teller.tell(way, final, shortest=self._is_shortest(part))

    def _is_shortest(self, part: int) -> bool:
        """Whether no shorter run leads to the case of the part, which was found first. Deadlocks are asked
        for when a node is expanded, all else already when it is found, so that a node that is as near as
        the one before this may still be a deadlock."""
        asked = self.questions.parts[part]
        deadlocks = [one.disjunct.deadlock for one in self.questions.parts if one.case == asked.case]
        sure = asked.disjunct.deadlock is not None or all(one is None for one in deadlocks)
        return sure and self.zones.is_shortest

    def _found(self, case: TimedCase, node: int, part: int) -> Verdict:
        trace = self._trace(node, part)
        match case.claim:
            case Reachable():
                return Holds("", trace, self._at_once(case.property))
            case DeadlockFree():
                return Violated("no action is possible at the end, nor after any delay", trace)
            case _:
                return Violated("the condition does not hold at the end", trace)

    def _at_once(self, property_: Property) -> str | None:
        return true_at_once(self.interpreter, property_)

    def _at_end(self, case: TimedCase) -> Verdict:
        """The verdict of a case that nothing found decided."""
        claim, stopped = case.claim, self.session.stopped
        if isinstance(claim, Reachable) and claim.optimise is not None:
            return self._best(case, claim)
        if stopped:
            return Unknown(stopped)
        if isinstance(claim, Reachable):
            return Violated("no reachable state satisfies it")
        for number, premise in case.premises:
            if number not in self.found:
                return Holds(vacuous=sentence_never(print_expr(premise)))
        return Holds()

    def _best(self, case: TimedCase, claim: Reachable) -> Verdict:
        assert claim.optimise is not None
        measure = self.questions.measure_of[case.number]
        stopped = self.session.stopped
        best = self.zones.extreme(measure)
        if best is None:
            return Unknown(stopped) if stopped else Violated("no reachable state satisfies it")
        value, node, part = best
        clock = self.questions.clock_of(measure)
        extra: tuple[Bound, ...] = ()
        shown = f"= {value}"
        if clock:
            shown, extra, beyond = self._clock_extreme(clock, value, claim.optimise.direction)
            if beyond and not stopped:
                self.beyond_reach = True
        name = _value_name(claim.optimise.value)
        what = f"{claim.optimise.direction} {name} {shown}"
        if self.beyond_reach and self.inquiry.reach < REACH_MAX:
            return Unknown(f"{name} {shown}")  # another search will tell
        # A run that lets a clock grow so far is as long as it is dull.
        trace = None if self.beyond_reach else self._trace(node, part, extra)
        return Unknown(f"{stopped}; so far {what}", trace) if stopped else Holds(what, trace)

    def _clock_extreme(self, clock: int, raw: int, direction: str) -> tuple[str, tuple[Bound, ...], bool]:
        """How the extreme of a clock is told, what shows it best, and whether it is beyond what zones
        tell apart."""
        if raw >= INFINITY:
            return "is unbounded", (), False
        if raw == BEYOND:
            return f"is greater than {REACH_MAX}", (Bound(0, clock, -REACH_MAX, strict=True),), True
        limit, attained = raw >> 1, bool(raw & 1)
        if direction == "max":
            near = Bound(0, clock, -limit) if attained else Bound(0, clock, 1 - limit)
            return (f"= {limit}" if attained else f"< {limit}"), (near,), False
        if not attained and -limit >= self.inquiry.reach:
            return f"is greater than {-limit}", (), True
        near = Bound(clock, 0, -limit) if attained else Bound(clock, 0, 1 - limit)
        return (f"= {-limit}" if attained else f"> {-limit}"), (near,), False


def way_to(zones: Originated, node: int) -> list[Hop]:
    """The way from the initial state to a node."""
    way: list[Hop] = []
    at: int | None = node
    while at is not None:
        found = zones.origin(at)
        at = found.parent
        led = (None, None) if at is None else (found.entry & 0xFFFFFFFF, found.entry >> 32)
        way.append(Hop(found.row, *led))
    return way[::-1]


def true_at_once(interpreter: TimedInterpreter, property_: Property) -> str | None:
    """The sentence for a property that needs no action to be true; None for others."""
    condition = initially(property_)
    if condition is None:
        return None
    try:
        holds = interpreter.holds(condition, interpreter.initial())
    except ModelFault:
        return None
    return sentence_initial(print_expr(condition)) if holds else None


def _value_name(value: Expr) -> str:
    if isinstance(value, ClockValue):
        return value.clock.clock + "".join(f"[{print_expr(index)}]" for index in value.clock.indices)
    return print_expr(value)
