"""What a storage party follows of the chain: keys that end, batches let go, validators that are away."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kabis.chain import CHAIN, Chain, batch_of, certificate_for, chain_with_topic, key_of, submitted
from tests.kabis.strategies import patient
from veristream.kabis.channels.interfaces import OrderingStatus
from veristream.kabis.cluster import storage_process
from veristream.kabis.ledger.snapshot import Manifest, Snapshot, restore
from veristream.kabis.log.disk.log import Log, LogOptions
from veristream.kabis.log.disk.segment import FRAME_BYTES, HEADER_BYTES
from veristream.kabis.protocol.actions import LowWater, RevokeKey, RotateKey
from veristream.kabis.protocol.answers import Below
from veristream.kabis.protocol.batch import Batch
from veristream.kabis.protocol.blocks import CertifiedBlock
from veristream.kabis.protocol.codec import ZERO_DIGEST
from veristream.kabis.protocol.genesis import Party
from veristream.kabis.protocol.outcomes import Outcome
from veristream.kabis.protocol.partitions import PartitionName, StreamName, stream_of
from veristream.kabis.protocol.transactions import BatchConflict, Signed, Transaction, prove_possession
from veristream.kabis.storage.chain import ChainView, KeyStanding, NotNextError, follow_chain
from veristream.kabis.storage.core import StorageCore
from veristream.kabis.storage.party import Directory
from veristream.kabis.wire.connection import RequestError
from veristream.kabis.wire.endpoints import Address
from veristream.kabis.wire.handshake import Peer, Role
from veristream_testing.storage_client import fetch_first

Value = TypeVar("Value")

STREAM = StreamName("orders", 0, "alice", 0)


def certified(chain: Chain, height: int) -> CertifiedBlock:
    block = chain.blocks[height - 1]
    return CertifiedBlock(block, certificate_for(block))


def view_of(chain: Chain) -> ChainView:
    view = ChainView(chain.ledger.genesis)
    for height in range(1, chain.ledger.height + 1):
        view.take(certified(chain, height))
    return view


def rotate(chain: Chain, name: str, key_epoch: int) -> Signed:
    """The client's own replacement of its key by the next."""
    key = key_of(name, key_epoch + 1)
    possession = prove_possession(CHAIN, name, key_epoch + 1, key)
    return chain.act(name, RotateKey(key.public, possession), key_epoch)


def standing(chain: Chain, name: str, key_epoch: int = 0) -> KeyStanding:
    return view_of(chain).standing(name, key_of(name, key_epoch).public)


def test_a_key_is_known_from_its_registration_to_its_end() -> None:
    chain = chain_with_topic()
    assert standing(chain, "alice") is KeyStanding.VALID
    assert standing(chain, "carol") is KeyStanding.UNKNOWN
    chain.block(chain.register("carol"))
    assert standing(chain, "carol") is KeyStanding.VALID
    chain.block(rotate(chain, "carol", 0))
    assert [standing(chain, "carol", epoch) for epoch in (0, 1)] == [KeyStanding.ENDED, KeyStanding.VALID]
    chain.block(chain.act("admin", RevokeKey("carol", 1)))
    assert [standing(chain, "carol", epoch) for epoch in (0, 1)] == [KeyStanding.ENDED] * 2
    assert standing(chain, "alice") is KeyStanding.VALID
    assert view_of(chain).standing("alice", key_of("carol", 1).public) is KeyStanding.UNKNOWN


def test_a_key_that_signed_twice_has_ended() -> None:
    chain = chain_with_topic()
    first, second = batch_of(b"a"), batch_of(b"b")
    chain.block(submitted(first))
    assert standing(chain, "alice") is KeyStanding.VALID
    chain.block(BatchConflict(first.signed, second.signed))
    assert standing(chain, "alice") is KeyStanding.ENDED


def batches(count: int, size: int = 2) -> list[Batch]:
    made: list[Batch] = []
    for number in range(count):
        previous = made[-1].digest() if made else ZERO_DIGEST
        values = [b"event %d" % (number * size + each) for each in range(size)]
        made.append(batch_of(*values, sequence=number * size, previous=previous))
    return made


def test_whole_batches_below_the_mark_are_let_go() -> None:
    chain = chain_with_topic()
    chain.block(*map(submitted, batches(4)))
    assert view_of(chain).marks == {}
    chain.block(chain.act("admin", LowWater("orders", 0, 5)))
    assert view_of(chain).marks == {STREAM: 4}  # of the third batch one event is still wanted
    chain.block(chain.act("admin", LowWater("orders", 0, 8)))
    assert view_of(chain).marks == {STREAM: 8}


SCRIPTS = st.lists(st.sampled_from(["alice", "bob", "carol", "rotate", "revoke", "mark"]), max_size=12)


@given(script=SCRIPTS, data=st.data())
@settings(patient, max_examples=40)
def test_the_view_says_what_the_ledger_says(script: list[str], data: st.DataObject) -> None:
    chain = chain_with_topic()
    chain.block(chain.register("carol"))
    pushed: list[Batch] = []
    for word in script:
        transaction = step(chain, word, pushed, data)
        if transaction is not None:
            chain.block(transaction)
    view = view_of(chain)
    assert (view.height, view.standing("nobody", bytes(32))) == (chain.ledger.height, KeyStanding.UNKNOWN)
    for name in ("alice", "bob", "carol", "admin"):
        account = chain.ledger.account(name)
        assert account is not None
        for epoch in range(account.key_epoch + 1):
            key = chain.ledger.key(name, epoch)
            assert key is not None
            valid = view.standing(name, key.public) is KeyStanding.VALID
            assert valid is (key.ending is None)
    kept = {each.digest for each in chain.ledger.admissions("orders", 0, low_water(chain))}
    for batch in pushed:
        let_go = view.marks.get(stream_of(batch.header), 0) >= batch.header.next_sequence
        assert let_go is (batch.digest() not in kept)


def low_water(chain: Chain) -> int:
    return chain.ledger.partition("orders", 0).low_water


def step(chain: Chain, word: str, pushed: list[Batch], data: st.DataObject) -> Transaction | None:
    """One transaction that takes effect; None where there is none of this kind."""
    if word == "mark":
        partition = chain.ledger.partition("orders", 0)
        if partition.low_water == partition.next_index:
            return None
        index = data.draw(st.integers(partition.low_water + 1, partition.next_index))
        return chain.act("admin", LowWater("orders", 0, index))
    name = word if word in ("alice", "bob") else "carol"
    account = chain.ledger.account(name)
    assert account is not None
    key = chain.ledger.key(name, account.key_epoch)
    if key is None or key.ending is not None:
        return None
    match word:
        case "rotate":
            return rotate(chain, name, account.key_epoch)
        case "revoke":
            return chain.act("admin", RevokeKey(name, account.key_epoch))
        case _:
            cursor = chain.ledger.cursor(name, "orders", 0)
            values = [b"x"] * data.draw(st.integers(1, 3))
            place = {"sequence": cursor.next_sequence, "previous": cursor.last, "producer": name}
            pushed.append(batch_of(*values, key_epoch=account.key_epoch, **place))
            return submitted(pushed[-1])


def test_a_block_that_is_not_the_next_is_not_taken() -> None:
    chain = chain_with_topic()
    chain.block(chain.register("carol"))
    view = ChainView(chain.ledger.genesis)
    with pytest.raises(NotNextError, match="block 2 does not follow block 0"):
        view.take(certified(chain, 2))
    other = Chain()
    other.block(other.register("dave"))
    view.take(certified(other, 1))
    with pytest.raises(NotNextError):
        view.take(certified(chain, 2))
    assert view.standing("dave", key_of("dave").public) is KeyStanding.VALID


# Who is let in.


def peer(name: str, role: Role = Role.PRODUCER, key_epoch: int = 0) -> Peer:
    return Peer(role, name, key_of(name, key_epoch).public)


def test_the_chain_has_the_last_word_on_keys() -> None:
    chain = chain_with_topic()
    clients = (Party("dave", key_of("dave").public),)
    view = ChainView(chain.ledger.genesis)
    directory = Directory(chain.ledger.genesis, lambda: clients, chain=view)
    carol, dave = peer("carol"), peer("dave")
    assert directory.authorize(carol) == "'carol' is not registered with this key as producer"
    assert directory.authorize(dave) is None  # the file vouches for whom the chain does not know yet
    chain.block(chain.register("carol"), chain.register("dave"))
    for height in (1, 2):
        view.take(certified(chain, height))
    assert directory.authorize(carol) is None
    chain.block(chain.act("admin", RevokeKey("dave", 0)), rotate(chain, "alice", 0))
    view.take(certified(chain, 3))
    for ended in (dave, peer("alice"), peer("alice", Role.CONSUMER)):
        assert directory.authorize(ended) == f"the key of {ended.name!r} has ended"
        with pytest.raises(RequestError, match="has ended"):
            directory.require_valid(ended)
    assert directory.authorize(peer("alice", key_epoch=1)) is None
    directory.require_valid(carol)
    assert directory.authorize(peer("carol", Role.ADMIN)) is not None
    assert directory.authorize(peer("admin", Role.ADMIN)) is None


# The disk.


def test_the_disk_is_freed_and_says_so_for_ever(tmp_path: Path) -> None:
    """What the chain let go leaves the disk with whole files, and is below retention, not absent."""
    chain = chain_with_topic()
    made = batches(50, size=10)
    options = LogOptions(segment_bytes_max=4096)
    with Log(tmp_path, options) as log:
        core = StorageCore(chain.ledger.genesis, "s0", key_of("s0"), log)
        for each in made:
            core.store(each.encode(), "alice", key_of("alice").public)
            log.sync(now=True)
            chain.block(submitted(each))
        before = log.size_bytes
        assert (core.let_go(view_of(chain).marks), core.retain()) == (0, 0)
        chain.block(chain.act("admin", LowWater("orders", 0, 400)))
        view = view_of(chain)
        assert (core.let_go(view.marks), core.let_go(view.marks)) == (1, 0)
        assert 30 < core.retain() <= 40
        assert log.size_bytes < before / 2
    with Log(tmp_path, options) as log:
        core = StorageCore(chain.ledger.genesis, "s0", key_of("s0"), log)
        assert fetch_first(core, STREAM, 0) == fetch_first(core, STREAM, 390) == Below(400)
        assert fetch_first(core, STREAM, 400) == made[40].encode()
        assert core.let_go(view.marks) == 0


def test_a_party_lets_go_of_no_more_than_it_has(tmp_path: Path) -> None:
    chain = chain_with_topic()
    made = batches(4)
    chain.block(*map(submitted, made))
    chain.block(chain.act("admin", LowWater("orders", 0, 8)))
    with Log(tmp_path) as log:
        core = StorageCore(chain.ledger.genesis, "s0", key_of("s0"), log)
        marks = view_of(chain).marks
        assert core.let_go(marks) == 0
        core.store(made[0].encode(), "alice", key_of("alice").public)
        assert core.let_go(marks) == 1
        core.store(made[1].encode(), "alice", key_of("alice").public)  # one that comes late
        assert (core.let_go(marks), fetch_first(core, STREAM, 0)) == (1, Below(4))


# Following.


class Away:
    """Validators that answer only every other time, and give few blocks at once."""

    def __init__(self, chain: Chain) -> None:
        self.chain = chain
        self.asked = 0

    async def submit(self, validator: int, transaction: bytes) -> Outcome:
        raise AssertionError("a storage party submits nothing")

    def follow(self, height: int) -> AsyncIterator[CertifiedBlock]:
        raise AssertionError("blocks are read when there are some")

    async def status(self) -> OrderingStatus:
        self.asked += 1
        if self.asked % 2:
            raise TimeoutError
        return OrderingStatus(self.chain.ledger.height, 3, enough=True)

    def heed(self, changes: object, height: int) -> None:
        """There are no changes."""

    async def spread(self, height: int) -> None:
        raise AssertionError("a storage party decides nothing")

    async def snapshot(
        self,
        above: int,
        use: Callable[[Manifest, Sequence[bytes]], Value],
        moved: Callable[[], object] = lambda: None,
    ) -> Value | None:
        return None

    async def read(self, first: int, last: int) -> Sequence[CertifiedBlock]:
        self.asked += 1
        if self.asked % 3 == 0:
            raise ConnectionResetError
        return [certified(self.chain, height) for height in range(first, min(last, first + 1) + 1)]

    async def close(self) -> None:
        """There is nothing to let go of."""


def test_following_goes_on_when_validators_come_back() -> None:
    chain = chain_with_topic()
    for number in range(6):
        chain.block(chain.register(f"client-{number}"))
    view = ChainView(chain.ledger.genesis)

    async def test() -> None:
        task = asyncio.ensure_future(follow_chain(view, Away(chain), every_s=0))
        async with asyncio.timeout(30):
            while view.height < 7:
                await asyncio.sleep(0)
            chain.block(chain.act("admin", RevokeKey("client-3", 0)))
            while view.height < 8:
                await asyncio.sleep(0)
        assert not task.done()
        task.cancel()

    asyncio.run(test())
    assert view.standing("client-3", key_of("client-3").public) is KeyStanding.ENDED
    assert view.standing("client-4", key_of("client-4").public) is KeyStanding.VALID


def test_one_wanted_batch_does_not_keep_the_rest_on_disk(tmp_path: Path) -> None:
    """Bob's batch waits for ever in the oldest segment; what was released around it leaves the disk."""
    chain = chain_with_topic()
    made = batches(200, size=10)
    waiting = batch_of(b"mine", producer="bob")
    options = LogOptions(segment_bytes_max=16384)
    with Log(tmp_path, options) as log:
        core = StorageCore(chain.ledger.genesis, "s0", key_of("s0"), log)
        core.store(waiting.encode(), "bob", key_of("bob").public)
        for each in made:
            core.store(each.encode(), "alice", key_of("alice").public)
            chain.block(submitted(each))
        log.sync(now=True)
        chain.block(chain.act("admin", LowWater("orders", 0, 1990)))
        core.let_go(view_of(chain).marks)
        before = log.size_bytes
        assert core.retain() == 0, "the oldest segment is wanted"
        while core.compact():
            continue
        assert log.size_bytes < before / 4
    with Log(tmp_path, options) as log:
        core = StorageCore(chain.ledger.genesis, "s0", key_of("s0"), log)
        assert core.lost_count == 0
        assert fetch_first(core, StreamName("orders", 0, "bob", 0), 0) == waiting.encode()
        assert fetch_first(core, STREAM, 0) == Below(1990)
        assert fetch_first(core, STREAM, 1990) == made[-1].encode()
        fresh = batch_of(b"next", sequence=2000, previous=made[-1].digest())
        core.store(fresh.encode(), "alice", key_of("alice").public)
        log.sync(now=True)
        (entry,) = core.fetch_plain(PartitionName("orders", 0), 2001, 10**6).entries
        assert entry.first_offset == 2001, "no offset is used again"


def test_a_view_that_resumes_from_a_snapshot_knows_what_the_others_know() -> None:
    chain, previous = chain_with_topic(), {"alice": ZERO_DIGEST, "bob": ZERO_DIGEST}
    whole = ChainView(chain.ledger.genesis)

    def push(producer: str, sequence: int, key_epoch: int = 0) -> None:
        batch = batch_of(
            b"x",
            b"y",
            sequence=2 * sequence,
            previous=previous[producer],
            producer=producer,
            key_epoch=key_epoch,
        )
        previous[producer] = batch.digest()
        chain.block(submitted(batch))

    for sequence in range(6):
        push("alice", sequence)
        push("bob", sequence)
    chain.block(chain.register("carol"))
    chain.block(chain.act("admin", LowWater("orders", 0, 9)), chain.act("admin", RevokeKey("bob", 0)))
    snapshot = Snapshot.take(chain.ledger)
    push("alice", 6)
    following = chain.certified(chain.ledger.height)
    chunks = list(snapshot.chunks())
    resumed = ChainView(chain.ledger.genesis)
    resumed.resume(restore(chain.ledger.genesis, snapshot.describe(following, len(chunks)), chunks))
    chain.block(chain.act("admin", LowWater("orders", 0, 13)))
    for height in range(1, chain.ledger.height + 1):
        whole.take(certified(chain, height))
    for height in range(resumed.height + 1, chain.ledger.height + 1):
        resumed.take(certified(chain, height))
    assert (resumed.height, resumed.topics) == (whole.height, whole.topics)
    for name in ("alice", "bob", "carol", "nobody"):
        assert resumed.standing(name, key_of(name).public) is whole.standing(name, key_of(name).public)
        stream = StreamName("orders", 0, name, 0)
        assert resumed.next_sequence(stream) == whole.next_sequence(stream)
        assert resumed.marks.get(stream) == whole.marks.get(stream)
        for sequence in range(16):
            assert resumed.digest_of(stream, sequence) == whole.digest_of(stream, sequence)


def test_a_party_whose_next_block_is_pruned_takes_a_snapshot() -> None:
    chain = chain_with_topic()
    chain.block(chain.register("carol"))
    snapshot = Snapshot.take(chain.ledger)
    chain.block(chain.register("dave"))
    chunks = list(snapshot.chunks())
    manifest = snapshot.describe(chain.certified(3), len(chunks))
    view = ChainView(chain.ledger.genesis)

    class Pruned(Away):
        async def read(self, first: int, last: int) -> Sequence[CertifiedBlock]:
            return [] if first < 3 else [certified(chain, 3)]

        async def snapshot(
            self,
            above: int,
            use: Callable[[Manifest, Sequence[bytes]], Value],
            moved: Callable[[], object] = lambda: None,
        ) -> Value | None:
            return use(manifest, chunks) if above < 2 else None

    async def test() -> None:
        task = asyncio.ensure_future(follow_chain(view, Pruned(chain), every_s=0))
        async with asyncio.timeout(30):
            while view.height < 3:
                await asyncio.sleep(0)
        task.cancel()

    asyncio.run(test())
    assert view.standing("carol", key_of("carol").public) is KeyStanding.VALID
    assert view.standing("dave", key_of("dave").public) is KeyStanding.VALID


def test_one_rotten_record_neither_stops_a_party_nor_keeps_the_rest_on_disk(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    chain = chain_with_topic()
    log_options = LogOptions(segment_bytes_max=16384)
    options = storage_process.Options(
        tmp_path, chain.ledger.genesis, "s0", key_of("s0"), Address("127.0.0.1", 0), log_options
    )
    with Log(tmp_path, log_options) as log:
        core = StorageCore(chain.ledger.genesis, "s0", key_of("s0"), log)
        core.store(batch_of(b"mine", producer="bob").encode(), "bob", key_of("bob").public)
        for each in batches(200, size=10):
            core.store(each.encode(), "alice", key_of("alice").public)
            chain.block(submitted(each))
        log.sync(now=True)
        chain.block(chain.act("admin", LowWater("orders", 0, 1990)))
        before = log.size_bytes
        rotten = min(tmp_path.glob("*.segment"))
        contents = bytearray(rotten.read_bytes())
        contents[HEADER_BYTES + FRAME_BYTES] ^= 1
        rotten.write_bytes(contents)

        async def test() -> None:
            every = replace(options, retain_every_s=0.001)
            task = asyncio.ensure_future(storage_process._retain(every, core, view_of(chain)))
            async with asyncio.timeout(60):
                while log.size_bytes > before / 2 and not task.done():
                    await asyncio.sleep(0.001)
            assert not task.done(), task
            task.cancel()

        asyncio.run(test())
    assert caplog.text.count(f"{rotten} is damaged at byte") == 1
    assert rotten.read_bytes() == contents, "it is left for a repair"
