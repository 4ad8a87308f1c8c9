"""Admin actions on the ledger."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

import typer

from veristream.cli.kabis.work.opening import visit_as_admin
from veristream.errors import ModelError
from veristream.kabis.client.administration import Replica
from veristream.kabis.cluster.access import Access
from veristream.kabis.cluster.folder import ADMIN, ClusterFolder
from veristream.kabis.ledger.ledger import Ledger
from veristream.kabis.protocol.actions import Action, Upgrade
from veristream.kabis.protocol.genesis import VERSION_MAX

MARGIN_BLOCKS = 10
"""How many blocks ahead an upgrade takes effect by default: the action itself must get into one before."""

Wanted = TypeVar("Wanted", bound=Action | None)


def act(data: Path, decide: Callable[[Ledger], Wanted]) -> Wanted:
    """Submits the action that `decide` chooses from the ledger as the admin; returns it once admitted."""
    access = Access(ClusterFolder(data)).require_up()
    author = access.author(ADMIN)

    async def work(replica: Replica) -> Wanted:
        action = decide(replica.ledger)
        if action is not None:
            await replica.act(author, action)
        return action

    return visit_as_admin(access, work)


def upgrade(data: Path, to: int | None, at: int | None) -> None:
    """Schedules a protocol version, by default the latest one, a few blocks ahead."""
    access, version = Access(ClusterFolder(data)).require_up(), to or VERSION_MAX
    author = access.author(ADMIN)

    async def work(replica: Replica) -> Action:
        if version == replica.ledger.protocol.version:
            raise ModelError(f"the chain already has protocol version {version}")
        if at is None:
            return await replica.act_ahead(author, partial(Upgrade, version), MARGIN_BLOCKS)
        await replica.act(author, Upgrade(version, at))
        return Upgrade(version, at)

    match visit_as_admin(access, work):
        case Upgrade(number, height):
            typer.echo(f"protocol version {number} from block {height} on")
