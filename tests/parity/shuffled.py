"""Explorations by shuffles, with loops instead of Spark jobs."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from veristream.ir.network import Network
from veristream.kernel.layout import Row
from veristream.search.memory import MIB
from veristream.search.reach.batch import Batch
from veristream.search.reach.expand import Code
from veristream.search.reach.explore import begin
from veristream.search.reach.safety import Exploring, Open
from veristream.search.shared.assignment import make_assignment
from veristream.search.shared.checkpoint import read_manifest
from veristream.search.shared.exploration import Checkpoints
from veristream.search.shared.handover import Handover
from veristream.search.spark import level_task
from veristream.search.spark.level_task import (
    Addressed,
    Block,
    Item,
    Kind,
    LevelTask,
    PartCache,
    PartStatus,
    run_level_task,
)
from veristream.search.spark.shuffle import Answer, Question, ShuffledExploration, explore_by_shuffles


class Loops:
    """Runs tasks in loops. Items come in any order, any of several processes runs a task, and many a task
    runs again because its result was lost. A process is represented by its cache of parts."""

    def __init__(self, part_count: int, process_count: int) -> None:
        self.part_count, self.chance = part_count, random.Random(part_count)
        self.processes = [PartCache() for _ in range(process_count)]
        self.items: dict[int, list[Item]] = {}

    def keep(self, items: list[Addressed]) -> None:
        for part, item in items:
            self.items.setdefault(part, []).append(item)

    def run_level(self, task: LevelTask) -> list[PartStatus]:
        given: list[Addressed] = []
        for number in range(self.part_count):
            whole = list(self._take(partial(run_level_task, task), number))
            for _ in range(self.chance.randrange(3)):
                again = list(self._take(partial(run_level_task, task), number))
                assert _states(again) == _states(whole), "a repeated task returns other states"
                whole = again
                next(self._take(partial(run_level_task, task), number))  # interrupted
            given += whole
        statuses = [item for _, item in given if isinstance(item, PartStatus)]
        if all(one.failure is None for one in statuses):
            self.keep(given)
        return statuses

    def ask(self, question: Question[Answer]) -> list[Answer]:
        return [answer for number in range(self.part_count) for answer in self._take(question, number)]

    def _take(self, question: Question[Answer], number: int) -> Iterator[Answer]:
        level_task._CACHE = self.chance.choice(self.processes) if self.processes else PartCache()
        mine = self.items[number]
        return question(number, self.chance.sample(mine, len(mine)))


def _states(given: list[Addressed]) -> list[Block]:
    return [item for _, item in given if isinstance(item, Block) and item.kind != Kind.RECORDS]


def opening_with_loops(
    network: Network,
    part_count: int,
    folder: str | None = None,
    spill: str | None = None,
    memory_max_mib: int | None = 256,
    start_states: int = 0,
    process_count: int = 1,
) -> Open:
    """Opens explorations by shuffles; with a folder, they are saved at every level."""

    @contextmanager
    def open_(code: Code, initial: Row, batch: Batch, reduced: bool) -> Iterator[Exploring]:
        assignment = make_assignment(network, batch, reduced, part_count, memory_max_mib, spill)
        manifest = None if folder is None else read_manifest(folder, assignment.digest, part_count)
        signs = tuple(sign for _, sign in batch.plan().goals)
        jobs = Loops(part_count, process_count)

        def start() -> ShuffledExploration:
            budget = 256 * part_count * MIB
            found = explore_by_shuffles(jobs, assignment, len(initial), budget, signs, manifest, folder)
            if folder is not None:
                found.checkpoints = Checkpoints(folder, assignment.digest, 0.0)
            return found

        if manifest is not None:
            exploration = start()
            exploration.resume(manifest)
            yield exploration
        else:
            local = begin(code, initial, batch.plan(), 1, memory_max_mib)
            yield Handover(local, lambda known: known.state_count > start_states, start)

    return open_
