"""Reports of audits: golden text, JSON and page; every operation has words; charts show faults."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.unit.history.report.sample import AUDIT, LOST, MANIFEST, MS, event
from veristream.history.audited import Audit
from veristream.history.events import Operation, Outcome
from veristream.history.manifest import Incident
from veristream.history.report import html, text
from veristream.history.report import json as as_json
from veristream.history.report.chart import render_chart
from veristream.history.report.scene import find_scene
from veristream.history.report.sequence import draw_sequence
from veristream.history.report.words import tell_event, tell_verdicts, witness_title
from veristream.history.verdicts import Anomaly
from veristream.history.witnesses import make_witness
from veristream.report.chart import ASCII
from veristream.report.text import Look

Golden = Callable[[str, str], None]


def test_text(golden: Golden) -> None:
    golden("history/audit.txt", text.render_audit(AUDIT))


def test_text_on_a_narrow_terminal_without_unicode(golden: Golden) -> None:
    shown = text.render_audit(AUDIT, Look(ASCII, width=76))
    assert max(map(len, shown.splitlines())) <= 80
    assert shown.isascii()
    golden("history/audit_narrow.txt", shown)


def test_colours_are_around_the_verdicts() -> None:
    shown = text.render_audit(AUDIT, Look(colour=True))
    assert re.findall(r"\x1b\[(\d+)m(.*?)\x1b\[0m", shown) == [
        ("31", "violated"),
        ("32", "held"),
        ("33", "not observable"),
        ("32", "held"),
        ("31", "violated"),
    ]


def test_json(golden: Golden) -> None:
    golden("history/audit.json", as_json.render_audit(AUDIT))


def test_json_has_the_keys_that_others_read() -> None:
    document = json.loads(as_json.render_audit(AUDIT))
    assert document.keys() >= {"history", "events", "results"}
    first = document["results"][0]
    assert first.keys() >= {"property", "verdict", "reason", "operations", "anomalies"}
    assert first["verdict"] == "violated"
    assert [one["verdict"] for one in document["results"]].count("not observable") == 1
    (anomaly,) = first["anomalies"]
    assert anomaly["kind"] == "lost write"
    assert [one["operation"] for one in anomaly["operations"]] == ["send", "read to end"]
    assert anomaly["operations"][0]["process"] == "producer-0"
    assert anomaly["operations"][0]["stream"] == "orders"


def test_page(golden: Golden) -> None:
    page = html.render_audit(AUDIT)
    assert page.count("<svg") == 4
    assert page.count('fill-opacity="0.25"') == 4, "a band for each fault in each plot"
    golden("history/audit.html", re.sub(r"<style>.*?</style>", "<style></style>", page, flags=re.DOTALL))


def test_a_page_escapes_names_and_does_without_a_plot() -> None:
    evil = replace(MANIFEST, streams=(replace(MANIFEST.streams[0], name="<b>"),), settings={}, incidents=())
    page = html.render_audit(Audit("<i>", evil, 2, AUDIT.judgements))
    assert "<b>" not in page and "<i>" not in page
    assert page.count("<svg") == 2, "the witnesses' charts"


def test_faults_between_two_events_are_drawn_between_them() -> None:
    rows = find_scene(LOST, MANIFEST).rows
    assert [row.told for row in rows][1:-1] == ["kill broker-1"], "the stop began before the first event"


def test_details_of_faults_are_listed_on_the_page() -> None:
    plain = html.render_audit(AUDIT)
    held = Incident("hold PRODUCE", "broker-1", 2_000 * MS, 2_100 * MS, {"rule": "<late>", "client": "p"})
    steered = replace(MANIFEST, incidents=(*MANIFEST.incidents, held))
    page = html.render_audit(replace(AUDIT, manifest=steered))
    assert "rule: &lt;late&gt;; client: p" in page and "hold PRODUCE broker-1, until 2.100 s" in page
    assert "details</th>" in page and "details</th>" not in plain


def test_many_faults_are_counted() -> None:
    cuts = tuple(Incident("cut", "", (2_000 + n) * MS) for n in range(7))
    rows = find_scene(LOST, replace(MANIFEST, incidents=(*MANIFEST.incidents, *cuts))).rows
    assert [row.told for row in rows][1:-1] == ["8 faults: 1 x kill, 7 x cut"]


def test_an_answer_comes_from_the_broker_if_its_question_is_shown() -> None:
    (fenced,) = AUDIT.judgements[-1].witnesses
    assert [row.moving for row in find_scene(fenced, MANIFEST).rows] == [
        ("consumer-1", "kafka"),
        ("producer-0", "kafka"),
        ("kafka", "producer-0"),
    ]
    assert find_scene(fenced, MANIFEST).lanes == ("consumer-1", "producer-0", "kafka")


def test_a_process_may_be_called_like_the_broker() -> None:
    named = replace(
        MANIFEST, processes=(replace(MANIFEST.processes[0], name="kafka"), MANIFEST.processes[1])
    )
    assert find_scene(LOST, named).lanes == ("kafka", "kafka (broker)", "consumer-1")


@pytest.mark.parametrize("operation", list(Operation), ids=lambda one: one.name)
def test_every_operation_has_words_and_a_line(operation: Operation) -> None:
    told = set()
    for outcome in Outcome:
        one = event(0, 1, operation, outcome, 5, producer=0, number=3, offset=8, group=0, error="gone")
        told.add(tell_event(one, MANIFEST))
        witness = replace(make_witness(Anomaly("leaked", 0, process=0), [], MANIFEST), events=(one,))
        chart = render_chart(witness, MANIFEST)
        assert chart.splitlines()[-1].endswith(tell_event(one, MANIFEST))
        assert draw_sequence(witness, MANIFEST).startswith("<svg")
    assert len(told) == len(Outcome)


def test_the_words_of_a_history_of_a_queue() -> None:
    receive = event(1, 1, Operation.RECEIVE, Outcome.OK, 5, producer=0, number=3, attempt=2)
    assert tell_event(receive, MANIFEST) == "receive 0:3 from orders/0 (attempt 2)"
    unknown = event(1, 1, Operation.RECEIVE, Outcome.OK, 5, offset=9)
    assert tell_event(unknown, MANIFEST) == "receive a message of an unknown producer from orders/0 at 9"


def test_verdicts_are_counted_worst_first() -> None:
    assert tell_verdicts(AUDIT.judgements) == "5 properties: 2 violated, 1 not observable, 2 held"
    assert tell_verdicts(AUDIT.judgements[1:2]) == "1 property: 1 held"


def test_witnesses_of_one_kind_are_numbered() -> None:
    lost = AUDIT.judgements[0]
    other = replace(LOST, anomaly=replace(LOST.anomaly, number=8))
    several = replace(lost, witnesses=(LOST, other))
    titles = [witness_title(several, one).partition(":")[0] for one in several.witnesses]
    assert titles == [f"{lost.property}, lost write ({n} of 3)" for n in (1, 2)]
