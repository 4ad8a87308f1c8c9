"""A producer whose journal meets a full disk: a clear error, nothing lost, and it goes on afterwards."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kabis.client.world import consuming, make_cluster, producing, pull, values
from veristream.kabis.client.errors import ClosedError
from veristream.kabis.client.producer.journal import JournalError
from veristream.kabis.log.disk.segment import HEADER_BYTES
from veristream.kabis.protocol.records import Record
from veristream_testing.limits import file_size_limit


def record(value: bytes) -> Record:
    return Record("orders", value, partition=0)


def test_a_full_disk_fails_what_is_not_acknowledged_and_says_why(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = make_cluster()
    with producing(cluster, journal=tmp_path, batch_events=1) as producer:
        assert producer.push(record(b"before")).result(30).index == 0
        with file_size_limit(HEADER_BYTES + 1500):
            pushed = [producer.push(record(b"x" * 4000)) for _ in range(3)]
            for each in pushed:
                with pytest.raises(JournalError) as caught:
                    each.result(30)
        assert str(tmp_path) in caught.value.message and "File too large" in caught.value.message
        assert "make room" in caught.value.hint
        with pytest.raises(JournalError):
            producer.push(record(b"after"))
        assert not isinstance(caught.value, ClosedError)
    assert "Traceback" not in caplog.text and not caplog.records, "no task has crashed"
    assert cluster.ledger.partition("orders", 0).next_index == 1, "what was not journaled was not sent"
    with producing(cluster, journal=tmp_path) as producer, consuming(cluster) as consumer:
        assert producer.push(record(b"again")).result(30).index == 1
        assert values(pull(consumer, 2)) == [b"before", b"again"]
    for party in cluster.parties.values():
        assert party.core.evidence("orders") == []


def test_what_the_journal_had_room_for_is_sent_by_the_next_producer(tmp_path: Path) -> None:
    """The first of two batches fits: its event may fail here, and then is in the journal."""
    cluster = make_cluster()
    with (
        producing(cluster, journal=tmp_path, batch_events=1) as producer,
        file_size_limit(HEADER_BYTES + 2000),
    ):
        producer.push(record(b"fits"))
        with pytest.raises(JournalError):
            producer.push(record(b"x" * 4000)).result(30)
    with producing(cluster, journal=tmp_path) as producer, consuming(cluster) as consumer:
        producer.push(record(b"next")).result(30)
        assert values(pull(consumer, 2)) == [b"fits", b"next"]
