"""The client of a storage party: each method sends one request and checks the answer."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TypeVar

from veristream.kabis.channels.failures import LyingPartyError
from veristream.kabis.protocol.answers import Absent, Below
from veristream.kabis.protocol.batch import Batch, BatchError, SignedHeader
from veristream.kabis.protocol.certificates import Certificate
from veristream.kabis.protocol.codec import DecodeError
from veristream.kabis.protocol.genesis import Party
from veristream.kabis.protocol.keys import SignatureError
from veristream.kabis.protocol.partitions import PartitionName, StreamName
from veristream.kabis.protocol.plain import PlainAppend, PlainSlice
from veristream.kabis.protocol.receipts import StorageAbsence, StorageReceipt
from veristream.kabis.storage.core import CaughtUp
from veristream.kabis.storage.messages import (
    AskAbsence,
    CatchUp,
    FetchPlain,
    FetchRange,
    Operation,
    RaiseLowWater,
    Status,
    decode_batches,
    decode_evidence,
    decode_slice,
    encode_topic,
    split_answer,
)
from veristream.kabis.wire.endpoints import Address, Attached, Backoff, Client, Limits, connect
from veristream.kabis.wire.handshake import Identity, Peer, Role

Value = TypeVar("Value")

FETCH_BYTES = 1 << 20


class StorageClient:
    """A connection to a storage party, reopened when it is lost; requests raise TimeoutError meanwhile.

    A returned batch has the header that was asked for and the events under its root. The caller follows the
    ledger and must check whether the producer signed it with a valid key.
    """

    def __init__(
        self,
        identity: Identity,
        party: Party,
        timeout_s: float = 10.0,
        limits: Limits = Limits(),  # noqa: B008 (frozen)
        *,
        address: Address | None = None,
        encrypt: bool = False,
    ) -> None:
        self._identity = identity
        self._party = party
        self._timeout_s = timeout_s
        target = Address.parse(party.address) if address is None else address
        server = Peer(Role.STORAGE, party.name, party.public)
        self._client = Client(
            lambda: connect(target, identity, server, limits=limits, encrypt=encrypt),
            random.random,
            Backoff(),
        )

    @property
    def name(self) -> str:
        """The party's name."""
        return self._party.name

    @property
    def problem(self) -> Exception | None:
        """Why there is no connection, if that is known."""
        return self._client.problem

    async def close(self) -> None:
        """Closes the connection."""
        await self._client.close()

    async def store(self, batch: bytes, digest: bytes) -> StorageReceipt:
        """Stores an encoded batch with this digest; returns the verified receipt."""
        body = _require(await self._ask(Operation.STORE, digest, attached=batch))
        receipt = _decode(StorageReceipt.decode, body)
        if receipt.party != self._party.name or receipt.digest != digest:
            raise LyingPartyError("a receipt for something else")
        self._check(lambda: receipt.verify(self._identity.chain_id, self._party.public))
        return receipt

    async def fetch(
        self, stream: StreamName, first_sequence: int, bytes_max: int = FETCH_BYTES
    ) -> tuple[Batch, ...] | Below:
        """Returns the batches of a stream from the one with a sequence number on, as many as fit."""
        found = await self.fetch_range(stream, first_sequence, bytes_max)
        if isinstance(found, Below):
            return found
        batches = tuple(map(self._decode_batch, found))
        for batch in batches:
            header = batch.header
            named = (header.topic, header.partition, header.producer, header.key_epoch)
            asked = (stream.topic, stream.partition, stream.producer, stream.key_epoch)
            if named != asked or header.next_sequence <= first_sequence:
                raise LyingPartyError("a batch that was not asked for")
        return batches

    async def fetch_bytes(self, digest: bytes) -> bytes | Absent | Below:
        """Returns what the party claims to be the batch with this digest, unchecked."""
        request = bytes((Operation.FETCH_DIGEST,)) + digest
        answer = await self._client.exchange(request, self._timeout_s)
        if isinstance(answer, Attached):
            return bytes(answer.contents)
        missing = _decode(split_answer, answer)
        if isinstance(missing, bytes):
            raise LyingPartyError("an answer without the batch that it announces")
        return missing

    async def fetch_range(
        self, stream: StreamName, first_sequence: int, bytes_max: int = FETCH_BYTES
    ) -> tuple[bytes, ...] | Below:
        """Returns what the party claims to be the batches from a sequence number on, unchecked."""
        request = FetchRange(stream, first_sequence, bytes_max)
        body = await self._ask(Operation.FETCH, request.encode())
        return body if isinstance(body, Below) else _decode(decode_batches, _require(body)).batches

    async def fetch_digest(self, digest: bytes) -> Batch | Absent | Below:
        """Returns the batch whose header has this digest."""
        body = await self.fetch_bytes(digest)
        if not isinstance(body, bytes):
            return body
        batch = self._decode_batch(body)
        if batch.digest() != digest:
            raise LyingPartyError("a batch with another digest")
        return batch

    async def absence(self, signed: SignedHeader, certificate: Certificate) -> StorageAbsence | Below:
        """Returns the verified statement that the party lacks a batch. Raises RequestError if it has it."""
        body = await self._ask(Operation.ABSENCE, AskAbsence(signed, certificate).encode())
        if isinstance(body, Below):
            return body
        statement = _decode(StorageAbsence.decode, _require(body))
        asked = (self._party.name, signed.digest(), certificate.height)
        if (statement.party, statement.digest, statement.height) != asked:
            raise LyingPartyError("a statement about something else")
        self._check(lambda: statement.verify(self._identity.chain_id, self._party.public))
        return statement

    async def evidence(self, topic: str) -> tuple[tuple[SignedHeader, SignedHeader], ...]:
        """Returns pairs of headers with one sequence number; does not check their signatures."""
        return _decode(decode_evidence, _require(await self._ask(Operation.EVIDENCE, encode_topic(topic))))

    async def catch_up(self, position: int, bytes_max: int = FETCH_BYTES) -> CaughtUp | Below:
        """Returns the encoded batches of the party's log from a position on, unchecked; for parties."""
        body = await self._ask(Operation.CATCH_UP, CatchUp(position, bytes_max).encode())
        return body if isinstance(body, Below) else _decode(decode_batches, _require(body))

    async def append_plain(self, append: PlainAppend) -> int:
        """Appends events of a topic that is not validated; returns the offset of the first."""
        body = _require(await self._ask(Operation.APPEND_PLAIN, append.encode()))
        if len(body) != 8:
            raise LyingPartyError("an offset of the wrong length")
        return int.from_bytes(body, "big")

    async def fetch_plain(
        self, place: PartitionName, offset: int, bytes_max: int = FETCH_BYTES, wait_ms: int = 0
    ) -> PlainSlice | Below:
        """Returns the records of a partition from an offset on; waits `wait_ms` for the first."""
        request = FetchPlain(place, offset, bytes_max, wait_ms)
        body = await self._ask(Operation.FETCH_PLAIN, request.encode(), wait_ms / 1000)
        return body if isinstance(body, Below) else _decode(decode_slice, _require(body))

    async def raise_low_water(self, name: StreamName | PartitionName, low_water: int) -> None:
        """Allows the party to remove what is below the mark."""
        await self._ask(Operation.LOW_WATER, RaiseLowWater(name, low_water).encode())

    async def status(self) -> Status:
        """Returns the party's own report of its state."""
        return _decode(Status.decode, _require(await self._ask(Operation.STATUS, b"")))

    async def _ask(
        self, operation: Operation, body: bytes, wait_s: float = 0.0, attached: bytes | None = None
    ) -> bytes | Absent | Below:
        request = bytes((operation,)) + body
        asked = request if attached is None else Attached(request, attached)
        answer = await self._client.exchange(asked, self._timeout_s + wait_s)
        if isinstance(answer, Attached):
            raise LyingPartyError("an answer with an unexpected attachment")
        return _decode(split_answer, answer)

    def _decode_batch(self, data: bytes) -> Batch:
        batch = _decode(Batch.decode, data)
        if batch.header.chain_id != self._identity.chain_id:
            raise LyingPartyError("a batch of another chain")
        self._check(batch.verify_contents)
        return batch

    def _check(self, verify: Callable[[], None]) -> None:
        try:
            verify()
        except (SignatureError, BatchError) as error:
            raise LyingPartyError(f"{self._party.name}: {error}") from error


def _require(body: bytes | Absent | Below) -> bytes:
    if not isinstance(body, bytes):
        raise LyingPartyError("an answer of the wrong kind")
    return body


def _decode(decode: Callable[[bytes], Value], body: bytes) -> Value:
    try:
        return decode(body)
    except DecodeError as error:
        raise LyingPartyError(f"an answer that cannot be read: {error}") from error
