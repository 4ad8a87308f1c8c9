"""Transactions waiting for a block: bounded in total and per author, without duplicates, authors in turn.

A transaction that cannot take effect is rejected, so a flood needs registered keys. It delays only its own
author: the authors share each block by bytes, and who waited longest comes first. One author's transactions
keep their order. If the queue is full, an author with a smaller part of it displaces the newest transaction
of the author with the largest. Evidence and evictions have no author and count as authors of their own.

A batch that arrives before its predecessor waits until that arrives or is decided, up to a time limit. The
caller judges whether a transaction takes effect. It is asked again only where the answer may have changed,
so a long queue costs nothing from block to block.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator, MutableMapping
from dataclasses import dataclass, field
from hashlib import sha256
from heapq import heapify, heappop, heapreplace
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
SOON_AUTHOR_MAX = 16
COST_BYTES_MIN = 256
"""What a transaction counts at least when authors share a block."""

Key = TypeVar("Key")

Judge = Callable[[bytes], Outcome]

Place = tuple[str, str, int, int]
"""Producer, topic, partition and sequence number: the start of a batch, or of its successor."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds in total and per author, and how long a transaction may wait for another.

    `author_block_bytes` and `author_block_count` are an author's part of one block; its first transaction
    may be longer. Each transaction costs every validator time, however short it is.
    """

    count_max: int = 20_000
    bytes_max: int = 64 << 20
    author_count_max: int = 5_000
    author_bytes_max: int = 16 << 20
    author_block_bytes: int = 192 << 10
    author_block_count: int = 128
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
    _ready: OrderedDict[str, dict[bytes, None]] = field(default_factory=OrderedDict)  # by author
    _early: dict[Place, list[bytes]] = field(default_factory=dict)  # by their start
    _early_of: dict[str, dict[bytes, None]] = field(default_factory=dict)  # by author, oldest first
    _soon: dict[bytes, None] = field(default_factory=dict)  # until a block makes their keys valid
    _ends: Counter[Place] = field(default_factory=Counter)  # ends of the ready ones
    _of_author: dict[str, dict[bytes, None]] = field(default_factory=dict)  # oldest first
    _sizes: Counter[str] = field(default_factory=Counter)
    _bytes: int = 0

    def __len__(self) -> int:
        return len(self._kept)

    def candidates(self, count: int) -> Iterator[bytes]:
        """Yields what is ready for one block: authors in turn, each author's oldest first.

        The next is of the author that has the fewest bytes so far; at first, who waited longest.
        """
        queues = [iter(queue) for queue in self._ready.values()]
        turns = [(0, number) for number in range(len(queues))]  # bytes so far, and the author
        counts = [0] * len(queues)
        heapify(turns)
        while turns and count > 0:
            used, number = turns[0]
            digest = next(queues[number], None)
            if digest is None or counts[number] >= self.limits.author_block_count:
                heappop(turns)
                continue
            encoded = self._kept[digest].encoded
            cost = used + max(len(encoded), COST_BYTES_MIN)
            if used and cost > self.limits.author_block_bytes:
                heappop(turns)
                continue
            heapreplace(turns, (cost, number))
            counts[number] += 1
            count -= 1
            yield encoded

    def add(self, encoded: bytes, now_ms: int, judge: Judge) -> tuple[Outcome, bool]:
        """Returns the expected outcome of the transaction, and whether it is new and was kept.

        A batch whose predecessor is ready counts as done: a block can contain both.
        """
        digest = sha256(encoded).digest()
        known = self._kept.get(digest)
        if known is not None:
            follows = isinstance(known.outcome, Refused) and self._is_ready(digest, known)
            return Done() if follows else known.outcome, False
        origin = _origin(encoded)
        too_many = Refused(Reason.TOO_MANY, f"too many transactions of {origin.author!r} are waiting")
        is_full = self._fills_share(origin.author, len(encoded))
        if is_full and origin.author not in self._early_of:
            return too_many, False
        if not self._has_room(origin.author, len(encoded)):
            return Refused(Reason.TOO_MANY, "the validator's queue of transactions is full"), False
        outcome = judge(encoded)
        if not _is_worth_keeping(outcome):
            return outcome, False
        if isinstance(outcome, Refused) and origin.begins in self._ends:
            outcome = Done()
        if is_full and (isinstance(outcome, Refused) or not self._make_way(origin.author, len(encoded))):
            return too_many, False
        if not self._place(digest, _Kept(encoded, outcome, origin, now_ms)):
            return too_many, False
        self._displace()
        return outcome, True

    def _fills_share(self, author: str, size: int) -> bool:
        """Whether the author has all that one author may have."""
        limits, count = self.limits, len(self._of_author.get(author, ()))
        return count >= limits.author_count_max or self._sizes[author] + size > limits.author_bytes_max

    def _make_way(self, author: str, size: int) -> bool:
        """Drops the author's newest early batches for one that is not early; returns whether it fits now.

        Otherwise batches that wait for their predecessor could keep it out for ever.
        """
        while self._fills_share(author, size):
            if author not in self._early_of:
                return False
            self._drop(next(reversed(self._early_of[author])))
        return True

    def _has_room(self, author: str, size: int) -> bool:
        """Whether the queue has room, or some other author has a larger part of it than this one."""
        limits = self.limits
        if len(self._kept) < limits.count_max and self._bytes + size <= limits.bytes_max:
            return True
        count = len(self._of_author.get(author, ())) + 1
        of_largest = max(map(len, self._of_author.values()), default=0)
        if len(self._kept) >= limits.count_max and count >= of_largest:
            return False
        size += self._sizes[author]
        return self._bytes + size <= limits.bytes_max or size < max(self._sizes.values(), default=0)

    def _displace(self) -> None:
        """Drops the newest transactions of those with the largest parts until the limits hold."""
        limits = self.limits
        while len(self._kept) > limits.count_max:
            largest = max(self._of_author.values(), key=len)
            self._drop(next(reversed(largest)))
        while self._bytes > limits.bytes_max:
            author = max(self._sizes, key=self._sizes.__getitem__)
            self._drop(next(reversed(self._of_author[author])))

    def find_effective(self, judge: Judge) -> bool:
        """Whether a transaction would take effect now; drops those before it that would not."""
        while self._ready:
            digest = next(iter(next(iter(self._ready.values()))))
            outcome = judge(self._kept[digest].encoded)
            if not isinstance(outcome, Already | Refused):
                return True
            self._reconsider(digest, outcome)
        return False

    def review(self, encoded: Iterable[bytes], judge: Judge) -> None:
        """Drops obsolete transactions among those that a block had room for but left out."""
        for each in encoded:
            digest = sha256(each).digest()
            kept = self._kept.get(digest)
            if kept is not None and self._is_ready(digest, kept):
                outcome = judge(each)
                if isinstance(outcome, Already | Refused):
                    self._reconsider(digest, outcome)

    def decided(self, transactions: Iterable[bytes], judge: Judge) -> None:
        """Removes the transactions of a decided block and makes their successors ready."""
        for encoded in transactions:
            kept = self._drop(sha256(encoded).digest())
            origin = _origin(encoded) if kept is None else kept.origin
            if origin.ends is not None:
                self._promote(origin.ends)
            if origin.author in self._ready:
                self._ready.move_to_end(origin.author)
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
            self._early_of.setdefault(kept.origin.author, {})[digest] = None
        else:
            author = kept.origin.author
            of_author = sum(self._kept[other].origin.author == author for other in self._soon)
            if len(self._soon) >= SOON_MAX or of_author >= SOON_AUTHOR_MAX:
                return False
            self._soon[digest] = None
        self._count(digest, kept)
        return True

    def _count(self, digest: bytes, kept: _Kept) -> None:
        self._kept[digest] = kept
        self._bytes += len(kept.encoded)
        self._of_author.setdefault(kept.origin.author, {})[digest] = None
        self._sizes[kept.origin.author] += len(kept.encoded)

    def _make_ready(self, digest: bytes) -> None:
        """Makes a transaction and its successors ready."""
        origin = self._kept[digest].origin
        self._ready.setdefault(origin.author, {})[digest] = None
        if origin.ends is not None:
            self._ends[origin.ends] += 1
            self._promote(origin.ends)

    def _promote(self, place: Place) -> None:
        places = [place]
        while places:
            for digest in self._early.pop(places.pop(), ()):
                origin = self._kept[digest].origin
                assert origin.ends is not None, "only batches have places"
                _remove(self._early_of, origin.author, digest)
                self._ready.setdefault(origin.author, {})[digest] = None
                self._ends[origin.ends] += 1
                places.append(origin.ends)

    def _is_ready(self, digest: bytes, kept: _Kept) -> bool:
        return digest in self._ready.get(kept.origin.author, ())

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
        _remove(self._of_author, origin.author, digest)
        _subtract(self._sizes, origin.author, len(kept.encoded))
        if self._is_ready(digest, kept):
            _remove(self._ready, origin.author, digest)
            if origin.ends is not None:
                _subtract(self._ends, origin.ends, 1)
        elif digest in self._soon:
            del self._soon[digest]
        elif origin.begins is not None:
            group = self._early[origin.begins]
            group.remove(digest)
            _remove(self._early_of, origin.author, digest)
            if not group:
                del self._early[origin.begins]
        return kept


def _subtract(counter: Counter[Key], key: Key, number: int) -> None:
    """Subtracts, and removes the key at zero."""
    counter[key] -= number
    if not counter[key]:
        del counter[key]


def _remove(queues: MutableMapping[str, dict[bytes, None]], author: str, digest: bytes) -> None:
    """Removes a transaction from its author's queue, and the queue if it is empty."""
    del queues[author][digest]
    if not queues[author]:
        del queues[author]


def find_author(encoded: bytes) -> str:
    """Returns who would be charged for a transaction, according to the transaction itself."""
    return _origin(encoded).author


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
