"""The Spark engine: a barrier stage in which each task owns a part of the state space.

Spark starts the workers and keeps them alive; states travel directly between the workers. The driver runs
the same searches as the local engine. If a worker is lost, the search starts again from the last
checkpoint, or from the beginning.
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
from veristream.search.shared.assignment import Assignment, make_assignment
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
"""The share of the driver's memory at which an exploration is handed over."""

ALONE = "checked by the driver alone"
SHARED_REMEDY = "--max-memory-mib applies to each part; --spill DIR keeps states on disk"
SPILLED_REMEDY = "--max-memory-mib applies to each part; more --parts have more memory"

Found = TypeVar("Found")

CheckAll = Callable[[Network, Sequence[Property], Limits, Report], tuple[Result, ...]]


@dataclass(frozen=True, slots=True)
class Cluster:
    """A Spark session, opened when needed, the number of parts, and the user's options."""

    open_session: Callable[[], SparkSession]
    count_parts: Callable[[], int]
    options: SparkOptions
    exchange: ExchangeChoice

    @property
    def part_count(self) -> int:
        """The number of parts, and of workers."""
        return self.count_parts()

    def folder_for(self, assignment: Assignment) -> str | None:
        """Returns the folder for checkpoints; each search of a model has its own."""
        base = self.options.checkpoint
        whole = "\n".join((assignment.open_part.__name__, assignment.digest, assignment.text))
        return None if base is None else make_folder(base, sha256(whole.encode()).hexdigest()[:16])

    def saved(self, assignment: Assignment) -> Manifest | None:
        """Returns the checkpoint of this assignment, if there is one."""
        folder = self.folder_for(assignment)
        return None if folder is None else read_manifest(folder, assignment.digest, assignment.part_count)


CheckThere = Callable[[Cluster, Network, Sequence[Property], Limits, Report], dict[str, Result]]


def engine(open_session: Callable[[], SparkSession], options: SparkOptions) -> CheckAll:
    """Checks properties on the cluster of the session, as `search.engine.check` does on this machine."""
    session = cache(open_session)
    for option, folder in (("--checkpoint", options.checkpoint), ("--spill", options.spill)):
        _make_folder(option, folder)
    count_parts = cache(lambda: options.parts or cores_of(session(), None))
    cluster = Cluster(session, count_parts, options, ExchangeChoice(options.exchange))
    if options.start_states is not None:
        cluster.count_parts()  # fails at once if the user asks for Spark and there is none

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
        raise EnvironmentFailure(reason, "choose a folder that you can write to") from error


def check_liveness_on_spark(
    cluster: Cluster, network: Network, properties: Sequence[Property], limits: Limits, report: Report
) -> dict[str, Result]:
    """Returns the results of properties of infinite runs of an untimed network, by name."""
    limits, options = _with_remedy(cluster, limits), cluster.options
    results: dict[str, Result] = {}
    for one in properties:
        share = _sharing_on_spark(cluster, network)
        arguments = (network, one, limits, report, share, options.start_states, options.spill)
        results[one.name] = _again(partial(check_shared_runs, *arguments))
    return results


def _sharing_on_spark(cluster: Cluster, network: Network) -> Share:
    """Shares explorations among the cluster's workers from the initial state on."""

    @contextmanager
    def share(assignment_for: Callable[[int], Assignment]) -> Iterator[CrewExploration]:
        assignment = assignment_for(cluster.part_count)
        manifest = cluster.saved(assignment)
        with ExitStack() as stack:
            yield _start(cluster, network, assignment, (), manifest, stack, handed=False)

    return share


def _with_remedy(cluster: Cluster, limits: Limits) -> Limits:
    """Returns the limits, with a remedy for a part whose memory is exhausted."""
    spilled = cluster.options.spill is not None
    return replace(limits, remedy=SPILLED_REMEDY if spilled else SHARED_REMEDY)


def _again(search: Callable[[], Found]) -> Found:
    """Runs a search, and runs it again if a worker is lost."""
    lost: WorkerLostError | None = None
    for _ in range(ATTEMPTS):
        try:
            return search()
        except WorkerLostError as error:
            lost = error
    raise EnvironmentFailure(
        f"workers were lost {ATTEMPTS} times in a row: {lost}",
        "look at the executors' logs; if they run out of memory, set --max-memory-mib",
    )


def check_timed_on_spark(
    cluster: Cluster, network: Network, properties: Sequence[Property], limits: Limits, report: Report
) -> dict[str, Result]:
    """Returns the results of safety properties of a timed network, by name."""
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
    """Returns the results of properties that only the driver can check, by name."""
    if cluster.options.start_states is not None:  # else the user did not ask for a cluster
        for one in properties:
            cluster.options.tell(ALONE, one.name)
    return LOCAL[method](network, properties, *bounds)


def check_safety_on_spark(
    cluster: Cluster, network: Network, properties: Sequence[Property], limits: Limits, report: Report
) -> dict[str, Result]:
    """Returns the results of safety properties of an untimed network, by name."""
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
    """Opens explorations that begin in the driver, and that the cluster shares once they are large."""

    @contextmanager
    def open_(code: Code, initial: Row, batch: Batch, reduced: bool) -> Iterator[Exploring]:
        options = cluster.options
        with ExitStack() as stack:

            def assignment_now() -> Assignment:
                memory = limits.memory_max_mib
                return make_assignment(network, batch, reduced, cluster.part_count, memory, options.spill)

            def start(manifest: Manifest | None = None) -> SharedExploration:
                assignment = assignment_now()
                signs = tuple(sign for _, sign in batch.plan().goals)
                if not cluster.exchange.shuffles:
                    try:
                        return _start(cluster, network, assignment, signs, manifest, stack)
                    except SocketsRefusedError as refused:
                        _require_shuffles(cluster, refused)
                return _start_shuffled(cluster, network, assignment, (signs, len(initial)), manifest, stack)

            is_any = options.checkpoint is not None and is_saved(options.checkpoint)
            manifest = cluster.saved(assignment_now()) if is_any else None
            if manifest is not None:
                yield start(manifest)
            else:
                # Only what one thread has found can be handed over; after several, the parts start again.
                workers = limits.workers or 1 if options.start_states is None else 1
                here = begin(code, initial, batch.plan(), workers, limits.memory_max_mib)
                yield Handover(here, _is_time(options.start_states), start)

    return open_


def _is_time(start_states: int | None) -> IsTime:
    """Returns the test whether an exploration is large enough to be handed over."""
    if start_states is None:
        return lambda local: local.byte_count > NEARLY * local.budget
    return lambda local: local.state_count > start_states


def _start(
    cluster: Cluster,
    network: Network,
    assignment: Assignment,
    signs: tuple[int, ...],
    manifest: Manifest | None,
    stack: ExitStack,
    handed: bool = True,
) -> CrewExploration:
    """Returns an exploration by connected workers, which begins with the manifest's checkpoint if there is
    one; otherwise with states that are handed over, or with the initial state."""
    with ExitStack() as attempt:
        crew = _meet(cluster, network, assignment, manifest, attempt, handed)
        stack.push(attempt.pop_all())
    each = assignment.memory_max_mib or default_budget_mib()
    exploration = CrewExploration(each * cluster.part_count * MIB, signs, crew=crew)
    _use_checkpoints(cluster, assignment, exploration, manifest)
    return exploration


def _meet(
    cluster: Cluster,
    network: Network,
    assignment: Assignment,
    manifest: Manifest | None,
    stack: ExitStack,
    handed: bool,
) -> Crew:
    """Returns the workers once all have connected; the stack lets them go."""
    session = cluster.open_session()
    cores_of(session, cluster.part_count)
    crew = open_crew(_driver_host(session), cluster.part_count)
    job = Job(session, crew.meeting, assignment, network.name)

    def notice(kind: object, error: BaseException | None, trace: object) -> None:
        reason = explain_unreachable_peers(str(job.error)) if isinstance(error, WorkerLostError) else None
        if reason is not None:
            cluster.exchange.give_up_sockets(reason, cluster.options)

    stack.push(notice)
    stack.callback(job.end)
    stack.callback(crew.close)
    job.start()
    _gather(crew, job, cluster.folder_for(assignment) or "", manifest, handed and manifest is None)
    return crew


def _require_shuffles(cluster: Cluster, refused: SocketsRefusedError) -> None:
    """Switches to shuffles; raises EnvironmentFailure if the user or the session rules them out."""
    if is_remote(cluster.open_session()):
        raise EnvironmentFailure(
            refused.message,
            "with Spark Connect, too, executors must reach each other and this process",
        ) from refused
    if not cluster.exchange.give_up_sockets(refused.reason, cluster.options):
        raise refused


def _start_shuffled(
    cluster: Cluster,
    network: Network,
    assignment: Assignment,
    shape: tuple[tuple[int, ...], int],
    manifest: Manifest | None,
    stack: ExitStack,
) -> SharedExploration:
    """Returns an exploration by shuffles; `shape` is the directions of measures and the words of a row."""
    session, (signs, width) = cluster.open_session(), shape
    if is_remote(session):
        raise EnvironmentFailure(
            "Spark Connect has no RDDs, which --exchange shuffle needs",
            "omit --exchange shuffle to use sockets, or give a --master that is not sc://",
        )
    jobs = SparkJobs(
        session.sparkContext, cluster.part_count, f"veristream: {network.name}", explain_failed_job
    )
    stack.callback(jobs.close)
    budget = (assignment.memory_max_mib or default_budget_mib()) * cluster.part_count * MIB
    folder = cluster.folder_for(assignment)
    exploration = explore_by_shuffles(jobs, assignment, width, budget, signs, manifest, folder)
    _use_checkpoints(cluster, assignment, exploration, manifest)
    return exploration


def _use_checkpoints(
    cluster: Cluster, assignment: Assignment, exploration: SharedExploration, manifest: Manifest | None
) -> None:
    """Prepares the exploration for checkpoints, and lets it resume from one."""
    folder = cluster.folder_for(assignment)
    if folder is not None:
        seconds = cluster.options.checkpoint_seconds
        exploration.checkpoints = Checkpoints(folder, assignment.digest, seconds)
    if manifest is not None:
        exploration.resume(manifest)


def _driver_host(session: SparkSession) -> str:
    """Returns the address at which workers reach the driver."""
    if is_remote(session):
        # Not the server's address, but that of this process on the route to the server.
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as route:
            route.connect((session.client.host, REMOTE_PORT))
            return str(route.getsockname()[0])
    return socket.gethostbyname(session.conf.get("spark.driver.host") or "localhost")


class Job(threading.Thread):
    """Runs the barrier stage in a thread of its own; `error` is set if it fails."""

    def __init__(self, session: SparkSession, meeting: Meeting, assignment: Assignment, name: str) -> None:
        super().__init__(daemon=True)
        self.session, self.meeting, self.assignment = session, meeting, assignment
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
        except Exception as error:  # noqa: BLE001  # Spark raises many kinds; `_gather` explains them
            self.error = error

    def _run_here(self) -> None:
        meeting, assignment, context = self.meeting, self.assignment, self.session.sparkContext
        context.setJobGroup(self.group, self.description, interruptOnCancel=True)
        numbers = context.parallelize(range(assignment.part_count), assignment.part_count)
        numbers.barrier().mapPartitions(lambda part: _work(part, meeting, assignment)).collect()

    def _run_remotely(self) -> None:
        """Spark Connect has no RDDs, but its tables have barrier stages too."""
        meeting, assignment, count = self.meeting, self.assignment, self.assignment.part_count
        self.session.addTag(self.group)
        numbers = self.session.range(0, count, 1, count)
        numbers.mapInArrow(
            lambda parts: _work_on(parts, meeting, assignment), "id long", barrier=True
        ).collect()

    def end(self) -> None:
        """Waits briefly for the stage to end by itself, then cancels it."""
        self.join(timeout=2)
        if not self.is_alive():
            return
        if is_remote(self.session):
            self.session.interruptTag(self.group)
        else:
            self.session.sparkContext.cancelJobGroup(self.group)
        self.join(timeout=30)


def _work(numbers: Iterable[int], meeting: Meeting, assignment: Assignment) -> Iterator[int]:
    """Runs the task of one part."""
    for number in numbers:
        serve(meeting, assignment, number)
        yield number


def _work_on(parts: Iterable[Any], meeting: Meeting, assignment: Assignment) -> Iterator[Any]:
    """Runs the task of the part with the number in an Arrow table."""
    for part in parts:
        for number in part.column(0).to_pylist():
            serve(meeting, assignment, number)
        yield part


def _gather(crew: Crew, job: Job, folder: str, manifest: Manifest | None, handed: bool) -> None:
    try:
        crew.gather(GATHER_SECONDS, lambda: job.error is None, folder, manifest, handed)
    except TimeoutError as error:
        raise explain_absence("" if job.error is None else str(job.error)) from error
