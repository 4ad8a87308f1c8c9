"""An oracle for temporal properties that shares nothing with the search but the interpreter.

It is the tableau of Lichtenstein and Pnueli, "Checking that finite state concurrent programs satisfy
their linear specification" (POPL 1985), as written down, on sets. A *moment* is a step of the graph,
or the rest of a state that has none; an *atom* is a choice of what the next moment owes, from which
the truth of every subformula at this moment follows. The property is broken if, from a first moment
with an atom in which the formula is false, one can reach a strongly connected set of such pairs that
keeps the promise of every until and is fair.

Fairness of an edge's mark is that of each single action of the edge. Under strong global fairness
every step of every state is a unit of its own.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Literal, assert_never

from veristream.ir.actions import Action
from veristream.ir.expr import Const
from veristream.ir.network import FairnessMark, Network
from veristream.ir.oracle.interpret import Interpreter, Taken
from veristream.ir.property import (
    DivergenceFree,
    Fairness,
    Formula,
    Holds,
    LeadsTo,
    Occurs,
    Property,
    Silent,
    Temporal,
    TemporalBinary,
    TemporalUnary,
)
from veristream.ir.show import show_state
from veristream.ir.state import State
from veristream.verdict import Step, Trace

Proposition = Holds | Occurs | Silent
Letter = frozenset[Proposition]
Unit = Hashable
"""Something that runs are fair to."""


class TooLargeError(Exception):
    """The graph or the tableau has more nodes than the caller allows."""


def oracle_verdict(
    network: Network, property_: Property, *, state_count_max: int = 20_000, node_count_max: int = 1_000_000
) -> bool:
    """Whether the temporal property holds; raises TooLargeError, ValueError where an action faults."""
    formula = _formula(property_)
    graph = _explore(_Reader(network, formula, property_.fairness), state_count_max)
    return _holds_on(graph, formula, node_count_max)


def breaks(network: Network, property_: Property, trace: Trace) -> bool:
    """Whether the lasso is a run of the network that is fair and on which the property is false."""
    formula = _formula(property_)
    graph = _follow(_Reader(network, formula, property_.fairness), trace)
    return graph is not None and not _holds_on(graph, formula, 1_000_000)


def _holds_on(graph: _Graph, formula: Formula, node_count_max: int) -> bool:
    tableau = _Tableau(formula, graph)
    arrows = _reach(tableau, node_count_max)
    return not _has_fair_set(tableau, arrows)


def _formula(property_: Property) -> Formula:
    match property_.claim:
        case Temporal(formula=formula):
            return formula
        case LeadsTo(cause=cause, effect=effect):
            either = TemporalBinary(
                "||", TemporalUnary("!", Holds(cause)), TemporalUnary("<>", Holds(effect))
            )
            return TemporalUnary("[]", either)
        case DivergenceFree():
            return TemporalUnary("!", TemporalUnary("<>", TemporalUnary("[]", Silent())))
        case _:
            raise ValueError(f"{property_.claim} is not temporal")


# The explicit graph.


@dataclass(frozen=True, slots=True)
class _Moment:
    """A state and what is done in it: the propositions true then, the units taken and enabled."""

    state: int
    target: int
    letter: Letter
    taken: frozenset[Unit]
    enabled: frozenset[Unit]


@dataclass(frozen=True, slots=True)
class _Graph:
    """The moments of each state; the initial one is number 0. Units that are not strong are weak."""

    moments: tuple[tuple[_Moment, ...], ...]
    strong: frozenset[Unit]


class _Reader:
    """Reads off the network what a formula and a fairness assumption speak of."""

    def __init__(self, network: Network, formula: Formula, fairness: Fairness) -> None:
        self.interpreter = Interpreter(network)
        actions = enumerate(self.interpreter.actions)
        self.owed = [_units(position, action, fairness) for position, action in actions]
        self.strong = frozenset(u for units in self.owed for u, is_strong in units.items() if is_strong)
        self._propositions = _propositions(formula)
        self._of_steps = fairness is Fairness.STRONG_GLOBAL
        self.steps: set[Unit] = set()

    def moments(self, state: State) -> list[tuple[Taken | None, _Moment]]:
        """The steps of the state, or its rest; states are not numbered yet."""
        expansion = self.interpreter.expand(state)
        if expansion.failures:
            raise ValueError(f"the model fails: {expansion.failures[0]}")
        here = frozenset(
            p
            for p in self._propositions
            if isinstance(p, Holds) and self.interpreter.holds(p.condition, state)
        )
        taken = {step: self._served(state, step) for step in expansion.steps}
        enabled = frozenset(unit for units in taken.values() for unit in units)
        return [
            (step, _Moment(-1, -1, here | self._said_of(step), units, enabled))
            for step, units in taken.items()
        ] or [(None, _Moment(-1, -1, here, frozenset(), frozenset()))]

    def _served(self, state: State, step: Taken) -> frozenset[Unit]:
        """The units that the step serves."""
        if not self._of_steps:
            return frozenset(self.owed[step.action])
        own: Unit = (state, step)
        self.steps.add(own)
        return frozenset({own, *self.owed[step.action]})

    def _said_of(self, step: Taken) -> Letter:
        actions = (p for p in self._propositions if not isinstance(p, Holds))
        return frozenset(p for p in actions if self.interpreter.occurs(p, step))


def _explore(reader: _Reader, count_max: int) -> _Graph:
    numbers: dict[State, int] = {reader.interpreter.initial(): 0}
    moments: list[tuple[_Moment, ...]] = []
    queue = deque(numbers)
    while queue:
        state = queue.popleft()
        mine: list[_Moment] = []
        for step, moment in reader.moments(state):
            after = state if step is None else step.state
            if after not in numbers:
                numbers[after] = len(numbers)
                queue.append(after)
            mine.append(replace(moment, state=numbers[state], target=numbers[after]))
        moments.append(tuple(dict.fromkeys(mine)))
        if len(numbers) > count_max:
            raise TooLargeError(f"more than {count_max} states")
    return _Graph(tuple(moments), reader.strong | reader.steps)


def _follow(reader: _Reader, trace: Trace) -> _Graph | None:
    """The lasso as a graph with a state for each position; None where the network cannot follow it.

    Where several steps look the same in the trace, the graph has them all.
    """
    network, state = reader.interpreter.network, reader.interpreter.initial()
    last = len(trace.steps) - 1
    if trace.loop is None or not trace.loop < last:
        return None
    if trace.steps[0].state != show_state(network, state):
        return None
    groups: list[tuple[_Moment, ...]] = []
    for position, shown in enumerate(trace.steps[1:]):
        target = trace.loop if position + 1 == last else position + 1
        fitting = {
            replace(moment, state=position, target=target): state if step is None else step.state
            for step, moment in reader.moments(state)
            if _looks_like(network, state, step, shown)
        }
        if not fitting:
            return None
        groups.append(tuple(fitting))
        (state,) = set(fitting.values())
    if trace.steps[last].state != trace.steps[trace.loop].state:
        return None
    return _Graph(tuple(groups), reader.strong | reader.steps)


def _looks_like(network: Network, state: State, step: Taken | None, shown: Step) -> bool:
    """Whether the trace's step could be this one; the rest of a state has no process."""
    if step is None:
        return shown.process is None and shown.state == show_state(network, state)
    return (step.label, step.process) == (shown.action, shown.process) and (
        show_state(network, step.state) == shown.state
    )


def _units(position: int, action: Action, fairness: Fairness) -> dict[Unit, bool]:
    """What is served when the action is taken, and whether strongly."""
    units: dict[Unit, bool] = {}
    if action.fairness is not FairnessMark.NONE:
        units["marked", position] = action.fairness is FairnessMark.STRONG
    strong = fairness.value.startswith("strong")
    if fairness.value.endswith("action"):
        constants = tuple(
            part.value if isinstance(part, Const) else "any" for part in action.label.arguments
        )
        units["action", action.label.name, constants] = strong
    if fairness.value.endswith("process"):
        units.update({("process", process): strong for process in action.processes})
    return units


def _propositions(formula: Formula) -> frozenset[Proposition]:
    match formula:
        case Holds() | Occurs() | Silent():
            return frozenset({formula})
        case TemporalUnary(operand=operand):
            return _propositions(operand)
        case TemporalBinary(left=left, right=right):
            return _propositions(left) | _propositions(right)
        case _:
            assert_never(formula)


# The tableau.


@dataclass(frozen=True, slots=True)
class _Part:
    """A formula of the closure, its operands given by their positions in it."""

    op: Literal["true", "proposition", "not", "and", "next", "until"]
    left: int = -1
    right: int = -1
    proposition: Proposition | None = None


class _Closure:
    """The subformulas over not, and, next and until, each once and after its operands."""

    def __init__(self, formula: Formula) -> None:
        self._numbers: dict[_Part, int] = {}
        self.whole = self._add(formula)
        self.parts = tuple(self._numbers)
        # What a next or an until at one moment needs to be true at the one after it.
        self.bodies = tuple(
            part.left if part.op == "next" else number
            for number, part in enumerate(self.parts)
            if part.op in ("next", "until")
        )
        self.untils = tuple(
            (number, part.right) for number, part in enumerate(self.parts) if part.op == "until"
        )

    def _number(self, part: _Part) -> int:
        return self._numbers.setdefault(part, len(self._numbers))

    def _not(self, operand: int) -> int:
        return self._number(_Part("not", operand))

    def _and(self, left: int, right: int) -> int:
        return self._number(_Part("and", left, right))

    def _until(self, left: int, right: int) -> int:
        return self._number(_Part("until", left, right))

    def _add(self, formula: Formula) -> int:
        match formula:
            case Holds() | Occurs() | Silent():
                return self._number(_Part("proposition", proposition=formula))
            case TemporalUnary(op=op, operand=inner):
                operand = self._add(inner)
                match op:
                    case "!":
                        return self._not(operand)
                    case "X":
                        return self._number(_Part("next", operand))
                    case "<>":
                        return self._until(self._number(_Part("true")), operand)
                    case "[]":
                        never = self._not(operand)
                        return self._not(self._until(self._number(_Part("true")), never))
                    case _:
                        assert_never(op)
            case TemporalBinary():
                return self._add_binary(formula)
            case _:
                assert_never(formula)

    def _add_binary(self, formula: TemporalBinary) -> int:
        left, right = self._add(formula.left), self._add(formula.right)
        match formula.op:
            case "&&":
                return self._and(left, right)
            case "||":
                return self._not(self._and(self._not(left), self._not(right)))
            case "->":
                return self._not(self._and(left, self._not(right)))
            case "<->":
                only_left, only_right = self._and(left, self._not(right)), self._and(right, self._not(left))
                return self._and(self._not(only_left), self._not(only_right))
            case "U":
                return self._until(left, right)
            case "R":
                return self._not(self._until(self._not(left), self._not(right)))
            case _:
                assert_never(formula.op)

    def atom(self, letter: Letter, duties: tuple[bool, ...]) -> tuple[bool, ...]:
        """The truth of every part at a moment with the letter, if the next one fulfils just the duties."""
        true: list[bool] = []
        rest = iter(duties)
        for part in self.parts:
            match part.op:
                case "true":
                    true.append(True)
                case "proposition":
                    true.append(part.proposition in letter)
                case "not":
                    true.append(not true[part.left])
                case "and":
                    true.append(true[part.left] and true[part.right])
                case "next":
                    true.append(next(rest))
                case "until":
                    goes_on = next(rest)
                    true.append(true[part.right] or (true[part.left] and goes_on))
                case _:
                    assert_never(part.op)
        return tuple(true)


@dataclass(frozen=True, slots=True)
class _Atom:
    """The truth of every part of the closure at a moment, and what must be true at the next."""

    true: tuple[bool, ...]
    duties: tuple[bool, ...]


Node = tuple[int, int]
"""A moment and an atom, by their numbers."""
Arrows = dict[Node, list[Node]]


class _Tableau:
    """Pairs of a moment and an atom that agree on the propositions."""

    def __init__(self, formula: Formula, graph: _Graph) -> None:
        self.closure = _Closure(formula)
        self.strong = graph.strong
        self.moments = [moment for group in graph.moments for moment in group]
        self.atoms: list[_Atom] = []
        self._of_state: list[list[int]] = [[] for _ in graph.moments]
        for number, moment in enumerate(self.moments):
            self._of_state[moment.state].append(number)
        self._of_letter: dict[Letter, dict[tuple[bool, ...], list[int]]] = {}

    def first(self) -> list[Node]:
        """The pairs in which a run can begin that breaks the formula."""
        return [
            (moment, atom)
            for moment in self._of_state[0]
            for group in self._fitting(self.moments[moment].letter).values()
            for atom in group
            if not self.atoms[atom].true[self.closure.whole]
        ]

    def successors(self, node: Node) -> list[Node]:
        """The pairs of the next moments in which exactly the duties are fulfilled."""
        moment, atom = self.moments[node[0]], self.atoms[node[1]]
        return [
            (following, fitting)
            for following in self._of_state[moment.target]
            for fitting in self._fitting(self.moments[following].letter).get(atom.duties, [])
        ]

    def _fitting(self, letter: Letter) -> dict[tuple[bool, ...], list[int]]:
        """The atoms of the letter, by the duties of the moment before that they fulfil."""
        if letter not in self._of_letter:
            groups: dict[tuple[bool, ...], list[int]] = {}
            for duties in product((False, True), repeat=len(self.closure.bodies)):
                true = self.closure.atom(letter, duties)
                self.atoms.append(_Atom(true, duties))
                fulfilled = tuple(true[body] for body in self.closure.bodies)
                groups.setdefault(fulfilled, []).append(len(self.atoms) - 1)
            self._of_letter[letter] = groups
        return self._of_letter[letter]


def _reach(tableau: _Tableau, count_max: int) -> Arrows:
    """Every pair that can be reached from a first one, with its successors."""
    arrows: Arrows = {}
    waiting = tableau.first()
    while waiting:
        node = waiting.pop()
        if node in arrows:
            continue
        arrows[node] = tableau.successors(node)
        waiting += arrows[node]
        if len(arrows) > count_max:
            raise TooLargeError(f"more than {count_max} pairs of moment and atom")
    return arrows


def _has_fair_set(tableau: _Tableau, arrows: Arrows) -> bool:
    """Whether some strongly connected set keeps all promises and is fair."""
    pending: list[set[Node]] = [set(arrows)]
    while pending:
        for component in _components(arrows, pending.pop()):
            if not _keeps_promises(tableau, component):
                continue
            moments = {tableau.moments[moment] for moment, _ in component}
            taken = {unit for moment in moments for unit in moment.taken}
            possible = {unit for moment in moments for unit in moment.enabled}
            constant = {unit for unit in possible if all(unit in moment.enabled for moment in moments)}
            if constant - taken - tableau.strong:
                continue  # a smaller set would starve them too
            starved = (possible - taken) & tableau.strong
            if not starved:
                return True
            # A fair run among these can enable them only finitely often.
            rest = {node for node in component if not tableau.moments[node[0]].enabled & starved}
            pending.append(rest)
    return False


def _keeps_promises(tableau: _Tableau, component: set[Node]) -> bool:
    """Whether what some until of the set waits for comes somewhere in the set."""
    atoms = [tableau.atoms[atom].true for atom in {atom for _, atom in component}]
    return all(
        any(true[goal] for true in atoms)
        for until, goal in tableau.closure.untils
        if any(true[until] for true in atoms)
    )


def _components(arrows: Arrows, inside: set[Node]) -> Iterator[set[Node]]:
    """The strongly connected components with an arrow among the nodes, by Kosaraju's two passes."""
    back: Arrows = {node: [] for node in inside}
    for node in inside:
        for target in arrows[node]:
            if target in inside:
                back[target].append(node)
    assigned: set[Node] = set()
    for root in reversed(_finished(arrows, inside)):
        if root in assigned:
            continue
        component, waiting = {root}, [root]
        while waiting:
            for source in back[waiting.pop()]:
                if source not in assigned and source not in component:
                    component.add(source)
                    waiting.append(source)
        assigned |= component
        if len(component) > 1 or root in arrows[root]:
            yield component


def _finished(arrows: Arrows, inside: set[Node]) -> list[Node]:
    """The nodes in the order in which a depth-first walk leaves them."""
    seen: set[Node] = set()
    left: list[Node] = []
    for root in inside:
        if root in seen:
            continue
        seen.add(root)
        path = [(root, iter(arrows[root]))]
        while path:
            node, rest = path[-1]
            target = next((t for t in rest if t in inside and t not in seen), None)
            if target is None:
                left.append(node)
                path.pop()
            else:
                seen.add(target)
                path.append((target, iter(arrows[target])))
    return left
