"""Attacks within a session: a registered client that reads nothing, breaks rules, or asks for too much."""

from __future__ import annotations

import asyncio
import os

from veristream.kabis.ordering.requests import Operation, Read
from veristream.kabis.wire.handshake import prefix
from veristream_testing.mallory.target import (
    MIB,
    Target,
    drop_all,
    flood,
    frame,
    misbehave,
    repeat,
    unread,
)


async def slow_readers(target: Target) -> None:
    """Asks for much, and reads nothing."""
    await unread(target, 20, 250, target.large(0))


async def waiting_readers(target: Target) -> None:
    """Waits for the same news many times, and reads nothing."""
    await unread(target, 10, 250, target.large(30_000))


async def oversized(target: Target) -> None:
    """Announces frames of four gigabytes."""
    await misbehave(target, lambda _session: (0xFFFFFFFF).to_bytes(4, "big") + bytes(1000))


async def forged(target: Target) -> None:
    """Sends frames that are not sealed."""
    await misbehave(target, lambda _session: prefix(os.urandom(100)))


async def replayed(target: Target) -> None:
    """Sends a frame twice."""
    await misbehave(target, lambda session: 2 * frame(session, 1, 1, target.status))


async def votes(target: Target) -> None:
    """Sends messages, as only validators do."""
    await misbehave(target, lambda session: frame(session, 4, 0, b"vote"))


async def pings(target: Target) -> None:
    """Pings without end, and reads no pong."""
    await misbehave(target, lambda session: b"".join(frame(session, 5, 0) for _ in range(20_000)))


async def unfinished(target: Target) -> None:
    """Begins large frames, and ends none."""

    async def begin() -> None:
        (reader, writer), _session = await target.enter()
        writer.write((15 * MIB).to_bytes(4, "big") + bytes(14 * MIB))
        await drop_all(reader)
        writer.close()

    await asyncio.gather(*(repeat(begin) for _ in range(10)))


async def request_flood(target: Target) -> None:
    """Asks for the status, again and again."""
    await flood(target, 4, lambda _number: target.status)


async def junk_flood(target: Target) -> None:
    """Asks for what does not exist, and submits what is no transaction."""
    await flood(target, 4, lambda _number: b"\x01" + os.urandom(300))


async def chain_readers(target: Target) -> None:
    """Reads the whole chain, again and again, or all evidence."""
    whole = bytes((Operation.READ,)) + Read(1, 1 << 41, 1 << 30, 0).encode()
    await flood(target, 4, lambda _number: whole if target.is_validator else target.large(0))
