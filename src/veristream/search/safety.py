"""The search for safety properties: those that one look at each reachable state, or step, decides.

Several properties share one exploration; each gets its verdict as soon as it is known, and the search ends
when all have one. The search is the same for states and for zones. What its hits mean is up to a `Judge`,
of which there is one for states (`reach.safety`) and one for zones (`zones.safety`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, Protocol, TypeVar

from veristream.ir.expr import Expr
from veristream.ir.property import (
    Always,
    DeadlockFree,
    NonTerminating,
    Optimise,
    Property,
    Reachable,
    Transition,
    kind_of,
)
from veristream.search.limits import Limits, Report
from veristream.search.omission import tell_omission
from veristream.search.session import Advancing, Hit, Session, hash_bits_of, omission_of
from veristream.verdict import Effort, Holds, Result, Trace, Unknown, Verdict, Violated

SafetyClaim = DeadlockFree | NonTerminating | Always | Reachable | Transition

UNREACHABLE = "no reachable state satisfies it"


@dataclass(slots=True)
class Case:
    """A property under search: the number of the question that decides it, and its verdict once known."""

    property: Property
    claim: SafetyClaim
    question: int
    measure: int = -1  # the number of the value to optimise
    premises: list[tuple[int, Expr]] = field(default_factory=list)  # numbered as questions of their own
    verdict: Verdict | None = None
    effort: Effort | None = None

    def result(self) -> Result:
        """The result of a case that is decided."""
        assert self.verdict is not None and self.effort is not None, "the search left a case open"
        return Result(self.property.name, kind_of(self.claim), self.verdict, self.effort)


@dataclass(frozen=True, slots=True)
class Best:
    """The best value of a measure, in words, and a run to a state that has it."""

    words: str
    trace: Trace | None


class Watching(Advancing, Protocol):
    """An exploration that notes what it was asked to watch for."""

    @property
    def hits(self) -> list[Hit]: ...


class Judge(Protocol):
    """Says what the hits of one exploration mean for the properties; replays every trace it returns."""

    def fault_at_start(self) -> Unknown | None:
        """The verdict if the model fails before its first step."""

    def rank(self, hit: Hit) -> tuple[int, ...]:
        """The order in which hits of the same round count: nearer ones first, faults last."""

    def fault(self, hit: Hit) -> Unknown | None:
        """The verdict if the hit is a run-time error of the model or of a property."""

    def answer(self, hit: Hit) -> int:
        """The number of the question that the hit answers; the exploration stops watching for it."""

    def found(self, case: Case, hit: Hit) -> Verdict:
        """The verdict of a case that the hit decides."""

    def best(self, case: Case, optimise: Optimise) -> Best | None:
        """The best value of the case's measure; None if no state has one."""

    def vacuity(self, case: Case) -> str | None:
        """Why a property that nothing violates says little, if it does."""

    def unreduced_states(self) -> int | None:
        """How many states a complete exploration stands for, if it used symmetry."""


Explored = TypeVar("Explored", bound=Watching)


class Search(Generic[Explored]):
    """One exploration that decides several cases."""

    def __init__(
        self,
        cases: Sequence[Case],
        judge: Judge,
        exploration: Explored,
        bounds: tuple[Limits, Report],
        started: float,
    ) -> None:
        self.cases, self.judge = cases, judge
        task = ", ".join(case.property.name for case in cases)
        self.session = Session(exploration, *bounds, task, started)

    def run(self) -> None:
        """Gives every case its verdict."""
        fault = self.judge.fault_at_start()
        if fault is not None:
            self._decide_all(fault)
        else:
            self._explore()

    def results(self) -> dict[str, Result]:
        """The results by name, once the search has run."""
        return {case.property.name: case.result() for case in self.cases}

    def _explore(self) -> None:
        exploration = self.session.exploration
        for _ in self.session.rounds():
            for hit in sorted(exploration.hits, key=self.judge.rank):
                self._take(hit)
            if not self._open():
                exploration.close()
                return
        if not self.session.stopped:
            self.session.unreduced_states = self.judge.unreduced_states()
        for case in self._open():
            self._decide(case, self._weigh(self._at_end(case)))

    def _open(self) -> list[Case]:
        return [case for case in self.cases if case.verdict is None]

    def _decide(self, case: Case, verdict: Verdict) -> None:
        case.verdict, case.effort = verdict, self.session.effort()

    def _decide_all(self, verdict: Verdict) -> None:
        for case in self._open():
            self._decide(case, verdict)

    def _take(self, hit: Hit) -> None:
        """Decides the cases that the hit answers. After a fault of the model nothing can be relied on, so
        every open case stays unknown."""
        if not self._open():
            return
        fault = self.judge.fault(hit)
        if fault is not None:
            self._decide_all(fault)
            return
        question = self.judge.answer(hit)
        for case in self._open():
            if case.question == question and case.measure < 0:
                self._decide(case, self.judge.found(case, hit))

    def _at_end(self, case: Case) -> Verdict:
        """The verdict of a case that no hit decided."""
        stopped = self.session.stopped
        match case.claim:
            case Reachable(optimise=Optimise() as optimise):
                return self._best(case, optimise)
            case _ if stopped:
                return Unknown(stopped)
            case Reachable():
                return Violated(UNREACHABLE)
            case _:
                return Holds(vacuous=self.judge.vacuity(case))

    def _weigh(self, verdict: Verdict) -> Verdict:
        """The verdict of a search that is complete, unless states were omitted; then it says how probable
        that is. It is unknown if no bound on the probability is known."""
        bits, omission = hash_bits_of(self.session.exploration), omission_of(self.session.exploration)
        if bits is None or omission is None or isinstance(verdict, Unknown):
            return verdict
        reason = "; ".join(part for part in (verdict.reason, tell_omission(omission, bits)) if part)
        if omission >= 1:
            return Unknown(reason, verdict.trace, omission=omission)
        return replace(verdict, reason=reason, omission=omission)

    def _best(self, case: Case, optimise: Optimise) -> Verdict:
        stopped, best = self.session.stopped, self.judge.best(case, optimise)
        if best is None:
            return Unknown(stopped) if stopped else Violated(UNREACHABLE)
        if stopped:
            return Unknown(f"{stopped}; so far {best.words}", best.trace)
        return Holds(best.words, best.trace)
