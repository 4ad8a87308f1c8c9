"""Draws a witness as a message sequence chart for a terminal."""

from __future__ import annotations

from veristream.history.manifest import Manifest
from veristream.history.report.scene import Row, find_scene
from veristream.history.verdicts import Witness
from veristream.report.chart import (
    LANES_WIDTH_MAX,
    LINE_WIDTH_MAX,
    UNICODE,
    Lanes,
    Marks,
    draw_row,
    lay_out,
    rule,
)

TIME_WIDTH = 10
TOLD_WIDTH_MIN = 40


def render_chart(
    witness: Witness, manifest: Manifest, marks: Marks = UNICODE, width: int = LINE_WIDTH_MAX
) -> str:
    """Draws the chart: a line for each event and fault, with its time in seconds; cuts lines to `width`."""
    scene = find_scene(witness, manifest)
    room = min(LANES_WIDTH_MAX, max(width - TIME_WIDTH - TOLD_WIDTH_MIN, 0))
    lanes = lay_out(scene.lanes, room, marks)
    lines = [f"{'':>{TIME_WIDTH}}  {above}" for above in lanes.above]
    lines.append(f"{'seconds':>{TIME_WIDTH}}  {lanes.titles}")
    lines += [_line(row, lanes, marks) for row in scene.rows]
    return "\n".join(_cut(line.rstrip(), width, marks) for line in lines)


def _line(row: Row, lanes: Lanes, marks: Marks) -> str:
    time = f"{row.time_ns / 1e9:>{TIME_WIDTH}.3f}"
    if not row.moving:
        return f"{time}  {rule(row.told, lanes, marks.time)}"
    told = row.told if marks is UNICODE else row.told.replace("…", "...")
    return f"{time}  {draw_row(row.moving, (), lanes, marks)}  {told}"


def _cut(line: str, width: int, marks: Marks) -> str:
    return line if len(line) <= width else line[: width - len(marks.cut)].rstrip() + marks.cut
