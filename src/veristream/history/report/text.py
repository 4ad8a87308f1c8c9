"""An audit as text for a terminal: a table, then each witness as a message sequence chart."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from veristream.history.audited import Audit
from veristream.history.report.chart import render_chart
from veristream.history.report.words import (
    summary,
    tell_attribution,
    tell_notes,
    tell_verdicts,
    witness_title,
)
from veristream.history.verdicts import Judgement, Word
from veristream.report.text import PLAIN, Look

_COLOURS: dict[Word, str] = {Word.HELD: "32", Word.VIOLATED: "31", Word.NOT_OBSERVABLE: "33"}
REASON_WIDTH_MIN = 30
BELOW = " " * 6


def render_audit(audit: Audit, look: Look = PLAIN) -> str:
    """Renders what the history is, a table of verdicts with their reasons, and every witness."""
    blocks = [textwrap.fill(summary(audit), look.width), _table(audit.judgements, look)]
    notes = [f"  {one.property}, permitted: {tell_notes(one)}" for one in audit.judgements if one.notes]
    if notes:
        blocks.append("\n".join(notes))
    blocks += _witnesses(audit, look)
    blocks.append(tell_verdicts(audit.judgements))
    return "\n\n".join(blocks)


def _witnesses(audit: Audit, look: Look) -> Iterator[str]:
    for judgement in audit.judgements:
        for witness in judgement.witnesses:
            told = (witness_title(judgement, witness), tell_attribution(audit, witness))
            yield "\n".join(textwrap.fill(each, look.width) for each in told if each)
            yield render_chart(witness, audit.manifest, look.marks, look.width)


def _table(judgements: Sequence[Judgement], look: Look) -> str:
    """Draws the columns property, verdict, operations and reason; reasons are wrapped, and below their
    verdicts on a narrow terminal."""
    rows = [(one.property, str(one.word), f"{one.operations:,}") for one in judgements]
    titles = ("property", "verdict", "operations")
    widths = [max(len(row[at]) for row in (titles, *rows)) for at in range(3)]
    beside = look.width - sum(widths) - 8
    is_narrow = beside < REASON_WIDTH_MIN
    room = look.width - len(BELOW) if is_narrow else beside
    longest = max((len(one.reason) for one in judgements), default=0)
    rule = [look.marks.line * width for width in widths]
    lines = [_line(titles, widths, "" if is_narrow else "reason")]
    lines.append(_line(rule, widths, "" if is_narrow else look.marks.line * min(longest, room)))
    for judgement, row in zip(judgements, rows, strict=True):
        first, *others = textwrap.wrap(judgement.reason, room) or [""]
        line = _line(row, widths, "" if is_narrow else first)
        lines.append(_paint(line, judgement.word, widths[0] + 4) if look.colour else line)
        margin = BELOW if is_narrow else " " * (sum(widths) + 8)
        lines += [margin + rest for rest in ((first, *others) if is_narrow else others)]
    return "\n".join(lines)


def _line(cells: Sequence[str], widths: Sequence[int], reason: str) -> str:
    property_, verdict, operations = cells
    columns = (f"{property_:<{widths[0]}}", f"{verdict:<{widths[1]}}", f"{operations:>{widths[2]}}", reason)
    return ("  " + "  ".join(columns)).rstrip()


def _paint(line: str, word: Word, start: int) -> str:
    end = start + len(word)
    return f"{line[:start]}\x1b[{_COLOURS[word]}m{line[start:end]}\x1b[0m{line[end:]}"
