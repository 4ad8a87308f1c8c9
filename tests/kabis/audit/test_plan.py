"""Scanning blocks: certificates, receipts, and how blocks and ranges of them follow one another."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.kabis.audit.here import read_ledger
from tests.kabis.chain import (
    CHAIN,
    STORAGE,
    batch_of,
    certificate_for,
    chain_with_topic,
    key_of,
    make_genesis,
    stored,
    submitted,
    vote,
)
from veristream.kabis.audit.history import History
from veristream.kabis.audit.plan import What, check_ranges, scan_blocks
from veristream.kabis.protocol.actions import JoinGroup
from veristream.kabis.protocol.blocks import Block, CertifiedBlock, transactions_root
from veristream.kabis.protocol.receipts import StorageReceipt, sign_storage_receipt
from veristream.kabis.protocol.transactions import Submit
from veristream_testing.simulation.votes import certify

GENESIS = make_genesis()
FIRST = batch_of(b"a", b"b")
SECOND = batch_of(b"c", sequence=2, previous=FIRST.digest())


def chain_of(*submits: Submit) -> list[CertifiedBlock]:
    """Certified blocks: one with the topics, then one for each batch."""
    chain = chain_with_topic()
    blocks = [chain.blocks[0]]
    for each in submits:
        header, transactions = blocks[-1].header, (each.encode(),)
        following = replace(
            header,
            height=header.height + 1,
            time_ms=header.time_ms + 1,
            previous=blocks[-1].block_id(),
            count=1,
            root=transactions_root(transactions),
        )
        blocks.append(Block(following, transactions))
    return [CertifiedBlock(block, certificate_for(block)) for block in blocks]


def found(blocks: list[CertifiedBlock]) -> list[tuple[str, str, int, int, str]]:
    return [
        (each.kind, each.accused, each.sequence, each.height, each.detail)
        for each in read_ledger(GENESIS, blocks).findings
    ]


def test_a_good_chain_gives_its_batches_its_facts_and_its_range() -> None:
    blocks = chain_of(submitted(FIRST), submitted(SECOND))
    rows = list(scan_blocks(History(GENESIS), blocks))
    assert [row.what for row in rows] == [What.FACT, What.FACT, What.BATCH, What.BATCH, What.RANGE]
    batch, covered = rows[3], rows[4]
    assert (batch.height, batch.sequence, batch.count, batch.digest) == (3, 2, 1, SECOND.digest())
    assert batch.vouched == ("s0", "s1")
    assert (covered.height, covered.last, covered.count) == (1, 3, 3)
    assert (covered.body, covered.digest) == (GENESIS.digest(), blocks[-1].block.block_id())
    assert covered.signatures == 3 * 3 + 2 * 2
    assert found(blocks) == []


def test_what_consumer_groups_do_is_passed_over() -> None:
    chain = chain_with_topic()
    chain.block(chain.act("bob", JoinGroup("g", "i", ("orders",), 10_000)))
    blocks = [CertifiedBlock(block, certificate_for(block)) for block in chain.blocks]
    assert [row.what for row in scan_blocks(History(GENESIS), blocks)] == [What.FACT, What.FACT, What.RANGE]


def spoilt(receipt: StorageReceipt) -> StorageReceipt:
    return replace(receipt, signature=bytes(64))


@pytest.mark.parametrize(
    ("receipts", "party", "detail"),
    [
        ([stored(FIRST)[0], spoilt(stored(FIRST)[1])], "s1", "the receipt is not signed by the party"),
        ([stored(SECOND)[0], stored(FIRST)[1]], "s0", "the receipt is for another batch"),
        (
            [stored(FIRST)[0], sign_storage_receipt(CHAIN, "x", FIRST.digest(), key_of("x"))],
            "x",
            "the receipt is not from a storage party",
        ),
        (stored(FIRST, STORAGE[:1]), "", "1 storage receipts; 2 are required"),
    ],
)
def test_receipts_that_do_not_verify(receipts: list[StorageReceipt], party: str, detail: str) -> None:
    blocks = chain_of(Submit(FIRST.signed, tuple(receipts)))
    assert found(blocks) == [("unverifiable_receipt", party, 0, 2, detail)]
    (batch,) = [row for row in scan_blocks(History(GENESIS), blocks) if row.what == What.BATCH]
    assert party not in batch.vouched


def test_certificates_that_do_not_verify() -> None:
    blocks = chain_of(submitted(FIRST))
    last = blocks[-1].block
    few = certify([vote(number, last.block_id(), 2) for number in (0, 1)])
    other = certificate_for(blocks[0].block)
    forged = replace(
        certificate_for(last), signatures=((0, bytes(64)), *certificate_for(last).signatures[1:])
    )
    for certificate, why in (
        (few, "2 votes of 4 validators"),
        (other, "the votes are for another block"),
        (forged, "the vote of validator 0 is not signed by it"),
    ):
        spoilt_blocks = [blocks[0], CertifiedBlock(last, certificate)]
        assert found(spoilt_blocks) == [("unverifiable_receipt", "", -1, 2, f"invalid certificate: {why}")]


def test_a_transaction_that_is_none() -> None:
    (first,) = chain_of()
    header = replace(first.block.header, count=1, root=transactions_root((b"rubbish",)))
    block = Block(header, (b"rubbish",))
    blocks = [CertifiedBlock(block, certificate_for(block))]
    assert [each[:2] for each in found(blocks)] == [("unverifiable_receipt", "")]


def test_a_block_that_does_not_follow_is_told_within_a_range_and_between_ranges() -> None:
    one, two, three = chain_of(submitted(FIRST), submitted(SECOND))
    gap = ("unverifiable_receipt", "", -1, 3, "block 3 does not follow the previous block")
    assert found([one, three]) == [gap]
    ranges = [
        row
        for part in ([one], [two], [three])
        for row in scan_blocks(History(GENESIS), part)
        if row.what == What.RANGE
    ]
    assert list(check_ranges(GENESIS, ranges[::-1])) == []
    assert [each.height for each in check_ranges(GENESIS, [ranges[0], ranges[2]])] == [3]
    assert [each.height for each in check_ranges(GENESIS, ranges[1:])] == [2]


def test_a_height_that_is_left_out_is_told_even_where_the_ids_fit() -> None:
    one, two = chain_of(submitted(FIRST))
    higher = Block(replace(two.block.header, height=3), two.block.transactions)
    blocks = [one, CertifiedBlock(higher, certificate_for(higher))]
    gap = ("unverifiable_receipt", "", -1, 3, "block 3 does not follow the previous block")
    assert found(blocks) == [gap]
    ranges = [
        row for block in blocks for row in scan_blocks(History(GENESIS), [block]) if row.what == What.RANGE
    ]
    assert [each.height for each in check_ranges(GENESIS, ranges)] == [3]
