"""Timed networks: safety properties by searching zones.

Properties that speak neither of clocks nor of deadlocks share one search; each of the others has its own,
as far as its constants need zones to be told apart.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from veristream.ir.clocks import Bound
from veristream.ir.disjuncts import Disjunct, negate, speaks_of_clocks, split
from veristream.ir.evaluate import ModelFault
from veristream.ir.expr import TRUE, Binary, ClockValue, Expr, IsDone, Unary
from veristream.ir.network import Network
from veristream.ir.property import Always, DeadlockFree, Property, Reachable
from veristream.ir.text import print_expr
from veristream.ir.timed import TimedInterpreter
from veristream.ir.vacuity import antecedents, initially, sentence_initial, sentence_never
from veristream.kernel.layout import encode
from veristream.kernel.load import load_kernel
from veristream.kernel.zones import INFINITY
from veristream.search.limits import Limits, Report
from veristream.search.safety import kind_of
from veristream.search.session import INTERRUPTED, Session
from veristream.search.timed_faults import FaultTeller, failure_at_first
from veristream.search.timed_trace import Hop, Teller, zone_bounds
from veristream.search.timed_watch import Questions
from veristream.search.zone_explore import ZoneExploration
from veristream.search.zone_path import Walker
from veristream.search.zones import BEYOND
from veristream.verdict import Effort, Holds, Result, Trace, Unknown, Verdict, Violated

TimedSafety = Always | Reachable | DeadlockFree

REACH_FIRST, REACH_MAX = 16, 1 << 16
"""How far a measured clock is told apart at first and at most."""


@dataclass(slots=True)
class TimedCase:
    """A property under search: its number among the questions, and its verdict once known."""

    property: Property
    claim: TimedSafety
    number: int
    premises: list[tuple[int, Expr]] = field(default_factory=list)
    verdict: Verdict | None = None
    effort: Effort | None = None


def check_timed_safety(
    network: Network, properties: Sequence[Property], limits: Limits, report: Report
) -> dict[str, Result]:
    """The results of safety properties of a timed network, by name."""
    interpreter = TimedInterpreter(network)
    plain = [one for one in properties if not _needs_clocks(one)]
    groups = ([plain] if plain else []) + [[one] for one in properties if _needs_clocks(one)]
    results: dict[str, Result] = {}
    interrupted = False
    for group in groups:
        search = _search(network, interpreter, group, limits, report, interrupted)
        interrupted = search.session.stopped == INTERRUPTED
        for case in search.cases:
            assert case.verdict is not None and case.effort is not None
            name = case.property.name
            results[name] = Result(name, kind_of(case.claim), case.verdict, case.effort)
    return results


def _needs_clocks(property_: Property) -> bool:
    match property_.claim:
        case DeadlockFree():
            return True
        case Reachable(condition=condition, optimise=optimise):
            measured = optimise is not None and isinstance(optimise.value, ClockValue)
            return measured or speaks_of_clocks(condition)
        case Always(condition=condition):
            return speaks_of_clocks(condition)
        case _:
            raise AssertionError(f"not a safety property: {property_.claim}")


def _search(
    network: Network,
    interpreter: TimedInterpreter,
    group: Sequence[Property],
    limits: Limits,
    report: Report,
    interrupted: bool,
) -> TimedSearch:
    """Searches, and where a clock was measured beyond what was told apart, searches again; not at all
    where the search before was interrupted."""
    reach, started = REACH_FIRST, time.monotonic()
    while True:
        search = TimedSearch(network, interpreter, group, limits, report, reach, started)
        if interrupted:
            search.session.stopped = INTERRUPTED
        search.run()
        if not search.beyond_reach or reach >= REACH_MAX:
            return search
        reach *= 16


class TimedSearch:
    """One search of zones for some properties."""

    def __init__(
        self,
        network: Network,
        interpreter: TimedInterpreter,
        group: Sequence[Property],
        limits: Limits,
        report: Report,
        reach: int,
        started: float,
    ) -> None:
        self.network, self.interpreter, self.reach = network, interpreter, reach
        self.questions = Questions(network)
        self.cases = [self._case(one) for one in group]
        watch = self.questions.watch()
        self.kernel = load_kernel(network, watch)
        bounds = self.questions.bounds(exact=False, reach=reach)
        watched = self.questions.watched()
        self.zones = ZoneExploration(network, watch, self.kernel, bounds, watched, limits.memory_max_mib)
        task = ", ".join(one.name for one in group)
        self.session: Session[ZoneExploration] = Session(self.zones, limits, report, task, started)
        self.teller = Teller(network, self.kernel, self.zones.shape, interpreter)
        self.beyond_reach = False

    def _case(self, property_: Property) -> TimedCase:
        claim = property_.claim
        match claim:
            case DeadlockFree():
                alive = Unary("not", terminated(self.network))
                number = self.questions.ask((Disjunct(alive, deadlock=True),))
            case Always(condition=condition):
                number = self.questions.ask(negate(condition))
            case Reachable(condition=condition, optimise=optimise):
                number = self.questions.ask(split(condition), optimise)
            case _:
                raise AssertionError(f"not a safety property: {claim}")
        case_ = TimedCase(property_, claim, number)
        for premise in antecedents(property_):
            case_.premises.append((self.questions.ask(split(premise)), premise))
        return case_

    def run(self) -> None:
        """Gives every case its verdict."""
        failure = failure_at_first(self.interpreter)
        if failure is not None:
            for case in self.cases:
                self._decide(case, failure)
            return
        initial = encode(self.kernel.layout, self.network, self.interpreter.initial().state)
        self.zones.begin(initial)
        for _ in self.session.rounds():
            if self._fault():
                return
            for case in list(self._open()):
                self._look(case)
            self._close_premises()
            if not self._open():
                return
        for case in self._open():
            self._decide(case, self._at_end(case))

    def _open(self) -> list[TimedCase]:
        return [case for case in self.cases if case.verdict is None]

    def _decide(self, case: TimedCase, verdict: Verdict) -> None:
        case.verdict, case.effort = verdict, self.session.effort()
        self.zones.watched.open[case.number] = 0

    def _look(self, case: TimedCase) -> None:
        """Decides a case whose condition was found."""
        node, part = map(int, self.zones.watched.hits[case.number])
        if node >= 0:
            self.zones.watched.hits[case.number] = -1
            self._decide(case, self._found(case, node, part))

    def _close_premises(self) -> None:
        """A premise that was found once need not be looked for again."""
        watched = self.zones.watched
        for case in self.cases:
            for number, _ in case.premises:
                if watched.hits[number, 0] >= 0:
                    watched.hits[number] = -1
                    watched.open[number] = 0

    def _fault(self) -> bool:
        """Whether the model fails; then whatever is open stays unknown."""
        node, action = map(int, self.zones.watched.fault)
        if node < 0:
            return False
        failure = FaultTeller(self.teller, self._walker(), self.questions).tell(
            way_to(self.zones, node), action
        )
        for case in self._open():
            self._decide(case, failure)
        return True

    def _walker(self) -> Walker:
        return Walker(self.zones.code, self.zones.shape, self.zones.scratch, self.kernel)

    def _trace(self, node: int, part: int, extra: Sequence[Bound] = ()) -> Trace:
        """The run to a node where a part of a condition holds."""
        zones, walker = self.zones, self._walker()
        deadlock = self.questions.parts[part].disjunct.deadlock
        found = walker.walk(way_to(self.zones, node), walker.satisfying(part, deadlock))
        assert found is not None, "a way of zones is a run"
        way, zone = found
        final = (*zone_bounds(zone, zones.shape.n), *extra)
        return self.teller.tell(way, final, shortest=zones.is_shortest)

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
            if self.zones.watched.open[number]:
                return Holds(vacuous=sentence_never(print_expr(premise)))
        return Holds()

    def _best(self, case: TimedCase, claim: Reachable) -> Verdict:
        assert claim.optimise is not None
        measure = self.questions.measure_of[case.number]
        value, node, part = map(int, self.zones.watched.best[measure])
        stopped = self.session.stopped
        if node < 0:
            return Unknown(stopped) if stopped else Violated("no reachable state satisfies it")
        clock = self.questions.clock_of(measure)
        extra: tuple[Bound, ...] = ()
        shown = f"= {value}"
        if clock:
            shown, extra, beyond = self._clock_extreme(clock, value, claim.optimise.direction)
            if beyond and not stopped:
                self.beyond_reach = True
        name = _value_name(claim.optimise.value)
        what = f"{claim.optimise.direction} {name} {shown}"
        if self.beyond_reach and self.reach < REACH_MAX:
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
        if not attained and -limit >= self.reach:
            return f"is greater than {-limit}", (), True
        near = Bound(clock, 0, -limit) if attained else Bound(clock, 0, 1 - limit)
        return (f"= {-limit}" if attained else f"> {-limit}"), (near,), False


def way_to(zones: ZoneExploration, node: int) -> list[Hop]:
    """The way from the initial state to a node."""
    path = zones.path(node)
    way = [Hop(zones.row(path[0]))]
    for one in path[1:]:
        entry = int(zones.nodes.entries[one])
        way.append(Hop(zones.row(one), entry & 0xFFFFFFFF, entry >> 32))
    return way


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


def terminated(network: Network) -> Expr:
    """Whether a state without a step is where the network is meant to end."""
    ended: Expr = TRUE
    for component in network.components:
        ended = Binary("and", ended, IsDone(component.name))
    return ended if network.terminal is None else Binary("or", network.terminal, ended)


def _value_name(value: Expr) -> str:
    if isinstance(value, ClockValue):
        return value.clock.clock + "".join(f"[{print_expr(index)}]" for index in value.clock.indices)
    return print_expr(value)
