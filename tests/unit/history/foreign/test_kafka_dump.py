"""Dumps of a broker's log: read strictly, joined to what clients saw, and asked why a message is lost.

Lines have the form that tools/src/main/java/org/apache/kafka/tools/DumpLogSegments.java of apache/kafka
prints with --print-data-log.
"""

from __future__ import annotations

from pathlib import Path
from zlib import crc32

import pytest

from tests.unit.history.foreign.test_kafka_clients import PRODUCER, PRODUCER_TOLD, lines
from tests.unit.history.foreign.told import imported, tell
from veristream.errors import ModelError
from veristream.history.events import NONE, Event, Operation, Outcome
from veristream.history.foreign.importing import ImportOptions, import_history
from veristream.history.foreign.kafka.dump import Dump, PartitionLog, Record, read_dump
from veristream.history.foreign.kafka.view import attribute, view_logs
from veristream.history.identity import UNKNOWN, encode_payload
from veristream.history.manifest import Manifest, Process, Stream
from veristream.history.store.reader import read_events
from veristream.history.verdicts import Anomaly, Witness


def segment(topic: str, partition: int, start: int = 0) -> str:
    return f"Dumping /data/{topic}-{partition}/{start:020d}.log\nLog starting offset: {start}\n"


def batch(base: int, *records: str, producer: int = -1, epoch: int = 0, **flags: str) -> str:
    """A batch with these records: payloads, or COMMIT or ABORT for the marker of a transaction."""
    last = base + len(records) - 1
    control = "true" if records[0] in ("COMMIT", "ABORT") else "false"
    transactional = "true" if producer >= 0 else "false"
    text = (
        f"baseOffset: {base} lastOffset: {last} count: {len(records)} baseSequence: -1 lastSequence: -1 "
        f"producerId: {producer} producerEpoch: {0 if producer >= 0 else -1} partitionLeaderEpoch: {epoch} "
        f"isTransactional: {transactional} isControl: {control} deleteHorizonMs: OptionalLong.empty "
        f"position: {base * 100} CreateTime: 1700000000000 size: 100 magic: 2 compresscodec: none "
        f"crc: 123456 isvalid: {flags.get('valid', 'true')}\n"
    )
    for number, record in enumerate(records):
        head = f"| offset: {base + number} CreateTime: 1700000000000"
        if control == "true":
            rest = "keySize: 4 valueSize: 6 sequence: -1 headerKeys: [] "
            rest += f"endTxnMarker: {record} coordinatorEpoch: 0"
        else:
            size = len(record.encode())
            rest = f"keySize: -1 valueSize: {size} sequence: -1 headerKeys: [] payload: {record}"
        text += f"{head} {rest}\n"
    return text


LOG = (
    segment("t", 0)
    + batch(0, "0", "7")
    + batch(2, "5", producer=9)
    + batch(3, "ABORT", producer=9)
    + batch(4, "two\nlines", producer=9, epoch=1)
    + batch(5, "COMMIT", producer=9, epoch=1)
    + batch(6, "é", producer=8, epoch=1)
    + batch(7, "after", epoch=1)
    + segment("t", 1)
)


def read(folder: Path, text: str, name: str = "broker-1.txt") -> Dump:
    (folder / name).write_text(text, encoding="utf-8")
    return read_dump(folder / name)


def test_a_dump_is_read(tmp_path: Path) -> None:
    dump = read(tmp_path, LOG)
    assert dump.name == "broker-1"
    assert dump.partitions == {
        ("t", 0): PartitionLog(
            0,
            8,
            [
                Record(0, -1, -1, 0, False, True, "0"),
                Record(1, -1, -1, 0, False, True, "7"),
                Record(2, 9, 0, 0, True, True, "5"),
                Record(3, 9, 0, 0, True, True, None, "ABORT"),
                Record(4, 9, 0, 1, True, True, "two\nlines"),
                Record(5, 9, 0, 1, True, True, None, "COMMIT"),
                Record(6, 8, 0, 1, True, True, "é"),
                Record(7, -1, -1, 1, False, True, "after"),
            ],
        ),
        ("t", 1): PartitionLog(0, 0),
    }


def test_a_key_a_header_and_no_value(tmp_path: Path) -> None:
    text = segment("a-b", 12, 40) + batch(41, "x", "").replace(
        "keySize: -1 valueSize: 1 sequence: -1 headerKeys: [] payload: x",
        "keySize: 5 valueSize: 1 sequence: -1 headerKeys: [veristream-id,b] key:  key: payload: x",
    ).replace(
        "valueSize: 0 sequence: -1 headerKeys: [] payload: ", "valueSize: -1 sequence: -1 headerKeys: []"
    )
    log = read(tmp_path, text).partitions["a-b", 12]
    assert (log.start, log.end) == (40, 43)
    assert [record.payload for record in log.records] == ["x", None]


def test_segments_of_one_partition_are_one_log(tmp_path: Path) -> None:
    text = segment("t", 0) + batch(0, "a") + segment("t", 0, 5) + batch(5, "b")
    text += "Found 17 invalid bytes at the end of 00000000000000000005.log\n"
    log = read(tmp_path, text).partitions["t", 0]
    assert (log.start, log.end, log.invalid_bytes) == (0, 6, 17)
    assert [record.offset for record in log.records] == [0, 5]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("hello\n", "1: unknown line 'hello'"),
        (batch(0, "a"), "1: a batch that no line `Log starting offset` precedes"),
        ("Log starting offset: 0\n", "1: a log that no line `Dumping ...` names"),
        (
            "Dumping 00000000000000000000.log\n",
            "1: `00000000000000000000.log` does not name a topic and a partition",
        ),
        (segment("t", 0).splitlines()[0], "1: the dump ends before the log of its last segment"),
        (LOG + batch(3, "x") + batch(3, "y"), "23: offsets 3 to 3 do not follow 3"),
        (
            segment("t", 0) + batch(0, "a").split("\n")[0],
            "3: the batch has 1 records, and 0 are in the dump",
        ),
        (
            segment("t", 0) + batch(0, "a", "b").split("\n| offset: 1")[0],
            "3: the batch has 2 records, and 1 are in the dump",
        ),
        (
            segment("t", 0) + batch(0, "abc")[:-2],
            "4: the payload of a record is shorter than its valueSize",
        ),
        (
            segment("t", 0) + batch(0, "abc").replace(" payload: abc", ""),
            "4: a record without its payload: the dump is cut, or made without --print-data-log",
        ),
        (
            segment("t", 0) + batch(0, "abc").replace(": abc", ": abcd"),
            "4: key and payload of the record do not have 0 and 3 bytes",
        ),
        (
            segment("t", 0) + batch(0, "a").replace("magic: 2", "magic: 1"),
            "3: batches of magic 1 are not read",
        ),
        (
            segment("t", 0)
            + "offset: 5 position: 0 CreateTime: 1 size: 9 magic: 1 compresscodec: none isvalid: true\n",
            "3: batches older than magic 2 are not read",
        ),
        (
            segment("t", 0) + batch(5, "a") + segment("t", 0, 2),
            "6: the segment begins at offset 2, and the one before it ended at 6",
        ),
        (
            segment("t", 0) + batch(0, "a", "b").replace("offset: 1 C", "offset: 0 C"),
            "5: offset 0 is not in its place in the batch 0 to 1",
        ),
    ],
)
def test_a_dump_that_is_cut_or_malformed(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ModelError) as caught:
        read(tmp_path, text)
    assert caught.value.message == f"{tmp_path}/broker-1.txt:{message}"


def test_a_log_joins_the_clients_as_a_reader(tmp_path: Path) -> None:
    files = {"p.log": lines(*PRODUCER), "broker-1.txt": LOG}
    manifest, events = imported(tmp_path, files, ImportOptions(one_host=True))
    assert manifest.processes[1] == Process("log of broker broker-1", "host", "read_committed")
    assert tell(manifest, events) == [
        *PRODUCER_TOLD,
        "21000001 log of broker broker-1: RECEIVE ok t/0 0:0 @0",
        "21000001 log of broker broker-1: RECEIVE ok t/0 @1",
        "21000001 log of broker broker-1: RECEIVE ok t/0 @4",  # 2 was aborted, 6 is open
        "21000001 log of broker broker-1: READ_TO_END ? t/0",
        "21000001 log of broker broker-1: READ_TO_END ok t/0 from 0 @6",
    ]


def test_the_latest_leader_is_read(tmp_path: Path) -> None:
    """A former leader may have what the cluster has lost."""
    former = segment("t", 0) + batch(0, "0", "1", "2")
    latest = segment("t", 0) + batch(0, "9", epoch=2)
    files = {"p.log": lines(*PRODUCER), "a.txt": former, "b.txt": latest}
    told = tell(*imported(tmp_path, files))
    assert told[5:] == [
        "21000001 log of broker b: RECEIVE ok t/0 @0",
        "21000001 log of broker b: READ_TO_END ? t/0",
        "21000001 log of broker b: READ_TO_END ok t/0 from 0 @1",
    ]


def test_dumps_alone_are_no_recording(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no client's recording is named"):
        imported(tmp_path, {"broker-1.txt": LOG})


MANIFEST = Manifest("kafka", (Process("p"),), (Stream("t"),))


def lost(number: int, offset: int, digest: int = 0) -> Witness:
    anomaly = Anomaly("lost write", stream=0, partition=0, producer=0, number=number)
    sent = Event(
        0, 0, 0, Operation.SEND, Outcome.OK,
        stream=0, partition=0, offset=offset, producer=0, number=number, digest=digest,
    )  # fmt: skip
    return Witness(anomaly, "", (sent,))


def message(number: int, body: str = "") -> str:
    return encode_payload(0, number, body.encode()).decode()


STORED = (
    segment("t", 0, 1)
    + batch(1, message(0))
    + batch(2, message(1), producer=9)
    + batch(3, "ABORT", producer=9)
    + batch(4, message(2), producer=9)
    + batch(5, message(3), valid="false")
    + batch(7, "plain", epoch=3)
)


@pytest.mark.parametrize(
    ("witness", "why"),
    [
        (lost(0, 1), "it was written at offset 1; readers skipped it"),
        (
            lost(0, 6),
            "it was written at offset 1, although offset 6 was acknowledged; readers skipped it",
        ),
        (
            lost(1, 2),
            (
                "it was written at offset 2; its transaction was aborted, so that readers of committed "
                "messages do not get it"
            ),
        ),
        (
            lost(2, 4),
            (
                "it was written at offset 4; its transaction has never ended, so that readers of committed "
                "messages stop before it"
            ),
        ),
        (lost(3, 5), "it was written at offset 5, and the checksum of its batch is wrong"),
        (
            lost(8, 8),
            (
                "offset 8 was acknowledged, and the log ends before offset 8: it was truncated, or never "
                "written here"
            ),
        ),
        (lost(8, 0), "offset 0 was acknowledged, and the log begins at offset 1: it was deleted"),
        (
            lost(8, 1),
            (
                "offset 1 was acknowledged, and the log has another message there, of leader epoch 0: "
                "the log was truncated and written anew"
            ),
        ),
        (
            lost(8, 3),
            (
                "offset 3 was acknowledged, and the log has the marker of a transaction there, of leader "
                "epoch 0: the log was truncated and written anew"
            ),
        ),
        (lost(8, 6), "offset 6 was acknowledged, and the log has no record there: it was compacted away"),
        (lost(8, 7), "offset 7 was acknowledged, and the record there does not say which message it is"),
        (lost(8, 7, crc32(b"plain")), "it was written at offset 7; readers skipped it"),
        (
            lost(8, 7, 1),
            (
                "offset 7 was acknowledged, and the log has another message there, of leader epoch 3: "
                "the log was truncated and written anew"
            ),
        ),
        (lost(8, NONE), "no record is known to be it, and some records are of unknown messages"),
    ],
)
def test_why_a_message_is_lost(tmp_path: Path, witness: Witness, why: str) -> None:
    view = view_logs([read(tmp_path, STORED)], MANIFEST)
    assert attribute(witness, view) == why


def test_a_loss_by_several_brokers_or_none(tmp_path: Path) -> None:
    dumps = [
        read(tmp_path, segment("t", 0) + batch(0, message(0)), "one.txt"),
        read(tmp_path, segment("t", 0) + batch(0, message(5)), "two.txt"),
    ]
    view = view_logs(dumps, MANIFEST)
    assert attribute(lost(5, 0), view) == (
        "one: offset 0 was acknowledged, and the log has another message there, of leader epoch 0: "
        "the log was truncated and written anew; two: it was written at offset 0; readers skipped it"
    )
    assert attribute(lost(8, NONE), view) == (
        "one, two: no record from offset 0 to 0 is it: it was never written, or truncated"
    )
    assert attribute(lost(0, 0), view_logs([], MANIFEST)) == "no dump has the log of this partition"
    other = Witness(Anomaly("duplicate", 0, 0), "", ())
    assert attribute(other, view) == ""


RECORDED = Path(__file__).parent / "recorded"
"""What the tools of Kafka 4.1.1 printed: 40 messages, then transactions and bytes that are not UTF-8."""


def test_what_the_tools_really_print(tmp_path: Path) -> None:
    manifest, count = import_history([RECORDED], tmp_path / "history", ImportOptions(one_host=True))
    events = list(read_events(tmp_path / "history"))
    assert (count, len(events)) == (132, 132)
    assert [process.name for process in manifest.processes] == [
        "producer",
        "consumer",
        "log of broker broker-1",
    ]
    told = tell(manifest, [event for event in events if event.process == 2])
    assert [line.partition("RECEIVE ")[2] for line in told if "RECEIVE" in line] == [
        *(f"ok t/0 0:{number} @{number}" for number in range(40)),
        "ok t/0 @40",  # committed
    ]
    assert told[-1].endswith("READ_TO_END ok t/0 from 0 @44")  # up to an open transaction
    received = [event for event in events if event.process == 1 and event.operation is Operation.RECEIVE]
    assert [(event.producer, event.number, event.offset) for event in received] == [
        (0, number, number) for number in range(40)
    ]


def test_what_kafka_really_dumps() -> None:
    log = read_dump(RECORDED / "broker-1.txt").partitions["t", 0]
    assert (log.start, log.end) == (0, 48)
    assert [(record.marker, record.payload) for record in log.records[40:]] == [
        ("", "committed"),
        ("COMMIT", None),
        ("", "aborted\nin two lines"),
        ("ABORT", None),
        ("", "vs:3:12345;open"),
        ("", "\ufffd\ufffd binary"),
        ("", None),
        ("", ""),
    ]
    (view,) = view_logs([read_dump(RECORDED / "broker-1.txt")], MANIFEST).logs[0, 0]
    assert view.stable_end == 44
    assert [each.identity for each in view.stored if each.identity != UNKNOWN] == [(3, 12345)]
    told = [each.fate.value for each in view.stored if each.record.offset >= 40]
    assert told == ["committed", "aborted", "open", "committed", "committed", "committed"]


def test_a_loss_of_a_verifiable_producer(tmp_path: Path) -> None:
    """Its values are not in the history, but their digests are."""
    manifest, events = imported(tmp_path, {"p.log": lines(*PRODUCER)})
    (acknowledged,) = [event for event in events if event.offset == 0 and event.partition == 0]
    witness = Witness(Anomaly("lost write", 0, 0, producer=0, number=0), "", (acknowledged,))
    view = view_logs([read(tmp_path, segment("t", 0) + batch(0, "0"))], manifest)
    assert attribute(witness, view) == "it was written at offset 0; readers skipped it"
    view = view_logs([read(tmp_path, segment("t", 0) + batch(0, "1"))], manifest)
    assert attribute(witness, view) == (
        "offset 0 was acknowledged, and the log has another message there, of leader epoch 0: "
        "the log was truncated and written anew"
    )
