"""Trials as text for a terminal: a table for each broker, the model's verdict beside the broker's."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import replace

from veristream.report.text import PLAIN, Look
from veristream.trials.columns import WIDTH_MAX, Block, Row, draw_table
from veristream.trials.comparison import Agreement, Comparison, Tried
from veristream.trials.words import by_broker, tell_agreement, tell_why

TITLES = ("property", "model", "broker", "")
_COLOURS: dict[Agreement, str] = {
    Agreement.AGREES: "32",
    Agreement.DIFFERS: "33",
    Agreement.NOT_OBSERVABLE: "33",
}
_UNEXPLAINED = "31"


def render_trials(tried: Sequence[Tried], look: Look = PLAIN) -> str:
    """Renders each configuration with its verdicts, and how many agree."""
    look = replace(look, width=min(look.width, WIDTH_MAX))
    tables = [
        "\n".join(draw_table(broker, TITLES, [_block(each) for each in found], look))
        for broker, found in by_broker(tried).items()
    ]
    return "\n\n".join([*tables, textwrap.fill(tell_agreement(tried), look.width)])


def _block(tried: Tried) -> Block:
    return Block(f"{tried.trial.name}: {tried.trial.about}", tuple(map(_row, tried.comparisons)))


def _row(one: Comparison) -> Row:
    is_undecided = one.agreement is Agreement.NOT_OBSERVABLE
    agreement = "" if is_undecided else str(one.agreement)
    return Row(
        (one.pair.property, one.model_verdict, str(one.judgement.word), agreement),
        tell_why(one),
        str(one.judgement.word if is_undecided else one.agreement),
        _UNEXPLAINED if one.is_unexplained else _COLOURS[one.agreement],
    )
