"""Random runs, for looking at a model before checking it."""

from __future__ import annotations

from random import Random

from veristream.ir.interpret import Interpreter
from veristream.ir.network import Network
from veristream.ir.show import show_state
from veristream.search.trace import first_step
from veristream.verdict import Step, Trace


def simulate(network: Network, seed: int, step_count_max: int) -> Trace:
    """A run of at most `step_count_max` steps, each chosen evenly; the same for the same seed."""
    interpreter = Interpreter(network)
    random = Random(seed)
    state = interpreter.initial()
    steps = [first_step(interpreter, state)]
    for _ in range(step_count_max):
        possible = interpreter.steps(state)
        if not possible:
            break
        taken = random.choice(possible)
        state = taken.state
        steps.append(Step(taken.label, taken.process, show_state(network, state)))
    return Trace(tuple(steps))
