"""Storage accepts what the chain may admit, no more than it must keep, and drops what can never be."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kabis.chain import Chain, batch_of, chain_with_topic, key_of, submitted
from tests.kabis.storage.test_chain import Away, certified, rotate
from tests.kabis.strategies import patient
from veristream.kabis.channels.interfaces import OrderingStatus
from veristream.kabis.protocol.actions import LowWater, RevokeKey, SetTopic
from veristream.kabis.protocol.answers import Absent
from veristream.kabis.protocol.batch import Batch
from veristream.kabis.protocol.blocks import CertifiedBlock
from veristream.kabis.protocol.partitions import PartitionName
from veristream.kabis.protocol.plain import PlainAppend
from veristream.kabis.protocol.records import encode_leaf
from veristream.kabis.storage.admission import BehindError, Gate, StorageRefusedError, WaitingLimits
from veristream.kabis.storage.chain import PAUSE_S, ChainView, follow_chain
from veristream.kabis.storage.core import StorageCore
from veristream.kabis.storage.messages import Operation
from veristream.kabis.storage.party import StorageParty
from veristream.kabis.wire.connection import Attached, RequestError
from veristream.kabis.wire.handshake import Peer, Role
from veristream_testing.simulation.memory_log import MemoryLog
from veristream_testing.storage_client import fetch_digest

LIMITS = WaitingLimits(producer_batches=4, producer_bytes=2000, total_bytes=3000, window=100)


class Party:
    """A party with a log in memory that has followed the chain to its end."""

    def __init__(self, chain: Chain, limits: WaitingLimits = LIMITS) -> None:
        self.chain = chain
        self.log = MemoryLog()
        self.view = ChainView(chain.ledger.genesis)
        self.view.is_current = True
        self.limits = limits
        self.restart()
        self.follow()

    def restart(self) -> None:
        gate = Gate(self.view, self.limits)
        self.core = StorageCore(self.chain.ledger.genesis, "s0", key_of("s0"), self.log, gate=gate)

    def follow(self) -> None:
        for height in range(self.view.height + 1, self.chain.ledger.height + 1):
            self.view.take(certified(self.chain, height))

    def store(self, batch: Batch) -> None:
        header = batch.header
        self.core.store(batch.encode(), header.producer, key_of(header.producer, header.key_epoch).public)
        self.log.sync()

    def has(self, batch: Batch) -> bool:
        return fetch_digest(self.core, batch.digest()) == batch.encode()


def flood(party: Party, batches: Sequence[Batch]) -> int:
    """Stores batches until one is refused; returns how many were taken."""
    for taken, batch in enumerate(batches):
        try:
            party.store(batch)
        except BehindError:
            return taken
    return len(batches)


@pytest.mark.parametrize(
    ("batch", "reason"),
    [
        (batch_of(b"x", topic="nowhere"), "there is no partition nowhere-0 up to block 1"),
        (batch_of(b"x", partition=2), "there is no partition orders-2"),
        (batch_of(b"x", topic="logs"), "'logs' is not validated"),
        (batch_of(b"x", producer="carol"), "the key of 'carol', epoch 0, is unknown"),
        (batch_of(b"x", key_epoch=1), "the key of 'alice', epoch 1, is unknown"),
        (batch_of(b"x", sequence=101), "sequence 101 is too far ahead of 0"),
    ],
)
def test_what_the_chain_does_not_know_is_refused_for_now(batch: Batch, reason: str) -> None:
    party = Party(chain_with_topic())
    with pytest.raises(BehindError, match=reason):
        party.store(batch)
    assert party.log.end == 0, "nothing was written"


def test_what_the_chain_has_decided_is_refused_for_good() -> None:
    chain = chain_with_topic()
    first, other = batch_of(b"a"), batch_of(b"b")
    chain.block(submitted(first))
    party = Party(chain)
    with pytest.raises(StorageRefusedError, match="sequence 0 is taken: 1 is the next"):
        party.store(other)
    party.store(first)  # one that comes late is needed
    assert party.core.settle() == 0
    assert party.has(first) and not party.core.waiting.total_bytes
    chain.block(chain.act("admin", RevokeKey("alice", 0)))
    party.follow()
    with pytest.raises(StorageRefusedError, match="the key of 'alice' has ended"):
        party.store(batch_of(b"c", sequence=1, previous=first.digest()))


def test_a_party_that_has_not_followed_the_chain_says_so() -> None:
    party = Party(chain_with_topic())
    party.view.is_current = False
    with pytest.raises(BehindError, match="this party still follows the chain, to block 1 so far"):
        party.store(batch_of(b"x"))


def test_plain_events_need_a_partition_too() -> None:
    party = Party(chain_with_topic())
    leaves = (encode_leaf(None, b"x"),)
    with pytest.raises(BehindError, match="no partition nowhere-0"):
        party.core.append_plain(PlainAppend(PartitionName("nowhere", 0), bytes(16), 0, leaves))
    party.core.append_plain(PlainAppend(PartitionName("logs", 0), bytes(16), 0, leaves))


def test_a_producer_may_leave_only_so_much_and_others_are_served() -> None:
    party = Party(chain_with_topic())
    small = [batch_of(b"x", sequence=number) for number in range(10)]
    assert flood(party, small) == 4, "so many batches"
    party = Party(chain_with_topic())
    large = [batch_of(b"x" * 600, sequence=number) for number in range(10)]
    assert flood(party, large) == 2, "so many bytes"
    bobs = [batch_of(b"x" * 600, sequence=number, producer="bob") for number in range(10)]
    assert flood(party, bobs) == 1, "all together have no more room, and bob has his share"
    size = party.log.size_bytes
    assert flood(party, large[2:]) == flood(party, bobs[1:]) == 0 and party.log.size_bytes == size


def test_refusals_do_not_look_at_all_streams_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """What waits is looked through once for each block that the party has seen, not for each request."""
    chain = chain_with_topic()
    party = Party(chain)
    settled, settle = [], StorageCore.settle

    def count(core: StorageCore) -> int:
        settled.append(party.view.height)
        return settle(core)

    monkeypatch.setattr(StorageCore, "settle", count)
    batches = [batch_of(b"x", sequence=number) for number in range(20)]
    assert flood(party, batches) == 4 and settled == [1]
    chain.block()
    party.follow()
    assert flood(party, batches[4:]) == 0 and settled == [1, 2]


def test_who_waits_for_the_next_look_does_not_make_the_party_look_without_a_pause(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    async def test() -> None:
        view = ChainView(chain_with_topic().ledger.genesis)
        waiting = asyncio.ensure_future(view.look_again(60.0))
        await asyncio.sleep(0)
        monkeypatch.setattr(asyncio, "sleep", sleep)
        await view.rest(60.0)
        await waiting

    asyncio.run(asyncio.wait_for(test(), 60))
    assert slept[0] == PAUSE_S


def test_what_is_admitted_makes_room() -> None:
    chain = chain_with_topic()
    party = Party(chain)
    batches = [batch_of(b"x")]
    for number in range(1, 8):
        batches.append(batch_of(b"x", sequence=number, previous=batches[-1].digest()))
    assert flood(party, batches) == 4
    chain.block(*map(submitted, batches[:4]))
    party.follow()
    assert flood(party, batches[4:]) == 4
    assert all(map(party.has, batches))
    party.restart()
    party.core.settle()
    assert party.core.waiting.batches == {"alice": 4}


def test_of_two_batches_with_one_number_the_admitted_one_stays_and_one_pair_as_evidence() -> None:
    chain = chain_with_topic()
    party = Party(chain, replace(LIMITS, producer_batches=100, producer_bytes=1 << 20))
    good, previous = [], bytes(32)
    for number in range(3):
        party.store(batch_of(b"evil", sequence=number, previous=previous))
        good.append(batch_of(b"good", sequence=number, previous=previous))
        party.store(good[-1])
        previous = good[-1].digest()
    chain.block(*map(submitted, good))
    party.follow()
    assert party.core.settle() == 2
    assert all(map(party.has, good))
    ((one, two),) = party.core.evidence("orders")
    assert one.header == good[0].header and two.header.first_sequence == 0
    assert not party.core.waiting.batches and party.core.settle() == 0


def test_what_a_key_left_is_dropped_when_it_ends() -> None:
    chain = chain_with_topic()
    party = Party(chain)
    left = [batch_of(b"x", sequence=number) for number in range(3)]
    assert flood(party, left) == 3
    party.core.settle()
    assert all(map(party.has, left)), "the chain may still admit them, however old they are"
    chain.block(rotate(chain, "alice", 0))
    party.follow()
    assert party.core.settle() == 3
    assert not party.core.waiting.batches
    assert [fetch_digest(party.core, each.digest()) for each in left] == [Absent()] * 3


def test_a_batch_that_is_dropped_before_it_is_durable_is_refused() -> None:
    """An exception that is no answer would cut the connection, and with it all that the peer waits for."""
    chain = chain_with_topic()
    held = Party(chain)

    async def test() -> None:
        party, batch = StorageParty(held.core, held.log, 0.001), batch_of(b"x")
        peer = Peer(Role.PRODUCER, "alice", key_of("alice").public)
        request = Attached(bytes((Operation.STORE,)) + batch.digest(), batch.encode())
        storing = asyncio.ensure_future(party.answer_attached(peer, request))
        while not held.log.end:
            await asyncio.sleep(0)
        chain.block(rotate(chain, "alice", 0))
        held.follow()
        assert held.core.settle() == 1
        committing = asyncio.ensure_future(party.committer.run())
        with pytest.raises(RequestError, match=f"the batch {batch.digest().hex()[:16]} is not kept"):
            await storing
        committing.cancel()

    asyncio.run(test())


def test_a_request_waits_for_the_party_to_read_the_chain_again() -> None:
    """The topic is made after the party has looked; it looks again at once, not when it is due."""
    chain = chain_with_topic()

    class Answering(Away):
        async def status(self) -> OrderingStatus:
            self.asked = 1
            return await super().status()

        async def read(self, first: int, last: int) -> Sequence[CertifiedBlock]:
            self.asked = 0
            return await super().read(first, last)

    async def test() -> None:
        view = ChainView(chain.ledger.genesis)
        log = MemoryLog()
        core = StorageCore(chain.ledger.genesis, "s0", key_of("s0"), log, gate=Gate(view))
        party = StorageParty(core, log, 0.001)
        noted: list[tuple[str, str]] = []
        party.note = lambda peer, limit: noted.append((peer.name, limit))
        tasks = [
            asyncio.ensure_future(party.committer.run()),
            asyncio.ensure_future(follow_chain(view, Answering(chain), every_s=3600)),
        ]
        while not view.is_current:
            await asyncio.sleep(0)
        chain.block(chain.act("admin", SetTopic("fresh", 1, validated=True)))
        batch = batch_of(b"x", topic="fresh")
        peer = Peer(Role.PRODUCER, "alice", key_of("alice").public)
        request = Attached(bytes((Operation.STORE,)) + batch.digest(), batch.encode())
        await party.answer_attached(peer, request)
        nowhere = batch_of(b"x", topic="nowhere")
        request = Attached(bytes((Operation.STORE,)) + nowhere.digest(), nowhere.encode())
        with pytest.raises(RequestError, match="no partition nowhere-0 up to block 2"):
            await party.answer_attached(peer, request)
        assert noted == [("alice", "refused requests")]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    asyncio.run(asyncio.wait_for(test(), 60))


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["store", "admit", "look", "settle", "restart", "rotate", "mark"]),
        st.sampled_from(["alice", "bob"]),
        st.integers(0, 3),
    ),
    max_size=40,
)


@given(steps=STEPS)
@settings(patient, max_examples=60)
def test_an_admitted_batch_is_never_dropped_and_an_impossible_one_always_is(
    steps: list[tuple[str, str, int]],
) -> None:
    """Against the ledger: of each batch that was stored, it alone says whether it is or may be admitted."""
    chain = chain_with_topic()
    party = Party(chain, replace(LIMITS, producer_batches=50, producer_bytes=10**6, total_bytes=10**6))
    stored: dict[bytes, Batch] = {}
    epochs = {"alice": 0, "bob": 0}
    for word, name, variant in steps:
        cursor = chain.ledger.cursor(name, "orders", 0)
        match word:
            case "store":
                made = batch_of(
                    b"%d" % variant,
                    sequence=cursor.next_sequence + variant // 2,
                    previous=cursor.last,
                    producer=name,
                    key_epoch=epochs[name],
                )
                try:
                    party.store(made)
                    stored[made.digest()] = made
                except StorageRefusedError:
                    pass
            case "admit":
                admit_one(chain, list(stored.values()), name, variant)
            case "look":
                party.follow()
            case "settle":
                party.core.let_go(party.view.marks)
                party.core.settle()
            case "restart":
                party.restart()
            case "rotate" if variant == 0:
                chain.block(rotate(chain, name, epochs[name]))
                epochs[name] += 1
            case "mark":
                raise_mark(chain, variant)
    party.follow()
    party.core.let_go(party.view.marks)
    party.core.settle()
    check(chain, party, stored, epochs)


def admit_one(chain: Chain, stored: list[Batch], name: str, variant: int) -> None:
    """Admits one of the stored batches that the chain takes, if there is one."""
    mine = [each for each in stored if each.header.producer == name]
    fitting = [each for each in mine if "Admitted" in repr(chain.preview(submitted(each)))]
    if fitting:
        chain.block(submitted(fitting[variant % len(fitting)]))


def raise_mark(chain: Chain, variant: int) -> None:
    partition = chain.ledger.partition("orders", 0)
    index = min(partition.next_index, partition.low_water + variant)
    if index > partition.low_water:
        chain.block(chain.act("admin", LowWater("orders", 0, index)))


def check(chain: Chain, party: Party, stored: dict[bytes, Batch], epochs: dict[str, int]) -> None:
    low_water = chain.ledger.partition("orders", 0).low_water
    kept = {each.digest for each in chain.ledger.admissions("orders", 0, low_water)}
    convicting = {
        header.digest() for pair in party.core.evidence("orders") for header in pair
    }  # evidence stays
    waiting = 0
    for digest, batch in stored.items():
        header = batch.header
        cursor = chain.ledger.cursor(header.producer, "orders", 0)
        possible = (
            header.first_sequence >= cursor.next_sequence and header.key_epoch == epochs[header.producer]
        )
        waiting += possible
        if digest in kept or possible:
            assert party.has(batch), "it is on the ledger, or may come there"
        elif digest not in convicting:
            assert not party.has(batch), "nobody will ever ask for it"
    assert sum(party.core.waiting.batches.values()) == waiting
