"""Audits with dumps of brokers' logs say of each message that is lost why it is lost."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import veristream as vs
from tests.unit.history.foreign.test_kafka_dump import RECORDED, STORED, batch, message, segment
from tests.unit.history.job.recorded import record
from veristream.errors import ModelError
from veristream.history.audited import Audit
from veristream.history.report import html, text
from veristream.history.report import json as as_json
from veristream.history.report.words import tell_attribution
from veristream.report.text import Look
from veristream_testing.histories.history import History
from veristream_testing.histories.notation import history

DUMP = (RECORDED / "broker-1.txt").read_text(encoding="utf-8").splitlines(keepends=True)
"""The first 19 lines are offsets 0 to 14, the next 26 are offsets 15 to 39."""

SKIPPED = (3, 20, 30)


def skipping(folder: Path) -> Path:
    """What the clients of Kafka 4.1.1 printed, but with a consumer that did not get all messages."""
    (folder / "clients").mkdir()
    lines = []
    for line in (RECORDED / "consumer.log").read_text(encoding="utf-8").splitlines():
        event = json.loads(line) if line.startswith("{") else {}
        if event.get("name") == "record_data" and event["offset"] in SKIPPED:
            continue
        lines.append(line.replace('"count":40', f'"count":{40 - len(SKIPPED)}'))
    (folder / "clients" / "consumer.log").write_text("\n".join(lines) + "\n", encoding="utf-8")
    producer = (RECORDED / "producer.log").read_text(encoding="utf-8")
    (folder / "clients" / "producer.log").write_text(producer, encoding="utf-8")
    return folder / "clients"


def write(folder: Path, text: str, name: str = "broker-1.txt") -> Path:
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def reasons(found: Audit) -> list[str]:
    """Returns why each message of a witness is lost, without what all audits say before it."""
    witnesses = [witness for one in found.judgements for witness in one.witnesses]
    told = [tell_attribution(found, each) for each in witnesses if each.anomaly.kind == "lost write"]
    return [each.removeprefix("brokers' logs: ") for each in told]


TRUNCATED = (
    "offset {} was acknowledged, and the log ends before offset 15: it was truncated, or never written here"
)


@pytest.mark.parametrize(
    ("dump", "why"),
    [
        (DUMP, [f"it was written at offset {offset}; readers skipped it" for offset in SKIPPED]),
        (
            DUMP[:19],
            [
                "it was written at offset 3; readers skipped it",
                TRUNCATED.format(20),
                TRUNCATED.format(30),
            ],
        ),
        (
            [segment("t", 0, 15), *DUMP[19:45]],
            [
                "offset 3 was acknowledged, and the log begins at offset 15: it was deleted",
                "it was written at offset 20; readers skipped it",
                "it was written at offset 30; readers skipped it",
            ],
        ),
        (
            [line.replace("payload: 20\n", "payload: 99\n") for line in DUMP],
            [
                "it was written at offset 3; readers skipped it",
                (
                    "offset 20 was acknowledged, and the log has another message there, of leader epoch 0: "
                    "the log was truncated and written anew"
                ),
                "it was written at offset 30; readers skipped it",
            ],
        ),
        (
            [line.replace("count: 25", "count: 24") for line in DUMP if "payload: 30\n" not in line],
            [
                "it was written at offset 3; readers skipped it",
                "it was written at offset 20; readers skipped it",
                "offset 30 was acknowledged, and the log has no record there: it was compacted away",
            ],
        ),
    ],
    ids=["whole", "truncated", "deleted", "overwritten", "compacted"],
)
def test_what_the_tools_of_kafka_printed(tmp_path: Path, dump: Sequence[str], why: list[str]) -> None:
    logs = [write(tmp_path, "".join(dump))]
    found = vs.audit(skipping(tmp_path), properties=["acknowledged means delivered"], logs=logs)
    assert found.judgements[0].counts == {"lost write": 3}
    assert reasons(found) == why


def lossy(moves: str) -> History:
    """A history of the topic `t` of Kafka."""
    of = history(moves)
    (log,) = of.manifest.streams
    return replace(of, manifest=replace(of.manifest, source="kafka", streams=(replace(log, name="t"),)))


LOST = lossy("a>1@2 a>2@4 a>8@8 b<a9@3 bE0-9")
WHY = [
    (
        "it was written at offset 2; its transaction was aborted, so that readers of committed messages "
        "do not get it"
    ),
    (
        "it was written at offset 4; its transaction has never ended, so that readers of committed "
        "messages stop before it"
    ),
    "offset 8 was acknowledged, and the log ends before offset 8: it was truncated, or never written here",
]


def test_by_the_identities_of_messages(tmp_path: Path) -> None:
    found = vs.audit(record(tmp_path / "h", LOST), logs=[str(write(tmp_path, STORED))])
    assert reasons(found) == WHY
    assert found.attributions is not None
    assert len(found.attributions) == 3  # the message from nowhere is not lost


def test_in_all_reports(tmp_path: Path) -> None:
    found = vs.audit(record(tmp_path / "h", LOST), logs=[write(tmp_path, STORED)])
    told = text.render_audit(found, Look(width=300))
    for why in WHY:
        assert f"no reader received it\nbrokers' logs: {why}\n\n" in told
    page = html.render_audit(found)
    assert page.count("<p>brokers&#x27; logs: ") == 3
    assert anomalies(found, "lost write") == WHY
    assert anomalies(found, "unexpected") == [None]


def anomalies(found: Audit, kind: str) -> list[str | None]:
    """Returns the attributions in JSON; None where that has none."""
    results: list[dict[str, Any]] = json.loads(as_json.render_audit(found))["results"]
    witnesses = [witness for result in results for witness in result["anomalies"]]
    return [each.get("attribution") for each in witnesses if each["kind"] == kind]


def test_without_dumps_nothing_is_said(tmp_path: Path) -> None:
    found = vs.audit(record(tmp_path / "h", LOST))
    assert found.attributions is None
    assert reasons(found) == ["", "", ""]
    assert anomalies(found, "lost write") == [None, None, None]
    assert "brokers&#x27; logs" not in html.render_audit(found)


def test_brokers_are_told_apart(tmp_path: Path) -> None:
    """Their dumps may have the same name, in folders of their own, and a folder may be named."""
    of = lossy("a>1@0 bE0-1")
    one = write(tmp_path, segment("t", 0) + batch(0, message(1)), "one/dump.txt")
    two = write(tmp_path, segment("t", 0), "two/dump.txt")
    found = vs.audit(record(tmp_path / "h", of), logs=[one, two.parent])
    assert reasons(found) == [
        (
            "one/dump: it was written at offset 0; readers skipped it; two/dump: offset 0 was "
            "acknowledged, and the log ends before offset 0: it was truncated, or never written here"
        )
    ]


def test_brokers_that_say_the_same_are_told_together(tmp_path: Path) -> None:
    """As after the kill of a leader with acks=1, whose followers had not fetched the message."""
    logs = [write(tmp_path, segment("t", 0), f"{name}.txt") for name in ("a", "b")]
    logs.insert(1, write(tmp_path, segment("t", 0) + batch(0, message(1)), "c.txt"))
    found = vs.audit(record(tmp_path / "h", lossy("a>1@0 bE0-1")), logs=logs)
    assert reasons(found) == [
        (
            "a, b: offset 0 was acknowledged, and the log ends before offset 0: it was truncated, or never "
            "written here; c: it was written at offset 0; readers skipped it"
        )
    ]


def test_a_partition_that_no_dump_has(tmp_path: Path) -> None:
    logs = [write(tmp_path, segment("t", 7))]
    found = vs.audit(record(tmp_path / "h", lossy("a>1@0 bE0-1")), logs=logs)
    assert reasons(found) == ["no dump has the log of this partition"]


@pytest.mark.parametrize(
    ("dump", "told"),
    [
        (STORED[:-3], "the payload of a record is shorter than its valueSize"),
        (segment("u", 0), "has no log of a topic of this history"),
        (
            '{"timestamp":1,"name":"startup_complete"}\n',
            "is the output of a verifiable client of Kafka, not a dump",
        ),
        ("hello\n", "is no recording that Veristream knows"),
        ("", "is empty"),
    ],
    ids=["cut", "other topic", "client", "no recording", "empty"],
)
def test_a_wrong_dump(tmp_path: Path, dump: str, told: str) -> None:
    path = write(tmp_path, dump)
    with pytest.raises(ModelError) as error:
        vs.audit(record(tmp_path / "h", LOST), logs=[path])
    assert str(path) in error.value.message
    assert told in error.value.message
    assert error.value.hint


def test_a_dump_that_is_named_twice(tmp_path: Path) -> None:
    path = write(tmp_path, STORED)
    with pytest.raises(ModelError, match="is named twice"):
        vs.audit(record(tmp_path / "h", LOST), logs=[path, path])


def test_a_history_of_another_broker(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="this is a history of test, whose streams are no topics of Kafka"):
        vs.audit(record(tmp_path / "h", history("a>1@0 bE0-1")), logs=[write(tmp_path, STORED)])
