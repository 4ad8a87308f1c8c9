"""`DataFrame.write` and `writeStream` to `format("kabis")`.

Tasks only encode rows, and hand them to the driver; there one producer pushes them when all tasks are done.
For a producer is one process: two that sign under one key contradict each other, and Spark may run a task
twice at a time. So a job that fails in a task has pushed nothing, and no secret key leaves the driver.

What is guaranteed, for validated topics:

- a stream: each row of each micro-batch is pushed exactly once, whatever dies and is started again, as
  long as the driver comes back to its `journal`. The writer is known by the query's id, which stands in the
  checkpoint.
- a batch with `writerId`: all rows exactly once, however often the job is run under this id.
- a batch without: at least once, if a job that died while it pushed is run again.

For topics that are not validated it is at least once in all cases.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from pyspark import TaskContext
from pyspark.sql import Row
from pyspark.sql.datasource import DataSourceStreamWriter, DataSourceWriter, WriterCommitMessage
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from veristream.errors import EnvironmentFailure, ModelError
from veristream.kabis.client.producer.producer import KabisProducer
from veristream.kabis.log.disk.files import InUse
from veristream.kabis.protocol.records import encode_leaf
from veristream.kabis.spark.deliver import Staged, check_there, deliver, push, stage
from veristream.kabis.spark.options import WriteOptions
from veristream.kabis.spark.outbox import Outbox, outbox_folder
from veristream.kabis.spark.shown import shown
from veristream.kabis.spark.watch import Watch
from veristream.kabis.wire.handshake import Role

QUERY_PROPERTY = "sql.streaming.queryId"
LOCK_POLL_S = 0.1

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_BYTES = (BinaryType, StringType)
_COLUMNS: dict[str, tuple[type[DataType], ...]] = {
    "topic": (StringType,),
    "partition": (IntegerType, LongType, ShortType),
    "key": _BYTES,
    "value": _BYTES,
    "headers": (ArrayType,),
    "timestamp": (TimestampType,),
}


@dataclass
class Written(WriterCommitMessage):
    """What a task hands to the driver: its rows, and the stream that they are of."""

    query: str | None
    rows: list[Staged]


class KabisWriter(DataSourceWriter):
    """A batch job."""

    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        require_columns(schema, options.topic)
        self._options = options

    def write(self, iterator: Iterator[Row]) -> Written:
        """Encodes the rows of a task."""
        return encode_rows(iterator, self._options.topic)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Pushes all rows, those of the first task first."""
        push_all(self._options, self._options.writer_id, 0, messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Nothing was pushed, or what was pushed stays."""


class KabisStreamWriter(DataSourceStreamWriter):
    """A stream; Spark makes a new one of these for each micro-batch."""

    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        require_columns(schema, options.topic)
        self._options = options

    def write(self, iterator: Iterator[Row]) -> Written:
        """Encodes the rows of a task."""
        return encode_rows(iterator, self._options.topic)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Pushes all rows, those of the first task first."""
        queries = {message.query for message in messages if isinstance(message, Written)}
        assert None not in queries and len(queries) < 2, f"tasks of {queries}"
        if queries:
            push_all(self._options, queries.pop(), batchId, messages)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Nothing was pushed, or what was pushed is in the outbox."""


def require_columns(schema: StructType, topic: str | None) -> None:
    """Raises ModelError unless rows of this schema are events."""
    for field in schema.fields:
        if field.name not in _COLUMNS:
            raise ModelError(
                f"column {field.name} is not one that an event has",
                hint=f"select from {', '.join(_COLUMNS)}",
            )
        if not _fits(field):
            raise ModelError(
                f"column {field.name} is {field.dataType.simpleString()}",
                hint=f"it is {_WORDS.get(field.name) or _COLUMNS[field.name][0]().simpleString()}",
            )
    names = schema.fieldNames()
    if "value" not in names:
        raise ModelError("there is no column value", hint="name one so: select(expr('...').alias('value'))")
    if topic is None and "topic" not in names:
        raise ModelError("option topic is missing", hint="name the topic, or have a column topic")


_WORDS = {
    "key": "binary or string",
    "value": "binary or string",
    "headers": "array<struct<key:string,value:binary>>",
}


def _fits(field: StructField) -> bool:
    if not isinstance(field.dataType, _COLUMNS[field.name]):
        return False
    if not isinstance(field.dataType, ArrayType):
        return True
    element = field.dataType.elementType
    return isinstance(element, StructType) and [
        (each.name, type(each.dataType)) for each in element.fields
    ] == [("key", StringType), ("value", BinaryType)]


def encode_rows(rows: Iterator[Row], topic: str | None) -> Written:
    """The rows of a task as events; one that is none fails the task, and with it the job."""
    context = TaskContext.get()
    query = None if context is None else context.getLocalProperty(QUERY_PROPERTY)
    with shown():
        return Written(query, [encode_row(row, topic) for row in rows])


def encode_row(row: Row, topic: str | None) -> Staged:
    """The event of one row."""
    given: dict[str, Any] = row.asDict()
    chosen = given.get("topic") or topic
    if chosen is None:
        raise ModelError("a row has no topic", hint="fill the column topic, or name one in option topic")
    headers = tuple((each["key"], _to_bytes(each["value"])) for each in given.get("headers") or ())
    try:
        leaf = encode_leaf(
            _to_bytes(given.get("key")), _to_bytes(given["value"]), headers, _to_ms(given.get("timestamp"))
        )
    except ValueError as error:
        raise ModelError(f"a row for {chosen} is no event: {error}") from error
    return Staged(chosen, given.get("partition"), leaf)


def _to_bytes(value: str | bytes | bytearray | None) -> bytes | None:
    if isinstance(value, str):
        return value.encode("utf-8")
    return None if value is None else bytes(value)


def _to_ms(value: datetime | None) -> int | None:
    return None if value is None else (value.astimezone(UTC) - _EPOCH) // timedelta(milliseconds=1)


def push_all(
    options: WriteOptions,
    writer: str | None,
    number: int,
    messages: Sequence[WriterCommitMessage | None],
) -> None:
    """Pushes what the tasks encoded, on the driver."""
    rows = [row for message in messages if isinstance(message, Written) for row in message.rows]
    with shown(), open_producer(options) as producer:
        if writer is None:
            push(producer, stage(producer, rows)[1])
            return
        caller = options.caller
        topics = sorted({row.topic for row in rows})
        outbox = Outbox(outbox_folder(options.journal) / writer)
        connect = caller.connect(Role.CONSUMER)
        watch = Watch(caller.genesis, connect, topics, validate=True, timeout_s=caller.timeout_s)
        with watch:
            deliver(producer, outbox, number, rows, partial(check_there, watch, caller.name))


def open_producer(options: WriteOptions) -> KabisProducer:
    """The one producer under this name, as soon as no other process has its journal."""
    caller = options.caller
    options.journal.mkdir(mode=0o700, parents=True, exist_ok=True)
    deadline_s = time.monotonic() + caller.timeout_s
    while True:
        try:
            connect = caller.connect(Role.PRODUCER)
            return KabisProducer(caller.genesis, caller.author(), connect, journal=options.journal)
        except InUse as error:  # of a driver that died, or somebody pushes under this name
            if time.monotonic() > deadline_s:
                raise EnvironmentFailure(
                    f"another producer pushes as {caller.name}: {error.message}",
                    "wait for it, or give the writer a client of its own: option client",
                ) from error
            time.sleep(LOCK_POLL_S)
