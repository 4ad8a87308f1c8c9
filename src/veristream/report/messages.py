"""Finds the messages in a trace.

A trace consists of states; it does not record sends. But if one process puts an item into a list of the
state (a bag, a sequence, a set or a channel's queue) and another takes that item out, then the second step
receives what the first one sent. Among equal items in one list, the oldest counts as the one received.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from veristream.verdict import Shown, Step

Place = tuple[str, int]
"""Where lists are in the state: a name, and the number of indices that lead to them."""

_NAME_END = re.compile(r", (?![^(]*\))")  # the comma in `A, B`, not the one in `A(0, 1)`

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Change:
    """A part of the state that a step changed; `old` is None if the part is new."""

    part: str
    old: Shown | None
    new: Shown


@dataclass(frozen=True, slots=True)
class Exchange:
    """The items that a step removed from a list and added to it."""

    part: str
    removed: tuple[Shown, ...]
    added: tuple[Shown, ...]


@dataclass(frozen=True, slots=True)
class Message:
    """An item that a step took from the list `part`, where `sender` had put it."""

    sender: str
    part: str
    item: Shown


def movers(step: Step) -> list[str]:
    """Returns the processes that take the step, starting with the one that leads."""
    return [] if step.process is None else list(dict.fromkeys(_NAME_END.split(step.process)))


def find_lists(steps: Iterable[Step]) -> frozenset[Place]:
    """Returns where the lists are that gain and lose items; the others are arrays with fixed indices.

    A list belongs to them if it is ever empty, changes its length or holds records.
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
    """Yields the differences between two states, in the order of the state's parts."""
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
            # A list that was only reordered has lost nothing: show it whole.
            yield Exchange(part, removed, added) if removed or added else Change(part, old, new)
        case list(), list() if len(old) == len(new):
            inner = (place[0], place[1] + 1)
            for index, (one, other) in enumerate(zip(old, new, strict=True)):
                yield from _differences(f"{part}[{index}]", one, other, inner, lists)
        case _:
            yield Change(part, old, new)


def _without(items: Sequence[Item], others: Sequence[Item]) -> tuple[Item, ...]:
    """Returns the items without the others, as multisets."""
    left = list(others)
    rest = []
    for item in items:
        if item in left:
            left.remove(item)
        else:
            rest.append(item)
    return tuple(rest)


def find_messages(steps: Sequence[Step], lists: frozenset[Place]) -> tuple[tuple[Message, ...], ...]:
    """Returns the messages that each step receives; a process receives none from itself."""
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
    """Removes and returns the oldest message with this item; None if no step sent it."""
    for position, message in enumerate(waiting):
        if message.item == item:
            return waiting.pop(position)
    return None
