"""Events as rows: the schema, and Arrow record batches of it.

| column | type | meaning |
| --- | --- | --- |
| `topic`, `partition` | string, int | place of the event |
| `index` | long | index in the partition: the validated index, or the party's offset if basic |
| `key`, `value` | binary | as pushed; may be null |
| `headers` | array of key and value | as pushed |
| `timestamp` | timestamp | the event's own timestamp, claimed by the producer; may be null |
| `block_time`, `height` | timestamp, long | the block that admitted it; null if basic |
| `producer` | string | who signed it; null if basic |
| `guarantee` | string | `extended` or `basic` |
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa

from veristream.kabis.client.consumed import Consumed

ROWS_MAX = 4096
BYTES_MAX = 4 << 20
"""A record batch is sent when it has `ROWS_MAX` rows, or `BYTES_MAX` bytes of keys and values."""
TIME_MS_MAX = 253_402_300_799_999
"""The end of the year 9999, the last that Spark can show; a producer may sign any number as time."""

_TIME = pa.timestamp("us", tz="UTC")
_HEADERS = pa.list_(
    pa.field("element", pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
)
ARROW = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("index", pa.int64()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", _HEADERS),
        ("timestamp", _TIME),
        ("block_time", _TIME),
        ("height", pa.int64()),
        ("producer", pa.string()),
        ("guarantee", pa.string()),
    ]
)
"""The Arrow form of `source.SCHEMA`; Spark refuses record batches of another schema."""


def to_batches(events: Iterable[Sequence[Consumed]]) -> Iterator[pa.RecordBatch]:
    """Converts chunks of events to record batches of moderate size."""
    rows: list[Consumed] = []
    size = 0
    for some in events:
        for event in some:
            rows.append(event)
            size += len(event.key or b"") + len(event.value or b"")
            if len(rows) >= ROWS_MAX or size >= BYTES_MAX:
                yield to_batch(rows)
                rows, size = [], 0
    if rows:
        yield to_batch(rows)


def to_batch(events: Sequence[Consumed]) -> pa.RecordBatch:
    """Converts events to one record batch."""
    origins = [event.origin for event in events]
    columns = [
        [origin.topic for origin in origins],
        [origin.partition for origin in origins],
        [event.index for event in events],
        [event.key for event in events],
        [event.value for event in events],
        [[{"key": name, "value": value} for name, value in event.headers] for event in events],
        [_to_us(event.timestamp_ms) for event in events],
        [_to_us(origin.time_ms) for origin in origins],
        [origin.height for origin in origins],
        [origin.producer for origin in origins],
        ["basic" if origin.digest is None else "extended" for origin in origins],
    ]
    arrays = [pa.array(column, type=field.type) for column, field in zip(columns, ARROW, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=ARROW)


def _to_us(time_ms: int | None) -> int | None:
    return None if time_ms is None or time_ms > TIME_MS_MAX else time_ms * 1000
