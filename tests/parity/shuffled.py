"""Explorations by shuffles with loops as jobs: everything except Spark."""

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
from veristream.search.shared.assignment import make_order
from veristream.search.shared.checkpoint import read_manifest
from veristream.search.shared.exploration import Checkpoints
from veristream.search.shared.handover import Handover
from veristream.search.spark import level_task as turns
from veristream.search.spark.level_task import Block, Item, Kind, Leftovers, Sent, Standing, Turn, take_turn
from veristream.search.spark.shuffle import Answer, Question, ShuffledExploration, explore_by_shuffles


class Loops:
    """Runs turns in loops. Items arrive in any order, any of several processes takes a turn, and many turns
    are repeated because their result was lost. A process is the set of parts that turns have left in it."""

    def __init__(self, part_count: int, process_count: int) -> None:
        self.part_count, self.chance = part_count, random.Random(part_count)
        self.processes = [Leftovers() for _ in range(process_count)]
        self.items: dict[int, list[Item]] = {}

    def keep(self, items: list[Sent]) -> None:
        for part, item in items:
            self.items.setdefault(part, []).append(item)

    def play(self, turn: Turn) -> list[Standing]:
        given: list[Sent] = []
        for number in range(self.part_count):
            whole = list(self._take(partial(take_turn, turn), number))
            for _ in range(self.chance.randrange(3)):
                again = list(self._take(partial(take_turn, turn), number))
                assert _states(again) == _states(whole), "a turn does not give the same states again"
                whole = again
                next(self._take(partial(take_turn, turn), number))  # broken off
            given += whole
        standings = [item for _, item in given if isinstance(item, Standing)]
        if all(one.failure is None for one in standings):
            self.keep(given)
        return standings

    def ask(self, question: Question[Answer]) -> list[Answer]:
        return [answer for number in range(self.part_count) for answer in self._take(question, number)]

    def _take(self, question: Question[Answer], number: int) -> Iterator[Answer]:
        turns._LEFT = self.chance.choice(self.processes) if self.processes else Leftovers()
        mine = self.items[number]
        return question(number, self.chance.sample(mine, len(mine)))


def _states(given: list[Sent]) -> list[Block]:
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
    """Explorations by shuffles; with a folder they are saved at every level."""

    @contextmanager
    def open_(code: Code, initial: Row, batch: Batch, reduced: bool) -> Iterator[Exploring]:
        order = make_order(network, batch, reduced, part_count, memory_max_mib, spill)
        manifest = None if folder is None else read_manifest(folder, order.digest, part_count)
        signs = tuple(sign for _, sign in batch.plan().goals)
        jobs = Loops(part_count, process_count)

        def start() -> ShuffledExploration:
            budget = 256 * part_count * MIB
            found = explore_by_shuffles(jobs, order, len(initial), budget, signs, manifest, folder)
            if folder is not None:
                found.checkpoints = Checkpoints(folder, order.digest, 0.0)
            return found

        if manifest is not None:
            exploration = start()
            exploration.resume(manifest)
            yield exploration
        else:
            local = begin(code, initial, batch.plan(), 1, memory_max_mib)
            yield Handover(local, lambda known: known.state_count > start_states, start)

    return open_
