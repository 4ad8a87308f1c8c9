"""A commit of an earlier generation counts for nothing, even if the partition is its author's once more.

To check that a commit comes from the partition's owner is not enough: the owner of now may have been the
owner before somebody else was, and an old commit of its own would then undo what the other one committed.
"""

from __future__ import annotations

from tests.kabis.chain import batch_of, chain_with_topic, submitted
from tests.kabis.ledger.test_groups import commit, join
from tests.kabis.ledger.test_submit import refused
from veristream.kabis.protocol.actions import LeaveGroup
from veristream.kabis.protocol.outcomes import Done, Reason


def test_an_owner_that_was_one_before_does_not_undo_what_others_committed_in_between() -> None:
    chain = chain_with_topic()
    chain.block(submitted(batch_of(b"a", b"b", b"c")))
    chain.block(chain.act("alice", join()), chain.act("bob", join()))
    late = chain.act("alice", commit(("orders", 0, 1), generation=2), number=50)
    assert chain.preview(late) == Done(), "it counts while the generation lasts"
    chain.block(chain.act("alice", LeaveGroup("readers", "one")))
    chain.block(chain.act("bob", commit(("orders", 0, 3), generation=3)))
    chain.block(chain.act("alice", join()))
    assert chain.ledger.assignment("readers")["orders", 0] == ("alice", "one")
    assert refused(chain.preview(late)) is Reason.WRONG_GENERATION
    assert chain.ledger.committed("readers", "orders", 0) == 3
    assert chain.preview(chain.act("alice", commit(("orders", 0, 3), generation=4), number=51)) == Done()


def test_a_generation_is_never_used_again_even_if_everybody_leaves() -> None:
    chain = chain_with_topic()
    chain.block(submitted(batch_of(b"a", b"b", b"c")))
    chain.block(chain.act("alice", join()))
    late = chain.act("alice", commit(("orders", 0, 1), generation=1), number=50)
    assert chain.preview(late) == Done()
    chain.block(chain.act("alice", LeaveGroup("readers", "one")))
    chain.block(chain.act("alice", join()))
    assert chain.ledger.group("readers").generation == 3
    assert refused(chain.preview(late)) is Reason.WRONG_GENERATION
