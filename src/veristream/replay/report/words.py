"""The words that all reports of replays use."""

from __future__ import annotations

from veristream.replay.counterparts import Missing
from veristream.replay.outcome import Replayed
from veristream.replay.plan import Planned


def show_label(step: Planned) -> str:
    """Returns the action with its arguments, as the model's trace has it."""
    return f"{step.action}({', '.join(step.arguments)})" if step.arguments else step.action


def tell_step(replayed: Replayed, step: Planned) -> str:
    """Says what became of a step."""
    if isinstance(step.counterpart, Missing):
        return f"no counterpart: {step.counterpart.why}"
    course = replayed.course
    if course is None:
        return ""
    for each in course.done:
        if each.step.number == step.number:
            return each.how
    if course.left is not None and course.left.step.number == step.number:
        return f"LEFT THE RUN: {course.left.instead}"
    return "not reached"
