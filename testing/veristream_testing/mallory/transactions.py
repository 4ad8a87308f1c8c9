"""Attacks with what is stored and ordered: batches, groups, keys, signatures."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import count

from veristream.kabis.client.options import ProducerOptions
from veristream.kabis.ordering.requests import Operation
from veristream.kabis.protocol.actions import (
    Action,
    CommitOffsets,
    Grant,
    JoinGroup,
    Resource,
    RotateKey,
    Rule,
    SetTopic,
)
from veristream.kabis.protocol.actions import Operation as Allowed
from veristream.kabis.protocol.batch import Stream, build_batch
from veristream.kabis.protocol.blocks import TRANSACTION_BYTES_MAX
from veristream.kabis.protocol.codec import ZERO_DIGEST, domain_tag
from veristream.kabis.protocol.keys import make_key
from veristream.kabis.protocol.receipts import StorageReceipt
from veristream.kabis.protocol.records import Record, encode_leaf
from veristream.kabis.protocol.transactions import Author, prove_possession, sign_action, submit
from veristream.kabis.storage import messages as storage
from veristream.kabis.wire.handshake import Identity, Role, prefix
from veristream_testing.mallory.arena import GROUP, TOPIC, WIDE, WIDE_PARTITIONS
from veristream_testing.mallory.target import Target, drop_all, flood, frame, repeat

BLOCK_S = 0.5
"""How long a new key takes to be in a block, mostly."""
TOPICS = tuple(f"{number:04}-{'x' * 110}" for number in range(1000))
"""As many topics, with as long names, as fit into one transaction; none of them exists."""


async def phantoms(target: Target) -> None:
    """Has batches of topics stored that do not exist."""
    await store(target, 100_000, lambda number: (f"phantom-{number}", number))


async def orphans(target: Target) -> None:
    """Has batches stored, and submits none of them."""
    await store(target, 1_000_000, lambda number: (TOPIC, number))


async def store(target: Target, size_bytes: int, choose: Callable[[int], tuple[str, int]]) -> None:
    """Stores large batches in the topics, and with the sequence numbers, that are chosen."""
    numbers = count()

    async def pour() -> None:
        (reader, writer), session = await target.enter()
        dropping = asyncio.ensure_future(drop_all(reader))
        try:
            for _ in range(100):
                number = next(numbers)
                topic, sequence = choose(number)
                stream = Stream(target.me.chain_id, topic, 0, target.name, 0)
                leaf = encode_leaf(None, os.urandom(size_bytes))
                batch = build_batch(stream, sequence, ZERO_DIGEST, [leaf], target.author.signer)
                head = frame(session, 9, number, bytes((storage.Operation.STORE,)) + batch.digest())
                writer.write(head + prefix(batch.encode()))
                await writer.drain()
        finally:
            dropping.cancel()
            writer.close()

    await repeat(pour)


async def flood_actions(
    target: Target, make: Callable[[int], Action], author: Author | None = None
) -> None:
    """Submits actions without a pause; their numbers are the time, so that they ascend."""

    def ask(number: int) -> bytes:
        if not target.is_validator:
            return target.status
        signed = sign_action(author or target.author, time.time_ns(), make(number))
        return bytes((Operation.SUBMIT,)) + signed.encode()

    await flood(target, 1, ask)


async def join_spam(target: Target) -> None:
    """Joins a new group with each request."""
    await flood_actions(target, lambda _: JoinGroup(f"group-{time.time_ns()}", "i", (TOPIC,), 30_000))


async def large_groups(target: Target) -> None:
    """Joins with as many topics as it may, as often as it may."""
    await flood_actions(target, lambda number: JoinGroup("large", f"i{number}", TOPICS, 30_000))


async def heavy_heartbeats(target: Target) -> None:
    """Joins a group with as many topics as it may, then sends heartbeats without end."""
    group = f"heavy-{target.party.name}"

    def act(number: int) -> Action:
        if number % 1000 == 0:
            return JoinGroup(group, "i", TOPICS, 30_000)
        return CommitOffsets(group, "i", 1, ())

    await flood_actions(target, act)


async def group_thief(target: Target) -> None:
    """Joins another's group, and commits its end."""

    def act(number: int) -> Action:
        if number % 2 == 0:
            return JoinGroup(GROUP, "i", (TOPIC,), 600_000)
        return CommitOffsets(GROUP, "i", number // 2, ((TOPIC, 0, 0),))

    await flood_actions(target, act)


async def rotations(target: Target) -> None:
    """Replaces its own key, again and again; a block later, its connections with the old one end."""
    if not target.is_first:
        await asyncio.Event().wait()
    author = target.author

    async def rotate() -> None:
        nonlocal author
        (reader, writer), session = await target.enter(replace(target.me, signer=author.signer))
        dropping = asyncio.ensure_future(drop_all(reader))
        try:
            for number in count():
                key, epoch = make_key(os.urandom(32)), author.key_epoch + 1
                proof = prove_possession(author.chain_id, author.name, epoch, key)
                action = sign_action(author, time.time_ns(), RotateKey(key.public, proof))
                writer.write(frame(session, 1, number, bytes((Operation.SUBMIT,)) + action.encode()))
                await writer.drain()
                author = Author(author.chain_id, author.name, epoch, key)
                await asyncio.sleep(BLOCK_S)
        finally:
            dropping.cancel()
            writer.close()

    await repeat(rotate)


async def usurper(target: Target) -> None:
    """Does what only admins may do."""
    rule = Rule(Resource.TOPIC, "*", Allowed.ADMINISTER, target.name)
    await flood_actions(target, lambda number: Grant(rule) if number % 2 else SetTopic(TOPIC, 9, True))


async def forgeries(target: Target) -> None:
    """Signs actions of another client with its own key."""
    other = replace(target.author, name="producer")
    await flood_actions(target, lambda _: JoinGroup("forged", "i", (TOPIC,), 30_000), other)


async def false_receipts(target: Target) -> None:
    """Submits batches that no storage party has, with receipts that it made up."""
    parties = sorted(party.name for party in target.access.genesis.storage)

    def ask(number: int) -> bytes:
        if not target.is_validator:
            return target.status
        stream = Stream(target.me.chain_id, TOPIC, 0, target.name, 0)
        leaf = encode_leaf(None, b"%d" % number)
        batch = build_batch(stream, number % 2, ZERO_DIGEST, [leaf], target.author.signer)
        made_up = [StorageReceipt(party, batch.digest(), os.urandom(64)) for party in parties]
        return bytes((Operation.SUBMIT,)) + submit(batch.signed, made_up).encode()

    await flood(target, 1, ask)


async def unknown_kinds(target: Target) -> None:
    """Submits what a newer version might understand."""
    newer = domain_tag("action-of-the-future")

    def ask(_number: int) -> bytes:
        if not target.is_validator:
            return bytes((200,)) + os.urandom(300)
        return bytes((Operation.SUBMIT,)) + newer + os.urandom(TRANSACTION_BYTES_MAX // 100)

    await flood(target, 1, ask)


async def greedy_producer(target: Target) -> None:
    """Pushes to eight partitions, with a thousand batches in flight in each."""
    if not target.is_first:
        await asyncio.Event().wait()
    options = ProducerOptions(linger_ms=0, batch_events=1, in_flight=1000)

    def push() -> None:
        with target.access.producer(target.name, options, journal=False) as producer:
            for number in count():
                producer.push(Record(WIDE, b"x" * 100, partition=number % WIDE_PARTITIONS))

    await asyncio.to_thread(push)


async def consumers(target: Target) -> None:
    """Comes as a hundred consumers, all of which wait for the same events."""

    async def wait() -> None:
        me = Identity(target.me.chain_id, Role.CONSUMER, target.name, target.author.signer)
        (reader, writer), session = await target.enter(me)
        for number in count():
            writer.write(frame(session, 1, number, target.large(30_000)))
            if not await reader.read(1 << 20):
                return

    await asyncio.gather(*(repeat(wait) for _ in range(100)))
