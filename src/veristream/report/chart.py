"""Draws a trace as a message sequence chart for a terminal.

Each component that takes a step has a column, and each step has a line. A box is a local action. A dot
with an arrow is a synchronisation, from the component that leads to the one that follows; a line joins
more than two. An arrow into a box is a message sent earlier, drawn from its sender's lane. The right
column lists what the step changed, messages first.

If time passes between two steps, a line across the chart says how long, and the time after it. Clocks
change in every such step, so only a full chart lists them; otherwise their final values follow the chart.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass

from veristream.report.messages import Change, Exchange, Message, movers
from veristream.report.scene import (
    Scene,
    find_passage,
    find_scene,
    kept_lines,
    show_time,
    tell_end,
    told_changes,
    write_change,
)
from veristream.verdict import Trace

LANES_WIDTH_MAX = 72
LABEL_WIDTH_MAX = 40
LANE_WIDTH = 9
LANE_WIDTH_MIN = 5
STAIRS_MAX = 12
CHANGES_WIDTH_MIN = 30  # on a narrower terminal, lines wrap
BESIDES_WIDTH = 12 + CHANGES_WIDTH_MIN  # everything beside the lanes and the action
LINE_WIDTH_MAX = 1000  # without a terminal


@dataclass(frozen=True, slots=True)
class Marks:
    """The characters that a chart is made of."""

    life: str
    local: str
    leader: str
    follower: str
    line: str
    right: str
    left: str
    becomes: str
    gap: str
    from_left: str
    from_right: str
    cut: str
    time: str


UNICODE = Marks("│", "■", "●", "◆", "─", "▶", "◀", "→", "⋮", "├", "┤", "…", "┄")
ASCII = Marks("|", "*", "o", "+", "-", ">", "<", "->", ":", "|", "|", "..", "~")


@dataclass(frozen=True, slots=True)
class Lanes:
    """The columns: the components' positions, the lines above the chart, and the last line of titles."""

    centers: Mapping[str, int]
    width: int
    above: Sequence[str]
    titles: str


@dataclass(frozen=True, slots=True)
class _Chart:
    """What every line of a chart is drawn from; `width` limits a whole line, None does not."""

    scene: Scene
    lanes: Lanes
    label_width: int
    width: int | None
    marks: Marks


def render_chart(
    trace: Trace,
    full: bool = False,
    marks: Marks = UNICODE,
    width: int = LINE_WIDTH_MAX,
    clocks: Set[str] = frozenset(),
    lanes: Sequence[str] = (),
) -> str:
    """Draws the chart; unless `full`, omits the middle of a long trace and cuts lines to `width`.

    `clocks` are parts of the state. If `lanes` are given, draws only what happens between them.
    """
    scene = find_scene(trace, frozenset() if full else clocks, lanes)
    chart = _prepare(scene, marks, None if full else width)
    lines = [f"{'':>6}  {above}" for above in chart.lanes.above]
    lines.append(f"{'step':>6}  {chart.lanes.titles}  {'action':<{chart.label_width}}  changes")
    index, position = -1, -1
    for following in kept_lines(scene, full):
        if following > index + 1:
            lines.append(_gap(following - index - 1, chart.lanes, marks))
        lines += _passage(chart, position, scene.drawn[following])
        index, position = following, scene.drawn[following]
        lines.append(_line(chart, position))
    lines += _ending(chart, position, frozenset() if lanes else clocks)
    return "\n".join(line.rstrip() for line in lines)


def _prepare(scene: Scene, marks: Marks, width: int | None) -> _Chart:
    steps = [scene.trace.steps[position] for position in scene.drawn]
    labels = [step.action or "" for step in steps if step.process is not None]
    label_width = min(LABEL_WIDTH_MAX, max(map(len, ["action", *labels])))
    room = LANES_WIDTH_MAX if width is None else min(LANES_WIDTH_MAX, width - label_width - BESIDES_WIDTH)
    return _Chart(scene, lay_out(scene.lanes, room, marks), label_width, width, marks)


def _passage(chart: _Chart, before: int, after: int) -> Iterator[str]:
    """Yields the lines between two steps: where a loop begins, and how much time passes."""
    passage = find_passage(chart.scene, before, after)
    if passage.loop_begins:
        yield f"{'':>6}  {rule('loop begins', chart.lanes, chart.marks.line)}"
    if passage.delay > 0:
        passing = rule(f"{show_time(passage.delay)} later", chart.lanes, chart.marks.time)
        yield f"{'':>6}  {passing}  at time {show_time(passage.at)}"


def _ending(chart: _Chart, position: int, clocks: Set[str]) -> Iterator[str]:
    """Yields the lines after the last step: a delay, where a loop leads to, and the final clock values."""
    steps = chart.scene.trace.steps
    if chart.scene.waits:
        yield from _passage(chart, position, len(steps) - 1)
    if end := tell_end(chart.scene.trace):
        yield f"{'':>6}  {rule(end, chart.lanes, chart.marks.line)}"
    shown = [Change(name, None, value) for name, value in steps[-1].state.items() if name in clocks]
    if any(change.new for change in shown):
        beginning = f"{'':>6}  clocks at the end: "
        yield beginning + _fit(shown, _room(chart, beginning), chart.marks)


def _gap(count: int, lanes: Lanes, marks: Marks) -> str:
    lives = [" "] * lanes.width
    for center in lanes.centers.values():
        lives[center] = marks.gap
    return f"{marks.gap:>6}  {''.join(lives)}  {count} steps not shown (--full-trace shows them)"


def rule(text: str, lanes: Lanes, line: str) -> str:
    """Draws a line across all lanes with a text in it."""
    return f" {text} ".center(max(lanes.width, len(text) + 6), line)


def _room(chart: _Chart, beginning: str) -> int | None:
    return None if chart.width is None else max(chart.width - len(beginning), CHANGES_WIDTH_MIN)


def _line(chart: _Chart, position: int) -> str:
    scene, step = chart.scene, chart.scene.trace.steps[position]
    if position == 0:
        return f"{0:>6}  {draw_row([], (), chart.lanes, chart.marks)}  {'initial state'}"
    drawn = draw_row(movers(step), scene.received[position], chart.lanes, chart.marks)
    beginning = f"{position:>6}  {drawn}  {step.action or '':<{chart.label_width}}  "
    return beginning + _fit(told_changes(scene, position), _room(chart, beginning), chart.marks)


def draw_row(moving: Sequence[str], messages: Sequence[Message], lanes: Lanes, marks: Marks) -> str:
    """Draws what happens in one line: a local action, or a synchronisation that the first one leads."""
    row = [" "] * lanes.width
    for center in lanes.centers.values():
        row[center] = marks.life
    places = [lanes.centers[mover] for mover in moving if mover in lanes.centers]
    if len(places) == 1:
        _draw_messages(row, sorted({lanes.centers[one.sender] for one in messages}), places[0], marks)
        row[places[0]] = marks.local
    elif places:
        low, high = min(places), max(places)
        row[low + 1 : high] = marks.line * (high - low - 1)
        led = moving[0] in lanes.centers
        row[places[0]] = marks.leader if led else marks.follower
        if led and len(places) == 2:
            rightwards = places[1] > places[0]
            row[places[1] + (-1 if rightwards else 1)] = marks.right if rightwards else marks.left
        else:
            for place in places[1:]:
                row[place] = marks.follower
    return "".join(row)


def _draw_messages(row: list[str], senders: Sequence[int], receiver: int, marks: Marks) -> None:
    if senders and senders[0] < receiver:
        row[senders[0] : receiver] = marks.line * (receiver - senders[0])
        row[receiver - 1] = marks.right
    if senders and senders[-1] > receiver:
        row[receiver + 1 : senders[-1] + 1] = marks.line * (senders[-1] - receiver)
        row[receiver + 1] = marks.left
    for sender in senders:
        row[sender] = marks.from_left if sender < receiver else marks.from_right


def lay_out(names: Sequence[str], room: int, marks: Marks) -> Lanes:
    """Places titles side by side if there is room, otherwise as stairs, otherwise as numbers."""
    if sum(max(len(name), 3) + 2 for name in names) <= room:
        return _side_by_side(names, names, ())
    if len(names) <= STAIRS_MAX:
        return _stairs(names, max(LANE_WIDTH_MIN, min(LANE_WIDTH, room // len(names))), marks)
    numbers = [str(number) for number in range(1, len(names) + 1)]
    legend = "columns: " + ", ".join(f"{t} {n}" for t, n in zip(numbers, names, strict=True))
    return _side_by_side(names, numbers, (legend,))


def _side_by_side(names: Sequence[str], titles: Sequence[str], above: Sequence[str]) -> Lanes:
    centers: dict[str, int] = {}
    line = ""
    for name, title in zip(names, titles, strict=True):
        width = max(len(title), 3) + 2
        centers[name] = len(line) + (width - 1) // 2
        line += f"{title:^{width}}" if width % 2 == len(title) % 2 else f"{title:^{width - 1}} "
    return Lanes(centers, len(line), above, line)


def _stairs(names: Sequence[str], lane_width: int, marks: Marks) -> Lanes:
    """Puts each title on a line of its own, starting above its lane."""
    centers = {name: position * lane_width + lane_width // 2 for position, name in enumerate(names)}
    lives = "".join(f"{marks.life:>{lane_width // 2 + 1}}".ljust(lane_width) for _ in names)
    above = [lives[: centers[name]] + name for name in names]
    return Lanes(centers, len(lives), above, lives)


def _fit(changes: Sequence[Change | Exchange], room: int | None, marks: Marks) -> str:
    """Fits the changes into `room` characters: drops the names of record fields, then cuts the end."""
    whole = ", ".join(write_change(change, marks.becomes) for change in changes)
    if room is None or len(whole) <= room:
        return whole
    short = ", ".join(write_change(change, marks.becomes, brief=True) for change in changes)
    return short if len(short) <= room else short[: room - len(marks.cut)].rstrip() + marks.cut
