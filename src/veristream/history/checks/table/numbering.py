"""Numbers the messages of a bucket, by partition, producer and number, without sorting.

The numbers of a producer in a partition are mostly dense, or at least dense among some partitions. So each
pair of a partition and a producer has a bit for each number of its span; a message is the count of bits
before its own. Where a span is much longer than what is in it, numbers are replaced by their ranks first.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from veristream.history.checks.table.codes import encode, encode_all
from veristream.history.events import Operation
from veristream.native.loop import loop
from veristream.native.primitives import count_bits

_REJECT = Operation.REJECT.value  # the last operation that names a message
_WORD_BITS = 64
_SPAN_PER_ROW = 64  # bits that a row may cost before ranks replace numbers
_SPAN_SPARE = 4096
_PAIRS_MAX = 1 << 22  # pairs of a partition and a producer that have a place in a table


class Named(NamedTuple):
    """What names the messages; a pair is `place * width + producer`, and has none without a producer."""

    operation: NDArray[np.int8]
    place: NDArray[np.int32]
    producer: NDArray[np.int32]
    number: NDArray[np.int64]
    in_partition: NDArray[np.bool_]
    width: int


class Spans(NamedTuple):
    """Of each pair, how many rows it has, and its lowest and highest number."""

    rows: NDArray[np.int64]
    low: NDArray[np.int64]
    high: NDArray[np.int64]


class Bits(NamedTuple):
    """Of each pair, its first word; of each word, its bits, and how many are set before it."""

    first: NDArray[np.int64]
    words: NDArray[np.int64]
    before: NDArray[np.int64]


class Messages(NamedTuple):
    """The messages of a bucket, ordered by place, producer and number.

    `of_row` is the message of each row, or -1. Those of pair *k* are from `begin[k]` up to `begin[k + 1]`.
    """

    of_row: NDArray[np.int32]
    begin: NDArray[np.int64]
    place: NDArray[np.int32]
    producer: NDArray[np.int32]

    @property
    def total(self) -> int:
        """How many messages there are."""
        return int(self.begin[-1])

    def pair_of(self, message: NDArray[Any]) -> NDArray[np.int64]:
        """Returns the pair of each message."""
        found: NDArray[np.int64] = np.searchsorted(self.begin, message, side="right") - 1
        return found


@loop
def _pair_of(named: Named, i: int) -> int:
    """The pair of a row; -1 if it names no message in a partition."""
    if named.operation[i] > _REJECT or named.producer[i] < 0:
        return -1
    place = named.place[i]
    if not named.in_partition[place]:
        return -1
    return place * named.width + named.producer[i]


@loop
def measure(named: Named, spans: Spans) -> None:
    """Counts the rows of each pair, and finds its span."""
    for i in range(named.operation.size):
        pair = _pair_of(named, i)
        if pair >= 0:
            number = named.number[i]
            if spans.rows[pair] == 0 or number < spans.low[pair]:
                spans.low[pair] = number
            if spans.rows[pair] == 0 or number > spans.high[pair]:
                spans.high[pair] = number
            spans.rows[pair] += 1


@loop
def mark(named: Named, low: NDArray[np.int64], bits: Bits) -> None:
    """Sets the bit of each message."""
    for i in range(named.operation.size):
        pair = _pair_of(named, i)
        if pair >= 0:
            place = named.number[i] - low[pair]
            bits.words[bits.first[pair] + (place >> 6)] |= 1 << (place & 63)


@loop
def rank(named: Named, low: NDArray[np.int64], bits: Bits, of_row: NDArray[np.int32]) -> None:
    """Gives each row its message: the number of bits before its own."""
    for i in range(named.operation.size):
        pair = _pair_of(named, i)
        if pair >= 0:
            place = named.number[i] - low[pair]
            word = bits.first[pair] + (place >> 6)
            below = bits.words[word] & ((1 << (place & 63)) - 1)
            of_row[i] = bits.before[word] + count_bits(below)
        else:
            of_row[i] = -1


def number_messages(
    columns: Mapping[str, NDArray[Any]], place: NDArray[np.int32], in_partition: NDArray[np.bool_]
) -> Messages:
    """Numbers the messages of the rows with these columns; `place` is the partition of each row."""
    named = Named(columns["operation"], place, columns["producer"], columns["number"], in_partition, 1)
    named, places, producers = _pairs(named)
    spans, wide = _measure(named, len(places))
    if wide.any() and len(in_partition) > 1:
        named = _with_ranks_of_all(named)
        spans, wide = _measure(named, len(places))
    if wide.any():
        named = _with_ranks(named, wide, spans)
    used = spans.rows > 0
    of_row, begin = _rank(named, spans)
    return Messages(of_row, np.append(begin[:-1][used], begin[-1]), places[used], producers[used])


def _measure(named: Named, pairs: int) -> tuple[Spans, NDArray[np.bool_]]:
    """Returns the spans of all pairs, and which are too wide for a bit for each number."""
    spans = Spans(*(np.zeros(pairs, np.int64) for _ in range(3)))
    measure(named, spans)
    length = spans.high.astype(np.uint64) - spans.low.astype(np.uint64)  # cannot overflow
    return spans, length > spans.rows.astype(np.uint64) * np.uint64(_SPAN_PER_ROW) + np.uint64(_SPAN_SPARE)


def _rank(named: Named, spans: Spans) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Returns the message of each row, and the first message of each pair with that after the last one."""
    words = np.where(spans.rows > 0, (spans.high - spans.low) // _WORD_BITS + 1, 0)
    first = np.cumsum(words) - words
    bits = Bits(first, np.zeros(int(words.sum()), np.int64), np.empty(0, np.int64))
    mark(named, spans.low, bits)
    counts = np.bitwise_count(bits.words.view(np.uint64))
    before = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=before[1:])
    of_row = np.empty(len(named.operation), np.int32)
    rank(named, spans.low, bits._replace(before=before), of_row)
    return of_row, np.append(before[first], before[-1])


def _pairs(named: Named) -> tuple[Named, NDArray[np.int32], NDArray[np.int32]]:
    """Chooses the width, and returns the place and the producer of each pair."""
    places = len(named.in_partition)
    width = int(named.producer.max(initial=0)) + 1
    if places * width > _PAIRS_MAX:
        producer, values = encode(named.producer.astype(np.int64))
        named = named._replace(producer=np.where(named.producer < 0, np.int32(-1), producer))
        width = len(values)
        if places * width > _PAIRS_MAX:
            return _pairs_of_rows(named, values)
    else:
        values = np.arange(width)
    pairs = np.arange(places * width)
    named = named._replace(width=width)
    return named, (pairs // width).astype(np.int32), values[pairs % width].astype(np.int32)


def _pairs_of_rows(
    named: Named, values: NDArray[np.int64]
) -> tuple[Named, NDArray[np.int32], NDArray[np.int32]]:
    """Numbers the pairs that there are; the pair of a row takes the place of its producer."""
    codes, (places, producers) = encode_all(named.place, named.producer)
    known = (named.producer >= 0) & named.in_partition[named.place]
    pair = np.where(known, codes, np.int32(-1))
    everywhere = np.ones_like(named.in_partition)
    named = named._replace(producer=pair, in_partition=everywhere, width=0)
    return named, places.astype(np.int32), values[producers].astype(np.int32)


def _with_ranks_of_all(named: Named) -> Named:
    """Replaces each number by its rank among those of its producer in the whole bucket, if they are dense:
    what is spread over many partitions is so by far more in each of them."""
    everywhere = named._replace(
        place=np.zeros_like(named.place), in_partition=np.ones(1, np.bool_), width=max(1, named.width)
    )
    pairs = int(named.producer.max(initial=0)) + 1
    spans, wide = _measure(everywhere, pairs)
    if wide.any():
        return named
    of_row, _ = _rank(everywhere, spans)
    return named._replace(number=of_row.astype(np.int64))


def _with_ranks(named: Named, wide: NDArray[np.bool_], spans: Spans) -> Named:
    """Replaces the numbers of pairs with a wide span by their ranks, and their spans by those of ranks."""
    known = (named.operation <= _REJECT) & (named.producer >= 0) & named.in_partition[named.place]
    pair = named.place.astype(np.int64) * named.width + named.producer
    rows = np.flatnonzero(known)
    rows = rows[wide[pair[rows]]]
    order = np.lexsort((named.number[rows], pair[rows]))
    rows = rows[order]
    pairs, numbers = pair[rows], named.number[rows]
    starts = np.ones(len(rows), np.bool_)
    starts[1:] = pairs[1:] != pairs[:-1]
    differs = starts.copy()
    differs[1:] |= numbers[1:] != numbers[:-1]
    ranks = np.cumsum(differs, dtype=np.int64)
    ranks = ranks - ranks[np.maximum.accumulate(np.where(starts, np.arange(len(rows)), 0))]
    number = named.number.copy()
    number[rows] = ranks
    spans.low[wide] = 0
    spans.high[pairs] = ranks  # rows of a pair are in ascending order, so the last one stays
    return named._replace(number=number)
