"""Blocks: each way not to be the next one, nothing half done, and the same state whatever the way to it."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from tests.kabis.chain import START_MS, Chain, batch_of, chain_with_topic, make_genesis, submitted
from tests.kabis.ledger.test_submit import FIRST, SECOND
from veristream.kabis.ledger import ledger as ledger_module
from veristream.kabis.ledger.ledger import BlockFault, InvalidBlockError, Ledger
from veristream.kabis.protocol.actions import JoinGroup, RevokeKey, SetTopic
from veristream.kabis.protocol.blocks import Block, transactions_root
from veristream.kabis.protocol.codec import DecodeError
from veristream.kabis.protocol.keys import verify
from veristream.kabis.protocol.outcomes import Admitted, Reason, Refused
from veristream.kabis.protocol.transactions import Transaction


@pytest.fixture
def chain() -> Chain:
    return chain_with_topic()


def block_of(chain: Chain, *transactions: Transaction) -> Block:
    """A block of these transactions, whether they take effect or not."""
    encoded = tuple(transaction.encode() for transaction in transactions)
    header = chain.ledger.propose([], chain.clock_ms, "v0").header
    return Block(replace(header, count=len(encoded), root=transactions_root(encoded)), encoded)


def fault_of(chain: Chain, block: Block) -> BlockFault:
    """The fault of a block, the same for `check` and `apply`, neither of which leaves a trace."""
    before = (chain.ledger.state_hash(), chain.ledger.height, chain.ledger.last_id, chain.ledger.time_ms)
    with pytest.raises(InvalidBlockError) as checked:
        chain.ledger.check(block)
    with pytest.raises(InvalidBlockError) as applied:
        chain.ledger.apply(block)
    after = (chain.ledger.state_hash(), chain.ledger.height, chain.ledger.last_id, chain.ledger.time_ms)
    assert before == after
    assert checked.value.fault is applied.value.fault
    return checked.value.fault


HEADER_FAULTS = {
    BlockFault.OTHER_CHAIN: {"chain_id": "other-chain"},
    BlockFault.HEIGHT: {"height": 3},
    BlockFault.PREVIOUS: {"previous": bytes(32)},
    BlockFault.TIME: {"time_ms": START_MS + 10},
    BlockFault.PROPOSER: {"proposer": "alice"},
    BlockFault.STATE: {"state": bytes(32)},
    BlockFault.ROOT: {"root": bytes(32)},
}


@pytest.mark.parametrize(("fault", "change"), HEADER_FAULTS.items())
def test_each_field_of_the_header_must_follow(
    chain: Chain, fault: BlockFault, change: dict[str, object]
) -> None:
    block = block_of(chain, submitted(FIRST))
    assert chain.ledger.check(block) == (Admitted(0, 2),)
    assert fault_of(chain, replace(block, header=replace(block.header, **change))) is fault


def test_a_count_that_is_not_the_transactions_is_a_fault(chain: Chain) -> None:
    block = block_of(chain, submitted(FIRST))
    assert fault_of(chain, replace(block, header=replace(block.header, count=2))) is BlockFault.ROOT
    with pytest.raises(DecodeError, match="do not match the block's header"):
        Block.decode(replace(block, header=replace(block.header, count=2)).encode())
    with pytest.raises(DecodeError, match="do not match the block's header"):
        Block.decode(replace(block, header=replace(block.header, root=bytes(32))).encode())


def test_a_block_with_a_transaction_without_effect_is_no_block(chain: Chain) -> None:
    assert fault_of(chain, block_of(chain, submitted(SECOND))) is BlockFault.TRANSACTION
    assert fault_of(chain, block_of(chain, submitted(FIRST), submitted(FIRST))) is BlockFault.TRANSACTION
    header = chain.ledger.propose([], chain.clock_ms, "v0").header
    junk = Block(replace(header, count=1, root=transactions_root((b"junk",))), (b"junk",))
    assert fault_of(chain, junk) is BlockFault.TRANSACTION
    assert chain.ledger.preview(b"junk", chain.clock_ms) == Refused(Reason.MALFORMED, "not a transaction")


def test_a_block_has_a_limit(chain: Chain, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger_module, "TRANSACTIONS_MAX", 1)
    assert fault_of(chain, block_of(chain, submitted(FIRST), submitted(SECOND))) is BlockFault.TOO_LARGE
    encoded = [submitted(FIRST).encode(), submitted(SECOND).encode()]
    assert chain.ledger.select(encoded, chain.clock_ms) == (encoded[0],)
    monkeypatch.undo()
    monkeypatch.setattr(ledger_module, "_BLOCK_ROOM", len(encoded[0]) + 4)
    assert chain.ledger.select(encoded, chain.clock_ms) == (encoded[0],)


def test_the_first_block_follows_the_genesis() -> None:
    chain = Chain()
    block = chain.ledger.propose([], 0, "v3")
    assert (block.header.previous, block.header.time_ms) == (make_genesis().digest(), START_MS + 1)
    assert chain.ledger.apply(block) == ()
    assert (chain.ledger.height, chain.ledger.last_id) == (1, block.block_id())
    assert Ledger(make_genesis("other-chain")).state_hash() == Ledger(make_genesis()).state_hash()
    with pytest.raises(InvalidBlockError, match="another chain"):
        Ledger(make_genesis("other-chain")).apply(block)


def test_a_proposals_time_is_the_clock_or_just_after_the_last(chain: Chain) -> None:
    assert chain.ledger.propose([], 0, "v0").header.time_ms == chain.ledger.time_ms + 1
    assert (
        chain.ledger.propose([], chain.ledger.time_ms + 5, "v0").header.time_ms == chain.ledger.time_ms + 5
    )


def test_replaying_the_encoded_blocks_gives_the_same_ledger(chain: Chain) -> None:
    chain.block(
        submitted(FIRST), submitted(SECOND), chain.act("alice", JoinGroup("g", "i", ("orders",), 5000))
    )
    chain.block(chain.register("carol"), chain.act("bob", RevokeKey("bob", 0)))
    replica = Ledger(make_genesis())
    for block in chain.blocks:
        replica.apply(Block.decode(block.encode()))
        assert replica.height == block.header.height
    assert replica.state_hash() == chain.ledger.state_hash()
    assert replica.prove_key("carol", 0) == chain.ledger.prove_key("carol", 0)


def test_independent_transactions_give_one_state_in_any_order() -> None:
    """Entries are put into the tables in another order each time; the hash does not show it."""
    hashes = set()
    for seed in range(20):
        chain = chain_with_topic()
        actions = [chain.act("admin", SetTopic(f"t{number}", 1, validated=True)) for number in range(1)]
        batches = [
            submitted(batch_of(b"x", producer=producer, partition=partition))
            for producer, partition in (("alice", 0), ("bob", 1))
        ]
        joins = [chain.act(name, JoinGroup(f"g-{name}", "i", (), 5000)) for name in ("alice", "bob")]
        transactions = [*actions, *batches, *joins]
        random.Random(seed).shuffle(transactions)
        chain.block(*transactions)
        hashes.add(chain.ledger.state_hash())
    assert len(hashes) == 1


def test_the_hash_shows_every_difference() -> None:
    def after(*transactions: Transaction) -> bytes:
        chain = chain_with_topic()
        chain.block(*transactions, clock_ms=START_MS + 100)
        return chain.ledger.state_hash()

    acting = chain_with_topic()
    bob = batch_of(b"x", b"y", producer="bob")
    states = [
        after(),
        after(submitted(FIRST)),
        after(submitted(batch_of(b"a", b"c"))),
        after(submitted(FIRST), submitted(bob)),
        after(submitted(bob), submitted(FIRST)),
        after(acting.act("admin", SetTopic("orders", 3, validated=True))),
        after(acting.act("admin", SetTopic("orders", 2, validated=False))),
        after(acting.register("carol")),
        after(acting.act("admin", RevokeKey("alice", 0))),
        after(acting.act("alice", JoinGroup("g", "i", (), 5000))),
        after(acting.act("alice", JoinGroup("g", "i", ("orders",), 5000))),
    ]
    assert len(set(states)) == len(states)


def test_a_signature_is_verified_once_for_mempool_proposal_and_block() -> None:
    seen: list[bytes] = []

    def check(public: bytes, message: bytes, signature: bytes) -> None:
        seen.append(signature)
        verify(public, message, signature)

    chain = Chain(Ledger(make_genesis(), check))
    chain.block(chain.act("admin", SetTopic("orders", 1, validated=True)))
    seen.clear()
    chain.ledger.preview(submitted(FIRST).encode(), chain.clock_ms)
    chain.block(submitted(FIRST))
    assert len(seen) == len(set(seen)) == 3
