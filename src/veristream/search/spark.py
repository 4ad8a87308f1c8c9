"""The Spark engine: one barrier stage whose tasks each own a part of the state space.

Spark brings the workers to their machines and keeps them alive; the states themselves travel directly
between the workers. The search that asks the questions is the local engine's own. A worker that is lost
costs the time since the last checkpoint, or since the beginning: the search is begun again from there.
"""

from __future__ import annotations

import re
import secrets
import socket
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

from veristream.errors import EnvironmentFailure, ModelError
from veristream.ir.network import Network
from veristream.ir.property import Property
from veristream.kernel.layout import Row
from veristream.search.checkpoint import Manifest, read_manifest
from veristream.search.crew import Checkpoints, Crew, SharedExploration, WorkerLostError, open_crew
from veristream.search.expand import Code
from veristream.search.explore import begin
from veristream.search.handover import Handover, IsTime
from veristream.search.limits import Limits, Report, SparkOptions
from veristream.search.memory import MIB, default_budget_mib
from veristream.search.order import Order, make_order
from veristream.search.safety import Batch, Exploring, Open, SafetyClaim, batches, check_batch
from veristream.search.worker import Meeting, serve
from veristream.spark import cores_of
from veristream.verdict import Result

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

GATHER_SECONDS = 120.0
ATTEMPTS = 5
NEARLY = 0.8
"""The share of the memory here at which an exploration is handed over."""

_PYTHON_ERROR = re.compile(r"(?!org\.|java\.)[\w.]+(Error|Exception|Failure): ")

Check = Callable[[Network, Sequence[Property], Limits, Report], tuple[Result, ...]]


@dataclass(frozen=True, slots=True)
class Cluster:
    """Where to explore: a Spark session, opened when it is needed, how many parts, what the user chose."""

    open_session: Callable[[], SparkSession]
    part_count: int
    options: SparkOptions


def engine(open_session: Callable[[], SparkSession], options: SparkOptions) -> Check:
    """Checks properties on the cluster of the session, as `local.check` does on this machine."""
    session = cache(open_session)
    for folder in (options.checkpoint, options.spill):
        if folder is not None:
            Path(folder).mkdir(parents=True, exist_ok=True)
    parts = options.parts or cores_of(session(), None)
    cluster = Cluster(session, parts, options)

    def check(
        network: Network, properties: Sequence[Property], limits: Limits, report: Report
    ) -> tuple[Result, ...]:
        for one in properties:
            if network.timed or not isinstance(one.claim, SafetyClaim):
                raise ModelError(
                    f"{one.name} cannot be checked on Spark yet",
                    one.span,
                    "use --engine local; on Spark: always, reachable, transition, deadlockfree,"
                    " nonterminating of untimed networks",
                )
        results = check_safety_on_spark(cluster, network, properties, limits, report)
        return tuple(results[one.name] for one in properties)

    return check


def check_safety_on_spark(
    cluster: Cluster, network: Network, properties: Sequence[Property], limits: Limits, report: Report
) -> dict[str, Result]:
    """The results of safety properties, by name, explored on the cluster."""
    results: dict[str, Result] = {}
    for number in range(len(batches(properties))):
        results |= _check_batch(cluster, network, (properties, number), limits, report)
    return results


def _check_batch(
    cluster: Cluster,
    network: Network,
    chosen: tuple[Sequence[Property], int],
    limits: Limits,
    report: Report,
) -> dict[str, Result]:
    """The results of one batch; begun again where a worker was lost."""
    properties, number = chosen
    lost: WorkerLostError | None = None
    for _ in range(ATTEMPTS):
        batch = batches(properties)[number]
        try:
            return check_batch(network, batch, limits, report, opening_on_spark(cluster, network, limits))
        except WorkerLostError as error:
            lost = error
    raise EnvironmentFailure(
        f"workers were lost {ATTEMPTS} times in a row: {lost}",
        "look at the executors' logs; where they run out of memory, give --max-memory-mib",
    )


def opening_on_spark(cluster: Cluster, network: Network, limits: Limits) -> Open:
    """Explorations that begin here, and that the cluster shares once they are large."""

    @contextmanager
    def open_(code: Code, initial: Row, batch: Batch, reduced: bool) -> Iterator[Exploring]:
        options, parts = cluster.options, cluster.part_count
        order = make_order(network, batch, reduced, parts, limits.memory_max_mib, options.spill)
        folder = options.checkpoint
        manifest = None if folder is None else read_manifest(folder, order.digest, parts)
        signs = tuple(sign for _, sign in batch.plan().goals)
        with ExitStack() as stack:
            if manifest is not None:
                yield _start(cluster, network, order, signs, manifest, stack)
            else:
                local = begin(code, initial, batch.plan(), 1, limits.memory_max_mib)
                start = partial(_start, cluster, network, order, signs, None, stack)
                yield Handover(local, _is_time(options.start_states), start)

    return open_


def _is_time(start_states: int | None) -> IsTime:
    """When an exploration is to be handed over."""
    if start_states is None:
        return lambda local: local.byte_count > NEARLY * local.budget
    return lambda local: local.state_count > start_states


def _start(
    cluster: Cluster,
    network: Network,
    order: Order,
    signs: tuple[int, ...],
    manifest: Manifest | None,
    stack: ExitStack,
) -> SharedExploration:
    """The exploration of workers that have come: from a checkpoint, or to be given states."""
    session = cluster.open_session()
    cores_of(session, cluster.part_count)
    folder = cluster.options.checkpoint
    crew = open_crew(_driver_host(session), cluster.part_count)
    job = Job(session, crew.meeting, order, network.name)
    stack.callback(job.end)
    stack.callback(crew.close)
    job.start()
    _gather(crew, job, folder or "", manifest)
    each = order.memory_max_mib or default_budget_mib()
    exploration = SharedExploration(crew, each * cluster.part_count * MIB, signs)
    if folder is not None:
        seconds = cluster.options.checkpoint_seconds
        exploration.checkpoints = Checkpoints(folder, order.digest, seconds)
    if manifest is not None:
        exploration.depth = manifest.depth
        for kind in manifest.unwatched:
            exploration.unwatch(kind)
    return exploration


def _driver_host(session: SparkSession) -> str:
    """The address that workers reach the driver at."""
    return socket.gethostbyname(session.conf.get("spark.driver.host") or "localhost")


class Job(threading.Thread):
    """The barrier stage, in a thread of its own; `error` says why it failed."""

    def __init__(self, session: SparkSession, meeting: Meeting, order: Order, name: str) -> None:
        super().__init__(daemon=True)
        self.context, self.meeting, self.order = session.sparkContext, meeting, order
        self.description = f"veristream: {name}"
        self.group = f"veristream-{secrets.token_hex(8)}"
        self.error: Exception | None = None

    def run(self) -> None:
        """Runs the stage until all workers are let go."""
        meeting, order, context = self.meeting, self.order, self.context
        try:
            context.setJobGroup(self.group, self.description, interruptOnCancel=True)
            numbers = context.parallelize(range(order.part_count), order.part_count)
            numbers.barrier().mapPartitions(lambda part: _work(part, meeting, order)).collect()
        except Exception as error:  # noqa: BLE001  # Spark raises many kinds; whoever waits tells them
            self.error = error

    def end(self) -> None:
        """Waits a little for the stage to end by itself, then cancels it."""
        self.join(timeout=2)
        if self.is_alive():
            self.context.cancelJobGroup(self.group)
            self.join(timeout=30)


def _work(numbers: Iterable[int], meeting: Meeting, order: Order) -> Iterator[int]:
    """The task of one part."""
    for number in numbers:
        serve(meeting, order, number)
        yield number


def _gather(crew: Crew, job: Job, folder: str, manifest: Manifest | None) -> None:
    try:
        crew.gather(GATHER_SECONDS, lambda: job.error is None, folder, manifest, manifest is None)
    except TimeoutError as error:
        raise _absence("" if job.error is None else str(job.error)) from error


def _absence(told: str) -> EnvironmentFailure:
    """Why the workers did not come, from what Spark told of their stage."""
    if "No module named 'veristream" in told:
        return EnvironmentFailure(
            "the Python of the cluster's workers has no veristream",
            "install it there, or ship it: PYSPARK_SUBMIT_ARGS='--py-files veristream.zip pyspark-shell'",
        )
    # The worker's own error ends its Python traceback; around it are Java's lines.
    lines = [line for line in told.splitlines() if _PYTHON_ERROR.match(line)]
    reasons = lines or [line for line in told.splitlines() if "Exception: " in line]
    return EnvironmentFailure(
        "the workers did not come" + (f": {reasons[-1]}" if reasons else ""),
        "see that the cluster has a free core for each part, and that its machines reach the driver",
    )
