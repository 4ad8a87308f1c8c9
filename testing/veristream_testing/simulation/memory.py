"""Both channels in one process, for tests: a ledger that orders at once, storage parties that may lie.

The rules are real: `Ledger` creates blocks, signed votes certify them, and storage parties are
`StorageCore` with a log in memory. Only sockets, disks and consensus are omitted. Clients in several
threads, each with its own event loop, can share a cluster.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from veristream.kabis.channels.interfaces import Channels, OrderingStatus
from veristream.kabis.cluster.faults import StorageFault, ValidatorFault
from veristream.kabis.ledger.ledger import Ledger
from veristream.kabis.ledger.snapshot import Manifest
from veristream.kabis.protocol.actions import Action
from veristream.kabis.protocol.answers import Absent, Below
from veristream.kabis.protocol.batch import SignedHeader, Stream, build_batch
from veristream.kabis.protocol.blocks import Certificate, CertifiedBlock
from veristream.kabis.protocol.codec import DecodeError
from veristream.kabis.protocol.genesis import Genesis
from veristream.kabis.protocol.keys import Signer
from veristream.kabis.protocol.members import Members
from veristream.kabis.protocol.outcomes import NOT_YET, Done, Outcome, Refused
from veristream.kabis.protocol.partitions import PartitionName, StreamName
from veristream.kabis.protocol.plain import PlainAppend, PlainSlice
from veristream.kabis.protocol.receipts import (
    CommitCertificate,
    SignedVote,
    StorageAbsence,
    StorageReceipt,
    VoteKind,
    quorum,
    vote_bytes,
)
from veristream.kabis.protocol.records import encode_leaf
from veristream.kabis.protocol.transactions import Author, sign_action
from veristream.kabis.storage.admission import StorageRefusedError
from veristream.kabis.storage.core import StorageCore
from veristream.kabis.wire.connection import RequestError
from veristream_testing.simulation.memory_log import MemoryLog
from veristream_testing.simulation.votes import certify
from veristream_testing.storage_client import fetch_digest

Value = TypeVar("Value")

FETCH_BYTES = 1 << 20


STORAGE_FAULTS = (
    StorageFault.SILENT,
    StorageFault.LATE,
    StorageFault.FORGET,
    StorageFault.SUBSTITUTE,
    StorageFault.ALTER,
    StorageFault.GARBAGE,
    StorageFault.FORGE,
)
"""The faults of storage parties in memory; validators can be SILENT, CENSOR and REFUSE."""


@dataclass(slots=True)
class MemoryParty:
    """A storage party: its log, its state and its fault."""

    core: StorageCore
    log: MemoryLog
    fault: StorageFault | None = None
    stores: int = 0
    fetches: int = 0


@dataclass(slots=True)
class _Listener:
    """A client that waits for blocks in its own event loop."""

    loop: asyncio.AbstractEventLoop
    woken: asyncio.Event = field(default_factory=asyncio.Event)


class MemoryCluster:
    """A chain with its validators and storage parties; `keys` maps names to secret keys.

    With `at_once`, every submitted transaction that takes effect immediately gets its own block; otherwise
    `make_block` orders what was submitted.
    """

    def __init__(
        self, genesis: Genesis, keys: dict[str, Signer], *, at_once: bool = True, delay_s: float = 0.01
    ) -> None:
        self.genesis = genesis
        self.keys = keys
        self.at_once = at_once
        self.delay_s = delay_s
        self.ledger = Ledger(genesis)
        self.blocks: list[CertifiedBlock] = []
        self.mempool: dict[bytes, None] = {}
        self.clock_ms = genesis.time_ms
        self.validator_faults: list[ValidatorFault | None] = [None] * len(genesis.validators)
        self.submits = 0
        self.parties = {party.name: self._party(party.name) for party in genesis.storage}
        self.lock = threading.RLock()
        self._listeners: list[_Listener] = []

    def _party(self, name: str) -> MemoryParty:
        log = MemoryLog()
        return MemoryParty(StorageCore(self.genesis, name, self.keys[name], log), log)

    def channels(self, author: Author) -> Channels:
        """Returns both channels of one client."""
        storage = tuple(MemoryStorage(self, party.name, author) for party in self.genesis.storage)
        return Channels(storage, MemoryOrdering(self))

    def act(self, name: str, action: Action, key_epoch: int = 0) -> Outcome:
        """Performs an action of an admin or client on the ledger, in its own block."""
        with self.lock:
            account = self.ledger.account(name)
            assert account is not None, f"nobody is called {name}"
            author = Author(self.genesis.chain_id, name, key_epoch, self.keys[name])
            encoded = sign_action(author, account.number + 1, action).encode()
            outcome = self.ledger.preview(encoded, self._next_ms())
            if isinstance(outcome, Done):
                self._decide([encoded])
            return outcome

    def submit(self, transaction: bytes) -> Outcome:
        """Orders a transaction at once, or keeps it for `make_block`; returns its outcome."""
        with self.lock:
            self.submits += 1
            outcome = self.ledger.preview(transaction, self._next_ms())
            self.mempool[transaction] = None
            if self.at_once:
                self.make_block()
            return outcome

    def make_block(self, advance_ms: int = 1) -> int:
        """Orders the submitted transactions that take effect; returns their number."""
        with self.lock:
            self.clock_ms += advance_ms
            return self._decide(list(self.mempool))

    def _next_ms(self) -> int:
        return max(self.ledger.time_ms, self.clock_ms) + 1

    def _decide(self, candidates: Iterable[bytes]) -> int:
        block = self.ledger.propose(candidates, self._next_ms(), self.genesis.validators[0].name)
        for transaction in block.transactions:
            self.mempool.pop(transaction, None)
        if block.transactions or not self.at_once:
            self.ledger.apply(block)
            self.blocks.append(CertifiedBlock(block, self._certify(block.header.height, block.block_id())))
            for listener in self._listeners:
                listener.loop.call_soon_threadsafe(listener.woken.set)
        outcomes = {waiting: self.ledger.preview(waiting, self._next_ms()) for waiting in self.mempool}
        self.mempool = {
            waiting: None
            for waiting, outcome in outcomes.items()
            if isinstance(outcome, Refused) and outcome.reason in NOT_YET
        }
        return len(block.transactions)

    def _certify(self, height: int, block_id: bytes) -> CommitCertificate:
        message = vote_bytes(self.genesis.chain_id, VoteKind.PRECOMMIT, height, 0, block_id)
        validators = self.genesis.validators
        voters = list(enumerate(validators))[: quorum(len(validators))]
        return certify(
            [
                SignedVote(
                    number, VoteKind.PRECOMMIT, height, 0, block_id, self.keys[party.name].sign(message)
                )
                for number, party in voters
            ]
        )

    def listen(self) -> _Listener:
        """Registers for new blocks."""
        listener = _Listener(asyncio.get_running_loop())
        with self.lock:
            self._listeners.append(listener)
        return listener

    def leave(self, listener: _Listener) -> None:
        """Unregisters."""
        with self.lock:
            self._listeners.remove(listener)


class MemoryOrdering:
    """The validators, as one client sees them."""

    def __init__(self, cluster: MemoryCluster) -> None:
        self._cluster = cluster

    async def submit(self, validator: int, transaction: bytes) -> Outcome:
        """Submits a transaction to one validator."""
        await asyncio.sleep(0)
        match self._cluster.validator_faults[validator]:
            case ValidatorFault.SILENT:
                await asyncio.sleep(self._cluster.delay_s)
                raise TimeoutError("the validator does not answer")
            case ValidatorFault.CENSOR:
                return Done()
            case ValidatorFault.REFUSE:
                raise RequestError("the validator refuses")
            case None:
                return self._cluster.submit(transaction)
            case fault:
                raise AssertionError(f"a validator in memory cannot {fault}")

    async def follow(self, height: int) -> AsyncIterator[CertifiedBlock]:
        """Yields decided blocks from a height on."""
        cluster = self._cluster
        listener = cluster.listen()
        try:
            while True:
                listener.woken.clear()
                while height <= len(cluster.blocks):
                    yield cluster.blocks[height - 1]
                    height += 1
                await listener.woken.wait()
        finally:
            cluster.leave(listener)

    async def read(self, first: int, last: int) -> Sequence[CertifiedBlock]:
        """Returns the decided blocks of these heights."""
        return self._cluster.blocks[first - 1 : last]

    async def snapshot(
        self,
        above: int,
        use: Callable[[Manifest, Sequence[bytes]], Value],
        moved: Callable[[], object] = lambda: None,
    ) -> Value | None:
        """Returns what `use` makes of a snapshot; there is none."""
        return None

    async def status(self) -> OrderingStatus:
        """Returns the height of the chain."""
        answered = len(self._cluster.genesis.validators)
        return OrderingStatus(len(self._cluster.blocks), answered, enough=True)

    def heed(self, changes: Iterable[tuple[int, Members]], height: int) -> None:
        """Does nothing: all blocks are true."""

    async def spread(self, height: int) -> None:
        """Returns at once, because all validators share the chain."""

    async def close(self) -> None:
        """Does nothing."""


class MemoryStorage:
    """A storage party, as one client sees it."""

    def __init__(self, cluster: MemoryCluster, name: str, author: Author) -> None:
        self._cluster = cluster
        self._name = name
        self._author = author

    @property
    def name(self) -> str:
        """The party's name."""
        return self._name

    @property
    def problem(self) -> Exception | None:
        """None: the party is always connected, even if it does not answer."""
        return None

    async def store(self, batch: bytes, digest: bytes) -> StorageReceipt:
        """Stores a batch; returns the party's receipt."""
        party = await self._reach()
        author = self._author
        with self._cluster.lock:
            party.stores += 1
            if party.fault is StorageFault.FORGE:
                return StorageReceipt(self._name, digest, bytes(64))
            if party.fault is StorageFault.FORGET:
                amnesiac = self._cluster._party(self._name)
                amnesiac.core.store(batch, author.name, author.signer.public)
                amnesiac.log.sync()
                return amnesiac.core.receipt(digest)
            try:
                party.core.store(batch, author.name, author.signer.public)
            except (StorageRefusedError, DecodeError) as error:
                raise RequestError(str(error)) from error
            party.log.sync()
            return party.core.receipt(digest)

    async def fetch_bytes(self, digest: bytes) -> bytes | Absent | Below:
        """Returns the party's answer for a digest, unchecked."""
        party = await self._reach()
        with self._cluster.lock:
            party.fetches += 1
            data = fetch_digest(party.core, digest)
            match party.fault:
                case StorageFault.GARBAGE:
                    return b"garbage"
                case StorageFault.ALTER if isinstance(data, bytes):
                    return data[:-1] + bytes((data[-1] ^ 1,))
                case StorageFault.SUBSTITUTE:
                    return self._forge()
                case _:
                    return data

    def _forge(self) -> bytes:
        """Returns a well-formed batch that was not requested and is not signed by its producer."""
        stream = Stream(self._cluster.genesis.chain_id, "orders", 0, "alice", 0)
        leaves = [encode_leaf(None, b"forged")]
        return build_batch(stream, 0, bytes(32), leaves, self._cluster.keys[self._name]).encode()

    async def fetch_range(self, stream: StreamName, first_sequence: int) -> tuple[bytes, ...] | Below:
        """Returns the party's answer for a producer's batches from a sequence number on, unchecked."""
        party = await self._reach()
        with self._cluster.lock:
            return party.core.fetch_range(stream, first_sequence, FETCH_BYTES)

    async def absence(self, signed: SignedHeader, certificate: Certificate) -> StorageAbsence | Below:
        """Returns the party's signed statement that it lacks a batch."""
        party = await self._reach()
        with self._cluster.lock:
            try:
                return party.core.absence(signed, certificate)
            except StorageRefusedError as error:
                raise RequestError(str(error)) from error

    async def append_plain(self, append: PlainAppend) -> int:
        """Appends events to an unvalidated topic; returns the offset of the first."""
        party = await self._reach()
        with self._cluster.lock:
            try:
                appended = party.core.append_plain(append)
            except StorageRefusedError as error:
                raise RequestError(str(error)) from error
            party.log.sync()
            return appended.first_offset

    async def fetch_plain(
        self, place: PartitionName, offset: int, bytes_max: int, wait_ms: int
    ) -> PlainSlice | Below:
        """Reads events of an unvalidated topic."""
        party = await self._reach()
        for _ in range(max(1, wait_ms)):
            with self._cluster.lock:
                part = party.core.fetch_plain(place, offset, bytes_max)
            if isinstance(part, Below) or part.entries:
                break
            await asyncio.sleep(0.001)
        return part

    async def close(self) -> None:
        """Does nothing."""

    async def _reach(self) -> MemoryParty:
        await asyncio.sleep(0)
        party = self._cluster.parties[self._name]
        assert party.fault is None or party.fault in STORAGE_FAULTS, f"no party in memory can {party.fault}"
        if party.fault is StorageFault.SILENT:
            await asyncio.sleep(self._cluster.delay_s)
            raise TimeoutError(f"{self._name} does not answer")
        if party.fault is StorageFault.LATE:
            await asyncio.sleep(self._cluster.delay_s)
        return party
