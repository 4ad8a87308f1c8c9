"""Renders results as an HTML page: tables, remarks, and every trace as a message sequence chart."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set

from veristream.expected import Outcome, Reproduction
from veristream.page import Markup, element, escape, fold, render_page, scroll, table, text
from veristream.report.sequence import draw_sequence
from veristream.report.words import (
    EFFORT_TITLES,
    all_remarks,
    model_title,
    outcome_remarks,
    show_effort,
    tell_agreement,
    trace_title,
)
from veristream.verdict import Result, Word, word

_CLASSES: dict[Word, str] = {"holds": "good", "violated": "bad", "unknown": "open", "error": "bad"}


def render_results(model: str, results: Sequence[Result], clocks: Set[str] = frozenset()) -> str:
    """Renders the page that `veristream check --html` writes."""
    rows = [(escape(one.property), escape(one.kind), _verdict(one), *_effort(one)) for one in results]
    titles = ("property", "kind", "verdict", *EFFORT_TITLES)
    return render_page(
        f"Veristream: {model}",
        table(titles, rows, range(3, 8)),
        _list(all_remarks(results)),
        *(chart for one in results for chart in draw_result(one, clocks)),
    )


def render_reproductions(reproductions: Sequence[Reproduction]) -> str:
    """Renders the page that `veristream reproduce --html` writes."""
    return render_page("Veristream: known models", *show_reproductions(reproductions))


def show_reproductions(reproductions: Sequence[Reproduction]) -> Iterator[Markup]:
    """Yields how many verdicts are as expected, then a table for each model."""
    yield text("p", f"{tell_agreement(reproductions)}.")
    for reproduction in reproductions:
        yield from _reproduction(reproduction)


def _reproduction(reproduction: Reproduction) -> Iterator[Markup]:
    model, outcomes = reproduction.model, reproduction.outcomes
    yield text("h3", model_title(model))
    yield text("p", model.paper, class_="soft")
    yield _beside(outcomes)
    yield _list(line for one in outcomes for line in outcome_remarks(one, outcomes))
    for outcome in outcomes:
        yield from draw_result(outcome.result)


def _beside(outcomes: Sequence[Outcome]) -> Markup:
    """Renders published verdicts beside ours; without published figures, there is no column for them."""
    published = ("published figures",) if any(one.expectation.published for one in outcomes) else ()
    titles = ("property", "expected", "verdict", "agreement", *EFFORT_TITLES, *published, "source")
    rows = [_row(one, bool(published)) for one in outcomes]
    return table(titles, rows, range(4, 9), long=len(titles) - 1)


def _row(outcome: Outcome, with_published: bool) -> tuple[Markup, ...]:
    expectation, result = outcome.expectation, outcome.result
    agrees = text("span", "differs", "bad") if outcome.differences else text("span", "as expected", "good")
    return (
        escape(result.property),
        escape(expectation.verdict),
        _verdict(result),
        agrees,
        *_effort(result),
        *([escape(expectation.published or "")] if with_published else []),
        escape(expectation.source),
    )


def draw_result(result: Result, clocks: Set[str] = frozenset()) -> Iterator[Markup]:
    """Yields a collapsed chart of the result's trace, if it has one."""
    trace = result.verdict.trace
    if trace is not None:
        yield fold(trace_title(result, trace), scroll(draw_sequence(trace, clocks=clocks)))


def _verdict(result: Result) -> Markup:
    return text("span", word(result.verdict), _CLASSES[word(result.verdict)])


def _effort(result: Result) -> Iterator[Markup]:
    return map(escape, show_effort(result))


def _list(lines: Iterator[str]) -> Markup:
    items = [text("li", line.strip()) for line in lines]
    return element("ul", *items) if items else Markup("")
