"""Compares a storage party's batches with those that the ledger admitted; pure, one stream at a time.

A stream is one producer's batches in one partition. Batches are matched by the digest of their header, so
a lying party incriminates only itself: only a header signed by the producer counts against the producer.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from veristream.kabis.audit.findings import Finding, Kind, Role, Tally
from veristream.kabis.audit.registry import AccessHistory, Registry
from veristream.kabis.protocol.actions import to_write
from veristream.kabis.protocol.batch import BatchError, PackedBatch, SignedHeader
from veristream.kabis.protocol.codec import ZERO_DIGEST, Octets
from veristream.kabis.protocol.keys import Verify
from veristream.kabis.protocol.keys import verify as verify_signature

SEQUENCE_MAX = (1 << 63) - 1
"""The largest number that fits into a column; only forged headers exceed it."""


class Condition(StrEnum):
    """The state of a batch as a party returned it; a header alone is evidence but not a copy.

    A party that has the batch but cannot return it refuses, with a reason.
    """

    WHOLE = "whole"
    ALTERED = "altered"
    HEADER = "header"
    SILENT = "silent"
    REFUSED = "refused"
    DAMAGED = "damaged"


GIVEN = frozenset({Condition.WHOLE, Condition.ALTERED, Condition.HEADER})
"""Conditions in which the party returned data."""


@dataclass(frozen=True, slots=True)
class BatchCopy:
    """A batch as a party returned it: its claimed place, and whether its producer signed it."""

    party: str
    condition: str
    topic: str = ""
    partition: int = 0
    producer: str = ""
    key_epoch: int = 0
    sequence: int = -1
    count: int = 0
    digest: bytes = b""
    signature: bytes = b""
    signed: bool = False
    detail: str = ""

    @property
    def end(self) -> int:
        """The sequence number after its last event."""
        return self.sequence + self.count


@dataclass(frozen=True, slots=True)
class Admitted:
    """A batch on the ledger; `body` is its signed header, `vouched` the parties with valid receipts."""

    height: int
    number: int
    topic: str
    partition: int
    producer: str
    key_epoch: int
    sequence: int
    count: int
    digest: bytes
    body: bytes
    vouched: tuple[str, ...]
    first_index: int

    @property
    def end(self) -> int:
        """The sequence number after its last event."""
        return self.sequence + self.count


def inspect(registry: Registry, party: str, data: Octets, verify: Verify = verify_signature) -> BatchCopy:
    """Checks what a party returned as a batch; raises DecodeError if it is malformed."""
    batch = PackedBatch.decode(data)
    try:
        batch.verify_contents()
        condition = Condition.WHOLE
    except BatchError:
        condition = Condition.ALTERED
    return describe(registry, party, batch.signed, condition, verify)


def describe(
    registry: Registry,
    party: str,
    signed: SignedHeader,
    condition: Condition,
    verify: Verify = verify_signature,
) -> BatchCopy:
    """Checks a signed header that a party returned."""
    header = signed.header
    return BatchCopy(
        party,
        condition,
        header.topic,
        header.partition,
        header.producer,
        header.key_epoch,
        min(header.first_sequence, SEQUENCE_MAX - header.count),
        header.count,
        header.digest(),
        signed.signature,
        registry.is_signed(signed, verify),
    )


@dataclass(frozen=True, slots=True)
class Stream:
    """All data of one stream; `parties` are all storage parties, `unread` those without any data.

    `former` are those that left: they may have stopped, and lack what they gave receipts for.
    """

    registry: Registry
    parties: tuple[str, ...]
    unread: frozenset[str]
    admitted: tuple[Admitted, ...]
    stored: tuple[BatchCopy, ...]
    former: frozenset[str] = frozenset()


def judge(stream: Stream, verify: Verify = verify_signature) -> Iterator[Finding | Tally]:
    """Yields every fault in a stream, on the ledger and at each party, and the counts."""
    if stream.admitted:
        yield from judge_ledger(stream, verify)
    by_party: dict[str, list[BatchCopy]] = defaultdict(list)
    for each in stream.stored:
        by_party[each.party].append(each)
    for party in stream.parties:
        yield from judge_party(stream, party, by_party.get(party, []))
    yield from judge_strangers(stream)


# The ledger


def judge_ledger(stream: Stream, verify: Verify = verify_signature) -> Iterator[Finding | Tally]:
    """Yields holes, splices, equivocation and bad signatures among the admitted batches, and counts."""
    next_sequence, last = 0, ZERO_DIGEST
    history = stream.registry.replay_access()
    for batch in sorted(stream.admitted, key=lambda each: (each.height, each.number)):
        signed = SignedHeader.decode(batch.body)
        yield from _judge_place(batch, signed, next_sequence, last)
        yield from _judge_signature(stream, batch, signed, verify)
        yield from _judge_right(history, batch)
        yield from _judge_skip(stream, batch)
        next_sequence, last = max(next_sequence, batch.end), batch.digest
    first = stream.admitted[0]
    yield Tally(
        first.topic,
        first.partition,
        first.producer,
        copies=sum(each.condition in GIVEN for each in stream.stored),
        good=len(stream.admitted),
        events=sum(batch.count for batch in stream.admitted),
    )


def _judge_place(
    batch: Admitted, signed: SignedHeader, next_sequence: int, last: bytes
) -> Iterator[Finding]:
    if batch.sequence > next_sequence:
        missing = batch.sequence - next_sequence
        detail = f"{missing} sequence numbers are missing before the batch at {batch.sequence}"
        place = (batch.topic, batch.partition, batch.producer, batch.key_epoch)
        yield Finding(Kind.HOLE, Role.LEDGER, "", *place, next_sequence, missing, batch.height, detail)
    elif batch.sequence < next_sequence:
        detail = "two batches with these sequence numbers were admitted"
        yield _about(Kind.EQUIVOCATION, Role.PRODUCER, batch.producer, batch, detail)
    elif signed.header.previous != last:
        yield _about(Kind.SPLICE, Role.LEDGER, "", batch, "it refers to another previous batch")


def _judge_signature(
    stream: Stream, batch: Admitted, signed: SignedHeader, verify: Verify
) -> Iterator[Finding]:
    key = stream.registry.keys.get((batch.producer, batch.key_epoch))
    if key is None or not key.valid_at(batch.height):
        detail = "it was admitted with a key that was not valid"
        yield _about(Kind.BAD_SIGNATURE, Role.LEDGER, "", batch, detail)
    elif not stream.registry.is_signed(signed, verify):
        detail = "it was admitted, but its producer did not sign it"
        yield _about(Kind.BAD_SIGNATURE, Role.LEDGER, "", batch, detail)


def _judge_right(history: AccessHistory, batch: Admitted) -> Iterator[Finding]:
    right = to_write(batch.topic)
    if not history.may(batch.height, batch.producer, right):
        detail = f"it was admitted, but {batch.producer} lacked the right: {right}"
        yield _about(Kind.NO_RIGHT, Role.LEDGER, "", batch, detail)


def _judge_skip(stream: Stream, batch: Admitted) -> Iterator[Finding]:
    skipped = stream.registry.skipped.get(batch.digest)
    if skipped is None:
        return
    detail = f"its {batch.count} events were skipped in block {skipped.height}"
    yield _about(Kind.HOLE, Role.LEDGER, "", batch, detail)
    for party in skipped.confessed:
        if party in batch.vouched:
            detail = (
                f"it signed a receipt for the batch, and in block {skipped.height} that it lacks the batch"
            )
            yield _about(Kind.WITHHELD, Role.STORAGE, party, batch, detail)


# One party


def judge_party(stream: Stream, party: str, stored: Sequence[BatchCopy]) -> Iterator[Finding | Tally]:
    """Yields the admitted batches that a party altered or withholds, and counts its good copies."""
    copies: dict[bytes, list[BatchCopy]] = defaultdict(list)
    for each in stored:
        if each.condition != Condition.HEADER:
            copies[each.digest].append(each)
    forged = {(each.key_epoch, each.sequence) for each in _unsigned_strangers(stream, stored)}
    good = events = vouched = found = unanswered = 0
    for batch in stream.admitted:
        answers = copies.get(batch.digest, [])
        given = [each for each in answers if each.condition != Condition.REFUSED]
        is_due = stream.registry.is_due(batch) and party in batch.vouched and party not in stream.former
        vouched += is_due
        found += any(each.condition != Condition.SILENT for each in given)
        kind = _judge_copy(batch, given, (batch.key_epoch, batch.sequence) in forged)
        if kind is not None:
            yield _about(kind, Role.STORAGE, party, batch, _DETAILS[kind])
        elif any(each.condition == Condition.WHOLE for each in given):
            good, events = good + 1, events + batch.count
        elif given or party in stream.unread:
            unanswered += is_due
        elif is_due:
            words = [each.detail for each in answers[:1] if each.detail]
            detail = ": ".join([_DETAILS[Kind.WITHHELD], *words])
            yield _about(Kind.WITHHELD, Role.STORAGE, party, batch, detail)
    yield from _judge_forgeries(stream, party, stored)
    if stream.admitted:
        first = stream.admitted[0]
        place = (first.topic, first.partition, first.producer)
        yield Tally(*place, party, vouched, found, good, unanswered, events)


_DETAILS = {
    Kind.ALTERED: "the returned events are not those that were signed",
    Kind.BAD_SIGNATURE: "the returned signature is not the producer's",
    Kind.WITHHELD: "it signed a receipt for the batch but does not return it",
}


def _judge_copy(batch: Admitted, given: Sequence[BatchCopy], is_forged: bool) -> Kind | None:
    """Returns the fault of a party's copies of a batch; if the ledger's own header is bad in the same way,
    the fault is the ledger's."""
    if any(each.condition == Condition.ALTERED for each in given) or (is_forged and not given):
        return Kind.ALTERED
    own = SignedHeader.decode(batch.body).signature
    whole = [each for each in given if each.condition == Condition.WHOLE]
    if any(not each.signed and each.signature != own for each in whole):
        return Kind.BAD_SIGNATURE
    return None


def _unsigned_strangers(stream: Stream, stored: Sequence[BatchCopy]) -> Iterator[BatchCopy]:
    admitted = {batch.digest for batch in stream.admitted}
    for each in stored:
        is_batch = each.condition in (Condition.WHOLE, Condition.ALTERED)
        if is_batch and not each.signed and each.digest not in admitted:
            yield each


def _judge_forgeries(stream: Stream, party: str, stored: Sequence[BatchCopy]) -> Iterator[Finding]:
    """Yields unsigned batches that match no admitted one, and damage on the party's disk."""
    known = {each.digest for each in stored}
    replaced = {(batch.key_epoch, batch.sequence) for batch in stream.admitted if batch.digest not in known}
    for each in stored:
        if each.condition == Condition.DAMAGED:
            yield Finding(Kind.DAMAGED, Role.STORAGE, party, detail=each.detail)
    for each in _unsigned_strangers(stream, stored):
        if (each.key_epoch, each.sequence) not in replaced:
            detail = "a batch that was never admitted, and not signed by its producer"
            yield _about(Kind.BAD_SIGNATURE, Role.STORAGE, party, each, detail)


# Batches that are not on the ledger


def judge_strangers(stream: Stream) -> Iterator[Finding]:
    """Yields signed batches that were never admitted: equivocation if an admitted batch has the same
    sequence numbers, otherwise a phantom."""
    ranges = _Ranges(stream.admitted)
    told: set[tuple[int, int]] = set()
    strangers: dict[bytes, BatchCopy] = {}
    for each in sorted(stream.stored, key=lambda one: (one.key_epoch, one.sequence, one.digest)):
        if each.signed and each.digest not in ranges.digests:
            strangers.setdefault(each.digest, each)
    free: list[BatchCopy] = []
    for each in strangers.values():
        begin = ranges.overlap(each)
        if begin is None and free and free[-1].key_epoch == each.key_epoch and each.sequence < free[-1].end:
            begin = each.sequence
        if begin is None:
            free.append(each)
        elif (each.key_epoch, begin) not in told and not _is_known(stream, each, begin):
            told.add((each.key_epoch, begin))
            yield _equivocation(each, begin)
    for each in free:
        yield _about(Kind.PHANTOM, Role.PRODUCER, each.producer, each, f"{each.party} has it")


def _is_known(stream: Stream, stored: BatchCopy, begin: int) -> bool:
    conflict = (stored.topic, stored.partition, stored.producer, stored.key_epoch, begin)
    return conflict in stream.registry.conflicts


def _equivocation(stored: BatchCopy, begin: int) -> Finding:
    place = (stored.topic, stored.partition, stored.producer, stored.key_epoch)
    detail = f"the producer signed two batches with these sequence numbers; {stored.party} has the second"
    return Finding(
        Kind.EQUIVOCATION, Role.PRODUCER, stored.producer, *place, begin, stored.end - begin, 0, detail
    )


class _Ranges:
    """The admitted batches by key epoch and sequence numbers."""

    def __init__(self, admitted: Sequence[Admitted]) -> None:
        self.digests = {batch.digest for batch in admitted}
        self._ranges: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for batch in admitted:
            self._ranges[batch.key_epoch].append((batch.sequence, batch.end))
        for ranges in self._ranges.values():
            ranges.sort()

    def overlap(self, stored: BatchCopy) -> int | None:
        """Returns the first sequence number that the batch shares with an admitted one of its key."""
        ranges = self._ranges.get(stored.key_epoch, [])
        place = bisect_right(ranges, (stored.sequence, SEQUENCE_MAX))
        if place and ranges[place - 1][1] > stored.sequence:
            return stored.sequence
        if place < len(ranges) and ranges[place][0] < stored.end:
            return ranges[place][0]
        return None


def _about(kind: Kind, role: Role, accused: str, batch: Admitted | BatchCopy, detail: str) -> Finding:
    place = (batch.topic, batch.partition, batch.producer, batch.key_epoch)
    height = batch.height if isinstance(batch, Admitted) else 0
    return Finding(kind, role, accused, *place, batch.sequence, batch.count, height, detail)
