"""Recordings of others, imported and judged: both checkers say the same, and exactly this."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.unit.history.foreign.test_jepsen_log import ops
from tests.unit.history.foreign.test_kafka_clients import (
    START,
    consumed,
    lines,
    place,
    sent,
    tool_data,
)
from tests.unit.history.foreign.test_kafka_clients import record as got
from tests.unit.history.foreign.test_kafka_dump import RECORDED, batch, segment
from tests.unit.history.foreign.told import imported
from veristream.history.foreign.importing import ImportOptions, import_history
from veristream.history.job.run import audit_folder
from veristream.history.oracle.judge import judge
from veristream.history.properties import Property
from veristream.history.store.reader import read_events
from veristream.history.verdicts import Anomaly, Word

DELIVERED, ONCE, ORDER, OFFSET, NEW, ABORTED, WHOLE = (
    Property.DELIVERED,
    Property.ONCE,
    Property.ORDER,
    Property.ONE_OFFSET,
    Property.NOTHING_NEW,
    Property.ABORTED,
    Property.WHOLE,
)


@dataclass(frozen=True, slots=True)
class Case:
    """Files, what holds of them, and all anomalies; every other property is not observable."""

    files: dict[str, str]
    held: set[Property]
    violated: dict[Property, list[Anomaly]] = field(default_factory=dict)


def sends(process: int, *messages: tuple[int, int]) -> list[str]:
    """Sends to key 1, one after the other, each of an offset and a value."""
    told = []
    for offset, value in messages:
        told.append(f"{process} invoke send [[:send 1 {value}]]")
        told.append(f"{process} ok send [[:send 1 [{offset} {value}]]]")
    return told


def polls(process: int, *batches: str) -> list[str]:
    """An assignment of key 1 from the beginning, and polls, each of pairs of an offset and a value."""
    begin = "assign [1], :seek-to-beginning? true"
    told = [f"{process} invoke {begin}", f"{process} ok {begin}"]
    for each in batches:
        told += [f"{process} invoke poll [[:poll]]", f"{process} ok poll [[:poll {{1 [{each}]}}]]"]
    return told


def jepsen(*parts: list[str]) -> dict[str, str]:
    return {"history.edn": ops(*(line for part in parts for line in part))}


def of_message(kind: str, producer: int, number: int, partition: int = 1) -> Anomaly:
    return Anomaly(kind, 0, partition, producer=producer, number=number)


def of_receipt(kind: str, process: int, index: int, partition: int = 1) -> Anomaly:
    return Anomaly(kind, 0, partition, process=process, index=index)


THREE = sends(0, (0, 10), (1, 11), (2, 12))
PAIR = ["0 invoke txn [[:send 1 10] [:send 1 11]]", "0 ok txn [[:send 1 [0 10]] [:send 1 [1 11]]]"]
LOG = {DELIVERED, ONCE, ORDER, OFFSET, NEW}
"""What a history of a log can say without transactions."""

JEPSEN_LOGS = {
    "nothing is wrong": Case(jepsen(THREE, polls(1, "[0 10] [1 11]", "[2 12]")), LOG),
    "lost within a poll": Case(
        jepsen(THREE, polls(1, "[0 10] [2 12]")),
        {ONCE, OFFSET, NEW},
        {DELIVERED: [of_message("lost write", 0, 1)], ORDER: [of_receipt("int-skipped poll", 1, 2)]},
    ),
    "lost between polls": Case(
        jepsen(THREE, polls(1, "[0 10]", "[2 12]")),
        {ONCE, OFFSET, NEW},
        {DELIVERED: [of_message("lost write", 0, 1)], ORDER: [of_receipt("skipped poll", 1, 2)]},
    ),
    "another reader got it": Case(
        jepsen(THREE, polls(1, "[0 10]", "[2 12]"), polls(2, "[0 10] [1 11]")),
        {DELIVERED, ONCE, OFFSET, NEW},
        {ORDER: [of_receipt("skipped poll", 1, 2)]},
    ),
    "polled backwards": Case(
        jepsen(THREE, polls(1, "[0 10] [1 11] [2 12]", "[1 11]")),
        LOG - {ORDER},
        {ORDER: [of_receipt("nonmonotonic poll", 1, 4)]},
    ),
    "sent backwards": Case(
        jepsen(sends(0, (1, 11), (0, 10)), polls(1, "[0 10] [1 11]")),
        LOG - {ORDER},
        {ORDER: [of_message("nonmonotonic send", 0, 1)]},
    ),
    "twice": Case(
        jepsen(THREE, polls(1, "[0 10] [1 11] [2 12] [3 10]")),
        LOG - {ONCE},
        {ONCE: [of_message("duplicate", 0, 0)]},
    ),
    "never sent, and a send that failed": Case(
        jepsen(
            THREE,
            ["0 invoke send [[:send 1 13]]", "0 fail send [[:send 1 13]]"],
            polls(1, "[0 10] [1 11] [2 12] [3 13] [4 99]"),
        ),
        LOG - {NEW},
        {NEW: [of_receipt("unexpected", 1, 5), of_message("unexpected", 0, 3)]},
    ),
    "two at one offset": Case(
        jepsen(THREE, sends(2, (2, 13)), polls(1, "[0 10] [1 11] [2 12]")),
        {ONCE, ORDER, NEW},
        {
            DELIVERED: [of_message("lost write", 1, 0)],
            OFFSET: [Anomaly("inconsistent offset", 0, 1, offset=2)],
        },
    ),
    "transactions": Case(jepsen(PAIR, polls(1, "[0 10] [1 11]")), LOG | {ABORTED, WHOLE}),
    "aborted": Case(
        jepsen(
            PAIR,
            ["0 invoke txn [[:send 1 12]]", "0 fail txn [[:send 1 12]]"],
            polls(1, "[0 10] [1 11] [3 12]"),
        ),
        LOG | {WHOLE},
        {ABORTED: [of_receipt("aborted read", 1, 3)]},
    ),
    "torn": Case(
        jepsen(
            PAIR,
            ["2 invoke txn [[:send 1 12]]", "2 ok txn [[:send 1 [3 12]]]"],
            polls(1, "[0 10] [3 12]"),
        ),
        {ONCE, OFFSET, NEW, ABORTED},
        {
            DELIVERED: [of_message("lost write", 0, 1)],
            ORDER: [of_receipt("int-skipped poll", 2, 2)],
            WHOLE: [Anomaly("torn transaction", producer=0, process=2, transaction=0)],
        },
    ),
}


def enqueued(*values: int) -> list[str]:
    return [f"0 {kind} enqueue {value}" for value in values for kind in ("invoke", "ok")]


def taken(*values: int, drained: str) -> list[str]:
    """Dequeues, and a drain in the end."""
    dequeues = [line for each in values for line in ("1 invoke dequeue nil", f"1 ok dequeue {each}")]
    return [*dequeues, "1 invoke drain nil", f"1 ok drain {drained}"]


QUEUE = {DELIVERED, ONCE, ORDER, NEW}
"""What a history of a queue can say."""

JEPSEN_QUEUES = {
    "nothing is wrong": Case(jepsen(enqueued(0, 1), taken(0, drained="[1]")), QUEUE),
    "lost": Case(
        jepsen(enqueued(0, 1, 2), taken(0, drained="[2]")),
        QUEUE - {DELIVERED},
        {DELIVERED: [of_message("lost write", 0, 1, 0)]},
    ),
    "not drained": Case(jepsen(enqueued(0, 1, 2), taken(0, 1, drained="[]")[:-2]), QUEUE - {DELIVERED}),
    "all that can be wrong": Case(
        jepsen(enqueued(0, 1, 2), taken(1, 0, 0, drained="[7]")),
        set(),
        {
            DELIVERED: [of_message("lost write", 0, 2, 0)],
            ONCE: [of_message("duplicate", 0, 0, 0)],
            ORDER: [of_receipt("nonmonotonic poll", 1, 1, 0)],
            NEW: [of_receipt("unexpected", 1, 4, 0)],
        },
    ),
}

PRODUCER = lines(START, sent(1, "0", 0, 0), sent(2, "1", 0, 1), sent(3, "2", 0, 2), tool_data(4, 3, 3))


def consumer(*records: tuple[str, int]) -> str:
    """The output of a consumer that got values at offsets in one poll."""
    offsets = [offset for _, offset in records]
    return lines(
        START,
        (5, "partitions_assigned", {"partitions": [place(0)]}),
        *(got(30, value, 0, offset) for value, offset in records),
        consumed(31, place(0, count=len(records), minOffset=min(offsets), maxOffset=max(offsets))),
        (40, "shutdown_complete", {}),
    )


WHOLE_CONSUMER = consumer(("0", 0), ("1", 1), ("2", 2))
WRONG_CONSUMER = consumer(("0", 0), ("2", 2), ("9", 3), ("0", 4))
WRONG = {
    ONCE: [of_message("duplicate", 0, 0, 0)],
    ORDER: [of_receipt("int-skipped poll", 1, 2, 0)],
    NEW: [of_receipt("unexpected", 1, 3, 0)],
}

KAFKA_CLIENTS = {
    "nothing is wrong": Case({"p.log": PRODUCER, "c.log": WHOLE_CONSUMER}, LOG),
    "all that can be wrong": Case(
        {"p.log": PRODUCER, "c.log": WRONG_CONSUMER},
        {OFFSET},
        {DELIVERED: [of_message("lost write", 0, 1, 0)], **WRONG},
    ),
    "the log has what the consumer lacks": Case(
        {
            "p.log": PRODUCER,
            "c.log": WRONG_CONSUMER,
            "broker-1.txt": segment("t", 0) + batch(0, "0", "1", "2", "9", "0"),
        },
        {DELIVERED, OFFSET},
        {**WRONG, NEW: [*WRONG[NEW], of_receipt("unexpected", 2, 3, 0)]},
    ),
    "the log was written anew": Case(
        {"p.log": PRODUCER, "broker-1.txt": segment("t", 0) + batch(0, "0", "9", "2", epoch=3)},
        {ONCE, ORDER, OFFSET},
        {DELIVERED: [of_message("lost write", 0, 1, 0)], NEW: [of_receipt("unexpected", 1, 1, 0)]},
    ),
    "the log ends early": Case(
        {"p.log": PRODUCER, "broker-1.txt": segment("t", 0) + batch(0, "0")}, {ONCE, ORDER, OFFSET, NEW}
    ),
    "a transaction was aborted": Case(
        {
            "p.log": PRODUCER,
            "broker-1.txt": segment("t", 0)
            + batch(0, "0")
            + batch(1, "1", producer=9)
            + batch(2, "2")
            + batch(3, "ABORT", producer=9),
        },
        {ONCE, OFFSET, NEW},
        {
            DELIVERED: [of_message("lost write", 0, 1, 0)],
            ORDER: [of_receipt("int-skipped poll", 1, 1, 0)],
        },
    ),
}

CASES = {
    f"{kind}: {name}": case
    for kind, cases in (("log", JEPSEN_LOGS), ("queue", JEPSEN_QUEUES), ("clients", KAFKA_CLIENTS))
    for name, case in cases.items()
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_both_checkers_say_exactly_this(tmp_path: Path, case: Case) -> None:
    manifest, events = imported(tmp_path, case.files)
    judgements = judge(manifest, events)
    assert audit_folder(tmp_path / "history").judgements == judgements
    words = {Property(one.property): one.word for one in judgements}
    assert {each for each, word in words.items() if word is Word.HELD} == case.held
    found = {
        Property(one.property): [witness.anomaly for witness in one.witnesses]
        for one in judgements
        if one.word is Word.VIOLATED
    }
    assert found == case.violated
    assert sum(sum(one.counts.values()) for one in judgements) == sum(map(len, found.values()))


def test_what_the_tools_of_kafka_printed(tmp_path: Path) -> None:
    """Its log has a committed message, and what has no value, of producers that the history lacks."""
    manifest, _ = import_history([RECORDED], tmp_path / "history", ImportOptions(one_host=True))
    judgements = judge(manifest, read_events(tmp_path / "history"))
    assert audit_folder(tmp_path / "history").judgements == judgements
    assert {one.property: one.counts for one in judgements if one.counts} == {NEW: {"unexpected": 1}}
    words = {Property(one.property): one.word for one in judgements}
    assert {each for each, word in words.items() if word is Word.HELD} == LOG - {NEW}
