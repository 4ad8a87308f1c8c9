"""How far consumer groups are, by the ledger."""

from __future__ import annotations

from tests.kabis.chain import batch_of, chain_with_topic, submitted
from veristream.kabis.client.administration import GroupLag, list_lags
from veristream.kabis.protocol.actions import CommitOffsets, JoinGroup, LeaveGroup, LowWater


def test_the_lag_of_a_group_is_what_is_left_for_it() -> None:
    """`orders` has two partitions and is validated; `logs` is not, so that the ledger has no end of it."""
    chain = chain_with_topic()
    assert list_lags(chain.ledger) == []
    chain.block(
        submitted(batch_of(b"a", b"b", b"c")),
        chain.act("bob", JoinGroup("billing", "0", ("logs", "orders"), 10_000)),
    )
    fresh = [
        GroupLag("billing", "logs", 0, "bob/0", None, None, None),
        GroupLag("billing", "orders", 0, "bob/0", None, 3, 3),
        GroupLag("billing", "orders", 1, "bob/0", None, 0, 0),
    ]
    assert list_lags(chain.ledger) == fresh
    generation = chain.ledger.group("billing").generation
    commit = CommitOffsets("billing", "0", generation, (("logs", 0, 70), ("orders", 0, 1)))
    chain.block(chain.act("bob", commit))
    assert list_lags(chain.ledger) == [
        GroupLag("billing", "logs", 0, "bob/0", 70, None, None),
        GroupLag("billing", "orders", 0, "bob/0", 1, 3, 2),
        fresh[2],
    ]
    chain.block(chain.act("admin", LowWater("orders", 0, 2)), chain.act("bob", LeaveGroup("billing", "0")))
    assert list_lags(chain.ledger) == [
        GroupLag("billing", "logs", 0, None, 70, None, None),
        GroupLag("billing", "orders", 0, None, 1, 3, 1),  # what was let go is not left for anybody
    ]
