"""Which members change in a round: drawn from a seed, as words of `veristream kabis member`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from random import Random
from typing import assert_never

MARGINS_BLOCKS = (20, 100, 300)
"""How many blocks ahead a change is in force, at the first attempt and at later ones: few are soon over,
but on a busy machine the change itself may come too late to get into one of them."""


class Wanted(Enum):
    """A change of the members."""

    REPLACE_VALIDATOR = "another validator takes the place of one"
    ROTATE_VALIDATOR = "a validator gets a new key"
    REPLACE_STORAGE = "another storage party takes the place of one"
    ROTATE_STORAGE = "a storage party gets a new key"
    ADD_STORAGE = "a storage party joins"
    REMOVE_STORAGE = "a storage party leaves, whether it has joined or founded the chain"
    GROW = "three validators and two storage parties join, so that one more of each may be faulty"
    SHRINK = "three validators and two storage parties leave"


EXCHANGES = (Wanted.REPLACE_VALIDATOR, Wanted.ROTATE_VALIDATOR, Wanted.REPLACE_STORAGE)


@dataclass(frozen=True, slots=True)
class Change:
    """What the admin types, and who joins, leaves or gets a new key by it; `faults` is F afterwards."""

    words: tuple[str, ...]
    faults: int
    joining: tuple[str, ...] = ()
    leaving: tuple[str, ...] = ()
    rotated: tuple[str, ...] = ()


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


def spread_changes(random: Random, wanted: Sequence[Wanted], rounds: int) -> dict[int, Wanted]:
    """Says in which of so many rounds each change comes; those that fit into fewer rounds come."""
    order = random.sample(wanted, len(wanted))
    for first, second in ((Wanted.ADD_STORAGE, Wanted.REMOVE_STORAGE), (Wanted.GROW, Wanted.SHRINK)):
        if first in order and second in order:
            places = sorted((order.index(first), order.index(second)))
            order[places[0]], order[places[1]] = first, second
    count = min(rounds, len(order))
    return dict(zip(sorted(random.sample(range(rounds), count)), order, strict=False))


def draw_change(random: Random, members: Members, wanted: Wanted, number: int) -> Change:
    """Draws whom a change is about; who joins is named after the number of the round."""

    def join(role: str, count: int) -> tuple[str, ...]:
        return tuple(f"{role}-{number}{place}" for place in range(1, count + 1))

    def leave(names: Sequence[str], count: int) -> tuple[str, ...]:
        return tuple(random.sample(names, count))

    faults = members.faults
    match wanted:
        case Wanted.REPLACE_VALIDATOR | Wanted.REPLACE_STORAGE:
            is_validator = wanted is Wanted.REPLACE_VALIDATOR
            old = leave(members.validators if is_validator else members.storage, 1)
            new = join("validator" if is_validator else "storage", 1)
            return Change(("replace", *old, *new), faults, new, old)
        case Wanted.ROTATE_VALIDATOR | Wanted.ROTATE_STORAGE:
            names = members.validators if wanted is Wanted.ROTATE_VALIDATOR else members.storage
            rotated = leave(names, 1)
            return Change(("rotate", *rotated), faults, rotated=rotated)
        case Wanted.ADD_STORAGE | Wanted.GROW:
            grown = wanted is Wanted.GROW
            new = (*join("validator", 3), *join("storage", 2)) if grown else join("storage", 1)
            return Change(("add", *new), faults + grown, joining=new)
        case Wanted.REMOVE_STORAGE | Wanted.SHRINK:
            shrunk = wanted is Wanted.SHRINK
            left = leave(members.storage, 2 if shrunk else 1)
            left += leave(members.validators, 3) if shrunk else ()
            return Change(("remove", *left), faults - shrunk, leaving=left)
        case _:
            assert_never(wanted)
