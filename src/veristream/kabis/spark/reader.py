"""`spark.read.format("kabis")`: the events that exist when the query is planned."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from pyarrow import RecordBatch
from pyspark.sql.datasource import DataSourceReader, InputPartition

from veristream.kabis.protocol.members import Party
from veristream.kabis.spark.fetch import reading
from veristream.kabis.spark.options import Caller, Guarantee, ReadOptions
from veristream.kabis.spark.plan import Part, choose, find_ranges
from veristream.kabis.spark.rows import to_batches
from veristream.kabis.spark.shown import shown
from veristream.kabis.spark.watch import Watch
from veristream.kabis.wire.handshake import Role


@dataclass
class KabisPartition(InputPartition):
    """The part that one task reads, the caller to read as, and the storage parties to ask."""

    caller: Caller
    part: Part
    storage: tuple[Party, ...]


class KabisReader(DataSourceReader):
    """Plans on the driver from the ledger; reads in tasks from the storage parties."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        """Plans one task for each part of each partition."""
        options = self._options
        with shown(), open_watch(options) as watch:
            bounds = watch.refresh()
            starts = choose("startingIndex", options.start, bounds)
            ends = choose("endingIndex", options.end, bounds)
            parts = watch.plan(find_ranges(starts, ends), options.rows_per_task)
            storage = watch.storage_parties()
        return [KabisPartition(options.caller, part, storage) for part in parts]

    def read(self, partition: InputPartition) -> Iterator[RecordBatch]:
        return read_partition(partition)


def open_watch(options: ReadOptions) -> Watch:
    """Follows the chain as the caller."""
    caller = options.caller
    validate = options.guarantee is Guarantee.EXTENDED
    connect = caller.connect(Role.CONSUMER)
    return Watch(caller.genesis, connect, options.topics, validate=validate, timeout_s=caller.timeout_s)


def read_partition(partition: InputPartition) -> Iterator[RecordBatch]:
    """Yields the rows of one part; nothing for the plain partition that Spark uses for empty plans."""
    if not isinstance(partition, KabisPartition):
        return
    caller = partition.caller
    reach = partial(caller.reach_storage, partition.storage)
    with shown(), reading(reach, partition.part, caller.timeout_s) as events:
        yield from to_batches(events)
