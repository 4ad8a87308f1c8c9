"""Strong bisimilarity of the states of a Network and those of the oracle.

Counts differ where PAT writes terms alike that are different components in our Networks, or vice versa.
Bisimilarity does not depend on that: whatever one of the two can do, step by step, the other can do too.
"""

from __future__ import annotations

from tests.csp.oracle_steps import TAU
from veristream.ir.network import Network
from veristream.ir.oracle.interpret import Interpreter

Steps = list[list[tuple[str, int]]]
"""The steps of each state, as an event and the position of the next state; the first state is initial."""


def steps_of(network: Network) -> Steps:
    """Returns the steps of all states of a finite Network that does not fault."""
    interpreter = Interpreter(network)
    states = [interpreter.initial()]
    numbers = {states[0]: 0}
    found: Steps = []
    for state in states:
        out = []
        for step in interpreter.expand(state).steps:
            if step.state not in numbers:
                numbers[step.state] = len(states)
                states.append(step.state)
            component, edge = step.movers[0]
            shown = network.components[component].edges[edge].visible
            out.append((step.label if shown else TAU, numbers[step.state]))
        found.append(out)
    return found


def without_tau(steps: Steps) -> Steps:
    """The steps of each state with any number of tau before and after them, and none as a tau.

    Of such steps, bisimilarity is weak bisimilarity.
    """
    silent = [_reached_by_tau(steps, state) for state in range(len(steps))]
    found: Steps = []
    for state in range(len(steps)):
        out = {(TAU, after) for after in silent[state]}
        for before in silent[state]:
            for event, after in steps[before]:
                if event != TAU:
                    out |= {(event, end) for end in silent[after]}
        found.append(sorted(out))
    return found


def _reached_by_tau(steps: Steps, state: int) -> set[int]:
    found, waiting = {state}, [state]
    while waiting:
        for event, after in steps[waiting.pop()]:
            if event == TAU and after not in found:
                found.add(after)
                waiting.append(after)
    return found


def bisimilar(one: Steps, other: Steps) -> bool:
    """Whether the initial states are bisimilar: refines a partition of all states until it is stable."""
    shifted = [[(event, after + len(one)) for event, after in out] for out in other]
    together = one + shifted
    blocks, count = [0] * len(together), 1
    while True:
        known: dict[tuple[int, frozenset[tuple[str, int]]], int] = {}
        refined = []
        for state, out in enumerate(together):
            signature = (blocks[state], frozenset((event, blocks[after]) for event, after in out))
            refined.append(known.setdefault(signature, len(known)))
        if len(known) == count:
            return blocks[0] == blocks[len(one)]
        blocks, count = refined, len(known)
