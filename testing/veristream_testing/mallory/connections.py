"""Attacks on connections: callers that prove no key, claim another, or take all places."""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace

from veristream.kabis.protocol.keys import make_key
from veristream.kabis.wire.handshake import Identity, Role, prefix
from veristream_testing.mallory.target import PAUSE_S, Target, crowd, drop_all, repeat


async def half_open(target: Target) -> None:
    """Connects, says nothing, and comes again when it is cut off."""
    await crowd(target, 300, target.call)


async def slow_loris(target: Target) -> None:
    """Sends a hello one byte at a time."""

    async def drip() -> None:
        _reader, writer = await target.call()
        for byte in prefix(bytes(2000)):
            writer.write(bytes((byte,)))
            await writer.drain()
            await asyncio.sleep(PAUSE_S)

    await asyncio.gather(*(repeat(drip) for _ in range(100)))


async def garbage(target: Target) -> None:
    """Sends random bytes instead of a handshake."""

    async def shout() -> None:
        reader, writer = await target.call()
        writer.write(os.urandom(500))
        await drop_all(reader)
        writer.close()

    await asyncio.gather(*(repeat(shout) for _ in range(10)))


async def strangers(target: Target) -> None:
    """Proves keys that nobody registered."""

    async def come() -> None:
        await target.enter(
            Identity(target.me.chain_id, Role.PRODUCER, "producer", make_key(os.urandom(32)))
        )

    await asyncio.gather(*(repeat(come) for _ in range(10)))


async def impostor(target: Target) -> None:
    """Claims to be a validator, with the key of a client."""

    async def come() -> None:
        await target.enter(replace(target.me, role=Role.VALIDATOR, name="validator-1"))

    await asyncio.gather(*(repeat(come) for _ in range(10)))


async def all_connections(target: Target) -> None:
    """Takes all the connections that it can get, and keeps them."""
    await crowd(target, 1024, target.enter)


async def churn(target: Target) -> None:
    """Enters and leaves."""

    async def visit() -> None:
        (_reader, writer), _session = await target.enter()
        writer.close()

    await asyncio.gather(*(repeat(visit) for _ in range(5)))
