"""`spark.readStream.format("kabis")`: events as they arrive.

A stream's offset is the index of the next event, for each topic and partition. The ledger never changes
events below an index, so a batch that Spark runs again has the same rows: with an exactly-once sink,
nothing is lost or duplicated. This object lives in a driver process as long as the query, and follows the
chain there; it is also sent to the tasks, which only read what was planned.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pyarrow import RecordBatch
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from veristream.kabis.client.consumed import Place
from veristream.kabis.spark import plan
from veristream.kabis.spark.options import ReadOptions
from veristream.kabis.spark.reader import KabisPartition, open_watch, read_partition
from veristream.kabis.spark.shown import shown
from veristream.kabis.spark.watch import Watch


class KabisStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Computes offsets and plans on the driver; reads rows in tasks."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._watch: Watch | None = None
        self._target: Mapping[Place, int] | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Returns the start of a new query."""
        with shown():
            return plan.to_offset(plan.first_offset(self._options.start, self._refresh()))

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Returns the end of the next batch: the current end, or less if there is a limit."""
        with shown():
            bounds = self._refresh()
            begun = plan.from_offset(start)
            ends = plan.next_ends(begun, bounds, self._target)
            if isinstance(limit, ReadMaxRows):
                starts = plan.next_starts(begun, ends, bounds)
                ends |= plan.limit_rows(plan.find_ranges(starts, ends), limit.max_rows)
            return plan.to_offset(ends)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Returns the limit of the option, or no limit."""
        rows_max = self._options.rows_per_trigger
        return ReadAllAvailable() if rows_max is None else ReadMaxRows(rows_max)

    def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802
        """Returns the current ends of the partitions, for Spark's progress reports."""
        with shown():
            return plan.to_offset({place: each.end for place, each in self._refresh().items()})

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Fixes the current ends as the end of this run."""
        with shown():
            self._target = {place: each.end for place, each in self._refresh().items()}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Plans the tasks of a batch; planning it again yields the same rows."""
        options = self._options
        with shown():
            bounds = self._refresh()
            ends = {
                place: index for place, index in plan.from_offset(end).items() if isinstance(index, int)
            }
            starts = plan.next_starts(plan.from_offset(start), ends, bounds)
            ranges = plan.keep_bounds(
                plan.find_ranges(starts, ends), bounds, strict=options.fail_on_data_loss
            )
            parts = self._open().plan(ranges, options.rows_per_task)
            storage = self._open().storage_parties()
        return [KabisPartition(options.caller, part, storage) for part in parts]

    def read(self, partition: InputPartition) -> Iterator[RecordBatch]:
        return read_partition(partition)

    def stop(self) -> None:
        """Stops following the chain."""
        if self._watch is not None:
            self._watch.close()
            self._watch = None

    def _open(self) -> Watch:
        if self._watch is None:
            self._watch = open_watch(self._options)
        return self._watch

    def _refresh(self) -> dict[Place, plan.Bounds]:
        return self._open().refresh()
