"""Follows the chain without trusting a validator: a block counts by its certificate."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable

from veristream.kabis.channels.failures import FAILURES
from veristream.kabis.channels.interfaces import Ordering
from veristream.kabis.client.errors import RefusedClientError
from veristream.kabis.ledger.follower import FalseBlockError, Follower
from veristream.kabis.protocol.blocks import CertifiedBlock
from veristream.kabis.wire.connection import PeerRefusedError

_LOGGER = logging.getLogger(__name__)

RETRY_S = 0.1


async def ask_height(ordering: Ordering) -> int:
    """Returns the height of the chain; asks until enough validators answer.

    Raises RefusedClientError if the validators refuse this client twice in a row: a correct validator may
    lag behind, and not know a new key yet.
    """
    was_refused = False
    while True:
        try:
            return (await ordering.status()).height
        except PeerRefusedError as refused:
            if was_refused:
                raise RefusedClientError(str(refused)) from refused
            was_refused = True
        except FAILURES as error:
            was_refused = False
            _LOGGER.info("no validator reports its height: %s", error)
            await asyncio.sleep(RETRY_S)


async def follow_chain(
    ordering: Ordering, follower: Follower, take: Callable[[CertifiedBlock], object]
) -> AsyncGenerator[None, None]:
    """Passes every block after the follower's last one to `take`, without end; yields after each.

    `take` applies the block to the follower. Where it raises FalseBlockError, and where the validators do
    not answer, the same height is asked for again.
    """
    while True:
        try:
            async for certified in ordering.follow(follower.next_height):
                take(certified)
                yield
        except FalseBlockError as error:
            _LOGGER.warning("ignored a false block at height %d: %s", follower.next_height, error)
        except FAILURES as error:
            _LOGGER.info("no validator returns block %d: %s", follower.next_height, error)
        await asyncio.sleep(RETRY_S)
