"""Waits for accusations on the ledger: evidence appears there a block or more after a lie."""

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
"""A topic without events, which is only changed to give the validators something to vote on."""
VOTE_EVERY_S = 0.5


def wait_for_accusations(access: Access, patience_s: float) -> dict[str, int]:
    """Returns everyone who is accused, with the block of the evidence; empty if there is none in time.

    A validator lies when it votes, and a slow one may not have voted yet. So until someone is accused, the
    admin submits actions to vote on.
    """

    async def read(replica: Replica) -> dict[str, int]:
        with suppress(TimeoutError):
            async with asyncio.timeout(patience_s):
                await _vote_until_accused(replica, access)
        return {name: each.height for (_, name), each in replica.ledger.accusations().items()}

    return visit(access.genesis, access.admin(), read, LEDGER_S + patience_s)


async def _vote_until_accused(replica: Replica, access: Access) -> None:
    for validated in cycle((True, False)):
        with suppress(TimeoutError):
            async with asyncio.timeout(VOTE_EVERY_S):
                while not replica.ledger.accusations():
                    await replica.follow(replica.ledger.height + 1)
                return
        await replica.act(access.author(ADMIN), SetTopic(VOTED_ON, 1, validated))
