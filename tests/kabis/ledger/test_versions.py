"""Protocol versions: an old chain is read as it is, and an ordered action changes it at a height."""

from __future__ import annotations

import pytest

from tests.kabis.chain import Chain, batch_of, certificate_for, chain_with_topic, make_genesis, submitted
from tests.kabis.ledger.test_submit import FIRST, refused
from veristream.errors import ModelError
from veristream.kabis.ledger import rules
from veristream.kabis.ledger.event_receipts import export_receipt, make_receipt, verify_receipt
from veristream.kabis.ledger.key_proofs import LeafKeyProof, SectionKeyProof
from veristream.kabis.ledger.ledger import Ledger
from veristream.kabis.ledger.sections import Sections
from veristream.kabis.ledger.snapshot import Snapshot
from veristream.kabis.ledger.state import Protocol
from veristream.kabis.protocol.actions import JoinGroup, Retention, SetRetention, Upgrade
from veristream.kabis.protocol.blocks import Block
from veristream.kabis.protocol.codec import DecodeError
from veristream.kabis.protocol.genesis import Genesis, from_json, to_json
from veristream.kabis.protocol.outcomes import Already, Reason


def first_hash(ledger: Ledger) -> bytes:
    """The hash of version 1, from nothing."""
    sections = Sections()
    sections.take(ledger._state, ledger._state.entries())
    return sections.root()


def upgraded() -> Chain:
    """A chain of version 1 with an event at height 2, whose version is 2 from height 6 on, at height 7."""
    chain = chain_with_topic(version=1)
    chain.block(submitted(FIRST), chain.act("alice", JoinGroup("g", "i", ("orders",), 5000)))
    chain.block(chain.act("admin", Upgrade(2, 6)))
    for _ in range(4):
        chain.block(chain.register(f"client-{chain.ledger.height}"))
    return chain


def test_the_hash_changes_at_the_height_and_not_before() -> None:
    chain = chain_with_topic(version=1)
    chain.block(submitted(FIRST))
    chain.block(chain.act("admin", Upgrade(2, 6)))
    assert chain.ledger.protocol == Protocol(1, 2, 6)
    for height in (4, 5):
        assert chain.ledger.state_hash() == first_hash(chain.ledger)
        chain.block(chain.register(f"client-{height}"))
    assert (chain.ledger.height, chain.ledger.protocol) == (5, Protocol(2))
    assert chain.ledger.state_hash() != first_hash(chain.ledger)
    Snapshot.take(chain.ledger)
    chain.block()
    replica = Ledger(make_genesis(version=1))
    for block in chain.blocks:
        replica.apply(Block.decode(block.encode()))
    assert replica.state_hash() == chain.ledger.state_hash()


def test_the_root_does_not_show_how_the_chain_came_to_its_version() -> None:
    old, new = upgraded(), chain_with_topic()
    old.block(), new.block()
    fresh = dict(new.ledger._state.protocol.items())
    assert dict(old.ledger._state.protocol.items()) == fresh == {(): Protocol(2)}


@pytest.mark.parametrize("proof", [SectionKeyProof, LeafKeyProof])
def test_receipts_of_both_versions_are_verified(proof: type) -> None:
    chain = upgraded()
    if proof is SectionKeyProof:
        chain = chain_with_topic(version=1)
        chain.block(submitted(FIRST))
    found = chain.ledger.prove_key("alice", 0)
    assert isinstance(found, proof)
    block = chain.blocks[1]
    key = (found, chain.certified(chain.ledger.height))
    file = export_receipt(make_receipt(FIRST, 0, block, certificate_for(block), key))
    assert b"receipt/1" in file if proof is SectionKeyProof else b"receipt/2" in file
    assert verify_receipt(file, make_genesis(version=1)).height == 2


def test_an_upgrade_that_makes_no_sense_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    chain = chain_with_topic(version=1)
    assert refused(chain.preview(chain.act("admin", Upgrade(3, 9)))) is Reason.UNKNOWN_VERSION
    assert refused(chain.preview(chain.act("admin", Upgrade(1, 9)))) is Reason.OUT_OF_RANGE
    assert refused(chain.preview(chain.act("admin", Upgrade(2, 2)))) is Reason.OUT_OF_RANGE
    assert refused(chain.preview(chain.act("alice", Upgrade(2, 9)))) is Reason.NOT_ADMIN
    setting = SetRetention("orders", Retention(1, 0))
    assert refused(chain.preview(chain.act("admin", setting))) is Reason.OLD_VERSION
    monkeypatch.setattr(rules, "VERSION_MAX", 1)
    assert refused(chain.preview(chain.act("admin", Upgrade(2, 9)))) is Reason.UNKNOWN_VERSION
    monkeypatch.undo()
    chain.block(chain.act("admin", Upgrade(2, 9)))
    assert chain.preview(chain.act("admin", Upgrade(2, 9))) == Already()
    chain.block(chain.act("admin", Upgrade(2, 5)))
    assert chain.ledger.protocol == Protocol(1, 2, 5)
    assert refused(chain_with_topic().preview(Chain().act("admin", Upgrade(2, 9)))) is Reason.REPLAYED
    new = chain_with_topic()
    assert refused(new.preview(new.act("admin", Upgrade(2, 9)))) is Reason.OUT_OF_RANGE


def test_an_old_genesis_is_of_version_1_and_keeps_its_digest() -> None:
    old, new = make_genesis(version=1), make_genesis(version=2)
    assert new.encode().removeprefix(old.encode()) == b"\x00\x02"
    assert '"version"' not in to_json(old)
    for genesis in (old, new):
        assert from_json(to_json(genesis)) == Genesis.decode(genesis.encode()) == genesis


def test_a_genesis_of_an_unknown_version_is_refused() -> None:
    newer = make_genesis(version=3)
    with pytest.raises(ModelError, match="protocol version 3, but this program knows 1 to 2"):
        from_json(to_json(newer))
    with pytest.raises(DecodeError, match="protocol version 3"):
        Genesis.decode(newer.encode())
    with pytest.raises(DecodeError, match="version 1 is not written"):
        Genesis.decode(make_genesis(version=1).encode() + b"\x00\x01")
    for wrong in (
        to_json(make_genesis(version=2)).replace("genesis/2", "genesis/1"),
        to_json(make_genesis(version=1)).replace("genesis/1", "genesis/2"),
        to_json(make_genesis(version=2)).replace('"version": 2', '"version": "2"'),
    ):
        with pytest.raises(ModelError, match="version"):
            from_json(wrong)


def test_admissions_are_part_of_the_root() -> None:
    """Two histories with the same partition, which version 1 tells apart by the hash chain alone."""
    roots = set()
    for parties in (("s0", "s1"), ("s1", "s2")):
        chain = chain_with_topic()
        chain.block(submitted(batch_of(b"x"), parties))
        roots.add(chain.ledger.state_hash())
    assert len(roots) == 2
