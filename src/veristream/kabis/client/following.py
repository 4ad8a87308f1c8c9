"""Follows the chain without trusting a validator: a block counts by its certificate.

`catch_up` follows it to the height that the validators report. Its time limit counts from the last
progress, so that a long chain needs no longer limit than a short one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass

from veristream.errors import EnvironmentFailure
from veristream.kabis.channels.failures import FAILURES
from veristream.kabis.channels.interfaces import Ordering
from veristream.kabis.client.checkpoint import Checkpoint
from veristream.kabis.client.errors import MissedBlocksError, RefusedClientError
from veristream.kabis.ledger.follower import FalseBlockError, Follower
from veristream.kabis.protocol.blocks import CertifiedBlock
from veristream.kabis.wire.connection import PeerRefusedError

_LOGGER = logging.getLogger(__name__)

RETRY_S = 0.1
LOOK_EVERY_S = 10.0
"""How often a client without new blocks asks whether its next one was pruned."""
SNAPSHOT_GAP = 100
"""A client that lacks more blocks than this starts from a snapshot, if there is one."""

Tell = Callable[[str], object]
"""Is told why an answer is missing."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far the chain is followed; `target` is None until the validators have reported a height."""

    height: int
    target: int | None = None

    def __str__(self) -> str:
        if self.target is None:
            return "waiting for the validators to report a height"
        return f"followed {self.height:,} of {self.target:,} blocks"


class StalledError(EnvironmentFailure):
    """The chain was not followed to its end, because nothing came for too long."""

    def __init__(self, chain_id: str, progress: Progress, patience_s: float, reason: str) -> None:
        why = f": {reason}" if reason else ""
        if progress.target is None:
            missing = f"too few validators answer within {patience_s:g} s{why}"
        else:
            number = progress.height + 1
            missing = f"{progress}, then no validator returned block {number:,} for {patience_s:g} s{why}"
        super().__init__(
            f"the chain {chain_id} cannot be followed: {missing}",
            "see whether the validators run and can be reached: `veristream kabis status`",
        )
        self.progress = progress


async def ask_height(ordering: Ordering, tell: Tell = lambda _: None) -> int:
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
            tell(str(error))
            _LOGGER.info("no validator reports its height: %s", error)
            await asyncio.sleep(RETRY_S)


async def follow_chain(
    ordering: Ordering,
    follower: Follower,
    take: Callable[[CertifiedBlock], object],
    tell: Tell = lambda _: None,
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
            tell(f"a false block: {error}")
            _LOGGER.warning("ignored a false block at height %d: %s", follower.next_height, error)
        except FAILURES as error:
            tell(str(error))
            _LOGGER.info("no validator returns block %d: %s", follower.next_height, error)
        await asyncio.sleep(RETRY_S)


async def resume(
    ordering: Ordering,
    follower: Follower,
    target: int,
    moved: Callable[[], object] = lambda: None,
    gap: int | None = None,
) -> bool:
    """Continues from a snapshot if the follower is far behind, or its next block was pruned.

    `gap` is how far behind that is, by default `SNAPSHOT_GAP`. Without a good snapshot, the follower stays
    where it is; returns False if nobody returns its next block either. `moved` is called at each progress.
    """
    height = follower.ledger.height
    ordering.heed(follower.known_changes(), height)
    if target - height <= (SNAPSHOT_GAP if gap is None else gap) and (
        target <= height or await ordering.read(height + 1, height + 1)
    ):
        return True
    ledger = await ordering.snapshot(height, follower.verify_snapshot, moved)
    if ledger is not None:
        follower.resume(ledger)
    return ledger is not None or bool(await ordering.read(height + 1, height + 1))


async def watch_for_pruning(ordering: Ordering, follower: Follower) -> None:
    """Raises MissedBlocksError once the validators have pruned the follower's next block; else never ends.

    A running client cannot skip blocks, since they tell it what became of its own transactions. No single
    validator can make it stop: 2 F + 1 answer, none returns the block, and a good snapshot is above it.
    """
    while True:
        height = follower.ledger.height
        await asyncio.sleep(LOOK_EVERY_S)
        if follower.ledger.height > height:
            continue
        try:
            if await is_pruned(ordering, follower):
                raise MissedBlocksError(height)
        except FAILURES as error:
            _LOGGER.debug("no validator answers: %s", error)


async def is_pruned(ordering: Ordering, follower: Follower) -> bool:
    """Returns whether the follower's next block was pruned, as far as enough validators show."""
    height = follower.ledger.height
    ordering.heed(follower.known_changes(), height)
    status = await ordering.status()
    if status.height <= height or not status.enough:
        return False
    if await ordering.read(height + 1, height + 1):
        return False
    has_snapshot = await ordering.snapshot(height, lambda *_: True)
    return has_snapshot is not None and follower.ledger.height == height


class Pursuit:
    """Follows the chain to the height that the validators report, as long as there is progress.

    `reasons` is told why an answer is missing; `shown` gets every progress.
    """

    def __init__(self, follower: Follower, patience_s: float) -> None:
        self.progress = Progress(follower.ledger.height)
        self.shown: Callable[[Progress], object] = lambda _: None
        self.checkpoint: Checkpoint | None = None
        self._follower = follower
        self._patience_s = patience_s
        self._reason = ""

    def reasons(self, reason: str) -> None:
        """Keeps the last reason why an answer is missing."""
        self._reason = reason

    async def _resume(self, ordering: Ordering, target: int, moved: Callable[[], object]) -> None:
        """Continues from a snapshot if one is needed.

        It tries until it has one, or the next block: validators may replace a snapshot by a newer one while
        it is fetched.
        """
        while True:
            try:
                if await resume(ordering, self._follower, target, moved):
                    return
            except FAILURES as error:
                self.reasons(str(error))
            await asyncio.sleep(RETRY_S)

    async def catch_up(self, ordering: Ordering, move: Callable[[], Awaitable[object]]) -> None:
        """Returns at the reported height, or at the checkpoint's if that is higher.

        `move` waits until the follower has taken further blocks.

        It may begin with a snapshot, so nobody else may follow the chain before the first `move`.
        Raises StalledError if neither the height nor a block nor a part of a snapshot comes for
        `patience_s`.
        """
        loop, ledger = asyncio.get_running_loop(), self._follower.ledger
        try:
            async with asyncio.timeout(self._patience_s) as limit:

                def moved() -> None:
                    limit.reschedule(loop.time() + self._patience_s)

                known = ledger.height
                if self.checkpoint is not None:
                    known = max(known, self.checkpoint.height)
                    self._follower.known = self.checkpoint.succession
                ordering.heed(self._follower.known_changes(), known)
                target = max(known, await ask_height(ordering, self.reasons))
                self._reason = ""
                self.progress = Progress(ledger.height, target)
                moved()
                await self._resume(ordering, target, moved)
                if self.checkpoint is not None:
                    self.checkpoint.check(ledger.height, ledger.last_id)
                while True:
                    self.progress = Progress(ledger.height, target)
                    self.shown(self.progress)
                    if ledger.height >= target:
                        return
                    moved()
                    await move()
        except TimeoutError:
            chain_id = self._follower.genesis.chain_id
            raise StalledError(chain_id, self.progress, self._patience_s, self._reason) from None
