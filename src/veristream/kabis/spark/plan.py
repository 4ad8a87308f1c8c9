"""Which events a read covers, and which task reads which of them: pure, and without Spark.

A *place* is a topic and a partition. Indices run from a partition's low-water mark up to its end, which is
not included. What a task of an extended read gets has the driver's word, checked there by certificates:
the admitted headers, who vouched for them, and the producers' keys.
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
"""How Spark keeps indices in its checkpoints: JSON, topic by topic."""


class Edge(StrEnum):
    """An end of a partition."""

    EARLIEST = EARLIEST
    LATEST = LATEST


@dataclass(frozen=True, slots=True)
class Choice:
    """Where to begin or to end: an index or edge for some places, and an edge for all others."""

    otherwise: Edge
    places: Mapping[Place, int | Edge]

    def at(self, place: Place) -> int | Edge:
        """What was chosen for a place."""
        return self.places.get(place, self.otherwise)


@dataclass(frozen=True, slots=True)
class Bounds:
    """The first index of a partition that may be read, and the index that its next event gets."""

    first: int
    end: int


@dataclass(frozen=True, slots=True)
class Range:
    """Events of a partition, from an index up to another."""

    place: Place
    first: int
    end: int

    @property
    def count(self) -> int:
        """How many indices it covers."""
        return self.end - self.first


@dataclass(frozen=True, slots=True)
class AdmittedPart:
    """What one task reads of a partition by the ledger's order; `keys` are by producer and key epoch."""

    covered: Range
    admissions: tuple[Admission, ...]
    keys: Mapping[tuple[str, int], bytes]


@dataclass(frozen=True, slots=True)
class PlainPart:
    """What one task reads of a partition by the offsets of the one storage party that it believes."""

    covered: Range
    party: str


Part = AdmittedPart | PlainPart


def choose(option: str, choice: Choice, bounds: Mapping[Place, Bounds]) -> dict[Place, int]:
    """The index that was chosen for each place; one that is not there is an error that names the option."""
    for topic, partition in choice.places:
        if (topic, partition) not in bounds:
            raise ModelError(
                f"option {option}: {topic} has no partition {partition}", hint="see `kabis topic list`"
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
    """What lies between, place by place; nothing where an end is not above its start."""
    return [Range(place, starts[place], end) for place, end in sorted(ends.items()) if starts[place] < end]


def split_admitted(covered: Range, ledger: Ledger, rows_max: int) -> Iterator[AdmittedPart]:
    """Parts of a range, each with so many rows at most or with one batch; batches are not split."""
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
    """Parts of a range of offsets, each with so many rows at most."""
    for first in range(covered.first, covered.end, rows_max):
        end = min(first + rows_max, covered.end)
        yield PlainPart(Range(covered.place, first, end), party)


def limit_rows(ranges: Iterable[Range], rows_max: int) -> dict[Place, int]:
    """Where to end for so many rows in all: what one place does not need goes to the others."""
    ends = {}
    waiting = sorted(ranges, key=lambda each: (each.count, each.place))
    for number, each in enumerate(waiting):
        share = min(each.count, rows_max // (len(waiting) - number))
        ends[each.place] = each.first + share
        rows_max -= share
    return ends


# A stream's offsets.


def to_offset(indices: Mapping[Place, int | str]) -> dict[str, dict[str, int | str]]:
    """The offset as Spark keeps it, in one order for one offset."""
    offset: dict[str, dict[str, int | str]] = {}
    for (topic, partition), index in sorted(indices.items()):
        offset.setdefault(topic, {})[str(partition)] = index
    return offset


def from_offset(offset: Offset) -> dict[Place, int | str]:
    """The indices in an offset."""
    return {
        (topic, int(partition)): index
        for topic, partitions in offset.items()
        for partition, index in partitions.items()
    }


def first_offset(choice: Choice, bounds: Mapping[Place, Bounds]) -> dict[Place, int | str]:
    """Where a stream begins.

    `latest` stays a word until the first batch ends: a stream that is restarted before that batch is done
    asks again, and an index of that moment would be another one.
    """
    chosen = choose("startingIndex", choice, bounds)
    return {place: LATEST if choice.at(place) is Edge.LATEST else index for place, index in chosen.items()}


def next_ends(
    start: Mapping[Place, int | str], bounds: Mapping[Place, Bounds], target: Indices | None = None
) -> dict[Place, int]:
    """Where the next batch ends: at the ends as of now, or of when the target was set."""
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
    """The index each place goes on from; partitions that are new begin with their first event."""
    starts = {}
    for place, end in ends.items():
        index = start.get(place)
        if isinstance(index, int):
            starts[place] = index
        else:
            starts[place] = min(end, bounds[place].first) if index is None else end
    return starts


def keep_bounds(ranges: Iterable[Range], bounds: Mapping[Place, Bounds], *, strict: bool) -> list[Range]:
    """The ranges that can be read; events that were let go are an error if that is strict, else skipped."""
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
        f"{place[0]}-{place[1]} ends at {end}, and the stream was at {begun} already",
        hint="the checkpoint is of another cluster, or a storage party lost its end",
    )
