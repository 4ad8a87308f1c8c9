"""Transactions waiting for a block: bounded in total and per author, without duplicates, oldest first.

A transaction that cannot take effect is rejected, so a flood needs registered keys and uses up only its
author's quota. A batch that arrives before its predecessor waits until that arrives or is decided, up to a
time limit. The caller judges whether a transaction takes effect. It is asked again only where the answer
may have changed, so a long queue costs nothing from block to block.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import islice
from typing import TypeVar, assert_never

from veristream.kabis.protocol.codec import DecodeError
from veristream.kabis.protocol.outcomes import NOT_YET, Already, Done, Outcome, Reason, Refused
from veristream.kabis.protocol.transactions import (
    BatchConflict,
    Evict,
    Signed,
    Skip,
    Submit,
    VoteConflict,
    decode_transaction,
)

ALTERNATIVES_MAX = 4
"""Maximum number of transactions for one place of a stream; they differ in their storage receipts."""
SOON_MAX = 256

Key = TypeVar("Key")

Judge = Callable[[bytes], Outcome]

Place = tuple[str, str, int, int]
"""Producer, topic, partition and sequence number: the start of a batch, or of its successor."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds in total and per author, and how long a transaction may wait for another."""

    count_max: int = 20_000
    bytes_max: int = 64 << 20
    author_count_max: int = 5_000
    author_bytes_max: int = 16 << 20
    waiting_ms_max: int = 30_000


@dataclass(frozen=True, slots=True)
class _Origin:
    """Author of a transaction, and its place in the stream."""

    author: str
    begins: Place | None = None
    ends: Place | None = None


@dataclass(frozen=True, slots=True)
class _Kept:
    encoded: bytes
    outcome: Outcome
    origin: _Origin
    since_ms: int


@dataclass(slots=True)
class Mempool:
    """The transactions that are ready for a block, and those that wait for others."""

    limits: Limits = field(default_factory=Limits)
    _kept: dict[bytes, _Kept] = field(default_factory=dict)
    _ready: OrderedDict[bytes, None] = field(default_factory=OrderedDict)
    _early: dict[Place, list[bytes]] = field(default_factory=dict)  # by their start
    _soon: dict[bytes, None] = field(default_factory=dict)  # until a block makes their keys valid
    _ends: Counter[Place] = field(default_factory=Counter)  # ends of the ready ones
    _counts: Counter[str] = field(default_factory=Counter)
    _sizes: Counter[str] = field(default_factory=Counter)
    _bytes: int = 0

    def __len__(self) -> int:
        return len(self._kept)

    def candidates(self, count: int) -> Iterator[bytes]:
        """Yields the transactions that are ready, oldest first and each batch after its predecessor."""
        return (self._kept[digest].encoded for digest in islice(self._ready, count))

    def add(self, encoded: bytes, now_ms: int, judge: Judge) -> tuple[Outcome, bool]:
        """Returns the expected outcome of the transaction, and whether it is new and was kept.

        A batch whose predecessor is ready counts as done: a block can contain both.
        """
        digest = sha256(encoded).digest()
        known = self._kept.get(digest)
        if known is not None:
            follows = digest in self._ready and isinstance(known.outcome, Refused)
            return Done() if follows else known.outcome, False
        limits = self.limits
        if len(self._kept) >= limits.count_max or self._bytes + len(encoded) > limits.bytes_max:
            return Refused(Reason.TOO_MANY, "the validator's queue of transactions is full"), False
        outcome = judge(encoded)
        if not _is_worth_keeping(outcome):
            return outcome, False
        origin = _origin(encoded)
        if isinstance(outcome, Refused) and origin.begins in self._ends:
            outcome = Done()
        kept, author = _Kept(encoded, outcome, origin, now_ms), origin.author
        if (
            self._counts[author] >= limits.author_count_max
            or self._sizes[author] + len(encoded) > limits.author_bytes_max
            or not self._place(digest, kept)
        ):
            return Refused(Reason.TOO_MANY, f"too many transactions of {author!r} are waiting"), False
        return outcome, True

    def find_effective(self, judge: Judge) -> bool:
        """Whether a transaction would take effect now; drops those before it that would not."""
        while self._ready:
            digest = next(iter(self._ready))
            outcome = judge(self._kept[digest].encoded)
            if not isinstance(outcome, Already | Refused):
                return True
            self._reconsider(digest, outcome)
        return False

    def review(self, encoded: Iterable[bytes], judge: Judge) -> None:
        """Drops obsolete transactions among those that a block had room for but left out."""
        for each in encoded:
            digest = sha256(each).digest()
            if digest in self._ready:
                outcome = judge(each)
                if isinstance(outcome, Already | Refused):
                    self._reconsider(digest, outcome)

    def decided(self, transactions: Iterable[bytes], judge: Judge) -> None:
        """Removes the transactions of a decided block and makes their successors ready."""
        for encoded in transactions:
            kept = self._drop(sha256(encoded).digest())
            ends = _origin(encoded).ends if kept is None else kept.origin.ends
            if ends is not None:
                self._promote(ends)
        for digest in list(self._soon):
            kept = self._kept[digest]
            self._drop(digest)
            self.add(kept.encoded, kept.since_ms, judge)

    def forget_old(self, now_ms: int) -> None:
        """Drops transactions that have waited too long for others."""
        waiting = [digest for group in self._early.values() for digest in group]
        for digest in (*waiting, *self._soon):
            if now_ms - self._kept[digest].since_ms > self.limits.waiting_ms_max:
                self._drop(digest)

    def _place(self, digest: bytes, kept: _Kept) -> bool:
        """Queues a transaction; returns False if its queue is full."""
        begins = kept.origin.begins
        if not isinstance(kept.outcome, Refused):
            self._count(digest, kept)
            self._make_ready(digest)
            return True
        if kept.outcome.reason is Reason.EARLY and begins is not None:
            group = self._early.setdefault(begins, [])
            if len(group) >= ALTERNATIVES_MAX:
                return False
            group.append(digest)
        else:
            if len(self._soon) >= SOON_MAX:
                return False
            self._soon[digest] = None
        self._count(digest, kept)
        return True

    def _count(self, digest: bytes, kept: _Kept) -> None:
        self._kept[digest] = kept
        self._bytes += len(kept.encoded)
        self._counts[kept.origin.author] += 1
        self._sizes[kept.origin.author] += len(kept.encoded)

    def _make_ready(self, digest: bytes) -> None:
        """Makes a transaction and its successors ready."""
        self._ready[digest] = None
        ends = self._kept[digest].origin.ends
        if ends is not None:
            self._ends[ends] += 1
            self._promote(ends)

    def _promote(self, place: Place) -> None:
        places = [place]
        while places:
            for digest in self._early.pop(places.pop(), ()):
                self._ready[digest] = None
                ends = self._kept[digest].origin.ends
                assert ends is not None, "only batches have places"
                self._ends[ends] += 1
                places.append(ends)

    def _reconsider(self, digest: bytes, outcome: Outcome) -> None:
        kept = self._drop(digest)
        assert kept is not None, "it was ready"
        if _is_worth_keeping(outcome):
            self._place(digest, _Kept(kept.encoded, outcome, kept.origin, kept.since_ms))

    def _drop(self, digest: bytes) -> _Kept | None:
        kept = self._kept.pop(digest, None)
        if kept is None:
            return None
        origin = kept.origin
        self._bytes -= len(kept.encoded)
        _subtract(self._counts, origin.author, 1)
        _subtract(self._sizes, origin.author, len(kept.encoded))
        if digest in self._ready:
            del self._ready[digest]
            if origin.ends is not None:
                _subtract(self._ends, origin.ends, 1)
        elif digest in self._soon:
            del self._soon[digest]
        elif origin.begins is not None:
            group = self._early[origin.begins]
            group.remove(digest)
            if not group:
                del self._early[origin.begins]
        return kept


def _subtract(counter: Counter[Key], key: Key, number: int) -> None:
    """Subtracts, and removes the key at zero."""
    counter[key] -= number
    if not counter[key]:
        del counter[key]


def _origin(encoded: bytes) -> _Origin:
    try:
        transaction = decode_transaction(encoded)
    except DecodeError:
        return _Origin("")
    match transaction:
        case Submit():
            header = transaction.signed.header
            stream = (header.producer, header.topic, header.partition)
            return _Origin(
                header.producer, (*stream, header.first_sequence), (*stream, header.next_sequence)
            )
        case Signed():
            return _Origin(transaction.author)
        case BatchConflict():
            return _Origin(f"against {transaction.first.header.producer}")
        case VoteConflict():
            return _Origin(f"against validator {transaction.first.validator}")
        case Skip() | Evict():
            return _Origin("")
        case _:
            assert_never(transaction)


def _is_worth_keeping(outcome: Outcome) -> bool:
    if isinstance(outcome, Refused):
        return outcome.reason in NOT_YET
    return not isinstance(outcome, Already)
