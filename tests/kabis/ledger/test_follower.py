"""A client believes a block for its certificate alone, and a certificate only for the block it is of."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.kabis.chain import Chain, certificate_for, make_genesis
from veristream.kabis.ledger.follower import FalseBlockError, Follower
from veristream.kabis.protocol.actions import SetTopic
from veristream.kabis.protocol.blocks import Block, CertifiedBlock


def make_blocks() -> tuple[Block, Block]:
    """The block that was decided, and one that would follow as well but was not."""
    decided, other = Chain(), Chain()
    decided.block(decided.act("admin", SetTopic("orders", 2, validated=True)))
    other.block(other.act("admin", SetTopic("orders", 9, validated=False)))
    return decided.blocks[0], other.blocks[0]


def false_blocks() -> dict[str, tuple[CertifiedBlock, str]]:
    decided, other = make_blocks()
    good, of_other = certificate_for(decided), certificate_for(other)
    transferred = replace(good, block_id=other.block_id())
    repeated = replace(of_other, signatures=(of_other.signatures[0],) * 3)
    unknown = replace(of_other, signatures=(*of_other.signatures[:2], (4, of_other.signatures[2][1])))
    higher = replace(decided, header=replace(decided.header, height=2))
    return {
        "two votes of four": (CertifiedBlock(other, certificate_for(other, (0, 1))), "2 votes of 4"),
        "no votes": (CertifiedBlock(other, replace(of_other, signatures=())), "0 votes of 4"),
        "one vote three times": (CertifiedBlock(other, repeated), "strictly ascending order"),
        "a vote of nobody": (CertifiedBlock(other, unknown), "no validator 4"),
        "votes for another block": (CertifiedBlock(other, transferred), "not signed"),
        "a certificate of another block": (CertifiedBlock(other, good), "for another block"),
        "a certificate of another height": (
            CertifiedBlock(decided, replace(good, height=2)),
            "for another block",
        ),
        "a height too far": (CertifiedBlock(higher, certificate_for(higher)), "height"),
    }


@pytest.mark.parametrize("name", false_blocks())
def test_a_false_block_changes_nothing_and_the_true_one_is_followed(name: str) -> None:
    false, why = false_blocks()[name]
    follower = Follower(make_genesis())
    before = follower.ledger.state_hash
    with pytest.raises(FalseBlockError, match=why):
        follower.follow(false, 1)
    assert (follower.ledger.height, follower.last, follower.ledger.state_hash) == (0, None, before)
    decided, _ = make_blocks()
    followed = follower.follow(CertifiedBlock(decided, certificate_for(decided)), 2)
    assert followed is not None and len(followed.changes) == 1
    topic = follower.ledger.topic("orders")
    assert topic is not None and (topic.partitions, topic.validated) == (2, True)


def test_a_block_that_is_known_is_passed_over() -> None:
    decided, other = make_blocks()
    follower = Follower(make_genesis())
    certified = CertifiedBlock(decided, certificate_for(decided))
    assert follower.follow(certified, 1) is not None
    assert follower.follow(certified, 2) is None
    assert follower.follow(CertifiedBlock(other, certificate_for(other)), 3) is None
    assert follower.ledger.height == 1
