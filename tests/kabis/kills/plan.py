"""Which cluster, who is killed when, and which members change meanwhile: all drawn from a seed.

The seed decides victims and times, not which moment of a victim's program a kill hits: processes are real,
and a second run of a seed strikes elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from dataclasses import replace as changed
from enum import Enum
from random import Random

from tests.kabis.kills.changes import (
    EXCHANGES,
    Change,
    Members,
    Wanted,
    draw_change,
    spread_changes,
)


class Kind(Enum):
    """How many are killed at once."""

    WITHIN = "no more than F validators and F storage parties: events flow on without them"
    BEYOND = "more than F of one kind or of both: nothing flows until they are back"
    POWER_CUT = "every party and every producer"


COMMAND = "admin"
"""Who is killed with the command that changes the members."""


TEN_ROUNDS = (*[Kind.WITHIN] * 6, *[Kind.BEYOND] * 2, *[Kind.POWER_CUT] * 2)
AFTER_S, DOWN_S, AGAIN_S = (0.0, 1.0), (0.0, 0.5), (0.05, 1.2)
"""How long events flow before the kill, how long victims stay dead, how soon they are killed once more."""
CHANGING_S = (0.5, 3.0)
"""The first of these while members change: the command only begins, or the change is in force."""
AGAIN = 0.3
ABSENT = 0.3
INTERRUPTED = 0.3


@dataclass(frozen=True, slots=True)
class Round:
    """Victims, and when they are struck; `again_s` after they began to come back, if they are once more.

    With `producers_last` killed producers come back only after the history has been looked at, so that what
    they were told must be there without them. A change of the members begins with the round and is over at
    its end.
    """

    kind: Kind
    victims: tuple[str, ...]
    after_s: float
    down_s: float
    again_s: float | None
    producers_last: bool
    change: Change | None = None


@dataclass(frozen=True, slots=True)
class Shape:
    """A cluster: its validators, whether it takes snapshots and prunes, and who restarts its parties.

    `wanted` are the changes of its members in ten rounds.
    """

    validators: int
    prunes: bool
    supervised: bool
    wanted: tuple[Wanted, ...] = ()


def choose_shape(seed: int) -> Shape:
    """Of five seeds in a row, four prune blocks, three have a supervisor, and one has F = 2.

    The members of all change: of one in three rounds of ten, which take little longer than without changes;
    of another one, F becomes 2 and 1 again.
    """
    kind = seed % 5
    pair = (Wanted.GROW, Wanted.SHRINK) if kind == 1 else (Wanted.ADD_STORAGE, Wanted.REMOVE_STORAGE)
    wanted = (*EXCHANGES, *(() if kind == 0 else (*pair, Wanted.ROTATE_STORAGE)))
    return Shape(7 if kind == 4 else 4, prunes=kind != 3, supervised=kind in (0, 2, 4), wanted=wanted)


def draw_rounds(
    random: Random, look: Callable[[], Members], count: int, wanted: Sequence[Wanted] = ()
) -> Iterator[Round]:
    """Rounds of which every ten have all kinds, in any order; `look` says who the members are by then."""
    kinds: list[Kind] = []
    while len(kinds) < count:
        kinds += random.sample(TEN_ROUNDS, len(TEN_ROUNDS))
    changes = spread_changes(random, wanted, count)
    for number, kind in enumerate(kinds[:count]):
        members, change = look(), None
        if number in changes:
            change = draw_change(random, members, changes[number], number)
        yield _draw_round(random, members, kind, change)


def _draw_round(random: Random, members: Members, kind: Kind, change: Change | None) -> Round:
    victims = _draw_victims(random, members, kind, change)
    return Round(
        kind,
        tuple(random.sample(victims, len(victims))),
        after_s=random.uniform(*(AFTER_S if change is None else CHANGING_S)),
        down_s=random.uniform(*DOWN_S),
        again_s=random.uniform(*AGAIN_S) if random.random() < AGAIN else None,
        producers_last=random.random() < ABSENT,
        change=change,
    )


def _draw_victims(random: Random, members: Members, kind: Kind, change: Change | None) -> list[str]:
    """Draws them from the members before and after the change, and the command that changes them."""
    fewest = most = members.faults
    command: list[str] = []
    if change is not None:
        fewest, most = sorted((members.faults, change.faults))
        members = _with_newcomers(members, change.joining)
        command = [COMMAND] * (kind is Kind.POWER_CUT or random.random() < INTERRUPTED)
    producers = _sample(random, members.producers, 0, len(members.producers))
    match kind:
        case Kind.POWER_CUT:
            return [*members.everybody, *command]
        case Kind.BEYOND:
            both = random.choice(((1, 0), (0, 1), (1, 1)))
            least = [(most + 1) * each for each in both]
            validators = _sample(random, members.validators, least[0], len(members.validators))
            storage = _sample(random, members.storage, least[1], len(members.storage))
            return validators + storage + producers + command
        case Kind.WITHIN:
            validators = _sample(random, members.validators, 0, fewest)
            victims = validators + _sample(random, members.storage, 0, fewest) + producers + command
            return victims or [random.choice(members.everybody)]


def _with_newcomers(members: Members, names: Sequence[str]) -> Members:
    validators = tuple(name for name in names if name.startswith("validator-"))
    storage = tuple(name for name in names if name not in validators)
    return changed(members, validators=members.validators + validators, storage=members.storage + storage)


def _sample(random: Random, names: Sequence[str], least: int, most: int) -> list[str]:
    return random.sample(names, random.randint(least, most))
