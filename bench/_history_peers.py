"""The checks of a log in Polars and in DuckDB, as their users write them: `_history_peers.py JSON`.

Prints one JSON object: the seconds of each run, and the anomalies that the last one found. They look for
lost writes, duplicates, receipts out of order, inconsistent offsets and unexpected messages. An audit looks
besides for skipped and altered messages, sends out of order, gaps, and rows that break a rule.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

THREADS = 2

SEND, RECEIVE, READ_TO_END = 0, 1, 13
PLACED = (1, 9, 10, 11)
"""What a session consists of: receipts, and what begins another one (ASSIGN, REVOKE, SEEK)."""

INVOKE, OK, FAIL = 0, 1, 2

Row = tuple[str, int, int, int, int, int, int]
"""Kind, stream, partition, offset, producer, number, process, index; what it does not have is -1."""


def _in_polars(files: str) -> list[Any]:
    """Finds the anomalies in Polars, with its streaming engine."""
    import polars as pl

    events = pl.scan_parquet(files, hive_partitioning=False)
    operation, outcome, offset = pl.col("operation"), pl.col("outcome"), pl.col("offset")
    place = ["stream", "partition"]
    is_send, is_receive = operation == SEND, operation == RECEIVE
    message = [*place, "producer", "number"]
    ends = (
        events.filter((operation == READ_TO_END) & (outcome == OK))
        .group_by(place)
        .agg(pl.col("offset").max().alias("end"))
    )
    seen = (
        events.filter(is_send | is_receive)
        .group_by(message)
        .agg(
            offset.filter(is_send & (outcome == OK)).min().alias("sent"),
            ((is_send & (outcome == INVOKE)).sum() > (is_send & (outcome == FAIL)).sum()).alias("possible"),
            offset.filter(is_receive).min().alias("low"),
            offset.filter(is_receive).max().alias("high"),
        )
        .filter(pl.col("low").is_null() | (pl.col("low") < pl.col("high")) | ~pl.col("possible"))
        .join(ends, on=place, how="left")
        .select(
            pl.when(pl.col("low").is_null())
            .then(pl.when(pl.col("sent") < pl.col("end")).then(pl.lit("lost write")))
            .when(~pl.col("possible"))
            .then(pl.lit("unexpected"))
            .otherwise(pl.lit("duplicate"))
            .alias("kind"),
            *message,
        )
        .drop_nulls("kind")
    )
    taken = (
        events.filter((is_send & (outcome == OK)) | is_receive)
        .group_by([*place, "offset"])
        .agg(
            (pl.col("producer").min() != pl.col("producer").max()).alias("producers"),
            (pl.col("number").min() != pl.col("number").max()).alias("numbers"),
        )
        .filter(pl.col("producers") | pl.col("numbers"))
        .select(*place, "offset")
    )
    session = ["process", *place]
    polls = (
        events.filter(operation.is_in(PLACED))
        .select(
            *session,
            "index",
            "operation",
            "offset",
            offset.shift().over(session, order_by="index").alias("before"),
            operation.shift().over(session, order_by="index").alias("last"),
        )
        .filter(is_receive & (pl.col("last") == RECEIVE) & (offset <= pl.col("before")))
        .select(*place, "process", "index")
    )
    messages, offsets, receipts = pl.collect_all([seen, taken, polls], engine="streaming")
    return [
        *(
            [kind, *at, -1, *named, -1, -1]
            for kind, *rest in messages.iter_rows()
            for at, named in [(rest[:2], rest[2:])]
        ),
        *(["inconsistent offset", *row, -1, -1, -1, -1] for row in offsets.iter_rows()),
        *(["nonmonotonic poll", *row[:2], -1, -1, -1, *row[2:]] for row in receipts.iter_rows()),
    ]


MESSAGES = """
with ends as (
  select stream, partition, max("offset") as "end" from events
  where operation = 13 and outcome = 1 group by all
), messages as (
  select stream, partition, producer, number,
    min("offset") filter (operation = 0 and outcome = 1) as sent,
    count(*) filter (operation = 0 and outcome = 0)
      > count(*) filter (operation = 0 and outcome = 2) as possible,
    min("offset") filter (operation = 1) as low,
    max("offset") filter (operation = 1) as high
  from events where operation <= 1 group by all
  having low is null or low < high or not possible
)
select case when low is null then 'lost write' when not possible then 'unexpected' else 'duplicate' end,
  stream, partition, -1, producer, number, -1, -1
from messages left join ends using (stream, partition)
where low is not null or sent < "end"
"""

OFFSETS = """
select 'inconsistent offset', stream, partition, "offset", -1, -1, -1, -1 from events
where (operation = 0 and outcome = 1) or operation = 1
group by stream, partition, "offset"
having min(producer) <> max(producer) or min(number) <> max(number)
"""

POLLS = """
select 'nonmonotonic poll', stream, partition, -1, -1, -1, process, index from (
  select *, lag("offset") over session as before, lag(operation) over session as last
  from events where operation in (1, 9, 10, 11)
  window session as (partition by process, stream, partition order by index)
) where operation = 1 and last = 1 and "offset" <= before
"""


def in_duckdb(patterns: Sequence[str]) -> list[Any]:
    """Finds the anomalies in DuckDB."""
    import duckdb

    connection = duckdb.connect(config={"threads": THREADS, "preserve_insertion_order": False})
    found: list[Any] = []
    for files in patterns:
        source = f"read_parquet('{files}', hive_partitioning=false)"
        connection.execute(f"create or replace view events as from {source}")
        for query in (MESSAGES, OFFSETS, POLLS):
            found += map(list, connection.execute(query).fetchall())
    connection.close()
    return found


def in_polars(patterns: Sequence[str]) -> list[Any]:
    """Finds the anomalies in Polars."""
    return [row for files in patterns for row in _in_polars(files)]


Find = Callable[[Sequence[str]], list[Any]]
PEERS: dict[str, Find] = {"polars": in_polars, "duckdb": in_duckdb}
WAYS = ("at once", "by bucket")
"""All files in one query, or one bucket after the other, since all events of a partition are in one."""


def patterns(history: str, way: str) -> list[str]:
    """Returns the names of the files of each query."""
    events = Path(history) / "events"
    if way == "at once":
        return [f"{events}/*/*.parquet"]
    return [f"{folder}/*.parquet" for folder in sorted(events.iterdir())]


def run(name: str, folder: str, runs: int) -> Iterator[tuple[float, list[Any]]]:
    """Yields the seconds of each run and what it found."""
    tool, _, way = name.partition(" ")
    files = patterns(folder, way)
    for _ in range(runs):
        began = time.perf_counter()
        found = PEERS[tool](files)
        yield time.perf_counter() - began, found


def main() -> None:
    asked = json.loads(sys.argv[1])
    os.environ["POLARS_MAX_THREADS"] = str(THREADS)  # read when it is imported
    found = list(run(asked["tool"], asked["history"], asked["runs"]))
    json.dump({"seconds": [seconds for seconds, _ in found], "found": sorted(found[-1][1])}, sys.stdout)


if __name__ == "__main__":
    main()
