"""Lying parties for tests and `veristream kabis chaos`: real processes with real keys.

Each behaves correctly except for one fault, which is the worst case: it has all data and signs with its own
key. None has the key of another party.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace

from veristream.kabis.cluster import storage_process as stores
from veristream.kabis.cluster import validator_process as validators
from veristream.kabis.cluster.faults import StorageFault, ValidatorFault
from veristream.kabis.ordering.messages import Vote, sign_bytes
from veristream.kabis.ordering.node import Node
from veristream.kabis.ordering.peers import PeerMessage
from veristream.kabis.protocol.answers import Absent
from veristream.kabis.protocol.outcomes import Done, Outcome
from veristream.kabis.protocol.plain import PlainEntry, PlainSlice
from veristream.kabis.storage.messages import Batches, Operation, reply, split_request
from veristream.kabis.storage.messages import Outcome as Answered
from veristream.kabis.storage.party import StorageParty
from veristream.kabis.wire.connection import Attached, Later, RequestError
from veristream.kabis.wire.handshake import Peer

NOBODYS_BLOCK = b"\xee" * 32


class AlteringParty(StorageParty):
    """Changes the last byte of the events that it returns."""

    async def answer(self, peer: Peer, body: bytes) -> bytes | Attached:
        operation, _ = split_request(body)
        true = await super().answer(peer, body)
        true = true.make() if isinstance(true, Later) else true
        if isinstance(true, Attached):
            return Attached(true.body, _alter(bytes(true.contents)))
        if true[:1] != bytes((Answered.FOUND,)):
            return true
        match operation:
            case Operation.FETCH:
                batches = Batches.decode(true[1:]).batches
                return reply(Batches(0, tuple(map(_alter, batches))))
            case Operation.FETCH_PLAIN:
                part = PlainSlice.decode(true[1:])
                return reply(PlainSlice(part.end, tuple(map(_alter_entry, part.entries))))
            case _:
                return true


def _alter(data: bytes) -> bytes:
    return data[:-1] + bytes((data[-1] ^ 1,)) if data else data


def _alter_entry(entry: PlainEntry) -> PlainEntry:
    leaves = tuple(map(_alter, entry.append.leaves))
    return PlainEntry(entry.first_offset, replace(entry.append, leaves=leaves))


class WithholdingParty(StorageParty):
    """Stores everything but returns nothing."""

    async def answer(self, peer: Peer, body: bytes) -> bytes | Attached | Later:
        """Denies having what a reader asks for."""
        operation, _ = split_request(body)
        match operation:
            case Operation.FETCH_DIGEST:
                return reply(Absent())
            case Operation.FETCH:
                return reply(Batches(0, ()))
            case Operation.FETCH_PLAIN:
                await asyncio.sleep(0.1)  # the client will ask again immediately
                return reply(PlainSlice(0, ()))
            case Operation.ABSENCE:
                raise RequestError("this party does not sign such statements")
            case _:
                return await super().answer(peer, body)


class EquivocatingNode(Node):
    """Sends each vote to half of the others and a contradicting vote to the rest, then both to all."""

    def _send(self, receiver: int | None, message: PeerMessage) -> None:
        me = self.validator.seats.identity(message.height) if isinstance(message, Vote) else None
        if not isinstance(message, Vote) or me is None or message.sender != me.index:  # forwarded
            super()._send(receiver, message)
            return
        other = NOBODYS_BLOCK if message.identifier is None else None
        opposite = replace(message, identifier=other, signature=b"")
        signature = me.sign(sign_bytes(self.genesis.chain_id, opposite))
        lies = (message, replace(opposite, signature=signature))
        for number in self.links if receiver is None else (receiver,):
            first, second = lies if number % 2 else lies[::-1]
            super()._send(number, first)
            super()._send(number, second)


class SilentNode(Node):
    """Receives messages but sends none; tells clients that it accepts their transactions."""

    def _send(self, receiver: int | None, message: PeerMessage) -> None:
        """Sends nothing."""

    def submit(self, transaction: bytes) -> Outcome:
        """Drops a client's transaction."""
        return Done()


LYING_STORES: Mapping[StorageFault, type[StorageParty]] = {
    StorageFault.ALTER: AlteringParty,
    StorageFault.WITHHOLD: WithholdingParty,
}
LYING_VALIDATORS: Mapping[ValidatorFault, type[Node]] = {
    ValidatorFault.EQUIVOCATE: EquivocatingNode,
    ValidatorFault.SILENT: SilentNode,
}
"""The faults of the catalogue that a real process can have; a new one needs a class and a line here."""


def run_storage(fault: StorageFault, arguments: Sequence[str]) -> int:
    """Runs a storage party with this fault; returns the exit status."""
    return stores.main(arguments, LYING_STORES[fault])


def run_validator(fault: ValidatorFault, arguments: Sequence[str]) -> int:
    """Runs a validator with this fault; returns the exit status."""
    return validators.main(arguments, LYING_VALIDATORS[fault])
