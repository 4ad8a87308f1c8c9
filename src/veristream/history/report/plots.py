"""SVG plots of a recording over time: how many messages a second, before bands of faults."""

from __future__ import annotations

from collections.abc import Sequence

from veristream.history.manifest import Incident
from veristream.history.report.words import show_time, tell_incident
from veristream.page import Markup, element, empty, escape, text

WIDTH = 400
"""Width in SVG units; on a page of this many pixels, text has the size of the style sheet."""
HEIGHT = 160
TOP = 20
FLOOR = 135
BAND_MIN = 2.0
"""A fault that lasts no time must stay visible."""


def draw_rate(
    title: str, counts: Sequence[int], span_ns: int, begin_ns: int, incidents: Sequence[Incident]
) -> Markup:
    """Draws a curve of counts, each of a span of time from `begin_ns` on, and a band for each fault."""
    length, highest = span_ns * len(counts), max(counts) or 1

    def across(time_ns: int) -> float:
        return min(max((time_ns - begin_ns) / length, 0.0), 1.0) * WIDTH

    bands = [_band(one, across(one.begin_ns), across(one.end_ns or one.begin_ns)) for one in incidents]
    floor = empty("line", x1=0, y1=FLOOR, x2=WIDTH, y2=FLOOR, class_="line")
    curve = empty("polyline", points=_points(counts, highest), class_="ink", fill="none", stroke_width=1.5)
    below = FLOOR + 18
    labels = [
        element("text", escape(f"{highest * 1e9 / span_ns:,.0f} messages/s"), x=0, y=TOP - 6),
        element("text", escape(f"{begin_ns / 1e9:.1f} s"), x=0, y=below),
        element("text", escape(f"{(begin_ns + length) / 1e9:.1f} s"), x=WIDTH, y=below, class_="end"),
    ]
    pieces = (text("title", title), *bands, floor, curve, *labels)
    return element("svg", *pieces, viewBox=f"0 0 {WIDTH} {HEIGHT}", role="img", aria_label=title)


def _band(incident: Incident, left: float, right: float) -> Markup:
    width = max(right - left, BAND_MIN)
    return element(
        "rect",
        text("title", f"{show_time(incident.begin_ns)}: {tell_incident(incident)}"),
        x=f"{min(left, WIDTH - width):.1f}",
        y=TOP,
        width=f"{width:.1f}",
        height=FLOOR - TOP,
        class_="bad",
        fill_opacity=0.25,
    )


def _points(counts: Sequence[int], highest: int) -> str:
    """Returns the points of a curve in steps: each count is that of a whole span."""
    step = WIDTH / len(counts)
    return " ".join(
        f"{x:.1f},{FLOOR - (FLOOR - TOP) * count / highest:.1f}"
        for number, count in enumerate(counts)
        for x in (number * step, (number + 1) * step)
    )
