"""Trials as one page: the table of all verdicts, then each configuration with witnesses and its course."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from veristream.history.report.html import show_audit
from veristream.history.verdicts import Word as Found
from veristream.page import Markup, element, escape, render_page, table, text
from veristream.trials.comparison import Agreement, Comparison, Tried
from veristream.trials.intruders.comparison import Attacked
from veristream.trials.intruders.html import attack_sections
from veristream.trials.words import by_broker, show_model, tell_agreement, tell_why
from veristream.verdict import Word

_MODEL: dict[Word, str] = {"holds": "good", "violated": "bad", "unknown": "open"}
_FOUND: dict[Found, str] = {Found.HELD: "good", Found.VIOLATED: "bad", Found.NOT_OBSERVABLE: "open"}
_AGREEMENT: dict[Agreement, str] = {
    Agreement.AGREES: "good",
    Agreement.DIFFERS: "open",
    Agreement.NOT_OBSERVABLE: "open",
}
TITLES = ("configuration", "property", "model says", "broker did", "agreement", "why")


def render_trials(
    tried: Sequence[Tried], attacked: Sequence[Attacked] = (), replays: Sequence[Markup] = ()
) -> str:
    """Renders the page that `veristream reproduce --real --html` writes; replays are drawn already."""
    sections = [
        *(_sections(tried) if tried else ()),
        *(attack_sections(attacked) if attacked else ()),
        *replays,
    ]
    return render_page("Models beside real brokers", *sections)


def _sections(tried: Sequence[Tried]) -> Iterator[Markup]:
    yield text("p", f"{tell_agreement(tried)}.")
    yield text(
        "p",
        "A model says what may happen under these settings; a recording says what did happen in one run "
        "with the faults that are named.",
        "soft",
    )
    for broker, found in by_broker(tried).items():
        yield text("h2", broker)
        yield table(TITLES, [row for each in found for row in _rows(each)], long=len(TITLES) - 1)
    for each in tried:
        yield from _trial(each)


def _rows(tried: Tried) -> Iterator[tuple[Markup, ...]]:
    link = element("a", escape(tried.trial.name), href=f"#{_anchor(tried)}")
    for one in tried.comparisons:
        yield (link, *_cells(one), escape(tell_why(one)))


def _cells(one: Comparison) -> tuple[Markup, ...]:
    kind = "bad" if one.is_unexplained else _AGREEMENT[one.agreement]
    return (
        escape(one.pair.property),
        text("span", one.model_verdict, _MODEL[one.model_verdict]),
        text("span", one.judgement.word, _FOUND[one.judgement.word]),
        text("span", one.agreement, kind),
    )


def _anchor(tried: Tried) -> str:
    return f"{tried.trial.broker}-{tried.trial.name}"


def _trial(tried: Tried) -> Iterator[Markup]:
    trial = tried.trial
    yield element("h2", escape(trial.title), id=_anchor(tried))
    yield text("p", trial.about)
    settings = ", ".join(f"{name}={value}" for name, value in trial.settings.items())
    told = {"Settings": settings, "Workload": trial.workload, "Faults": trial.faults}
    yield element("ul", *(text("li", f"{name}: {what}") for name, what in told.items() if what))
    yield element("ul", *(text("li", _tell_model(one)) for one in tried.comparisons))
    # What the recording cannot decide, and what nobody compares, would only hide the rest.
    compared = {one.pair.property for one in tried.comparisons}
    shown = [
        one
        for one in tried.audit.judgements
        if one.property in compared or one.word is not Found.NOT_OBSERVABLE
    ]
    yield from show_audit(replace(tried.audit, judgements=tuple(shown)))


def _tell_model(one: Comparison) -> str:
    return f"{one.pair.property}: {one.model_verdict} in the model ({show_model(one)})"
