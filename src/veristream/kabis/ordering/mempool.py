"""Transactions that wait for a block: bounded in all and per author, each once, oldest first.

What cannot take effect is not let in, so that a flood needs keys, and takes from its author's room alone. A
batch whose predecessor is not here yet waits until that comes or is decided, and leaves after a while.
Whether a transaction takes effect is for the caller to judge; here it is only asked where it may have
changed, so that a long queue costs nothing from block to block.
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
"""How many transactions may wait for one place of a stream; they differ in their storage receipts."""
SOON_MAX = 256

Key = TypeVar("Key")

Judge = Callable[[bytes], Outcome]

Place = tuple[str, str, int, int]
"""A producer, a topic, a partition and a sequence number: where a batch begins, or where the next does."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How much is kept, in all and of one author, and how long what waits for something else."""

    count_max: int = 20_000
    bytes_max: int = 64 << 20
    author_count_max: int = 5_000
    author_bytes_max: int = 16 << 20
    waiting_ms_max: int = 30_000


@dataclass(frozen=True, slots=True)
class _Origin:
    """Whose a transaction is, and where in its stream."""

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
    """The transactions that a validator would put into a block, and those that may follow."""

    limits: Limits = field(default_factory=Limits)
    _kept: dict[bytes, _Kept] = field(default_factory=dict)
    _ready: OrderedDict[bytes, None] = field(default_factory=OrderedDict)
    _early: dict[Place, list[bytes]] = field(default_factory=dict)  # by where they begin
    _soon: dict[bytes, None] = field(default_factory=dict)  # their keys become valid with a block
    _ends: Counter[Place] = field(default_factory=Counter)  # where those that are ready end
    _counts: Counter[str] = field(default_factory=Counter)
    _sizes: Counter[str] = field(default_factory=Counter)
    _bytes: int = 0

    def __len__(self) -> int:
        return len(self._kept)

    def candidates(self, count: int) -> Iterator[bytes]:
        """Those that a block may be made of, oldest first, a batch after its predecessor."""
        return (self._kept[digest].encoded for digest in islice(self._ready, count))

    def add(self, encoded: bytes, now_ms: int, judge: Judge) -> tuple[Outcome, bool]:
        """What would become of the transaction in the next block, and whether it is new and is kept.

        A batch whose predecessor is ready is done too: they go into a block together.
        """
        digest = sha256(encoded).digest()
        known = self._kept.get(digest)
        if known is not None:
            follows = digest in self._ready and isinstance(known.outcome, Refused)
            return Done() if follows else known.outcome, False
        limits = self.limits
        if len(self._kept) >= limits.count_max or self._bytes + len(encoded) > limits.bytes_max:
            return Refused(Reason.TOO_MANY, "the validator has no room for transactions"), False
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
            return Refused(Reason.TOO_MANY, f"too many transactions of {author!r} wait already"), False
        return outcome, True

    def find_effective(self, judge: Judge) -> bool:
        """Whether some transaction would take effect now; those before it that would not are let go."""
        while self._ready:
            digest = next(iter(self._ready))
            outcome = judge(self._kept[digest].encoded)
            if not isinstance(outcome, Already | Refused):
                return True
            self._reconsider(digest, outcome)
        return False

    def review(self, encoded: Iterable[bytes], judge: Judge) -> None:
        """Lets go what has become useless among transactions that a block had room for and left out."""
        for each in encoded:
            digest = sha256(each).digest()
            if digest in self._ready:
                outcome = judge(each)
                if isinstance(outcome, Already | Refused):
                    self._reconsider(digest, outcome)

    def decided(self, transactions: Iterable[bytes], judge: Judge) -> None:
        """A block with these was decided: they leave, and what waited for them is ready."""
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
        """Lets go what has waited too long for something else."""
        waiting = [digest for group in self._early.values() for digest in group]
        for digest in (*waiting, *self._soon):
            if now_ms - self._kept[digest].since_ms > self.limits.waiting_ms_max:
                self._drop(digest)

    def _place(self, digest: bytes, kept: _Kept) -> bool:
        """Keeps a transaction where it belongs; False if there is no room for it there."""
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
        """Makes a transaction ready, and then what waited for it."""
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
    """Subtracts, and forgets what has come to nothing."""
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
