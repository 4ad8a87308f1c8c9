"""The Arrow schema of events, as Parquet files contain them."""

from __future__ import annotations

import pyarrow as pa

EVENTS = pa.schema(
    [
        pa.field("process", pa.int32(), nullable=False),
        pa.field("index", pa.int64(), nullable=False),
        pa.field("call", pa.int64(), nullable=False),
        pa.field("operation", pa.int8(), nullable=False),
        pa.field("outcome", pa.int8(), nullable=False),
        pa.field("time_ns", pa.int64(), nullable=False),
        pa.field("wall_us", pa.int64(), nullable=False),
        pa.field("stream", pa.int32(), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("producer", pa.int32(), nullable=False),
        pa.field("number", pa.int64(), nullable=False),
        pa.field("digest", pa.int64(), nullable=False),
        pa.field("group", pa.int32(), nullable=False),
        pa.field("transaction", pa.int64(), nullable=False),
        pa.field("epoch", pa.int32(), nullable=False),
        pa.field("attempt", pa.int32(), nullable=False),
        pa.field("node", pa.int32(), nullable=False),
        pa.field("error", pa.string(), nullable=False),
    ]
)
"""One field for each of `Event`, in its order; absent numbers are -1."""
