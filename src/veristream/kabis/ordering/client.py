"""A client's connections to the validators.

A transaction goes to one validator, whose answer is only a hint; the caller submits it to others until it
is decided. `asking` chooses the validator to read blocks from.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Mapping
from functools import partial

from veristream.kabis.channels.failures import decode_answer
from veristream.kabis.ledger.snapshot import Manifest
from veristream.kabis.ordering.asking import Validators
from veristream.kabis.ordering.requests import (
    Blocks,
    Evidence,
    Operation,
    Read,
    ReadChunk,
    Status,
    decode_outcome,
)
from veristream.kabis.protocol.blocks import CertifiedBlock
from veristream.kabis.protocol.genesis import Genesis
from veristream.kabis.protocol.outcomes import Outcome
from veristream.kabis.wire.endpoints import Address, Backoff, Client, connect
from veristream.kabis.wire.handshake import Identity, Peer, Role

READ_BYTES = 2 << 20


class OrderingClient(Validators):
    """All validators of a chain, each a `validator_process`."""

    def __init__(
        self,
        genesis: Genesis,
        identity: Identity,
        timeout_s: float = 5.0,
        *,
        addresses: Mapping[str, Address] | None = None,
    ) -> None:
        super().__init__(genesis)
        self._timeout_s = timeout_s
        self._links = []
        for party in genesis.validators:
            server = Peer(Role.VALIDATOR, party.name, party.public)
            address = (addresses or {}).get(party.name) or Address.parse(party.address)
            call = partial(connect, address, identity, server)
            self._links.append(Client(call, random.random, Backoff(0.02, 1.0)))

    async def submit(self, validator: int, transaction: bytes) -> Outcome:
        return decode_answer(decode_outcome, await self._ask(validator, Operation.SUBMIT, transaction))

    async def status_of(self, validator: int) -> Status:
        return decode_answer(Status.decode, await self._ask(validator, Operation.STATUS, b""))

    async def evidence_of(self, validator: int) -> Evidence:
        return decode_answer(Evidence.decode, await self._ask(validator, Operation.EVIDENCE, b""))

    async def _read_from(
        self, validator: int, first: int, last: int, wait_ms: int
    ) -> AsyncIterator[CertifiedBlock]:
        request = Read(first, last, READ_BYTES, wait_ms).encode()
        body = await self._ask(validator, Operation.READ, request, wait_ms / 1000)
        for data in decode_answer(Blocks.decode, body).blocks:
            yield decode_answer(CertifiedBlock.decode, data)

    async def _manifest_of(self, validator: int) -> Manifest:
        return decode_answer(Manifest.decode, await self._ask(validator, Operation.MANIFEST, b""))

    async def _chunk_of(self, validator: int, height: int, number: int) -> bytes:
        return await self._ask(validator, Operation.CHUNK, ReadChunk(height, number).encode())

    def _is_reached(self, validator: int) -> bool:
        return self._links[validator].connected

    async def _ask(self, validator: int, operation: Operation, body: bytes, wait_s: float = 0.0) -> bytes:
        link = self._links[validator]
        try:
            return await link.request(bytes((operation,)) + body, self._timeout_s + wait_s)
        except TimeoutError:
            if link.problem is not None:  # more informative than the timeout
                raise link.problem from None
            raise

    async def leave_out(self, validator: int) -> None:
        """Closes the connection to one validator for good, such as to oneself."""
        await self._links[validator].close()

    async def close(self) -> None:
        await asyncio.gather(*(link.close() for link in self._links))
