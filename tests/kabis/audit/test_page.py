"""The report as JSON, as text and as a page: what is in it, and that the page needs nothing else."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from xml.etree import ElementTree

from veristream.cli.kabis.work.audit import render
from veristream.kabis.audit.findings import MEANINGS, Finding, Kind, Tally
from veristream.kabis.audit.page import to_html
from veristream.kabis.audit.plots import WIDTH, Bar, Part, draw_bars
from veristream.kabis.audit.report import (
    Accused,
    AuditReport,
    Checked,
    count_findings,
    find_silent,
    make_parties,
    make_streams,
    merge_accused,
    to_json,
)

TALLIES = [
    Tally("orders", 0, "anna", "", copies=5, good=3, events=30),
    Tally("orders", 0, "anna", "s0", vouched=3, copies=3, good=2, events=20),
    Tally("orders", 0, "anna", "s1", vouched=3, copies=2, good=2, unanswered=1, events=20),
]
FINDINGS = [
    Finding(Kind.ALTERED, "storage", "s0", "orders", 0, "anna", 0, 10, 10, 4, "<b>not</b> what was signed"),
    Finding(Kind.EQUIVOCATION, "validator", "v1", height=9, detail="two votes"),
    Finding(Kind.PHANTOM, "producer", "anna", "orders", 0, "anna", 0, 30, 10, 0, "s0 has it"),
    *find_silent(TALLIES, frozenset()),
]
VOID = {"meta", "br", "hr"}


def make_report(findings: list[Finding] = FINDINGS) -> AuditReport:
    accused = merge_accused([count_findings(findings)])
    return AuditReport(
        "chain-1",
        12,
        "parties",
        ("orders",),
        make_streams(TALLIES, accused),
        make_parties(["s0", "s1", "s2"], TALLIES, accused),
        accused,
        tuple(findings),
        ((1_700_000_000_000, 10), (1_700_000_001_000, 0), (1_700_000_002_000, 20)),
        Checked(12, 3, 30, 5, 40, 60),
        2.0,
    )


class Page(HTMLParser):
    """Checks that tags are closed in order, and gathers them with their attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def count(self, tag: str) -> int:
        return sum(name == tag for name, _ in self.tags)


def test_the_page_is_whole_and_needs_nothing_else() -> None:
    text = to_html(make_report())
    page = Page(text)
    assert (page.count("h1"), page.count("svg"), page.count("table")) == (1, 3, 4)
    assert page.count("script") == page.count("link") == page.count("img") == page.count("iframe") == 0
    assert not re.search(r"https?:|url\(|@import|src=|href=", text)
    assert ("meta", {"name": "viewport", "content": "width=device-width, initial-scale=1"}) in page.tags


def test_the_page_is_readable_when_narrow() -> None:
    text = to_html(make_report())
    boxes = [attributes["viewbox"] for tag, attributes in Page(text).tags if tag == "svg"]
    assert {box.split()[2] for box in boxes if box} == {str(WIDTH)} == {"400"}
    assert "width: 100%" in text
    assert text.count('<div class="wide"><table>') == 4, "tables scroll by themselves"


def test_what_parties_say_is_escaped() -> None:
    text = to_html(make_report())
    assert "<b>not</b>" not in text
    assert "&lt;b&gt;not&lt;/b&gt; what was signed" in text


def test_the_page_names_every_kind_and_every_finding() -> None:
    text = to_html(make_report())
    for kind in Kind:
        assert f"<td>{kind}</td>" in text
    assert "3 faults were found." in text
    assert "<p>Accused: s0 (altered), v1 (equivocation), s1 (silent).</p>" in text
    assert "orders-0, anna, event 10, block 4" in text
    assert '<p class="good">' not in text
    clean = to_html(make_report([FINDINGS[2]]))
    assert "No fault was found." in clean
    assert "Accused" not in clean


def test_the_plots_draw_what_was_counted() -> None:
    svg = ElementTree.fromstring(
        draw_bars("bars", [Bar("a", (Part(30, "good", "x"), Part(10, "bad", "y")))])
    )
    rectangles = [each for each in svg.iter() if each.tag == "rect"]
    assert [each.get("width") for each in rectangles] == ["300.0", "100.0"]
    assert [each.get("x") for each in rectangles] == ["0.0", "300.0"]
    tiny = ElementTree.fromstring(
        draw_bars("bars", [Bar("a", (Part(9999, "good", "x"), Part(1, "bad", "y")))])
    )
    (_, bad) = [each for each in tiny.iter() if each.tag == "rect"]
    assert (bad.get("x"), bad.get("width")) == ("397.0", "3.0")
    assert [title.text for title in bad] == ["y: 1"]


def test_a_page_of_nothing() -> None:
    report = replace(make_report([]), streams=(), parties=(), timeline=())
    assert Page(to_html(report)).count("svg") == 0
    assert Page(to_html(replace(report, timeline=make_report().timeline))).count("svg") == 1


def test_a_long_name_keeps_both_its_ends() -> None:
    svg = ElementTree.fromstring(draw_bars("bars", [Bar("a" * 50 + "-17", (Part(1, "good", "x"),))]))
    name = next(each for each in svg.iter() if each.tag == "text")
    assert "".join(name.itertext()) == "a" * 50 + "-17" + "a" * 17 + "…" + "a" * 15 + "-17"


def test_counts_by_whom_they_speak_against() -> None:
    report = make_report([*FINDINGS, FINDINGS[0]])
    assert report.counts[Kind.ALTERED] == 2
    assert report.accused[0] == Accused("altered", "storage", "s0", "orders", 0, "anna", 2)
    assert report.streams[0].faults == {"altered": 2, "phantom": 1}
    assert [line.faults for line in report.parties] == [{"altered": 2}, {"silent": 1}, {}]
    assert [(line.vouched, line.good, line.unanswered) for line in report.parties] == [
        (3, 2, 0),
        (3, 2, 1),
        (0, 0, 0),
    ]
    assert not report.is_clean
    assert make_report([FINDINGS[2]]).is_clean, "a phantom is a note"


def test_json_says_all_of_it() -> None:
    fields = json.loads(json.dumps(to_json(make_report())))
    assert set(fields["counts"]) == set(Kind) == set(MEANINGS)
    assert (fields["clean"], fields["height"], fields["events_per_s"]) == (False, 12, 20.0)
    assert fields["checked"]["signatures"] == 60
    assert len(fields["findings"]) == 4
    assert fields["streams"][0] == {
        "topic": "orders",
        "partition": 0,
        "producer": "anna",
        "batches": 3,
        "events": 30,
        "faults": {"altered": 1, "phantom": 1},
    }


def test_the_text_tells_findings_notes_and_what_it_leaves_out() -> None:
    report = make_report()
    lines = render(replace(report, findings=report.findings[1:])).splitlines()
    assert lines[0] == "chain chain-1 up to block 12, from the parties: 30 events in 3 batches"
    assert "fault: equivocation, v1, block 9: two votes" in lines
    assert "note: phantom, anna, orders-0, anna, event 30: s0 has it" in lines
    assert "fault: silent, s1: 1 of its batches could not be checked" in lines
    assert "and 1 more altered; --findings N prints more" in lines
    assert (
        lines[-1]
        == "checked 40 good copies of events and 60 signatures in 2.0 s: 20 events/s, 30 signatures/s"
    )
    assert "no fault was found" in render(make_report([]))
