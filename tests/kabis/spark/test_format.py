"""`format("kabis")` on a real cluster, one of whose storage parties lies: batches read and written."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.kabis.spark.lake import LIAR, Lake, altered, events_of
from veristream.kabis.protocol.records import Record

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

HEADERS = (("trace", b"7"), ("empty", None))


def error_of(call: Any) -> str:
    """What Spark shows of an error."""
    from pyspark.errors import PySparkException

    with pytest.raises(PySparkException) as caught:
        call()
    return str(caught.value)


def test_every_column_of_every_event(lake: Lake) -> None:
    lake.set_topic("columns", 2)
    sent = Record("columns", b"pears", b"anna", HEADERS, 1_700_000_000_123, 1)
    bare = Record("columns", None, partition=0)
    (first, second) = lake.push([sent, bare])
    rows = {row.partition: row.asDict(recursive=True) for row in lake.read("columns").collect()}
    assert rows[1] | {"height": 0} == {
        "topic": "columns",
        "partition": 1,
        "index": 0,
        "key": b"anna",
        "value": b"pears",
        "headers": [{"key": "trace", "value": b"7"}, {"key": "empty", "value": None}],
        "timestamp": local(1_700_000_000_123),
        "block_time": local(first.time_ms or 0),
        "height": 0,
        "producer": "producer",
        "guarantee": "extended",
    }
    assert first.receipt().block.header.height == rows[1]["height"]
    assert [rows[0][name] for name in ("key", "value", "headers", "timestamp")] == [None, None, [], None]
    assert rows[0]["block_time"] == local(second.time_ms or 0)


def local(time_ms: int) -> datetime:
    """As Spark shows a time to Python."""
    return datetime.fromtimestamp(time_ms / 1000, UTC).astimezone().replace(tzinfo=None)


def test_several_topics_in_many_tasks_under_a_lie(lake: Lake) -> None:
    lake.set_topic("left", 3)
    lake.set_topic("right", 1)
    pushed = lake.fill("left", 3, 0, 150) + lake.fill("right", 1, 0, 30)
    frame = lake.read("left,right", maxRowsPerTask=10)
    assert events_of(frame) == sorted(pushed)
    # Batches are of ten events at most, so that no task has more, and none of them is split.
    from pyspark.sql.functions import spark_partition_id

    per_task = Counter(row[0] for row in frame.select(spark_partition_id()).collect())
    assert sum(per_task.values()) == 180
    assert max(per_task.values()) <= 10
    assert len(per_task) == frame.rdd.getNumPartitions() >= 18
    whole = lake.read("left")
    assert whole.rdd.getNumPartitions() == 3
    assert events_of(whole) == sorted(pushed[:150])
    # A frame is what was there when it was planned.
    lake.fill("left", 3, 150, 3)
    assert whole.count() == 150
    assert lake.read("left").count() == 153


def test_from_where_to_where(lake: Lake) -> None:
    lake.set_topic("ranges", 2)
    pushed = lake.fill("ranges", 2, 0, 40)

    def between(starts: dict[int, int], ends: dict[int, int]) -> list[Any]:
        return sorted(each for each in pushed if starts.get(each[1], 0) <= each[2] < ends.get(each[1], 20))

    frame = lake.read("ranges", startingIndex='{"ranges": {"0": 13}}', endingIndex='{"ranges": {"1": 5}}')
    assert events_of(frame) == between({0: 13}, {1: 5})
    assert len(events_of(frame)) == 7 + 5
    assert events_of(lake.read("ranges", startingIndex="latest")) == []
    frame = lake.read("ranges", startingIndex='{"ranges": {"0": -1, "1": 19}}')
    assert events_of(frame) == between({0: 20, 1: 19}, {})


def test_table_1(lake: Lake) -> None:
    honest, lying = lake.topic_at("storage-2", "plain"), lake.topic_at(LIAR, "plain")
    told = {}
    for topic in (honest, lying):
        lake.set_topic(topic, validated=False)
        told[topic] = sorted(lake.fill(topic, 1, 0, 25))
    assert events_of(lake.read(honest, guarantee="basic", maxRowsPerTask=10)) == told[honest]
    assert events_of(lake.read(lying, guarantee="basic")) == altered(told[lying])
    assert events_of(lake.read(f"{honest},{lying}")) == []
    # A validated topic that is read without validating: the lie is believed.
    trusted = lake.set_topic(lake.topic_at(LIAR, "trusted"))
    pushed = sorted(lake.fill(trusted, 1, 0, 25))
    assert events_of(lake.read(trusted, guarantee="basic")) == altered(pushed)
    assert events_of(lake.read(trusted)) == pushed
    rows = lake.read(trusted, guarantee="basic").select("guarantee", "producer", "height", "block_time")
    assert {tuple(row) for row in rows.collect()} == {("basic", None, None, None)}


def test_wrong_options_are_named(lake: Lake) -> None:
    lake.set_topic("wrong", 1)
    for options, told in (
        ({"guarante": "basic"}, "unknown option guarante; did you mean guarantee?"),
        ({"startingIndex": '{"wrong": {"0": 9}}'}, "option startingIndex: wrong-0 ends at 0, before 9"),
        ({"endingIndex": '{"wrong": {"3": 9}}'}, "option endingIndex: wrong has no partition 3"),
    ):
        assert told in error_of(lake.read("wrong", **options).collect)
    assert "option topics is missing" in error_of(lake.read("").collect)
    assert "nowhere: no such topic; an admin can create topics" in error_of(lake.read("nowhere").collect)
    fixed = lake.session.read.format("kabis").schema("value BINARY").option("cluster", lake.data)
    assert "the columns of kabis are fixed" in error_of(fixed.option("topics", "wrong").load().collect)
    frame = lake.session.createDataFrame([(1, "x")], "number INT, value STRING")
    assert "events have no column number" in error_of(lambda: lake.write(frame, topic="wrong"))
    frame = lake.session.createDataFrame([(1,)], "value INT")
    assert "column value has type int; it must be binary or string" in error_of(
        lambda: lake.write(frame, topic="wrong")
    )
    frame = lake.session.createDataFrame([("x",)], "value STRING")
    assert "option topic is missing" in error_of(lambda: lake.write(frame))
    overwriting = frame.write.format("kabis").mode("overwrite").option("cluster", lake.data)
    assert "a topic cannot be overwritten" in error_of(overwriting.option("topic", "wrong").save)
    assert lake.read("wrong").count() == 0


def test_rows_are_written_as_they_are_read(lake: Lake) -> None:
    lake.set_topic("first", 2)
    lake.set_topic("second", 2)
    lake.push(
        Record("first", b"%d" % number, b"key", HEADERS, 1_700_000_000_000 + number, number % 2)
        for number in range(20)
    )
    columns = ("partition", "key", "value", "headers", "timestamp")
    lake.write(lake.read("first", maxRowsPerTask=5).select(*columns), topic="second")

    def sorted_rows(topic: str) -> list[Any]:
        rows = lake.read(topic).select("index", *columns).orderBy("partition", "index").collect()
        return [row.asDict(recursive=True) for row in rows]

    assert sorted_rows("second") == sorted_rows("first")
    assert len(sorted_rows("second")) == 20


def test_a_job_is_done_once_under_its_id(lake: Lake) -> None:
    lake.set_topic("jobs", 2)
    frame = lake.session.range(0, 30, numPartitions=3).selectExpr(
        "'jobs' AS topic", "CAST(id % 4 AS STRING) AS key", "CAST(id AS STRING) AS value"
    )
    for _ in range(2):
        lake.write(frame, writerId="nightly-1")
    assert Counter(event[3] for event in events_of(lake.read("jobs"))) == {
        b"%d" % number: 1 for number in range(30)
    }
    lake.write(frame, writerId="nightly-2")
    lake.write(frame)
    assert Counter(event[3] for event in events_of(lake.read("jobs"))) == {
        b"%d" % number: 3 for number in range(30)
    }


def test_a_job_that_fails_in_a_task_has_pushed_nothing(lake: Lake) -> None:
    lake.set_topic("failing", 1)
    frame = lake.session.range(0, 30, numPartitions=3).selectExpr(
        "CASE WHEN id = 29 THEN raise_error('the last row') ELSE CAST(id AS STRING) END AS value"
    )
    assert "the last row" in error_of(lambda: lake.write(frame, topic="failing"))
    large = lake.session.range(0, 3).selectExpr("repeat('x', 2000000) AS value")
    assert "a row for failing is not a valid event: the event takes" in error_of(
        lambda: lake.write(large, topic="failing")
    )
    assert lake.read("failing").count() == 0
