"""Ordering over CometBFT's RPC; only signed headers are trusted.

A node reports the CometBFT heights of our blocks, and returns their transactions and the following header
with its votes. Our block is assembled from these, and accepted if the votes are valid and the header
contains its hash. Nothing else is trusted; the expected outcome of a transaction is only a hint.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

from veristream.kabis.channels.failures import LyingPartyError, decode_answer
from veristream.kabis.cometbft import rpc
from veristream.kabis.cometbft.addresses import parse_address
from veristream.kabis.cometbft.application import CometStatus, Place, Places, address_of
from veristream.kabis.cometbft.headers import read_certificate
from veristream.kabis.cometbft.rpc import Call, Node, NodeError
from veristream.kabis.ordering.asking import Validators
from veristream.kabis.ordering.requests import Evidence, Read, decode_outcome
from veristream.kabis.protocol.blocks import Block, CertifiedBlock, transactions_root
from veristream.kabis.protocol.genesis import Genesis
from veristream.kabis.protocol.outcomes import Outcome

BLOCKS_PER_CALL = 5
"""Each needs two requests; ten requests are a node's default limit for one call."""
POLL_S = 0.03


class CometOrdering(Validators):
    """All validators of a chain, each a CometBFT node."""

    def __init__(self, genesis: Genesis, timeout_s: float = 5.0) -> None:
        super().__init__(genesis)
        self._timeout_s = timeout_s
        self._nodes = [Node(parse_address(party.address)) for party in genesis.validators]
        self._numbers = {address_of(key): number for number, key in enumerate(genesis.validator_keys)}

    async def submit(self, validator: int, transaction: bytes) -> Outcome:
        try:
            result = await self._call(validator, rpc.broadcast(transaction))
        except NodeError:  # its mempool is full or has the transaction: ask for the outcome
            return decode_answer(decode_outcome, await self._query(validator, "/outcome", transaction))
        return decode_answer(decode_outcome, rpc.read_hex(result, "data"))

    async def status_of(self, validator: int) -> CometStatus:
        return decode_answer(CometStatus.decode, await self._query(validator, "/status"))

    async def evidence_of(self, validator: int) -> Evidence:
        return decode_answer(Evidence.decode, await self._query(validator, "/evidence"))

    async def _read_from(
        self, validator: int, first: int, last: int, wait_ms: int
    ) -> AsyncIterator[CertifiedBlock]:
        last = min(last, first + BLOCKS_PER_CALL - 1)
        places = await self._find_places(validator, first, last, wait_ms)
        if not places:
            return
        calls = [
            call
            for place in places
            for call in (
                Call("block", (("height", str(place.comet_height)),)),
                Call("commit", (("height", str(place.comet_height + 1)),)),
            )
        ]
        results = await self._nodes[validator].call_all(calls, self._timeout_s)
        for number, place in enumerate(places):
            block = Block(place.header, _read_transactions(results[2 * number]))
            _require_root(block)
            yield CertifiedBlock(block, read_certificate(results[2 * number + 1], self._numbers))

    async def _find_places(self, validator: int, first: int, last: int, wait_ms: int) -> Sequence[Place]:
        """Finds the blocks whose successors are decided too; waits up to `wait_ms` for the first."""
        question = Read(first, last, 0, 0).encode()
        deadline_s = asyncio.get_running_loop().time() + wait_ms / 1000
        while True:
            found = decode_answer(Places.decode, await self._query(validator, "/places", question))
            certified = [each for each in found.places if each.comet_height < found.comet_height]
            if certified or asyncio.get_running_loop().time() >= deadline_s:
                return certified
            await asyncio.sleep(POLL_S)

    def _is_reached(self, validator: int) -> bool:
        return True

    async def _query(self, validator: int, path: str, data: bytes = b"") -> bytes:
        return rpc.read_answer(await self._call(validator, rpc.query(path, data)))

    async def _call(self, validator: int, call: Call) -> Any:
        return await self._nodes[validator].call(call, self._timeout_s)

    async def close(self) -> None:
        """Does nothing; each call has its own connection."""


def _read_transactions(result: Any) -> tuple[bytes, ...]:
    listed = rpc.field(result, "block", "data", "txs")
    if not isinstance(listed, list):
        raise LyingPartyError("the transactions are not a list")
    return tuple(rpc.read_bytes({"transaction": each}, "transaction") for each in listed)


def _require_root(block: Block) -> None:
    """Raises LyingPartyError unless the transactions are those of the header."""
    count, root = len(block.transactions), transactions_root(block.transactions)
    if (count, root) != (block.header.count, block.header.root):
        raise LyingPartyError("the transactions do not match the block's header")
