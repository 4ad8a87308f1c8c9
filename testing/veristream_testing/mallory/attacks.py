"""All attacks by name."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from veristream_testing.mallory import connections, sessions, transactions
from veristream_testing.mallory.target import Target


async def nothing(_target: Target) -> None:
    """Does nothing: what the others are compared with."""
    await asyncio.Event().wait()


async def spin(_target: Target) -> None:
    """Sends nothing, and keeps one core busy: what it costs to share the machine with any attacker."""
    while True:
        sum(range(10_000))
        await asyncio.sleep(0)


CONTROLS: tuple[Callable[[Target], Awaitable[None]], ...] = (nothing, spin)
ATTACKS: tuple[Callable[[Target], Awaitable[None]], ...] = (
    connections.half_open,
    connections.slow_loris,
    connections.garbage,
    connections.strangers,
    connections.impostor,
    connections.all_connections,
    connections.churn,
    sessions.slow_readers,
    sessions.waiting_readers,
    sessions.oversized,
    sessions.forged,
    sessions.replayed,
    sessions.votes,
    sessions.pings,
    sessions.unfinished,
    sessions.request_flood,
    sessions.junk_flood,
    sessions.chain_readers,
    transactions.phantoms,
    transactions.orphans,
    transactions.join_spam,
    transactions.large_groups,
    transactions.heavy_heartbeats,
    transactions.group_thief,
    transactions.rotations,
    transactions.usurper,
    transactions.forgeries,
    transactions.false_receipts,
    transactions.unknown_kinds,
    transactions.greedy_producer,
    transactions.consumers,
)
BY_NAME = {attack.__name__: attack for attack in CONTROLS + ATTACKS}
