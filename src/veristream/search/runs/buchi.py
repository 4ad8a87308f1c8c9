"""Temporal formulas as automata.

`translate` is the tableau of Couvreur, "On-the-fly verification of linear temporal logic" (FM 1999):
a state is a set of formulas that the rest of the word must satisfy; a transition says what the next
letter must satisfy, what remains to be satisfied, and which eventualities it postpones. Acceptance is
on transitions: each eventuality has the set of those that do not postpone it, and a run is accepting if
it takes transitions of each such set infinitely often. Untils with the same right side share a set, since
a transition that postpones none of them satisfies that right side for all.

The tableau's alternatives are *cubes*: sets of demands on the letter, the rest and the promises, each
one Python integer, so the conjunction of two cubes is `|` and implication is a subset test.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, assert_never

from veristream.ir.property import Formula, Holds, Occurs, Silent
from veristream.search.runs.formula import (
    And,
    Atom,
    Next,
    Normal,
    Numbering,
    Or,
    Release,
    Truth,
    Until,
    normalise,
    number,
)


@dataclass(frozen=True, slots=True)
class Automaton:
    """A generalised Büchi automaton with acceptance on transitions, in compressed rows.

    State s has the transitions `first[s]` up to but not including `first[s + 1]`. A letter matches
    one if it has all bits of `positive` and none of `negative`. A run is accepting if it takes
    transitions with each of the `acceptance_count` bits of `acceptance` infinitely often. An accepting
    run stays in `recurrent` states from some point on.
    """

    state_count: int
    initial: int
    first: tuple[int, ...]
    positive: tuple[int, ...]
    negative: tuple[int, ...]
    target: tuple[int, ...]
    acceptance: tuple[int, ...]
    acceptance_count: int
    recurrent: tuple[bool, ...]
    states: tuple[Holds, ...]
    actions: tuple[Occurs | Silent, ...]


class Transition(NamedTuple):
    """An edge of an automaton that is still being built."""

    target: int
    positive: int
    negative: int
    acceptance: int


Graph = list[list[Transition]]
"""The transitions of each state; state 0 is the initial one."""


def translate(formula: Formula) -> Automaton:
    """The automaton that accepts exactly the words that satisfy the formula."""
    numbering = number(formula)
    graph, acceptance_count = _build(normalise(formula, numbering))
    return _pack(*_reduce(graph, acceptance_count), numbering)


# --- the tableau ---

_LETTER_BITS = 64
_LETTER_MASK = (1 << _LETTER_BITS) - 1
_PROMISES = 2 * _LETTER_BITS  # where they begin in a cube: after the positive and negative demands


class _Tableau:
    """Cubes of formulas; bits of a cube: positive, negative, promises, then obligations."""

    def __init__(self, formula: Normal) -> None:
        fulfilments = dict.fromkeys(f.right for f in _subformulas(formula) if isinstance(f, Until))
        self.promises = {right: bit for bit, right in enumerate(fulfilments)}
        self.rest = _PROMISES + len(self.promises)  # where the obligations begin
        self._obligations: dict[Normal, int] = {}
        self._formulas: list[Normal] = []
        self._cubes: dict[Normal, list[int]] = {}
        self._successors: dict[int, list[int]] = {0: [0]}

    def obligation(self, formula: Normal) -> int:
        """The cube that requires the formula of the rest of the word."""
        match formula:
            case Truth(value=True):
                return 0
            case And(parts=parts):
                cube = 0
                for part in parts:
                    cube |= self.obligation(part)
                return cube
        if formula not in self._obligations:
            self._obligations[formula] = len(self._formulas)
            self._formulas.append(formula)
        return 1 << (self.rest + self._obligations[formula])

    def successors(self, obligations: int) -> list[int]:
        """The cubes of the conjunction of the set (the bits from `rest` on, shifted down)."""
        if obligations not in self._successors:
            latest = obligations.bit_length() - 1
            others = self.successors(obligations & ~(1 << latest))
            self._successors[obligations] = _product(others, self._expand(self._formulas[latest]))
        return self._successors[obligations]

    def _expand(self, formula: Normal) -> list[int]:
        if formula not in self._cubes:
            self._cubes[formula] = self._expand_afresh(formula)
        return self._cubes[formula]

    def _expand_afresh(self, formula: Normal) -> list[int]:
        match formula:
            case Truth(value=value):
                return [0] if value else []
            case Atom(bit=bit, positive=positive):
                return [1 << (bit if positive else _LETTER_BITS + bit)]
            case Next(operand=operand):
                return [self.obligation(operand)]
            case And(parts=parts):
                cubes = [0]
                for part in parts:
                    cubes = _product(cubes, self._expand(part))
                return cubes
            case Or(parts=parts):
                return _weakest(cube for part in parts for cube in self._expand(part))
            case Until(left=left, right=right):
                later = self.obligation(formula) | 1 << (_PROMISES + self.promises[right])
                return _weakest(self._expand(right) + _product(self._expand(left), [later]))
            case Release(left=left, right=right):
                ends = _weakest([*self._expand(left), self.obligation(formula)])
                return _product(self._expand(right), ends)
            case _:
                assert_never(formula)


def _subformulas(formula: Normal) -> Iterator[Normal]:
    yield formula
    match formula:
        case Truth() | Atom():
            return
        case Next(operand=operand):
            yield from _subformulas(operand)
        case And(parts=parts) | Or(parts=parts):
            for part in parts:
                yield from _subformulas(part)
        case Until(left=left, right=right) | Release(left=left, right=right):
            yield from _subformulas(left)
            yield from _subformulas(right)
        case _:
            assert_never(formula)


def _product(left: list[int], right: list[int]) -> list[int]:
    # a cube that already implies one on the right needs no more demands: common if []<>p meets <>p
    open_cubes = [a for a in left if not any(b & a == b for b in right)]
    if not open_cubes:
        return left
    cubes = {a | b for a in open_cubes for b in right}.union(set(left).difference(open_cubes))
    return _weakest(cube for cube in cubes if not cube & cube >> _LETTER_BITS & _LETTER_MASK)


def _weakest(cubes: Iterable[int]) -> list[int]:
    """The cubes without those that imply another one."""
    kept: list[int] = []
    for cube in sorted(set(cubes), key=lambda c: (c.bit_count(), c)):
        if not any(other & cube == other for other in kept):
            kept.append(cube)
    return kept


def _build(formula: Normal) -> tuple[Graph, int]:
    """The tableau's automaton; sets of obligations with the same cubes are one state."""
    tableau = _Tableau(formula)
    all_promises = (1 << len(tableau.promises)) - 1
    graph: Graph = []
    pending: list[list[int]] = []
    numbers: dict[tuple[int, ...], int] = {}
    known: dict[int, int] = {}

    def state_of(obligations: int) -> int:
        if obligations not in known:
            cubes = tableau.successors(obligations)
            key = tuple(cubes)
            if key not in numbers:
                numbers[key] = len(pending)
                pending.append(cubes)
            known[obligations] = numbers[key]
        return known[obligations]

    state_of(tableau.obligation(formula) >> tableau.rest)
    while len(graph) < len(pending):
        graph.append(
            [
                Transition(
                    state_of(cube >> tableau.rest),
                    cube & _LETTER_MASK,
                    cube >> _LETTER_BITS & _LETTER_MASK,
                    all_promises & ~(cube >> _PROMISES),
                )
                for cube in pending[len(graph)]
            ]
        )
    return graph, len(tableau.promises)


# --- reductions, none of which changes the language ---


def _reduce(graph: Graph, acceptance_count: int) -> tuple[Graph, int]:
    while True:
        before = graph, acceptance_count
        graph = _trim(graph, acceptance_count)
        graph, acceptance_count = _drop_acceptance(graph, acceptance_count)
        graph = _merge([_undominated(row) for row in graph])
        if (graph, acceptance_count) == before:
            return graph, acceptance_count


def _trim(graph: Graph, acceptance_count: int) -> Graph:
    """Keeps the states on accepting runs; marks count only inside components that can accept."""
    component = _components(graph)
    accepting = _accepting(graph, component, (1 << acceptance_count) - 1)
    alive = _reaching(graph, {s for s in range(len(graph)) if component[s] in accepting})
    rows = [
        [
            t
            if component[t.target] == component[state] and component[state] in accepting
            else t._replace(acceptance=0)
            for t in row
            if t.target in alive
        ]
        if state in alive
        else []
        for state, row in enumerate(graph)
    ]
    return _renumber(rows, list(range(len(graph))))


def _accepting(graph: Graph, component: Sequence[int], every: int) -> set[int]:
    """The components that have an inner transition and all marks of `every` on such transitions."""
    marks: dict[int, int] = {}
    for state, row in enumerate(graph):
        for t in row:
            if component[t.target] == component[state]:
                marks[component[state]] = marks.get(component[state], 0) | t.acceptance
    return {number for number, mark in marks.items() if mark & every == every}


def _reaching(graph: Graph, goals: set[int]) -> set[int]:
    sources: list[list[int]] = [[] for _ in graph]
    for state, row in enumerate(graph):
        for t in row:
            sources[t.target].append(state)
    found, stack = set(goals), list(goals)
    while stack:
        for source in sources[stack.pop()]:
            if source not in found:
                found.add(source)
                stack.append(source)
    return found


def _drop_acceptance(graph: Graph, acceptance_count: int) -> tuple[Graph, int]:
    """Drops the acceptance sets that follow from the others."""
    needed = list(range(acceptance_count))
    for bit in range(acceptance_count):
        others = sum(1 << other for other in needed if other != bit)
        avoiding = [[t for t in row if not t.acceptance >> bit & 1] for row in graph]
        if not _accepting(avoiding, _components(avoiding), others):
            needed.remove(bit)
    rows = [[t._replace(acceptance=_gather(t.acceptance, needed)) for t in row] for row in graph]
    return rows, len(needed)


def _gather(mask: int, bits: Sequence[int]) -> int:
    return sum((mask >> bit & 1) << place for place, bit in enumerate(bits))


def _undominated(row: list[Transition]) -> list[Transition]:
    """Drops each transition for which another to the same target requires less and marks more."""
    kept: list[Transition] = []
    for t in sorted(set(row), key=_strictness):
        if not any(_dominates(other, t) for other in kept):
            kept.append(t)
    return sorted(kept)


def _strictness(t: Transition) -> tuple[int, int, Transition]:
    return t.positive.bit_count() + t.negative.bit_count(), -t.acceptance.bit_count(), t


def _dominates(one: Transition, other: Transition) -> bool:
    return (
        one.target == other.target
        and one.positive & other.positive == one.positive
        and one.negative & other.negative == one.negative
        and one.acceptance & other.acceptance == other.acceptance
    )


def _merge(graph: Graph) -> Graph:
    """Merges each class of the coarsest bisimulation into one state."""
    classes, class_count = [0] * len(graph), 1
    while True:
        numbers: dict[frozenset[Transition], int] = {}
        classes = [
            numbers.setdefault(frozenset(t._replace(target=classes[t.target]) for t in row), len(numbers))
            for row in graph
        ]
        if len(numbers) == class_count:
            return _renumber(graph, classes)
        class_count = len(numbers)


def _renumber(graph: Graph, classes: Sequence[int]) -> Graph:
    """Makes one state of each reachable class, numbered in the order in which they are reached."""
    member: dict[int, int] = {}
    for state, number_of_class in enumerate(classes):
        member.setdefault(number_of_class, state)
    numbers = {classes[0]: 0}
    order = [classes[0]]
    rows: Graph = []
    while len(rows) < len(order):
        row = []
        for t in graph[member[order[len(rows)]]]:
            target = classes[t.target]
            if target not in numbers:
                numbers[target] = len(order)
                order.append(target)
            row.append(t._replace(target=numbers[target]))
        rows.append(sorted(set(row)))
    return rows


def _components(graph: Graph) -> list[int]:
    """The strongly connected component of each state (Tarjan's algorithm, without recursion)."""
    unseen, done = -1, len(graph)
    low = [unseen] * len(graph)
    component = [unseen] * len(graph)
    open_states: list[int] = []
    count = seen = 0
    for root in range(len(graph)):
        if low[root] != unseen:
            continue
        calls = [(root, iter(graph[root]), seen)]
        low[root], seen = seen, seen + 1
        open_states.append(root)
        while calls:
            state, edges, index = calls[-1]
            for t in edges:
                if low[t.target] == unseen:
                    calls.append((t.target, iter(graph[t.target]), seen))
                    low[t.target], seen = seen, seen + 1
                    open_states.append(t.target)
                    break
                low[state] = min(low[state], low[t.target])
            else:
                calls.pop()
                if calls:
                    parent = calls[-1][0]
                    low[parent] = min(low[parent], low[state])
                if low[state] == index:
                    member = unseen
                    while member != state:
                        member = open_states.pop()
                        component[member], low[member] = count, done
                    count += 1
    return component


def _pack(graph: Graph, acceptance_count: int, numbering: Numbering) -> Automaton:
    first = [0]
    for row in graph:
        first.append(first[-1] + len(row))
    transitions = [t for row in graph for t in row]
    component = _components(graph)
    accepting = _accepting(graph, component, (1 << acceptance_count) - 1)
    return Automaton(
        state_count=len(graph),
        initial=0,
        first=tuple(first),
        positive=tuple(t.positive for t in transitions),
        negative=tuple(t.negative for t in transitions),
        target=tuple(t.target for t in transitions),
        acceptance=tuple(t.acceptance for t in transitions),
        acceptance_count=acceptance_count,
        recurrent=tuple(number in accepting for number in component),
        states=numbering.states,
        actions=numbering.actions,
    )
