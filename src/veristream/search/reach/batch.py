"""Safety properties that one exploration of states decides together, and what it watches for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from veristream.ir.expr import Expr, Unary
from veristream.ir.property import Always, DeadlockFree, NonTerminating, Property, Reachable, Transition
from veristream.ir.vacuity import antecedents
from veristream.kernel.layout import used_bits
from veristream.kernel.load import Kernel
from veristream.kernel.watch import Watch
from veristream.search.reach import expand as native
from veristream.search.reach.expand import Code
from veristream.search.reach.explore import Plan
from veristream.search.safety import Case

STATE_BITS, ACTION_TESTS = 62, 31


@dataclass(slots=True)
class Batch:
    """Properties that fit into one search. A case's question is the kind of the hit that decides it."""

    cases: list[Case] = field(default_factory=list)
    states: list[Expr] = field(default_factory=list)
    actions: list[Expr] = field(default_factory=list)
    measures: list[Expr] = field(default_factory=list)
    goals: list[tuple[int, int]] = field(default_factory=list)
    premises: list[Expr] = field(default_factory=list)

    def has_room(self, property_: Property) -> bool:
        """Whether the property's propositions still fit."""
        wanted = len(self.states) + len(self.premises) + 1 + len(antecedents(property_))
        return not self.cases or (wanted <= STATE_BITS and len(self.actions) < ACTION_TESTS)

    def add(self, property_: Property) -> None:
        """Adds a safety property."""
        claim = property_.claim
        match claim:
            case DeadlockFree():
                case = Case(property_, claim, native.DEADLOCK)
            case NonTerminating():
                case = Case(property_, claim, native.TERMINAL)
            case Always(condition=condition):
                case = Case(property_, claim, len(self.states))
                self.states.append(Unary("not", condition))
            case Reachable(condition=condition):
                case = Case(property_, claim, len(self.states))
                self.states.append(condition)
                self._add_measure(case, claim)
            case Transition(condition=condition):
                case = Case(property_, claim, native.ACTION_HIT + len(self.actions))
                self.actions.append(Unary("not", condition))
            case _:
                raise AssertionError(f"{claim} is not a safety claim")
        self.cases.append(case)
        room = STATE_BITS - len(self.states) - len(self.premises)
        for premise in antecedents(property_)[:room]:
            case.premises.append((len(self.premises), premise))
            self.premises.append(premise)

    def _add_measure(self, case: Case, claim: Reachable) -> None:
        if claim.optimise is not None:
            case.measure = len(self.measures)
            self.measures.append(claim.optimise.value)
            self.goals.append((1 << case.question, 1 if claim.optimise.direction == "max" else -1))

    def premise_bits(self, case: Case) -> list[tuple[int, Expr]]:
        """The case's premises, each with its bit among the state propositions."""
        return [(len(self.states) + number, premise) for number, premise in case.premises]

    def watch(self) -> Watch:
        """The propositions and measures that the kernel evaluates."""
        return Watch(tuple(self.states), tuple(self.premises), tuple(self.actions), tuple(self.measures))

    def plan(self) -> Plan:
        """The hits that the exploration notes."""
        hits = [case.question for case in self.cases if case.measure < 0]
        states = sum(1 << kind for kind in hits if kind < native.ACTION_HIT)
        actions = (1 << len(self.actions)) - 1
        ends = native.DEADLOCK_END * (native.DEADLOCK in hits)
        ends |= native.TERMINAL_END * (native.TERMINAL in hits)
        observes = bool(self.states or self.premises)
        return Plan(states, actions, ends, tuple(self.goals), observes)


def batches(properties: Sequence[Property]) -> list[Batch]:
    """The properties in as few searches as the kernel's masks allow."""
    result = [Batch()]
    for property_ in properties:
        if not result[-1].has_room(property_):
            result.append(Batch())
        result[-1].add(property_)
    return [batch for batch in result if batch.cases]


def code_of(kernel: Kernel, plan: Plan, reduced: bool) -> Code:
    """The kernel's entries as a search calls them."""
    propositions = kernel.propositions if plan.observes else 0
    successors = kernel.reduced if reduced else kernel.successors
    bits = used_bits(kernel.layout)
    orbit = kernel.orbit if reduced else 0
    return Code(successors, propositions, kernel.measure, kernel.terminated, row_bits=bits, orbit=orbit)
