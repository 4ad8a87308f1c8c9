"""Trials as text for a terminal: a table for each broker, the model's verdict beside the broker's."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import replace

from veristream.report.text import PLAIN, Look
from veristream.trials.comparison import Agreement, Comparison, Tried
from veristream.trials.words import by_broker, tell_agreement, tell_why

TITLES = ("property", "model", "broker", "")
WHY_WIDTH_MIN = 30
WIDTH_MAX = 150
"""Without a terminal, too: whole sentences stand in the last column."""
INDENT = "    "
_COLOURS: dict[Agreement, str] = {
    Agreement.AGREES: "32",
    Agreement.DIFFERS: "33",
    Agreement.NOT_OBSERVABLE: "33",
}
_UNEXPLAINED = "31"


def render_trials(tried: Sequence[Tried], look: Look = PLAIN) -> str:
    """Renders each configuration with its verdicts, and how many agree."""
    look = replace(look, width=min(look.width, WIDTH_MAX))
    blocks = ["\n".join(_broker(broker, found, look)) for broker, found in by_broker(tried).items()]
    return "\n\n".join([*blocks, textwrap.fill(tell_agreement(tried), look.width)])


def _broker(broker: str, tried: Sequence[Tried], look: Look) -> Iterator[str]:
    widths = _widths(tried)
    yield broker
    yield INDENT + _line(TITLES, widths)
    yield INDENT + "  ".join(look.marks.line * width for width in widths)
    for each in tried:
        yield from textwrap.wrap(
            f"{each.trial.name}: {each.trial.about}",
            look.width,
            initial_indent="  ",
            subsequent_indent="  ",
        )
        for one in each.comparisons:
            yield from _row(one, widths, look)


def _widths(tried: Sequence[Tried]) -> list[int]:
    rows = [TITLES, *(_cells(one) for each in tried for one in each.comparisons)]
    return [max(len(row[at]) for row in rows) for at in range(len(TITLES))]


def _cells(one: Comparison) -> tuple[str, ...]:
    agreement = "" if one.agreement is Agreement.NOT_OBSERVABLE else str(one.agreement)
    return (one.pair.property, one.model_verdict, str(one.judgement.word), agreement)


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join(f"{cell:<{width}}" for cell, width in zip(cells, widths, strict=True)).rstrip()


def _row(one: Comparison, widths: Sequence[int], look: Look) -> Iterator[str]:
    """Draws a row; why it is so goes beside it, or below it on a narrow terminal."""
    cells = _cells(one)
    line = "  ".join(f"{cell:<{width}}" for cell, width in zip(cells, widths, strict=True))
    margin = len(INDENT) + len(line) + 2
    is_narrow = look.width - margin < WHY_WIDTH_MIN
    indent = 2 * len(INDENT) if is_narrow else margin
    why = textwrap.wrap(tell_why(one), look.width - indent)
    painted = _paint(line, one, look)
    if is_narrow:
        yield INDENT + painted.rstrip()
    else:
        yield f"{INDENT}{painted}  {why.pop(0)}"
    yield from (" " * indent + rest for rest in why)


def _paint(line: str, one: Comparison, look: Look) -> str:
    word = str(one.judgement.word if one.agreement is Agreement.NOT_OBSERVABLE else one.agreement)
    if not look.colour:
        return line
    colour = _UNEXPLAINED if one.is_unexplained else _COLOURS[one.agreement]
    before, _, after = line.rpartition(word)
    return f"{before}\x1b[{colour}m{word}\x1b[0m{after}"
