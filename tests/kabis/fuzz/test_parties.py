"""Parties as somebody hostile meets them: whoever is let in may say anything, and nothing breaks them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from hypothesis import strategies as st

from tests.kabis.chain import key_of, make_genesis
from tests.kabis.fuzz.decoders import CODED, passed_on
from tests.kabis.fuzz.mutation import fuzzed, mutated
from tests.kabis.ordering.cluster import make_topic
from tests.kabis.storage.chain import ALICE, CHAIN, GENESIS, STORES, STREAM, batch, certificate
from tests.kabis.strategies import u64
from veristream.kabis.log.disk.log import Flush, Log, LogOptions
from veristream.kabis.ordering import requests
from veristream.kabis.ordering.node import Node
from veristream.kabis.ordering.peers import encode_peer_message
from veristream.kabis.ordering.service import Service
from veristream.kabis.ordering.store import BlockStore, RecordStore
from veristream.kabis.ordering.validator import Settings
from veristream.kabis.protocol.codec import DIGEST_BYTES, DecodeError
from veristream.kabis.protocol.outcomes import Already, Done
from veristream.kabis.protocol.partitions import PartitionName
from veristream.kabis.protocol.plain import PlainAppend
from veristream.kabis.storage import messages as stored
from veristream.kabis.storage.core import StorageCore
from veristream.kabis.storage.party import StorageParty
from veristream.kabis.wire.connection import (
    _HEAD,
    Attached,
    Connection,
    Handlers,
    Later,
    Limits,
    RequestError,
)
from veristream.kabis.wire.door import Door
from veristream.kabis.wire.handshake import (
    LENGTH_BYTES,
    ClientHandshake,
    Identity,
    Peer,
    Role,
    Secrets,
    ServerHandshake,
    Session,
    WireError,
    _Hello,
    prefix,
)
from veristream.kabis.wire.quotas import Quotas
from veristream.kabis.wire.sides import ServerConnection
from veristream.kabis.wire.turns import Turns

ANSWER_S = 0.02
"""After that long nothing more happens: whoever still waits asked to wait."""

roles = st.sampled_from(list(Role))


def made(answer: bytes | Attached | Later) -> bytes | Attached:
    """The answer, made as a connection makes it."""
    return answer.make() if isinstance(answer, Later) else answer


async def settle(work: Coroutine[Any, Any, bytes | Attached | Later]) -> bytes | Attached | None:
    """The answer; None where it was refused as it should be, or where it is waited for."""
    task = asyncio.ensure_future(work)
    await asyncio.wait({task}, timeout=ANSWER_S)
    if not task.done():
        task.cancel()
        return None
    try:
        return made(task.result())
    except (RequestError, DecodeError):
        return None


# A storage party.

GOOD: dict[stored.Operation, st.SearchStrategy[bytes]] = {
    stored.Operation.STORE: st.sampled_from(
        [each.digest() + each.encode() for each in (batch(0), batch(2), batch(0, [b"other"]))]
    ),
    stored.Operation.FETCH: st.just(stored.FetchRange(STREAM, 0, 1000).encode()),
    stored.Operation.FETCH_DIGEST: st.just(batch(0).digest()),
    stored.Operation.APPEND_PLAIN: st.just(
        PlainAppend(PartitionName("clicks", 0), bytes(16), 0, (b"leaf",)).encode()
    ),
    stored.Operation.FETCH_PLAIN: st.sampled_from(
        [stored.FetchPlain(PartitionName(topic, 0), 0, 100, 0).encode() for topic in ("orders", "clicks")]
    ),
    stored.Operation.ABSENCE: st.just(stored.AskAbsence(batch(9).signed, certificate(7)).encode()),
    stored.Operation.CATCH_UP: st.just(stored.CatchUp(0, 1000).encode()),
    stored.Operation.EVIDENCE: st.just(stored.AskEvidence("orders").encode()),
    stored.Operation.STATUS: st.just(b""),
    stored.Operation.LOW_WATER: st.just(stored.RaiseLowWater(STREAM, 2).encode()),
}
"""What a storage party is asked."""


def asked(bodies: dict[Any, st.SearchStrategy[bytes]]) -> st.SearchStrategy[bytes]:
    """Requests: good ones, and such as are wrong somewhere."""
    good = st.one_of(*(body.map(bytes((kind,)).__add__) for kind, body in bodies.items()))
    return st.one_of(good, mutated(good), mutated(good), st.binary(max_size=40))


def test_every_operation_is_asked_for() -> None:
    assert set(GOOD) == set(stored.Operation)
    assert set(ASKED) == set(requests.Operation)


@fuzzed(requests=st.lists(st.tuples(roles, asked(GOOD)), min_size=1, max_size=8))
def test_a_storage_party_answers_or_refuses(
    requests: list[tuple[Role, bytes]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Afterwards it still stores, and still has what it had."""

    async def test(log: Log) -> None:
        party = StorageParty(StorageCore(GENESIS, "s0", STORES[0], log), log, 0.001)
        committer = asyncio.ensure_future(party.committer.run())
        good = ALICE_AT_STORE
        store = bytes((stored.Operation.STORE,)) + batch(100).digest() + batch(100).encode()
        first = await ask(party, good, store)
        for role, body in requests:
            await settle(ask(party, Peer(role, "alice", ALICE.public), body))
        fetch = bytes((stored.Operation.FETCH_DIGEST,)) + batch(100).digest()
        assert await party.answer(good, fetch) == Attached(stored.found(b""), batch(100).encode())
        assert await ask(party, good, store) == first
        assert not committer.done()
        committer.cancel()
        await asyncio.gather(committer, return_exceptions=True)

    with Log(tmp_path_factory.mktemp("party"), LogOptions(1 << 20, Flush.NEVER)) as log:
        asyncio.run(test(log))


test_a_storage_party_answers_or_refuses_at_length = test_a_storage_party_answers_or_refuses.at_length


async def ask(party: StorageParty, peer: Peer, request: bytes) -> bytes | Attached:
    """The answer to a request; what is to be stored is attached to it."""
    if request[:1] != bytes((stored.Operation.STORE,)):
        return made(await party.answer(peer, request))
    end = 1 + DIGEST_BYTES
    return await party.answer_attached(peer, Attached(request[:end], request[end:]))


ALICE_AT_STORE = Peer(Role.PRODUCER, "alice", ALICE.public)


# A validator.

ASKED: dict[requests.Operation, st.SearchStrategy[bytes]] = {
    requests.Operation.SUBMIT: st.builds(make_topic) | st.builds(lambda: make_topic() + b"\0"),
    requests.Operation.READ: st.just(requests.Read(1, 9, 1000, 0).encode()),
    requests.Operation.STATUS: st.just(b""),
    requests.Operation.EVIDENCE: st.just(b""),
    requests.Operation.MANIFEST: st.just(b""),
    requests.Operation.CHUNK: st.just(requests.ReadChunk(1, 0).encode()),
    requests.Operation.HANDOVERS: st.just(b""),
}
"""What a validator is asked."""

V1 = Peer(Role.VALIDATOR, "v1", key_of("v1").public)


@contextmanager
def stores(folder: Path) -> Iterator[tuple[BlockStore, RecordStore]]:
    options = LogOptions(1 << 20, Flush.NEVER)
    with Log(folder / "blocks", options) as blocks, Log(folder / "records", options) as records:
        yield BlockStore(blocks), RecordStore(records)


def with_node(folder: Path, test: Callable[[Node], Coroutine[Any, Any, None]]) -> None:
    """Runs a test with one validator of four, of which the others are not to be reached."""
    genesis = make_genesis()
    nowhere = tuple(replace(party, address="127.0.0.1:1") for party in genesis.validators)

    async def run() -> None:
        with stores(folder) as both:
            node = Node(replace(genesis, validators=nowhere), 0, key_of("v0"), both, Settings())
            node.start()
            try:
                await test(node)
                assert not node.failed.done()
                assert await node.admit(make_topic(), "alice") in (Done(), Already())
            finally:
                await node.close()

    asyncio.run(run())


@fuzzed(requests=st.lists(st.tuples(roles, asked(ASKED)), min_size=1, max_size=6))
def test_a_validator_answers_or_refuses(
    requests: list[tuple[Role, bytes]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    async def test(node: Node) -> None:
        service = Service(node)
        for role, body in requests:
            await settle(service.answer(Peer(role, "alice", key_of("alice").public), body))

    with_node(tmp_path_factory.mktemp("validator"), test)


test_a_validator_answers_or_refuses_at_length = test_a_validator_answers_or_refuses.at_length


@fuzzed(
    said=st.lists(mutated(passed_on.map(encode_peer_message)) | st.binary(max_size=60), max_size=6),
    transactions=st.lists(mutated(st.builds(make_topic)), max_size=3),
)
def test_a_validator_hears_anything(
    said: list[bytes], transactions: list[bytes], tmp_path_factory: pytest.TempPathFactory
) -> None:
    async def test(node: Node) -> None:
        for body in said:
            node._banned_until.clear()
            try:
                node.receive(V1, body)
            except WireError as error:
                assert str(error).startswith("v1: ")  # noqa: PT017 (it may be heard, too)
            await asyncio.sleep(0)
        for transaction in transactions:
            await node.admit(transaction, "alice")

    with_node(tmp_path_factory.mktemp("validator"), test)


test_a_validator_hears_anything_at_length = test_a_validator_hears_anything.at_length


# A connection.

SERVER = Identity(CHAIN, Role.STORAGE, "s0", STORES[0])
CLIENT = Identity(CHAIN, Role.PRODUCER, "alice", ALICE)
LIMITS = Limits(frame_bytes_max=1000, requests_max=4, request_bytes_max=4000)
PIECE_BYTES = 700


class Wire:
    """A server's end of a connection, over a transport that only notes what happens."""

    def __init__(self) -> None:
        told = {
            "is_closing.return_value": False,
            "get_write_buffer_size.return_value": 0,
            "get_extra_info.return_value": ("127.0.0.1", 1),
        }
        self.transport = Mock(spec=asyncio.Transport, **told)
        door = Door(Quotas(), 100, Turns(), asyncio.get_running_loop().time, lambda among: among[0])
        server = ServerHandshake(SERVER, Secrets.draw(bytes(64)))
        self.connection: Connection = ServerConnection(
            server, lambda _peer: None, Handlers(self.answer), LIMITS, door
        )
        self.connection.connection_made(self.transport)

    async def answer(self, _peer: Peer, body: bytes) -> bytes:
        stored.split_request(body)
        return body

    def shake_hands(self) -> Session:
        client = ClientHandshake(CLIENT, SERVER.peer, Secrets.draw(bytes(range(64))))
        self.give(prefix(client.hello))
        (answer,) = self.transport.write.call_args.args
        proof, session = client.finish(answer[LENGTH_BYTES:])
        self.give(prefix(proof))
        assert self.connection.opened.result() == CLIENT.peer
        return session

    def give(self, data: bytes) -> None:
        """What arrives, in pieces; nothing more does once the connection was cut off."""
        for start in range(0, len(data), PIECE_BYTES):
            self._give_piece(data[start : start + PIECE_BYTES])

    def _give_piece(self, piece: bytes) -> None:
        while piece and not self.transport.abort.called:
            room = self.connection.get_buffer(-1)
            count = min(len(room), len(piece))
            room[:count] = piece[:count]
            self.connection.buffer_updated(count)
            piece = piece[count:]

    @property
    def held_bytes(self) -> int:
        return self.connection._splitter.held_bytes + self.connection._task_bytes


headed = st.builds(
    lambda kind, number, body: _HEAD.pack(kind, number) + body,
    st.integers(0, 11),
    u64,
    st.binary(max_size=1200),
)
payloads = headed | st.binary(max_size=20)


@fuzzed(
    first=st.lists(payloads, max_size=8),
    junk=st.binary(max_size=3000) | mutated(st.just(prefix(b"frame" * 20))),
)
def test_a_connection_is_served_or_cut_off(first: list[bytes], junk: bytes) -> None:
    """Of frames with good seals and of such without; it never holds more than its limits say."""
    problems: list[dict[str, Any]] = []
    errors = Mock(side_effect=AssertionError)

    async def test() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _loop, context: problems.append(context))
        wire = Wire()
        session = wire.shake_hands()
        for payload in first:
            wire.give(session.seal(payload))
            assert wire.held_bytes <= 2 * LIMITS.frame_bytes_max + LIMITS.request_bytes_max
            await asyncio.sleep(0)
        wire.give(junk)
        assert wire.held_bytes <= 2 * LIMITS.frame_bytes_max + LIMITS.request_bytes_max
        await asyncio.sleep(0)
        wire.connection.connection_lost(None)

    logger = logging.getLogger("veristream.kabis.wire.connection")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(logger, "error", errors)
        asyncio.run(test())
    assert not problems
    assert not errors.called


test_a_connection_is_served_or_cut_off_at_length = test_a_connection_is_served_or_cut_off.at_length


hellos = CODED[_Hello].map(lambda hello: hello.encode())


@fuzzed(hello=st.binary(max_size=100) | mutated(hellos), proof=st.binary(max_size=100))
def test_a_caller_that_does_not_shake_hands_is_cut_off(hello: bytes, proof: bytes) -> None:
    async def test() -> None:
        wire = Wire()
        wire.give(prefix(hello) + prefix(proof))
        assert wire.transport.abort.called
        assert isinstance(wire.connection.opened.exception(), WireError)
        wire.connection.connection_lost(None)

    asyncio.run(test())


test_a_caller_that_does_not_shake_hands_is_cut_off_at_length = (
    test_a_caller_that_does_not_shake_hands_is_cut_off.at_length
)
