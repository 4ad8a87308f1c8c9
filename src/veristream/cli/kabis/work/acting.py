"""Admin actions on the ledger."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from veristream.cli.kabis.work.opening import visit_as_admin
from veristream.kabis.client.administration import Replica
from veristream.kabis.cluster.access import Access
from veristream.kabis.cluster.folder import ADMIN, ClusterFolder
from veristream.kabis.ledger.ledger import Ledger
from veristream.kabis.protocol.actions import Action

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
