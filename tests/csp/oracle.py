"""A slow, obvious interpreter of CSP#, the oracle of the tests.

It rewrites terms of `syntax.Specification` step by step and shares no code with the compiler that
lowers CSP# to Networks. The rules are in `oracle_steps`, the normal form of terms in `oracle_terms`,
values in `oracle_values`; refinement and temporal formulas are in `oracle_claims`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from tests.csp.oracle_steps import TAU, TERMINATE, moves
from tests.csp.oracle_terms import Term, activate, substitute, unfold
from tests.csp.oracle_values import Buffers, Memory, OracleFault, Tables, Values, evaluate
from veristream.languages.csp import syntax as csp

__all__ = [
    "Configuration",
    "Exploration",
    "Graph",
    "OracleFault",
    "deterministic",
    "diverges",
    "explore",
    "graph",
    "initial",
    "nondeterminism",
    "reachable",
    "steps",
    "traces",
    "witness",
]

DEADLOCKS_MAX = 5

Trace = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Configuration:
    """A state: the term, the values of the globals, the contents of the channels."""

    term: Term
    values: Values
    buffers: Buffers


@dataclass(frozen=True, slots=True)
class Exploration:
    """The result of an exploration; `complete` is false if it stopped at the limit.

    `deadlocks` holds traces to at most five of the `dead` states that are deadlocks, shortest first.
    """

    states: int
    transitions: int
    deadlocks: tuple[Trace, ...]
    dead: int
    terminated: bool
    events: frozenset[str]
    complete: bool


@dataclass(slots=True)
class Graph:
    """The reachable states in breadth-first order with their steps; `parent` encodes shortest traces."""

    tables: Tables
    states: list[Configuration] = field(default_factory=list)
    steps: list[list[tuple[str, int]]] = field(default_factory=list)
    parent: list[tuple[int, str] | None] = field(default_factory=list)
    complete: bool = True

    def trace(self, state: int) -> Trace:
        """Returns the events of a shortest run to the state."""
        events: list[str] = []
        while (origin := self.parent[state]) is not None:
            state, event = origin
            events.append(event)
        return tuple(reversed(events))

    def holds(self, condition: csp.Expr, state: int) -> bool:
        """Whether a condition on globals and channels is true in the state."""
        return bool(self.value(condition, state))

    def value(self, expr: csp.Expr, state: int) -> int:
        """Evaluates an expression over globals and channels in the state."""
        found = self.states[state]
        return evaluate(expr, Memory(self.tables, found.values, found.buffers))


def initial(spec: csp.Specification, process: csp.Ref) -> Configuration:
    """Returns the initial state of the process; a process that is a composition has started."""
    tables = Tables(spec)
    values, buffers = tables.initial_values(), tables.initial_buffers()
    body = unfold(
        process, [evaluate(each, Memory(tables, values, buffers)) for each in process.arguments], tables
    )
    composed = isinstance(body, csp.Parallel | csp.Copies) or (
        isinstance(body, csp.Replicated) and body.operator in ("parallel", "interleave")
    )
    term = activate(body if composed else substitute(process, {}), tables)
    return Configuration(term, values, buffers)


def steps(
    spec: csp.Specification, configuration: Configuration
) -> list[tuple[str, bool, bool, Configuration]]:
    """Returns the steps of a state as (event, atomic, data operation, next); atomic ones take priority."""
    return next_steps(Tables(spec), configuration)


def next_steps(tables: Tables, now: Configuration) -> list[tuple[str, bool, bool, Configuration]]:
    try:
        found, _ = moves(now.term, Memory(tables, now.values, now.buffers))
    except RecursionError:
        raise OracleFault("a process refers to itself without a step") from None
    if any(step.atomic for step in found):
        found = [step for step in found if step.atomic]
    return [
        (step.event, step.atomic, step.data, Configuration(step.term, step.values, step.buffers))
        for step in found
    ]


def graph(spec: csp.Specification, process: csp.Ref, limit: int = 200_000) -> Graph:
    """Returns all reachable states, or the first `limit` of them and the steps between them."""
    found = Graph(Tables(spec))
    start = initial(spec, process)
    numbers = {start: 0}
    found.states.append(start)
    found.parent.append(None)
    for state, configuration in enumerate(found.states):
        out: list[tuple[str, int]] = []
        for event, _, _, after in next_steps(found.tables, configuration):
            if after not in numbers:
                if len(numbers) >= limit:
                    found.complete = False
                    continue
                numbers[after] = len(numbers)
                found.states.append(after)
                found.parent.append((state, event))
            out.append((event, numbers[after]))
        found.steps.append(out)
    return found


def explore(spec: csp.Specification, process: csp.Ref, limit: int = 200_000) -> Exploration:
    """Counts the reachable states and finds the deadlocks among them."""
    return summary(graph(spec, process, limit))


def summary(found: Graph) -> Exploration:
    """Summarises a graph."""
    events = [event for out in found.steps for event, _ in out]
    stuck = deadlock_traces(found)
    return Exploration(
        states=len(found.states),
        transitions=len(events),
        deadlocks=tuple(stuck[:DEADLOCKS_MAX]),
        dead=len(stuck),
        terminated=TERMINATE in events,
        events=frozenset(events),
        complete=found.complete,
    )


def deadlock_traces(found: Graph) -> list[Trace]:
    """Returns shortest runs to states without a step that do not end with termination, shortest first.

    A state that is reached both by termination and otherwise is a deadlock by the second run.
    """
    stuck = {state for state, out in enumerate(found.steps) if not out}
    traces: dict[int, Trace] = {0: ()} if 0 in stuck else {}
    for state, out in enumerate(found.steps):
        for event, after in out:
            if after in stuck and event != TERMINATE and after not in traces:
                traces[after] = (*found.trace(state), event)
    return sorted(traces.values(), key=len)


def witness(found: Graph, condition: csp.Expr) -> Trace | None:
    """Returns a shortest run to a state that satisfies the condition."""
    for state in range(len(found.states)):
        if found.holds(condition, state):
            return found.trace(state)
    return None


def reachable(spec: csp.Specification, process: csp.Ref, condition: csp.Expr) -> bool:
    """Whether some reachable state satisfies the condition."""
    return witness(graph(spec, process), condition) is not None


def nondeterminism(found: Graph) -> tuple[Trace, str] | None:
    """Returns a shortest run to a state in which one event leads to different states, and that event."""
    for state, out in enumerate(found.steps):
        targets: dict[str, int] = {}
        for event, after in out:
            if targets.setdefault(event, after) != after:
                return found.trace(state), event
    return None


def deterministic(spec: csp.Specification, process: csp.Ref) -> bool:
    """Whether no event of a reachable state leads to different states; all taus are one event."""
    return nondeterminism(graph(spec, process)) is None


def silent_cycles(found: Graph) -> set[int]:
    """Returns the states on a cycle of taus."""
    silent = [[after for event, after in out if event == TAU] for out in found.steps]
    return {state for state in range(len(silent)) if state in closure(silent, silent[state])}


def closure(edges: list[list[int]], start: Iterable[int]) -> set[int]:
    """Returns the states reachable from the start states, including these."""
    seen = set(start)
    pending = list(seen)
    while pending:
        for after in edges[pending.pop()]:
            if after not in seen:
                seen.add(after)
                pending.append(after)
    return seen


def divergence(found: Graph) -> Trace | None:
    """Returns a shortest run to a state on a cycle of taus."""
    cycle = min(silent_cycles(found), default=None)
    return None if cycle is None else found.trace(cycle)


def diverges(spec: csp.Specification, process: csp.Ref) -> bool:
    """Whether a cycle of taus is reachable."""
    return divergence(graph(spec, process)) is not None


def traces(spec: csp.Specification, process: csp.Ref, depth: int) -> frozenset[Trace]:
    """Returns all sequences of at most `depth` visible events, including termination, without taus."""
    tables = Tables(spec)
    found: set[Trace] = set()
    level: set[tuple[Trace, Configuration]] = {((), initial(spec, process))}
    seen = set(level)
    while level:
        following: set[tuple[Trace, Configuration]] = set()
        for trace, now in level:
            found.add(trace)
            for event, _, _, after in next_steps(tables, now):
                longer = trace if event == TAU else (*trace, event)
                if len(longer) <= depth and (longer, after) not in seen:
                    following.add((longer, after))
        seen |= following
        level = following
    return frozenset(found)
