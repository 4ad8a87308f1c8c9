"""A validator's service for clients."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import assert_never

from veristream.kabis.ordering import requests
from veristream.kabis.ordering.node import Node
from veristream.kabis.ordering.store import PrunedError
from veristream.kabis.protocol.blocks import TRANSACTION_BYTES_MAX
from veristream.kabis.protocol.outcomes import Reason, Refused
from veristream.kabis.wire.connection import Handlers, Later, Note, RequestError, note_nothing
from veristream.kabis.wire.handshake import Peer, Role

READ_BYTES_MAX = 512 << 10
"""So few that an answer is made within milliseconds: meanwhile votes wait."""
WAIT_MS_MAX = 30_000
BLAMED = frozenset(
    {
        *(Reason.MALFORMED, Reason.BAD_SIGNATURE, Reason.NOT_ADMIN, Reason.NO_RIGHT),
        *(Reason.TOO_FEW_RECEIPTS, Reason.WRONG_RECEIPT, Reason.UNKNOWN_PARTY),
    }
)
"""Refusals that are noted with the client's name; the others may happen to anybody who lags behind."""


class Service:
    """Authorizes clients and validators, and answers requests of clients."""

    def __init__(self, node: Node, *, anonymous: bool = False) -> None:
        self._node = node
        self._anonymous = anonymous
        self.handlers = Handlers(self.answer, node.receive)
        self.note: Note = note_nothing
        self.blame: Note = note_nothing

    def authorize(self, peer: Peer) -> str | None:
        """Returns why a peer is refused, or None; keys of clients are looked up on the current ledger."""
        match peer.role:
            case Role.VALIDATOR:
                return self._node.authorize(peer)
            case Role.STORAGE:
                known = self._is_storage(peer)
            case Role.PRODUCER | Role.CONSUMER:
                return self._explain_refusal(peer)
            case Role.ADMIN:
                if any(party.name == peer.name for party in self._node.genesis.admins):
                    return self._explain_refusal(peer)
                known = False
            case Role.ANONYMOUS:
                return None if self._anonymous else "this party admits only registered keys"
            case _:
                assert_never(peer.role)
        return None if known else _not_registered(peer)

    def _is_storage(self, peer: Peer) -> bool:
        """Returns whether a peer is, was or is about to be a storage party, by any key that it had.

        One that lags behind a change must follow to learn which of its keys counts.
        With a key that was replaced, it can read the chain, as every client can, and nothing else.
        """
        return self._node.ledger.memberships.had_storage(peer.name, peer.public)

    def _explain_refusal(self, peer: Peer) -> str | None:
        """Returns why a client's key is refused; None if it is the latest one on the ledger, and valid."""
        ledger = self._node.ledger
        account = ledger.account(peer.name)
        if account is None:
            return _not_registered(peer)
        name, epoch = ledger.owner(peer.public) or ("", 0)
        if name != peer.name:
            return _not_registered(peer)
        if epoch < account.key_epoch:
            return f"the key of {name}, epoch {epoch}, is replaced by a newer one"
        latest = ledger.key(name, epoch)
        if latest is not None and latest.ending is not None:
            return f"the key of {name}, epoch {epoch}, is {latest.ending.name.lower()}"
        return None

    async def answer(self, peer: Peer, body: bytes) -> bytes | Later:
        """Answers one request; raises RequestError if it cannot."""
        operation, rest = requests.split_request(body)
        match operation:
            case requests.Operation.SUBMIT:
                return await self._submit(peer, rest)
            case requests.Operation.READ:
                return await self._read(requests.Read.decode(rest))
            case requests.Operation.STATUS:
                return self.status().encode()
            case requests.Operation.EVIDENCE:
                return self._evidence().encode()
            case requests.Operation.MANIFEST:
                return Later(self._manifest)
            case requests.Operation.CHUNK:
                return Later(partial(self._chunk, requests.ReadChunk.decode(rest)))
            case requests.Operation.HANDOVERS:
                return Later(requests.Handed(self._node.ledger.succession.handovers).encode)
            case _:
                assert_never(operation)

    async def _submit(self, peer: Peer, transaction: bytes) -> bytes:
        if peer.role is Role.ANONYMOUS:
            raise RequestError("only registered clients may submit transactions")
        if len(transaction) > TRANSACTION_BYTES_MAX:
            raise RequestError(
                f"{len(transaction)} bytes; a transaction has at most {TRANSACTION_BYTES_MAX}"
            )
        outcome = await self._node.admit(transaction, peer.name)
        if isinstance(outcome, Refused) and outcome.reason is Reason.TOO_MANY:
            self.note(peer, "too many transactions")
        elif isinstance(outcome, Refused) and outcome.reason in BLAMED:
            self.blame(peer, "bad transactions")
        return requests.encode_outcome(outcome)

    async def _read(self, request: requests.Read) -> Later:
        """Reads blocks; waits for the first one up to the time that the client allows."""
        node = self._node
        try:
            async with asyncio.timeout(min(request.wait_ms, WAIT_MS_MAX) / 1000):
                while request.wait_ms and node.published < request.first:
                    await node.wait_for_block()
        except TimeoutError:
            pass
        return Later(partial(self._make_blocks, request))

    def _make_blocks(self, request: requests.Read) -> bytes:
        node = self._node
        last = min(request.last, node.published, request.first + requests.BLOCKS_PER_ANSWER_MAX - 1)
        try:
            found = tuple(node.blocks.slice(request.first, last, min(request.bytes_max, READ_BYTES_MAX)))
        except PrunedError as error:
            raise RequestError(str(error)) from error
        return requests.Blocks(node.published, found).encode()

    def _manifest(self) -> bytes:
        """Returns the manifest of the newest snapshot."""
        snapshots = self._node.blocks.snapshots
        manifest = None if snapshots is None else snapshots.manifest()
        if manifest is None:
            raise RequestError("there is no snapshot yet")
        return manifest

    def _chunk(self, request: requests.ReadChunk) -> bytes:
        """Returns one chunk, which is one file of bounded size."""
        snapshots = self._node.blocks.snapshots
        chunk = None if snapshots is None else snapshots.chunk(request.height, request.number)
        if chunk is None:
            raise RequestError(f"there is no chunk {request.number} of a snapshot at {request.height}")
        return chunk

    def status(self) -> requests.Status:
        node, ledger = self._node, self._node.ledger
        return requests.Status(
            height=ledger.height,
            block_id=ledger.last_id,
            state=ledger.state_hash(),
            time_ms=ledger.time_ms,
            round=node.validator.machine.round,
            waiting=len(node.validator.mempool),
            peers=sum(link.connected for link in node.links.values()),
            accusations=len(ledger.accusations()),
            size_bytes=node.blocks.size_bytes,
        )

    def _evidence(self) -> requests.Evidence:
        return requests.Evidence(requests.list_accused(self._node.ledger), self._node.contradictions)


def _not_registered(peer: Peer) -> str:
    return f"{peer.name!r} is not registered with this key as {peer.role.name.lower()}"
