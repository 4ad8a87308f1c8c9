"""The client of a storage party: each method sends one request and checks the answer."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TypeVar

from veristream.kabis.channels.failures import LyingPartyError, decode_answer
from veristream.kabis.protocol.answers import Absent, Below
from veristream.kabis.protocol.batch import SignedHeader
from veristream.kabis.protocol.blocks import Certificate
from veristream.kabis.protocol.codec import Coded
from veristream.kabis.protocol.keys import SignatureError
from veristream.kabis.protocol.members import Party
from veristream.kabis.protocol.partitions import PartitionName, StreamName
from veristream.kabis.protocol.plain import PlainAppend, PlainSlice
from veristream.kabis.protocol.receipts import StorageAbsence, StorageReceipt
from veristream.kabis.storage import messages
from veristream.kabis.storage.messages import Batches
from veristream.kabis.wire.endpoints import Address, Attached, Backoff, Client, Limits, connect
from veristream.kabis.wire.handshake import Identity, Peer, Role

Answer = TypeVar("Answer", bound=Coded)

FETCH_BYTES = 1 << 20


class StorageClient:
    """A connection to a storage party, reopened when it is lost; requests raise TimeoutError meanwhile.

    The caller, who follows the ledger, must check that a returned batch is the admitted one.
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
        body = _require(await self._ask(messages.Operation.STORE, digest, attached=batch))
        receipt = decode_answer(StorageReceipt.decode, body)
        if receipt.party != self._party.name or receipt.digest != digest:
            raise LyingPartyError("a receipt for something else")
        self._check(lambda: receipt.verify(self._identity.chain_id, self._party.public))
        return receipt

    async def fetch_bytes(self, digest: bytes) -> bytes | Absent | Below:
        """Returns what the party claims to be the batch with this digest, unchecked."""
        request = bytes((messages.Operation.FETCH_DIGEST,)) + digest
        answer = await self._client.exchange(request, self._timeout_s)
        if isinstance(answer, Attached):
            return bytes(answer.contents)
        missing = decode_answer(messages.split_answer, answer)
        if isinstance(missing, bytes):
            raise LyingPartyError("an answer without the batch that it announces")
        return missing

    async def fetch_range(
        self, stream: StreamName, first_sequence: int, bytes_max: int = FETCH_BYTES
    ) -> tuple[bytes, ...] | Below:
        """Returns what the party claims to be the batches from a sequence number on, unchecked."""
        request = messages.FetchRange(stream, first_sequence, bytes_max)
        found = await self._read(Batches, messages.Operation.FETCH, request)
        return found if isinstance(found, Below) else found.batches

    async def absence(self, signed: SignedHeader, certificate: Certificate) -> StorageAbsence | Below:
        """Returns the verified statement that the party lacks a batch. Raises RequestError if it has it."""
        request = messages.AskAbsence(signed, certificate)
        statement = await self._read(StorageAbsence, messages.Operation.ABSENCE, request)
        if isinstance(statement, Below):
            return statement
        asked = (self._party.name, signed.digest(), certificate.height)
        if (statement.party, statement.digest, statement.height) != asked:
            raise LyingPartyError("a statement about something else")
        self._check(lambda: statement.verify(self._identity.chain_id, self._party.public))
        return statement

    async def evidence(self, topic: str) -> tuple[tuple[SignedHeader, SignedHeader], ...]:
        """Returns pairs of headers with one sequence number; does not check their signatures."""
        request = messages.AskEvidence(topic).encode()
        body = _require(await self._ask(messages.Operation.EVIDENCE, request))
        return decode_answer(messages.Evidence.decode, body).pairs

    async def append_plain(self, append: PlainAppend) -> int:
        """Appends events of a topic that is not validated; returns the offset of the first."""
        body = _require(await self._ask(messages.Operation.APPEND_PLAIN, append.encode()))
        if len(body) != 8:
            raise LyingPartyError("an offset of the wrong length")
        return int.from_bytes(body, "big")

    async def fetch_plain(
        self, place: PartitionName, offset: int, bytes_max: int = FETCH_BYTES, wait_ms: int = 0
    ) -> PlainSlice | Below:
        """Returns the records of a partition from an offset on; waits `wait_ms` for the first."""
        request = messages.FetchPlain(place, offset, bytes_max, wait_ms)
        return await self._read(PlainSlice, messages.Operation.FETCH_PLAIN, request, wait_ms / 1000)

    async def status(self) -> messages.Status:
        """Returns the party's own report of its state."""
        return decode_answer(
            messages.Status.decode, _require(await self._ask(messages.Operation.STATUS, b""))
        )

    async def _read(
        self, kind: type[Answer], operation: messages.Operation, request: Coded, wait_s: float = 0.0
    ) -> Answer | Below:
        """Returns the value that was asked for; Below if the party has released it."""
        body = await self._ask(operation, request.encode(), wait_s)
        return body if isinstance(body, Below) else decode_answer(kind.decode, _require(body))

    async def _ask(
        self, operation: messages.Operation, body: bytes, wait_s: float = 0.0, attached: bytes | None = None
    ) -> bytes | Absent | Below:
        request = bytes((operation,)) + body
        asked = request if attached is None else Attached(request, attached)
        answer = await self._client.exchange(asked, self._timeout_s + wait_s)
        if isinstance(answer, Attached):
            raise LyingPartyError("an answer with an unexpected attachment")
        return decode_answer(messages.split_answer, answer)

    def _check(self, verify: Callable[[], None]) -> None:
        try:
            verify()
        except SignatureError as error:
            raise LyingPartyError(f"{self._party.name}: {error}") from error


def _require(body: bytes | Absent | Below) -> bytes:
    if not isinstance(body, bytes):
        raise LyingPartyError("unexpected kind of answer")
    return body
