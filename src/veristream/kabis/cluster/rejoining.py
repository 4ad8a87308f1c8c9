"""How a validator that was restored from a backup, or lost its votes, rejoins without contradicting them.

It may have voted after the backup was made, and remembers none of it. Suppose it voted at height h + 1.
Then block h was decided, so at least 2F others voted on block h, and each of them had the blocks up to
h - 1. Any 2F + 1 of the 3F others include a correct one of these. So once 2F + 1 others have told their
heights, of which the highest that is proved is t, the validator has voted at no height above t + 2. It
fetches blocks from the others until it has block t + 2, and takes part from the next height on. Until then
it neither votes nor answers. It counts as one of the F validators that may fail.

All this is about the validators in force at height t + 2. If others told their heights, because the members
have changed or are about to, it asks again when it has block t + 2: those in force there then tell a height
that counts.

This assumes that the others have not just lost blocks that were not flushed, in a crash of their machines:
then t may be too low. A block is flushed within a second, and validators fetch what they lack.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from veristream.errors import EnvironmentFailure, ModelError
from veristream.kabis.channels.failures import FAILURES
from veristream.kabis.ledger.ledger import Ledger
from veristream.kabis.ledger.succession import Handover
from veristream.kabis.log.disk.files import flush_folder, replace
from veristream.kabis.ordering.asking import Validators
from veristream.kabis.ordering.client import OrderingClient
from veristream.kabis.ordering.node import Node
from veristream.kabis.ordering.store import BlockStore
from veristream.kabis.protocol.genesis import Genesis
from veristream.kabis.protocol.members import Members
from veristream.kabis.wire.handshake import Identity

_LOGGER = logging.getLogger(__name__)

ASK_EVERY_S = 1.0
LOOK_EVERY_S = 5.0
ANSWER_S = 5.0
FETCHED_MAX = 100
VOTED_AHEAD = 2
"""How far above the highest proved block of 2F + 1 others a validator may have voted."""
BLOCKS, RECORDS = "blocks", "records"
_NOTE = "restored.json"
_VOTED = "voted"


def mark_restored(folder: Path) -> None:
    """Marks a validator's folder that comes from a backup."""
    replace(folder / _NOTE, json.dumps({"until": None}).encode() + b"\n")


def is_restored(folder: Path) -> bool:
    """Whether the validator has been restored and has not yet rejoined."""
    return (folder / _NOTE).exists()


def require_votes(folder: Path) -> None:
    """Raises EnvironmentFailure if the records of the validator's votes are gone.

    A validator that forgot what it signed might sign the opposite, which makes it Byzantine.
    """
    has_votes = any((folder / RECORDS).glob("*.segment"))
    had_votes = (folder / _VOTED).exists() or any((folder / BLOCKS).glob("*.segment"))
    if had_votes and not has_votes and not is_restored(folder):
        raise EnvironmentFailure(
            f"the votes of this validator are gone: {folder / RECORDS} is missing or empty",
            "restore the validator from a backup, or start it once with --rejoin: it then votes only at "
            "heights at which it cannot have voted before",
        )


def note_votes(folder: Path) -> None:
    """Notes that the validator has a log of records, before it votes for the first time."""
    if not (folder / _VOTED).exists():
        replace(folder / _VOTED, b"this validator has voted: never delete the folder of its records\n")


def read_until(folder: Path) -> int | None:
    """Returns the height up to which the validator must not vote; None if it is not known yet."""
    try:
        until = json.loads((folder / _NOTE).read_bytes())["until"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise EnvironmentFailure(
            f"cannot read {folder / _NOTE}, which keeps a restored validator from voting twice",
            "restore the validator again",
        ) from error
    if until is not None and type(until) is not int:
        raise ModelError(f"{folder / _NOTE} has no height", hint="restore the validator again")
    return until


@dataclass(slots=True)
class Rejoining:
    """A validator that must not vote up to the height `until`, which the validators `asked` have told.

    It is None until they have told it, and again if others were in force at that height.
    """

    blocks: BlockStore
    ordering: Validators
    genesis: Genesis
    until: int | None = None
    asked: Members | None = None

    async def ask(self) -> bool:
        """Asks for the height; returns whether enough validators have told theirs."""
        status = await self.ordering.status()
        if not status.enough:
            return False
        self.until, self.asked = status.height + VOTED_AHEAD, self.ordering.members
        return True

    async def go_on(self) -> bool:
        """Fetches blocks, or a snapshot if they are pruned; returns False if nobody has any."""
        assert self.until is not None, "the height is not known yet"
        return await fetch_some(self.blocks, self.ordering, self.genesis, self.until)

    def may_vote(self) -> bool:
        """Whether all heights are past at which it may have voted; forgets `until` if that is unknown."""
        if self.until is None or self.blocks.height < self.until:
            return False
        if self.asked != self.ordering.members_at(self.until):
            self.until = self.asked = None
            return False
        return True


async def rejoin(folder: Path, blocks: BlockStore, ordering: Validators, genesis: Genesis) -> None:
    """Fetches blocks, or a snapshot if they are pruned, until the validator may vote; removes the mark."""
    rejoining = Rejoining(blocks, ordering, genesis)
    read_until(folder)
    while not rejoining.may_vote():
        if rejoining.until is None:
            await _find_height(folder, rejoining)
        elif not await rejoining.go_on():
            await asyncio.sleep(ASK_EVERY_S)
    await asyncio.to_thread(blocks.sync)
    (folder / _NOTE).unlink()
    flush_folder(folder)
    _LOGGER.warning("rejoins at height %d", blocks.height + 1)


async def fetch_some(blocks: BlockStore, ordering: Validators, genesis: Genesis, until: int) -> bool:
    """Fetches blocks up to a height, or a snapshot if they are pruned; returns False if nobody has any."""
    found = await ordering.read(blocks.height + 1, min(until, blocks.height + FETCHED_MAX))
    for certified in found:
        blocks.append(certified)
    if found:
        return True
    taken = await take_snapshot(blocks, ordering, genesis)
    if taken is not None:
        blocks.skip_to(taken)
    return taken is not None


async def take_snapshot(blocks: BlockStore, ordering: Validators, genesis: Genesis) -> int | None:
    """Keeps a snapshot that others have above our blocks, and returns its height; None if there is none."""
    if blocks.snapshots is None:
        return None
    height = blocks.height
    taken = await ordering.snapshot(height, partial(blocks.snapshots.keep, genesis))
    if taken is not None:
        _LOGGER.warning("block %d is pruned everywhere; took a snapshot at height %d", height + 1, taken)
    return taken


async def _find_height(folder: Path, rejoining: Rejoining) -> None:
    """Notes the height up to which the validator must not vote, once enough others have told theirs."""
    while True:
        with suppress(*FAILURES):
            if await rejoining.ask():
                break
        await asyncio.sleep(ASK_EVERY_S)
    height, until = rejoining.blocks.height, rejoining.until
    replace(folder / _NOTE, json.dumps({"until": until}).encode() + b"\n")
    _LOGGER.warning("restored from a backup at height %d: no vote up to height %d", height, until)


# A validator that lacks blocks which all others have pruned takes a snapshot from them.


async def find_snapshot(ledger: Ledger, blocks: BlockStore, ordering: Validators) -> int | None:
    """Takes a snapshot if nobody returns the next block of a ledger; returns its height, or None."""
    ordering.heed(ledger.memberships.changes, ledger.height)
    if await ordering.read(ledger.height + 1, ledger.height + 1):
        return None
    return await take_snapshot(blocks, ordering, ledger.genesis)


async def join_by_snapshot(
    node: Node, identity: Identity, handovers: Sequence[Handover] = (), every_s: float = LOOK_EVERY_S
) -> None:
    """Returns once a good snapshot from others is on disk that this validator needs to go on.

    It needs one if it has made no progress for a while, and nobody returns its next block although a
    snapshot of a later one exists. The handovers are changes of the members that are known beside its own
    ledger, and others may know more: without them, it would look for blocks only where those validators
    were that its ledger knows.
    """
    client = OrderingClient(node.genesis, identity, ANSWER_S, without=node.name)
    client.know(handovers)
    try:
        while True:
            node.expect(client.succession)
            height = node.ledger.height
            await asyncio.sleep(every_s)
            try:
                if node.ledger.height > height:
                    continue
                if await find_snapshot(node.ledger, node.blocks, client) is not None:
                    return
            except FAILURES as error:
                _LOGGER.debug("no validator answers: %s", error)
    finally:
        await client.close()
