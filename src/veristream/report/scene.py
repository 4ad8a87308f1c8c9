"""The content of a chart, shared by the text and SVG renderers: lanes, steps and changes.

A chart has a lane for each component that takes a step and a line for each step. A step of one component
is a local action, and may receive messages that others sent earlier; in a step of several components, the
first one leads. Between the lines, the chart says where a loop begins and ends, and how much time passes.
"""

from __future__ import annotations

from collections.abc import Container, Sequence, Set
from dataclasses import dataclass
from itertools import accumulate

from veristream.report.messages import (
    Change,
    Exchange,
    Message,
    Place,
    find_changes,
    find_lists,
    find_messages,
    movers,
)
from veristream.verdict import Shown, Step, Trace

IDLE = "idle"
BEGINNINGS_MIN = 3
STEPS_WHOLE_MAX = 60
STEPS_HEAD = 25
STEPS_TAIL = 25


@dataclass(frozen=True, slots=True)
class Scene:
    """What a chart of a trace shows.

    `drawn` are the steps that have a line, `times` the time at each step, `received` the messages that
    arrive with it, and `carriers` the parts of the state that messages pass through. Changes of `hidden`
    parts are omitted.
    """

    trace: Trace
    lanes: tuple[str, ...]
    drawn: tuple[int, ...]
    times: tuple[float, ...]
    received: tuple[tuple[Message, ...], ...]
    carriers: frozenset[str]
    hidden: frozenset[str]
    lists: frozenset[Place]

    @property
    def waits(self) -> bool:
        """Whether the run ends with a delay."""
        return len(self.trace.steps) > 1 and self.trace.steps[-1].action is None


@dataclass(frozen=True, slots=True)
class Passage:
    """What happens between two lines: whether a loop begins, and a delay until the time `at`."""

    loop_begins: bool
    delay: float
    at: float


def find_scene(trace: Trace, hidden: Set[str] = frozenset(), chosen: Sequence[str] = ()) -> Scene:
    """Returns the scene of all components that take a step, or of what happens between the chosen ones."""
    lists = find_lists(trace.steps)
    lanes = tuple(chosen) or tuple(_taking_part(trace))
    received = _received(trace, lists, lanes)
    carriers = frozenset(message.part for messages in received for message in messages)
    times = tuple(accumulate(step.delay or 0.0 for step in trace.steps))
    drawn = _drawn(trace, received, chosen)
    return Scene(trace, lanes, drawn, times, received, carriers, frozenset(hidden), lists)


def _taking_part(trace: Trace) -> list[str]:
    """Returns the components that take a step, in the model's order if the state reveals it."""
    order: dict[str, int] = {}
    for position, part in enumerate(trace.steps[0].state):
        order.setdefault(part, position)
        order.setdefault(
            part.partition(".")[0], position
        )  # `Producer(0).next` also gives its owner's position
    names = dict.fromkeys(mover for step in trace.steps for mover in movers(step))
    return sorted(names, key=lambda name: order.get(name, len(order)))


def _received(
    trace: Trace, lists: frozenset[Place], lanes: Sequence[str]
) -> tuple[tuple[Message, ...], ...]:
    """Returns, for each step, the messages that arrive in one lane from another."""
    found = find_messages(trace.steps, lists)
    return tuple(
        tuple(message for message in messages if message.sender in lanes and moving(step, lanes))
        for step, messages in zip(trace.steps, found, strict=True)
    )


def _drawn(trace: Trace, received: Sequence[Sequence[Message]], chosen: Sequence[str]) -> tuple[int, ...]:
    """Returns the steps that have a line: all but a final delay; if lanes are chosen, only the steps in
    which two of them take part."""
    later = (
        position
        for position, step in enumerate(trace.steps[1:], 1)
        if step.action is not None and (not chosen or len(moving(step, chosen)) > 1 or received[position])
    )
    return (0, *later)


def moving(step: Step, lanes: Container[str]) -> list[str]:
    """Returns the processes that take the step and have a lane."""
    return [mover for mover in movers(step) if mover in lanes]


def kept_lines(scene: Scene, full: bool) -> list[int]:
    """Returns the line numbers that remain when the middle of a long chart is omitted."""
    drawn, loop, count = scene.drawn, scene.trace.loop, len(scene.drawn)
    if full or count <= STEPS_WHOLE_MAX:
        return list(range(count))
    kept = {*range(STEPS_HEAD), *range(count - STEPS_TAIL, count)}
    if loop in drawn:
        kept |= {drawn.index(loop), min(drawn.index(loop) + 1, count - 1)}
    return sorted(kept)


def find_passage(scene: Scene, before: int, after: int) -> Passage:
    """Returns what happens between two steps; `before` is -1 at the start of the chart."""
    loop = scene.trace.loop
    delay = scene.times[after] - scene.times[max(before, 0)]
    return Passage(loop is not None and before <= loop < after, delay, scene.times[after])


def tell_end(trace: Trace) -> str:
    """Says where a loop leads to; empty for a trace that ends."""
    if trace.loop is None:
        return ""
    return "stays here forever" if trace.loop == len(trace.steps) - 1 else f"back to step {trace.loop}"


def told_changes(scene: Scene, position: int) -> list[Change | Exchange]:
    """Returns what a step changed, messages first."""
    before, after = scene.trace.steps[position - 1].state, scene.trace.steps[position].state
    changes = find_changes(before, after, scene.lists)
    found = _without_beginnings([change for change in changes if change.part not in scene.hidden])
    return sorted(found, key=lambda change: change.part not in scene.carriers)


def _without_beginnings(changes: list[Change | Exchange]) -> list[Change | Exchange]:
    """Drops the changes of idle parts if several start in one step, as when a whole system starts."""
    begun = [one for one in changes if isinstance(one, Change) and one.old == IDLE]
    return changes if len(begun) < BEGINNINGS_MIN else [one for one in changes if one not in begun]


def write_change(change: Change | Exchange, becomes: str, brief: bool = False) -> str:
    """Formats a change; `becomes` is the arrow between two values."""
    if isinstance(change, Exchange):
        removed = "".join(f" - {show(item, brief)}" for item in change.removed)
        added = "".join(f" + {show(item, brief)}" for item in change.added)
        return f"{change.part}{removed}{added}"
    if change.old is None:
        return f"{change.part} = {show(change.new, brief)}"
    return f"{change.part}: {show(change.old, brief)} {becomes} {show(change.new, brief)}"


def show(value: Shown, brief: bool = False) -> str:
    """Formats a value; `brief` omits the names of record fields."""
    match value:
        case bool():
            return "true" if value else "false"
        case list():
            return "[" + ", ".join(show(item, brief) for item in value) + "]"
        case dict():
            names = [""] * len(value) if brief else [f"{field}: " for field in value]
            items = (name + show(item, brief) for name, item in zip(names, value.values(), strict=True))
            return "{" + ", ".join(items) + "}"
        case "None":
            return "none"
        case _:
            return str(value)


def show_time(time: float) -> str:
    """Formats a time, without decimals if it is an integer."""
    return str(int(time)) if time.is_integer() else str(time)
