"""The engine on Spark: our tasks are the rows of a DataFrame, and parts are joined by one exchange.

Tasks open their own files, so that no event crosses the JVM. What a task returns or sends travels pickled
in a binary column; an expected failure of a task travels like a result, so that it keeps its words and is
not tried again. Only DataFrames are used, so this also runs on Spark Connect.
"""

from __future__ import annotations

import pickle
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Final

import pyarrow as pa
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from veristream.errors import EnvironmentFailure, ModelError
from veristream.history.job.engine import RESULT, Failure, Joining, Sending, Work, failure_of

_DDL: Final = "`part` int, `number` int, `body` binary"
_SCHEMA: Final = pa.schema([("part", pa.int32()), ("number", pa.int32()), ("body", pa.binary())])
_JOINED, _FAILED = -2, -3
"""In the place of a part: `number` is that of a part, or of a task that failed."""

MANY: Final = 1 << 16

Row = tuple[int, int, Any]


class OnSpark:
    """Runs tasks in a Spark session: several in one task of Spark, if there are more than `at_once`."""

    def __init__(self, session: SparkSession, at_once: int = MANY) -> None:
        self._session = session
        self._at_once = at_once

    def map(self, count: int, work: Work) -> list[Any]:
        """Returns the results of all tasks in their order."""

        def send(number: int) -> Iterator[tuple[int, Any]]:
            yield RESULT, work(number)

        results, _ = _collect(self._spread(count, send))
        return [results[number] for number in range(count)]

    def join(self, count: int, work: Sending, parts: int, joining: Joining) -> tuple[list[Any], list[Any]]:
        """Returns the results of all tasks, and those of all parts, in their orders."""

        def join(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            waiting: dict[int, list[Any]] = {}
            for batch in batches:
                for part, number, body in _rows(batch):
                    if part < 0:
                        yield _batch(part, number, body)
                    else:
                        waiting.setdefault(part, []).append(pickle.loads(body))
            for part in sorted(waiting):
                try:
                    result = joining(part, waiting.pop(part))
                except (ModelError, EnvironmentFailure) as error:
                    yield _batch(_FAILED, count + part, pickle.dumps(failure_of(error)))
                else:
                    yield _batch(_JOINED, part, pickle.dumps(result))

        exchanged = self._spread(count, work).repartition(parts + 1, "part")
        results, joined = _collect(exchanged.mapInArrow(join, _DDL))
        found = [joined[part] if part in joined else joining(part, []) for part in range(parts)]
        return [results[number] for number in range(count)], found

    def _spread(self, count: int, work: Sending) -> DataFrame:
        def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                for number in batch.column(0).to_pylist():
                    try:
                        for part, sent in work(number):
                            yield _batch(part, number, pickle.dumps(sent))
                    except (ModelError, EnvironmentFailure) as error:
                        yield _batch(_FAILED, number, pickle.dumps(failure_of(error)))

        return self._session.range(0, count, 1, min(count, self._at_once)).mapInArrow(run, _DDL)


def _batch(part: int, number: int, body: bytes) -> pa.RecordBatch:
    return pa.record_batch([[part], [number], pa.array([body], pa.binary())], schema=_SCHEMA)


def _rows(data: pa.RecordBatch | pa.Table) -> Iterator[Row]:
    columns = (data.column(name).to_pylist() for name in _SCHEMA.names)
    return zip(*columns, strict=True)


def _collect(frame: DataFrame) -> tuple[dict[int, Any], dict[int, Any]]:
    """Returns the results of tasks and of parts by their numbers; raises the failure of the lowest task."""
    with _spark_failures():
        table = _wait_for(frame)
    found: dict[int, dict[int, Any]] = {RESULT: {}, _JOINED: {}, _FAILED: {}}
    for part, number, body in _rows(table):
        found[part][number] = pickle.loads(body)
    if found[_FAILED]:
        failure: Failure = found[_FAILED][min(found[_FAILED])]
        raise failure.revive()
    return found[RESULT], found[_JOINED]


def _wait_for(frame: DataFrame) -> pa.Table:
    """Runs the job of a frame in a thread of its own, so that Ctrl-C does not interrupt a call to the JVM:
    PySpark cancels the job in the main thread, by another call."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(frame.toArrow).result()


_MISSING = re.compile(r"No module named '([\w.]+)")


@contextmanager
def _spark_failures() -> Iterator[None]:
    """Turns failures of Spark into an EnvironmentFailure with a hint."""
    try:
        yield
    except (PySparkException, Py4JError) as error:
        missing = _MISSING.search(str(error))
        if missing is not None:
            raise EnvironmentFailure(
                f"the Python of the cluster's workers has no {missing[1]}",
                "install it there, or ship it: see docs/spark.md",
            ) from error
        lines = [line for line in str(error).strip().splitlines() if line]
        raise EnvironmentFailure(f"a job of the audit failed: {lines[-1] if lines else error}") from error
