"""The product of a network with the Büchi automaton of the runs that violate a property."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count, pairwise

import numpy as np

from veristream.ir.network import Network
from veristream.ir.oracle.interpret import Interpreter, Taken
from veristream.ir.property import (
    DivergenceFree,
    Fairness,
    Formula,
    LeadsTo,
    Occurs,
    Property,
    Silent,
    Temporal,
    TemporalBinary,
    TemporalUnary,
)
from veristream.ir.property import (
    Holds as HoldsIn,
)
from veristream.ir.state import State
from veristream.ir.vacuity import antecedents
from veristream.kernel.layout import Row, decode, encode
from veristream.kernel.load import Kernel, load_kernel
from veristream.kernel.watch import STUTTER, WATCH_FAILED, Monitor, Watch
from veristream.search.reach import expand as native
from veristream.search.reach.expand import Code
from veristream.search.reach.explore import Plan
from veristream.search.runs.buchi import Automaton, translate
from veristream.search.runs.fairness import list_units
from veristream.search.runs.graph import NONE, TOO_SMALL, Letters, entry_between, scratch_for
from veristream.search.runs.lasso import STEPS_SHOWN, satisfies
from veristream.search.session import Hit
from veristream.search.trace import STUTTER_TEXT, action_fault, find_step, first_step, property_fault
from veristream.search.vacuity import true_from_the_start, unmet_premise
from veristream.verdict import Step, Trace, Unknown, Violated

Letter = frozenset[HoldsIn | Occurs | Silent]


def formula_of(property_: Property) -> Formula:
    """The temporal property as a formula."""
    match property_.claim:
        case Temporal(formula=formula):
            return formula
        case LeadsTo(cause=cause, effect=effect):
            follows = TemporalUnary("<>", HoldsIn(effect))
            return TemporalUnary("[]", TemporalBinary("->", HoldsIn(cause), follows))
        case DivergenceFree():
            return TemporalUnary("[]", TemporalUnary("<>", TemporalUnary("!", Silent())))
        case _:
            raise AssertionError(f"{property_.claim} is not temporal")


@dataclass(frozen=True, slots=True)
class Edge:
    """A step of the product: states of the Network, states of the automaton, action, acceptance.

    `number` distinguishes steps with the same states and action, if that matters.
    """

    before: State
    after: State
    from_state: int
    to_state: int
    action: int
    marks: int
    number: int | None = None


@dataclass(frozen=True, slots=True)
class Lasso:
    """A violating run: a stem, then a loop forever; and how many steps a fair run must take."""

    stem: list[Edge]
    loop: list[Edge]
    step_count: int = 0


def watch_of(automaton: Automaton, property_: Property) -> Watch:
    """The propositions that the kernel evaluates."""
    conditions = tuple(atom.condition for atom in automaton.states)
    premises = antecedents(property_)[: 62 - len(conditions)]
    monitor = Monitor(
        automaton.first, automaton.positive, automaton.negative, automaton.target, automaton.acceptance
    )
    return Watch(conditions, premises, automaton.actions, (), monitor)


class Product:
    """The product: its code to explore it, and its runs as traces."""

    plan = Plan(observes=True)

    def __init__(self, network: Network, property_: Property) -> None:
        self.network, self.property = network, property_
        self.formula = formula_of(property_)
        self.automaton: Automaton = translate(TemporalUnary("!", self.formula))
        self.interpreter = Interpreter(network)
        self.units = list_units(self.interpreter.actions, property_.fairness)
        self.watch = watch_of(self.automaton, property_)
        self.kernel: Kernel = load_kernel(network, self.watch)
        self.code = Code(self.kernel.product, self.kernel.propositions, 0, 0)
        self.all_marks = (1 << self.automaton.acceptance_count) - 1
        row = encode(self.kernel.layout, network, self.interpreter.initial())
        self.initial: Row = np.append(row, np.uint64(self.automaton.initial))

    @property
    def is_fair(self) -> bool:
        """Whether only fair runs count: the property asks for fairness, or edges of the network do."""
        return self.property.fairness is not Fairness.NONE or self.units.exist

    @property
    def width(self) -> int:
        """Words of a row."""
        return len(self.initial)

    def letters(self, rows: int) -> Letters:
        """How to find the step that an edge represents, for states with rows at the address."""
        return Letters(
            self.kernel.successors,
            self.kernel.propositions,
            rows,
            self.width,
            np.array(self.automaton.first, np.int64),
            np.array(self.automaton.positive, np.int64),
            np.array(self.automaton.negative, np.int64),
        )

    def state(self, row: Row) -> tuple[State, int]:
        """A product state: a state of the Network and a state of the automaton."""
        return decode(self.kernel.layout, self.network, row[:-1]), int(row[-1])

    def edge(self, before: Row, after: Row, entry: int, number: int | None = None) -> Edge:
        """A step of the product."""
        (source, from_state), (target, to_state) = self.state(before), self.state(after)
        return Edge(source, target, from_state, to_state, entry & 0xFFFFFFFF, entry >> 32, number)

    def edges_along(self, rows: Sequence[Row]) -> list[Edge]:
        """The steps along a path that is given by its states."""
        return [self._edge_between(before, after) for before, after in pairwise(rows)]

    def _edge_between(self, before: Row, after: Row) -> Edge:
        """Some step from one state to the other."""
        capacity, entry = 1024, TOO_SMALL
        rows = (before.view(np.int64), after.view(np.int64))
        while entry == TOO_SMALL:
            entry = entry_between(self.code.successors, *rows, scratch_for(capacity, self.width))
            capacity *= 4
        assert entry != NONE, "the kernel knows no such step"
        return self.edge(before, after, entry)

    def violated(self, lasso: Lasso) -> Violated:
        """The verdict of a violating run, after the interpreter has replayed it."""
        steps = [first_step(self.interpreter, self.interpreter.initial())]
        letters = []
        for edge in lasso.stem + lasso.loop:
            step, letter = self._replay(edge)
            steps.append(step)
            letters.append(letter)
        turn = len(lasso.stem)
        assert not satisfies(self.formula, letters, turn), "the lasso keeps the property"
        reason = f"the run repeats forever: step {len(steps) - 1} leads back to step {turn}"
        if lasso.step_count > STEPS_SHOWN:
            also = f"all {lasso.step_count} steps of the states that it stays in"
            reason += f"; a fair run also takes infinitely often {also}"
        return Violated(reason, Trace(tuple(steps), loop=turn))

    def _replay(self, edge: Edge) -> tuple[Step, Letter]:
        """The edge as a step that the interpreter takes, with the propositions true at its source."""
        here = frozenset(
            atom for atom in self.automaton.states if self.interpreter.holds(atom.condition, edge.before)
        )
        if edge.action == STUTTER:
            assert not self.interpreter.steps(edge.before) and edge.before == edge.after
            show = first_step(self.interpreter, edge.after).state
            return Step(STUTTER_TEXT, None, show), here
        letters: list[Letter] = []
        alike = count()

        def matches(taken: Taken) -> bool:
            if taken.action != edge.action or (next(alike) != edge.number and edge.number is not None):
                return False
            occurring = frozenset(
                atom for atom in self.automaton.actions if self.interpreter.occurs(atom, taken)
            )
            fits = self._can_move(edge, here | occurring)
            if fits:
                letters.append(here | occurring)
            return fits

        step = find_step(self.interpreter, edge.before, edge.after, matches)
        return step, letters[-1]

    def _can_move(self, edge: Edge, letter: Letter) -> bool:
        automaton = self.automaton
        bits = sum(1 << i for i, atom in enumerate(automaton.states) if atom in letter)
        bits |= sum(1 << (32 + i) for i, atom in enumerate(automaton.actions) if atom in letter)
        first, last = automaton.first[edge.from_state], automaton.first[edge.from_state + 1]
        return any(
            automaton.target[t] == edge.to_state
            and automaton.acceptance[t] == edge.marks
            and bits & automaton.positive[t] == automaton.positive[t]
            and bits & automaton.negative[t] == 0
            for t in range(first, last)
        )

    def failed(self, hit: Hit, path: Sequence[Row]) -> Unknown:
        """The verdict if the model, or the property, fails at the end of a path."""
        states = [self.state(row)[0] for row in path]
        states = [s for i, s in enumerate(states) if i == 0 or s != states[i - 1]]
        if hit.kind == native.FAULT and hit.other != WATCH_FAILED:
            found = action_fault(self.interpreter, states, hit.other)
            assert found is not None, "the interpreter knows no failing action there"
            return found
        conditions = [atom.condition for atom in self.automaton.states]
        return property_fault(self.interpreter, states, conditions)

    def vacuity(self, seen: int) -> str | None:
        """Why the property is vacuously true, if it is."""
        premises = list(enumerate(self.watch.premises, len(self.automaton.states)))
        return true_from_the_start(self.interpreter, self.property) or unmet_premise(seen, premises)
