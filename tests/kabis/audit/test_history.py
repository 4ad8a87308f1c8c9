"""The audit judges each block by the members of its height."""

from __future__ import annotations

from dataclasses import replace

from tests.kabis.audit.here import read_ledger
from tests.kabis.chain import batch_of, make_genesis, submitted
from tests.kabis.ledger.changing import (
    FOUNDING,
    Changing,
    certify_block,
    change,
    changed_twice,
    member,
    replaced,
)
from veristream.kabis.audit.history import find_history
from veristream.kabis.protocol.actions import SetTopic
from veristream.kabis.protocol.blocks import CertifiedBlock, transactions_root


def blocks_of(chain: Changing) -> list[CertifiedBlock]:
    return [chain.certified_block(height) for height in range(1, chain.ledger.height + 1)]


def test_changes_are_found_and_nothing_is_wrong_with_them() -> None:
    chain = changed_twice()
    blocks = blocks_of(chain)
    history = find_history(make_genesis(), blocks)
    assert [begun for begun, _ in history.changes] == [4, 9]
    assert all(history.at(height) == chain.ledger.members_at(height) for height in range(1, 14))
    assert history.storage_names() == ("s0", "s1", "s2", "s3", "s4")
    assert read_ledger(make_genesis(), blocks).findings == []


def test_a_certificate_of_validators_that_left_is_a_finding() -> None:
    blocks = blocks_of(changed_twice())
    blocks[3] = certify_block(blocks[3].block, FOUNDING)
    (finding,) = read_ledger(make_genesis(), blocks).findings
    assert (finding.kind, finding.role, finding.height) == ("unverifiable_receipt", "ledger", 4)
    assert "not signed by it" in finding.detail


def test_a_receipt_of_a_party_that_left_is_a_finding() -> None:
    chain = Changing()
    chain.block(chain.act("admin", SetTopic("orders", 1, validated=True)))
    batch = batch_of(b"x")
    late = chain.ledger.propose([submitted(batch).encode()], chain.clock_ms, "v0")
    chain.set_members(replaced(FOUNDING, "s1", member("s5")), 4)
    chain.grow(3)
    header = replace(chain.ledger.propose([], chain.clock_ms, "v0").header, count=1, root=late.header.root)
    forged = certify_block(replace(late, header=header), chain.ledger.members)
    (finding,) = read_ledger(make_genesis(), [*blocks_of(chain), forged]).findings
    assert (finding.role, finding.accused, finding.height) == ("storage", "s1", 4)
    assert finding.detail == "the receipt is not from a storage party"


def test_members_that_no_admin_ordered_are_a_finding_and_change_no_evidence() -> None:
    chain = Changing()
    block = chain.ledger.propose([], chain.clock_ms, "v0")
    action = chain.act("alice", change(FOUNDING, replaced(FOUNDING, "v0", member("v4")), 3))
    encoded = (action.encode(),)
    header = replace(block.header, count=1, root=transactions_root(encoded))
    forged = certify_block(replace(block, header=header, transactions=encoded), FOUNDING)
    (finding,) = read_ledger(make_genesis(), [forged]).findings
    assert (finding.kind, finding.role, finding.detail) == (
        "no_right",
        "ledger",
        "no admin changed the members",
    )
