"""The words that all reports of replays use."""

from __future__ import annotations

from veristream.replay.counterparts import Missing
from veristream.replay.outcome import Offsets, Replayed
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


def tell_offsets(offsets: Offsets) -> str:
    """Says where readers of committed messages stop, and where the log ends."""
    if offsets.last_stable < offsets.end:
        return (
            f"partition {offsets.partition}: the last stable offset stands at {offsets.last_stable},"
            f" while the log ends at {offsets.end}"
        )
    return f"partition {offsets.partition}: committed up to the end of the log, {offsets.end}"
