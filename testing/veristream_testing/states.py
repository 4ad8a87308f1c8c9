"""Explores every reachable state of a network without clocks: the oracle for kernels and searches."""

from __future__ import annotations

from dataclasses import dataclass, replace

from veristream.ir.network import Network
from veristream.ir.oracle.interpret import Failed, Interpreter
from veristream.ir.state import State


@dataclass(frozen=True, slots=True)
class Exploration:
    """The result of a search; `complete` unless the limit on states stopped it.

    `depth` is the largest distance of a state from the initial one. Only expanded states count for
    `transitions` and `failures`. A state with a failure is neither a deadlock nor terminated.
    """

    states: set[State]
    transitions: int
    depth: int
    deadlocks: set[State]
    terminated: set[State]
    failures: list[tuple[State, Failed]]
    complete: bool


def explore(network: Network, state_count_max: int) -> Exploration:
    """Explores the reachable states breadth first, continuing after failures, up to the limit."""
    interpreter = Interpreter(network)
    start = interpreter.initial()
    found = Exploration({start}, 0, 0, set(), set(), [], True)
    transitions, depth = 0, 0
    frontier = [start]
    while frontier:
        following: list[State] = []
        for state in frontier:
            expansion = interpreter.expand(state)
            transitions += len(expansion.steps)
            found.failures.extend((state, failure) for failure in expansion.failures)
            if not expansion.steps and not expansion.failures:
                ended = interpreter.is_terminated(state)
                (found.terminated if ended else found.deadlocks).add(state)
            for step in expansion.steps:
                if step.state in found.states:
                    continue
                if len(found.states) == state_count_max:
                    depth += 1 if following else 0
                    return replace(found, transitions=transitions, depth=depth, complete=False)
                found.states.add(step.state)
                following.append(step.state)
        depth += 1 if following else 0
        frontier = following
    return replace(found, transitions=transitions, depth=depth)
