"""Draws a witness as a message sequence chart in SVG."""

from __future__ import annotations

from veristream.history.manifest import Manifest
from veristream.history.report.scene import Row, find_scene
from veristream.history.verdicts import Witness
from veristream.page import Markup
from veristream.report.sequence import (
    CHANGES_MAX,
    GAP,
    LETTER,
    Lanes,
    Line,
    ahead,
    beside,
    draw_lines,
    lead,
    mark,
    place,
    rule,
)


def draw_sequence(witness: Witness, manifest: Manifest) -> Markup:
    """Draws the chart: a line for each event and fault, with its time in seconds."""
    scene = find_scene(witness, manifest)
    times = [_show(row) for row in scene.rows]
    lanes = place(scene.lanes, 2 * GAP + LETTER * max(map(len, times), default=0))
    title = f"message sequence chart of {len(witness.events)} events"
    return draw_lines(title, lanes, [_line(row, lanes) for row in scene.rows])


def _show(row: Row) -> str:
    return f"{row.time_ns / 1e9:.3f}"


def _line(row: Row, lanes: Lanes) -> Line:
    time = ahead(_show(row), lanes)
    cut = row.told if len(row.told) <= CHANGES_MAX else row.told[: CHANGES_MAX - 1].rstrip() + "…"
    if not row.moving:
        drawn, length = rule(cut, lanes)
        return [time, *drawn], length
    places = [lanes.centers[name] for name in row.moving]
    marks = [mark(places[0])] if len(places) == 1 else list(lead(places))
    return [time, *marks, beside(cut, lanes, soft=False)], len(cut)
