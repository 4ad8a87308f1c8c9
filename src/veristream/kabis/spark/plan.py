"""Plans the events of a read and their distribution to tasks; pure, independent of Spark.

A *place* is a topic and a partition. Indices run from a partition's low-water mark up to, but excluding,
its end. A task of an extended read trusts the driver, which has checked certificates, for the admitted
headers, the parties with receipts, and the producers' keys.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from veristream.errors import ModelError
from veristream.kabis.client.consumed import Place
from veristream.kabis.client.errors import BelowLowWaterError
from veristream.kabis.ledger.ledger import Ledger
from veristream.kabis.ledger.state import Admission

EARLIEST, LATEST = "earliest", "latest"

Indices = Mapping[Place, int]
Offset = Mapping[str, Mapping[str, int | str]]
"""Indices in Spark's checkpoints: JSON, by topic."""


class Edge(StrEnum):
    """The start or the end of a partition."""

    EARLIEST = EARLIEST
    LATEST = LATEST


@dataclass(frozen=True, slots=True)
class Choice:
    """A start or an end: an index or edge for some places, and an edge for all others."""

    otherwise: Edge
    places: Mapping[Place, int | Edge]

    def at(self, place: Place) -> int | Edge:
        return self.places.get(place, self.otherwise)


@dataclass(frozen=True, slots=True)
class Bounds:
    """The first readable index of a partition, and the index of its next event."""

    first: int
    end: int


@dataclass(frozen=True, slots=True)
class Range:
    """The events of a partition from one index up to, but excluding, another."""

    place: Place
    first: int
    end: int

    @property
    def count(self) -> int:
        return self.end - self.first


@dataclass(frozen=True, slots=True)
class AdmittedPart:
    """The part of a partition that one task reads in ledger order; `keys` by producer and key epoch."""

    covered: Range
    admissions: tuple[Admission, ...]
    keys: Mapping[tuple[str, int], bytes]


@dataclass(frozen=True, slots=True)
class PlainPart:
    """The part of a partition that one task reads by the offsets of the one party that it trusts."""

    covered: Range
    party: str


Part = AdmittedPart | PlainPart


def choose(option: str, choice: Choice, bounds: Mapping[Place, Bounds]) -> dict[Place, int]:
    """Returns the chosen index of each place; raises ModelError naming the option if it does not exist."""
    for topic, partition in choice.places:
        if (topic, partition) not in bounds:
            raise ModelError(
                f"option {option}: {topic} has no partition {partition}",
                hint="`veristream kabis topic list` shows the partitions",
            )
    return {place: _choose_one(option, choice.at(place), place, each) for place, each in bounds.items()}


def _choose_one(option: str, chosen: int | Edge, place: Place, bounds: Bounds) -> int:
    match chosen:
        case Edge.EARLIEST:
            return bounds.first
        case Edge.LATEST:
            return bounds.end
        case index if bounds.first <= index <= bounds.end:
            return index
        case index if index < bounds.first:
            raise BelowLowWaterError(*place, index, bounds.first)
        case index:
            raise ModelError(
                f"option {option}: {place[0]}-{place[1]} ends at {bounds.end}, before {index}",
                hint=f"choose at most {bounds.end}",
            )


def find_ranges(starts: Indices, ends: Indices) -> list[Range]:
    """Returns the range of each place; none if its end is not after its start."""
    return [Range(place, starts[place], end) for place, end in sorted(ends.items()) if starts[place] < end]


def split_admitted(covered: Range, ledger: Ledger, rows_max: int) -> Iterator[AdmittedPart]:
    """Splits a range into parts of at most `rows_max` rows, or of one batch; batches are not split."""
    part: list[Admission] = []
    first = covered.first
    for admission in ledger.admissions(*covered.place, covered.first):
        if admission.first_index >= covered.end:
            break
        if part and min(admission.next_index, covered.end) - first > rows_max:
            yield _part(Range(covered.place, first, admission.first_index), part, ledger)
            part, first = [], admission.first_index
        part.append(admission)
    if part:
        yield _part(Range(covered.place, first, covered.end), part, ledger)


def _part(covered: Range, admissions: Iterable[Admission], ledger: Ledger) -> AdmittedPart:
    wanted = tuple(each for each in admissions if not each.skipped)
    keys = {}
    for name, epoch in {(each.signed.header.producer, each.signed.header.key_epoch) for each in wanted}:
        key = ledger.key(name, epoch)
        assert key is not None, "a batch was admitted under a key"
        keys[name, epoch] = key.public
    return AdmittedPart(covered, wanted, keys)


def split_plain(covered: Range, party: str, rows_max: int) -> Iterator[PlainPart]:
    """Splits a range of offsets into parts of at most `rows_max` rows."""
    for first in range(covered.first, covered.end, rows_max):
        end = min(first + rows_max, covered.end)
        yield PlainPart(Range(covered.place, first, end), party)


def limit_rows(ranges: Iterable[Range], rows_max: int) -> dict[Place, int]:
    """Returns the ends for at most `rows_max` rows in total; places share what others do not need."""
    ends = {}
    waiting = sorted(ranges, key=lambda each: (each.count, each.place))
    for number, each in enumerate(waiting):
        share = min(each.count, rows_max // (len(waiting) - number))
        ends[each.place] = each.first + share
        rows_max -= share
    return ends


# Offsets of a stream


def to_offset(indices: Mapping[Place, int | str]) -> dict[str, dict[str, int | str]]:
    """Converts indices to Spark's offset, in a canonical order."""
    offset: dict[str, dict[str, int | str]] = {}
    for (topic, partition), index in sorted(indices.items()):
        offset.setdefault(topic, {})[str(partition)] = index
    return offset


def from_offset(offset: Offset) -> dict[Place, int | str]:
    """Converts Spark's offset to indices."""
    return {
        (topic, int(partition)): index
        for topic, partitions in offset.items()
        for partition, index in partitions.items()
    }


def first_offset(choice: Choice, bounds: Mapping[Place, Bounds]) -> dict[Place, int | str]:
    """Returns the first offset of a stream.

    `latest` stays symbolic until the first batch ends, because a stream that is restarted before asks again
    and would get a different index.
    """
    chosen = choose("startingIndex", choice, bounds)
    return {place: LATEST if choice.at(place) is Edge.LATEST else index for place, index in chosen.items()}


def next_ends(
    start: Mapping[Place, int | str], bounds: Mapping[Place, Bounds], target: Indices | None = None
) -> dict[Place, int]:
    """Returns the ends of the next batch: the current ones, or those of the target."""
    ends = {}
    for place, known in bounds.items():
        begun = start.get(place, 0)
        if isinstance(begun, int) and begun > known.end:
            raise _gone(place, known.end, begun)
        if target is None or place in target:
            end = known.end if target is None else min(known.end, target[place])
            ends[place] = max(end, begun) if isinstance(begun, int) else end
    return ends


def next_starts(
    start: Mapping[Place, int | str], ends: Indices, bounds: Mapping[Place, Bounds]
) -> dict[Place, int]:
    """Returns the index from which each place continues; new partitions start with their first event."""
    starts = {}
    for place, end in ends.items():
        index = start.get(place)
        if isinstance(index, int):
            starts[place] = index
        else:
            starts[place] = min(end, bounds[place].first) if index is None else end
    return starts


def keep_bounds(ranges: Iterable[Range], bounds: Mapping[Place, Bounds], *, strict: bool) -> list[Range]:
    """Returns the readable ranges; trimmed events are an error if `strict`, and otherwise skipped."""
    kept = []
    for each in ranges:
        known = bounds.get(each.place)
        if known is None or each.end > known.end:
            raise _gone(each.place, 0 if known is None else known.end, each.end)
        if each.first < known.first and strict:
            raise BelowLowWaterError(*each.place, each.first, known.first)
        first = max(each.first, known.first)
        if first < each.end:
            kept.append(Range(each.place, first, each.end))
    return kept


def _gone(place: Place, end: int, begun: int) -> ModelError:
    return ModelError(
        f"{place[0]}-{place[1]} ends at {end}, but the stream is already at {begun}",
        hint="the checkpoint belongs to another cluster, or a storage party lost its last events",
    )
