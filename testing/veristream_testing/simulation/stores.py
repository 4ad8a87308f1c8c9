"""Simulated storage parties: the real rules over a log that may be torn or decay; some parties lie."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from random import Random
from typing import TypeVar
from zlib import crc32

from veristream.errors import EnvironmentFailure
from veristream.kabis.cluster.faults import StorageFault
from veristream.kabis.log.disk.log import Gap, LogRecord, Lost
from veristream.kabis.protocol.answers import Absent, Below
from veristream.kabis.protocol.batch import Batch, SignedHeader, Stream, build_batch
from veristream.kabis.protocol.blocks import Certificate
from veristream.kabis.protocol.codec import ZERO_DIGEST, DecodeError, Octets
from veristream.kabis.protocol.genesis import Genesis
from veristream.kabis.protocol.partitions import StreamName
from veristream.kabis.protocol.receipts import StorageAbsence, StorageReceipt, sign_storage_receipt
from veristream.kabis.protocol.records import encode_leaf
from veristream.kabis.storage.admission import Gate, StorageRefusedError, WaitingLimits
from veristream.kabis.storage.chain import ChainView
from veristream.kabis.storage.core import StorageCore
from veristream_testing.simulation.chain import CHAIN, check_signature, key_of
from veristream_testing.simulation.memory_log import MemoryLog
from veristream_testing.storage_client import fetch_digest

RANGE_BYTES = 1 << 20

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Refusal:
    """A refused request."""

    why: str


class FrailLog(MemoryLog):
    """A log of records with checksums: a crash tears unsynced records, and bits may flip.

    A damaged record is found when it is read, and is a gap after a restart, as after a repair.
    """

    def __init__(self) -> None:
        super().__init__()
        self._checksums: dict[int, int] = {}
        self.torn_count = self.damaged_count = 0

    def append(self, *parts: Octets) -> int:
        """Adds a record with its checksum."""
        payload = b"".join(parts)
        self._checksums[self.end] = crc32(payload)
        return super().append(payload)

    def read(self, position: int) -> bytes:
        """Returns a record; raises Lost if it is damaged."""
        payload = super().read(position)
        if crc32(payload) != self._checksums[position]:
            self.damaged_count += 1
            raise Lost(position)
        return payload

    def records(self, start: int | None = None, end: int | None = None) -> Iterator[LogRecord | Gap]:
        """Yields records, and a gap for each damaged one."""
        for entry in super().records(start, end):
            is_damaged = isinstance(entry, LogRecord) and not self._is_whole(entry.position)
            yield Gap(entry.position, 1) if is_damaged else entry

    def fall(self, random: Random) -> None:
        """Keeps synced records and some bytes of the rest; cuts off an incomplete record."""
        first = self._durable - self._start
        left = random.randint(0, sum(map(len, self._records[first:])))
        for number in range(first, len(self._records)):
            payload = self._records[number]
            self._records[number] = payload[:left]
            left = max(0, left - len(payload))
        whole = self._durable
        while whole < self.end and self._is_whole(whole):
            whole += 1
        self.torn_count += self.end - whole
        del self._records[whole - self._start :]
        self._durable = whole

    def flip(self, random: Random) -> None:
        """Flips one bit of the durable records, if there are any."""
        count = self._durable - self._start
        if count:
            number = random.randrange(count)
            payload = bytearray(self._records[number])
            if payload:  # not of a released record
                payload[random.randrange(len(payload))] ^= 1 << random.randrange(8)
            self._records[number] = bytes(payload)

    def _is_whole(self, position: int) -> bool:
        if position in self._released:
            return True
        return crc32(self._records[position - self._start]) == self._checksums[position]


@dataclass(slots=True)
class Store:
    """A machine that runs a storage party; the methods return the party's answers."""

    name: str
    genesis: Genesis
    random: Random
    lie: StorageFault | None
    limits: WaitingLimits | None = None
    """What it bounds by the chain that it follows; None if it follows none."""
    log: FrailLog = field(default_factory=FrailLog)
    up: bool = True
    lives: int = 1
    party: StorageCore = field(init=False)
    seen: dict[bytes, bytes] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._open()

    def _open(self) -> None:
        gate = None if self.limits is None else Gate(ChainView(self.genesis), self.limits)
        self.party = StorageCore(
            self.genesis, self.name, key_of(self.name), self.log, check_signature, gate
        )

    def fall(self) -> None:
        """Crashes the machine."""
        self.up = False
        self.log.fall(self.random)

    def rise(self) -> None:
        """Restarts the machine from its log."""
        self.up, self.lives = True, self.lives + 1
        self._open()

    def store(self, data: bytes, producer: str) -> bytes | Refusal:
        """Writes a batch, which is not durable yet; returns its digest."""
        self.seen[Batch.decode(data).digest()] = data
        if self.lie in (StorageFault.FORGET, StorageFault.FORGE):
            return Batch.decode(data).digest()
        return _answer(lambda: self.party.store(data, producer, key_of(producer).public).digest)

    def receipt(self, digest: bytes) -> StorageReceipt | Refusal:
        """Returns the receipt of a batch, after a flush; none if the batch was dropped meanwhile."""
        if self.lie is StorageFault.FORGE:
            other = self.random.choice(self.genesis.storage).name
            return StorageReceipt(other, digest, key_of(self.name).sign(digest))
        if self.lie is StorageFault.FORGET:
            return sign_storage_receipt(CHAIN, self.name, digest, key_of(self.name))
        self.log.sync()
        return _answer(lambda: self.party.receipt(digest))

    def fetch(self, digest: bytes) -> bytes | Absent | Below | Refusal:
        """Returns the batch with a digest, according to the party's fault."""
        match self.lie:
            case StorageFault.WITHHOLD | StorageFault.FORGET:
                return Absent()
            case StorageFault.ALTER if digest in self.seen:
                return self._alter(self.seen[digest])
            case StorageFault.SUBSTITUTE if self.seen:
                return self._substitute(digest)
            case StorageFault.FORGE:
                return self._forge(digest)
            case StorageFault.DECAY:
                self.log.flip(self.random)
        return _answer(lambda: fetch_digest(self.party, digest))

    def _alter(self, data: bytes) -> bytes:
        batch = Batch.decode(data)
        return replace(batch, leaves=(encode_leaf(None, b"altered"), *batch.leaves[1:])).encode()

    def _substitute(self, digest: bytes) -> bytes:
        """Returns another valid batch, the next or the previous one if possible."""
        others = [data for known, data in sorted(self.seen.items()) if known != digest]
        return self.random.choice(others or list(self.seen.values()))

    def _forge(self, digest: bytes) -> bytes:
        """Returns a batch in the producer's name, signed by the party itself."""
        known = self.seen.get(digest)
        stream, sequence, previous = Stream(CHAIN, "orders", 0, "client0", 0), 0, ZERO_DIGEST
        if known is not None:
            header = Batch.decode(known).header
            stream = replace(stream, partition=header.partition, producer=header.producer)
            sequence, previous = header.first_sequence, header.previous
        return build_batch(
            stream, sequence, previous, [encode_leaf(None, b"forged")], key_of(self.name)
        ).encode()

    def fetch_range(self, stream: StreamName, first_sequence: int) -> tuple[bytes, ...] | Refusal:
        """Returns a producer's batches."""
        found = _answer(lambda: self.party.fetch_range(stream, first_sequence, RANGE_BYTES))
        return () if isinstance(found, Below) else found

    def absence(self, signed: SignedHeader, certificate: Certificate) -> StorageAbsence | Below | Refusal:
        """Returns the signed statement that it lacks a batch."""
        return _answer(lambda: self.party.absence(signed, certificate))


def _answer(serve: Callable[[], Answer]) -> Answer | Refusal:
    try:
        return serve()
    except (StorageRefusedError, DecodeError, EnvironmentFailure) as error:
        return Refusal(str(error))
