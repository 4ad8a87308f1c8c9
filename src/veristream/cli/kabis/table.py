"""Tables and sizes as text."""

from __future__ import annotations

import re
from collections.abc import Sequence

_NUMBER = re.compile(r"-|[\d.,]+( [KMG]?i?B)?")


def draw_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Renders a table; columns that contain only numbers or sizes are right-aligned."""
    columns = list(zip(head, *rows, strict=True))
    right = [bool(rows) and all(_is_number(cell) for cell in column[1:]) for column in columns]
    widths = [max(map(len, column)) for column in columns]
    lines = [head, ["─" * width for width in widths], *rows]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if to_right else cell.ljust(width)
            for cell, width, to_right in zip(line, widths, right, strict=True)
        ).rstrip()
        for line in lines
    )


def show_bytes(count: int) -> str:
    """Renders a size with a suitable unit."""
    size = float(count)
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} GiB"


def _is_number(cell: str) -> bool:
    return _NUMBER.fullmatch(cell) is not None
