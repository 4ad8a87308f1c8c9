"""Traces: paths that a search found, replayed by the interpreter before they are reported."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

from veristream.ir.expr import Expr
from veristream.ir.oracle.evaluate import ModelFault
from veristream.ir.oracle.interpret import Interpreter, Taken
from veristream.ir.show import show_state
from veristream.ir.state import State
from veristream.verdict import Fault, Step, Trace, Unknown

STUTTER_TEXT = "(no step is possible: the state repeats)"

Accept = Callable[[Taken], bool]


def anything(taken: Taken) -> bool:
    """Accepts every step."""
    return True


def first_step(interpreter: Interpreter, state: State) -> Step:
    """The first step of a trace, which has no action."""
    return Step(None, None, show_state(interpreter.network, state))


def find_step(interpreter: Interpreter, before: State, after: State, accept: Accept) -> Step:
    """The step that the interpreter takes from one state to the other."""
    for taken in interpreter.steps(before):
        if taken.state == after and accept(taken):
            return Step(taken.label, taken.process, show_state(interpreter.network, after))
    raise AssertionError(f"the interpreter knows no such step: {before} to {after}")


def replay(interpreter: Interpreter, states: Sequence[State]) -> tuple[Step, ...]:
    """The run through the states, as the interpreter takes it."""
    assert states[0] == interpreter.initial(), "a trace begins in the initial state"
    steps = [first_step(interpreter, states[0])]
    for before, after in pairwise(states):
        steps.append(find_step(interpreter, before, after, anything))
    return tuple(steps)


def action_fault(interpreter: Interpreter, states: Sequence[State], action: int) -> Unknown | None:
    """The verdict if an action fails in the last state; None if none does.

    With symmetry, the action of another instance may fail in the real run than in the search.
    """
    failures = interpreter.expand(states[-1]).failures
    if not failures:
        return None
    failed = next((f for f in failures if f.action == action), failures[0])
    reason = f"the action {failed.label} of {failed.process} fails: {failed.fault.message}"
    return Unknown(reason, Trace(replay(interpreter, states), shortest=True), failed.fault)


def property_fault(
    interpreter: Interpreter, states: Sequence[State], conditions: Sequence[Expr]
) -> Unknown:
    """The verdict if one of the conditions cannot be evaluated in the last state, or on a step from it."""
    for condition in conditions:
        try:
            interpreter.holds_step(condition, states[-1], states[-1])
        except ModelFault as fault:
            return _cannot_evaluate(interpreter, states, fault)
        for step in interpreter.steps(states[-1]):
            try:
                interpreter.holds_step(condition, states[-1], step.state)
            except ModelFault as fault:
                return _cannot_evaluate(interpreter, [*states, step.state], fault)
    raise AssertionError("the interpreter evaluates what the kernel could not")


def _cannot_evaluate(interpreter: Interpreter, states: Sequence[State], fault: ModelFault) -> Unknown:
    reason = f"a property cannot be evaluated: {fault.message}"
    trace = Trace(replay(interpreter, states), shortest=True)
    return Unknown(reason, trace, Fault(fault.message, fault.span, in_property=True))
