"""Safety properties of timed networks, by exploring zones breadth-first.

Properties that mention neither clocks nor deadlocks share one search. Each of the others has its own, which
distinguishes zones only where the constants of that property require it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Protocol

from veristream.ir.clocks import Bound
from veristream.ir.disjuncts import mentions_clocks
from veristream.ir.expr import ClockValue, Expr
from veristream.ir.network import Network
from veristream.ir.oracle.timed import TimedInterpreter
from veristream.ir.property import Always, DeadlockFree, Optimise, Property, Reachable
from veristream.ir.text.printer import print_expr
from veristream.ir.vacuity import sentence_never
from veristream.kernel.zones import INFINITY
from veristream.search.limits import Limits, Report
from veristream.search.safety import Best, Case, Search, Watching
from veristream.search.session import Hit
from veristream.search.vacuity import true_from_the_start
from veristream.search.zones.expand import BEYOND
from veristream.search.zones.explore import MODEL_FAILS, code_of, scratch_of, shape_of
from veristream.search.zones.faults import FaultExplainer, failure_at_start
from veristream.search.zones.inquiry import Inquiry, inquire
from veristream.search.zones.path import Walker
from veristream.search.zones.steps import Shape
from veristream.search.zones.trace import Originated, TraceBuilder, path_to, zone_bounds
from veristream.verdict import Holds, Result, Trace, Unknown, Verdict, Violated

REACH_FIRST, REACH_MAX = 16, 1 << 16
"""Up to which value a measured clock is distinguished at first and at most."""


class ExploringZones(Watching, Originated, Protocol):
    """An exploration of zones, local or shared."""

    @property
    def is_shortest(self) -> bool: ...
    @property
    def room(self) -> tuple[int, int]: ...
    def unwatch(self, hit: Hit) -> None: ...
    def extreme(self, measure: int) -> tuple[int, int, int] | None: ...


OpenZones = Callable[[Inquiry], AbstractContextManager[ExploringZones]]
"""Begins an exploration of zones that answers the inquiry."""

ZoneSearch = Search[ExploringZones]


def opening_zones_locally(limits: Limits) -> OpenZones:
    """Explorations of zones in this process."""

    @contextmanager
    def open_(inquiry: Inquiry) -> Iterator[ExploringZones]:
        zones = inquiry.explore(limits.memory_max_mib)
        zones.begin(inquiry.initial())
        yield zones

    return open_


def check_timed_safety(
    network: Network, group: Sequence[Property], limits: Limits, report: Report
) -> dict[str, Result]:
    """The results of a group of safety properties, by name."""
    search = search_group(network, group, (limits, report), opening_zones_locally(limits), time.monotonic())
    return search.results()


def groups_of(properties: Sequence[Property]) -> list[list[Property]]:
    """The properties, grouped by the search that decides them."""
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


def search_group(
    network: Network,
    group: Sequence[Property],
    bounds: tuple[Limits, Report],
    open_: OpenZones,
    started: float,
) -> ZoneSearch:
    """Searches; if a measured clock exceeds what zones distinguish, searches again with a larger bound."""
    reach = REACH_FIRST
    while True:
        inquiry = inquire(network, group, reach)
        with open_(inquiry) as zones:
            judge = ZoneJudge.of(inquiry, zones)
            search = Search(inquiry.cases, judge, zones, bounds, started)
            search.run()
        if not judge.beyond_reach or search.session.stopped or reach >= REACH_MAX:
            return search
        reach *= 16


@dataclass(slots=True)
class ZoneJudge:
    """Says what hits in zones mean; traces get concrete delays, and the interpreter replays them."""

    inquiry: Inquiry
    zones: ExploringZones
    interpreter: TimedInterpreter
    shape: Shape
    traces: TraceBuilder
    answered: set[int] = field(default_factory=set)  # questions, of cases or of premises
    beyond_reach: bool = False  # a measured clock exceeds what zones distinguish

    @staticmethod
    def of(inquiry: Inquiry, zones: ExploringZones) -> ZoneJudge:
        """The judge of an inquiry that the exploration answers."""
        network, kernel = inquiry.network, inquiry.kernel
        interpreter = TimedInterpreter(network)
        shape = shape_of(network, kernel, inquiry.questions.bounds(exact=False, reach=inquiry.reach))
        return ZoneJudge(
            inquiry, zones, interpreter, shape, TraceBuilder(network, kernel, shape, interpreter)
        )

    def fault_at_start(self) -> Unknown | None:
        """The verdict if an initial invariant cannot be evaluated; raises ModelError if it is false."""
        failure = failure_at_start(self.interpreter)
        if failure is None:
            self.interpreter.initial()
        return failure

    def rank(self, hit: Hit) -> tuple[int, ...]:
        """By depth; a hit in the level in which the model fails still counts, so faults are last."""
        return (hit.kind == MODEL_FAILS, hit.other)

    def fault(self, hit: Hit) -> Unknown | None:
        """The verdict if the model fails there."""
        if hit.kind != MODEL_FAILS:
            return None
        explainer = FaultExplainer(self.traces, self._walker(), self.inquiry.questions)
        return explainer.explain(path_to(self.zones, hit.source), hit.other)

    def answer(self, hit: Hit) -> int:
        """The question that the part found belongs to."""
        question = self.inquiry.questions.parts[hit.kind].case
        if question not in self.answered:
            self.answered.add(question)
            self.zones.unwatch(hit)
        return question

    def found(self, case: Case, hit: Hit) -> Verdict:
        """The verdict with a trace."""
        trace = self._trace(hit.source, hit.kind)
        match case.claim:
            case Reachable():
                return Holds("", trace, true_from_the_start(self.interpreter, case.property))
            case DeadlockFree():
                return Violated("no action is possible at the end, nor after any delay", trace)
            case _:
                return Violated("the condition does not hold at the end", trace)

    def vacuity(self, case: Case) -> str | None:
        """The sentence for a premise that held in no zone."""
        unmet = (premise for number, premise in case.premises if number not in self.answered)
        first = next(unmet, None)
        return None if first is None else sentence_never(print_expr(first))

    def unreduced_states(self) -> int | None:
        """None: zones are searched without symmetry."""
        return None

    def best(self, case: Case, optimise: Optimise) -> Best | None:
        """The best value so far and a run to it, unless the clock exceeds what zones distinguish: such a
        run is as long as it is uninteresting."""
        best = self.zones.extreme(case.measure)
        if best is None:
            return None
        value, node, part = best
        clock = self.inquiry.questions.clock_of(case.measure)
        words, extra, beyond = f"= {value}", tuple[Bound, ...](), False
        if clock:
            words, extra, beyond = self._clock_extreme(clock, value, optimise.direction)
            self.beyond_reach |= beyond
        words = f"{optimise.direction} {_value_name(optimise.value)} {words}"
        return Best(words, None if beyond else self._trace(node, part, extra))

    def _clock_extreme(self, clock: int, raw: int, direction: str) -> tuple[str, tuple[Bound, ...], bool]:
        """The extreme of a clock in words, the bounds that show it best, and whether it exceeds what zones
        distinguish."""
        if raw >= INFINITY:
            return "is unbounded", (), False
        if raw == BEYOND:
            return f"is greater than {self.inquiry.reach}", (), True
        limit, attained = raw >> 1, bool(raw & 1)
        if direction == "max":
            near = Bound(0, clock, -limit) if attained else Bound(0, clock, 1 - limit)
            return (f"= {limit}" if attained else f"< {limit}"), (near,), False
        if not attained and -limit >= self.inquiry.reach:
            return f"is greater than {-limit}", (), True
        near = Bound(clock, 0, -limit) if attained else Bound(clock, 0, 1 - limit)
        return (f"= {-limit}" if attained else f"> {-limit}"), (near,), False

    def _walker(self) -> Walker:
        network, kernel, questions = self.inquiry.network, self.inquiry.kernel, self.inquiry.questions
        scratch = scratch_of(self.shape, network, questions.watch(), *self.zones.room)
        return Walker(code_of(kernel, network), self.shape, scratch, kernel)

    def _trace(self, node: int, part: int, extra: Sequence[Bound] = ()) -> Trace:
        """The run to a node in which a part of a condition holds."""
        walker = self._walker()
        deadlock = self.inquiry.questions.parts[part].disjunct.deadlock
        found = walker.walk(path_to(self.zones, node), walker.satisfying(part, deadlock))
        assert found is not None, "a path of zones is a run"
        hops, zone = found
        final = (*zone_bounds(zone, self.shape.n), *extra)
        return self.traces.build(hops, final, shortest=self._is_shortest(part))

    def _is_shortest(self, part: int) -> bool:
        """Whether no shorter run leads to the case of the part, which was found first.

        A node is tested for deadlocks when it is expanded, for all else already when it is found. So a node
        at the depth of the one before this may still turn out to be a deadlock.
        """
        parts = self.inquiry.questions.parts
        asked = parts[part]
        deadlocks = [one.disjunct.deadlock for one in parts if one.case == asked.case]
        sure = asked.disjunct.deadlock is not None or all(one is None for one in deadlocks)
        return sure and self.zones.is_shortest


def _value_name(value: Expr) -> str:
    if isinstance(value, ClockValue):
        return value.clock.clock + "".join(f"[{print_expr(index)}]" for index in value.clock.indices)
    return print_expr(value)
