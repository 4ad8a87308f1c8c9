"""Shared explorations with threads as workers: everything except Spark."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from veristream.ir.network import Network
from veristream.ir.property import Property
from veristream.kernel.layout import Row
from veristream.search.limits import Limits, silent
from veristream.search.memory import MIB
from veristream.search.reach.batch import Batch
from veristream.search.reach.expand import Code
from veristream.search.reach.explore import begin
from veristream.search.reach.safety import Exploring, Open, check_safety
from veristream.search.shared.assignment import Assignment, make_assignment
from veristream.search.shared.checkpoint import read_manifest
from veristream.search.shared.crew import open_crew
from veristream.search.shared.exploration import Checkpoints, CrewExploration
from veristream.search.shared.handover import Handover
from veristream.search.shared.runs import Share
from veristream.search.shared.worker import Meeting, serve
from veristream.verdict import Result

Watch = Callable[[CrewExploration], None]

GATHER_SECONDS = 600.0
"""Generous: threads are never lost, but the first one may compile for a long time on a busy machine."""


def _quietly(meeting: Meeting, assignment: Assignment, number: int) -> None:
    """Runs a worker, and ignores that its driver has gone."""
    try:
        serve(meeting, assignment, number)
    except OSError:
        return


def opening_with_threads(
    network: Network,
    part_count: int,
    folder: str | None = None,
    spill: str | None = None,
    memory_max_mib: int | None = 256,
    start_states: int | None = None,
    workers: int = 1,
) -> Open:
    """Explorations that threads share; with a folder they are saved after every level. With `start_states`
    they begin in the driver and are handed over once they are larger than that."""

    @contextmanager
    def open_(code: Code, initial: Row, batch: Batch, reduced: bool) -> Iterator[Exploring]:
        assignment = make_assignment(network, batch, reduced, part_count, memory_max_mib, spill)
        crew = open_crew("127.0.0.1", part_count)
        args = [(crew.meeting, assignment, number) for number in range(part_count)]
        threads = [threading.Thread(target=_quietly, args=one, daemon=True) for one in args]
        for thread in threads:
            thread.start()
        manifest = None if folder is None else read_manifest(folder, assignment.digest, part_count)
        signs = tuple(sign for _, sign in batch.plan().goals)
        exploration = CrewExploration(256 * part_count * MIB, signs, crew=crew)

        def start() -> CrewExploration:
            crew.gather(GATHER_SECONDS, lambda: True, folder or "", manifest, start_states is not None)
            if folder is not None:
                exploration.checkpoints = Checkpoints(folder, assignment.digest, 0.0)
            return exploration

        try:
            if start_states is not None:
                local = begin(code, initial, batch.plan(), workers, memory_max_mib)
                yield Handover(local, lambda known: known.state_count > start_states, start)
                return
            start()
            if manifest is not None:
                exploration.resume(manifest)
            yield exploration
        finally:
            crew.close()
            for thread in threads:
                thread.join(timeout=20)

    return open_


def sharing_with_threads(part_count: int, memory_max_mib: int = 256, folder: str | None = None) -> Share:
    """Explorations of products or zones that threads share from the initial state on; with a folder they
    are saved after every level, and resumed from a checkpoint found there."""

    @contextmanager
    def share(assignment_for: Callable[[int], Assignment]) -> Iterator[CrewExploration]:
        assignment = assignment_for(part_count)
        crew = open_crew("127.0.0.1", part_count)
        args = [(crew.meeting, assignment, number) for number in range(part_count)]
        threads = [threading.Thread(target=_quietly, args=one, daemon=True) for one in args]
        for thread in threads:
            thread.start()
        try:
            manifest = None if folder is None else read_manifest(folder, assignment.digest, part_count)
            crew.gather(GATHER_SECONDS, lambda: True, folder or "", manifest)
            exploration = CrewExploration(memory_max_mib * part_count * MIB, crew=crew)
            if folder is not None:
                exploration.checkpoints = Checkpoints(folder, assignment.digest, 0.0)
            if manifest is not None:
                exploration.resume(manifest)
            yield exploration
        finally:
            crew.close()
            for thread in threads:
                thread.join(timeout=20)

    return share


def check_shared(
    network: Network, properties: Sequence[Property], open_: Open, limits: Limits | None = None
) -> list[Result]:
    """The results of safety properties, in their order."""
    found = check_safety(network, properties, limits or Limits(), silent, open_)
    return [found[one.name] for one in properties]
