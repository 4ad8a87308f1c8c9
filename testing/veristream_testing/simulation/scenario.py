"""Scenarios: the faults of one simulated run of the consensus, drawn from a seed.

A scenario is data, and the same scenario always yields the same run, so a failing seed can be replayed.
`simplify` yields scenarios with fewer faults, to find those that matter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from random import Random
from typing import TypeVar

from veristream.kabis.cluster.faults import ValidatorFault
from veristream.kabis.ordering.messages import Step

HEAL_MS = 1_000
FIRST_PROPOSER = 1

Item = TypeVar("Item")


STRATEGIES = (
    ValidatorFault.SILENT,
    ValidatorFault.EQUIVOCATE,
    ValidatorFault.RANDOM,
    ValidatorFault.AGREE,
    ValidatorFault.OBSTRUCT,
    ValidatorFault.FLOOD,
    ValidatorFault.FORGE,
    ValidatorFault.TWINS,
)
"""The faults of validators that a scenario draws from; their order decides what a seed means."""


@dataclass(frozen=True, slots=True)
class Partition:
    """During an interval, hosts of different groups cannot communicate."""

    begin_ms: int
    end_ms: int
    groups: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Mute:
    """During an interval, a host's messages of one step do not reach another host, or any."""

    begin_ms: int
    end_ms: int
    step: Step
    sender: int
    receiver: int | None


@dataclass(frozen=True, slots=True)
class Crash:
    """From this time on, a host crashes after some outputs and restarts; its log may be torn."""

    at_ms: int
    host: int
    outputs: int
    down_ms: int


Fault = Partition | Mute | Crash


@dataclass(frozen=True, slots=True)
class Scenario:
    """One run: Byzantine validators, behaviour of the network until it heals, and scheduled faults."""

    seed: int
    size: int
    heights: int
    byzantine: tuple[tuple[int, ValidatorFault], ...]
    delay_ms: int
    drop: float
    duplicate: float
    faults: tuple[Fault, ...]

    def __str__(self) -> str:
        liars = ", ".join(f"{index} {strategy.name.lower()}" for index, strategy in self.byzantine)
        network = f"delay {self.delay_ms} ms, drop {self.drop}, duplicate {self.duplicate}"
        faults = "; ".join(str(fault) for fault in self.faults)
        head = f"seed {self.seed}: {self.size} validators, {self.heights} heights"
        return f"{head}; Byzantine: {liars or 'none'}; {network}; {faults or 'no faults'}"


def draw_scenario(seed: int) -> Scenario:
    """Draws a scenario: a network with arbitrary faults, or a quiet one with few faults.

    In a quiet network most rounds succeed, so values get locked and decided; its faults give validators
    different views of the same round, which is what locking must handle.
    """
    random = Random(f"scenario/{seed}")
    quiet = random.random() < 0.5
    size = random.choice((4, 4, 4, 4, 7))
    liars = random.sample(range(size), (size - 1) // 3 if quiet else random.randint(0, (size - 1) // 3))
    strategies = (*STRATEGIES, ValidatorFault.OBSTRUCT, ValidatorFault.OBSTRUCT)
    return Scenario(
        seed=seed,
        size=size,
        heights=1 if quiet else random.choice((1, 1, 2)),
        byzantine=tuple((index, random.choice(strategies)) for index in sorted(liars)),
        delay_ms=random.choice((2, 10) if quiet else (5, 20, 60)),
        drop=0.0 if quiet else random.choice((0.0, 0.05, 0.2)),
        duplicate=0.0 if quiet else random.choice((0.0, 0.1)),
        faults=tuple(_draw_quiet_faults(random, size) if quiet else _draw_faults(random, size)),
    )


def _draw_quiet_faults(random: Random, size: int) -> Iterator[Fault]:
    yield Mute(0, HEAL_MS, Step.PRECOMMIT, random.randrange(size), None)  # it never sees decisions
    for _ in range(random.choice((1, 2))):
        receiver = random.choice([index for index in range(size) if index != FIRST_PROPOSER])
        yield Mute(0, HEAL_MS // 2, Step.PROPOSE, FIRST_PROPOSER, receiver)
    for _ in range(random.choice((0, 1))):
        yield Mute(*_draw_window(random), Step.PREVOTE, *random.sample(range(size), 2))
    for _ in range(random.choice((0, 0, 1))):
        yield _draw_crash(random, size)


def _draw_faults(random: Random, size: int) -> Iterator[Fault]:
    for _ in range(random.choice((0, 0, 1, 2))):
        yield Partition(*_draw_window(random), tuple(random.randint(0, 1) for _ in range(size + 2)))
    for _ in range(random.choice((0, 1, 3))):
        yield Mute(*_draw_window(random), random.choice(tuple(Step)), *random.sample(range(size), 2))
    for _ in range(random.choice((0, 1))):
        yield Mute(0, HEAL_MS, Step.PRECOMMIT, random.randrange(size), None)
    for _ in range(random.choice((0, 0, 1, 3))):
        yield _draw_crash(random, size)


def _draw_crash(random: Random, size: int) -> Crash:
    at_ms, down_ms = random.randint(0, HEAL_MS // 2), random.randint(1, HEAL_MS // 4)
    return Crash(at_ms, random.randrange(size), random.randint(0, 6), down_ms)


def _draw_window(random: Random) -> tuple[int, int]:
    begin = random.choice((0, random.randint(0, HEAL_MS // 2)))
    return begin, begin + random.randint(20, HEAL_MS // 2)


def simplify(scenario: Scenario) -> Iterator[Scenario]:
    """Yields scenarios with one fault less, largest reductions first."""
    if scenario.faults:
        yield replace(scenario, faults=())
    if scenario.size > 4 and all(index < 4 for index, _ in scenario.byzantine[:1]):
        yield replace(scenario, size=4, byzantine=scenario.byzantine[:1])
    if scenario.heights > 1:
        yield replace(scenario, heights=1)
    for index in range(len(scenario.byzantine)):
        yield replace(scenario, byzantine=_without(scenario.byzantine, index))
    if scenario.drop:
        yield replace(scenario, drop=0.0)
    if scenario.duplicate:
        yield replace(scenario, duplicate=0.0)
    for index in range(len(scenario.faults)):
        yield replace(scenario, faults=_without(scenario.faults, index))


def shrink(scenario: Scenario, fails: Callable[[Scenario], bool]) -> Scenario:
    """Returns a simplified scenario that still fails, but none of whose simplifications do."""
    while True:
        simpler = next(filter(fails, simplify(scenario)), None)
        if simpler is None:
            return scenario
        scenario = simpler


def _without(items: tuple[Item, ...], index: int) -> tuple[Item, ...]:
    return items[:index] + items[index + 1 :]
