"""Snapshots: what is restored goes on as the original does, and each forgery is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.kabis.chain import (
    CHAIN,
    Chain,
    batch_of,
    certificate_for,
    chain_with_topic,
    make_genesis,
    submitted,
)
from tests.kabis.ledger.test_submit import FIRST, SECOND
from veristream.kabis.ledger import group_rules, snapshot
from veristream.kabis.ledger.event_receipts import CertifiedHeader
from veristream.kabis.ledger.follower import Follower
from veristream.kabis.ledger.snapshot import Chunk, FalseSnapshotError, Manifest, Snapshot, restore
from veristream.kabis.protocol.actions import CommitOffsets, JoinGroup, Retention, RevokeKey, SetRetention
from veristream.kabis.protocol.blocks import CertifiedBlock
from veristream.kabis.protocol.outcomes import Already, Reason, Refused

GENESIS = make_genesis()


def used_chain() -> Chain:
    """A chain with an entry in every table, at height 4."""
    chain = chain_with_topic()
    chain.block(submitted(FIRST), submitted(SECOND), chain.register("carol"))
    chain.block(chain.act("alice", JoinGroup("readers", "one", ("orders",), 30_000)))
    chain.block(
        chain.act("alice", CommitOffsets("readers", "one", 1, (("orders", 0, 2),))),
        chain.act("bob", RevokeKey("bob", 0)),
        chain.act("admin", SetRetention("orders", Retention(5, 0))),
    )
    return chain


def taken(chain: Chain) -> tuple[Manifest, list[bytes]]:
    """The snapshot after the chain's last block, and one block more, which certifies it."""
    view = Snapshot.take(chain.ledger)
    chain.block()
    chunks = list(view.chunks())
    return view.describe(chain.certified(chain.ledger.height), len(chunks)), chunks


def test_a_restored_ledger_goes_on_like_the_original() -> None:
    chain = used_chain()
    view = Snapshot.take(chain.ledger)
    chain.block(submitted(batch_of(b"x", producer="carol")))
    third = batch_of(b"d", sequence=FIRST.header.count + SECOND.header.count, previous=SECOND.digest())
    chain.block(submitted(third), chain.act("alice", CommitOffsets("readers", "one", 1, ())))
    chunks = list(view.chunks())
    manifest = Manifest.decode(view.describe(chain.certified(5), len(chunks)).encode())
    restored = restore(GENESIS, manifest, chunks)
    assert (restored.height, restored.last_header) == (4, chain.blocks[3].header)
    assert restored.state_hash() == chain.blocks[4].header.state
    assert restored.preview(submitted(FIRST).encode(), chain.clock_ms) == Already()
    stolen = batch_of(b"z", producer="bob")
    refused = restored.preview(submitted(stolen).encode(), chain.clock_ms)
    assert isinstance(refused, Refused)
    assert refused.reason is Reason.KEY_ENDED
    for block in chain.blocks[4:]:
        restored.apply(block)
        assert restored.last_id == block.block_id()
    assert restored.state_hash() == chain.ledger.state_hash()
    assert restored.prove_key("carol", 0) == chain.ledger.prove_key("carol", 0)
    for index in (0, 1, 2, 3):
        found = list(chain.ledger.admissions("orders", 0, index))
        assert list(restored.admissions("orders", 0, index)) == found
    assert restored.assignment("readers") == chain.ledger.assignment("readers")
    assert restored.groups() == chain.ledger.groups()
    for name in chain.ledger._state.__slots__:
        if name not in ("rosters", "kept"):
            theirs = dict(getattr(chain.ledger._state, name).items())
            assert dict(getattr(restored._state, name).items()) == theirs, name


def test_a_restored_ledger_knows_how_much_clients_subscribed(monkeypatch: pytest.MonkeyPatch) -> None:
    chain = used_chain()
    manifest, chunks = taken(chain)
    restored = restore(GENESIS, manifest, chunks)
    monkeypatch.setattr(group_rules, "SUBSCRIBED_BYTES_MAX", 200)
    another = chain.act("alice", JoinGroup("readers", "two", ("orders",), 30_000))
    outcome = restored.preview(another.encode(), chain.clock_ms)
    assert isinstance(outcome, Refused) and outcome.reason is Reason.TOO_MANY
    assert chain.preview(another) == outcome


def test_a_follower_starts_from_a_snapshot() -> None:
    chain = used_chain()
    manifest, chunks = taken(chain)
    follower = Follower.restore(GENESIS, manifest, chunks)
    assert (follower.next_height, follower.last) == (5, None)
    block = chain.blocks[4]
    assert follower.follow(CertifiedBlock(block, certificate_for(block)), 0) is not None
    assert follower.ledger.state_hash() == chain.ledger.state_hash()


def test_chunks_are_small_and_many(monkeypatch: pytest.MonkeyPatch) -> None:
    chain = used_chain()
    whole = list(Snapshot.take(chain.ledger).chunks())
    monkeypatch.setattr(snapshot, "_CHUNK_ROOM", 600)
    manifest, chunks = taken(chain)
    assert len(chunks) > len(whole) == 1
    assert max(map(len, chunks)) <= 600 + 64
    assert sum(len(Chunk.decode(chunk).leaves) for chunk in chunks) == manifest.leaves
    assert restore(GENESIS, manifest, chunks).state_hash() == manifest.following.header.state
    for wrong in (chunks[:-1], chunks[::-1], [*chunks, chunks[-1]], chunks[1:]):
        with pytest.raises(FalseSnapshotError):
            restore(GENESIS, manifest, wrong)


def test_the_view_stays_as_it_was() -> None:
    chain = used_chain()
    view = Snapshot.take(chain.ledger)
    before = list(view.chunks())
    chain.block(submitted(batch_of(b"x", producer="carol")), chain.register("dave"))
    assert list(view.chunks()) == before
    with pytest.raises(ValueError, match="does not follow the snapshot"):
        view.describe(chain.certified(4), 1)


def test_there_is_no_snapshot_of_version_1_nor_before_the_first_block() -> None:
    with pytest.raises(ValueError, match="version 1"):
        Snapshot.take(chain_with_topic(version=1).ledger)
    with pytest.raises(ValueError, match="no block"):
        Snapshot.take(Chain().ledger)


Leaves = tuple[tuple[bytes, bytes], ...]


def forge(leaves: Leaves) -> Leaves:
    (key, value), *others = leaves
    return ((key, value[:-1] + bytes([value[-1] ^ 1])), *others)


@pytest.mark.parametrize(
    "change",
    [
        forge,
        lambda leaves: leaves[1:],
        lambda leaves: leaves[:-1],
        lambda leaves: (*leaves, leaves[-1]),
        lambda leaves: leaves[::-1],
        lambda leaves: ((b"no key", b""), *leaves),
    ],
)
def test_other_leaves_are_refused(change: Callable[[Leaves], Leaves]) -> None:
    manifest, (chunk,) = taken(used_chain())
    changed = Chunk(0, change(Chunk.decode(chunk).leaves)).encode()
    with pytest.raises(FalseSnapshotError):
        restore(GENESIS, manifest, [changed])
    counted = replace(manifest, leaves=1000)
    with pytest.raises(FalseSnapshotError):
        restore(GENESIS, counted, [changed])


def test_an_extra_leaf_is_refused() -> None:
    """Leaves of a richer state of the same chain, which nobody certified."""
    chain = used_chain()
    manifest, _ = taken(chain)
    chain.block(chain.register("dave"))
    richer = list(Snapshot.take(chain.ledger).chunks())
    with pytest.raises(FalseSnapshotError, match="certified root"):
        restore(GENESIS, replace(manifest, leaves=1000), richer)


def test_an_old_root_is_refused() -> None:
    chain = used_chain()
    old = list(Snapshot.take(chain.ledger).chunks())
    chain.block(chain.register("dave"))
    manifest, _ = taken(chain)
    with pytest.raises(FalseSnapshotError, match="certified root"):
        restore(GENESIS, manifest, old)


def test_too_few_votes_are_refused() -> None:
    chain = used_chain()
    manifest, chunks = taken(chain)
    few = CertifiedHeader(manifest.following.header, certificate_for(chain.blocks[-1], voters=(0, 1)))
    with pytest.raises(FalseSnapshotError, match="two thirds"):
        restore(GENESIS, replace(manifest, following=few), chunks)


def test_votes_for_another_block_are_refused() -> None:
    chain = used_chain()
    manifest, chunks = taken(chain)
    other = CertifiedHeader(manifest.following.header, certificate_for(chain.blocks[-2]))
    with pytest.raises(FalseSnapshotError, match="another block"):
        restore(GENESIS, replace(manifest, following=other), chunks)
    forged = replace(manifest.following, header=replace(manifest.following.header, state=bytes(32)))
    with pytest.raises(FalseSnapshotError, match="another block"):
        restore(GENESIS, replace(manifest, following=forged), chunks)


def test_headers_that_do_not_connect_are_refused() -> None:
    chain = used_chain()
    manifest, chunks = taken(chain)
    for header in (chain.blocks[2].header, replace(manifest.header, time_ms=7)):
        with pytest.raises(FalseSnapshotError, match="does not follow"):
            restore(GENESIS, replace(manifest, header=header), chunks)


def test_another_chain_is_refused() -> None:
    manifest, chunks = taken(used_chain())
    with pytest.raises(FalseSnapshotError, match=f"another chain: {CHAIN}"):
        restore(make_genesis("other-chain"), manifest, chunks)
