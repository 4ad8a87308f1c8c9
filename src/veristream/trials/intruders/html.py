"""Attacks as sections of the page of trials: the table of outcomes, then each configuration."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from veristream.page import Markup, element, escape, table, text
from veristream.trials.intruders.attacks import ABOUT, Outcome
from veristream.trials.intruders.comparison import Agreement, Attacked, Cell
from veristream.trials.intruders.outcomes import BROKER
from veristream.trials.intruders.words import (
    show_counterpart,
    show_model_verdict,
    tell_agreement,
    tell_why,
)

TITLES = ("configuration", "attack", "model says", "outcome", "agreement", "why")
_OUTCOME: dict[Outcome, str] = {Outcome.SUCCEEDED: "bad", Outcome.PREVENTED: "good"}
_MODEL: dict[str, str] = {"possible": "bad", "impossible": "good"}
_AGREEMENT: dict[Agreement, str] = {
    Agreement.AGREES: "good",
    Agreement.DIFFERS: "open",
    Agreement.NO_COUNTERPART: "open",
}


def attack_sections(attacked: Sequence[Attacked]) -> Iterator[Markup]:
    """Yields what the page says of attacks."""
    yield text("h2", BROKER)
    yield text("p", f"{tell_agreement(attacked)}.")
    yield table(TITLES, [row for each in attacked for row in _rows(each)], long=len(TITLES) - 1)
    for each in attacked:
        yield from _configuration(each)


def _anchor(attacked: Attacked) -> str:
    return f"{BROKER}-{attacked.configuration.name}"


def _rows(attacked: Attacked) -> Iterator[tuple[Markup, ...]]:
    link = element("a", escape(attacked.configuration.name), href=f"#{_anchor(attacked)}")
    for cell in attacked.cells:
        says = show_model_verdict(cell)
        kind = "bad" if cell.is_unexplained else _AGREEMENT[cell.agreement]
        outcome = cell.observation.outcome
        yield (
            link,
            escape(cell.expected.attack),
            text("span", says, _MODEL.get(says, "open")),
            text("span", outcome, _OUTCOME[outcome]),
            text("span", cell.agreement, kind),
            escape(tell_why(cell)),
        )


def _configuration(attacked: Attacked) -> Iterator[Markup]:
    configuration = attacked.configuration
    yield element("h2", escape(configuration.title), id=_anchor(attacked))
    yield text("p", configuration.about)
    settings = ", ".join(f"{name}={value}" for name, value in configuration.settings.items())
    yield element("ul", text("li", f"Settings: {settings}"))
    yield element("ul", *(text("li", _tell(cell)) for cell in attacked.cells))


def _tell(cell: Cell) -> str:
    return f"{cell.expected.attack}: {ABOUT[cell.expected.attack]} Compared with {show_counterpart(cell)}."
