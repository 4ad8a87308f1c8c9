"""Exploration by ordinary Spark jobs, for clusters without barrier stages or sockets between workers.

A level is one job. Its first stage runs a task for every part (see `level_task`), and Spark's shuffle
brings the blocks that the tasks return to their parts. Its second stage reports the parts' status to the
driver. Between two levels the blocks stay in the shuffle's files. Every few levels the blocks that are
still needed are written together, and the lineage is cut there, so that neither plans nor files grow
without bound. Spark runs a lost task again; if blocks are lost with a machine, the search starts again.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from veristream.errors import EnvironmentFailure
from veristream.kernel.layout import Row
from veristream.search.reach.visited import ROOT
from veristream.search.session import Hit
from veristream.search.shared.assignment import Assignment
from veristream.search.shared.checkpoint import Manifest, write_manifest
from veristream.search.shared.crew import WorkerLostError
from veristream.search.shared.exploration import (
    Recipient,
    SharedExploration,
    global_index,
    split_index,
)
from veristream.search.shared.messages import Failure, Totals
from veristream.search.spark.level_task import (
    Addressed,
    Block,
    Item,
    Kind,
    LevelTask,
    PartStatus,
    Resumed,
    count_orbits,
    first_status,
    read_all,
    run_level_task,
)

if TYPE_CHECKING:
    from pyspark import RDD, SparkContext

SETTLE_LEVELS = 6
"""After this many levels the blocks that are still needed are written together."""

ATTEMPTS = 4
BUFFER_BYTES = 64 << 20
WINDOW_STATES = 1 << 22
"""The driver fetches the parents of this many states at a time to follow a path."""

# Spark's messages for a lost process, and for lost blocks.
_LOST = re.compile(r"Python worker exited unexpectedly|Executor ?Lost|FetchFailed|MetadataFetchFailed")
_GONE = re.compile(r"Checkpoint block \S+ not found")

Answer = TypeVar("Answer")
Question = Callable[[int, Iterable[Item]], Iterator[Answer]]
"""A question to a part between two levels: a function from its number and all its items to its answers."""


class Jobs(Protocol):
    """Runs the tasks of all parts, and keeps what they return until the next level."""

    def keep(self, items: list[Addressed]) -> None:
        """Keeps the items that parts begin with."""

    def run_level(self, task: LevelTask) -> list[PartStatus]:
        """Runs a level; if a part fails, keeps nothing of it."""

    def ask(self, question: Question[Answer]) -> list[Answer]:
        """Returns the answers of all parts."""


@dataclass(slots=True)
class HandoverBuffer:
    """Collects the states of a local exploration, and passes them on to the jobs in blocks."""

    jobs: Jobs
    part_count: int
    places: dict[int, int] = field(default_factory=dict)
    waiting: list[Addressed] = field(default_factory=list)
    byte_count: int = 0

    def give_states(self, part: int, count: int, blob: bytes) -> None:
        """Takes states of a part."""
        place = self.places.get(part, 0)
        self.waiting.append((part, Block(Kind.STATES, 0, part, place, blob)))
        self.places[part] = place + count
        self.byte_count += len(blob)
        if self.byte_count > BUFFER_BYTES:
            self.flush()

    def end_states(self, part: int, frontier: int, totals: Totals) -> None:
        """Notes where a part continues."""
        self.waiting.append((part, first_status(part, frontier, totals)))

    def flush(self) -> None:
        """Passes on what was collected."""
        if self.waiting:
            self.jobs.keep(self.waiting)
        self.waiting, self.byte_count = [], 0


@dataclass(slots=True)
class ParentWindow:
    """The parents of some states: for each part the first state's index, parents' indices and parts."""

    parts: dict[int, tuple[int, NDArray[np.uint32], NDArray[np.uint16]]]

    def has(self, part: int, place: int) -> bool:
        """Whether the parent of the state is known."""
        first, parents, _ = self.parts.get(part, (0, np.zeros(0), np.zeros(0)))
        return 0 <= place - first < len(parents)

    def parent(self, part: int, place: int) -> int | None:
        """Returns the global index of a state's parent; None for the initial state."""
        first, parents, owners = self.parts[part]
        found = int(parents[place - first])
        return None if found == ROOT else global_index(int(owners[place - first]), found)


Range = tuple[int, int]


@dataclass(frozen=True, slots=True)
class StoredStates:
    """Reads the states that a part keeps between two levels."""

    width: int
    resumed: Resumed | None

    def parents(
        self, ranges: list[Range], number: int, items: Iterable[Item]
    ) -> Iterator[tuple[int, int, bytes, bytes]]:
        """Returns the first index, parents' indices and parents' parts of states in the part's range."""
        begin, end = ranges[number]
        for states in read_all(number, items, self.width, self.resumed):
            first, last = max(begin, states.first), min(end, states.end)
            if first < last:
                some = slice(first - states.first, last - states.first)
                yield number, first, states.parents[some].tobytes(), states.owners[some].tobytes()

    def rows(
        self, wanted: dict[int, list[int]], number: int, items: Iterable[Item]
    ) -> Iterator[tuple[int, bytes]]:
        """Returns the rows of the wanted states, each with its global index."""
        for states in read_all(number, items, self.width, self.resumed):
            for place in wanted.get(number, []):
                if states.first <= place < states.end:
                    begin = (place - states.first) * self.width
                    row = states.rows[begin : begin + self.width]
                    yield global_index(number, place), row.tobytes()


@dataclass(slots=True)
class ShuffledExploration(SharedExploration):
    """An exploration whose parts run as tasks of jobs.

    A part takes in what others found for it at the next level. So a level is known to be the last one if
    nothing was sent in it, or else once the next one turns out to be empty.
    """

    jobs: Jobs = field(kw_only=True)
    buffer: HandoverBuffer = field(kw_only=True)
    assignment: Assignment = field(kw_only=True)
    width: int = field(kw_only=True)  # words of a row
    resumed: Resumed | None = field(default=None, kw_only=True)
    run: str = field(default_factory=lambda: secrets.token_hex(8), kw_only=True)
    level: int = field(default=0, init=False)
    bounds: list[list[int]] = field(
        default_factory=list, init=False
    )  # states that had begun, by level and part
    rows: dict[int, Row] = field(default_factory=dict, init=False)  # of the paths returned so far
    earlier: list[Hit] = field(default_factory=list, init=False)  # of the checkpoint that the run continues

    @property
    def recipient(self) -> Recipient:
        return self.buffer

    def advance(self, quantum: int) -> None:
        """Explores one level, however large."""
        self.hits.clear()
        self.buffer.flush()
        due = self._checkpoint_due()
        statuses = sorted(self.jobs.run_level(self._next_task(due)), key=lambda one: one.part)
        self.require_room([Failure(one.failure) for one in statuses if one.failure is not None])
        sent = self._sent()
        self._note(statuses)
        if due is not None and not self.hits:
            parts = tuple(one.saved for one in statuses)
            write_manifest(due, self.manifest(self.assignment.digest, parts))
        if not any(one.size for one in statuses):
            self.complete = True
            self.depth -= 1
        else:
            self.complete = self.frontier == 0 and self._sent() == sent
            self.depth += not self.complete

    def resume(self, manifest: Manifest) -> None:
        """Continues from a checkpoint. Its hits are reported after the first level: only then is it known
        how many states each part has."""
        SharedExploration.resume(self, manifest)  # super() fails in a dataclass with slots
        self.earlier += self.hits
        self.hits.clear()

    def _next_task(self, saves_to: str | None = None) -> LevelTask:
        unwatched = tuple(self.unwatched)
        return LevelTask(
            self.run, self.assignment, self.level + 1, self.depth, unwatched, self.resumed, saves_to
        )

    def _checkpoint_due(self) -> str | None:
        """Returns the folder to save the level to, if a checkpoint is due."""
        points = self.checkpoints
        if points is None or not points.is_due:
            return None
        points.restart_clock()
        return points.folder

    def _note(self, statuses: list[PartStatus]) -> None:
        """Keeps what the parts report. Hits in states that were sent are one level less deep than those
        that parts found by themselves, so they come first."""
        self.level += 1
        self.counters = [replace(one.report.counters, sent=one.sent) for one in statuses]
        record_bytes = 8 * (self.width + 1)
        self.moved = [(record_bytes * one.sent, one.report.spilled_bytes) for one in statuses]
        self.bests = [one.report.best for one in statuses]
        self.bounds.append([one.begun for one in statuses])
        self.frontier = self.state_count - sum(self.bounds[-1])
        self.hits += self.earlier
        self.earlier.clear()
        for one in statuses:
            self.add_hits(one.part, one.absorbed)
        for one in statuses:
            self.add_hits(one.part, one.report.hits)

    def _sent(self) -> int:
        return sum(one.sent for one in self.counters)

    def row(self, index: int) -> Row:
        """Returns the row of a state."""
        if index not in self.rows:
            self._fetch_rows([index])
        return self.rows[index]

    def path(self, index: int) -> list[int]:
        """Returns the states from the initial one to this one, and fetches their rows."""
        path, window = [index], ParentWindow({})
        while True:
            part, place = split_index(path[-1])
            if not window.has(part, place):
                window = self._fetch_window(part, place)
            parent = window.parent(part, place)
            if parent is None:
                break
            path.append(parent)
        self._fetch_rows(path)
        return path[::-1]

    def _fetch_rows(self, indices: list[int]) -> None:
        wanted: dict[int, list[int]] = {}
        for part, place in map(split_index, indices):
            wanted.setdefault(part, []).append(place)
        stored = StoredStates(self.width, self.resumed)
        for index, row in self.jobs.ask(partial(stored.rows, wanted)):
            self.rows[index] = np.frombuffer(row, np.uint64)

    def _fetch_window(self, part: int, place: int) -> ParentWindow:
        """Fetches the parents of a state's level, and of levels before it."""
        ends = [*self.bounds, [counters.states for counters in self.counters]]
        last = next(level for level, end in enumerate(ends) if place < end[part])
        first = last
        while first > 0 and sum(ends[last]) - sum(_before(ends, first - 1)) <= WINDOW_STATES:
            first -= 1
        ranges = list(zip(_before(ends, first), ends[last], strict=True))
        parts = {
            number: (begin, np.zeros(end - begin, np.uint32), np.zeros(end - begin, np.uint16))
            for number, (begin, end) in enumerate(ranges)
        }
        stored = StoredStates(self.width, self.resumed)
        for some in _pieces(ranges, WINDOW_STATES // len(ranges)):
            for number, begin, parents, owners in self.jobs.ask(partial(stored.parents, some)):
                first_place, known_parents, known_owners = parts[number]
                here = slice(begin - first_place, begin - first_place + len(owners) // 2)
                known_parents[here] = np.frombuffer(parents, np.uint32)
                known_owners[here] = np.frombuffer(owners, np.uint16)
        return ParentWindow(parts)

    def unwatch(self, kind: int) -> None:
        """Stops noting hits of a kind, from the next level on."""
        self.remember(kind)

    def count_orbits(self, orbit: int) -> int:
        """Returns how many states the found ones represent, by symmetry."""
        return sum(self.jobs.ask(partial(count_orbits, self._next_task())))


def _before(ends: list[list[int]], level: int) -> list[int]:
    """Returns where a level begins in each part."""
    return ends[level - 1] if level > 0 else [0] * len(ends[0])


def _pieces(ranges: list[Range], size: int) -> Iterator[list[Range]]:
    """Returns the ranges in pieces of at most `size` states per part."""
    size = max(size, 1)
    longest = max(end - begin for begin, end in ranges)
    for start in range(0, longest, size):
        yield [(min(begin + start, end), min(begin + start + size, end)) for begin, end in ranges]


def explore_by_shuffles(
    jobs: Jobs,
    assignment: Assignment,
    width: int,
    budget: int,
    directions: tuple[int, ...],
    manifest: Manifest | None = None,
    folder: str | None = None,
) -> ShuffledExploration:
    """Returns an exploration that waits for states, or that continues from a checkpoint."""
    resumed = None
    if manifest is not None and folder is not None:
        resumed = Resumed(folder, manifest.parts)
        saved = enumerate(manifest.parts)
        jobs.keep([(part, first_status(part, one.frontier, one.totals, one)) for part, one in saved])
    buffer = HandoverBuffer(jobs, assignment.part_count)
    return ShuffledExploration(
        budget, directions, jobs=jobs, buffer=buffer, assignment=assignment, width=width, resumed=resumed
    )


class SparkJobs:
    """Runs levels and questions as jobs of a Spark context."""

    def __init__(
        self,
        context: SparkContext,
        part_count: int,
        description: str,
        explain: Callable[[str], EnvironmentFailure],
    ) -> None:
        self.context, self.part_count, self.explain = context, part_count, explain
        self.kept: list[RDD[Addressed]] = []
        self.group = f"veristream-{secrets.token_hex(8)}"
        context.setJobGroup(self.group, description, interruptOnCancel=True)

    def keep(self, items: list[Addressed]) -> None:
        """Moves items to the cluster."""
        given = self.context.parallelize(items, self.part_count).partitionBy(self.part_count, own_key)
        self.kept.append(self._written(given))

    def run_level(self, task: LevelTask) -> list[PartStatus]:
        """Runs a level as one job; if a part fails, keeps nothing of it."""
        if len(self.kept) > SETTLE_LEVELS:
            self._settle(task.level - 1)
        ran = self._held().mapPartitionsWithIndex(partial(_run_task, task))
        arrived = ran.partitionBy(self.part_count, own_key)
        statuses = self._run(lambda: arrived.mapPartitions(_statuses).collect())
        if all(one.failure is None for one in statuses):
            self.kept.append(arrived)
        return statuses

    def ask(self, question: Question[Answer]) -> list[Answer]:
        """Returns the answers of all parts, from one job."""
        asked = self._held().mapPartitionsWithIndex(partial(_asked, question))
        return self._run(asked.collect)

    def close(self) -> None:
        """Lets Spark delete what was kept."""
        self.context.cancelJobGroup(self.group)
        for key in ("spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel"):
            self.context.setLocalProperty(key, None)  # type: ignore[arg-type]  # None removes it
        for one in self.kept:
            one.unpersist()
        self.kept.clear()

    def _held(self) -> RDD[Addressed]:
        """Returns all that is kept, by part: equal partitioners make the union need no shuffle."""
        held = self.context.union(self.kept)
        assert held.getNumPartitions() == self.part_count, "the RDDs are not joined part by part"
        return held

    def _settle(self, last: int) -> None:
        """Writes together what the level after `last` needs."""
        lasting = self._held().mapPartitions(partial(_lasting, last), preservesPartitioning=True)
        old, self.kept = self.kept, [self._written(lasting)]
        while old:
            old.pop().unpersist()
        assert self.context._jvm is not None
        self.context._jvm.System.gc()  # Spark deletes a shuffle's files once Java has collected it

    def _written(self, data: RDD[Addressed]) -> RDD[Addressed]:
        """Returns the data on the executors' disks, without lineage."""
        from pyspark import RDD, StorageLevel
        from pyspark.serializers import BatchedSerializer, CPickleSerializer

        data.persist(StorageLevel.DISK_ONLY)
        data.localCheckpoint()
        self._run(lambda: [data.count()])
        # A union passes RDDs through Python if their serialisers differ from the first one's. This one is
        # that of a shuffle's result, and it reads both.
        serializer = BatchedSerializer(CPickleSerializer())
        return RDD(data._jrdd, self.context, serializer)

    def _run(self, job: Callable[[], list[Answer]]) -> list[Answer]:
        """Returns the result of a job; runs it again if a process is lost."""
        error_text = ""
        for _ in range(ATTEMPTS):
            try:
                return job()
            except Exception as error:  # Py4J and Spark raise many kinds
                error_text = str(error)
                if _GONE.search(error_text):
                    break
                if not _LOST.search(error_text):
                    raise self.explain(error_text) from error
        raise WorkerLostError(error_text.partition("\n")[0])


def own_key(part: int) -> int:
    """Returns the partition of a part's items."""
    return part


def _run_task(task: LevelTask, number: int, pairs: Iterable[Addressed]) -> Iterator[Addressed]:
    return run_level_task(task, number, (item for _, item in pairs))


def _asked(question: Question[Answer], number: int, pairs: Iterable[Addressed]) -> Iterator[Answer]:
    return question(number, (item for _, item in pairs))


def _statuses(pairs: Iterable[Addressed]) -> Iterator[PartStatus]:
    return (item for _, item in pairs if isinstance(item, PartStatus))


def _lasting(last: int, pairs: Iterable[Addressed]) -> Iterator[Addressed]:
    """Returns what is needed after the level `last`: all states, and all other items of that level."""
    for part, item in pairs:
        if item.level == last or (isinstance(item, Block) and item.kind == Kind.STATES):
            yield part, item
