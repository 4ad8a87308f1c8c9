"""Storage parties of a simulation: the real rules over a log that tears and decays, and some that lie."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from random import Random
from typing import TypeVar
from zlib import crc32

from veristream.errors import EnvironmentFailure
from veristream.kabis.cluster.faults import StorageFault
from veristream.kabis.log.disk.log import Gap, LogRecord, Lost
from veristream.kabis.log.memory import MemoryLog
from veristream.kabis.protocol.answers import Absent, Below
from veristream.kabis.protocol.batch import Batch, SignedHeader, Stream, build_batch
from veristream.kabis.protocol.certificates import Certificate
from veristream.kabis.protocol.codec import ZERO_DIGEST, DecodeError, Octets
from veristream.kabis.protocol.genesis import Genesis
from veristream.kabis.protocol.partitions import StreamName
from veristream.kabis.protocol.receipts import StorageAbsence, StorageReceipt, sign_storage_receipt
from veristream.kabis.protocol.records import encode_leaf
from veristream.kabis.storage.core import StorageCore, StorageRefusedError
from veristream_testing.simulation.chain import CHAIN, check_signature, key_of

RANGE_BYTES = 1 << 20

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Refusal:
    """The other side does not do as asked."""

    why: str


class FrailLog(MemoryLog):
    """A log whose records have checksums: a crash tears what was not synced, and bits may flip.

    A flipped record is found when it is read, and is a gap after a restart, as after the operator's repair.
    """

    def __init__(self) -> None:
        super().__init__()
        self._checksums: list[int] = []
        self.torn_count = self.damaged_count = 0

    def append(self, *parts: Octets) -> int:
        """Adds a record with its checksum."""
        payload = b"".join(parts)
        self._checksums.append(crc32(payload))
        return super().append(payload)

    def read(self, position: int) -> bytes:
        """The record; raises Lost if it is not as it was written."""
        payload = super().read(position)
        if crc32(payload) != self._checksums[position]:
            self.damaged_count += 1
            raise Lost(position)
        return payload

    def records(self, start: int | None = None, end: int | None = None) -> Iterator[LogRecord | Gap]:
        """Every record, and a gap where it is not as it was written."""
        for entry in super().records(start, end):
            assert isinstance(entry, LogRecord)
            whole = crc32(entry.payload) == self._checksums[entry.position]
            yield entry if whole else Gap(entry.position, 1)

    def fall(self, random: Random) -> None:
        """Keeps what was synced and some bytes of the rest; what is not whole there is cut off."""
        left = random.randint(0, sum(map(len, self._records[self._durable :])))
        for position in range(self._durable, self.end):
            payload = self._records[position]
            self._records[position] = payload[:left]
            left = max(0, left - len(payload))
        whole = self._durable
        while whole < self.end and crc32(self._records[whole]) == self._checksums[whole]:
            whole += 1
        self.torn_count += self.end - whole
        del self._records[whole:], self._checksums[whole:]
        self._durable = whole

    def flip(self, random: Random) -> None:
        """Flips one bit of what is durable, if anything is."""
        if self._durable:
            position = random.randrange(self._durable)
            payload = bytearray(self._records[position])
            payload[random.randrange(len(payload))] ^= 1 << random.randrange(8)
            self._records[position] = bytes(payload)


@dataclass(slots=True)
class Store:
    """A machine that runs a storage party; every method is what the party answers."""

    name: str
    genesis: Genesis
    random: Random
    lie: StorageFault | None
    log: FrailLog = field(default_factory=FrailLog)
    up: bool = True
    lives: int = 1
    party: StorageCore = field(init=False)
    seen: dict[bytes, bytes] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._open()

    def _open(self) -> None:
        self.party = StorageCore(self.genesis, self.name, key_of(self.name), self.log, check_signature)

    def fall(self) -> None:
        """The machine dies."""
        self.up = False
        self.log.fall(self.random)

    def rise(self) -> None:
        """It comes back, with what the log kept."""
        self.up, self.lives = True, self.lives + 1
        self._open()

    def store(self, data: bytes, producer: str) -> bytes | Refusal:
        """The digest of a batch that is written but not yet durable."""
        self.seen[Batch.decode(data).digest()] = data
        if self.lie in (StorageFault.FORGET, StorageFault.FORGE):
            return Batch.decode(data).digest()
        return _answer(lambda: self.party.store(data, producer, key_of(producer).public).digest)

    def receipt(self, digest: bytes) -> StorageReceipt:
        """The receipt of a batch, once the log is flushed."""
        if self.lie is StorageFault.FORGE:
            other = self.random.choice(self.genesis.storage).name
            return StorageReceipt(other, digest, key_of(self.name).sign(digest))
        if self.lie is StorageFault.FORGET:
            return sign_storage_receipt(CHAIN, self.name, digest, key_of(self.name))
        self.log.sync()
        return self.party.receipt(digest)

    def fetch(self, digest: bytes) -> bytes | Absent | Below | Refusal:
        """What it gives for the batch with a digest."""
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
        return _answer(lambda: self.party.fetch_digest(digest))

    def _alter(self, data: bytes) -> bytes:
        batch = Batch.decode(data)
        return replace(batch, leaves=(encode_leaf(None, b"altered"), *batch.leaves[1:])).encode()

    def _substitute(self, digest: bytes) -> bytes:
        """Another good batch: one after or before the right one where it has one."""
        others = [data for known, data in sorted(self.seen.items()) if known != digest]
        return self.random.choice(others or list(self.seen.values()))

    def _forge(self, digest: bytes) -> bytes:
        """A whole batch in the name of the producer, which it signs itself."""
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
        """A producer's batches."""
        found = _answer(lambda: self.party.fetch_range(stream, first_sequence, RANGE_BYTES))
        return () if isinstance(found, Below) else found

    def absence(self, signed: SignedHeader, certificate: Certificate) -> StorageAbsence | Below | Refusal:
        """The statement that it does not have a batch."""
        return _answer(lambda: self.party.absence(signed, certificate))


def _answer(serve: Callable[[], Answer]) -> Answer | Refusal:
    try:
        return serve()
    except (StorageRefusedError, DecodeError, EnvironmentFailure) as error:
        return Refusal(str(error))
