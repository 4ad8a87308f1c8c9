"""Events as record batches."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from veristream.kabis.client.consumed import Consumed, Origin
from veristream.kabis.spark import rows

SIGNED = Origin("orders", 1, "alice", 7, 1_700_000_000_123, b"d" * 32)
BELIEVED = Origin("logs", 0, None, None, None, None)


def event(index: int, origin: Origin = SIGNED, value: bytes | None = b"v") -> Consumed:
    return Consumed(index, b"k", value, (("h", b"1"), ("n", None)), 1_600_000_000_001, origin)


def test_every_column() -> None:
    batch = rows.to_batch([event(3), Consumed(4, None, None, (), None, BELIEVED)])
    assert batch.to_pylist() == [
        {
            "topic": "orders",
            "partition": 1,
            "index": 3,
            "key": b"k",
            "value": b"v",
            "headers": [{"key": "h", "value": b"1"}, {"key": "n", "value": None}],
            "timestamp": datetime(2020, 9, 13, 12, 26, 40, 1000, tzinfo=UTC),
            "block_time": datetime(2023, 11, 14, 22, 13, 20, 123000, tzinfo=UTC),
            "height": 7,
            "producer": "alice",
            "guarantee": "extended",
        },
        {
            "topic": "logs",
            "partition": 0,
            "index": 4,
            "key": None,
            "value": None,
            "headers": [],
            "timestamp": None,
            "block_time": None,
            "height": None,
            "producer": None,
            "guarantee": "basic",
        },
    ]


@pytest.mark.parametrize(("time_ms", "year"), [(253_402_300_799_999, 9999), (253_402_300_800_000, None)])
def test_a_time_that_nobody_can_show_is_none(time_ms: int, year: int | None) -> None:
    """A producer may sign any number of 64 bits; it must not stop those who read."""
    found = rows.to_batch([event(0)._replace(timestamp_ms=time_ms)]).column("timestamp")[0].as_py()
    assert (found.year if found else None) == year
    assert rows.to_batch([event(0)._replace(timestamp_ms=(1 << 64) - 1)])["timestamp"][0].as_py() is None


def test_record_batches_are_neither_tiny_nor_huge(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "ROWS_MAX", 4)
    monkeypatch.setattr(rows, "BYTES_MAX", 100)
    some = [
        [event(0)],
        [event(1), event(2)],
        [],
        [event(3), event(4)],
        [event(5, value=b"x" * 200)],
        [event(6)],
    ]
    batches = list(rows.to_batches(some))
    assert [batch.column("index").to_pylist() for batch in batches] == [[0, 1, 2, 3], [4, 5], [6]]
    assert list(rows.to_batches([[], []])) == []
