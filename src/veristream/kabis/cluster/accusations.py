"""Who was caught lying, as the ledger has it: evidence stands there a block or more after the lie."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from itertools import cycle

from veristream.kabis.client.administration import PATIENCE_S as LEDGER_S
from veristream.kabis.client.administration import Replica, visit
from veristream.kabis.cluster.access import Access
from veristream.kabis.cluster.folder import ADMIN
from veristream.kabis.protocol.actions import SetTopic

VOTED_ON = "votes"
"""A topic without events, there to be changed to and fro."""
VOTE_EVERY_S = 0.5


def wait_for_accusations(access: Access, patience_s: float) -> dict[str, int]:
    """Everybody who stands accused, each with the block of the evidence; nobody if none comes in time.

    A validator lies when it votes, and one that was slow may have voted on nothing yet: until somebody is
    caught the admin gives all of them something to vote on.
    """

    async def read(replica: Replica) -> dict[str, int]:
        with suppress(TimeoutError):
            async with asyncio.timeout(patience_s):
                await _vote_until_caught(replica, access)
        return {name: each.height for (_, name), each in replica.ledger.accusations().items()}

    return visit(access.genesis, access.admin(), read, LEDGER_S + patience_s)


async def _vote_until_caught(replica: Replica, access: Access) -> None:
    for validated in cycle((True, False)):
        with suppress(TimeoutError):
            async with asyncio.timeout(VOTE_EVERY_S):
                while not replica.ledger.accusations():
                    await replica.follow(replica.ledger.height + 1)
                return
        await replica.act(access.author(ADMIN), SetTopic(VOTED_ON, 1, validated))
