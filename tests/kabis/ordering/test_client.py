"""The ordering client against validators that lie, are silent, lag behind or are not there."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace

import pytest

from tests.kabis.chain import (
    CHAIN,
    VALIDATORS,
    batch_of,
    certificate_for,
    chain_with_topic,
    key_of,
    submitted,
)
from tests.kabis.ordering.cluster import draw_genesis
from tests.kabis.ordering.steady import run_steadily
from veristream.kabis.channels.failures import FAILURES, LyingPartyError
from veristream.kabis.ordering import asking
from veristream.kabis.ordering.client import OrderingClient
from veristream.kabis.ordering.requests import (
    Blocks,
    Handed,
    Operation,
    Read,
    Status,
    encode_outcome,
    split_request,
)
from veristream.kabis.protocol.blocks import CertifiedBlock
from veristream.kabis.protocol.codec import ZERO_DIGEST
from veristream.kabis.protocol.outcomes import Done
from veristream.kabis.wire.endpoints import Address, Handlers, PeerRefusedError, RequestError, Server, serve
from veristream.kabis.wire.handshake import Identity, Peer, Role

HEIGHT = 6


def make_blocks() -> list[CertifiedBlock]:
    """A chain of six blocks with good certificates."""
    chain, previous = chain_with_topic(), ZERO_DIGEST
    for sequence in range(HEIGHT - 1):
        batch = batch_of(b"%d" % sequence, sequence=sequence, previous=previous)
        previous = batch.digest()
        chain.block(submitted(batch))
    return [CertifiedBlock(block, certificate_for(block)) for block in chain.blocks]


BLOCKS = make_blocks()

Answer = Callable[["Validator", Read], Awaitable[bytes]]


async def honest(validator: Validator, read: Read) -> bytes:
    known = validator.known
    while len(known) < read.first:
        await asyncio.sleep(read.wait_ms / 1000)
        return Blocks(len(known), ()).encode()
    return Blocks(len(known), tuple(each.encode() for each in known[read.first - 1 : read.last])).encode()


async def uncertified(validator: Validator, read: Read) -> bytes:
    """Too few votes, on the second block that it gives."""
    wanted = validator.known[read.first - 1 :]
    cut = [replace(each, certificate=certificate_for(each.block, (0, 1))) for each in wanted[1:]]
    return Blocks(HEIGHT, tuple(each.encode() for each in (*wanted[:1], *cut))).encode()


async def other_heights(validator: Validator, read: Read) -> bytes:
    return Blocks(HEIGHT, tuple(each.encode() for each in BLOCKS[read.first :])).encode()


async def other_certificates(validator: Validator, read: Read) -> bytes:
    swapped = CertifiedBlock(BLOCKS[read.first - 1].block, BLOCKS[read.first % HEIGHT].certificate)
    return Blocks(HEIGHT, (swapped.encode(),)).encode()


async def other_blocks(validator: Validator, read: Read) -> bytes:
    """A good certificate of this height, under a block that it does not speak of."""
    block, certificate = BLOCKS[read.first - 1].block, BLOCKS[read.first - 1].certificate
    later = replace(block, header=replace(block.header, time_ms=block.header.time_ms + 1))
    return Blocks(HEIGHT, (CertifiedBlock(later, certificate).encode(),)).encode()


async def garbage(validator: Validator, read: Read) -> bytes:
    return b"garbage"


async def refusing(validator: Validator, read: Read) -> bytes:
    raise RequestError("no")


async def silent(validator: Validator, read: Read) -> bytes:
    await asyncio.sleep(1000)
    return b""


@dataclass
class Validator:
    """One that answers as the test wants."""

    answer_read: Answer = honest
    known: list[CertifiedBlock] = field(default_factory=lambda: list(BLOCKS))
    reads: int = 0

    async def answer(self, peer: Peer, body: bytes) -> bytes:
        operation, rest = split_request(body)
        match operation:
            case Operation.READ:
                self.reads += 1
                return await self.answer_read(self, Read.decode(rest))
            case Operation.SUBMIT:
                return b"garbage" if self.answer_read is garbage else encode_outcome(Done())
            case Operation.STATUS:
                if self.answer_read is silent:
                    await asyncio.sleep(1000)
                return Status(len(self.known), bytes(32), bytes(32), 0, 0, 0, 3, 0, 0).encode()
            case Operation.EVIDENCE:
                return b"garbage"
            case Operation.HANDOVERS:
                return Handed().encode()


class World:
    """Validators that serve, those that do not exist left out, and a client of all."""

    def __init__(self, *validators: Validator | None) -> None:
        self.validators = validators
        self.genesis = draw_genesis()
        self._servers: list[Server] = []

    async def __aenter__(self) -> OrderingClient:
        for validator, party in zip(self.validators, self.genesis.validators, strict=True):
            if validator is not None:
                identity = Identity(CHAIN, Role.VALIDATOR, party.name, key_of(party.name))
                handlers = Handlers(validator.answer)
                address = Address.parse(party.address)
                self._servers.append(await serve(address, identity, lambda peer: None, handlers))
        self.client = OrderingClient(
            self.genesis, Identity(CHAIN, Role.PRODUCER, "alice", key_of("alice")), 0.3
        )
        self.client._preferred = 0
        return self.client

    async def __aexit__(self, *_: object) -> None:
        await self.client.close()
        for server in self._servers:
            await server.close()


async def take(client: OrderingClient, height: int, count: int) -> list[CertifiedBlock]:
    taken: list[CertifiedBlock] = []
    async for certified in client.follow(height):
        taken.append(certified)
        if len(taken) == count:
            break
    return taken


@pytest.mark.parametrize(
    "liar", [uncertified, other_heights, other_certificates, other_blocks, garbage, refusing, silent, None]
)
def test_who_lies_or_is_silent_is_left_for_another(liar: Answer | None) -> None:
    first = None if liar is None else Validator(liar)

    async def test() -> None:
        async with World(first, Validator(), Validator(), Validator()) as client:
            assert await take(client, 1, HEIGHT) == BLOCKS
            assert client._preferred == 1
            assert await client.read(2, 4) == BLOCKS[1:4]
        assert first is None or first.reads == 1

    run_steadily(test)


def test_who_keeps_new_blocks_back_is_left_for_another() -> None:
    behind = Validator(known=BLOCKS[:2])

    async def test() -> None:
        async with World(behind, Validator(), Validator(), None) as client:
            assert await take(client, 1, HEIGHT) == BLOCKS
            client._preferred = 0
            assert await client.read(1, 100) == BLOCKS

    run_steadily(test)


async def dripping(validator: Validator, read: Read, pause_s: float) -> bytes:
    """One good block at a time, after a pause."""
    await asyncio.sleep(pause_s)
    return Blocks(HEIGHT, (validator.known[read.first - 1].encode(),)).encode()


@pytest.mark.parametrize(("pause_s", "reads_max"), [(1.3, 1), (0.45, 3)])
def test_who_returns_one_block_at_a_time_is_left_for_another(pause_s: float, reads_max: int) -> None:
    slow = Validator(lambda validator, read: dripping(validator, read, pause_s))

    async def test() -> None:
        async with World(slow, Validator(), Validator(), Validator()) as client:
            client._timeout_s = 5.0
            assert (await client.status()).height == HEIGHT
            assert await take(client, 1, HEIGHT) == BLOCKS
            assert client._preferred == 1
        assert slow.reads <= reads_max

    run_steadily(test)


def test_a_follower_looks_around_for_the_height_of_the_chain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "LOOK_EVERY_S", 0.2)
    slow = Validator(lambda validator, read: dripping(validator, read, 0.45))

    async def test() -> None:
        async with World(slow, Validator(), Validator(), Validator()) as client:
            client._timeout_s = 5.0
            await client.status_of(0)  # it is connected
            assert await take(client, 1, HEIGHT) == BLOCKS
        assert slow.reads <= 3

    run_steadily(test)


def test_a_block_that_is_decided_later_is_waited_for() -> None:
    validators = [Validator(known=[]) for _ in VALIDATORS]

    async def test() -> None:
        async with World(*validators) as client:
            taking = asyncio.create_task(take(client, 1, 2))
            for height in (1, 2):
                await asyncio.sleep(0.01)
                for validator in validators:
                    validator.known = BLOCKS[:height]
            assert await taking == BLOCKS[:2]
            assert await client.read(1, 2) == BLOCKS[:2]
            assert await client.read(3, 4) == []

    run_steadily(test)


def test_what_one_validator_expects_of_a_transaction_is_told_or_is_a_lie() -> None:
    async def test() -> None:
        async with World(Validator(), Validator(garbage), Validator(), Validator()) as client:
            assert await client.submit(0, b"transaction") == Done()
            with pytest.raises(LyingPartyError, match="malformed"):
                await client.submit(1, b"transaction")

    run_steadily(test)


def test_status_waits_for_no_more_than_three_and_believes_no_single_one() -> None:
    boaster = Validator(known=BLOCKS * 100)

    async def test() -> None:
        async with World(boaster, Validator(), Validator(known=BLOCKS[:5]), Validator(silent)) as client:
            status = await client.status()
            assert (status.height, status.answered) == (HEIGHT, 3)
        async with World(None, None, None, Validator()) as client:
            status = await client.status()
            assert (status.height, status.answered) == (HEIGHT, 1)
        async with World(None, None, None, None) as client:
            with pytest.raises(FAILURES):
                await client.status()

    run_steadily(test)


def test_who_claims_more_than_others_is_believed_if_it_gives_the_block() -> None:
    ahead, behind = Validator(), [Validator(known=BLOCKS[:4]) for _ in range(3)]

    async def test() -> None:
        async with World(ahead, *behind[:2], None) as client:
            status = await client.status()
            assert (status.height, status.answered) == (HEIGHT, 3)
            ahead.known = [*BLOCKS[:5], replace(BLOCKS[5], certificate=BLOCKS[4].certificate)]
            assert (await client.status()).height == 4

    run_steadily(test)


def test_a_block_is_spread_when_three_give_it() -> None:
    validators = [Validator(), Validator(), Validator(known=BLOCKS[:5]), Validator(silent)]

    async def test() -> None:
        async with World(*validators) as client:
            spreading = asyncio.create_task(client.spread(HEIGHT))
            _, pending = await asyncio.wait({spreading}, timeout=0.3)
            assert pending, "two that have it are too few"
            validators[2].known = BLOCKS
            await asyncio.wait_for(spreading, 10)

    run_steadily(test)


def test_an_answer_that_cannot_be_read_is_a_lie() -> None:
    async def test() -> None:
        async with World(Validator(garbage), None, None, None) as client:
            with pytest.raises(LyingPartyError):
                await client.submit(0, b"transaction")
            with pytest.raises(LyingPartyError):
                await client.evidence_of(0)

    run_steadily(test)


def test_who_is_refused_is_told_why() -> None:
    async def test() -> None:
        world = World(None, None, None, None)
        party = world.genesis.validators[2]
        identity = Identity(CHAIN, Role.VALIDATOR, party.name, key_of(party.name))
        server = await serve(Address.parse(party.address), identity, lambda peer: "not you", Handlers())
        async with world as client:
            with pytest.raises(PeerRefusedError, match="not you"):
                await client.submit(2, b"transaction")
        await server.close()

    run_steadily(test)
