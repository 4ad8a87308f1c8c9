"""Refinement and temporal formulas on the oracle's graphs, by the textbook definitions.

Refinement determinises the specification with sets of states and explores it together with the
implementation. A formula is checked through its closure: a node is a state of the system with the set of
subformulas that must hold from there on, and a run that satisfies the formula is a path into a component
that fulfils every promised eventuality.
"""

from __future__ import annotations

from itertools import product
from typing import Literal

from tests.csp.oracle import (
    Graph,
    Trace,
    closure,
    deadlock_traces,
    divergence,
    graph,
    nondeterminism,
    silent_cycles,
    witness,
)
from tests.csp.oracle_steps import TAU
from veristream.languages.csp import syntax as csp

# --- Refinement -------------------------------------------------------------------------------------


class Normal:
    """A graph determinised to sets of states, one for each visible trace."""

    def __init__(self, found: Graph) -> None:
        self.graph = found
        self.silent = [[after for event, after in out if event == TAU] for out in found.steps]
        self.cycles = silent_cycles(found)

    def after(self, states: frozenset[int], event: str) -> frozenset[int]:
        """Returns the states after the event, with taus before and after it."""
        targets = {to for state in states for shown, to in self.graph.steps[state] if shown == event}
        return frozenset(closure(self.silent, targets))

    def start(self) -> frozenset[int]:
        return frozenset(closure(self.silent, [0]))

    def stable(self, states: frozenset[int]) -> list[frozenset[str]]:
        """Returns the events offered by each state without a tau."""
        return [self.offers(state) for state in states if not self.silent[state]]

    def offers(self, state: int) -> frozenset[str]:
        return frozenset(event for event, _ in self.graph.steps[state])

    def diverges(self, states: frozenset[int]) -> bool:
        return bool(self.cycles & states)


def refinement_failure(
    implementation: Graph, specification: Graph, model: Literal["T", "F", "FD"]
) -> Trace | None:
    """Returns a shortest visible trace that shows a violation of the specification, or None.

    For `T` its last event is the forbidden one; for `F` and `FD` it may end before a forbidden refusal or
    divergence.
    """
    own, norm = Normal(implementation), Normal(specification)
    start = (0, norm.start())
    seen: dict[tuple[int, frozenset[int]], Trace] = {start: ()}
    pending = [start]
    while pending:
        # Taus first, so that visible traces come in the order of their lengths.
        pending.sort(key=lambda node: len(seen[node]))
        state, allowed = node = pending.pop(0)
        trace = seen[node]
        if model == "FD" and norm.diverges(allowed):
            continue
        if model == "FD" and state in own.cycles:
            return trace
        if model != "T" and not own.silent[state]:
            offered = own.offers(state)
            if not any(wanted <= offered for wanted in norm.stable(allowed)):
                return trace
        for event, after in implementation.steps[state]:
            following = allowed if event == TAU else norm.after(allowed, event)
            longer = trace if event == TAU else (*trace, event)
            if not following:
                return longer
            known = seen.get((after, following))
            if known is None or len(longer) < len(known):
                seen[after, following] = longer
                pending.append((after, following))
    return None


# --- Temporal formulas ------------------------------------------------------------------------------

Position = tuple[int, str | None]
"""A state with the event that led to it; None at the start and when a finite run repeats its last state."""


def occurs(formula: csp.Occurs, event: str | None) -> bool:
    """Whether the event is the one in the formula."""
    fields = ".".join(map(str, formula.arguments))
    joint = formula.channel or ("." if fields else "")
    return event == formula.name + joint + fields


def positions(found: Graph) -> dict[Position, list[Position]]:
    """Returns the positions of all runs; a finite run repeats its last state without an event."""
    following: dict[Position, list[Position]] = {}
    pending: list[Position] = [(0, None)]
    while pending:
        state, event = pending.pop()
        if (state, event) in following:
            continue
        out: list[Position] = [(after, shown) for shown, after in found.steps[state]]
        following[state, event] = list(dict.fromkeys(out)) or [(state, None)]
        pending += following[state, event]
    return following


def subformulas(formula: csp.Formula) -> list[csp.Formula]:
    """Returns the subformulas, innermost first."""
    match formula:
        case csp.TemporalUnary(_, operand):
            inner = subformulas(operand)
        case csp.TemporalBinary(_, left, right):
            inner = subformulas(left) + subformulas(right)
        case _:
            inner = []
    return [*inner, formula]


Chosen = frozenset[csp.Formula]


def choices(formula: csp.Formula, found: Graph, position: Position) -> list[Chosen]:
    """Yields every consistent set of subformulas that may be true at a position."""
    parts = list(dict.fromkeys(subformulas(formula)))
    free = [part for part in parts if is_temporal(part)]
    sets = []
    for guess in product([False, True], repeat=len(free)):
        guessed = dict(zip(free, guess, strict=True))
        true: set[csp.Formula] = set()
        for part in parts:
            if guessed[part] if part in guessed else true_now(part, true, found, position):
                true.add(part)
        sets.append(frozenset(true))
    return sets


def is_temporal(formula: csp.Formula) -> bool:
    match formula:
        case csp.TemporalUnary(op):
            return op != "!"
        case csp.TemporalBinary(op):
            return op in ("U", "R")
    return False


def true_now(formula: csp.Formula, true: set[csp.Formula], found: Graph, position: Position) -> bool:
    """Evaluates a subformula without temporal operators at its root."""
    match formula:
        case csp.Holds(condition):
            return found.holds(condition, position[0])
        case csp.Occurs():
            return occurs(formula, position[1])
        case csp.TemporalUnary(_, operand):
            return operand not in true
        case csp.TemporalBinary(op, left, right):
            one, other = left in true, right in true
            return {
                "&&": one and other,
                "||": one or other,
                "->": not one or other,
                "<->": one == other,
            }[op]
    raise TypeError(formula)


def consistent(now: Chosen, later: Chosen, temporal: list[csp.Formula]) -> bool:
    """Whether the temporal subformulas are consistent with the next position."""
    for part in temporal:
        match part:
            case csp.TemporalUnary("X", operand):
                expected = operand in later
            case csp.TemporalUnary("[]", operand):
                expected = operand in now and part in later
            case csp.TemporalUnary("<>", operand):
                expected = operand in now or part in later
            case csp.TemporalBinary("U", left, right):
                expected = right in now or (left in now and part in later)
            case csp.TemporalBinary("R", left, right):
                expected = right in now and (left in now or part in later)
            case _:
                raise TypeError(part)
        if (part in now) != expected:
            return False
    return True


def fulfilled(part: csp.Formula, component: list[Chosen]) -> bool:
    """Whether a component fulfils the eventuality of a subformula, or justifies its negation."""
    match part:
        case csp.TemporalUnary("<>", operand):
            return any(part not in true or operand in true for true in component)
        case csp.TemporalBinary("U", _, right):
            return any(part not in true or right in true for true in component)
        case csp.TemporalUnary("[]", operand):
            return any(part in true or operand not in true for true in component)
        case csp.TemporalBinary("R", _, right):
            return any(part in true or right not in true for true in component)
    return True


def satisfies(found: Graph, formula: csp.Formula) -> bool:
    """Whether every run satisfies the formula, that is, no run satisfies its negation."""
    wanted = csp.TemporalUnary("!", formula)
    temporal = [part for part in dict.fromkeys(subformulas(wanted)) if is_temporal(part)]
    runs = positions(found)
    options = {position: choices(wanted, found, position) for position in runs}
    nodes = [(position, true) for position in runs for true in options[position]]
    number = {node: at for at, node in enumerate(nodes)}
    edges = [
        [
            number[after, later]
            for after in runs[position]
            for later in options[after]
            if consistent(true, later, temporal)
        ]
        for position, true in nodes
    ]
    start = [number[(0, None), true] for true in options[0, None] if wanted in true]
    reached = closure(edges, start)
    for component in components(edges, reached):
        if all(fulfilled(part, [nodes[at][1] for at in component]) for part in temporal):
            return False
    return True


def components(edges: list[list[int]], reached: set[int]) -> list[list[int]]:
    """Returns the strongly connected components with a cycle, by reachability in both directions."""
    backwards: list[list[int]] = [[] for _ in edges]
    for at in reached:
        for after in edges[at]:
            backwards[after].append(at)
    found, left = [], set(reached)
    while left:
        at = min(left)
        ahead, behind = closure(edges, edges[at]), closure(backwards, backwards[at])
        component = ahead & behind & reached
        if component:
            found.append(sorted(component))
        left -= component | {at}
    return found


# --- Assertions -------------------------------------------------------------------------------------


def optimum(found: Graph, claim: csp.Reaches) -> int | None:
    """Returns the minimum or maximum at the goal; None if it is unreachable or the claim has no value."""
    if claim.value is None:
        return None
    goals = [state for state in range(len(found.states)) if found.holds(claim.condition, state)]
    values = [found.value(claim.value, state) for state in goals]
    pick = min if claim.direction == "min" else max
    return pick(values) if values else None


def judge(spec: csp.Specification, assertion: csp.Assertion) -> tuple[bool, Trace | None]:
    """Returns whether the assertion holds, with a shortest witness or counterexample if there is one.

    For `reaches` the run leads to the goal, for deadlocks to the deadlocked state, for divergence to the
    cycle, for determinism to the state and its event; for refinement it is the visible trace.
    """
    found = graph(spec, assertion.process)
    assert found.complete, "the model is too large for the oracle"
    match assertion.claim:
        case csp.Simple("deadlockfree"):
            stuck = deadlock_traces(found)
            return not stuck, stuck[0] if stuck else None
        case csp.Simple("nonterminating"):
            ends = [state for state, out in enumerate(found.steps) if not out]
            return not ends, found.trace(ends[0]) if ends else None
        case csp.Simple("divergencefree"):
            cycle = divergence(found)
            return cycle is None, cycle
        case csp.Simple("deterministic"):
            twice = nondeterminism(found)
            return twice is None, (*twice[0], twice[1]) if twice else None
        case csp.Reaches(condition):
            run = witness(found, condition)
            return run is not None, run
        case csp.Satisfies(formula):
            return satisfies(found, formula), None
        case csp.Refines(specification, model):
            failure = refinement_failure(found, graph(spec, specification), model)
            return failure is None, failure
    raise TypeError(assertion.claim)
