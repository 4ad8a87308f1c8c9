"""What happens to a chain in a simulated run of its upkeep, drawn from a seed, beside all other faults."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum
from random import Random

from veristream_testing.simulation.scenario import HEAL_MS, Crash, Scenario, simplify
from veristream_testing.simulation.trouble import CONSUMERS, PRODUCERS, Cut, Trouble, draw_trouble
from veristream_testing.simulation.upkeep.turns import Turn, draw_turns, faults_of, sizes_of


class SnapshotLie(Enum):
    """What a Byzantine validator offers instead of its snapshot."""

    FORGE_LEAVES = "a true manifest, and leaves of which one is changed"
    FORGE_VOTES = "a changed state under a block that the liar alone has signed"
    TRUNCATE = "a true manifest, and leaves of which the last is missing"
    STALE = "an old snapshot"
    BOAST = "a true snapshot that claims far more chunks"
    MUTE = "a manifest, and no chunk"


class Order(Enum):
    """What the admin orders, beside the upgrade of an old chain."""

    RETAIN = "keep few batches"
    RETAIN_BY_AGE = "keep batches for a short time"
    LIMIT = "quotas for each client"
    LIMIT_LESS = "other quotas"
    GUARD = "a group for one client only"
    ADMIT = "another client into that group"
    DISMISS = "the other client from that group"


@dataclass(frozen=True, slots=True)
class Decay:
    """The newest snapshot of a host rots, and the host restarts."""

    at_ms: int
    host: int


@dataclass(frozen=True, slots=True)
class Loss:
    """A host loses its disk, and rejoins with an empty one; it counts as faulty until then."""

    at_ms: int
    host: int
    down_ms: int


@dataclass(frozen=True, slots=True)
class Absence:
    """A client or storage party is down for a while, in which the chain goes on."""

    at_ms: int
    name: str
    down_ms: int


Mishap = Decay | Loss | Absence
Agendum = Order | Turn | None
"""What an admin orders; None is the upgrade of an old chain."""


@dataclass(frozen=True, slots=True)
class Plan:
    """One run: all faults, and what its operators do meanwhile."""

    trouble: Trouble
    version: int
    every_blocks: int
    keep_blocks: int
    gap: int
    lies: tuple[tuple[int, SnapshotLie], ...]
    orders: tuple[Order, ...]
    mishaps: tuple[Mishap, ...]
    turns: tuple[Turn, ...] = ()

    @property
    def agenda(self) -> list[Agendum]:
        """What the admin orders, one after the other."""
        agenda: list[Agendum] = [*self.orders]
        for turn in reversed(self.turns):
            agenda.insert(turn.place, turn)
        return agenda if self.version > 1 else [None, *agenda]

    @property
    def faults_least(self) -> int:
        """The least F of all sets of validators."""
        return faults_of(min(sizes_of(self.trouble.validators, self.turns)))

    @property
    def faults_most(self) -> int:
        """The greatest F of all sets of validators."""
        return faults_of(max(sizes_of(self.trouble.validators, self.turns)))

    @property
    def seed(self) -> int:
        """The seed that all of it was drawn from."""
        return self.trouble.seed

    def __str__(self) -> str:
        lies = ", ".join(f"v{index} {lie.name.lower()}" for index, lie in self.lies)
        orders = ", ".join(order.name.lower() for order in self.orders)
        mishaps = "; ".join(map(str, self.mishaps))
        kept = f"snapshots every {self.every_blocks} blocks, {self.keep_blocks} kept, gap {self.gap}"
        return (
            f"{self.trouble}\nversion {self.version}; {kept}; snapshots: {lies or 'honest'}; "
            f"orders: {orders or 'none'}; {mishaps or 'no mishap'}; "
            f"validators: {'; '.join(map(str, self.turns)) or 'the same'}"
        )


def draw_plan(seed: int) -> Plan:
    """Draws what happens under a seed."""
    random = Random(f"upkeep/{seed}")
    trouble = draw_trouble(seed)
    # A client may have to open again because its blocks are pruned, which needs a journal.
    trouble = replace(trouble, journals=tuple(True for _ in trouble.journals))
    mishaps: list[Mishap] = []
    scenario = trouble.validators
    if random.random() < 0.5:
        scenario = _spare_one(scenario)
        number = random.choice(_correct(scenario))
        mishaps.append(
            Loss(random.randint(HEAL_MS + 150, HEAL_MS + 500), number, random.choice((1, 20, 90)))
        )
    if random.random() < 0.5:
        mishaps.append(Decay(random.randint(200, HEAL_MS + 400), random.choice(_correct(scenario))))
    names = [f"consumer{number}" for number in range(CONSUMERS)] + [f"client{random.randrange(PRODUCERS)}"]
    for name in (*names, "s0"):
        if random.random() < 0.4:
            mishaps.append(Absence(random.randint(50, HEAL_MS + 300), name, random.choice((50, 200, 400))))
    if random.random() < 0.6:
        index, at_ms, down_ms = random.choice(_correct(scenario)), random.randint(50, 400), HEAL_MS
        if random.random() < 0.5:  # a client comes back with it, and sees only this one, which lags behind
            down_ms, name = random.randint(200, 500), random.choice(names)
            back_ms = at_ms + down_ms
            mishaps.append(Absence(back_ms - 120, name, 120 + random.randint(1, 4)))
            cut = Cut(back_ms, back_ms + 150, name, frozenset({f"v{index}"}))
            trouble = replace(trouble, cuts=(*trouble.cuts, cut))
        nap = Crash(at_ms, index, random.randint(0, 6), down_ms)
        scenario = replace(scenario, faults=(*scenario.faults, nap))
    orders = [order for order in Order if random.random() < 0.75]
    random.shuffle(orders)
    in_turn = [order for order in (Order.GUARD, Order.ADMIT, Order.DISMISS) if order in orders]
    places = sorted(map(orders.index, in_turn))
    for place, order in zip(places, in_turn, strict=True):
        orders[place] = order
    if Order.DISMISS in orders and Order.ADMIT not in orders:
        orders.remove(Order.DISMISS)  # nobody is dismissed who was not admitted
    spare = sum(isinstance(mishap, Loss) for mishap in mishaps)
    turns = tuple(draw_turns(random, scenario, spare=spare, orders=len(orders)))
    least = faults_of(min(sizes_of(scenario, turns)))
    return Plan(
        trouble=replace(trouble, validators=scenario, storage=trouble.storage[:least]),
        version=random.choice((1, 2, 2)),
        every_blocks=random.choice((2, 3, 5)),
        keep_blocks=random.choice((1, 2, 4)),
        gap=random.choice((0, 3, 100)),
        lies=tuple((index, random.choice(tuple(SnapshotLie))) for index, _ in scenario.byzantine),
        orders=tuple(orders),
        mishaps=tuple(mishaps),
        turns=turns,
    )


def simplify_plan(plan: Plan) -> Iterator[Plan]:
    """Yields plans with one thing less, largest reductions first."""
    trouble = plan.trouble
    if plan.turns:
        yield replace(plan, turns=())
        yield replace(plan, turns=plan.turns[:-1])
    if plan.mishaps:
        yield replace(plan, mishaps=())
    if trouble.falls or trouble.cuts:
        yield replace(plan, trouble=replace(trouble, falls=(), cuts=()))
    if trouble.storage:
        yield replace(plan, trouble=replace(trouble, storage=()))
    if trouble.attack is not None:
        yield replace(plan, trouble=replace(trouble, attack=None))
    for number in range(len(plan.orders)):
        yield replace(plan, orders=plan.orders[:number] + plan.orders[number + 1 :])
    for number in range(len(plan.mishaps)):
        yield replace(plan, mishaps=plan.mishaps[:number] + plan.mishaps[number + 1 :])
    for scenario in simplify(trouble.validators):
        if scenario.size == trouble.validators.size:  # the storage parties depend on it
            yield replace(plan, trouble=replace(trouble, validators=scenario))


def _spare_one(scenario: Scenario) -> Scenario:
    """Returns the scenario with fewer than F liars, so that another validator may fail."""
    return replace(scenario, byzantine=scenario.byzantine[: (scenario.size - 1) // 3 - 1])


def _correct(scenario: Scenario) -> list[int]:
    return [index for index in range(scenario.size) if index not in dict(scenario.byzantine)]
