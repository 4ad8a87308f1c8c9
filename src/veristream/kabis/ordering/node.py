"""Runs a `ValidatorCore` with a clock, two logs, and connections to the other validators.

Records are written at once and flushed in a thread, with one flush for all waiting records (group commit).
Messages are sent, and decided blocks published, in order after the flush that they depend on: our own vote
may decide a block, and we must not forget it once others rely on it. If a peer does not read fast enough,
messages to it are dropped; validators repeat what matters. Transactions are admitted in small portions, so
votes never wait behind many of them.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from random import Random
from typing import Any, assert_never

from veristream.errors import EnvironmentFailure
from veristream.kabis.ledger.certified import CertifiedHeader
from veristream.kabis.ledger.ledger import InvalidBlockError, Ledger
from veristream.kabis.ledger.snapshot import Snapshot
from veristream.kabis.ledger.succession import Succession
from veristream.kabis.log.disk.files import Full
from veristream.kabis.ordering.interface import Persist, Schedule, Timeout
from veristream.kabis.ordering.mempool import find_author
from veristream.kabis.ordering.messages import MessageError
from veristream.kabis.ordering.outbox import Outbox, waits_for_records
from veristream.kabis.ordering.peers import (
    TRANSACTIONS_PER_OFFER_MAX,
    Offer,
    PeerMessage,
    decode_peer_message,
    encode_peer_message,
)
from veristream.kabis.ordering.seats import Me, Signers
from veristream.kabis.ordering.store import BlockStore, RecordStore
from veristream.kabis.ordering.turns import Bound, Turns
from veristream.kabis.ordering.validator import (
    Accused,
    Action,
    Committed,
    Send,
    Settings,
    ValidatorCore,
    to_commit_certificate,
)
from veristream.kabis.protocol.blocks import CertifiedBlock
from veristream.kabis.protocol.codec import DecodeError, UnknownKindError
from veristream.kabis.protocol.genesis import Genesis
from veristream.kabis.protocol.keys import Remembering, Signer
from veristream.kabis.protocol.keys import verify as verify_signature
from veristream.kabis.protocol.members import Party
from veristream.kabis.protocol.outcomes import Outcome, Reason, Refused
from veristream.kabis.wire.endpoints import (
    Backoff,
    Client,
    Connection,
    Places,
    RequestError,
    WireError,
    connect,
)
from veristream.kabis.wire.handshake import Identity, Peer, Role
from veristream.kabis.wire.tls import Tls

_LOGGER = logging.getLogger(__name__)

TICK_S = 0.1
BLOCK_FLUSH_S = 0.25
BANNED_S = 5.0
ADMITTING_S = 0.001
"""How long transactions are admitted before other inputs get a turn."""
WAITING_MAX = 5_000
"""Maximum number of one sender's transactions that wait for admission; further ones are not admitted."""
WAITING_AUTHOR_MAX = 1_000
"""The same for one author among those that a sender names."""
WAITING_BYTES_MAX = 32 << 20
"""Maximum size of one sender's transactions that wait for admission."""
WAITING_AUTHOR_BYTES_MAX = 8 << 20
"""The same for one author among those that a sender names."""


def clock_ms() -> int:
    """Returns the wall-clock time, used as block time."""
    return time.time_ns() // 1_000_000


class Node:
    """A running validator; clients may see blocks up to the height `published`."""

    def __init__(
        self,
        genesis: Genesis,
        me: Me,
        signers: Signers,
        stores: tuple[BlockStore, RecordStore],
        settings: Settings,
    ) -> None:
        self.genesis = genesis
        self._me, self._signers = me, signers
        self.blocks, self.records = stores
        self.links: dict[int, Client] = {}
        self.contradictions = 0
        self.unknown = 0
        self.failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.validator = self._restore(settings)
        self.published = self.blocks.height
        self._loop = asyncio.get_running_loop()
        self._indices = {party.name: number for number, party in enumerate(genesis.validators)}
        """The numbers of validators in this process: later ones get the next free number."""
        self._tls: Tls | None = None
        self._linked: dict[str, tuple[Party, ...]] = {}
        self._unlinking: set[asyncio.Task[None]] = set()
        self._banned_until: dict[bytes, float] = {}
        self._outbox = Outbox()
        self._offers: list[bytes] = []
        self._to_admit: Turns[Callable[[], None]] = Turns(
            Bound(WAITING_MAX, WAITING_BYTES_MAX), Bound(WAITING_AUTHOR_MAX, WAITING_AUTHOR_BYTES_MAX)
        )
        self._to_flush = asyncio.Event()
        self._to_store = asyncio.Event()
        self._news = asyncio.Event()
        self._flushers = ThreadPoolExecutor(3, "kabis-flush")  # records, blocks, a snapshot
        self._tasks: list[asyncio.Task[None]] = []
        self._snapshotting: asyncio.Task[None] | None = None

    def _restore(self, settings: Settings) -> ValidatorCore:
        trust = _Trust()
        check = Remembering(trust)
        ledger = self.blocks.open(self.genesis, check)
        trust.blindly = False
        memory = self.records.recover(ledger.height + 1)
        return ValidatorCore(self._me, self._signers, ledger, self.blocks.load, memory, settings, check)

    @property
    def ledger(self) -> Ledger:
        """The ledger after the last block."""
        return self.validator.ledger

    @property
    def name(self) -> str:
        """The name of this validator."""
        return self.validator.seats.name

    @property
    def signer(self) -> Signer:
        """The key by which others know this validator now."""
        return self.validator.seats.signer

    # Start and stop

    def start(self, tls: Tls | None = None) -> None:
        """Connects to the other validators and joins the consensus."""
        self._tls = tls
        self._link()
        for work in (self._flush_records(), self._flush_blocks(), self._tick()):
            self._tasks.append(self._loop.create_task(self._guard(work)))
        self._take(self.validator.begin)

    async def close(self) -> None:
        """Stops sending; written records become durable when the logs are closed."""
        tasks = [*self._tasks, *filter(None, [self._snapshotting])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.gather(*(link.close() for link in self.links.values()), *self._unlinking)
        self._flushers.shutdown()

    def _link(self) -> None:
        """Connects to the validators in force, to pending ones, and for a while to those that have left."""
        others = self.validator.seats.others()
        if others == self._linked:
            return
        for name in [
            name for name, parties in self._linked.items() if {*others.get(name, ())} != {*parties}
        ]:
            closing = self._loop.create_task(self.links.pop(self._number_of(name)).close())
            self._unlinking.add(closing)
            closing.add_done_callback(self._unlinking.discard)
        random = Random(self.signer.public)  # spreads the connection attempts of different validators
        founding = {party.name: party.address for party in self.genesis.validators}
        for name, parties in others.items():
            if {*self._linked.get(name, ())} != {*parties}:
                places = Places(*(party.address for party in parties), founding.get(name, ""))
                call = partial(self._call, parties, places)
                self.links[self._number_of(name)] = Client(call, random.random, Backoff(0.02, 1.0))
        self._linked = others
        self.validator.others = tuple(sorted(self.links))

    async def _call(self, parties: tuple[Party, ...], places: Places) -> Connection:
        """Connects to a validator; tries all keys and addresses that it may have in turn."""
        attempt = places.taken
        party = parties[attempt % len(parties)]
        key = self.validator.seats.key(attempt // len(parties))
        identity = Identity(self.genesis.chain_id, Role.VALIDATOR, self.name, key, self._tls)
        return await connect(
            places.take(2 * len(parties)), identity, Peer(Role.VALIDATOR, party.name, party.public)
        )

    def expect(self, succession: Succession) -> None:
        """Talks to the latest members that are proved, too, until the ledger knows them."""
        if succession.heights:
            self.validator.seats.expect(succession.heights[-1], succession.latest)
            self._link()

    def _number_of(self, name: str) -> int:
        return self._indices.setdefault(name, len(self._indices))

    async def _guard(self, work: Coroutine[Any, Any, None]) -> None:
        """Fails the whole node if a part of it fails: half a validator is worse than none."""
        try:
            await work
        except Exception as error:  # noqa: BLE001 (stored and raised elsewhere)
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        """Stops the node; a failure of the machine is told as such, any other is a bug."""
        if not self.failed.done():
            self.failed.set_exception(to_failure(error))

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            self._take(self.validator.tick)

    # Inputs

    def authorize(self, peer: Peer) -> str | None:
        """Returns why a validator is refused, or None."""
        if not self.validator.seats.admits(peer.name, peer.public):
            return f"{peer.name!r} is not a validator of this chain with this key"
        if self._is_banned(peer):
            return "banned for a while for an invalid message"
        return None

    def receive(self, peer: Peer, body: bytes) -> None:
        """Handles a message of another validator; an invalid message ends the connection."""
        if peer.role is not Role.VALIDATOR:
            raise WireError("only validators may send messages here")
        if self._is_banned(peer):
            raise WireError(f"{peer.name}: invalid message")
        try:
            message = decode_peer_message(body)
            if isinstance(message, Offer):
                self._take_later(peer, message)
            else:
                self._hear(peer.name, message)
        except UnknownKindError:
            self.unknown += 1  # of a newer version, which manages without an answer
        except (MessageError, DecodeError) as error:
            self._ban(peer)
            raise WireError(f"{peer.name}: {error}") from error

    def _hear(self, name: str, message: PeerMessage) -> None:
        sender = self._number_of(name)
        self._take(lambda now_ms: self.validator.hear(sender, message, now_ms))

    def _take_later(self, peer: Peer, offer: Offer) -> None:
        name = peer.name

        def hear(encoded: bytes) -> None:
            try:
                self._hear(name, Offer((encoded,)))
            except MessageError as error:
                _LOGGER.info("%s: %s", name, error)
                self._ban(peer)  # its next message ends the connection

        for encoded in offer.transactions:
            self._admit_soon((name, find_author(encoded)), partial(hear, encoded), len(encoded))

    def _admit_soon(self, origin: tuple[str, str], work: Callable[[], None], size_bytes: int) -> bool:
        """Queues the admission of a transaction of a sender and author; returns False if too much waits."""
        is_first = not self._to_admit
        is_queued = self._to_admit.put(*origin, work, size_bytes)
        if is_queued and is_first:
            self._loop.call_soon(self._admit_some)
        return is_queued

    def _admit_some(self) -> None:
        end = self._loop.time() + ADMITTING_S
        while self._to_admit:
            self._to_admit.take()()
            if self._to_admit and self._loop.time() >= end:
                self._loop.call_soon(self._admit_some)
                return

    def _ban(self, peer: Peer) -> None:
        """Bans the key, so that whoever has stolen a former one bans nobody else."""
        self._banned_until[peer.public] = self._loop.time() + BANNED_S

    def _is_banned(self, peer: Peer) -> bool:
        return self._banned_until.get(peer.public, 0.0) > self._loop.time()

    async def admit(self, transaction: bytes, sender: str) -> Outcome:
        """Admits a client's transaction when the client's turn comes, and returns the expected outcome."""
        answer: asyncio.Future[Outcome] = self._loop.create_future()

        def admit() -> None:
            if answer.cancelled():
                return
            try:
                answer.set_result(self.submit(transaction))
            except Exception as error:  # noqa: BLE001 (stored and raised elsewhere)
                answer.set_exception(error)

        if not self._admit_soon((sender, sender), admit, len(transaction)):
            return Refused(Reason.TOO_MANY, f"too many transactions of {sender!r} wait for admission")
        return await answer

    def submit(self, transaction: bytes) -> Outcome:
        """Admits a client's transaction at once, and returns the expected outcome."""
        outcomes: list[Outcome] = []

        def submit(now_ms: int) -> tuple[Action, ...]:
            outcome, actions = self.validator.submit(transaction, now_ms)
            outcomes.append(outcome)
            return actions

        self._take(submit)
        if not outcomes:
            raise RequestError("the validator has failed")
        return outcomes[0]

    def _take(self, give: Callable[[int], Sequence[Action]]) -> None:
        """Feeds an input to the validator; a failure not caused by the sender stops the node."""
        if self.failed.done():
            return
        try:
            self.perform(give(clock_ms()))
        except EnvironmentFailure as failure:
            self._fail(failure)
        except InvalidBlockError as error:
            self._fail(
                EnvironmentFailure(
                    f"a certified block cannot be applied: {error}",
                    "more validators lie than the chain tolerates: find out which before you continue",
                )
            )
        except (MessageError, DecodeError):
            raise
        except Exception as error:
            self._fail(error)
            if not isinstance(error, MemoryError | OSError):
                raise

    async def wait_for_block(self) -> None:
        """Waits until the next block is published."""
        await self._news.wait()

    # Outputs

    def perform(self, actions: Sequence[Action]) -> None:
        """Performs the validator's actions in order."""
        for action in actions:
            self._do(action)

    def _do(self, action: Action) -> None:
        match action:
            case Persist():
                self.records.append(action.height, action.record)
            case Send():
                self._post(action)
            case Schedule():
                timeout = Timeout(action.step, action.height, action.round)
                self._loop.call_later(action.duration_ms / 1000, self._ring, timeout)
            case Committed():
                self._store(action)
            case Accused():
                self.contradictions += 1
                _LOGGER.warning("validator %d contradicts itself", action.conflict.first.sender)
            case _:
                assert_never(action)

    def _ring(self, timeout: Timeout) -> None:
        self._take(lambda now_ms: self.validator.time_out(timeout, now_ms))

    def _store(self, committed: Committed) -> None:
        certificate = to_commit_certificate(committed.commit.certificate)
        self.blocks.append(CertifiedBlock(committed.block, certificate))
        self._link()
        due = self.blocks.decided(self.ledger, CertifiedHeader(committed.block.header, certificate))
        if due is not None and (self._snapshotting is None or self._snapshotting.done()):
            self._snapshotting = self._loop.create_task(self._guard(self._write_snapshot(*due)))
        self._to_store.set()
        self._when_durable(partial(self._publish, committed.block.header.height))

    async def _write_snapshot(self, snapshot: Snapshot, following: CertifiedHeader) -> None:
        """Writes a snapshot beside everything else, then deletes blocks that it makes superfluous.

        The thread is one that `close` waits for, so that nobody else writes to the folder meanwhile.
        """
        try:
            height = await self._loop.run_in_executor(
                self._flushers, self.blocks.write, snapshot, following
            )
        except Full as failure:
            _LOGGER.warning("no snapshot at height %d: %s", snapshot.header.height, failure.message)
            return
        self.blocks.prune(height)
        _LOGGER.info("wrote a snapshot at height %d; blocks begin at %d", height, self.blocks.first)

    def _publish(self, height: int) -> None:
        self.published = height
        self._news.set()
        self._news = asyncio.Event()

    def _post(self, send: Send) -> None:
        match send.message:
            case Offer(transactions):
                if not self._offers:
                    self._loop.call_soon(self._send_offers)
                self._offers.extend(transactions)
            case message if waits_for_records(message):
                self._when_durable(partial(self._send, send.receiver, message))
            case message:
                self._send(send.receiver, message)

    def _when_durable(self, effect: Callable[[], None]) -> None:
        """Runs the effect once all records written so far are durable, after earlier effects."""
        if self._outbox.hold(effect, end=self.records.end, durable=self.records.durable):
            self._to_flush.set()

    def _send_offers(self) -> None:
        """Sends the collected transactions as one offer."""
        offers, self._offers = self._offers, []
        for begin in range(0, len(offers), TRANSACTIONS_PER_OFFER_MAX):
            self._send(None, Offer(tuple(offers[begin : begin + TRANSACTIONS_PER_OFFER_MAX])))

    def _send(self, receiver: int | None, message: PeerMessage) -> None:
        body = encode_peer_message(message)
        for number in tuple(self.links) if receiver is None else (receiver,):
            link = self.links.get(number)  # it may have left since it asked
            if link is not None:
                link.send_now(body)

    async def _flush_records(self) -> None:
        while True:
            await self._to_flush.wait()
            self._to_flush.clear()
            while self._outbox:
                self._outbox.release(await self._loop.run_in_executor(self._flushers, self.records.sync))

    async def _flush_blocks(self) -> None:
        while True:
            await self._to_store.wait()
            self._to_store.clear()
            height = await self._loop.run_in_executor(self._flushers, self.blocks.sync)
            self.records.forget(height)
            await asyncio.sleep(BLOCK_FLUSH_S)


def to_failure(error: Exception) -> Exception:
    """Returns the failure of the machine that an error of the system means; any other error unchanged."""
    match error:
        case MemoryError():
            return EnvironmentFailure(
                "the validator is out of memory",
                "give it more, then start it again: nothing signed is lost",
            )
        case OSError():
            return EnvironmentFailure(
                f"the validator cannot go on: {error.strerror or error}",
                "look at the machine, then start it again: nothing signed is lost",
            )
        case _:
            return error


class _Trust:
    """Verifies signatures, except while own blocks are restored, which are checked by their hashes."""

    def __init__(self) -> None:
        self.blindly = True

    def __call__(self, public: bytes, message: bytes, signature: bytes) -> None:
        if not self.blindly:
            verify_signature(public, message, signature)
