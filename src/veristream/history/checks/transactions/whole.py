"""`transactions are seen whole`: what a bucket knows of readers and transactions, and the sum of all.

A transaction spans partitions, so no bucket decides it. Each sends what it knows of a reader and a
transaction (how many messages were covered, and received) to the task that adds it up.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from veristream.history.checks.transactions.keys import Bools, Longs, lowest, starts_of
from veristream.history.checks.transactions.ledger import COMMITTED, Ledger
from veristream.history.checks.transactions.traced import Columns, Traced
from veristream.history.events import NONE, Event, Operation, Outcome
from veristream.history.witnesses import WITNESSES, order_of


@dataclass(frozen=True, slots=True)
class Readings:
    """Rows of a reader and a transaction: how many of its messages the reader covered and received."""

    sender: Longs
    reader: Longs
    transaction: Longs
    covered: Longs
    received: Longs

    def select(self, which: Bools | Longs) -> Readings:
        """Returns some of the rows."""
        return Readings(*(getattr(self, name)[which] for name in Readings.__slots__))


@dataclass(frozen=True, slots=True)
class Torn:
    """How many readings there are of at least two messages, how many of them are torn, and the first of
    these: reader and transaction."""

    asked: int
    count: int
    first: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Half:
    """A message of a torn transaction that a partition has: its key, and the events that show it."""

    key: tuple[int, int, int, int]
    events: tuple[Event, ...]


@dataclass(frozen=True, slots=True)
class Members:
    """Pairs of a message and a committed transaction in which a `SEND` of it ended OK, by message.

    `at` has the offsets that these OKs gave the message, or else those at which it was received: the pair
    and the offset, by pair.
    """

    message: Longs
    transaction: Longs
    at_pair: Longs
    at_offset: Longs


def find_members(traced: Traced, ledger: Ledger) -> Members:
    """Finds what committed transactions sent."""
    rows = acknowledged(traced, ledger)
    sends = traced.sends
    message, transaction = sends["message"][rows], sends["transaction"][rows]
    order = np.lexsort((transaction, message))
    rows, message, transaction = rows[order], message[order], transaction[order]
    starts = starts_of(message, transaction)
    pair = np.repeat(np.arange(starts.size), np.diff(np.append(starts, rows.size)))
    offset = sends["offset"][rows]
    given = offset != NONE
    message, transaction = message[starts], transaction[starts]
    lacking = np.bincount(pair[given], minlength=starts.size) == 0
    taken, taken_offset = _received_at(traced, message, np.flatnonzero(lacking))
    at_pair = np.concatenate([pair[given], taken])
    at_offset = np.concatenate([offset[given], taken_offset])
    order = np.argsort(at_pair, kind="stable")
    return Members(message, transaction, at_pair[order], at_offset[order])


def acknowledged(traced: Traced, ledger: Ledger) -> Longs:
    """Returns the sends that ended OK in a committed transaction."""
    transaction = traced.sends["transaction"]
    rows = np.flatnonzero(traced.sends["ok"] & (transaction >= 0))
    found: Longs = rows[ledger.fate[transaction[rows]] == COMMITTED]
    return found


def _received_at(traced: Traced, message: Longs, pairs: Longs) -> tuple[Longs, Longs]:
    """Returns the offsets at which the messages of some pairs were received, each with its pair."""
    receipts = traced.receipts
    first = np.searchsorted(receipts["message"], message[pairs])
    end = np.searchsorted(receipts["message"], message[pairs], side="right")
    pair = np.repeat(pairs, end - first)
    row = np.arange(pair.size) - np.repeat(np.cumsum(end - first) - (end - first) - first, end - first)
    return pair, receipts["offset"][row]


def find_readings(traced: Traced, members: Members, ledger: Ledger) -> Readings:
    """Returns what each reader covered and received of each committed transaction in a bucket."""
    parts: list[tuple[Longs, Longs, Longs]] = []
    for read in _reads(traced):
        pairs = _covered(members, read)
        got = np.zeros(traced.count, np.bool_)
        got[read.received] = True
        reader = np.full(pairs.size, read.reader, np.int64)
        parts.append((reader, members.transaction[pairs], got[members.message[pairs]].astype(np.int64)))
    if not parts:
        return Readings(*(np.empty(0, np.int64) for _ in range(5)))
    reader, transaction, received = (np.concatenate(each) for each in zip(*parts, strict=True))
    sender = ledger.process[transaction]
    return add_up([Readings(sender, reader, transaction, np.ones_like(received), received)])


@dataclass(frozen=True, slots=True)
class _Read:
    """A partition that a reader read to the end: the ranges, and the messages that it received there.

    `members_from` to `members_to` are the offsets of `Members` that are in the partition.
    """

    reader: int
    low: Longs
    high: Longs
    received: Longs
    first: int
    end: int


def _reads(traced: Traced) -> list[_Read]:
    """Returns what was read to the end of the partitions that have messages of transactions."""
    rows = traced.rows
    ended = np.flatnonzero((rows["operation"] == Operation.READ_TO_END) & (rows["outcome"] == Outcome.OK))
    numbers = {
        pair: number
        for number, pair in enumerate(
            zip(traced.places["stream"].tolist(), traced.places["partition"].tolist(), strict=True)
        )
    }
    ranges: dict[tuple[int, int], list[tuple[int, int]]] = {}
    columns = ("stream", "partition", "process", "number", "offset")
    for stream, partition, process, low, high in zip(
        *(rows[name][ended].tolist() for name in columns), strict=True
    ):
        if (stream, partition) in numbers:
            ranges.setdefault((numbers[stream, partition], process), []).append((low, high))
    begins = np.searchsorted(traced.place, np.arange(len(numbers) + 1))
    receipts = traced.receipts
    edges = np.searchsorted(receipts["message"], begins)
    found = []
    for (place, reader), pairs in sorted(ranges.items()):
        own = slice(edges[place], edges[place + 1])
        received = receipts["message"][own][receipts["process"][own] == reader]
        low, high = (np.array(each) for each in zip(*sorted(set(pairs)), strict=True))
        found.append(_Read(reader, low, high, received, int(begins[place]), int(begins[place + 1])))
    return found


def _covered(members: Members, read: _Read) -> Longs:
    """Returns the pairs of a partition of which a reader covered an offset."""
    pairs = np.searchsorted(members.message, [read.first, read.end])
    begin, end = np.searchsorted(members.at_pair, pairs)
    offset = members.at_offset[begin:end]
    covered = np.zeros(offset.size, np.bool_)
    for low, high in zip(read.low.tolist(), read.high.tolist(), strict=True):
        covered |= (offset >= low) & (offset < high)
    pair = members.at_pair[begin:end][covered]
    found: Longs = pair[starts_of(pair)]
    return found


def add_up(parts: list[Readings]) -> Readings:
    """Adds up the rows of each reader and transaction; they are ordered by sender, reader, transaction."""
    joined = Readings(
        *(np.concatenate([getattr(part, name) for part in parts]) for name in Readings.__slots__)
    )
    order = np.lexsort((joined.transaction, joined.reader, joined.sender))
    joined = joined.select(order)
    starts = starts_of(joined.sender, joined.reader, joined.transaction)
    if not starts.size:
        return joined
    sums = [np.add.reduceat(each, starts) for each in (joined.covered, joined.received)]
    return Readings(joined.sender[starts], joined.reader[starts], joined.transaction[starts], *sums)


def judge_readings(parts: list[Readings]) -> Torn:
    """Decides all readings of some transactions, from all buckets."""
    whole = add_up(parts)
    asked = whole.covered > 1
    torn = whole.select((whole.received > 0) & (whole.received < whole.covered))
    first = lowest(WITNESSES, torn.sender, torn.reader, torn.transaction)
    told = zip(torn.reader[first].tolist(), torn.transaction[first].tolist(), strict=True)
    return Torn(int(asked.sum()), int(torn.reader.size), tuple(told))


def find_halves(
    traced: Traced, members: Members, ledger: Ledger, reader: int, transaction: int
) -> tuple[Half | None, Half | None]:
    """Returns the lowest message of a transaction in a bucket that a reader received, and the lowest one
    that it did not, of those that it covered."""
    sent = acknowledged(traced, ledger)
    sent = sent[traced.sends["transaction"][sent] == transaction]
    halves: list[Half | None] = [None, None]
    for read in _reads(traced):
        if read.reader != reader:
            continue
        pairs = _covered(members, read)
        for pair in pairs[members.transaction[pairs] == transaction].tolist():
            message = int(members.message[pair])
            missed = message not in read.received
            key = _key(traced, message)
            known = halves[missed]
            if known is None or key < known.key:
                events = [traced.first(traced.sends, sent[traced.sends["message"][sent] == message])]
                events.append(
                    _first_read(traced, members, reader, pair)
                    if missed
                    else traced.first(traced.receipts, _receipts(traced.receipts, message, reader))
                )
                halves[missed] = Half(key, tuple(events))
    return halves[0], halves[1]


def _key(traced: Traced, message: int) -> tuple[int, int, int, int]:
    names = (int(traced.message[name][message]) for name in ("stream", "partition", "number", "producer"))
    stream, partition, number, producer = names
    return stream, partition, number, producer


def _receipts(receipts: Columns, message: int, reader: int) -> Bools:
    return np.asarray((receipts["message"] == message) & (receipts["process"] == reader))


def _first_read(traced: Traced, members: Members, reader: int, pair: int) -> Event:
    """Returns the first end of a reading that covers an offset of a pair."""
    rows, message = traced.rows, int(members.message[pair])
    found = (rows["operation"] == Operation.READ_TO_END) & (rows["outcome"] == Outcome.OK)
    found &= rows["process"] == reader
    for name in ("stream", "partition"):
        found &= rows[name] == traced.message[name][message]
    chosen = np.flatnonzero(found)
    offsets = members.at_offset[members.at_pair == pair]
    low, high = rows["number"][chosen], rows["offset"][chosen]
    covers = ((offsets[:, None] >= low) & (offsets[:, None] < high)).any(axis=0)
    return min(rows.events(chosen[covers]), key=order_of)
