"""A storage party as its clients see it: it answers a request once what must be durable is durable."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol, TypeVar, assert_never

from veristream.errors import EnvironmentFailure
from veristream.kabis.log.disk.files import Full
from veristream.kabis.log.disk.opening import Recovery
from veristream.kabis.protocol.actions import Right, to_read, to_write
from veristream.kabis.protocol.answers import Absent, Below
from veristream.kabis.protocol.batch import PackedBatch
from veristream.kabis.protocol.codec import Octets
from veristream.kabis.protocol.genesis import Genesis
from veristream.kabis.protocol.members import MemberRole, Party
from veristream.kabis.protocol.plain import PlainAppend, PlainSlice
from veristream.kabis.storage.admission import BehindError, StorageRefusedError
from veristream.kabis.storage.backfill import Progress
from veristream.kabis.storage.chain import ChainView, KeyStanding
from veristream.kabis.storage.commit import Committer
from veristream.kabis.storage.core import StorageCore
from veristream.kabis.storage.interface import StorageLog
from veristream.kabis.storage.messages import (
    EVIDENCE_MAX,
    AskAbsence,
    AskEvidence,
    Batches,
    CatchUp,
    Evidence,
    FetchPlain,
    FetchRange,
    Operation,
    RaiseLowWater,
    Standing,
    Status,
    decode_digest,
    found,
    missing,
    reply,
    split_request,
)
from veristream.kabis.wire.connection import Attached, Handlers, Later, Note, RequestError, note_nothing
from veristream.kabis.wire.handshake import Peer, Role

_LOGGER = logging.getLogger(__name__)

FETCH_BYTES_MAX = 4 << 20
WAIT_MS_MAX = 30_000
GRACE_S = 2.0
STATUS_S = 0.5
"""How long a status may wait for the chain to be read, so that it knows of every change of the members."""
"""How long a request may wait for the chain to be read again."""

Written = TypeVar("Written")

_MAY: dict[Operation, frozenset[Role]] = {
    Operation.STORE: frozenset({Role.PRODUCER}),
    Operation.APPEND_PLAIN: frozenset({Role.PRODUCER}),
    Operation.CATCH_UP: frozenset({Role.STORAGE, Role.VALIDATOR, Role.ADMIN}),
    Operation.LOW_WATER: frozenset({Role.ADMIN}),
}
"""The roles that may send a request; all other requests are open to every peer that was admitted."""
_MEMBER_ROLES = {Role.STORAGE: MemberRole.STORAGE, Role.VALIDATOR: MemberRole.VALIDATOR}
NOBODY = "(anonymous)"
"""Not a name that can be registered, so it has only the rights that everybody has."""


class Directory:
    """Decides who is admitted: the chain's members, its clients, and optionally anyone.

    Members are those in force and those about to be, as far as `chain` knows. For a client's key the chain
    decides, once it knows it. A client that it does not know may be among `clients`, which are read again
    for every caller, because the chain may not be reachable yet.
    """

    def __init__(
        self,
        genesis: Genesis,
        clients: Callable[[], tuple[Party, ...]] = lambda: (),
        *,
        anonymous: bool = False,
        chain: ChainView | None = None,
    ) -> None:
        self._clients = clients
        self._anonymous = anonymous
        self._chain = chain
        self._founding = genesis.members
        self._admins = {party.name for party in genesis.admins}
        known = _names(genesis.clients + genesis.admins)
        self._names = {Role.ADMIN: _names(genesis.admins), Role.PRODUCER: known, Role.CONSUMER: known}

    def authorize(self, peer: Peer) -> str | None:
        """Returns why a peer is refused, or None if it is admitted."""
        if peer.role is Role.ANONYMOUS:
            return None if self._anonymous else "this party admits only registered keys"
        found = (peer.name, peer.public)
        if peer.role in _MEMBER_ROLES:
            return None if self._is_member(peer) else self._explain(peer)
        match self._standing(peer):
            case KeyStanding.ENDED:
                return f"the key of {peer.name!r} has ended"
            case KeyStanding.VALID if peer.role is not Role.ADMIN or peer.name in self._admins:
                return None
        if found in self._names[peer.role]:
            return None
        if peer.role in (Role.PRODUCER, Role.CONSUMER) and found in _names(self._clients()):
            return None
        return self._explain(peer)

    @staticmethod
    def _explain(peer: Peer) -> str:
        return f"{peer.name!r} is not registered with this key as {peer.role.name.lower()}"

    def _is_member(self, peer: Peer) -> bool:
        role = _MEMBER_ROLES[peer.role]
        members = self._founding.of(role) if self._chain is None else self._chain.peers(role)
        return (peer.name, peer.public) in _names(members)

    def require_valid(self, peer: Peer) -> None:
        """Raises RequestError if the key of an admitted peer is no longer valid, or a member has left."""
        has_left = peer.role in _MEMBER_ROLES and not self._is_member(peer)
        if has_left or self._standing(peer) is KeyStanding.ENDED:
            raise RequestError(f"the key of {peer.name!r} has ended")

    def _standing(self, peer: Peer) -> KeyStanding:
        if self._chain is None or peer.role not in (Role.PRODUCER, Role.CONSUMER, Role.ADMIN):
            return KeyStanding.UNKNOWN
        return self._chain.standing(peer.name, peer.public)


def _names(parties: tuple[Party, ...]) -> frozenset[tuple[str, bytes]]:
    return frozenset((party.name, party.public) for party in parties)


def _proven_name(peer: Peer) -> str:
    """Returns the name whose rights a peer has; none of its own if only the peer claims it."""
    return NOBODY if peer.role is Role.ANONYMOUS else peer.name


class PartyLog(StorageLog, Protocol):
    """The log of a running party, on disk or in Kafka; `recovery` says what opening it found."""

    recovery: Recovery

    @property
    def size_bytes(self) -> int:
        """The size of the records."""


def _permitted(peer: Peer, body: bytes) -> tuple[Operation, bytes]:
    """Returns the operation and its body. Raises RequestError if the peer's role does not allow it."""
    operation, rest = split_request(body)
    if peer.role not in _MAY.get(operation, frozenset(Role)):
        raise RequestError(f"{operation.name.lower()} is not allowed for the role {peer.role.name.lower()}")
    return operation, rest


class StorageParty:
    """Answers requests over a log and its indexes."""

    def __init__(self, core: StorageCore, log: PartyLog, interval_s: float = 0.005) -> None:
        self.core = core
        self._log = log
        self._full = False
        self.progress = Progress()
        self.committer = Committer(log.sync, log.durable, interval_s)
        self.handlers = Handlers(self.answer, answer_attached=self.answer_attached)
        self.note: Note = note_nothing

    async def answer(self, peer: Peer, body: bytes) -> bytes | Attached | Later:
        """Returns the answer to one request. Raises RequestError if there is none."""
        operation, rest = _permitted(peer, body)
        with self._refusals(peer):
            return await self._do(peer, operation, rest)

    async def answer_attached(self, peer: Peer, request: Attached) -> bytes | Attached:
        """Returns the answer to a request with an attached batch to store."""
        operation, rest = _permitted(peer, request.body)
        if operation is not Operation.STORE:
            raise RequestError(f"nothing may be attached to {operation.name.lower()}")
        with self._refusals(peer):
            return await self._store(peer, decode_digest(rest), request.contents)

    @contextmanager
    def _refusals(self, peer: Peer) -> Iterator[None]:
        """Turns refusals and failures of the log into errors for the peer, and notes whom it refused.

        A full disk is logged once, not for each request that it refuses.
        """
        try:
            yield
        except StorageRefusedError as error:
            self.note(peer, "refused requests")
            raise RequestError(str(error)) from error
        except Full as failure:
            if not self._full:
                self._full = True
                _LOGGER.error("%s; batches are refused until there is room", failure.render())
            raise RequestError(f"the party has no room, try again later: {failure.message}") from failure
        except EnvironmentFailure as failure:
            _LOGGER.error("%s", failure.render())
            raise RequestError(failure.message) from failure

    def _has_room(self) -> None:
        """A record was written."""
        if self._full:
            self._full = False
            _LOGGER.info("there is room again")

    def _require(self, peer: Peer, right: Right) -> None:
        """Raises BehindError if a client lacks a right; parties need none."""
        if self.core.gate is not None and peer.role not in _MEMBER_ROLES:
            self.core.gate.require_right(_proven_name(peer), right)

    def _require_reader(self, peer: Peer, topic: str, producer: str) -> None:
        """Raises BehindError unless a peer may read a batch; a producer may read its own."""
        if _proven_name(peer) != producer:
            self._require(peer, to_read(topic))

    async def _do(self, peer: Peer, operation: Operation, body: bytes) -> bytes | Attached | Later:
        match operation:
            case Operation.STORE:
                raise RequestError("the batch to store must be attached")
            case Operation.APPEND_PLAIN:
                return await self._append_plain(peer, body)
            case Operation.FETCH_PLAIN:
                asked = FetchPlain.decode(body)
                await self._retry(lambda: self._require(peer, to_read(asked.place.topic)))
                return await self._fetch_plain(asked)
            case Operation.LOW_WATER:
                request = RaiseLowWater.decode(body)
                self.core.raise_low_water(request.name, request.low_water)
                await self.committer.wait_for(self._log.end - 1)
                return found(b"")
            case Operation.STATUS if self.core.gate is not None and self.progress.complete is not None:
                await self.core.gate.view.look_again(STATUS_S)
                return reply(self.status())
            case _:
                return await self._retry(lambda: self._look_up(peer, operation, body))

    async def _store(self, peer: Peer, digest: bytes, batch: Octets) -> bytes:
        stored = await self._retry(lambda: self.core.store(batch, peer.name, peer.public, digest))
        self._has_room()
        await self.committer.wait_for(stored.position)
        return reply(self.core.receipt(stored.digest))

    async def _retry(self, write: Callable[[], Written]) -> Written:
        """Writes; if the chain does not allow it, reads the chain once more and tries again."""
        try:
            return write()
        except BehindError:
            if self.core.gate is None:
                raise
            await self.core.gate.view.look_again(GRACE_S)
            return write()

    async def _append_plain(self, peer: Peer, body: bytes) -> bytes:
        append = PlainAppend.decode(body)
        await self._retry(lambda: self._require(peer, to_write(append.place.topic)))
        appended = await self._retry(lambda: self.core.append_plain(append))
        self._has_room()
        await self.committer.wait_for(appended.position)
        return found(appended.first_offset.to_bytes(8, "big"))

    async def _fetch_plain(self, request: FetchPlain) -> bytes | Later:
        """Waits for the first record, if there is none, as long as the client asks."""
        bytes_max = min(request.bytes_max, FETCH_BYTES_MAX)
        part: PlainSlice | Below = self.core.fetch_plain(request.place, request.offset, bytes_max)
        if isinstance(part, Below) or part.entries or not request.wait_ms:
            return reply(part)
        try:
            async with asyncio.timeout(min(request.wait_ms, WAIT_MS_MAX) / 1000):
                while isinstance(part, PlainSlice) and not part.entries:
                    await self.committer.wait_for_more()
                    part = self.core.fetch_plain(request.place, request.offset, 1)
        except TimeoutError:
            pass
        return Later(lambda: reply(self.core.fetch_plain(request.place, request.offset, bytes_max)))

    def _look_up(self, peer: Peer, operation: Operation, body: bytes) -> bytes | Attached:
        """Returns the answer to a request that needs no waiting."""
        match operation:
            case Operation.FETCH:
                request = FetchRange.decode(body)
                self._require_reader(peer, request.stream.topic, request.stream.producer)
                bytes_max = min(request.bytes_max, FETCH_BYTES_MAX)
                batches = self.core.fetch_range(request.stream, request.first_sequence, bytes_max)
                return reply(batches if isinstance(batches, Below) else Batches(0, batches))
            case Operation.FETCH_DIGEST:
                batch = self.core.view_digest(decode_digest(body))
                if isinstance(batch, Absent | Below):
                    return missing(batch)
                if self.core.gate is not None and self.core.gate.view.access.restricts:
                    header = PackedBatch.decode(batch).signed.header
                    self._require_reader(peer, header.topic, header.producer)
                return Attached(found(b""), batch)
            case Operation.ABSENCE:
                asked = AskAbsence.decode(body)
                return reply(self.core.absence(asked.signed, asked.certificate))
            case Operation.CATCH_UP:
                wanted = CatchUp.decode(body)
                return reply(self.core.catch_up(wanted.position, min(wanted.bytes_max, FETCH_BYTES_MAX)))
            case Operation.EVIDENCE:
                topic = AskEvidence.decode(body).topic
                self._require(peer, to_read(topic))
                pairs = self.core.evidence(topic)
                return reply(Evidence(tuple(pairs[:EVIDENCE_MAX])))
            case Operation.STATUS:
                return reply(self.status())
            case Operation.STORE | Operation.APPEND_PLAIN | Operation.FETCH_PLAIN | Operation.LOW_WATER:
                raise AssertionError("these wait")
            case _:
                assert_never(operation)

    def status(self) -> Status:
        """Returns the state of the party."""
        log, torn = self._log, self._log.recovery.torn
        torn_bytes = torn.bytes_cut if torn else 0
        lost, seat = self.core.lost_count, self.core.seat
        progress = (self.progress.missing, seat.standing)
        if seat.standing in (Standing.MEMBER, Standing.COMING):
            progress = (self.progress.count_missing(seat.memberships), seat.standing)
        return Status(log.start, log.end, log.durable, log.size_bytes, torn_bytes, lost, progress)
