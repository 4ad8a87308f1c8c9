"""A trace as a message sequence chart for a terminal.

One column a component that takes part, one line a step: a box is a local action, an arrow goes from
the component that leads to the one that follows, and a line joins several. What the step changed
stands at the right.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from veristream.verdict import Shown, Step, Trace

STEPS_WHOLE_MAX = 60
STEPS_HEAD = 25
STEPS_TAIL = 25
LANES_WIDTH_MAX = 72
LABEL_WIDTH_MAX = 40

_NAME_END = re.compile(r", (?![^(]*\))")  # the comma of `A, B`, not that of `A(0, 1)`


@dataclass(frozen=True, slots=True)
class Marks:
    """The characters that a chart is drawn with."""

    life: str
    local: str
    leader: str
    follower: str
    line: str
    right: str
    left: str
    becomes: str
    gap: str


UNICODE = Marks("│", "■", "●", "◆", "─", "▶", "◀", "→", "⋮")
ASCII = Marks("|", "*", "o", "+", "-", ">", "<", "->", ":")


@dataclass(frozen=True, slots=True)
class _Lanes:
    """The columns: which component stands where."""

    centers: Mapping[str, int]
    width: int
    header: str
    legend: str


def render_chart(trace: Trace, full: bool = False, marks: Marks = UNICODE) -> str:
    """The chart; a long trace is shortened in the middle unless `full`."""
    lanes = _lay_out(trace)
    label_width = min(LABEL_WIDTH_MAX, max(6, *(len(step.action or "") for step in trace.steps)))
    lines = [f"{'step':>6}  {lanes.header}  {'action':<{label_width}}  changes"]
    if lanes.legend:
        lines.insert(0, lanes.legend)
    previous, last = -1, len(trace.steps) - 1
    for position in _shown(trace, full):
        if position > previous + 1:
            lines.append(_gap(position - previous - 1, lanes, marks))
        lines.append(_line(trace.steps, position, lanes, label_width, marks))
        if position == trace.loop and position < last:
            lines.append(f"{'':>6}  {_rule('loop begins', lanes, marks)}")
        previous = position
    if trace.loop is not None:
        end = "stays so for ever" if trace.loop == last else f"back to step {trace.loop}"
        lines.append(f"{'':>6}  {_rule(end, lanes, marks)}")
    return "\n".join(line.rstrip() for line in lines)


def _shown(trace: Trace, full: bool) -> list[int]:
    count = len(trace.steps)
    if full or count <= STEPS_WHOLE_MAX:
        return list(range(count))
    shown = {*range(STEPS_HEAD), *range(count - STEPS_TAIL, count)}
    if trace.loop is not None:
        shown |= {trace.loop, min(trace.loop + 1, count - 1)}
    return sorted(shown)


def _gap(count: int, lanes: _Lanes, marks: Marks) -> str:
    lives = [" "] * lanes.width
    for center in lanes.centers.values():
        lives[center] = marks.gap
    return f"{marks.gap:>6}  {''.join(lives)}  {count} steps not shown (--full-trace shows them)"


def _rule(text: str, lanes: _Lanes, marks: Marks) -> str:
    return f" {text} ".center(max(lanes.width, len(text) + 6), marks.line)


def _line(steps: tuple[Step, ...], position: int, lanes: _Lanes, label_width: int, marks: Marks) -> str:
    step = steps[position]
    if position == 0:
        return f"{0:>6}  {_draw([], lanes, marks)}  {'initial state'}"
    changes = ", ".join(_changes(steps[position - 1].state, step.state, marks))
    label = step.action or ""
    return f"{position:>6}  {_draw(_movers(step), lanes, marks)}  {label:<{label_width}}  {changes}"


def _draw(movers: list[str], lanes: _Lanes, marks: Marks) -> str:
    row = [" "] * lanes.width
    for center in lanes.centers.values():
        row[center] = marks.life
    places = [lanes.centers[mover] for mover in movers]
    if len(places) == 1:
        row[places[0]] = marks.local
    elif places:
        low, high = min(places), max(places)
        row[low + 1 : high] = marks.line * (high - low - 1)
        row[places[0]] = marks.leader
        if len(places) == 2:
            rightwards = places[1] > places[0]
            row[places[1] + (-1 if rightwards else 1)] = marks.right if rightwards else marks.left
        else:
            for place in places[1:]:
                row[place] = marks.follower
    return "".join(row)


def _lay_out(trace: Trace) -> _Lanes:
    taking_part = dict.fromkeys(mover for step in trace.steps for mover in _movers(step))
    # In the model's order where the state shows it, so that every chart of a model looks alike.
    order = {name: position for position, name in enumerate(trace.steps[0].state)}
    names = sorted(taking_part, key=lambda name: order.get(name, len(order)))
    titles, legend = names, ""
    if sum(len(name) + 3 for name in names) > LANES_WIDTH_MAX:
        titles = [str(number) for number in range(1, len(names) + 1)]
        legend = "columns: " + ", ".join(f"{t} {n}" for t, n in zip(titles, names, strict=True))
    centers: dict[str, int] = {}
    header = ""
    for name, title in zip(names, titles, strict=True):
        width = max(len(title), 3) + 2
        centers[name] = len(header) + (width - 1) // 2
        header += f"{title:^{width}}" if width % 2 == len(title) % 2 else f"{title:^{width - 1}} "
    return _Lanes(centers, len(header), header, legend)


def _movers(step: Step) -> list[str]:
    return [] if step.process is None else list(dict.fromkeys(_NAME_END.split(step.process)))


def _changes(before: Mapping[str, Shown], after: Mapping[str, Shown], marks: Marks) -> Iterator[str]:
    for name, value in after.items():
        yield from _change(name, before.get(name), value, marks)


def _change(name: str, old: Shown | None, new: Shown, marks: Marks) -> Iterator[str]:
    if old == new:
        return
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for index, (one, other) in enumerate(zip(old, new, strict=True)):
            yield from _change(f"{name}[{index}]", one, other, marks)
    elif old is None:
        yield f"{name} = {show(new)}"
    else:
        yield f"{name}: {show(old)} {marks.becomes} {show(new)}"


def show(value: Shown) -> str:
    """A value as the chart writes it."""
    match value:
        case bool():
            return "true" if value else "false"
        case list():
            return "[" + ", ".join(show(item) for item in value) + "]"
        case _:
            return str(value)
