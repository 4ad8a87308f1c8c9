"""Which steps of a trace are messages.

A trace shows states, not sends. But where one process puts an item into a list of the state (a bag, a
sequence, a set or a channel's queue) and another takes that item out, the second step receives what
the first one sent. Of equal items in one list the oldest is taken to be the one that is received.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from veristream.verdict import Shown, Step

Place = tuple[str, int]
"""Where lists stand in the state: a name, and how many indices lead to them."""

_NAME_END = re.compile(r", (?![^(]*\))")  # the comma of `A, B`, not that of `A(0, 1)`

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Change:
    """What a step did to one part of the state; `old` is None where the part is new."""

    part: str
    old: Shown | None
    new: Shown


@dataclass(frozen=True, slots=True)
class Exchange:
    """What a step took out of a list and what it put in."""

    part: str
    removed: tuple[Shown, ...]
    added: tuple[Shown, ...]


@dataclass(frozen=True, slots=True)
class Message:
    """An item that the process of this step took, put into the list `part` by `sender` before."""

    sender: str
    part: str
    item: Shown


def movers(step: Step) -> list[str]:
    """The processes that take the step, the one that leads first."""
    return [] if step.process is None else list(dict.fromkeys(_NAME_END.split(step.process)))


def find_lists(steps: Iterable[Step]) -> frozenset[Place]:
    """Where lists that gain and lose items stand; all other lists are arrays with an item per index.

    A list is known by being empty at some time, by changing its length or by holding records.
    """
    lengths: dict[Place, set[int]] = {}
    found: set[Place] = set()
    for step in steps:
        for name, value in step.state.items():
            for depth, items in _nested(value, 0):
                lengths.setdefault((name, depth), set()).add(len(items))
                if any(isinstance(item, dict) for item in items):
                    found.add((name, depth))
    return frozenset(found | {place for place, seen in lengths.items() if len(seen) > 1 or 0 in seen})


def _nested(value: Shown, depth: int) -> Iterator[tuple[int, list[Shown]]]:
    if isinstance(value, list):
        yield depth, value
        for item in value:
            yield from _nested(item, depth + 1)


def find_changes(
    before: Mapping[str, Shown], after: Mapping[str, Shown], lists: frozenset[Place]
) -> Iterator[Change | Exchange]:
    """What differs between two states, part by part in the order of the state."""
    for name, new in after.items():
        yield from _differences(name, before.get(name), new, (name, 0), lists)


def _differences(
    part: str, old: Shown | None, new: Shown, place: Place, lists: frozenset[Place]
) -> Iterator[Change | Exchange]:
    if old == new:
        return
    match old, new:
        case list(), list() if place in lists:
            removed, added = _without(old, new), _without(new, old)
            # A list that was only put into another order lost nothing: it is shown whole.
            yield Exchange(part, removed, added) if removed or added else Change(part, old, new)
        case list(), list() if len(old) == len(new):
            inner = (place[0], place[1] + 1)
            for index, (one, other) in enumerate(zip(old, new, strict=True)):
                yield from _differences(f"{part}[{index}]", one, other, inner, lists)
        case _:
            yield Change(part, old, new)


def _without(items: Sequence[Item], others: Sequence[Item]) -> tuple[Item, ...]:
    """The items that the others do not have, each as often as they lack it."""
    left = list(others)
    rest = []
    for item in items:
        if item in left:
            left.remove(item)
        else:
            rest.append(item)
    return tuple(rest)


def find_messages(steps: Sequence[Step], lists: frozenset[Place]) -> tuple[tuple[Message, ...], ...]:
    """For each step the messages that it receives; a process receives none from itself."""
    on_their_way: dict[str, list[Message]] = {}
    received: list[tuple[Message, ...]] = [()] * len(steps)
    for position in range(1, len(steps)):
        step = steps[position]
        taking = movers(step)
        if not taking:
            continue
        arrived = []
        for change in find_changes(steps[position - 1].state, step.state, lists):
            if isinstance(change, Exchange):
                waiting = on_their_way.setdefault(change.part, [])
                arrived += [m for item in change.removed if (m := _take(waiting, item)) is not None]
                waiting += [Message(taking[0], change.part, item) for item in change.added]
        received[position] = tuple(message for message in arrived if message.sender not in taking)
    return tuple(received)


def _take(waiting: list[Message], item: Shown) -> Message | None:
    """Takes the oldest such message out; None where the item was there from the beginning."""
    for position, message in enumerate(waiting):
        if message.item == item:
            return waiting.pop(position)
    return None
