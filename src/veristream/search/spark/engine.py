"""The Spark engine: one barrier stage whose tasks each own a part of the state space.

Spark brings the workers to their machines and keeps them alive; the states themselves travel directly
between the workers. The search that asks the questions is the local engine's own. A worker that is lost
costs the time since the last checkpoint, or since the beginning: the search is begun again from there.
"""

from __future__ import annotations

import secrets
import socket
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import cache, partial
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from veristream.errors import EnvironmentFailure
from veristream.ir.network import Network
from veristream.ir.property import Property
from veristream.kernel.layout import Row
from veristream.search.engine import LOCAL, Check, Method, run_searches
from veristream.search.limits import Limits, Report, SparkOptions
from veristream.search.memory import MIB, default_budget_mib
from veristream.search.reach.batch import Batch
from veristream.search.reach.expand import Code
from veristream.search.reach.explore import begin
from veristream.search.reach.safety import Exploring, Open, check_safety
from veristream.search.shared.assignment import Order, make_order
from veristream.search.shared.checkpoint import Manifest, is_saved, make_folder, read_manifest
from veristream.search.shared.crew import Crew, WorkerLostError, open_crew
from veristream.search.shared.exploration import Checkpoints, CrewExploration, SharedExploration
from veristream.search.shared.handover import Handover, IsTime
from veristream.search.shared.runs import Share, check_shared_runs
from veristream.search.shared.worker import Meeting, serve
from veristream.search.shared.zones import Workers, check_shared_zones
from veristream.search.spark.exchange import (
    ExchangeChoice,
    SocketsRefusedError,
    explain_absence,
    explain_failed_job,
    explain_unreachable_peers,
)
from veristream.search.spark.shuffle import SparkJobs, explore_by_shuffles
from veristream.spark import REMOTE_PORT, cores_of, is_remote
from veristream.verdict import Result

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

GATHER_SECONDS = 120.0
ATTEMPTS = 5
NEARLY = 0.8
"""The share of the memory here at which an exploration is handed over."""

ALONE = "checked by the driver alone"
SHARED_REMEDY = "--max-memory-mib is for each part; --spill DIR keeps states on disks"
SPILLED_REMEDY = "--max-memory-mib is for each part; more --parts have more"

Found = TypeVar("Found")

CheckAll = Callable[[Network, Sequence[Property], Limits, Report], tuple[Result, ...]]


@dataclass(frozen=True, slots=True)
class Cluster:
    """Where to explore: a Spark session and how many parts, opened and counted when they are needed, and
    what the user chose."""

    open_session: Callable[[], SparkSession]
    count_parts: Callable[[], int]
    options: SparkOptions
    exchange: ExchangeChoice

    @property
    def part_count(self) -> int:
        """How many workers explore."""
        return self.count_parts()

    def folder_for(self, order: Order) -> str | None:
        """Where checkpoints of this order are; each of the searches of a model has a folder to itself."""
        base = self.options.checkpoint
        whole = "\n".join((order.open_part.__name__, order.digest, order.text))
        return None if base is None else make_folder(base, sha256(whole.encode()).hexdigest()[:16])

    def saved(self, order: Order) -> Manifest | None:
        """The checkpoint of this order; None where there is none."""
        folder = self.folder_for(order)
        return None if folder is None else read_manifest(folder, order.digest, order.part_count)


CheckThere = Callable[[Cluster, Network, Sequence[Property], Limits, Report], dict[str, Result]]


def engine(open_session: Callable[[], SparkSession], options: SparkOptions) -> CheckAll:
    """Checks properties on the cluster of the session, as `search.engine.check` does on this machine."""
    session = cache(open_session)
    for option, folder in (("--checkpoint", options.checkpoint), ("--spill", options.spill)):
        _make_folder(option, folder)
    count_parts = cache(lambda: options.parts or cores_of(session(), None))
    cluster = Cluster(session, count_parts, options, ExchangeChoice(options.exchange))
    if options.start_states is not None:
        cluster.count_parts()  # whoever asks for Spark is told at once where there is none

    return partial(run_searches, {method: _search_on(cluster, method) for method in Method})


def _search_on(cluster: Cluster, method: Method) -> Check:
    """Shares the search, if it can be shared and the sockets that it may need are available; otherwise
    searches in the driver alone."""

    def check(
        network: Network, properties: Sequence[Property], limits: Limits, report: Report
    ) -> dict[str, Result]:
        shared = SHARED.get(method)
        if shared is not None and (method is Method.STATES or not cluster.exchange.shuffles):
            try:
                return shared(cluster, network, properties, limits, report)
            except SocketsRefusedError as refused:
                if not cluster.exchange.give_up_sockets(refused.reason, cluster.options):
                    raise
        return check_alone(cluster, method, network, properties, (limits, report))

    return check


def _make_folder(option: str, folder: str | None) -> None:
    try:
        if folder is not None:
            Path(folder).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = f"{option} {folder}: {error.strerror}"
        raise EnvironmentFailure(reason, "give a folder that can be written to") from error


def check_liveness_on_spark(
    cluster: Cluster, network: Network, properties: Sequence[Property], limits: Limits, report: Report
) -> dict[str, Result]:
    """The results of properties of the infinite runs of an untimed network, by name."""
    limits, options = _with_remedy(cluster, limits), cluster.options
    results: dict[str, Result] = {}
    for one in properties:
        share = _sharing_on_spark(cluster, network)
        arguments = (network, one, limits, report, share, options.start_states, options.spill)
        results[one.name] = _again(partial(check_shared_runs, *arguments))
    return results


def _sharing_on_spark(cluster: Cluster, network: Network) -> Share:
    """Explorations that the cluster shares from their initial state on."""

    @contextmanager
    def share(order_for: Callable[[int], Order]) -> Iterator[CrewExploration]:
        order = order_for(cluster.part_count)
        manifest = cluster.saved(order)
        with ExitStack() as stack:
            yield _start(cluster, network, order, (), manifest, stack, handed=False)

    return share


def _with_remedy(cluster: Cluster, limits: Limits) -> Limits:
    """The limits with what to do where a part's memory is used up."""
    spilled = cluster.options.spill is not None
    return replace(limits, remedy=SPILLED_REMEDY if spilled else SHARED_REMEDY)


def _again(search: Callable[[], Found]) -> Found:
    """What the search finds; begun again where a worker was lost."""
    lost: WorkerLostError | None = None
    for _ in range(ATTEMPTS):
        try:
            return search()
        except WorkerLostError as error:
            lost = error
    raise EnvironmentFailure(
        f"workers were lost {ATTEMPTS} times in a row: {lost}",
        "look at the executors' logs; where they run out of memory, give --max-memory-mib",
    )


def check_timed_on_spark(
    cluster: Cluster, network: Network, properties: Sequence[Property], limits: Limits, report: Report
) -> dict[str, Result]:
    """The results of safety properties of a timed network, by name."""
    limits = _with_remedy(cluster, limits)
    workers = Workers(_sharing_on_spark(cluster, network), cluster.options.start_states, _again)
    return check_shared_zones(network, properties, limits, report, workers)


def check_alone(
    cluster: Cluster,
    method: Method,
    network: Network,
    properties: Sequence[Property],
    bounds: tuple[Limits, Report],
) -> dict[str, Result]:
    """The results of properties that a cluster does not help with, by name: the driver searches alone."""
    if cluster.options.start_states is not None:  # else the user did not ask for a cluster
        for one in properties:
            cluster.options.tell(ALONE, one.name)
    return LOCAL[method](network, properties, *bounds)


def check_safety_on_spark(
    cluster: Cluster, network: Network, properties: Sequence[Property], limits: Limits, report: Report
) -> dict[str, Result]:
    """The results of safety properties, by name, explored on the cluster."""
    limits = _with_remedy(cluster, limits)
    open_ = opening_on_spark(cluster, network, limits)
    return _again(partial(check_safety, network, properties, limits, report, open_))


SHARED: Mapping[Method, CheckThere] = {
    Method.STATES: check_safety_on_spark,
    Method.ZONES: check_timed_on_spark,
    Method.RUNS: check_liveness_on_spark,
}
"""The searches that a cluster can share; the driver runs all others alone."""


def opening_on_spark(cluster: Cluster, network: Network, limits: Limits) -> Open:
    """Explorations that begin here, and that the cluster shares once they are large."""

    @contextmanager
    def open_(code: Code, initial: Row, batch: Batch, reduced: bool) -> Iterator[Exploring]:
        options = cluster.options
        with ExitStack() as stack:

            def order_now() -> Order:
                memory = limits.memory_max_mib
                return make_order(network, batch, reduced, cluster.part_count, memory, options.spill)

            def start(manifest: Manifest | None = None) -> SharedExploration:
                order = order_now()
                signs = tuple(sign for _, sign in batch.plan().goals)
                if not cluster.exchange.shuffles:
                    try:
                        return _start(cluster, network, order, signs, manifest, stack)
                    except SocketsRefusedError as refused:
                        _require_shuffles(cluster, refused)
                return _start_shuffled(cluster, network, order, (signs, len(initial)), manifest, stack)

            is_any = options.checkpoint is not None and is_saved(options.checkpoint)
            manifest = cluster.saved(order_now()) if is_any else None
            if manifest is not None:
                yield start(manifest)
            else:
                # One thread keeps the order in which states are handed over; several begin anew there.
                workers = limits.workers or 1 if options.start_states is None else 1
                here = begin(code, initial, batch.plan(), workers, limits.memory_max_mib)
                yield Handover(here, _is_time(options.start_states), start)

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
    handed: bool = True,
) -> CrewExploration:
    """The exploration of workers that have come: from a checkpoint, to be given states, or from the
    initial state on."""
    with ExitStack() as attempt:
        crew = _meet(cluster, network, order, manifest, attempt, handed)
        stack.push(attempt.pop_all())
    each = order.memory_max_mib or default_budget_mib()
    exploration = CrewExploration(each * cluster.part_count * MIB, signs, crew=crew)
    _go_on(cluster, order, exploration, manifest)
    return exploration


def _meet(
    cluster: Cluster,
    network: Network,
    order: Order,
    manifest: Manifest | None,
    stack: ExitStack,
    handed: bool,
) -> Crew:
    """The workers, once they have come; the stack lets them go."""
    session = cluster.open_session()
    cores_of(session, cluster.part_count)
    crew = open_crew(_driver_host(session), cluster.part_count)
    job = Job(session, crew.meeting, order, network.name)

    def notice(kind: object, error: BaseException | None, trace: object) -> None:
        reason = explain_unreachable_peers(str(job.error)) if isinstance(error, WorkerLostError) else None
        if reason is not None:
            cluster.exchange.give_up_sockets(reason, cluster.options)

    stack.push(notice)
    stack.callback(job.end)
    stack.callback(crew.close)
    job.start()
    _gather(crew, job, cluster.folder_for(order) or "", manifest, handed and manifest is None)
    return crew


def _require_shuffles(cluster: Cluster, refused: SocketsRefusedError) -> None:
    """Goes over to shuffles; raises EnvironmentFailure where they are not wanted or not to be had."""
    if is_remote(cluster.open_session()):
        raise EnvironmentFailure(
            refused.message,
            "behind Spark Connect, too, executors have to reach each other and this process",
        ) from refused
    if not cluster.exchange.give_up_sockets(refused.reason, cluster.options):
        raise refused


def _start_shuffled(
    cluster: Cluster,
    network: Network,
    order: Order,
    shape: tuple[tuple[int, ...], int],
    manifest: Manifest | None,
    stack: ExitStack,
) -> SharedExploration:
    """The exploration of parts that take turns in jobs; of the shape of measures and rows."""
    session, (signs, width) = cluster.open_session(), shape
    if is_remote(session):
        raise EnvironmentFailure(
            "Spark Connect has no RDDs, which exploring by shuffles needs",
            "without --exchange shuffle workers use sockets; or give a --master that is not sc://",
        )
    jobs = SparkJobs(
        session.sparkContext, cluster.part_count, f"veristream: {network.name}", explain_failed_job
    )
    stack.callback(jobs.close)
    budget = (order.memory_max_mib or default_budget_mib()) * cluster.part_count * MIB
    folder = cluster.folder_for(order)
    exploration = explore_by_shuffles(jobs, order, width, budget, signs, manifest, folder)
    _go_on(cluster, order, exploration, manifest)
    return exploration


def _go_on(
    cluster: Cluster, order: Order, exploration: SharedExploration, manifest: Manifest | None
) -> None:
    """Where and how often the exploration is saved, and what it knows already."""
    folder = cluster.folder_for(order)
    if folder is not None:
        seconds = cluster.options.checkpoint_seconds
        exploration.checkpoints = Checkpoints(folder, order.digest, seconds)
    if manifest is not None:
        exploration.resume(manifest)


def _driver_host(session: SparkSession) -> str:
    """The address that workers reach the driver at."""
    if is_remote(session):
        # Not the server's: the one that this process has on the way there.
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as way:
            way.connect((session.client.host, REMOTE_PORT))
            return str(way.getsockname()[0])
    return socket.gethostbyname(session.conf.get("spark.driver.host") or "localhost")


class Job(threading.Thread):
    """The barrier stage, in a thread of its own; `error` says why it failed."""

    def __init__(self, session: SparkSession, meeting: Meeting, order: Order, name: str) -> None:
        super().__init__(daemon=True)
        self.session, self.meeting, self.order = session, meeting, order
        self.description = f"veristream: {name}"
        self.group = f"veristream-{secrets.token_hex(8)}"
        self.error: Exception | None = None

    def run(self) -> None:
        """Runs the stage until all workers are let go."""
        try:
            if is_remote(self.session):
                self._run_remotely()
            else:
                self._run_here()
        except Exception as error:  # noqa: BLE001  # Spark raises many kinds; whoever waits tells them
            self.error = error

    def _run_here(self) -> None:
        meeting, order, context = self.meeting, self.order, self.session.sparkContext
        context.setJobGroup(self.group, self.description, interruptOnCancel=True)
        numbers = context.parallelize(range(order.part_count), order.part_count)
        numbers.barrier().mapPartitions(lambda part: _work(part, meeting, order)).collect()

    def _run_remotely(self) -> None:
        """Spark Connect has no RDDs, but its tables have barrier stages too."""
        meeting, order, count = self.meeting, self.order, self.order.part_count
        self.session.addTag(self.group)
        numbers = self.session.range(0, count, 1, count)
        numbers.mapInArrow(lambda parts: _work_on(parts, meeting, order), "id long", barrier=True).collect()

    def end(self) -> None:
        """Waits a little for the stage to end by itself, then cancels it."""
        self.join(timeout=2)
        if not self.is_alive():
            return
        if is_remote(self.session):
            self.session.interruptTag(self.group)
        else:
            self.session.sparkContext.cancelJobGroup(self.group)
        self.join(timeout=30)


def _work(numbers: Iterable[int], meeting: Meeting, order: Order) -> Iterator[int]:
    """The task of one part."""
    for number in numbers:
        serve(meeting, order, number)
        yield number


def _work_on(parts: Iterable[Any], meeting: Meeting, order: Order) -> Iterator[Any]:
    """The task of one part, whose number comes in an Arrow table."""
    for part in parts:
        for number in part.column(0).to_pylist():
            serve(meeting, order, number)
        yield part


def _gather(crew: Crew, job: Job, folder: str, manifest: Manifest | None, handed: bool) -> None:
    try:
        crew.gather(GATHER_SECONDS, lambda: job.error is None, folder, manifest, handed)
    except TimeoutError as error:
        raise explain_absence("" if job.error is None else str(job.error)) from error
