"""Pages: everything is escaped and well formed, nothing is external, and charts show every step."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from tests.unit.report.test_chart import MESSAGES, PROTOCOL, run_of
from veristream.expected import Expectation, KnownModel, Reproduction, compare
from veristream.page import escape, fold, render_page, table, text
from veristream.report.html import render_reproductions, render_results
from veristream.report.scene import find_scene
from veristream.report.sequence import GAP, LETTER, draw_sequence
from veristream.verdict import Effort, Holds, Result, Step, Trace, Unknown, Violated

SVG = "{http://www.w3.org/2000/svg}"
EFFORT = Effort(1234, 5678, 9, 0.25, 12.0)
EVIL = "<script>alert('&\"')</script>"


def parse(markup: str) -> ElementTree.Element:
    """Parses the page as XML, without its first line."""
    return ElementTree.fromstring(markup.removeprefix("<!doctype html>\n"))


def texts(root: ElementTree.Element, name: str) -> list[str]:
    return ["".join(found.itertext()) for found in root.iter(name)]


def arrows(chart: ElementTree.Element) -> int:
    return len(list(chart.iter(SVG + "polygon")))


def test_a_page_stands_alone_and_says_what_it_is_told() -> None:
    page = render_page(EVIL, text("p", EVIL), fold(EVIL, table([EVIL], [[escape(EVIL)]], [0], EVIL)))
    root = parse(page)
    assert texts(root, "title") == texts(root, "h1") == texts(root, "p") == texts(root, "summary") == [EVIL]
    assert texts(root, "th") == texts(root, "td") == texts(root, "caption") == [EVIL]
    assert not list(root.iter("script"))
    assert {name for found in root.iter() for name in found.attrib} <= {
        "lang",
        "charset",
        "name",
        "content",
        "class",
    }
    assert "url(" not in page
    assert "@import" not in page


def test_every_step_of_a_trace_is_a_line_with_its_arrow_or_box() -> None:
    chart = parse(draw_sequence(MESSAGES))
    lines = texts(chart, SVG + "text")
    assert lines[:3] == ["P", "B", "C"]
    assert [line for line in lines if line.isdigit()] == ["0", "1", "2", "3", "4"]
    assert texts(chart, SVG + "tspan")[2:4] == ["put(1)", "queue + 1, P: full → idle, B: wait → w"]
    assert len([box for box in chart.iter(SVG + "rect") if box.get("class") == "fill"]) == 1
    assert arrows(chart) == 1 + 1 + 2  # put, ack, and stop for both followers


def test_messages_are_arrows_from_their_senders() -> None:
    chart = parse(draw_sequence(PROTOCOL))
    received = sum(len(messages) for messages in find_scene(PROTOCOL).received)
    assert arrows(chart) == received == 4


def test_arrows_point_from_the_leader_to_the_follower() -> None:
    chart = parse(draw_sequence(MESSAGES))
    tips = [float(one.attrib["points"].split(",")[0]) for one in chart.iter(SVG + "polygon")]
    starts = [float(one.attrib["x1"]) for one in chart.iter(SVG + "line") if one.get("class") == "ink"]
    assert tips[0] > starts[0]  # the producer puts
    assert tips[1] < starts[1]  # the broker acknowledges


def test_loops_times_and_gaps_stand_between_the_lines() -> None:
    steps = (*run_of(100).steps[:-1], Step("last", "A", {"n": 5}, 2.5))
    chart = parse(draw_sequence(Trace(steps, loop=5)))
    lines = texts(chart, SVG + "text")
    for told in ("loop begins", "back to step 5", "2.5 later, at time 2.5", "51 steps not shown"):
        assert lines.count(told) == 1
    assert len(parse(draw_sequence(run_of(100), full=True)).findall(f"{SVG}g")) == 101


def test_a_text_beside_the_lanes_has_room() -> None:
    """All characters of a chart have the width `LETTER`: nothing is cut off on either side."""
    chart = parse(draw_sequence(run_of(1234)))
    width = float(chart.attrib["viewBox"].split()[2])
    (number,) = [one for one in chart.iter(SVG + "text") if "".join(one.itertext()) == "1234"]
    assert number.attrib["text-anchor"] == "end"
    assert float(number.attrib["x"]) >= 4 * LETTER
    texts_beside = [one for one in chart.iter(SVG + "text") if one.find(SVG + "tspan") is not None]
    ends = [
        float(one.attrib["x"]) + GAP + LETTER * sum(map(len, texts(one, SVG + "tspan")))
        for one in texts_beside
    ]
    assert len(ends) == 49  # the first line is the initial state
    assert max(ends) <= width


def test_a_wide_table_is_a_list_of_records_where_the_page_is_narrow() -> None:
    titles = ("name", "a", "b", "c", "d", "e")
    (wide,) = parse(table(titles, [[escape(title) for title in titles]], [1], long=5)).iter("table")
    assert wide.get("class") == "records"
    assert [cell.get("data-title") for cell in wide.iter("td")] == list(titles)
    assert [cell.get("class") for cell in wide.iter("td")] == [None, "number", None, None, None, "long"]
    (small,) = parse(table(titles[:5], [[escape(title) for title in titles[:5]]])).iter("table")
    assert small.get("class") is None
    assert [cell.get("data-title") for cell in small.iter("td")] == [None] * 5


def test_results_become_a_table_with_charts() -> None:
    results = [
        Result("in_order", "always", Violated("too bad", MESSAGES), EFFORT),
        Result("fine", "always", Holds(vacuous="nothing ever happens"), EFFORT),
        Result("far", "always", Unknown("the bound of 10 states was hit"), EFFORT),
    ]
    root = parse(render_results("a.net", results))
    assert texts(root, "td")[:8] == [
        "in_order",
        "always",
        "violated",
        "1,234",
        "5,678",
        "9",
        "250 ms",
        "12 MiB",
    ]
    assert [found.get("class") for found in root.iter("span")] == ["bad", "good", "open"]
    assert texts(root, "li") == [
        "in_order: too bad",
        "fine is vacuous: nothing ever happens",
        "far: the bound of 10 states was hit",
    ]
    assert texts(root, "summary") == ["in_order is violated by 4 steps:"]
    assert len(list(root.iter(SVG + "svg"))) == 1


@pytest.mark.parametrize(("verdict", "word"), [("violated", "as expected"), ("holds", "differs")])
def test_known_verdicts_stand_beside_ours(verdict: str, word: str) -> None:
    result = Result("in_order", "always", Violated("", MESSAGES), EFFORT)
    expectation = Expectation("in_order", verdict, "figure 3", published="9.4 s")  # type: ignore[arg-type]
    model = KnownModel("queue", "a paper", Path("queue.net"), {"N": 2}, (expectation,))
    root = parse(render_reproductions([Reproduction(model, (compare(expectation, result),))]))
    assert texts(root, "h3") == ["queue with N = 2"]
    cells = texts(root, "td")
    assert cells[:4] == ["in_order", verdict, "violated", word]
    assert cells[-2:] == ["9.4 s", "figure 3"]
    assert texts(root, "p")[0] == f"1 model: {int(word == 'as expected')} of 1 verdict as expected."


def test_no_column_is_kept_for_figures_that_nobody_published() -> None:
    expectation = Expectation("in_order", "holds", "figure 3")
    model = KnownModel("queue", "a paper", Path("queue.net"), {}, (expectation,))
    outcome = compare(expectation, Result("in_order", "always", Holds(), EFFORT))
    titles = texts(parse(render_reproductions([Reproduction(model, (outcome,))])), "th")
    assert titles == [
        *("property", "expected", "verdict", "agreement"),
        *("states", "transitions", "depth", "time", "memory", "source"),
    ]
