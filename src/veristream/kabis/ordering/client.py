"""A client's connections to the validators.

A transaction goes to one validator, whose answer is only a hint; the caller submits it to others until it
is decided. `asking` chooses the validator to read blocks from.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from functools import partial

from veristream.kabis.channels.failures import FAILURES, decode_answer
from veristream.kabis.ledger.snapshot import Manifest
from veristream.kabis.ledger.succession import Handover
from veristream.kabis.ordering.asking import Validators
from veristream.kabis.ordering.requests import (
    Blocks,
    Evidence,
    Handed,
    Operation,
    Read,
    ReadChunk,
    Status,
    decode_outcome,
)
from veristream.kabis.protocol.blocks import CertifiedBlock
from veristream.kabis.protocol.genesis import Genesis
from veristream.kabis.protocol.members import Party
from veristream.kabis.protocol.outcomes import Outcome
from veristream.kabis.wire.endpoints import (
    Address,
    Backoff,
    Client,
    Connection,
    Places,
    RequestError,
    connect,
)
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
        without: str = "",
    ) -> None:
        """Connects to all validators but one of the name `without`, such as the caller itself."""
        super().__init__(genesis)
        self._identity = identity
        self._timeout_s = timeout_s
        self._addresses = {name: str(address) for name, address in (addresses or {}).items()}
        self._founding = {party.name: party.address for party in genesis.validators}
        self._without = without
        self._known: dict[Party, Client] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._turn_to_members()

    def _turn_to_members(self) -> None:
        parties = [party for party in self.members.validators if party.name != self._without]
        for gone in [party for party in self._known if party not in parties]:
            closing = asyncio.get_running_loop().create_task(self._known.pop(gone).close())
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)
        for party in parties:
            if party not in self._known:
                call = partial(self._call, self._places(party), party)
                self._known[party] = Client(call, random.random, Backoff(0.02, 1.0))
        self._links = [self._known.get(party) for party in self.members.validators]

    def _places(self, party: Party) -> Places:
        fixed = self._addresses.get(party.name)
        return Places(fixed) if fixed else Places(party.address, self._founding.get(party.name, ""))

    async def _call(self, places: Places, party: Party | None) -> Connection:
        if party is None:
            return await connect(places.take(), self._identity, None)
        keys = self.keys_of(party)
        server = Peer(Role.VALIDATOR, party.name, keys[places.taken % len(keys)])
        return await connect(places.take(len(keys)), self._identity, server)

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

    async def _handovers_of(self, validator: int) -> Sequence[Handover]:
        body = await self._ask(validator, Operation.HANDOVERS, b"")
        return decode_answer(Handed.decode, body).handovers

    async def _handovers_of_anyone(self) -> Sequence[Sequence[Handover]]:
        found: list[Sequence[Handover]] = []
        for party in self.members.validators:
            with suppress(*FAILURES):
                connection = await self._call(self._places(party), None)
                try:
                    async with asyncio.timeout(self._timeout_s):
                        body = await connection.request(bytes((Operation.HANDOVERS,)))
                    found.append(decode_answer(Handed.decode, body).handovers)
                finally:
                    connection.close()
        return found

    def _is_reached(self, validator: int) -> bool:
        link = self._links[validator]
        return link is not None and link.connected

    async def _ask(self, validator: int, operation: Operation, body: bytes, wait_s: float = 0.0) -> bytes:
        link = self._links[validator] if validator < len(self._links) else None
        if link is None:
            raise RequestError(f"validator {validator} is not asked")
        try:
            return await link.request(bytes((operation,)) + body, self._timeout_s + wait_s)
        except TimeoutError:
            if link.problem is not None:  # more informative than the timeout
                raise link.problem from None
            raise

    async def close(self) -> None:
        await asyncio.gather(*(link.close() for link in self._known.values()), *self._closing)
