"""Tables of verdicts on a terminal: columns, and why it is so beside them, or below on a narrow one."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from veristream.report.text import Look

WHY_WIDTH_MIN = 30
WIDTH_MAX = 150
"""Without a terminal, too: whole sentences stand in the last column."""
INDENT = "    "


@dataclass(frozen=True, slots=True)
class Row:
    """A row: its cells, why it is so, and the cell that is painted in a colour."""

    cells: tuple[str, ...]
    why: str
    marked: str
    colour: str


@dataclass(frozen=True, slots=True)
class Block:
    """Rows below a sentence of their own."""

    title: str
    rows: tuple[Row, ...]


def draw_table(name: str, titles: tuple[str, ...], blocks: Sequence[Block], look: Look) -> Iterator[str]:
    """Draws a table with a name and titles; its columns are as wide as the widest cells of all blocks."""
    rows = [titles, *(row.cells for each in blocks for row in each.rows)]
    widths = [max(len(row[at]) for row in rows) for at in range(len(titles))]
    yield name
    yield INDENT + _line(titles, widths)
    yield INDENT + "  ".join(look.marks.line * width for width in widths)
    for each in blocks:
        yield from textwrap.wrap(each.title, look.width, initial_indent="  ", subsequent_indent="  ")
        for row in each.rows:
            yield from _draw(row, widths, look)


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join(f"{cell:<{width}}" for cell, width in zip(cells, widths, strict=True)).rstrip()


def _draw(row: Row, widths: Sequence[int], look: Look) -> Iterator[str]:
    line = "  ".join(f"{cell:<{width}}" for cell, width in zip(row.cells, widths, strict=True))
    margin = len(INDENT) + len(line) + 2
    is_narrow = look.width - margin < WHY_WIDTH_MIN
    indent = 2 * len(INDENT) if is_narrow else margin
    why = textwrap.wrap(row.why, look.width - indent)
    painted = _paint(line, row) if look.colour else line
    if is_narrow:
        yield INDENT + painted.rstrip()
    else:
        yield f"{INDENT}{painted}  {why.pop(0)}"
    yield from (" " * indent + rest for rest in why)


def _paint(line: str, row: Row) -> str:
    before, _, after = line.rpartition(row.marked)
    return f"{before}\x1b[{row.colour}m{row.marked}\x1b[0m{after}"
