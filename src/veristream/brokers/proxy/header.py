"""What Kafka's messages say of themselves: who asks what, for which transaction, and what was answered."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from veristream.brokers.proxy.kafka import Key
from veristream.brokers.proxy.octets import Octets, TooShort
from veristream.brokers.proxy.pieces import Request

FLEXIBLE: Final = {
    Key.PRODUCE: 9,
    Key.INIT_PRODUCER_ID: 2,
    Key.ADD_PARTITIONS_TO_TXN: 3,
    Key.ADD_OFFSETS_TO_TXN: 3,
    Key.END_TXN: 3,
    Key.WRITE_TXN_MARKERS: 1,
    Key.TXN_OFFSET_COMMIT: 3,
}
"""From which version on lengths are compact and structures end with tagged fields; no others are read."""

LATEST: Final = {
    Key.PRODUCE: 13,
    Key.INIT_PRODUCER_ID: 6,
    Key.ADD_PARTITIONS_TO_TXN: 5,
    Key.ADD_OFFSETS_TO_TXN: 4,
    Key.END_TXN: 5,
    Key.WRITE_TXN_MARKERS: 2,
    Key.TXN_OFFSET_COMMIT: 5,
}
"""The newest version that is read: what a newer one contains is not known."""

PRODUCE_OLDEST: Final = 3  # older ones have no transactions, and Kafka 4 refuses them
TOPIC_IDS: Final = 13
BATCHED: Final = 4
GIVES_EPOCH: Final = 5
NO_PRODUCER: Final = -1
MAGIC_AT, PRODUCER_AT, HEAD_BYTES, MAGIC = 16, 43, 57, 2
"""Where a record batch has its format and its producer, how long its head is, and which format is read."""


@dataclass(frozen=True, slots=True)
class Transaction:
    """A transaction that a message is about, or a producer without one; what is not said is None."""

    transactional_id: str | None = None
    producer_id: int | None = None
    epoch: int | None = None
    committed: bool | None = None
    """Whether the end of a transaction (EndTxn, WriteTxnMarkers) commits it."""
    verify_only: bool | None = None
    """Whether a broker only asks if the transaction contains the partitions (AddPartitionsToTxn 4)."""
    partitions: tuple[tuple[str, int], ...] = ()
    """Names of topics (Produce from 13 on: ids as 32 hexadecimal digits), and numbers of partitions."""


@dataclass(frozen=True, slots=True)
class Header:
    """What a message says of itself. That of an answer has what its request said, and `errors` besides.

    Most messages are about one transaction or none; those between brokers can be about several. `errors`
    are all error codes of an answer in their order, 0 for what succeeded; None if they are not known.
    `given` are the producer id and epoch to use from now on, in answers to InitProducerId and to EndTxn
    from version 5 on; for InitProducerId they are also those of the transaction. `offset` is that of the
    first record that was produced, in an answer to Produce; -1 if none was.
    """

    request: Request
    transactions: tuple[Transaction, ...] = ()
    group: str | None = None
    errors: tuple[int, ...] | None = None
    given: tuple[int, int] | None = None
    offset: int | None = None


def read_request(request: Request, data: bytes) -> Header:
    """Reads a request; leaves out what is cut off, malformed or unknown. Never raises."""
    form = _form(request, _REQUESTS)
    if form is None:
        return Header(request)
    octets = Octets(data, compact=request.version >= FLEXIBLE[Key(request.key)])
    try:
        octets.skip(12)  # length, key, version, correlation id
        octets.classic_text()
        octets.tags()
        return form(Header(request), octets)
    except (TooShort, ValueError):
        return Header(request)


def read_answer(asked: Header, data: bytes) -> Header:
    """Reads an answer to a request; leaves out what is cut off, malformed or unknown. Never raises."""
    form = _form(asked.request, _ANSWERS)
    if form is None:
        return asked
    octets = Octets(data, compact=asked.request.version >= FLEXIBLE[Key(asked.request.key)])
    try:
        octets.skip(8)  # length, correlation id
        octets.tags()
        return form(asked, octets)
    except (TooShort, ValueError):
        return asked


_Form = Callable[[Header, Octets], Header]


def _form(request: Request, forms: dict[Key, _Form]) -> _Form | None:
    try:
        key = Key(request.key)
    except ValueError:
        return None
    oldest = PRODUCE_OLDEST if key is Key.PRODUCE else 0
    return forms.get(key) if oldest <= request.version <= LATEST.get(key, -1) else None


def _produce(header: Header, octets: Octets) -> Header:
    """Reads as far as the bytes go: a large request is known by its first partitions."""
    transaction = Transaction(octets.text())
    octets.skip(6)  # acks, timeout
    found: list[tuple[str, int]] = []
    try:
        for _ in range(octets.count()):
            topic = octets.hexadecimal() if header.request.version >= TOPIC_IDS else octets.text()
            for _ in range(octets.count()):
                found.append((topic or "", octets.int32()))
                length = octets.length()
                transaction = _batch(transaction, octets, length)
                octets.skip(max(length, 0))
                octets.tags()
            octets.tags()
    except TooShort:
        if not found:
            raise
    return replace(header, transactions=(replace(transaction, partitions=tuple(found)),))


def _batch(transaction: Transaction, octets: Octets, length: int) -> Transaction:
    """Adds the producer of the record batch that begins here."""
    if length >= HEAD_BYTES and octets.peek_byte(MAGIC_AT) == MAGIC:
        producer, epoch = octets.peek_producer(PRODUCER_AT)
        if producer != NO_PRODUCER and transaction.producer_id is None:
            transaction = replace(transaction, producer_id=producer, epoch=epoch)
    return transaction


def _init_producer_id(header: Header, octets: Octets) -> Header:
    transaction = Transaction(octets.text())
    octets.skip(4)  # timeout
    if header.request.version >= 3:
        producer, epoch = octets.int64(), octets.int16()
        if producer != NO_PRODUCER:
            transaction = replace(transaction, producer_id=producer, epoch=epoch)
    return replace(header, transactions=(transaction,))


def _add_partitions(header: Header, octets: Octets) -> Header:
    if header.request.version < BATCHED:
        return replace(header, transactions=(replace(_who(octets), partitions=_topics(octets)),))
    found = []
    for _ in range(octets.count()):
        one = replace(_who(octets), verify_only=octets.flag())
        found.append(replace(one, partitions=_topics(octets)))
        octets.tags()
    return replace(header, transactions=tuple(found))


def _add_offsets(header: Header, octets: Octets) -> Header:
    return replace(header, transactions=(_who(octets),), group=octets.text())


def _end(header: Header, octets: Octets) -> Header:
    return replace(header, transactions=(replace(_who(octets), committed=octets.flag()),))


def _markers(header: Header, octets: Octets) -> Header:
    found = []
    for _ in range(octets.count()):
        one = Transaction(None, octets.int64(), octets.int16(), committed=octets.flag())
        found.append(replace(one, partitions=_topics(octets)))
        octets.skip(4 if header.request.version < 2 else 5)  # epoch of the coordinator, transaction.version
        octets.tags()
    return replace(header, transactions=tuple(found))


def _offsets(header: Header, octets: Octets) -> Header:
    transactional_id, group = octets.text(), octets.text()
    transaction = Transaction(transactional_id, octets.int64(), octets.int16())
    version = header.request.version
    if version >= 3:
        octets.skip(4)  # generation
        octets.text()  # member
        octets.text()  # instance
    found = []
    for _ in range(octets.count()):
        topic = octets.text() or ""
        for _ in range(octets.count()):
            found.append((topic, octets.int32()))
            octets.skip(8 if version < 2 else 12)  # offset, epoch of the leader
            octets.text()  # metadata
            octets.tags()
        octets.tags()
    return replace(header, transactions=(replace(transaction, partitions=tuple(found)),), group=group)


def _who(octets: Octets) -> Transaction:
    return Transaction(octets.text(), octets.int64(), octets.int16())


def _topics(octets: Octets) -> tuple[tuple[str, int], ...]:
    found = []
    for _ in range(octets.count()):
        topic = octets.text() or ""
        found += [(topic, octets.int32()) for _ in range(octets.count())]
        octets.tags()
    return tuple(found)


def _produced(header: Header, octets: Octets) -> Header:
    version, errors, offsets = header.request.version, list[int](), list[int]()
    for _ in range(octets.count()):
        octets.skip(16) if version >= TOPIC_IDS else octets.text()
        for _ in range(octets.count()):
            octets.skip(4)
            errors.append(octets.int16())
            offsets.append(octets.int64())
            octets.skip(8 if version < 5 else 16)  # the time, where the log begins
            if version >= 8:
                for _ in range(octets.count()):  # errors of records
                    octets.skip(4)
                    octets.text()
                    octets.tags()
                octets.text()
            octets.tags()
        octets.tags()
    return replace(header, errors=tuple(errors), offset=offsets[0] if offsets else None)


def _one_error(header: Header, octets: Octets) -> Header:
    octets.skip(4)  # throttle time
    return replace(header, errors=(octets.int16(),))


def _given_producer(header: Header, octets: Octets) -> Header:
    found = _one_error(header, octets)
    producer, epoch = octets.int64(), octets.int16()
    if producer == NO_PRODUCER:
        return found
    named = tuple(replace(each, producer_id=producer, epoch=epoch) for each in found.transactions)
    return replace(found, transactions=named, given=(producer, epoch))


def _ended(header: Header, octets: Octets) -> Header:
    """Reads the answer to EndTxn, whose transaction remains the one that was ended."""
    if header.request.version < GIVES_EPOCH:
        return _one_error(header, octets)
    return replace(_given_producer(header, octets), transactions=header.transactions)


def _partition_errors(header: Header, octets: Octets) -> Header:
    octets.skip(4)  # throttle time
    if header.request.key == Key.ADD_PARTITIONS_TO_TXN and header.request.version >= BATCHED:
        errors = [octets.int16()]
        for _ in range(octets.count()):
            octets.text()
            errors += _errors(octets)
            octets.tags()
        return replace(header, errors=tuple(errors))
    return replace(header, errors=tuple(_errors(octets)))


def _marked(header: Header, octets: Octets) -> Header:
    errors = list[int]()
    for _ in range(octets.count()):
        octets.skip(8)
        errors += _errors(octets)
        octets.tags()
    return replace(header, errors=tuple(errors))


def _errors(octets: Octets) -> list[int]:
    errors = []
    for _ in range(octets.count()):
        octets.text()
        for _ in range(octets.count()):
            octets.skip(4)
            errors.append(octets.int16())
            octets.tags()
        octets.tags()
    return errors


_REQUESTS: Final[dict[Key, _Form]] = {
    Key.PRODUCE: _produce,
    Key.INIT_PRODUCER_ID: _init_producer_id,
    Key.ADD_PARTITIONS_TO_TXN: _add_partitions,
    Key.ADD_OFFSETS_TO_TXN: _add_offsets,
    Key.END_TXN: _end,
    Key.WRITE_TXN_MARKERS: _markers,
    Key.TXN_OFFSET_COMMIT: _offsets,
}
_ANSWERS: Final[dict[Key, _Form]] = {
    Key.PRODUCE: _produced,
    Key.INIT_PRODUCER_ID: _given_producer,
    Key.ADD_PARTITIONS_TO_TXN: _partition_errors,
    Key.ADD_OFFSETS_TO_TXN: _one_error,
    Key.END_TXN: _ended,
    Key.WRITE_TXN_MARKERS: _marked,
    Key.TXN_OFFSET_COMMIT: _partition_errors,
}
