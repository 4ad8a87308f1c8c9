"""What a chart of a trace shows, whatever it is drawn with: who takes part, which steps, what they did.

A chart has one lane a component that takes part and one line a step. A step of one component is a local
action, and may receive messages that others sent before; in a step of several, the first one leads. Where a
loop begins, where it leads back to, and how much time passes between two steps stands between the lines.
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
    """A trace as a chart sees it.

    `drawn` are the steps with a line of their own, `times` the time at each step, `received` the messages
    that arrive with it, `carriers` the parts of the state that messages went through. Changes of `hidden`
    parts are not told.
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
    """What lies between two lines: the beginning of a loop, and time, until it is `at`."""

    loop_begins: bool
    delay: float
    at: float


def find_scene(trace: Trace, hidden: Set[str] = frozenset(), chosen: Sequence[str] = ()) -> Scene:
    """The scene of all components that take a step, or of the chosen ones and what is between them."""
    lists = find_lists(trace.steps)
    lanes = tuple(chosen) or tuple(_taking_part(trace))
    received = _received(trace, lists, lanes)
    carriers = frozenset(message.part for messages in received for message in messages)
    times = tuple(accumulate(step.delay or 0.0 for step in trace.steps))
    drawn = _drawn(trace, received, chosen)
    return Scene(trace, lanes, drawn, times, received, carriers, frozenset(hidden), lists)


def _taking_part(trace: Trace) -> list[str]:
    """The components that take a step, in the model's order where the state shows it."""
    order: dict[str, int] = {}
    for position, part in enumerate(trace.steps[0].state):
        order.setdefault(part, position)
        order.setdefault(part.partition(".")[0], position)  # `Producer(0).next` stands for its owner too
    names = dict.fromkeys(mover for step in trace.steps for mover in movers(step))
    return sorted(names, key=lambda name: order.get(name, len(order)))


def _received(
    trace: Trace, lists: frozenset[Place], lanes: Sequence[str]
) -> tuple[tuple[Message, ...], ...]:
    """For each step the messages from one lane that arrive in another."""
    found = find_messages(trace.steps, lists)
    return tuple(
        tuple(message for message in messages if message.sender in lanes and moving(step, lanes))
        for step, messages in zip(trace.steps, found, strict=True)
    )


def _drawn(trace: Trace, received: Sequence[Sequence[Message]], chosen: Sequence[str]) -> tuple[int, ...]:
    """The steps that have a line of their own: all but a delay at the end, and where lanes are chosen,
    those that two of them take part in."""
    later = (
        position
        for position, step in enumerate(trace.steps[1:], 1)
        if step.action is not None and (not chosen or len(moving(step, chosen)) > 1 or received[position])
    )
    return (0, *later)


def moving(step: Step, lanes: Container[str]) -> list[str]:
    """Who takes the step, as far as there are lanes for them."""
    return [mover for mover in movers(step) if mover in lanes]


def kept_lines(scene: Scene, full: bool) -> list[int]:
    """Which lines are left when a long chart is shortened in the middle, by their number in it."""
    drawn, loop, count = scene.drawn, scene.trace.loop, len(scene.drawn)
    if full or count <= STEPS_WHOLE_MAX:
        return list(range(count))
    kept = {*range(STEPS_HEAD), *range(count - STEPS_TAIL, count)}
    if loop in drawn:
        kept |= {drawn.index(loop), min(drawn.index(loop) + 1, count - 1)}
    return sorted(kept)


def find_passage(scene: Scene, before: int, after: int) -> Passage:
    """What lies between two steps; `before` is -1 where the chart begins."""
    loop = scene.trace.loop
    delay = scene.times[after] - scene.times[max(before, 0)]
    return Passage(loop is not None and before <= loop < after, delay, scene.times[after])


def tell_end(trace: Trace) -> str:
    """Where a loop leads to; nothing for a run that ends."""
    if trace.loop is None:
        return ""
    return "stays so for ever" if trace.loop == len(trace.steps) - 1 else f"back to step {trace.loop}"


def told_changes(scene: Scene, position: int) -> list[Change | Exchange]:
    """What a step changed, messages first."""
    before, after = scene.trace.steps[position - 1].state, scene.trace.steps[position].state
    changes = find_changes(before, after, scene.lists)
    found = _without_beginnings([change for change in changes if change.part not in scene.hidden])
    return sorted(found, key=lambda change: change.part not in scene.carriers)


def _without_beginnings(changes: list[Change | Exchange]) -> list[Change | Exchange]:
    """The changes, without those of parts that all begin at once: where a whole system starts."""
    begun = [one for one in changes if isinstance(one, Change) and one.old == IDLE]
    return changes if len(begun) < BEGINNINGS_MIN else [one for one in changes if one not in begun]


def write_change(change: Change | Exchange, becomes: str, brief: bool = False) -> str:
    """A change as a chart tells it; `becomes` is the arrow between two values."""
    if isinstance(change, Exchange):
        removed = "".join(f" - {show(item, brief)}" for item in change.removed)
        added = "".join(f" + {show(item, brief)}" for item in change.added)
        return f"{change.part}{removed}{added}"
    if change.old is None:
        return f"{change.part} = {show(change.new, brief)}"
    return f"{change.part}: {show(change.old, brief)} {becomes} {show(change.new, brief)}"


def show(value: Shown, brief: bool = False) -> str:
    """A value as the chart writes it; `brief` leaves out the names of a record's fields."""
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
    """A time without needless digits."""
    return str(int(time)) if time.is_integer() else str(time)
