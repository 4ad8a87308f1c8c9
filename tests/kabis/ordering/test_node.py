"""A running validator and its disk: what is durable before what is told, and what happens when it fails."""

from __future__ import annotations

import asyncio
import errno
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from tests.kabis.chain import CHAIN, key_of, make_genesis
from tests.kabis.ordering.cluster import act, make_batches, make_topic, run
from veristream.errors import EnvironmentFailure
from veristream.kabis.log.disk.files import Full
from veristream.kabis.log.disk.log import Log
from veristream.kabis.ordering.mempool import find_author
from veristream.kabis.ordering.messages import Proposal, Vote
from veristream.kabis.ordering.node import Node, to_failure
from veristream.kabis.ordering.outbox import Outbox
from veristream.kabis.ordering.peers import (
    Ask,
    Offer,
    PeerMessage,
    decode_peer_message,
    encode_peer_message,
)
from veristream.kabis.ordering.requests import Blocks, Operation, Read
from veristream.kabis.ordering.service import Service
from veristream.kabis.ordering.store import BlockStore, RecordStore
from veristream.kabis.ordering.turns import Bound, Turns
from veristream.kabis.ordering.validator import Settings
from veristream.kabis.protocol.actions import JoinGroup, SetTopic
from veristream.kabis.protocol.codec import domain_tag
from veristream.kabis.protocol.genesis import find_problem
from veristream.kabis.protocol.outcomes import Already, Done, Outcome, Reason, Refused
from veristream.kabis.wire.connection import Later, RequestError
from veristream.kabis.wire.endpoints import WireError
from veristream.kabis.wire.handshake import Peer, Role

ALICE = Peer(Role.PRODUCER, "alice", key_of("alice").public)


class GuardedRecords(RecordStore):
    """Records whose flush waits for a permission, and may fail."""

    def __init__(self, log: Log) -> None:
        super().__init__(log)
        self.permitted = threading.Event()
        self.failure: Exception | None = None
        self.flushes = 0

    def sync(self) -> int:
        assert self.permitted.wait(30)
        self.flushes += 1
        if self.failure is not None:
            raise self.failure
        return super().sync()


@asynccontextmanager
async def alone(folder: Path) -> AsyncIterator[tuple[Node, GuardedRecords]]:
    """The one validator of a chain that stands no faults: its own vote decides."""
    genesis = make_genesis()
    genesis = replace(genesis, faults=0, validators=genesis.validators[:1], storage=genesis.storage[:1])
    assert not find_problem(genesis)
    with Log(folder / "blocks") as blocks, Log(folder / "records") as records:
        guarded = GuardedRecords(records)
        node = Node(genesis, 0, key_of("v0"), (BlockStore(blocks), guarded), Settings())
        node.start()
        await asyncio.sleep(0)  # its tasks begin
        try:
            yield node, guarded
        finally:
            guarded.permitted.set()
            await node.close()


def admit_all(node: Node) -> None:
    """Lets everybody connect, though the node's own chain has one validator alone."""
    node.validator.seats.admits = lambda *_: True  # type: ignore[method-assign]


def run_alone(folder: Path, test: Callable[[Node, GuardedRecords], object]) -> None:
    async def bounded() -> None:
        async with alone(folder) as (node, records):
            await test(node, records)  # type: ignore[misc]

    run(bounded)


async def ask(service: Service, request: bytes) -> bytes:
    """The answer, made as a connection makes it."""
    answer = await service.answer(ALICE, request)
    assert isinstance(answer, Later)
    made = answer.make()
    assert isinstance(made, bytes)
    return made


def test_a_block_is_told_when_the_vote_that_decided_it_is_durable(tmp_path: Path) -> None:
    async def test(node: Node, records: GuardedRecords) -> None:
        service = Service(node)
        read = bytes((Operation.READ,)) + Read(1, 1, 1 << 20, 0).encode()
        assert node.submit(make_topic()) == Done()
        assert node.ledger.height == 1 and records.durable < records.end
        await asyncio.sleep(0.05)
        assert Blocks.decode(await ask(service, read)) == Blocks(0, ())
        records.permitted.set()
        await node.wait_for_block()
        told = Blocks.decode(await ask(service, read))
        assert (told.height, told.blocks) == (1, (node.blocks.encoded(1),))
        assert records.durable == records.end

    run_alone(tmp_path, test)
    with Log(tmp_path / "blocks") as blocks:
        assert BlockStore(blocks).height == 1


def test_who_submits_what_no_honest_client_would_is_noted(tmp_path: Path) -> None:
    forged = make_topic()[:-64] + bytes(64)
    topic = act("alice", 1, SetTopic("mine", 1, validated=True))
    old = act("alice", 1, JoinGroup("group", "i", (), 30_000))

    async def test(node: Node, records: GuardedRecords) -> None:
        records.permitted.set()
        service, noted = Service(node), list[tuple[str, str]]()
        service.note = service.blame = lambda peer, limit: noted.append((peer.name, limit))
        for transaction in (b"junk", forged, topic, old):
            await service.answer(ALICE, bytes((Operation.SUBMIT,)) + transaction)
        while node.published < 1:
            await node.wait_for_block()
        again = act("alice", 1, JoinGroup("another", "i", (), 30_000))
        await service.answer(ALICE, bytes((Operation.SUBMIT,)) + again)
        assert noted == [("alice", "bad transactions")] * 3
        node._to_admit.author_max = Bound(0, 0)
        await service.answer(ALICE, bytes((Operation.SUBMIT,)) + old)
        assert noted[3:] == [("alice", "too many transactions")]

    run_alone(tmp_path, test)


def test_an_answer_with_blocks_is_short(tmp_path: Path) -> None:
    """While it is made, votes wait: whoever reads the whole chain gets it in parts of half a megabyte."""
    names = tuple(sorted(f"{number:04}-{'x' * 100}" for number in range(1000)))
    joins = [
        act("alice", number, JoinGroup("group", "i", names[number:], 30_000)) for number in range(1, 9)
    ]

    async def test(node: Node, records: GuardedRecords) -> None:
        records.permitted.set()
        for height, join in enumerate(joins, 1):
            assert node.submit(join) == Done()
            while node.published < height:
                await node.wait_for_block()
        service, found = Service(node), list[bytes]()
        while len(found) < len(joins):
            read = Read(len(found) + 1, 1 << 40, 1 << 30, 0).encode()
            part = Blocks.decode(await ask(service, bytes((Operation.READ,)) + read)).blocks
            assert 0 < sum(map(len, part)) <= 1 << 19
            found += part
        assert found == [node.blocks.encoded(height) for height in range(1, len(joins) + 1)]

    run_alone(tmp_path, test)


class Recorder:
    """A link to another validator that notes what would be sent."""

    connected = True

    def __init__(self) -> None:
        self.sent: list[PeerMessage] = []

    def send_now(self, body: bytes) -> None:
        self.sent.append(decode_peer_message(body))

    async def close(self) -> None:
        pass


@asynccontextmanager
async def among_four(folder: Path) -> AsyncIterator[tuple[Node, GuardedRecords, Recorder]]:
    """The proposer of the first height, with a link that notes what it says to another."""
    with Log(folder / "blocks") as blocks, Log(folder / "records") as records:
        guarded = GuardedRecords(records)
        node = Node(make_genesis(), 1, key_of("v1"), (BlockStore(blocks), guarded), Settings())
        node.start()
        await asyncio.gather(*(link.close() for link in node.links.values()))
        recorder = Recorder()
        node.links = {0: recorder}  # type: ignore[dict-item]
        await asyncio.sleep(0)
        try:
            yield node, guarded, recorder
        finally:
            guarded.permitted.set()
            await node.close()


def test_a_vote_leaves_when_its_record_is_durable(tmp_path: Path) -> None:
    async def test() -> None:
        async with among_four(tmp_path) as (node, records, link):
            assert node.submit(make_topic()) == Done()
            await asyncio.sleep(0.05)
            assert records.durable < records.end
            assert [type(message) for message in link.sent if not isinstance(message, Ask)] == [Offer]
            records.permitted.set()
            while not {Proposal, Vote} <= {type(message) for message in link.sent}:
                await asyncio.sleep(0.001)
            assert records.durable > 0

    run(test)
    with Log(tmp_path / "records") as records:
        memory = RecordStore(records).recover(1)
        assert [type(signed.message) for signed in memory.signed_in(1)][:2] == [Proposal, Vote]


def send_at_once(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Node, "_when_durable", lambda node, effect: effect())


def send_by_the_outbox_at_once(patch: pytest.MonkeyPatch) -> None:
    def hold(outbox: Outbox, effect: Callable[[], None], *, end: int, durable: int) -> bool:
        effect()
        return bool(outbox)

    patch.setattr(Outbox, "hold", hold)


def take_votes_for_offers(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("veristream.kabis.ordering.node.waits_for_records", lambda message: False)


@pytest.mark.parametrize("plant", [send_at_once, send_by_the_outbox_at_once, take_votes_for_offers])
def test_a_vote_that_leaves_too_early_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plant: Callable[[pytest.MonkeyPatch], None]
) -> None:
    plant(monkeypatch)
    with pytest.raises(AssertionError, match="Proposal"):
        test_a_vote_leaves_when_its_record_is_durable(tmp_path)


def test_one_flush_serves_all_that_wait(tmp_path: Path) -> None:
    async def test(node: Node, records: GuardedRecords) -> None:
        told = []
        records.append(1, b"one")
        for number in range(10):
            node._when_durable(lambda number=number: told.append(number))
        await asyncio.sleep(0.05)
        assert told == []
        records.permitted.set()
        while len(told) < 10:
            await asyncio.sleep(0.001)
        assert (told, records.flushes) == (list(range(10)), 1)
        node._when_durable(lambda: told.append(10))
        assert told[-1] == 10  # nothing is to be flushed

    run_alone(tmp_path, test)


def test_a_disk_that_fails_ends_the_validator_and_nothing_is_told(tmp_path: Path) -> None:
    async def test(node: Node, records: GuardedRecords) -> None:
        records.failure = EnvironmentFailure("the disk is full")
        records.permitted.set()
        node.submit(make_topic())
        with pytest.raises(EnvironmentFailure, match="full"):
            await node.failed
        assert node.published == 0
        with pytest.raises(RequestError, match="has failed"):
            node.submit(make_topic())

    run_alone(tmp_path, test)


def test_who_offers_junk_is_sent_away_too(tmp_path: Path) -> None:
    async def test(node: Node, records: GuardedRecords) -> None:
        admit_all(node)
        node._indices = {"v0": 0, "v1": 1}
        peer = Peer(Role.VALIDATOR, "v1", key_of("v1").public)
        node.receive(peer, encode_peer_message(Offer((make_topic(), b"junk"))))
        assert node.authorize(peer) is None  # transactions have their turn later
        assert await node.admit(make_topic(), "alice") == Already()
        assert node.ledger.height == 1
        assert "banned for a while" in (node.authorize(peer) or "")

    run_alone(tmp_path, test)


def test_offers_that_nobody_has_time_for_are_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("veristream.kabis.ordering.node.WAITING_MAX", 3)

    async def test(node: Node, records: GuardedRecords) -> None:
        peer = Peer(Role.VALIDATOR, "v0", key_of("v0").public)
        offer = encode_peer_message(Offer((make_topic(), make_topic())))
        for _ in range(5):
            node.receive(peer, offer)
        assert len(node._to_admit) == 3

    run_alone(tmp_path, test)


@pytest.mark.parametrize("limit", ["WAITING_BYTES_MAX", "WAITING_AUTHOR_BYTES_MAX"])
def test_offers_wait_only_up_to_a_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str) -> None:
    large = b"junk" * 1000
    monkeypatch.setattr(f"veristream.kabis.ordering.node.{limit}", 3 * len(large))

    async def test(node: Node, records: GuardedRecords) -> None:
        node.genesis, node._indices = make_genesis(), {"v0": 0, "v1": 1, "v2": 2}
        admit_all(node)
        v1, v2 = (Peer(Role.VALIDATOR, name, key_of(name).public) for name in ("v1", "v2"))
        for _ in range(5):
            node.receive(v1, encode_peer_message(Offer((large, large))))
        assert len(node._to_admit) == 3
        node.receive(v2, encode_peer_message(Offer((large,))))
        assert len(node._to_admit) == 4, "another sender has room of its own"

    run_alone(tmp_path, test)


def test_what_was_admitted_makes_room_again() -> None:
    turns = Turns[str](source_max=Bound(10, 100), author_max=Bound(10, 60))
    assert turns.put("v1", "alice", "a", 60) and not turns.put("v1", "alice", "b", 1)
    assert not turns.put("v1", "bob", "c", 41) and turns.put("v1", "bob", "d", 40)
    assert turns.take() == "a"
    assert not turns.put("v1", "alice", "e", 61), "larger than all that one author may have"
    assert turns.put("v1", "alice", "f", 60) and len(turns) == 2
    assert [turns.take(), turns.take()] == ["d", "f"] and len(turns) == 0
    assert turns.put("v1", "alice", "g", 60)


def test_a_client_whose_transactions_are_large_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches = make_batches("alice", 3)
    monkeypatch.setattr(
        "veristream.kabis.ordering.node.WAITING_AUTHOR_BYTES_MAX", sum(map(len, batches[:2]))
    )

    async def test(node: Node, records: GuardedRecords) -> None:
        outcomes = await asyncio.gather(*(node.admit(encoded, "alice") for encoded in batches))
        reasons = [outcome.reason for outcome in outcomes if isinstance(outcome, Refused)]
        assert reasons == [Reason.UNKNOWN_TOPIC, Reason.UNKNOWN_TOPIC, Reason.TOO_MANY]

    run_alone(tmp_path, test)


def test_an_unknown_kind_of_message_is_dropped_and_not_punished(tmp_path: Path) -> None:
    async def test(node: Node, records: GuardedRecords) -> None:
        node.genesis, node._indices = make_genesis(), {"v0": 0, "v1": 1}
        admit_all(node)
        peer = Peer(Role.VALIDATOR, "v1", key_of("v1").public)
        tag = domain_tag("peer-message")
        for kind in (bytes((3,)), bytes((255,)), bytes((2, 4)), bytes((2, 255))):
            node.receive(peer, tag + kind + b"what only a newer version reads")
        assert node.unknown == 4 and node.authorize(peer) is None
        with pytest.raises(WireError):
            node.receive(peer, tag + bytes((2, 3)) + b"a known kind, and nonsense")
        assert node.authorize(peer) is not None

    run_alone(tmp_path, test)


def test_who_talks_nonsense_is_sent_away_for_a_while(tmp_path: Path) -> None:
    async def test(node: Node, records: GuardedRecords) -> None:
        genesis = make_genesis()
        node.genesis, node._indices = genesis, {"v0": 0, "v1": 1}
        admit_all(node)
        peer = Peer(Role.VALIDATOR, "v1", key_of("v1").public)
        assert node.authorize(peer) is None
        with pytest.raises(WireError, match="v1"):
            node.receive(peer, b"nonsense")
        assert "banned for a while" in (node.authorize(peer) or "")
        with pytest.raises(WireError, match="invalid message"):
            node.receive(peer, encode_peer_message(Ask(1)))
        with pytest.raises(WireError, match="only validators"):
            node.receive(ALICE, b"")
        assert genesis.chain_id == CHAIN

    run_alone(tmp_path, test)


def test_who_submits_little_does_not_wait_for_who_submits_much(tmp_path: Path) -> None:
    async def test(node: Node, records: GuardedRecords) -> None:
        records.permitted.set()
        await node.admit(make_topic(), "admin")
        told: list[str] = []
        submit = node.submit

        def note(encoded: bytes) -> Outcome:
            told.append(find_author(encoded))
            return submit(encoded)

        node.submit = note  # type: ignore[method-assign]
        flood = [node.admit(encoded, "alice") for encoded in make_batches("alice", 40)]
        honest = [node.admit(encoded, "bob") for encoded in make_batches("bob", 3)]
        await asyncio.gather(*flood, *honest)
        assert told[:6] == ["alice", "bob"] * 3 and len(told) == 43

    run_alone(tmp_path, test)


def test_who_submits_too_much_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("veristream.kabis.ordering.node.WAITING_AUTHOR_MAX", 2)

    async def test(node: Node, records: GuardedRecords) -> None:
        batches = make_batches("alice", 3)
        outcomes = await asyncio.gather(*(node.admit(encoded, "alice") for encoded in batches))
        reasons = [outcome.reason for outcome in outcomes if isinstance(outcome, Refused)]
        assert reasons == [Reason.UNKNOWN_TOPIC, Reason.UNKNOWN_TOPIC, Reason.TOO_MANY]

    run_alone(tmp_path, test)


def test_a_validator_that_passes_on_a_flood_passes_on_the_rest(tmp_path: Path) -> None:
    async def test(node: Node, records: GuardedRecords) -> None:
        node._to_admit = Turns(source_max=Bound(6, 1 << 20), author_max=Bound(4, 1 << 20))
        node.genesis, node._indices = make_genesis(), {"v0": 0, "v1": 1, "v2": 2}
        admit_all(node)
        v1, v2 = (Peer(Role.VALIDATOR, name, key_of(name).public) for name in ("v1", "v2"))
        node.receive(v1, encode_peer_message(Offer(tuple(make_batches("alice", 9)))))
        node.receive(v1, encode_peer_message(Offer(tuple(make_batches("bob", 9)))))
        node.receive(v2, encode_peer_message(Offer((make_topic(),))))
        assert len(node._to_admit) == 4 + 2 + 1

    run_alone(tmp_path, test)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (Full("no room to write records"), "no room"),
        (OSError(errno.EMFILE, "Too many open files"), "Too many open files"),
        (MemoryError(), "out of memory"),
    ],
)
def test_a_vote_whose_record_cannot_be_written_is_not_sent(
    tmp_path: Path, error: Exception, words: str
) -> None:
    async def test() -> None:
        async with among_four(tmp_path) as (node, records, link):

            def append(height: int, record: bytes) -> int:
                raise error

            records.append = append  # type: ignore[method-assign]
            records.permitted.set()
            with suppress(RequestError):
                node.submit(make_topic())
            with pytest.raises(EnvironmentFailure, match=words):
                await node.failed
            await asyncio.sleep(0.05)
            assert not [each for each in link.sent if isinstance(each, Proposal | Vote)]
            with pytest.raises(RequestError, match="has failed"):
                node.submit(make_topic())

    run(test)


@pytest.mark.parametrize("error", [OSError(errno.EMFILE, "Too many open files"), MemoryError()])
def test_a_flush_that_the_system_refuses_ends_the_validator(tmp_path: Path, error: Exception) -> None:
    async def test(node: Node, records: GuardedRecords) -> None:
        records.failure = error
        records.permitted.set()
        node.submit(make_topic())
        with pytest.raises(EnvironmentFailure):
            await node.failed
        assert node.published == 0

    run_alone(tmp_path, test)


def test_a_bug_is_not_taken_for_a_failure_of_the_machine() -> None:
    bug = ValueError("a bug")
    assert to_failure(bug) is bug
