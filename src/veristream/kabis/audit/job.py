"""The audit as Spark jobs: tasks read and check blocks and batches, and return small rows.

1. *Ledger*: tasks read ranges of blocks, from validators or from one file each.
2. *Storage*: tasks read the data of each storage party and check every batch.
3. *Judgement*: both are joined by stream, which yields findings and counts.

The driver receives ranges of blocks, the facts of `registry`, counts, and a bounded number of findings;
events never leave a task, and batches leave it as rows of a few hundred bytes. The job uses only
DataFrames, so it also runs on Spark Connect.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, cast

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as f

from veristream.errors import EnvironmentFailure, ModelError
from veristream.kabis.audit import disk, network, report
from veristream.kabis.audit.check import Admitted, BatchCopy, Stream, judge
from veristream.kabis.audit.disk import Segment
from veristream.kabis.audit.findings import Finding, Tally
from veristream.kabis.audit.history import History
from veristream.kabis.audit.network import BatchRequest, PartyAccess
from veristream.kabis.audit.plan import LedgerRow, What, check_ranges, scan_blocks
from veristream.kabis.audit.registry import Fact, Ordered, Registry, read_facts
from veristream.kabis.audit.rows import IsDataclass, Row, from_arrow, names, to_arrow, to_ddl, to_table
from veristream.kabis.protocol.genesis import Genesis
from veristream.spark import cores_of

TASKS_PER_CORE = 4
EVENTS_PER_PART = 50_000
"""How many sequence numbers of a stream one request to a party covers."""
SPANS = 60
SHUFFLES = "spark.sql.shuffle.partitions"

STREAM = ("topic", "partition", "producer")

Tell = Callable[[str], None]
Arrow = Iterator[Any]


@dataclass(frozen=True, slots=True)
class Files:
    """Reads the parties' files from a folder that all machines of the cluster can read."""

    folder: Path
    genesis: Genesis


@dataclass(frozen=True, slots=True)
class Parties:
    """Reads from the running parties."""

    access: PartyAccess

    @property
    def genesis(self) -> Genesis:
        """The chain's genesis."""
        return self.access.genesis


Source = Files | Parties


@dataclass(frozen=True, slots=True)
class AuditScope:
    """The topics to audit, or all; the report has up to `samples_max` findings of each kind."""

    topics: tuple[str, ...] = ()
    samples_max: int = 100


@dataclass(frozen=True, slots=True)
class Judged:
    """A finding or a tally, as a row of the judgement."""

    what: str
    kind: str = ""
    role: str = ""
    accused: str = ""
    topic: str = ""
    partition: int = 0
    producer: str = ""
    key_epoch: int = 0
    sequence: int = -1
    count: int = 0
    height: int = 0
    detail: str = ""
    party: str = ""
    vouched: int = 0
    copies: int = 0
    good: int = 0
    unanswered: int = 0
    events: int = 0


def audit(session: SparkSession, source: Source, scope: AuditScope, tell: Tell) -> report.AuditReport:
    """Runs the three jobs and returns the report; calls `tell` with the current step."""
    began_s = time.monotonic()
    kept: list[DataFrame] = []
    with _spark_failures(), _few_shuffles(session):
        try:
            return _Audit(session, source, scope, tell, kept).run(began_s)
        finally:
            for each in kept:
                each.unpersist()


class _Audit:
    """One audit, step by step."""

    def __init__(
        self, session: SparkSession, source: Source, scope: AuditScope, tell: Tell, kept: list[DataFrame]
    ) -> None:
        self.session, self.source, self.scope, self.tell, self.kept = session, source, scope, tell, kept
        self.genesis = source.genesis
        self.history = History(source.genesis)
        self.tasks = TASKS_PER_CORE * cores_of(session, None)

    def run(self, began_s: float) -> report.AuditReport:
        self.history = read_history(self.source)
        ledger = self._keep(read_ledger(self.session, self.source, self.history, self.tasks, self.tell))
        few = _take(ledger.filter(f.col("what").isin(What.RANGE, What.FACT)), LedgerRow)
        ranges = [row for row in few if row.what == What.RANGE]
        facts = [Fact(row.height, row.number, row.body) for row in few if row.what == What.FACT]
        registry, findings = read_facts(self.genesis, facts)
        findings += check_ranges(self.genesis, ranges)
        if limited := registry.limited_topics():
            registry.retain(_take(find_admitted(ledger, limited), Ordered))
        topics = choose_topics(registry, self.scope.topics)
        admitted = self._keep(find_admitted(ledger, topics))
        stored, unread = self._read_stored(admitted, registry, topics)
        judged = self._keep(self._judge(admitted, stored, registry, unread))
        tallies = _take(judged.filter(f.col("what") == "tally"), Tally)
        findings += report.find_silent(tallies, unread - self.history.former())
        found = _only_findings(judged, "finding").union(_only_findings(ledger, What.FINDING))
        results = Results(ranges, topics, tallies, findings, found, admitted, self.history.storage_names())
        return make_report(self.source, self.scope, results, began_s)

    def _keep(self, frame: DataFrame) -> DataFrame:
        """Caches the rows, so that they are computed once."""
        self.kept.append(frame.persist())
        return self.kept[-1]

    def _read_stored(
        self, admitted: DataFrame, registry: Registry, topics: tuple[str, ...]
    ) -> tuple[DataFrame, frozenset[str]]:
        """Returns the parties' batches, and the parties without any data."""
        match self.source:
            case Files(folder):
                segments = disk.storage_segments(folder, self.history.storage_names())
                self.tell(f"reading {len(segments)} files of the storage parties and judging every batch")
                chosen = frozenset(topics) if self.scope.topics else None
                frame = read_segments(self.session, segments, registry, chosen)
                owners = {segment.owner for segment in segments}
                return frame, frozenset(self.history.storage_names()) - owners
            case Parties(access):
                asked = replace(access, storage=self.history.storage_parties())
                self.tell(f"asking {len(asked.storage)} storage parties for every batch and judging it")
                return fetch_stored(admitted, asked, registry, self.tasks), frozenset()

    def _judge(
        self, admitted: DataFrame, stored: DataFrame, registry: Registry, unread: frozenset[str]
    ) -> DataFrame:
        parties, former = self.history.storage_names(), self.history.former()

        def judge_group(left: Any, right: Any) -> Any:
            stream = Stream(
                registry,
                parties,
                unread,
                tuple(from_arrow(Admitted, left)),
                tuple(from_arrow(BatchCopy, right)),
                former,
            )
            return to_table(Judged, map(as_judged, judge(stream)))

        groups = admitted.select(*names(Admitted)).groupBy(*STREAM).cogroup(stored.groupBy(*STREAM))
        return groups.applyInArrow(judge_group, to_ddl(Judged))


@dataclass(frozen=True, slots=True)
class Results:
    """Results of the jobs: counts and findings on the driver, and the findings that are still on Spark."""

    ranges: Sequence[LedgerRow]
    topics: tuple[str, ...]
    tallies: Sequence[Tally]
    findings: Sequence[Finding]
    found: DataFrame
    admitted: DataFrame
    parties: tuple[str, ...]


def make_report(source: Source, scope: AuditScope, results: Results, began_s: float) -> report.AuditReport:
    """Builds the report, with all findings counted and some of each kind included."""
    genesis, tallies = source.genesis, results.tallies
    by_accused = results.found.groupBy("kind", "role", "accused", *STREAM)
    counted = _take(by_accused.agg(f.count("*").alias("count")), report.Accused)
    accused = report.merge_accused([counted, report.count_findings(results.findings)])
    samples = sorted(
        [*results.findings, *_sample(results.found, scope.samples_max)],
        key=lambda each: (each.kind, each.topic, each.partition, each.producer, each.sequence),
    )
    end_ms = max((each.time_ms for each in results.ranges), default=0)
    return report.AuditReport(
        chain_id=genesis.chain_id,
        height=max((each.last for each in results.ranges), default=0),
        source="files" if isinstance(source, Files) else "parties",
        topics=results.topics,
        streams=report.make_streams(tallies, accused),
        parties=report.make_parties(results.parties, tallies, accused),
        accused=accused,
        findings=tuple(samples),
        timeline=draw_timeline(results.admitted, genesis.time_ms, end_ms),
        checked=_count(results.ranges, tallies),
        seconds=time.monotonic() - began_s,
    )


# 1. The ledger


def read_history(source: Source) -> History:
    """Returns the members of the chain by height."""
    match source:
        case Files(folder, genesis):
            return disk.read_history(genesis, disk.block_segments(folder, genesis))
        case Parties(access):
            return network.read_history(access)


def read_ledger(
    session: SparkSession, source: Source, history: History, tasks: int, tell: Tell
) -> DataFrame:
    """Reads the rows of all blocks in tasks."""
    match source:
        case Files(folder, genesis):
            segments = disk.block_segments(folder, genesis)
            tell(f"reading the blocks of {segments[0].owner}")

            def scan_segment(number: int) -> Iterator[LedgerRow]:
                return scan_blocks(history, disk.read_blocks(segments[number]))

            return _spread(session, len(segments), LedgerRow, scan_segment)
        case Parties(access):
            height = network.read_height(access)
            step = max(1, -(-height // tasks))
            firsts = range(1, height + 1, step)
            tell(f"reading {height:,} blocks")

            def scan_range(number: int) -> Iterator[LedgerRow]:
                first = firsts[number]
                last = min(height, first + step - 1)
                return scan_blocks(history, network.read_blocks(access, first, last))

            return _spread(session, len(firsts), LedgerRow, scan_range)


def choose_topics(registry: Registry, wanted: Sequence[str]) -> tuple[str, ...]:
    """Returns the topics to audit: those in `wanted`, or all validated ones; raises ModelError."""
    validated = sorted(name for name, topic in registry.topics.items() if topic.validated)
    for name in wanted:
        topic = registry.topics.get(name)
        if topic is None or not topic.validated:
            what = "there is no topic" if topic is None else "cannot audit the unvalidated topic"
            raise ModelError(
                f"{what} {name}",
                hint=f"validated topics: {', '.join(validated)}" if validated else "no topic is validated",
            )
    return tuple(sorted(set(wanted))) if wanted else tuple(validated)


def find_admitted(ledger: DataFrame, topics: Sequence[str]) -> DataFrame:
    """Returns the admitted batches, each with the index of its first event in its partition."""
    so_far = (
        Window.partitionBy("topic", "partition")
        .orderBy("height", "number")
        .rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    batches = ledger.filter(f.col("what") == What.BATCH)
    indexed = batches.withColumn("first_index", f.sum("count").over(so_far) - f.col("count"))
    return indexed.filter(f.col("topic").isin(list(topics))) if topics else indexed


# 2. Storage


def read_segments(
    session: SparkSession, segments: Sequence[Segment], registry: Registry, topics: frozenset[str] | None
) -> DataFrame:
    """Reads the batches of these files, one task per file."""

    def read(number: int) -> Iterator[BatchCopy]:
        return disk.read_stored(segments[number], registry, topics)

    return _spread(session, len(segments), BatchCopy, read)


def fetch_stored(admitted: DataFrame, access: PartyAccess, registry: Registry, tasks: int) -> DataFrame:
    """Fetches the admitted batches from the parties; a task opens one connection to each party it asks."""
    stream = (*STREAM, "key_epoch")
    parties = f.array(*(f.lit(party.name) for party in access.storage))
    last = f.max("sequence").over(Window.partitionBy(*stream))
    wanted = (
        admitted.withColumn("party", f.explode(parties))
        .withColumn("part", (f.col("sequence") / EVENTS_PER_PART).cast("bigint"))
        .withColumn("is_last", f.col("sequence") == last)
        .select(*names(BatchRequest))
        .repartition(tasks, "party", *stream, "part")
        .sortWithinPartitions("party", *stream, "part", "sequence")
    )

    def fetch(batches: Arrow) -> Arrow:
        rows = (row for batch in batches for row in from_arrow(BatchRequest, batch))
        return to_arrow(BatchCopy, network.fetch_stored(access, registry, rows))

    return wanted.mapInArrow(fetch, to_ddl(BatchCopy))


# 3. The judgement


def as_judged(found: Finding | Tally) -> Judged:
    """Converts a finding or a tally to a row."""
    return Judged("finding" if isinstance(found, Finding) else "tally", **asdict(found))


def draw_timeline(admitted: DataFrame, begin_ms: int, end_ms: int) -> tuple[tuple[int, int], ...]:
    """Counts the events admitted in spans of equal length between two times."""
    step = max(1, -(-(end_ms - begin_ms + 1) // SPANS))
    span: Column = ((f.col("time_ms") - begin_ms) / step).cast("bigint")
    sums = admitted.groupBy(span.alias("span")).agg(f.sum("count").alias("events")).collect()
    events = {row["span"]: row["events"] for row in sums}
    return tuple(
        (begin_ms + step * each, events.get(each, 0)) for each in range(max(events, default=-1) + 1)
    )


def _only_findings(frame: DataFrame, what: str) -> DataFrame:
    return frame.filter(f.col("what") == what).select(*names(Finding))


def _sample(found: DataFrame, count_max: int) -> list[Finding]:
    """Returns some findings of each kind, chosen deterministically."""
    order = Window.partitionBy("kind").orderBy(*STREAM, "sequence", "height", "accused")
    ranked = found.withColumn("rank", f.row_number().over(order))
    return _take(ranked.filter(f.col("rank") <= count_max), Finding)


def _count(ranges: Sequence[LedgerRow], tallies: Sequence[Tally]) -> report.Checked:
    ledger = [tally for tally in tallies if not tally.party]
    parties = [tally for tally in tallies if tally.party]
    batches, copies = sum(tally.good for tally in ledger), sum(tally.copies for tally in ledger)
    return report.Checked(
        blocks=sum(each.count for each in ranges),
        batches=batches,
        events=sum(tally.events for tally in ledger),
        copies=sum(tally.copies for tally in parties),
        event_copies=sum(tally.events for tally in parties),
        signatures=sum(each.signatures for each in ranges) + batches + copies,
    )


# Spark


def _spread(
    session: SparkSession, count: int, row: type[Row], work: Callable[[int], Iterator[Row]]
) -> DataFrame:
    """Returns the rows of `work` for each number below `count`, one task per number."""

    def run(batches: Arrow) -> Arrow:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from to_arrow(row, work(number))

    return session.range(0, count, 1, max(1, count)).mapInArrow(run, to_ddl(row))


def _take(frame: DataFrame, row: type[Row]) -> list[Row]:
    """Collects all rows of a frame."""
    table = frame.select(*names(cast("type[IsDataclass]", row))).toArrow()
    return list(from_arrow(row, table))


@contextmanager
def _few_shuffles(session: SparkSession) -> Iterator[None]:
    """Limits shuffle partitions to the number of parallel tasks, because rows are small."""
    before = session.conf.get(SHUFFLES)
    session.conf.set(SHUFFLES, str(2 * cores_of(session, None)))
    try:
        yield
    finally:
        session.conf.set(SHUFFLES, str(before))


_MISSING = re.compile(r"No module named '(\w+)")
_OURS = re.compile(r"veristream\.errors\.EnvironmentFailure: (.+)")


@contextmanager
def _spark_failures() -> Iterator[None]:
    """Turns failures of tasks and of Spark into EnvironmentFailure with a hint."""
    try:
        yield
    except (PySparkException, Py4JError) as error:
        told = str(error)
        missing, ours = _MISSING.search(told), _OURS.search(told)
        if missing is not None:
            raise EnvironmentFailure(
                f"the Python of the cluster's workers has no {missing[1]}",
                "install it there, or ship it: see docs/spark.md",
            ) from error
        if ours is not None:
            raise EnvironmentFailure(ours[1], "veristream kabis status shows which parties run") from error
        lines = [line for line in told.strip().splitlines() if line]
        raise EnvironmentFailure(f"a job of the audit failed: {lines[-1] if lines else error}") from error
