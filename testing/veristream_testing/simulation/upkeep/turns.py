"""Changes of the validators in a simulated run, drawn from a seed: who leaves, joins, or gets a new key."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import count
from random import Random

from veristream.kabis.cluster.faults import ValidatorFault
from veristream_testing.simulation.scenario import STRATEGIES, Scenario

LIES = tuple(strategy for strategy in STRATEGIES if strategy is not ValidatorFault.TWINS)
SIZE_LEAST, SIZE_MOST = 4, 7


class Kind(Enum):
    """What a change is."""

    REPLACE = "another validator in the place of one"
    REPLACE_MOST = "other validators in the places of a quorum"
    ROTATE = "a new key for one validator"
    ROTATE_ALL = "new keys for all correct validators"
    GROW = "three validators more"
    SHRINK = "three validators fewer"


@dataclass(frozen=True, slots=True)
class Newcomer:
    """A validator that joins; its machine starts some time after it is ordered, and may crash once."""

    index: int
    after_ms: int
    strategy: ValidatorFault | None
    crash_ms: int | None


@dataclass(frozen=True, slots=True)
class Turn:
    """A change, ordered after `place` other orders, in force at least `ahead` heights later.

    Of those who leave, some lie from then on, with their old keys.
    """

    kind: Kind
    place: int
    ahead: int
    leaving: tuple[int, ...]
    joining: tuple[Newcomer, ...]
    rotating: tuple[int, ...]
    afterlives: tuple[tuple[int, ValidatorFault], ...]

    def apply(self, present: Sequence[int]) -> list[int]:
        """Returns the validators after the change, by their positions: newcomers sit where others sat."""
        newcomers = [newcomer.index for newcomer in self.joining]
        seats = dict(zip(self.leaving, newcomers, strict=False))
        stay = [seats.get(index, index) for index in present if index in seats or index not in self.leaving]
        return stay + newcomers[len(self.leaving) :]


def faults_of(size: int) -> int:
    """Returns F for so many validators."""
    return (size - 1) // 3


def sizes_of(scenario: Scenario, turns: Sequence[Turn]) -> list[int]:
    """Returns how many validators there are, at first and after each change."""
    present, sizes = list(range(scenario.size)), [scenario.size]
    for turn in turns:
        present = turn.apply(present)
        sizes.append(len(present))
    return sizes


@dataclass(slots=True)
class _Draw:
    """What is drawn so far: all sets of validators, those that lie, and the next free number."""

    random: Random
    spare: int
    sets: list[list[int]]
    liars: dict[int, ValidatorFault]
    numbers: Iterator[int]

    @property
    def present(self) -> list[int]:
        return self.sets[-1]

    @property
    def correct(self) -> list[int]:
        return [index for index in self.present if index not in self.liars]

    def room(self, indices: Sequence[int]) -> int:
        """Returns how many more of these validators may lie."""
        return faults_of(len(indices)) - len(self.liars.keys() & set(indices))


def draw_turns(random: Random, scenario: Scenario, *, spare: int, orders: int) -> Iterator[Turn]:
    """Draws changes such that never more than F validators of a set lie, less those to `spare`.

    This holds even if those count who begin to lie once they have left.
    """
    numbers = count(scenario.size + 2)  # before that, twins have the numbers
    draw = _Draw(random, spare, [list(range(scenario.size))], dict(scenario.byzantine), numbers)
    for place in sorted(random.randint(0, orders) for _ in range(random.choice((0, 1, 2, 2, 3)))):
        turn = _draw_turn(draw, place)
        draw.sets.append(turn.apply(draw.present))
        yield turn


def _draw_turn(draw: _Draw, place: int) -> Turn:
    random, present = draw.random, draw.present
    kind = random.choice([kind for kind in Kind if _is_possible(kind, len(present))])
    leaving, correct = _draw_leaving(draw, kind), draw.correct
    stay = [index for index in present if index not in leaving]
    if len(set(stay) & set(draw.sets[0]) - draw.liars.keys()) <= draw.spare:
        kind, leaving, stay = Kind.ROTATE, [], present  # newcomers know nobody but the founding ones
    joins = 3 if kind is Kind.GROW else 0 if kind is Kind.SHRINK else len(leaving)
    joining = [next(draw.numbers) for _ in range(joins)]
    newcomers = []
    for index in joining:
        is_liar = draw.room(stay + joining) > draw.spare and random.random() < 0.4
        strategy = random.choice(LIES) if is_liar else None
        if strategy is not None:
            draw.liars[index] = strategy
        crash_ms = random.randint(0, 200) if random.random() < 0.3 else None
        newcomers.append(Newcomer(index, random.choice((0, 0, 60, 250)), strategy, crash_ms))
    rotating = {Kind.ROTATE: random.sample(correct, 1), Kind.ROTATE_ALL: correct}.get(kind, [])
    ahead, lies = random.choice((2, 2, 3, 5)), tuple(_draw_afterlives(draw, leaving))
    return Turn(kind, place, ahead, tuple(leaving), tuple(newcomers), tuple(rotating), lies)


def _draw_afterlives(draw: _Draw, leaving: Sequence[int]) -> Iterator[tuple[int, ValidatorFault]]:
    for index in leaving:
        rooms = [draw.room(each) for each in draw.sets if index in each]
        if index not in draw.liars and min(rooms) > draw.spare and draw.random.random() < 0.7:
            draw.liars[index] = draw.random.choice(LIES)
            yield index, draw.liars[index]


def _is_possible(kind: Kind, size: int) -> bool:
    fits = {Kind.GROW: size + 3 <= SIZE_MOST, Kind.SHRINK: size - 3 >= SIZE_LEAST}
    return fits.get(kind, True)


def _draw_leaving(draw: _Draw, kind: Kind) -> list[int]:
    random, present, liars, spare = draw.random, draw.present, draw.liars, draw.spare
    match kind:
        case Kind.REPLACE:
            return random.sample(present, 1)
        case Kind.REPLACE_MOST:  # those who stay have what newcomers need; one of them may lose its disk
            most = min(2 * faults_of(len(present)) + 1, len(present) - 1 - spare)
            stay = random.sample(draw.correct, len(present) - most)
            return random.sample([index for index in present if index not in stay], most)
        case Kind.SHRINK:
            leaving = random.sample(present, 3)
            left = liars.keys() & (set(present) - set(leaving))
            if len(left) <= faults_of(len(present) - 3) - spare:
                return leaving
            return sorted(present, key=lambda index: (index not in liars, index))[:3]
        case _:
            return []
