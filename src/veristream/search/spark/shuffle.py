"""Exploration by plain Spark jobs: where a barrier stage, or sockets between workers, are not to be had.

A level is one job. In its first stage every part takes its turn (see `turn`); what the parts give goes
through Spark's shuffle, in blocks, to the parts that it is for; in the second stage the driver is told how
they stand. Between two levels the blocks stay in the shuffle's files. Every few levels what is still needed
is written together and the lineage ends there, so that neither plans nor files grow for ever. A task that
is lost is taken again by whoever Spark gives it to; where blocks are lost with a machine, the search begins
again.
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
from veristream.search.shared.assignment import Order
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
    Block,
    Item,
    Kind,
    Resumed,
    Sent,
    Standing,
    Turn,
    count_orbits,
    first_standing,
    read_all,
    take_turn,
)

if TYPE_CHECKING:
    from pyspark import RDD, SparkContext

SETTLE_LEVELS = 6
"""After so many levels what is still needed is written together."""

ATTEMPTS = 4
BUFFER_BYTES = 64 << 20
WINDOW_STATES = 1 << 22
"""Of so many states at a time the driver fetches the parents, to follow a path."""

# What Spark says of a task whose process is gone, and of blocks that are.
_LOST = re.compile(r"Python worker exited unexpectedly|Executor ?Lost|FetchFailed|MetadataFetchFailed")
_GONE = re.compile(r"Checkpoint block \S+ not found")

Answer = TypeVar("Answer")
Question = Callable[[int, Iterable[Item]], Iterator[Answer]]
"""What a part is asked between two levels: its number, all its items, what it answers."""


class Jobs(Protocol):
    """Who lets all parts take their turns, and keeps what they give until the next one."""

    def keep(self, items: list[Sent]) -> None:
        """Keeps items that parts begin with."""

    def play(self, turn: Turn) -> list[Standing]:
        """Lets all parts take a turn; where one fails, all is as before."""

    def ask(self, question: Question[Answer]) -> list[Answer]:
        """The answers of all parts."""


@dataclass(slots=True)
class HandoverBuffer:
    """Collects the states of a local exploration, and passes them on to the jobs in blocks."""

    jobs: Jobs
    part_count: int
    places: dict[int, int] = field(default_factory=dict)
    waiting: list[Sent] = field(default_factory=list)
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
        self.waiting.append((part, first_standing(part, frontier, totals)))

    def flush(self) -> None:
        """Passes on what was collected."""
        if self.waiting:
            self.jobs.keep(self.waiting)
        self.waiting, self.byte_count = [], 0


@dataclass(slots=True)
class Window:
    """The parents of some states: per part the first one's index, parents' indices and parents' parts."""

    parts: dict[int, tuple[int, NDArray[np.uint32], NDArray[np.uint16]]]

    def has(self, part: int, place: int) -> bool:
        """Whether the state is among them."""
        first, parents, _ = self.parts.get(part, (0, np.zeros(0), np.zeros(0)))
        return 0 <= place - first < len(parents)

    def parent(self, part: int, place: int) -> int | None:
        """The index among all of the state that one was found from; None for the initial one."""
        first, parents, owners = self.parts[part]
        found = int(parents[place - first])
        return None if found == ROOT else global_index(int(owners[place - first]), found)


Range = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Stored:
    """How to read the states that a part keeps between two levels."""

    width: int
    resumed: Resumed | None

    def parents(
        self, ranges: list[Range], number: int, items: Iterable[Item]
    ) -> Iterator[tuple[int, int, bytes, bytes]]:
        """Of states in the part's range: the first one's index, parents' indices, parents' parts."""
        begin, end = ranges[number]
        for states in read_all(number, items, self.width, self.resumed):
            first, last = max(begin, states.first), min(end, states.end)
            if first < last:
                some = slice(first - states.first, last - states.first)
                yield number, first, states.parents[some].tobytes(), states.owners[some].tobytes()

    def rows(
        self, wanted: dict[int, list[int]], number: int, items: Iterable[Item]
    ) -> Iterator[tuple[int, bytes]]:
        """The rows of the wanted states, each with its index among all."""
        for states in read_all(number, items, self.width, self.resumed):
            for place in wanted.get(number, []):
                if states.first <= place < states.end:
                    begin = (place - states.first) * self.width
                    row = states.rows[begin : begin + self.width]
                    yield global_index(number, place), row.tobytes()


@dataclass(slots=True)
class ShuffledExploration(SharedExploration):
    """An exploration whose parts take turns in jobs; `SharedExploration` has what does not depend on that.

    What a part finds for another one is taken in at the next turn. So a level is known to have been the
    last one when nothing was sent at it, or else when the next one turns out to be empty.
    """

    jobs: Jobs = field(kw_only=True)
    buffer: HandoverBuffer = field(kw_only=True)
    order: Order = field(kw_only=True)
    width: int = field(kw_only=True)  # words of a row
    resumed: Resumed | None = field(default=None, kw_only=True)
    run: str = field(default_factory=lambda: secrets.token_hex(8), kw_only=True)
    level: int = field(default=0, init=False)
    bounds: list[list[int]] = field(default_factory=list, init=False)  # states that had begun, by level
    rows: dict[int, Row] = field(default_factory=dict, init=False)  # of paths that were asked for
    earlier: list[Hit] = field(default_factory=list, init=False)  # of the checkpoint that it began from

    @property
    def recipient(self) -> Recipient:
        return self.buffer

    def advance(self, quantum: int) -> None:
        """Explores one level, however large."""
        self.hits.clear()
        self.buffer.flush()
        due = self._checkpoint_due()
        standings = sorted(self.jobs.play(self._turn(due)), key=lambda one: one.part)
        self.require_room([Failure(one.failure) for one in standings if one.failure is not None])
        sent = self._sent()
        self._note(standings)
        if due is not None and not self.hits:
            parts = tuple(one.saved for one in standings)
            write_manifest(due, self.manifest(self.order.digest, parts))
        if not any(one.size for one in standings):
            self.complete = True
            self.depth -= 1
        else:
            self.complete = self.frontier == 0 and self._sent() == sent
            self.depth += not self.complete

    def resume(self, manifest: Manifest) -> None:
        """Goes on from a checkpoint. What decided something is told after the first turn: only then is it
        known how many states each part has."""
        SharedExploration.resume(self, manifest)  # super() does not know a class with slots
        self.earlier += self.hits
        self.hits.clear()

    def _turn(self, saves_to: str | None = None) -> Turn:
        """The next turn."""
        unwatched = tuple(self.unwatched)
        return Turn(self.run, self.order, self.level + 1, self.depth, unwatched, self.resumed, saves_to)

    def _checkpoint_due(self) -> str | None:
        """The folder to save the level to, where it is time to."""
        points = self.checkpoints
        if points is None or not points.is_due:
            return None
        points.restart_clock()
        return points.folder

    def _note(self, standings: list[Standing]) -> None:
        """Takes over what the parts say. Hits in states that were sent are one level less deep than those
        that parts found by themselves, so they come first."""
        self.level += 1
        self.counters = [replace(one.report.counters, sent=one.sent) for one in standings]
        record_bytes = 8 * (self.width + 1)
        self.moved = [(record_bytes * one.sent, one.report.spilled_bytes) for one in standings]
        self.bests = [one.report.best for one in standings]
        self.bounds.append([one.begun for one in standings])
        self.frontier = self.state_count - sum(self.bounds[-1])
        self.hits += self.earlier
        self.earlier.clear()
        for one in standings:
            self.add_hits(one.part, one.absorbed)
        for one in standings:
            self.add_hits(one.part, one.report.hits)

    def _sent(self) -> int:
        return sum(one.sent for one in self.counters)

    def row(self, index: int) -> Row:
        """The row of a state."""
        if index not in self.rows:
            self._fetch_rows([index])
        return self.rows[index]

    def path(self, index: int) -> list[int]:
        """The states from the initial one to this one; their rows come with them."""
        path, window = [index], Window({})
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
        stored = Stored(self.width, self.resumed)
        for index, row in self.jobs.ask(partial(stored.rows, wanted)):
            self.rows[index] = np.frombuffer(row, np.uint64)

    def _fetch_window(self, part: int, place: int) -> Window:
        """The parents of the states of the level that a state is of, and of levels before it."""
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
        stored = Stored(self.width, self.resumed)
        for some in _pieces(ranges, WINDOW_STATES // len(ranges)):
            for number, begin, parents, owners in self.jobs.ask(partial(stored.parents, some)):
                first_place, known_parents, known_owners = parts[number]
                here = slice(begin - first_place, begin - first_place + len(owners) // 2)
                known_parents[here] = np.frombuffer(parents, np.uint32)
                known_owners[here] = np.frombuffer(owners, np.uint16)
        return Window(parts)

    def unwatch(self, kind: int) -> None:
        """Stops noting hits of a kind, from the next turn on."""
        self.remember(kind)

    def count_orbits(self, orbit: int) -> int:
        """How many states those found stand for, by symmetry."""
        return sum(self.jobs.ask(partial(count_orbits, self._turn())))


def _before(ends: list[list[int]], level: int) -> list[int]:
    """Where a level begins in each part."""
    return ends[level - 1] if level > 0 else [0] * len(ends[0])


def _pieces(ranges: list[Range], size: int) -> Iterator[list[Range]]:
    """The ranges in pieces that are not too large for one answer."""
    size = max(size, 1)
    longest = max(end - begin for begin, end in ranges)
    for start in range(0, longest, size):
        yield [(min(begin + start, end), min(begin + start + size, end)) for begin, end in ranges]


def explore_by_shuffles(
    jobs: Jobs,
    order: Order,
    width: int,
    budget: int,
    directions: tuple[int, ...],
    manifest: Manifest | None = None,
    folder: str | None = None,
) -> ShuffledExploration:
    """An exploration that is to be given states, or that goes on from a checkpoint."""
    resumed = None
    if manifest is not None and folder is not None:
        resumed = Resumed(folder, manifest.parts)
        saved = enumerate(manifest.parts)
        jobs.keep([(part, first_standing(part, one.frontier, one.totals, one)) for part, one in saved])
    buffer = HandoverBuffer(jobs, order.part_count)
    return ShuffledExploration(
        budget, directions, jobs=jobs, buffer=buffer, order=order, width=width, resumed=resumed
    )


class SparkJobs:
    """Turns as jobs of a Spark context."""

    def __init__(
        self,
        context: SparkContext,
        part_count: int,
        description: str,
        explain: Callable[[str], EnvironmentFailure],
    ) -> None:
        self.context, self.part_count, self.explain = context, part_count, explain
        self.kept: list[RDD[Sent]] = []
        self.group = f"veristream-{secrets.token_hex(8)}"
        context.setJobGroup(self.group, description, interruptOnCancel=True)

    def keep(self, items: list[Sent]) -> None:
        """Brings items to the cluster; they do not stay in the driver."""
        given = self.context.parallelize(items, self.part_count).partitionBy(self.part_count, own_key)
        self.kept.append(self._written(given))

    def play(self, turn: Turn) -> list[Standing]:
        """One level."""
        if len(self.kept) > SETTLE_LEVELS:
            self._settle(turn.level - 1)
        turned = self._held().mapPartitionsWithIndex(partial(_turned, turn))
        arrived = turned.partitionBy(self.part_count, own_key)
        standings = self._run(lambda: arrived.mapPartitions(_standings).collect())
        if all(one.failure is None for one in standings):
            self.kept.append(arrived)
        return standings

    def ask(self, question: Question[Answer]) -> list[Answer]:
        """One small job."""
        asked = self._held().mapPartitionsWithIndex(partial(_asked, question))
        return self._run(asked.collect)

    def close(self) -> None:
        """Lets Spark throw away what was kept."""
        self.context.cancelJobGroup(self.group)
        for key in ("spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel"):
            self.context.setLocalProperty(key, None)  # type: ignore[arg-type]  # None removes it
        for one in self.kept:
            one.unpersist()
        self.kept.clear()

    def _held(self) -> RDD[Sent]:
        """All that is kept, by part: what has the same partitioner is joined without a shuffle."""
        held = self.context.union(self.kept)
        assert held.getNumPartitions() == self.part_count, "parts are not joined part by part"
        return held

    def _settle(self, last: int) -> None:
        """Writes together what the turn after the level `last` needs."""
        lasting = self._held().mapPartitions(partial(_lasting, last), preservesPartitioning=True)
        old, self.kept = self.kept, [self._written(lasting)]
        while old:
            old.pop().unpersist()
        assert self.context._jvm is not None
        self.context._jvm.System.gc()  # Spark deletes a shuffle's files once Java has found it unused

    def _written(self, data: RDD[Sent]) -> RDD[Sent]:
        """The data on the executors' disks, with no lineage."""
        from pyspark import RDD, StorageLevel
        from pyspark.serializers import BatchedSerializer, CPickleSerializer

        data.persist(StorageLevel.DISK_ONLY)
        data.localCheckpoint()
        self._run(lambda: [data.count()])
        # A union passes RDDs through Python whose serialisers differ from the first one's. This is the one
        # of what comes from a shuffle, and it reads both.
        serializer = BatchedSerializer(CPickleSerializer())  # type: ignore[no-untyped-call]
        return RDD(data._jrdd, self.context, serializer)

    def _run(self, job: Callable[[], list[Answer]]) -> list[Answer]:
        """What a job gives; where it loses a process it is tried again, and goes on with what is there."""
        told = ""
        for _ in range(ATTEMPTS):
            try:
                return job()
            except Exception as error:  # Py4J and Spark raise many kinds
                told = str(error)
                if _GONE.search(told):
                    break
                if not _LOST.search(told):
                    raise self.explain(told) from error
        raise WorkerLostError(told.partition("\n")[0])


def own_key(part: int) -> int:
    """Items are at the part that they are for."""
    return part


def _turned(turn: Turn, number: int, pairs: Iterable[Sent]) -> Iterator[Sent]:
    return take_turn(turn, number, (item for _, item in pairs))


def _asked(question: Question[Answer], number: int, pairs: Iterable[Sent]) -> Iterator[Answer]:
    return question(number, (item for _, item in pairs))


def _standings(pairs: Iterable[Sent]) -> Iterator[Standing]:
    return (item for _, item in pairs if isinstance(item, Standing))


def _lasting(last: int, pairs: Iterable[Sent]) -> Iterator[Sent]:
    """What is needed after the level: all states, and the other things of that level."""
    for part, item in pairs:
        if item.level == last or (isinstance(item, Block) and item.kind == Kind.STATES):
            yield part, item
