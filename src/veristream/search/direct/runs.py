"""Looks for a run that satisfies an assumption and breaks a formula: a lasso in the graph of the states.

The graph is multiplied with the automaton of the assumption and the negated formula. A run is a
counterexample if it stays in a component of the product whose edges have all acceptance marks. The formula
itself, evaluated on the lasso, confirms what was found.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from veristream.ir.property import Formula, Holds, Occurs, Silent, TemporalBinary, TemporalUnary
from veristream.search.runs.buchi import Automaton, translate
from veristream.search.runs.formula import ACTION_SHIFT
from veristream.search.runs.lasso import satisfies
from veristream.system import RunCondition, State

Pair = tuple[int, int]
"""A state of the graph and one of the automaton."""


@dataclass(frozen=True, slots=True)
class Lasso:
    """The states of a run, by number; the last one is the one at `loop` again."""

    states: tuple[int, ...]
    loop: int


@dataclass(frozen=True, slots=True)
class _Edge:
    target: Pair
    marks: int


@dataclass
class _Product:
    """The product of the graph and an automaton, computed where it is looked at."""

    condition: RunCondition
    automaton: Automaton
    states: Sequence[State]
    edges: Sequence[array[int]]
    _letters: dict[Pair, int] = field(default_factory=dict)
    _known: dict[Pair, list[_Edge]] = field(default_factory=dict)

    def letter(self, before: int, after: int) -> int:
        """The propositions that hold of a step, as the automaton's bits."""
        if (before, after) not in self._letters:
            bits = 0
            for bit, one in enumerate(self.automaton.actions, ACTION_SHIFT):
                assert isinstance(one, Occurs)
                if self.condition.propositions[one.name](self.states[before], self.states[after]):
                    bits |= 1 << bit
            self._letters[before, after] = bits
        return self._letters[before, after]

    def follow(self, pair: Pair) -> list[_Edge]:
        """The edges from a pair; every state may follow itself."""
        if pair not in self._known:
            self._known[pair] = list(self._edges_from(*pair))
        return self._known[pair]

    def _edges_from(self, state: int, at: int) -> Iterator[_Edge]:
        automaton = self.automaton
        targets = self.edges[state] if state in self.edges[state] else [*self.edges[state], state]
        for target in targets:
            letter = self.letter(state, target)
            for edge in range(automaton.first[at], automaton.first[at + 1]):
                has_all = letter & automaton.positive[edge] == automaton.positive[edge]
                if has_all and not letter & automaton.negative[edge]:
                    yield _Edge((target, automaton.target[edge]), automaton.acceptance[edge])


def find_run(
    condition: RunCondition,
    states: Sequence[State],
    edges: Sequence[array[int]],
    initial: Sequence[int],
) -> Lasso | None:
    """A run that breaks the formula although it satisfies the assumption; None if there is none."""
    sought: Formula = TemporalUnary("!", condition.formula)
    if condition.assumption is not None:
        sought = TemporalBinary("&&", condition.assumption, sought)
    automaton = translate(sought)
    product = _Product(condition, automaton, states, edges)
    starts = [(state, automaton.initial) for state in initial]
    all_marks = (1 << automaton.acceptance_count) - 1
    for component in _components(product, starts):
        if _marks_inside(product, component) == all_marks and _has_cycle(product, component):
            found = _lasso(product, starts, component, all_marks)
            _confirm(product, found, sought)
            return found
    return None


def _components(product: _Product, starts: Sequence[Pair]) -> Iterator[frozenset[Pair]]:
    """The strongly connected components, by Tarjan's algorithm without recursion."""
    number: dict[Pair, int] = {}
    low: dict[Pair, int] = {}
    stack: list[Pair] = []
    inside: set[Pair] = set()
    for start in starts:
        if start in number:
            continue
        work: list[tuple[Pair, int]] = [(start, 0)]
        while work:
            node, at = work.pop()
            if at == 0:
                number[node] = low[node] = len(number)
                stack.append(node)
                inside.add(node)
            followed = product.follow(node)
            if at > 0:
                low[node] = min(low[node], low[followed[at - 1].target])
            while at < len(followed):
                target = followed[at].target
                at += 1
                if target not in number:
                    work += [(node, at), (target, 0)]
                    break
                if target in inside:
                    low[node] = min(low[node], number[target])
            else:
                if low[node] == number[node]:
                    yield _pop(stack, inside, node)


def _pop(stack: list[Pair], inside: set[Pair], root: Pair) -> frozenset[Pair]:
    found: set[Pair] = set()
    while root not in found:
        found.add(stack.pop())
    inside -= found
    return frozenset(found)


def _marks_inside(product: _Product, component: frozenset[Pair]) -> int:
    marks = 0
    for pair in component:
        for edge in product.follow(pair):
            if edge.target in component:
                marks |= edge.marks
    return marks


def _has_cycle(product: _Product, component: frozenset[Pair]) -> bool:
    return any(edge.target in component for pair in component for edge in product.follow(pair))


def _lasso(product: _Product, starts: Sequence[Pair], component: frozenset[Pair], all_marks: int) -> Lasso:
    """A shortest way into the component, and then a cycle that has all marks."""
    way = _walk(product, starts, None, lambda edge: edge.target in component, first=component)
    entry = way[-1]
    cycle, missing, at = [entry], all_marks, entry
    while missing or len(cycle) == 1:
        wanted = missing

        def helps(edge: _Edge, wanted: int = wanted) -> bool:
            return bool(edge.marks & wanted) or not wanted

        walked = _walk(product, [at], component, helps)
        for before, after in pairwise(walked):
            for edge in product.follow(before):
                if edge.target == after:
                    missing &= ~edge.marks
        cycle += walked[1:]
        at = cycle[-1]
    if at != entry:
        cycle += _walk(product, [at], component, lambda edge: edge.target == entry)[1:]
    states = [state for state, _ in way] + [state for state, _ in cycle[1:]]
    return Lasso(tuple(states), len(way) - 1)


def _walk(
    product: _Product,
    starts: Sequence[Pair],
    within: frozenset[Pair] | None,
    is_last: Callable[[_Edge], bool],
    first: frozenset[Pair] = frozenset(),
) -> list[Pair]:
    """A shortest walk whose last edge is of the given kind, or to a start that is among `first`."""
    for start in starts:
        if start in first:
            return [start]
    before: dict[Pair, Pair | None] = dict.fromkeys(starts)
    waiting = deque(starts)
    while waiting:
        pair = waiting.popleft()
        for edge in product.follow(pair):
            if within is not None and edge.target not in within:
                continue
            if is_last(edge):
                walked: list[Pair] = [edge.target]
                at: Pair | None = pair
                while at is not None:
                    walked.append(at)
                    at = before[at]
                return walked[::-1]
            if edge.target not in before:
                before[edge.target] = pair
                waiting.append(edge.target)
    raise AssertionError("no such walk")


def _confirm(product: _Product, lasso: Lasso, sought: Formula) -> None:
    """Asserts that the formula agrees, evaluated position by position."""
    letters: list[frozenset[Holds | Occurs | Silent]] = []
    for before, after in pairwise(lasso.states):
        bits = product.letter(before, after)
        actions = enumerate(product.automaton.actions, ACTION_SHIFT)
        letters.append(frozenset(one for bit, one in actions if bits >> bit & 1))
    assert satisfies(sought, letters, lasso.loop), "the run does not break the formula"
