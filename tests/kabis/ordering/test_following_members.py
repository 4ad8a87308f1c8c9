"""A client follows to validators that it does not know from the genesis, and believes no others."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from tests.kabis.chain import CHAIN, VALIDATORS, key_of
from tests.kabis.ledger.changing import FOUNDING, Changing, certify_block, seven
from tests.kabis.ordering.cluster import draw_genesis
from tests.kabis.ordering.steady import run_steadily
from veristream.kabis.channels.failures import LyingPartyError
from veristream.kabis.ledger.succession import Handover
from veristream.kabis.ordering import asking
from veristream.kabis.ordering.client import OrderingClient
from veristream.kabis.ordering.requests import Blocks, Handed, Operation, Read, Status, split_request
from veristream.kabis.protocol.blocks import CertifiedBlock
from veristream.kabis.protocol.genesis import Genesis
from veristream.kabis.protocol.members import Members
from veristream.kabis.wire.endpoints import Address, Handlers, RequestError, Server, serve
from veristream.kabis.wire.handshake import Identity, Peer, Role


def rotated(genesis: Genesis) -> Members:
    """All founding validators with other keys, where they were."""
    parties = tuple(replace(party, public=key_of(party.name, 1).public) for party in genesis.validators)
    return replace(FOUNDING, validators=parties)


def chain_of(after: Members) -> Changing:
    """A chain of height 8 whose members change with height 4."""
    chain = Changing()
    chain.set_members(after, 4)
    chain.grow(8)
    return chain


def blocks_of(chain: Changing) -> list[CertifiedBlock]:
    return [chain.certified_block(height) for height in range(1, 9)]


class Validator:
    """Answers with blocks and handovers."""

    def __init__(self, blocks: Sequence[CertifiedBlock], handovers: Sequence[Handover]) -> None:
        self.blocks, self.handovers = blocks, tuple(handovers)

    async def answer(self, peer: Peer, body: bytes) -> bytes:
        operation, rest = split_request(body)
        match operation:
            case Operation.READ:
                read = Read.decode(rest)
                return Blocks(
                    8, tuple(each.encode() for each in self.blocks[read.first - 1 : read.last])
                ).encode()
            case Operation.STATUS:
                return Status(8, bytes(32), bytes(32), 0, 0, 0, 3, 0, 0).encode()
            case Operation.HANDOVERS:
                return Handed(self.handovers).encode()
            case _:
                raise RequestError("not asked in these tests")


@asynccontextmanager
async def serving(
    genesis: Genesis, key_epoch: int, *validators: Validator
) -> AsyncIterator[OrderingClient]:
    """Servers at the founding addresses, with keys of this epoch, and a client with the genesis alone."""
    servers: list[Server] = []
    for validator, name, party in zip(validators, VALIDATORS, genesis.validators, strict=True):
        identity = Identity(CHAIN, Role.VALIDATOR, name, key_of(name, key_epoch))
        handlers = Handlers(validator.answer)
        servers.append(await serve(Address.parse(party.address), identity, lambda _: None, handlers))
    client = OrderingClient(genesis, Identity(CHAIN, Role.PRODUCER, "alice", key_of("alice")), 1.0)
    try:
        yield client
    finally:
        await client.close()
        for server in servers:
            await server.close()


def test_a_client_finds_validators_of_which_it_knows_no_key_any_more() -> None:
    genesis = draw_genesis()
    chain = chain_of(rotated(genesis))
    honest = Validator(blocks_of(chain), chain.ledger.succession.handovers)

    async def test() -> None:
        async with serving(genesis, 1, honest, honest, honest, honest) as client:
            assert (await client.status()).height == 8
            assert client.members == rotated(genesis)
            assert await client.read(1, 8) == blocks_of(chain)

    run_steadily(test)


def test_a_false_change_convinces_nobody_and_a_true_one_does() -> None:
    genesis = draw_genesis()
    chain, other = chain_of(rotated(genesis)), chain_of(seven(FOUNDING))
    (true,), (strange,) = chain.ledger.succession.handovers, other.ledger.succession.handovers
    forged = replace(true, members=strange.members)
    liar, honest = Validator([], (forged,)), Validator(blocks_of(chain), (true,))

    async def test() -> None:
        async with serving(genesis, 1, liar, liar, honest, liar) as client:
            assert await client.learn()
            assert list(client.succession.handovers) == [true]
            assert client.members == rotated(genesis)

    run_steadily(test)


def test_blocks_of_the_old_validators_after_the_change_are_false() -> None:
    genesis = draw_genesis()
    chain = chain_of(rotated(genesis))
    blocks = blocks_of(chain)
    old = certify_block(blocks[4].block, FOUNDING)
    honest = Validator(blocks, chain.ledger.succession.handovers)

    async def test() -> None:
        async with serving(genesis, 1, honest, honest, honest, honest) as client:
            await client.learn()
            assert client._check(blocks[4], 5) == blocks[4]
            with pytest.raises(LyingPartyError, match="not signed by it"):
                client._check(old, 5)

    run_steadily(test)


def test_a_change_is_learned_from_a_certificate_that_does_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "LEARN_EVERY_S", 0.0)
    genesis = draw_genesis()
    chain = chain_of(replace(FOUNDING, validators=genesis.validators[::-1]))
    changed = Validator(blocks_of(chain), ())

    async def test() -> None:
        async with serving(genesis, 0, changed, changed, changed, changed) as client:
            assert (await client.status()).height == 8
            assert client.members == genesis.members
            assert await client.read(4, 8) == []
            changed.handovers = chain.ledger.succession.handovers
            assert await client.read(4, 8) == blocks_of(chain)[3:]
            assert [party.name for party in client.members.validators] == list(VALIDATORS[::-1])

    run_steadily(test)


def test_a_validator_that_is_not_there_any_more_is_an_error() -> None:
    genesis = draw_genesis()
    honest = Validator([], ())

    async def test() -> None:
        async with serving(genesis, 0, honest, honest, honest, honest) as client:
            with pytest.raises(RequestError, match="validator 4 is not asked"):
                await client.submit(4, b"")

    run_steadily(test)
