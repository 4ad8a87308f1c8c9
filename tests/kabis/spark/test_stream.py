"""Streams on a real cluster, one of whose storage parties lies: restarted, killed, and widened."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.kabis.spark.lake import PATIENCE_S, Lake, events_of, finish
from veristream.kabis.client.administration import act_all
from veristream.kabis.cluster.folder import ADMIN
from veristream.kabis.protocol.actions import LowWater
from veristream.kabis.spark.outbox import Outbox, outbox_folder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming import StreamingQuery

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

AMOUNT = 400
"""Copied in twenty epochs, so that a driver is met in one of them however seldom it is looked at."""


def to_files(frame: DataFrame, folder: Path) -> StreamingQuery:
    """Appends what is there now to files, which Spark does exactly once."""
    writer = frame.writeStream.format("parquet").option("checkpointLocation", str(folder / "checkpoint"))
    return writer.trigger(availableNow=True).start(str(folder / "rows"))


def kept(lake: Lake, folder: Path) -> DataFrame:
    return lake.session.read.parquet(str(folder / "rows"))


def test_a_stream_goes_on_where_it_was_and_takes_up_new_partitions(lake: Lake, tmp_path: Path) -> None:
    lake.set_topic("river", 2)
    pushed = lake.fill("river", 2, 0, 50)
    stream = lake.read_stream("river", maxRowsPerTrigger=20, maxRowsPerTask=10)
    assert finish(to_files(stream, tmp_path)) == [20, 20, 10]
    assert events_of(kept(lake, tmp_path)) == sorted(pushed)
    lake.set_topic("river", 3)
    pushed += lake.fill("river", 3, 50, 15)
    assert finish(to_files(lake.read_stream("river"), tmp_path)) == [15]
    assert finish(to_files(lake.read_stream("river"), tmp_path)) == []
    assert events_of(kept(lake, tmp_path)) == sorted(pushed)
    assert {event[1] for event in pushed} == {0, 1, 2}


def test_from_the_end_on(lake: Lake, tmp_path: Path) -> None:
    lake.set_topic("news", 1)
    lake.fill("news", 1, 0, 5)
    assert finish(to_files(lake.read_stream("news", startingIndex="latest"), tmp_path)) == []
    fresh = lake.fill("news", 1, 5, 5)
    assert finish(to_files(lake.read_stream("news", startingIndex="latest"), tmp_path)) == [5]
    assert events_of(kept(lake, tmp_path)) == fresh


def test_a_topic_that_is_not_validated_streams_by_offset(lake: Lake, tmp_path: Path) -> None:
    topic = lake.set_topic(lake.topic_at("storage-3", "drops"), validated=False)
    pushed = lake.fill(topic, 1, 0, 30)
    basic = {"guarantee": "basic", "maxRowsPerTrigger": 25}
    assert finish(to_files(lake.read_stream(topic, **basic), tmp_path)) == [25, 5]
    pushed += lake.fill(topic, 1, 30, 7)
    assert finish(to_files(lake.read_stream(topic, **basic), tmp_path)) == [7]
    assert events_of(kept(lake, tmp_path)) == pushed


def test_events_that_were_let_go_while_nobody_read(lake: Lake, tmp_path: Path) -> None:
    from pyspark.errors import StreamingQueryException

    lake.set_topic("ebb", 1)
    pushed = lake.fill("ebb", 1, 0, 10)
    assert finish(to_files(lake.read_stream("ebb"), tmp_path)) == [10]
    pushed += lake.fill("ebb", 1, 10, 30)
    access = lake.access
    act_all(access.genesis, access.admin(), access.author(ADMIN), [LowWater("ebb", 0, 25)])
    with pytest.raises(StreamingQueryException, match="ebb-0: index 10 is below the low-water mark 25"):
        finish(to_files(lake.read_stream("ebb"), tmp_path))
    assert finish(to_files(lake.read_stream("ebb", failOnDataLoss="false"), tmp_path)) == [15]
    assert events_of(kept(lake, tmp_path)) == pushed[:10] + pushed[25:]


@contextmanager
def copying(lake: Lake, source: str, target: str, checkpoint: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A driver of its own, killed with its Java in the end."""
    words = ["-m", "tests.kabis.spark.copying", lake.data, source, target, str(checkpoint)]
    driver = subprocess.Popen([sys.executable, *words], start_new_session=True)
    try:
        yield driver
    finally:
        os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()


def is_pushing(lake: Lake, epoch_min: int) -> bool:
    """Whether some writer is in the middle of an epoch from this one on."""
    folder = outbox_folder(lake.folder.path / "journals" / "producer")
    epochs = [Outbox(path).load() for path in folder.glob("*-*-*-*-*") if path.suffix != ".new"]
    return any(each is not None and not each.finished and each.number >= epoch_min for each in epochs)


def test_drivers_killed_while_they_push_lose_nothing_and_repeat_nothing(lake: Lake, tmp_path: Path) -> None:
    """One topic is copied to another by drivers that are killed; in the end each event is there once."""
    lake.set_topic("source", 2)
    lake.set_topic("target", 2)
    pushed = lake.fill("source", 2, 0, AMOUNT)
    checkpoint = tmp_path / "checkpoint"
    for epoch_min in (1, 4):
        with copying(lake, "source", "target", checkpoint) as driver:
            deadline_s = time.monotonic() + PATIENCE_S
            while not is_pushing(lake, epoch_min):
                assert driver.poll() is None, "the driver ended by itself"
                assert time.monotonic() < deadline_s, "it never pushes"
                time.sleep(0.005)
    before = lake.read("target").count()
    assert before < AMOUNT
    stream = lake.read_stream("source", maxRowsPerTrigger=200).select("partition", "key", "value")
    writer = stream.writeStream.format("kabis").option("cluster", lake.data).option("topic", "target")
    writer = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
    assert sum(finish(writer.start())) > 0
    assert events_of(lake.read("target")) == sorted(("target", *event[1:]) for event in pushed)
