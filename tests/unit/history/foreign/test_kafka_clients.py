"""The output of Kafka's verifiable clients becomes exactly these events.

Events have the shapes that tools/src/main/java/org/apache/kafka/tools/VerifiableProducer.java and
VerifiableConsumer.java of apache/kafka print.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.unit.history.foreign.told import imported, tell
from veristream.errors import ModelError
from veristream.history.foreign.importing import ImportOptions
from veristream.history.manifest import Process, Stream

BEGIN_MS = 1_700_000_000_000


def lines(*events: tuple[int, str, dict[str, Any]]) -> str:
    printed = [{"timestamp": BEGIN_MS + ms, "name": name, **fields} for ms, name, fields in events]
    return "".join(json.dumps(each, separators=(",", ":")) + "\n" for each in printed)


def sent(ms: int, value: str, partition: int, offset: int) -> tuple[int, str, dict[str, Any]]:
    fields = {"key": None, "value": value, "topic": "t", "partition": partition, "offset": offset}
    return ms, "producer_send_success", fields


def failed(ms: int, value: str, exception: str) -> tuple[int, str, dict[str, Any]]:
    told = f"class org.apache.kafka.common.errors.{exception}"
    fields = {"key": None, "value": value, "topic": "t", "exception": told, "message": "too bad"}
    return ms, "producer_send_error", fields


def tool_data(ms: int, count: int, acked: int) -> tuple[int, str, dict[str, Any]]:
    return ms, "tool_data", {"sent": count, "acked": acked, "target_throughput": -1, "avg_throughput": 4.2}


def place(partition: int, **fields: int) -> dict[str, Any]:
    return {"topic": "t", "partition": partition, **fields}


def consumed(ms: int, *summaries: dict[str, Any]) -> tuple[int, str, dict[str, Any]]:
    return (
        ms,
        "records_consumed",
        {"count": sum(s["count"] for s in summaries), "partitions": list(summaries)},
    )


def record(ms: int, value: str, partition: int, offset: int) -> tuple[int, str, dict[str, Any]]:
    return ms, "record_data", {"key": None, "value": value, **place(partition, offset=offset)}


START = (0, "startup_complete", {})
PRODUCER = (
    START,
    sent(10, "0", 0, 0),
    failed(12, "2", "TimeoutException"),
    failed(12, "3", "RecordTooLargeException"),
    sent(13, "1", 1, 0),
    (20, "shutdown_complete", {}),
    tool_data(21, 5, 2),
)
CONSUMER = (
    (1, "startup_complete", {}),
    (5, "partitions_assigned", {"partitions": [place(0), place(1)]}),
    record(30, "0", 0, 0),
    record(30, "9", 0, 1),
    consumed(31, place(0, count=2, minOffset=0, maxOffset=1)),
    (35, "offsets_committed", {"offsets": [place(0, offset=2)], "success": True}),
    (36, "partitions_revoked", {"partitions": [place(1)]}),
    (37, "offsets_committed", {"offsets": [place(0, offset=2)], "success": False, "error": "rebalanced"}),
    (40, "shutdown_complete", {}),
)
PRODUCER_TOLD = [
    "10000000 p: SEND ok t/0 0:0 @0",
    "12000000 p: SEND info t/-1 0:2 (TimeoutException: too bad)",
    "12000000 p: SEND fail t/-1 0:3 (RecordTooLargeException: too bad)",
    "13000000 p: SEND ok t/1 0:1 @0",
    "21000000 p: SEND ? t/-1 0:4",  # it never ended
]


def test_a_producer_and_a_consumer(tmp_path: Path) -> None:
    files = {"p.log": lines(*PRODUCER), "c.log": lines(*CONSUMER)}
    manifest, events = imported(tmp_path, files, ImportOptions(one_host=True))
    assert tell(manifest, events) == [
        *PRODUCER_TOLD,
        "5000000 c: ASSIGN ok t/0 by consumers",
        "5000000 c: ASSIGN ok t/1 by consumers",
        "30000000 c: RECEIVE ok t/0 0:0 @0 by consumers",
        "30000000 c: RECEIVE ok t/0 @1 by consumers",  # nobody has sent 9
        "31000000 c: COMMIT ? t/0 @2 by consumers",
        "35000000 c: COMMIT ok t/0 @2 by consumers",
        "36000000 c: REVOKE ok t/1 by consumers",
        "36000000 c: COMMIT ? t/0 @2 by consumers",
        "37000000 c: COMMIT info t/0 @2 by consumers (rebalanced)",
        "40000000 c: CLOSE ok",
        "40000000 c: READ_TO_END ? t/0",
        "40000000 c: READ_TO_END ok t/0 from 0 @2",
    ]
    assert events[0].wall_us == (BEGIN_MS + 10) * 1000
    assert manifest.processes == (Process("p", "host"), Process("c", "host", member_of=0))
    assert manifest.streams == (Stream("t"),)
    assert manifest.groups == ("consumers",)
    assert (manifest.source, manifest.complete, manifest.producers_complete) == ("kafka", True, True)
    assert not manifest.transactions_recorded


def test_a_folder_with_lines_of_a_log_between(tmp_path: Path) -> None:
    logged = "[2024-01-01 10:00:00,123] WARN something (org.apache.kafka)\n"
    imported(tmp_path, {"in/p.log": logged + lines(*PRODUCER) + logged, "in/c.log": lines(*CONSUMER)})
    from veristream.history.foreign.importing import import_history

    manifest, count = import_history([tmp_path / "in"], tmp_path / "again")
    assert (count, [process.name for process in manifest.processes]) == (17, ["p", "c"])
    assert {process.host for process in manifest.processes} == {""}


def test_a_client_that_was_killed_must_be_said(tmp_path: Path) -> None:
    text = lines(*PRODUCER[:-2])
    with pytest.raises(ModelError) as caught:
        imported(tmp_path, {"p.log": text})
    assert (
        caught.value.message
        == f"{tmp_path}/p.log:5: the output of the producer ends here, without tool_data"
    )
    with pytest.raises(ModelError, match=r"c.log:8: the output of the consumer ends here"):
        imported(tmp_path / "c", {"p.log": lines(*PRODUCER), "c.log": lines(*CONSUMER[:-1])})
    manifest, events = imported(tmp_path / "killed", {"p.log": text}, ImportOptions(incomplete=True))
    assert tell(manifest, events) == PRODUCER_TOLD[:-1]
    assert (manifest.complete, manifest.producers_complete) == (False, False)


def test_without_verbose_nothing_is_said_of_receipts(tmp_path: Path) -> None:
    silent = [event for event in CONSUMER if event[1] != "record_data"]
    manifest, events = imported(tmp_path, {"p.log": lines(*PRODUCER), "c.log": lines(*silent)})
    assert not [line for line in tell(manifest, events) if "RECEIVE" in line or "READ_TO_END" in line]
    assert manifest.settings["receipts"] == "not recorded: run the consumer with --verbose"


def test_two_producers_need_prefixes(tmp_path: Path) -> None:
    def of(prefix: str) -> str:
        return lines(START, sent(1, f"{prefix}0", 0, 0), tool_data(2, 1, 1))

    with pytest.raises(ModelError) as caught:
        imported(tmp_path / "same", {"p.log": of(""), "q.log": of("")})
    path = tmp_path / "same" / "q.log"
    assert caught.value.message == f"{path}:2: value '0' was sent by another producer, too"
    manifest, events = imported(tmp_path, {"a/p.log": of("1."), "b/p.log": of("2.")})
    assert [process.name for process in manifest.processes] == ["a/p", "b/p"]
    assert [(event.producer, event.number) for event in events] == [(0, 0), (1, 0)]


def test_acknowledgements_without_offsets(tmp_path: Path) -> None:
    """With acks=0 the client gives offset -1."""
    producer = lines(START, sent(1, "0", 0, -1), tool_data(2, 1, 1))
    told = tell(*imported(tmp_path, {"p.log": producer, "c.log": lines(*CONSUMER)}))
    assert told[0] == "1000000 p: SEND ok t/0 0:0"
    assert told[-1] == "40000000 c: READ_TO_END ok t/0 from 1 @2"


def test_output_that_is_cut_is_an_error(tmp_path: Path) -> None:
    text = lines(*PRODUCER)
    for length in range(0, len(text) - 1, 3):
        folder = tmp_path / str(length)
        folder.mkdir()
        with pytest.raises(ModelError) as caught:
            imported(folder, {"p.log": text[:length]})
        assert str(folder / "p.log") in caught.value.message
        assert not (folder / "history" / "history.json").exists()


@pytest.mark.parametrize(
    ("events", "line", "message"),
    [
        ((START, (1, "sent", {})), 2, "unknown event `sent`"),
        ((*PRODUCER[:2], (1, "sent", {})), 3, "unknown event `sent` of a producer"),
        ((*PRODUCER, START), 8, "startup_complete after tool_data, which comes last"),
        ((START, sent(1, "x", 0, 0)), 2, "value 'x' is not of a verifiable producer"),
        ((START, sent(1, "0", 0, 0), sent(1, "0", 0, 1)), 3, "message '0' ends twice"),
        (
            (START, sent(1, "1.0", 0, 0), sent(1, "2.0", 0, 1)),
            3,
            "value '2.0' has another prefix than '1.'",
        ),
        (
            (START, sent(1, "0", 2**31, 0)),
            2,
            "`partition` of producer_send_success is 2147483648, which is too large",
        ),
        (
            (START, sent(1, "0", 0, 2**62)),
            2,
            f"`offset` of producer_send_success is {2**62}, which is too large",
        ),
        (
            (START, (2**43, "shutdown_complete", {})),
            2,
            f"`timestamp` is {BEGIN_MS + 2**43}, far behind our time",
        ),
        ((START, sent(1, "0", 0, -2)), 2, "`offset` of producer_send_success is -2, not a number from -1"),
        (
            (START, sent(1, "0", 0, 0), tool_data(2, 0, 0)),
            3,
            "0 messages were sent, 0 acknowledged, and the file has 1",
        ),
        (
            (START, sent(1, "0", 0, 0), tool_data(2, 2, 2)),
            3,
            "2 messages were sent, 2 acknowledged, and the file has 1",
        ),
        (
            (*CONSUMER[:3], *CONSUMER[4:]),
            4,
            "2 records of partition 0 were consumed, and 1 are in the file",
        ),
        ((*CONSUMER[:4], CONSUMER[-1]), 5, "record_data without its records_consumed"),
        ((*CONSUMER, START), 10, "startup_complete after shutdown_complete, which comes last"),
        (
            (START, (1, "partitions_assigned", {"partitions": [{"topic": "t"}]})),
            2,
            "`partition` of partitions_assigned is None, not a number from 0",
        ),
        (
            (START, (1, "partitions_assigned", {"partitions": 5})),
            2,
            "`partitions` of partitions_assigned is 5, not a list of objects",
        ),
        (
            (START, CONSUMER[1], (1, "offsets_committed", {"offsets": [], "success": 1})),
            3,
            "`success` of offsets_committed is 1, not true or false",
        ),
    ],
)
def test_what_is_wrong_is_told(tmp_path: Path, events: tuple[Any, ...], line: int, message: str) -> None:
    with pytest.raises(ModelError) as caught:
        imported(tmp_path, {"p.log": lines(*events)})
    assert caught.value.message == f"{tmp_path}/p.log:{line}: {message}"


def test_a_line_that_is_no_event(tmp_path: Path) -> None:
    text = lines(*PRODUCER[:2]) + "Bad data can't be written as json: oops\n"
    with pytest.raises(ModelError, match=r"p.log:3: neither an event nor a line of a log: \"Bad data"):
        imported(tmp_path, {"p.log": text})
