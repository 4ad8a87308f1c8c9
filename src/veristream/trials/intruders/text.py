"""Attacks as text for a terminal: a table, what the model says beside what happened."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import replace

from veristream.report.text import PLAIN, Look
from veristream.trials.columns import WIDTH_MAX, Block, Row, draw_table
from veristream.trials.intruders.comparison import Agreement, Attacked, Cell
from veristream.trials.intruders.outcomes import BROKER
from veristream.trials.intruders.words import show_model_verdict, tell_agreement, tell_why

TITLES = ("attack", "model", "outcome", "")
_COLOURS: dict[Agreement, str] = {
    Agreement.AGREES: "32",
    Agreement.DIFFERS: "33",
    Agreement.NO_COUNTERPART: "33",
}
_UNEXPLAINED = "31"


def render_attacks(attacked: Sequence[Attacked], look: Look = PLAIN) -> str:
    """Renders each configuration with what came of the attacks, and how many agree with the models."""
    look = replace(look, width=min(look.width, WIDTH_MAX))
    blocks = [
        Block(f"{each.configuration.name}: {each.configuration.about}", tuple(map(_row, each.cells)))
        for each in attacked
    ]
    table = "\n".join(draw_table(BROKER, TITLES, blocks, look))
    return f"{table}\n\n{textwrap.fill(tell_agreement(attacked), look.width)}"


def _row(cell: Cell) -> Row:
    is_alone = cell.agreement is Agreement.NO_COUNTERPART
    agreement = "" if is_alone else str(cell.agreement)
    outcome = str(cell.observation.outcome)
    return Row(
        (cell.expected.attack, show_model_verdict(cell), outcome, agreement),
        tell_why(cell),
        outcome if is_alone else agreement,
        _UNEXPLAINED if cell.is_unexplained else _COLOURS[cell.agreement],
    )
