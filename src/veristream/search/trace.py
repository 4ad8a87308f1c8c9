"""Traces: what a search found, replayed through the interpreter before a person sees it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from veristream.ir.interpret import Failed, Interpreter, Taken
from veristream.ir.show import show_state
from veristream.ir.state import State
from veristream.verdict import Step, Trace

STUTTER_TEXT = "(no step is possible: the state repeats)"

Accept = Callable[[Taken], bool]


def anything(taken: Taken) -> bool:
    """Accepts every step."""
    return True


def first_step(interpreter: Interpreter, state: State) -> Step:
    """The beginning of a trace."""
    return Step(None, None, show_state(interpreter.network, state))


def find_step(interpreter: Interpreter, before: State, after: State, accept: Accept) -> Step:
    """The step that the interpreter takes from one state to the other."""
    for taken in interpreter.steps(before):
        if taken.state == after and accept(taken):
            return Step(taken.label, taken.process, show_state(interpreter.network, after))
    raise AssertionError(f"the interpreter knows no such step: {before} to {after}")


def replay(interpreter: Interpreter, states: Sequence[State], last: Accept = anything) -> tuple[Step, ...]:
    """The run through the states; `last` may say more of its last step."""
    assert states[0] == interpreter.initial(), "a trace begins in the initial state"
    steps = [first_step(interpreter, states[0])]
    for position in range(1, len(states)):
        accept = last if position == len(states) - 1 else anything
        steps.append(find_step(interpreter, states[position - 1], states[position], accept))
    return tuple(steps)


def failing_trace(interpreter: Interpreter, states: Sequence[State], action: int) -> tuple[Trace, Failed]:
    """The run to a state in which the action fails, and how it fails."""
    failures = interpreter.expand(states[-1]).failures
    failed = next((f for f in failures if f.action == action), None)
    assert failed is not None, f"the interpreter does not fail at action {action} of {states[-1]}"
    return Trace(replay(interpreter, states), shortest=True), failed
