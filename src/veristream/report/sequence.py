"""Draws a trace as a message sequence chart in SVG.

It shows the same scene as the chart for a terminal: vertical lanes, a box for a local action, an arrow from
the leader or sender to the follower or receiver, and beside each line its action and what that changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass

from veristream.page import Markup, element, empty, escape
from veristream.report.scene import (
    Scene,
    find_passage,
    find_scene,
    kept_lines,
    moving,
    show_time,
    tell_end,
    told_changes,
    write_change,
)
from veristream.verdict import Trace

LINE = 24
TOP = 34
LANE_MIN = 64
LETTER = 7.3
"""The width of a character: charts use a monospaced font, so the width of a text is known in advance."""
GAP = 10
CHANGES_MAX = 96


Line = tuple[list[Markup], int]
"""The markup of a line, and the length of the text beside the lanes."""


@dataclass(frozen=True, slots=True)
class Lanes:
    """The centre of each lane, where the first lane starts, and where the last one ends."""

    centers: dict[str, float]
    start: float
    end: float


def draw_sequence(
    trace: Trace, full: bool = False, clocks: Set[str] = frozenset(), lanes: Sequence[str] = ()
) -> Markup:
    """Draws the chart; unless `full`, omits the middle of a long trace. See `render_chart`."""
    scene = find_scene(trace, frozenset() if full else clocks, lanes)
    placed = place(scene.lanes, 2 * GAP + LETTER * len(str(scene.drawn[-1])))
    title = f"message sequence chart of {len(trace.steps) - 1} steps"
    return draw_lines(title, placed, list(_lines(scene, placed, full)))


def draw_lines(title: str, lanes: Lanes, lines: Sequence[Line]) -> Markup:
    """Draws lanes with their heads, and the lines below them."""
    height = TOP + LINE * len(lines) + 8
    drawn = [
        element("g", *parts, transform=f"translate(0 {TOP + LINE * number})")
        for number, (parts, _) in enumerate(lines)
    ]
    width = lanes.end + 2 * GAP + LETTER * max((length for _, length in lines), default=0)
    heads = [part for name, center in lanes.centers.items() for part in _head(name, center, height)]
    return element(
        "svg",
        element("title", escape(title)),
        *heads,
        *drawn,
        viewBox=f"0 0 {width:.0f} {height}",
        width=f"{width:.0f}",
        height=height,
        role="img",
        class_="chart",
        xmlns="http://www.w3.org/2000/svg",
    )


def place(names: Sequence[str], start: float) -> Lanes:
    """Places a lane for each name, from `start` on."""
    centers: dict[str, float] = {}
    x = start
    for name in names:
        width = max(LANE_MIN, LETTER * len(name) + 2 * GAP)
        centers[name] = x + width / 2
        x += width
    return Lanes(centers, start, x)


def _head(name: str, center: float, height: int) -> Iterator[Markup]:
    width = LETTER * len(name) + 12
    left = f"{center - width / 2:.1f}"
    yield empty("line", x1=center, x2=center, y1=TOP - 8, y2=height, class_="line", stroke_dasharray="2 3")
    yield empty("rect", x=left, y=3, width=f"{width:.1f}", height=22, rx=4, class_="box")
    yield element("text", escape(name), x=center, y=18, text_anchor="middle")


def _lines(scene: Scene, lanes: Lanes, full: bool) -> Iterator[Line]:
    index, position = -1, -1
    for following in kept_lines(scene, full):
        if following > index + 1:
            yield rule(f"{following - index - 1} steps not shown", lanes)
        yield from _passage(scene, position, scene.drawn[following], lanes)
        index, position = following, scene.drawn[following]
        yield _step(scene, position, lanes)
    if scene.waits:
        yield from _passage(scene, position, len(scene.trace.steps) - 1, lanes)
    if end := tell_end(scene.trace):
        yield rule(end, lanes)


def _passage(scene: Scene, before: int, after: int, lanes: Lanes) -> Iterator[Line]:
    passage = find_passage(scene, before, after)
    if passage.loop_begins:
        yield rule("loop begins", lanes)
    if passage.delay > 0:
        yield rule(f"{show_time(passage.delay)} later, at time {show_time(passage.at)}", lanes)


def rule(told: str, lanes: Lanes) -> Line:
    """Draws a line across all lanes, with a text beside them."""
    y = LINE / 2
    drawn = empty("line", x1=lanes.start, x2=lanes.end, y1=y, y2=y, class_="line", stroke_dasharray="6 4")
    return [drawn, beside(told, lanes, soft=True)], len(told)


def beside(told: str, lanes: Lanes, *, soft: bool) -> Markup:
    """Draws a text to the right of the lanes."""
    return element("text", escape(told), x=lanes.end + GAP, y=LINE / 2 + 4, class_="soft" if soft else None)


def ahead(told: str, lanes: Lanes) -> Markup:
    """Draws a text to the left of the lanes: the number of a step, or its time."""
    x = f"{lanes.start - GAP:.1f}"
    return element("text", escape(told), x=x, y=LINE / 2 + 4, text_anchor="end", class_="soft")


def _step(scene: Scene, position: int, lanes: Lanes) -> Line:
    step = scene.trace.steps[position]
    number = ahead(str(position), lanes)
    if position == 0:
        return [number, beside("initial state", lanes, soft=True)], len("initial state")
    whole = ", ".join(write_change(change, "→") for change in told_changes(scene, position))
    cut = whole if len(whole) <= CHANGES_MAX else whole[: CHANGES_MAX - 1].rstrip() + "…"
    action = step.action or ""
    text = element(
        "text",
        element("title", escape(f"{action}: {whole}")),
        element("tspan", escape(action), font_weight=600),
        element("tspan", escape(cut), dx=GAP, class_="soft"),
        x=lanes.end + GAP,
        y=LINE / 2 + 4,
    )
    return [number, *_movement(scene, position, lanes), text], len(action) + len(cut) + 2


def _movement(scene: Scene, position: int, lanes: Lanes) -> Iterator[Markup]:
    """Yields the marks and arrows of a step."""
    step = scene.trace.steps[position]
    places = [lanes.centers[mover] for mover in moving(step, scene.lanes)]
    if len(places) == 1:
        for sender in sorted({lanes.centers[message.sender] for message in scene.received[position]}):
            yield from _arrow(sender, places[0])
        yield mark(places[0])
    else:
        yield from lead(places)


def lead(places: Sequence[float]) -> Iterator[Markup]:
    """Draws a synchronisation: a dot at the first place, and arrows from it to the others."""
    if places:
        yield empty("circle", cx=places[0], cy=LINE / 2, r=4, class_="fill")
        for place in places[1:]:
            yield from _arrow(places[0], place)


def mark(place: float) -> Markup:
    """Draws a local action."""
    return empty("rect", x=place - 5, y=LINE / 2 - 5, width=10, height=10, class_="fill")


def _arrow(start: float, end: float) -> Iterator[Markup]:
    side = 1 if end > start else -1
    tip, y = end - 6 * side, LINE / 2
    yield empty("line", x1=start, x2=tip - 4 * side, y1=y, y2=y, class_="ink", stroke_width=1.5)
    points = f"{tip},{y} {tip - 8 * side},{y - 4} {tip - 8 * side},{y + 4}"
    yield empty("polygon", points=points, class_="fill")
