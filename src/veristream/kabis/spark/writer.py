"""`DataFrame.write` and `writeStream` to `format("kabis")`.

Tasks only encode rows and send them to the driver, where one producer pushes them when all tasks are done.
A producer must be a single process: two that sign with one key contradict each other, and Spark may run a
task twice at the same time. So a job that fails in a task has pushed nothing, and no secret key leaves the
driver.

Guarantees for validated topics:

- Stream: each row of each micro-batch is pushed exactly once, even if processes die and are restarted, as
  long as the driver keeps its `journal`. The query's id in the checkpoint identifies the writer.
- Batch with `writerId`: all rows exactly once, even if the job runs again with this id.
- Batch without `writerId`: at least once, if a job that died while pushing is run again.

Unvalidated topics are always at least once.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from pyspark import TaskContext
from pyspark.sql import Row, types
from pyspark.sql.datasource import DataSourceStreamWriter, DataSourceWriter, WriterCommitMessage

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
_BYTES = (types.BinaryType, types.StringType)
_COLUMNS: dict[str, tuple[type[types.DataType], ...]] = {
    "topic": (types.StringType,),
    "partition": (types.IntegerType, types.LongType, types.ShortType),
    "key": _BYTES,
    "value": _BYTES,
    "headers": (types.ArrayType,),
    "timestamp": (types.TimestampType,),
}


@dataclass
class Written(WriterCommitMessage):
    """The rows of a task, and their query."""

    query: str | None
    rows: list[Staged]


class KabisWriter(DataSourceWriter):
    """A batch job."""

    def __init__(self, options: WriteOptions, schema: types.StructType) -> None:
        require_columns(schema, options.topic)
        self._options = options

    def write(self, iterator: Iterator[Row]) -> Written:
        """Encodes the rows of a task."""
        return encode_rows(iterator, self._options.topic)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Pushes all rows, in the order of the tasks."""
        push_all(self._options, self._options.writer_id, 0, messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Does nothing: nothing was pushed, or what was pushed stays."""


class KabisStreamWriter(DataSourceStreamWriter):
    """A stream; Spark creates a new writer for each micro-batch."""

    def __init__(self, options: WriteOptions, schema: types.StructType) -> None:
        require_columns(schema, options.topic)
        self._options = options

    def write(self, iterator: Iterator[Row]) -> Written:
        """Encodes the rows of a task."""
        return encode_rows(iterator, self._options.topic)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Pushes all rows, in the order of the tasks."""
        queries = {message.query for message in messages if isinstance(message, Written)}
        assert None not in queries and len(queries) < 2, f"tasks of {queries}"
        if queries:
            push_all(self._options, queries.pop(), batchId, messages)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Does nothing: nothing was pushed, or what was pushed is in the outbox."""


def require_columns(schema: types.StructType, topic: str | None) -> None:
    """Raises ModelError unless rows of this schema can be events."""
    for field in schema.fields:
        if field.name not in _COLUMNS:
            raise ModelError(
                f"events have no column {field.name}",
                hint=f"columns are {', '.join(_COLUMNS)}",
            )
        if not _fits(field):
            raise ModelError(
                f"column {field.name} has type {field.dataType.simpleString()}",
                hint=f"it must be {_WORDS.get(field.name) or _COLUMNS[field.name][0]().simpleString()}",
            )
    names = schema.fieldNames()
    if "value" not in names:
        raise ModelError("there is no column value", hint="add one: select(expr('...').alias('value'))")
    if topic is None and "topic" not in names:
        raise ModelError("option topic is missing", hint="name the topic, or add a column topic")


_WORDS = {
    "key": "binary or string",
    "value": "binary or string",
    "headers": "array<struct<key:string,value:binary>>",
}


def _fits(field: types.StructField) -> bool:
    if not isinstance(field.dataType, _COLUMNS[field.name]):
        return False
    if not isinstance(field.dataType, types.ArrayType):
        return True
    element = field.dataType.elementType
    return isinstance(element, types.StructType) and [
        (each.name, type(each.dataType)) for each in element.fields
    ] == [("key", types.StringType), ("value", types.BinaryType)]


def encode_rows(rows: Iterator[Row], topic: str | None) -> Written:
    """Encodes the rows of a task; an invalid row fails the task and thus the job."""
    context = TaskContext.get()
    query = None if context is None else context.getLocalProperty(QUERY_PROPERTY)
    with shown():
        return Written(query, [encode_row(row, topic) for row in rows])


def encode_row(row: Row, topic: str | None) -> Staged:
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
        raise ModelError(f"a row for {chosen} is not a valid event: {error}") from error
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
    """Pushes the encoded rows, on the driver."""
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
    """Opens the producer as soon as no other process holds its journal."""
    caller = options.caller
    options.journal.mkdir(mode=0o700, parents=True, exist_ok=True)
    deadline_s = time.monotonic() + caller.timeout_s
    while True:
        try:
            connect = caller.connect(Role.PRODUCER)
            return KabisProducer(caller.genesis, caller.author(), connect, journal=options.journal)
        except InUse as error:  # held by a driver that is dying, or by another producer of this name
            if time.monotonic() > deadline_s:
                raise EnvironmentFailure(
                    f"another producer is running as {caller.name}: {error.message}",
                    "wait until it ends, or use another client: option client",
                ) from error
            time.sleep(LOCK_POLL_S)
