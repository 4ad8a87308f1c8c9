"""Storage parties apply the chain's access rules to whatever clients store and read."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.kabis.chain import Chain, batch_of, key_of, make_genesis, submitted
from tests.kabis.storage.test_chain import certified
from veristream.kabis.ledger.ledger import Ledger
from veristream.kabis.protocol import actions as act
from veristream.kabis.protocol.batch import Batch
from veristream.kabis.protocol.partitions import PartitionName, stream_of
from veristream.kabis.protocol.plain import PlainAppend
from veristream.kabis.protocol.records import encode_leaf
from veristream.kabis.storage import messages, party
from veristream.kabis.storage.admission import Gate
from veristream.kabis.storage.chain import ChainView
from veristream.kabis.storage.core import StorageCore
from veristream.kabis.storage.messages import Operation
from veristream.kabis.storage.party import StorageParty
from veristream.kabis.storage.saved_view import load_view, save_view
from veristream.kabis.wire.connection import Attached, RequestError
from veristream.kabis.wire.handshake import Peer, Role
from veristream_testing.simulation.memory_log import MemoryLog

READ, WRITE = act.Operation.READ, act.Operation.WRITE
LOGS = PartitionName("logs", 0)


def rule(operation: act.Operation, who: str, pattern: str = "*") -> act.Rule:
    return act.Rule(act.Resource.TOPIC, pattern, operation, who)


class Stored:
    """A party of a closed chain, where alice may write; it has a batch of hers and a plain record."""

    def __init__(self, runner: asyncio.Runner) -> None:
        self.runner = runner
        self.chain = Chain(Ledger(replace(make_genesis(), closed=True)))
        self.log = MemoryLog()
        self.view = ChainView(self.chain.ledger.genesis)
        self.view.is_current = True
        gate = Gate(self.view)
        core = StorageCore(self.chain.ledger.genesis, "s0", key_of("s0"), self.log, gate=gate)
        self.party = StorageParty(core, self.log)  # type: ignore[arg-type]
        self.runner.get_loop().create_task(self.party.committer.run())
        self.order(act.SetTopic("orders", 2, validated=True), act.SetTopic("logs", 1, validated=False))
        self.order(act.Grant(rule(WRITE, "alice")))
        self.batch = batch_of(b"a")
        core.store(self.batch.encode(), "alice", key_of("alice").public)
        core.append_plain(append(0))
        self.log.sync()

    def order(self, *actions: act.Action) -> None:
        self.chain.block(*(self.chain.act("admin", action) for action in actions))
        self.view.take(certified(self.chain, self.chain.ledger.height))

    def ask(self, peer: Peer, operation: Operation, body: bytes) -> object:
        return self.runner.run(self.party.answer(peer, bytes((operation,)) + body))

    def store(self, peer: Peer, batch: Batch) -> object:
        request = Attached(bytes((Operation.STORE,)) + batch.digest(), batch.encode())
        answering = asyncio.wait_for(self.party.answer_attached(peer, request), 60)
        return self.runner.run(answering)


def peer_of(name: str, role: Role = Role.CONSUMER) -> Peer:
    return Peer(role, name, key_of(name).public)


def append(sequence: int) -> PlainAppend:
    return PlainAppend(LOGS, bytes(16), sequence, (encode_leaf(None, b"x", (), 7),))


@pytest.fixture
def stored(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stored]:
    monkeypatch.setattr(party, "GRACE_S", 0.0)
    with asyncio.Runner() as runner:
        yield Stored(runner)


def make_reads(stored: Stored) -> dict[Operation, bytes]:
    """A request of every kind that returns what a client stored."""
    return {
        Operation.FETCH: messages.FetchRange(stream_of(stored.batch.header), 0, 1000).encode(),
        Operation.FETCH_DIGEST: stored.batch.digest(),
        Operation.FETCH_PLAIN: messages.FetchPlain(LOGS, 0, 1000, 0).encode(),
        Operation.EVIDENCE: messages.AskEvidence("orders").encode(),
    }


OTHER = {
    Operation.STORE: "needs the right to write, tested on its own",
    Operation.APPEND_PLAIN: "needs the right to write, tested on its own",
    Operation.ABSENCE: "says only that the party lacks a batch",
    Operation.CATCH_UP: "only for parties and admins",
    Operation.STATUS: "says nothing about events",
    Operation.LOW_WATER: "only for admins",
}


def test_every_way_to_read_needs_the_right(stored: Stored) -> None:
    reads = make_reads(stored)
    assert reads.keys() | OTHER.keys() == set(Operation)
    for operation, body in reads.items():
        with pytest.raises(RequestError, match="'bob' lacks the right: read on the topic"):
            stored.ask(peer_of("bob"), operation, body)
        for peer in (
            peer_of("admin", Role.ADMIN),
            peer_of("s1", Role.STORAGE),
            peer_of("v0", Role.VALIDATOR),
        ):
            assert stored.ask(peer, operation, body)
    stored.order(act.Grant(rule(READ, "bob")))
    for operation, body in reads.items():
        assert stored.ask(peer_of("bob"), operation, body)
    stored.order(act.Revoke(rule(READ, "bob")))
    for operation, body in reads.items():
        with pytest.raises(RequestError, match="'bob' lacks the right"):
            stored.ask(peer_of("bob"), operation, body)


def test_a_producer_may_read_what_it_wrote_to_resume(stored: Stored) -> None:
    reads, alice = make_reads(stored), peer_of("alice", Role.PRODUCER)
    assert stored.ask(alice, Operation.FETCH, reads[Operation.FETCH])
    assert stored.ask(alice, Operation.FETCH_DIGEST, reads[Operation.FETCH_DIGEST])
    with pytest.raises(RequestError, match="'alice' lacks the right: read on the topic logs"):
        stored.ask(alice, Operation.FETCH_PLAIN, reads[Operation.FETCH_PLAIN])


@pytest.mark.parametrize(
    "claimed", ["admin", "alice", "bob", "nobody", "", "s1", "(anonymous)", "role:readers"]
)
def test_an_anonymous_peer_has_no_right_of_the_name_that_it_claims(stored: Stored, claimed: str) -> None:
    stored.order(act.Grant(rule(READ, "bob")), act.Grant(rule(READ, "role:readers")))
    peer = Peer(Role.ANONYMOUS, claimed, key_of("mallory").public)
    genesis = stored.chain.ledger.genesis
    assert party.Directory(genesis, anonymous=True, chain=stored.view).authorize(peer) is None
    for operation, body in make_reads(stored).items():
        with pytest.raises(RequestError, match=r"'\(anonymous\)' lacks the right: read on the topic"):
            stored.ask(peer, operation, body)
    stored.order(act.Grant(rule(READ, "*")))
    for operation, body in make_reads(stored).items():
        assert stored.ask(peer, operation, body), "what everybody may read, it may read too"


def test_storing_needs_the_right_to_write(stored: Stored) -> None:
    bob, end = peer_of("bob", Role.PRODUCER), stored.log.end
    batch = batch_of(b"b", producer="bob")
    with pytest.raises(RequestError, match="'bob' lacks the right: write on the topic orders"):
        stored.store(bob, batch)
    with pytest.raises(RequestError, match="'bob' lacks the right: write on the topic logs"):
        stored.ask(bob, Operation.APPEND_PLAIN, append(1).encode())
    assert stored.log.end == end, "nothing was written"
    stored.order(act.Grant(rule(WRITE, "bob", "ord*")))
    assert stored.store(bob, batch)


def test_an_admitted_batch_may_come_late_after_the_right_is_gone(stored: Stored) -> None:
    late = batch_of(b"l", partition=1)
    stored.chain.block(submitted(late))
    stored.view.take(certified(stored.chain, stored.chain.ledger.height))
    stored.order(act.Revoke(rule(WRITE, "alice")))
    assert stored.store(peer_of("alice", Role.PRODUCER), late)


def test_a_view_from_a_file_or_a_snapshot_has_the_same_rules(stored: Stored, tmp_path: Path) -> None:
    stored.order(act.Grant(rule(READ, "role:auditors", "ord*")), act.SetRole("bob", "auditors", held=True))
    stored.order(act.Grant(rule(READ, "alice")))
    stored.order(act.Revoke(rule(READ, "alice")))
    genesis, path = stored.chain.ledger.genesis, tmp_path / "view"
    save_view(path, genesis, stored.view)
    resumed = ChainView(genesis)
    resumed.resume(stored.chain.ledger)
    for view in (load_view(path, genesis), resumed):
        assert view.height == stored.view.height
        for name in ("alice", "bob", "admin"):
            for right in (act.to_read("orders"), act.to_read("logs"), act.to_write("logs")):
                assert view.may(name, right) == stored.chain.ledger.may(name, right), (name, right)
        assert view.may("bob", act.to_read("orders")) and not view.may("alice", act.to_read("orders"))
