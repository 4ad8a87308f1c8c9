"""The faults of one simulated run of the whole system, drawn from a seed.

The faults of validators are a `Scenario` of the consensus. In addition, up to F storage parties lie or
decay, a producer may be Byzantine, machines crash, and clients and storage parties may be isolated.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from random import Random

from veristream.kabis.cluster.faults import StorageFault
from veristream_testing.simulation.scenario import HEAL_MS, Scenario, draw_scenario

PRODUCERS = 2
CONSUMERS = 2


STORAGE_FAULTS = (
    StorageFault.SILENT,
    StorageFault.FORGET,
    StorageFault.WITHHOLD,
    StorageFault.ALTER,
    StorageFault.SUBSTITUTE,
    StorageFault.FORGE,
    StorageFault.DECAY,
)
"""The faults of storage parties that a run draws from; their order decides what a seed means."""


class Attack(Enum):
    """Attacks of a Byzantine producer."""

    EQUIVOCATE = "two batches with one sequence number"
    SPLICE = "a batch that does not follow the one before"
    IMPERSONATE = "a batch in the name of another producer"
    PHANTOM = "a batch that too few storage parties have"


@dataclass(frozen=True, slots=True)
class Fall:
    """A machine crashes and restarts; what it had not flushed may be torn."""

    at_ms: int
    name: str
    down_ms: int


@dataclass(frozen=True, slots=True)
class Cut:
    """During an interval, a machine can communicate only with the named ones."""

    begin_ms: int
    end_ms: int
    name: str
    reached: frozenset[str]


@dataclass(frozen=True, slots=True)
class Trouble:
    """All faults of one run."""

    validators: Scenario
    storage: tuple[tuple[str, StorageFault], ...]
    attack: Attack | None
    journals: tuple[bool, ...]
    flush_ms: int
    falls: tuple[Fall, ...]
    cuts: tuple[Cut, ...]

    @property
    def seed(self) -> int:
        return self.validators.seed

    def __str__(self) -> str:
        lies = ", ".join(f"{name} {lie.name.lower()}" for name, lie in self.storage)
        attack = "none" if self.attack is None else self.attack.name.lower()
        faults = "; ".join(map(str, (*self.falls, *self.cuts)))
        head = f"{self.validators}\nstorage: {lies or 'honest'}; attack: {attack}"
        return (
            f"{head}; journals: {self.journals}; flush {self.flush_ms} ms; {faults or 'no machine falls'}"
        )


def draw_trouble(seed: int) -> Trouble:
    """Draws the faults of a seed."""
    validators = draw_scenario(seed)
    random = Random(f"trouble/{seed}")
    faults = (validators.size - 1) // 3
    stores = [f"s{number}" for number in range(2 * faults + 1)]
    liars = random.sample(stores, random.choice((faults, faults, random.randint(0, faults))))
    attack = random.choice((None, *Attack))
    journals = tuple(random.random() < 0.8 for _ in range(PRODUCERS))
    return Trouble(
        validators=validators,
        storage=tuple((name, random.choice(STORAGE_FAULTS)) for name in sorted(liars)),
        attack=attack,
        journals=journals,
        flush_ms=random.choice((2, 20, 80)),
        falls=tuple(_draw_falls(random, stores, journals)),
        cuts=tuple(_draw_cuts(random, stores, validators.size)),
    )


def _draw_falls(random: Random, stores: list[str], journals: tuple[bool, ...]) -> Iterator[Fall]:
    """Draws crashes; a producer without a journal never crashes, because it could contradict itself."""
    producers = [f"client{number}" for number, journal in enumerate(journals) if journal]
    consumers = [f"consumer{number}" for number in range(CONSUMERS)]
    for names, counts in ((stores, (0, 1, 2)), (producers, (0, 1, 1, 2)), (consumers, (0, 0, 1))):
        for _ in range(random.choice(counts) if names else 0):
            at_ms = random.randint(1, HEAL_MS - 100)
            yield Fall(at_ms, random.choice(names), random.randint(1, HEAL_MS // 4))


def _draw_cuts(random: Random, stores: list[str], size: int) -> Iterator[Cut]:
    clients = [f"client{number}" for number in range(PRODUCERS)]
    machines = [*stores, *clients, *(f"consumer{number}" for number in range(CONSUMERS))]
    for _ in range(random.choice((0, 0, 1, 2))):
        begin_ms = random.randint(0, HEAL_MS // 2)
        end_ms = begin_ms + random.randint(50, HEAL_MS // 2)
        others = [*machines, *(f"v{index}" for index in range(size))]
        reached = frozenset(name for name in others if random.random() < 0.3)
        yield Cut(begin_ms, end_ms, random.choice(machines), reached)
