"""SVG plots that scale with the page's width: bars over time, and named bars."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from veristream.page import Markup, element, empty, escape, text

WIDTH = 400
"""Width in SVG units; on a page of this many pixels, text has the size of the style sheet."""
ROW = 22
BAR = 12
NAME_MAX = 36
"""Maximum length of a name next to a figure."""


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a bar: its length, its class in the style sheet, and its label."""

    value: int
    style: str
    label: str


@dataclass(frozen=True, slots=True)
class Bar:
    """A named bar made of parts."""

    name: str
    parts: tuple[Part, ...]


def draw_bars(title: str, bars: Sequence[Bar]) -> Markup:
    """Draws bars below their names; the longest takes the whole width."""
    longest = max((sum(part.value for part in bar.parts) for bar in bars), default=0) or 1
    pieces: list[Markup] = []
    for number, bar in enumerate(bars):
        top = number * (ROW + BAR + 6)
        total = sum(part.value for part in bar.parts)
        name = element("text", text("title", bar.name), escape(shorten(bar.name)), x=0, y=top + ROW - 6)
        pieces.append(name)
        pieces.append(element("text", escape(f"{total:,}"), x=WIDTH, y=top + ROW - 6, class_="end"))
        left = 0.0
        for part in bar.parts:
            width = WIDTH * part.value / longest
            # A single fault among thousands must stay visible.
            shown = max(width, 3.0) if part.value else 0.0
            place = (min(left, WIDTH - shown), top + ROW, shown, BAR)
            pieces.append(_rectangle(place, part.style, f"{part.label}: {part.value:,}"))
            left += width
    return _svg(title, len(bars) * (ROW + BAR + 6), pieces)


def shorten(name: str) -> str:
    """Omits the middle of a long name, because names often differ at their ends."""
    end = NAME_MAX // 2
    return name if len(name) <= NAME_MAX else f"{name[: NAME_MAX - end - 1]}…{name[-end:]}"


def draw_timeline(title: str, spans: Sequence[tuple[int, int]]) -> Markup:
    """Draws a bar for each span, given its start time and count."""
    height, room = 120, 90
    highest = max((count for _, count in spans), default=0) or 1
    step = WIDTH / max(1, len(spans))
    pieces = [empty("line", x1=0, y1=room, x2=WIDTH, y2=room, class_="line")]
    for number, (time_ms, count) in enumerate(spans):
        tall = room * count / highest
        place = (number * step, room - tall, step * 0.85, tall)
        pieces.append(_rectangle(place, "good", f"{show_time(time_ms)}: {count:,} events"))
    if spans:
        first, last = (escape(show_time(spans[end][0])) for end in (0, -1))
        pieces.append(element("text", first, x=0, y=room + 18))
        pieces.append(element("text", last, x=WIDTH, y=room + 18, class_="end"))
    return _svg(title, height, pieces)


def _rectangle(place: tuple[float, float, float, float], style: str, label: str) -> Markup:
    left, top, width, height = (f"{each:.1f}" for each in place)
    return element("rect", text("title", label), x=left, y=top, width=width, height=height, class_=style)


def show_time(time_ms: int) -> str:
    """Formats a ledger time, to the second."""
    return datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")


def _svg(title: str, height: int, pieces: Sequence[Markup]) -> Markup:
    return element(
        "svg", text("title", title), *pieces, viewBox=f"0 0 {WIDTH} {height}", role="img", aria_label=title
    )
