"""Liveness: properties of infinite runs, by the product with a Büchi automaton.

The automaton accepts the runs that break the property. The product is explored breadth-first, with
its edges kept; whenever it has doubled, and at the end, its strongly connected components are
searched for a fair accepting one. A component of the part explored so far is one of the whole, so a
violation is often found long before the product is complete.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from itertools import count, pairwise

import numpy as np

from veristream.ir.interpret import Interpreter, Taken
from veristream.ir.network import Network
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
from veristream.kernel.emit import Watch
from veristream.kernel.layout import decode, encode
from veristream.kernel.load import load_kernel
from veristream.kernel.product import STUTTER, WATCH_FAILED, Monitor
from veristream.search import expand as native
from veristream.search.buchi import Automaton, translate
from veristream.search.expand import Code
from veristream.search.explore import Hit, Plan, begin
from veristream.search.fairness import FairComponent, System, find_fair, list_units
from veristream.search.graph import NONE, Graph, Letters, source_of
from veristream.search.lasso import STEPS_SHOWN, loop_edges, satisfies
from veristream.search.limits import Limits, Report
from veristream.search.session import Session
from veristream.search.trace import STUTTER_TEXT, action_fault, find_step, first_step, property_fault
from veristream.search.vacuity import true_from_the_start, unmet_premise
from veristream.verdict import Holds, Result, Step, Trace, Unknown, Verdict, Violated

FIRST_LOOK = 1 << 15  # states before the first search for components


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


def kind_of(property_: Property) -> str:
    """The claim's word in reports."""
    match property_.claim:
        case Temporal():
            return "ltl"
        case LeadsTo():
            return "leadsto"
        case _:
            return "divergencefree"


def check_liveness(network: Network, property_: Property, limits: Limits, report: Report) -> Result:
    """The result of a temporal property."""
    search = _Search(network, property_, limits, report)
    verdict = search.run()
    return Result(property_.name, kind_of(property_), verdict, search.session.effort())


@dataclass(frozen=True, slots=True)
class _Edge:
    """A step of the product: states of the Network, states of the automaton, action, acceptance."""

    before: State
    after: State
    from_state: int
    to_state: int
    action: int
    marks: int


class _Search:
    """One product search."""

    def __init__(self, network: Network, property_: Property, limits: Limits, report: Report) -> None:
        started = time.monotonic()
        self.network, self.property = network, property_
        self.formula = formula_of(property_)
        self.automaton: Automaton = translate(TemporalUnary("!", self.formula))
        self.interpreter = Interpreter(network)
        self.units = list_units(self.interpreter.actions, property_.fairness)
        conditions = tuple(atom.condition for atom in self.automaton.states)
        self.premises = antecedents(property_)[: 62 - len(conditions)]
        monitor = Monitor(
            self.automaton.first,
            self.automaton.positive,
            self.automaton.negative,
            self.automaton.target,
            self.automaton.acceptance,
        )
        watch = Watch(conditions, self.premises, self.automaton.actions, (), monitor)
        self.kernel = load_kernel(network, watch)
        row = encode(self.kernel.layout, network, self.interpreter.initial())
        initial = np.append(row, np.uint64(self.automaton.initial))
        code = Code(self.kernel.product, self.kernel.propositions, 0, 0)
        plan = Plan(observes=True, keeps_edges=True)
        # Edges are numbered in the order of their states, so one worker explores.
        exploration = begin(code, initial, plan, 1, limits.memory_max_mib)
        self.session = Session(exploration, limits, report, property_.name, started)

    def run(self) -> Verdict:
        """Explores until a violation is found or there is nothing left to explore."""
        look_at = FIRST_LOOK
        for _ in self.session.rounds():
            for hit in self.session.exploration.hits:
                if hit.kind in (native.FAULT, native.WATCH_FAULT):
                    return self._failed(hit)
            if self.session.exploration.state_count >= look_at:
                look_at = 2 * self.session.exploration.state_count
                violated = self._look()
                if violated is not None:
                    return violated
        if self.session.stopped:
            return Unknown(self.session.stopped)
        violated = self._look()
        return violated if violated is not None else Holds(vacuous=self._vacuity())

    def _look(self) -> Violated | None:
        graph = self._graph()
        rows = self.session.exploration.memory.rows.address
        width = self.session.exploration.word_count
        system = System(self.kernel.successors, rows, width)
        if self.property.fairness is Fairness.STRONG_GLOBAL:
            words = self.session.exploration.memory.rows.words
            system = replace(system, letters=self._letters(), words=words)
        all_marks = (1 << self.automaton.acceptance_count) - 1
        fair = find_fair(graph, all_marks, self.units, system)
        return None if fair is None else self._violated(graph, fair, all_marks)

    def _letters(self) -> Letters:
        """What tells which step an edge of the product stands for."""
        return Letters(
            self.kernel.successors,
            self.kernel.propositions,
            self.session.exploration.memory.rows.address,
            self.session.exploration.word_count,
            np.array(self.automaton.first, np.int64),
            np.array(self.automaton.positive, np.int64),
            np.array(self.automaton.negative, np.int64),
        )

    def _graph(self) -> Graph:
        """The part of the product whose states are expanded."""
        exploration = self.session.exploration
        node_count = exploration.expanded
        edge_count = exploration.edge_count
        first, targets, entries = (part.words for part in exploration.memory.edges)
        first[node_count] = edge_count
        return Graph(
            first[: node_count + 1],
            targets.view(np.uint32)[:edge_count],
            entries[:edge_count],
        )

    def _state(self, index: int) -> tuple[State, int]:
        """A product state: the Network's state and the automaton's."""
        row = self.session.exploration.row(index)
        return decode(self.kernel.layout, self.network, row[:-1]), int(row[-1])

    def _edge(self, graph: Graph, edge: int) -> _Edge:
        before, from_state = self._state(int(source_of(graph, edge)))
        after, to_state = self._state(int(graph.targets[edge]))
        entry = int(graph.entries[edge])
        return _Edge(before, after, from_state, to_state, entry & 0xFFFFFFFF, entry >> 32)

    def _violated(self, graph: Graph, fair: FairComponent, all_marks: int) -> Violated:
        entry = int(fair.nodes[0])
        stem = self._stem(graph, entry)
        loop = loop_edges(graph, fair, all_marks, self.units, entry)
        alike = self._alike(graph, fair)
        steps = [first_step(self.interpreter, self.interpreter.initial())]
        letters = []
        for edge in stem + loop:
            step, letter = self._replay(self._edge(graph, edge), alike.get(edge))
            steps.append(step)
            letters.append(letter)
        assert not satisfies(self.formula, letters, len(stem)), "the lasso keeps the property"
        reason = f"the run repeats for ever: step {len(steps) - 1} leads back to step {len(stem)}"
        if fair.step_count > STEPS_SHOWN:
            also = f"all {fair.step_count} steps of the states that it does not leave any more"
            reason += f"; a fair run also takes, again and again, {also}"
        return Violated(reason, Trace(tuple(steps), loop=len(stem)))

    def _alike(self, graph: Graph, fair: FairComponent) -> dict[int, int]:
        """Of edges whose single steps a fair run owes: how many steps before an edge's own have the
        same states and action, so that the replay takes each of them and not one for all."""
        if fair.step_of is None or fair.step_count > STEPS_SHOWN:
            return {}
        inner = [int(edge) for edge in np.nonzero(fair.step_of != NONE)[0]]
        groups: dict[tuple[State, State, int], set[int]] = {}
        kinds = {}
        for number in inner:
            edge = self._edge(graph, number)
            kinds[number] = (edge.before, edge.after, edge.action)
            groups.setdefault(kinds[number], set()).add(int(fair.step_of[number]))
        return {
            number: sum(other < fair.step_of[number] for other in groups[kind])
            for number, kind in kinds.items()
        }

    def _stem(self, graph: Graph, entry: int) -> list[int]:
        """Edges of the breadth-first tree from the initial state to the entry."""
        path = self.session.exploration.path(entry)
        edges = []
        for source, target in pairwise(path):
            first, last = int(graph.first[source]), int(graph.first[source + 1])
            offset = int(np.nonzero(graph.targets[first:last] == target)[0][0])
            edges.append(first + offset)
        return edges

    def _replay(
        self, edge: _Edge, number: int | None = None
    ) -> tuple[Step, frozenset[HoldsIn | Occurs | Silent]]:
        """The edge as a step that the interpreter takes, with the propositions true at its source;
        where steps are alike, the one with the number."""
        here = frozenset(
            atom for atom in self.automaton.states if self.interpreter.holds(atom.condition, edge.before)
        )
        if edge.action == STUTTER:
            assert not self.interpreter.steps(edge.before) and edge.before == edge.after
            show = first_step(self.interpreter, edge.after).state
            return Step(STUTTER_TEXT, None, show), here
        letters: list[frozenset[HoldsIn | Occurs | Silent]] = []
        alike = count()

        def matches(taken: Taken) -> bool:
            if taken.action != edge.action or (next(alike) != number and number is not None):
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

    def _can_move(self, edge: _Edge, letter: frozenset[HoldsIn | Occurs | Silent]) -> bool:
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

    def _failed(self, hit: Hit) -> Unknown:
        at = hit.source if hit.kind == native.FAULT else hit.other
        states = [self._state(i)[0] for i in self.session.exploration.path(at)]
        states = [s for i, s in enumerate(states) if i == 0 or s != states[i - 1]]
        if hit.kind == native.FAULT and hit.other != WATCH_FAILED:
            found = action_fault(self.interpreter, states, hit.other)
            assert found is not None, "the interpreter knows no failing action there"
            return found
        conditions = [atom.condition for atom in self.automaton.states]
        return property_fault(self.interpreter, states, conditions)

    def _vacuity(self) -> str | None:
        """Why the property holds for a reason that says little, if so."""
        first_bit = len(self.automaton.states)
        premises = list(enumerate(self.premises, first_bit))
        seen = self.session.exploration.seen
        return true_from_the_start(self.interpreter, self.property) or unmet_premise(seen, premises)
