"""What must hold of a history: what producers noted, and what a consumer that validates was delivered."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tests.kabis.kills.notes import Notes


@dataclass(frozen=True, slots=True)
class Delivered:
    """An event as a consumer got it: who signed it, and what it says."""

    partition: int
    index: int
    producer: str
    value: bytes


def make_value(producer: str, number: int) -> bytes:
    """The event of a producer with this number."""
    return f"{producer} {number}".encode("ascii")


def read_number(event: Delivered) -> int:
    """The number of an event; raises ValueError unless the one who signed it could have made it so."""
    name, _, number = event.value.decode("ascii", errors="replace").rpartition(" ")
    if name != event.producer or make_value(name, int(number)) != event.value:
        raise ValueError(event.value)
    return int(number)


def find_problems(told: Mapping[str, Notes], delivered: Sequence[Delivered]) -> list[str]:
    """What is wrong with a history; nothing if it is as it must be."""
    return [
        *_find_wrong_indices(delivered),
        *_find_lost(told, delivered),
        *_find_foreign(told, delivered),
        *_find_doubled(delivered),
        *_find_disorder(delivered),
        *(
            f"{name} {number}: {why}"
            for name, notes in told.items()
            for number, why in notes.failed.items()
        ),
    ]


def _find_wrong_indices(delivered: Sequence[Delivered]) -> Iterator[str]:
    """A partition is delivered from 0 on, one index after the other."""
    expected: dict[int, int] = {}
    for event in delivered:
        due = expected.get(event.partition, 0)
        if event.index != due:
            yield f"partition {event.partition}: index {event.index} was delivered where {due} was due"
        expected[event.partition] = event.index + 1


def _find_lost(told: Mapping[str, Notes], delivered: Sequence[Delivered]) -> Iterator[str]:
    """An acknowledged event stands where its producer was told."""
    found = {(event.partition, event.index): (event.producer, event.value) for event in delivered}
    for name, notes in told.items():
        for number, place in notes.acknowledged.items():
            if place not in found:
                yield f"{name} {number}: acknowledged at {place}, and lost"
            elif found[place] != (name, make_value(name, number)):
                yield f"{name} {number}: acknowledged at {place}, where {found[place]} stands"


def _find_foreign(told: Mapping[str, Notes], delivered: Sequence[Delivered]) -> Iterator[str]:
    """Whatever is delivered was pushed by the one who signed it, to that partition."""
    for event in delivered:
        try:
            pushed = told[event.producer].pushed[read_number(event)] == event.partition
        except (KeyError, ValueError):
            pushed = False
        if not pushed:
            yield f"{event}: nobody pushed that"


def _find_doubled(delivered: Sequence[Delivered]) -> Iterator[str]:
    """No event is delivered twice, wherever."""
    seen: set[tuple[str, bytes]] = set()
    for event in delivered:
        if (event.producer, event.value) in seen:
            yield f"{event}: it was there before"
        seen.add((event.producer, event.value))


def _find_disorder(delivered: Sequence[Delivered]) -> Iterator[str]:
    """In a partition, a producer's events are in the order in which it pushed them."""
    last: dict[tuple[int, str], tuple[int, Delivered]] = {}
    for event in delivered:
        try:
            number = read_number(event)
        except ValueError:
            continue  # nobody pushed it
        lane = event.partition, event.producer
        if lane in last and number < last[lane][0]:
            yield f"{event}: it was pushed before {last[lane][1]}, and stands behind it"
        last[lane] = number, event
