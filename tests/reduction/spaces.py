"""Whole explorations with and without partial-order reduction, for comparison."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from veristream.ir.expr import Expr
from veristream.ir.network import LocationKind, Network
from veristream.ir.oracle.evaluate import ModelFault
from veristream.ir.oracle.interpret import Interpreter
from veristream.ir.state import State
from veristream.kernel.layout import decode, encode
from veristream.kernel.load import load_kernel
from veristream.kernel.watch import Watch
from veristream.search.reach import expand as native
from veristream.search.reach.expand import Code
from veristream.search.reach.explore import Plan, begin
from veristream.search.reduction.relations import Relations, relate
from veristream.search.reduction.tables import tabulate
from veristream_testing.states import Exploration

Spoil = Callable[[Relations], Relations]
"""Plants a mistake in the relations."""


def faithful(relations: Relations) -> Relations:
    """Plants no mistake."""
    return relations


@dataclass(frozen=True, slots=True)
class Space:
    """What an exploration found: its states, those without steps, whether an action fails, which goals hold
    somewhere, and how many transitions were taken."""

    states: frozenset[State]
    ends: frozenset[State]
    fails: bool
    reached: tuple[bool, ...]
    transitions: int = 0


def plain(network: Network) -> Network:
    """The network without what the reduction does not support."""
    components = tuple(
        replace(
            component,
            locations=tuple(
                replace(place, kind=LocationKind.NORMAL, invariant=None) for place in component.locations
            ),
        )
        for component in network.components
    )
    return replace(network, components=components)


def reduced_space(
    network: Network, goals: Sequence[Expr] = (), spoil: Spoil = faithful, workers: int = 1
) -> Space:
    """Explores with reduction to the end, whatever is found."""
    kernel = load_kernel(network, Watch(tuple(goals)))
    tables = tabulate(spoil(relate(network, goals)), kernel.layout, workers)
    propositions = kernel.propositions if goals else 0
    code = Code(kernel.successors, propositions, 0, kernel.terminated, tables.address)
    interpreter = Interpreter(network)
    initial = encode(kernel.layout, network, interpreter.initial())
    plan = Plan(states=(1 << len(goals)) - 1, observes=bool(goals), compact=True)
    exploration = begin(code, initial, plan, workers, 64)
    hits = list(exploration.hits)
    while not exploration.complete:
        exploration.advance(1 << 14)
        hits += exploration.hits
    exploration.close()
    rows = [
        exploration.row(arena * exploration.arena_size + k)
        for arena in range(workers)
        for k in range(int(exploration.work.counts[arena * native.STRIDE]))
    ]
    states = frozenset(decode(kernel.layout, network, row) for row in rows)
    assert len(states) == len(rows)
    ends = frozenset(state for state in states if not _moves(interpreter, state))
    kinds = {hit.kind for hit in hits}
    fails = bool(kinds & {native.FAULT, native.WATCH_FAULT})
    reached = tuple(bool(exploration.seen >> bit & 1) for bit in range(len(goals)))
    return Space(states, ends, fails, reached, exploration.counts.transitions)


def full_space(network: Network, found: Exploration, goals: Sequence[Expr] = ()) -> Space:
    """What the interpreter found in a complete exploration."""
    interpreter = Interpreter(network)
    states = frozenset(found.states)
    ends = frozenset(state for state in states if not _moves(interpreter, state))
    truths = [[_truth(interpreter, goal, state) for state in states] for goal in goals]
    fails = bool(found.failures) or any(None in truth for truth in truths)
    return Space(states, ends, fails, tuple(True in truth for truth in truths))


def _moves(interpreter: Interpreter, state: State) -> bool:
    expansion = interpreter.expand(state)
    return bool(expansion.steps or expansion.failures)


def _truth(interpreter: Interpreter, goal: Expr, state: State) -> bool | None:
    try:
        return interpreter.holds(goal, state)
    except ModelFault:
        return None


def difference(full: Space, reduced: Space) -> str | None:
    """How the reduced space differs in what it must preserve; None if it does not."""
    if not reduced.states <= full.states:
        return "states that are not reachable"
    if full.fails or reduced.fails:
        return None if full.fails == reduced.fails else "faults"
    if reduced.ends != full.ends:
        return "states without steps"
    if reduced.reached != full.reached:
        return "goals"
    return None
