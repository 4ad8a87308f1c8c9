"""Which cluster, and who is killed when: both drawn from a seed.

The seed decides victims and times, not which moment of a victim's program a kill hits: processes are real,
and a second run of a seed strikes elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from random import Random


class Kind(Enum):
    """How many are killed at once."""

    WITHIN = "no more than F validators and F storage parties: events flow on without them"
    BEYOND = "more than F of one kind or of both: nothing flows until they are back"
    POWER_CUT = "every party and every producer"


TEN_ROUNDS = (*[Kind.WITHIN] * 6, *[Kind.BEYOND] * 2, *[Kind.POWER_CUT] * 2)
AFTER_S, DOWN_S, AGAIN_S = (0.0, 1.0), (0.0, 0.5), (0.05, 1.2)
"""How long events flow before the kill, how long victims stay dead, how soon they are killed once more."""
AGAIN = 0.3
ABSENT = 0.3


@dataclass(frozen=True, slots=True)
class Members:
    """Everybody who can be killed, and how many validators and how many storage parties may be faulty."""

    validators: tuple[str, ...]
    storage: tuple[str, ...]
    producers: tuple[str, ...]
    faults: int

    @property
    def parties(self) -> tuple[str, ...]:
        """The names of all parties."""
        return self.validators + self.storage

    @property
    def everybody(self) -> tuple[str, ...]:
        """All names."""
        return self.validators + self.storage + self.producers


@dataclass(frozen=True, slots=True)
class Round:
    """Victims, and when they are struck; `again_s` after they began to come back, if they are once more.

    With `producers_last` killed producers come back only after the history has been looked at, so that what
    they were told must be there without them.
    """

    kind: Kind
    victims: tuple[str, ...]
    after_s: float
    down_s: float
    again_s: float | None
    producers_last: bool


@dataclass(frozen=True, slots=True)
class Shape:
    """A cluster: its validators, whether it takes snapshots and prunes, and who restarts its parties."""

    validators: int
    prunes: bool
    supervised: bool


def choose_shape(seed: int) -> Shape:
    """Of five seeds in a row, four prune blocks, three have a supervisor, and one has F = 2."""
    return Shape(7 if seed % 5 == 4 else 4, prunes=seed % 5 != 3, supervised=seed % 5 in (0, 2, 4))


def draw_rounds(random: Random, members: Members, count: int) -> list[Round]:
    """Rounds of which every ten have all kinds, in any order."""
    kinds: list[Kind] = []
    while len(kinds) < count:
        kinds += random.sample(TEN_ROUNDS, len(TEN_ROUNDS))
    return [_draw_round(random, members, kind) for kind in kinds[:count]]


def _draw_round(random: Random, members: Members, kind: Kind) -> Round:
    victims = _draw_victims(random, members, kind)
    return Round(
        kind,
        tuple(random.sample(victims, len(victims))),
        after_s=random.uniform(*AFTER_S),
        down_s=random.uniform(*DOWN_S),
        again_s=random.uniform(*AGAIN_S) if random.random() < AGAIN else None,
        producers_last=random.random() < ABSENT,
    )


def _draw_victims(random: Random, members: Members, kind: Kind) -> list[str]:
    faults = members.faults
    producers = _sample(random, members.producers, 0, len(members.producers))
    match kind:
        case Kind.POWER_CUT:
            return list(members.everybody)
        case Kind.BEYOND:
            both = random.choice(((1, 0), (0, 1), (1, 1)))
            least = [(faults + 1) * each for each in both]
            validators = _sample(random, members.validators, least[0], len(members.validators))
            return validators + _sample(random, members.storage, least[1], len(members.storage)) + producers
        case Kind.WITHIN:
            validators = _sample(random, members.validators, 0, faults)
            victims = validators + _sample(random, members.storage, 0, faults) + producers
            return victims or [random.choice(members.everybody)]


def _sample(random: Random, names: Sequence[str], least: int, most: int) -> list[str]:
    return random.sample(names, random.randint(least, most))
