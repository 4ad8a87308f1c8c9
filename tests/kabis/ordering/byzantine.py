"""A validator that lies, as a process, for tests and demonstrations of what the others make of it.

`python -m tests.kabis.ordering.byzantine --fault equivocate --fault flood ...`, the rest as for
`process`. It holds one validator's key and runs the real protocol, so that it is heard; its messages are
changed on their way out.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from enum import Enum
from functools import partial
from hashlib import sha256
from typing import TypeVar

from veristream.kabis.cluster.validator_process import main as run_process
from veristream.kabis.ordering.messages import NO_ROUND, Proposal, Step, Value, Vote, sign_bytes
from veristream.kabis.ordering.node import Node
from veristream.kabis.ordering.peers import TRANSACTIONS_PER_OFFER_MAX, Ask, Offer, PeerMessage
from veristream.kabis.ordering.seats import Signers
from veristream.kabis.ordering.store import BlockStore, RecordStore
from veristream.kabis.ordering.validator import Action, Settings
from veristream.kabis.protocol.blocks import Block, transactions_root
from veristream.kabis.protocol.genesis import Genesis

FLOODED_VOTES = 10
FLOOD_EVERY_S = 0.02
JUNK_BYTES = 1000

SignedMessage = TypeVar("SignedMessage", Proposal, Vote)


class Fault(Enum):
    """How it lies."""

    SILENT = "silent"
    EQUIVOCATE = "equivocate"
    BAD_BLOCKS = "bad-blocks"
    FLOOD = "flood"
    GARBAGE = "garbage"


class ByzantineNode(Node):
    """A validator that says other things than it should."""

    def __init__(
        self,
        genesis: Genesis,
        index: int,  # it is a founding validator
        signers: Signers,
        stores: tuple[BlockStore, RecordStore],
        settings: Settings,
        *,
        faults: frozenset[Fault],
    ) -> None:
        super().__init__(genesis, index, signers, stores, settings)
        self.index = index
        self._faults = faults
        self._lies = 0
        self._flooded = 0.0

    def _send(self, receiver: int | None, message: PeerMessage) -> None:
        mine = isinstance(message, Vote | Proposal) and message.sender == self.index
        if Fault.SILENT in self._faults:
            return
        if isinstance(message, Vote) and mine and Fault.EQUIVOCATE in self._faults:
            self._tell_two_stories(message)
        elif isinstance(message, Proposal) and mine and Fault.BAD_BLOCKS in self._faults:
            self._propose_wrongly(message)
        else:
            super()._send(receiver, message)

    def perform(self, actions: Sequence[Action]) -> None:
        """Does what a validator wants done, and some more."""
        super().perform(actions)
        if self._loop.time() < self._flooded + FLOOD_EVERY_S:
            return
        self._flooded = self._loop.time()
        if Fault.FLOOD in self._faults:
            self._flood()
        if Fault.GARBAGE in self._faults:
            self._talk_nonsense()

    def _tell_two_stories(self, vote: Vote) -> None:
        """One vote to all but the last, another to all but the first, so that those between hear both."""
        other = None if vote.identifier is not None else sha256(b"another block").digest()
        links = list(self.links)
        for number in links[:-1]:
            super()._send(number, vote)
        for number in links[1:]:
            super()._send(number, self._signed(replace(vote, identifier=other)))

    def _propose_wrongly(self, proposal: Proposal) -> None:
        """A different wrong block each time; two blocks that contradict each other are one of the ways."""
        self._lies += 1
        block = Block.decode(proposal.value.content)
        if self._lies % 4 == 0:
            self._propose_twice(proposal, block)
            return
        header = block.header
        if self._lies % 4 == 1:
            header = replace(header, state=sha256(b"another state").digest())
        elif self._lies % 4 == 2:
            junk = (b"this has no effect", *block.transactions)
            header = replace(header, count=len(junk), root=transactions_root(junk))
            block = replace(block, transactions=junk)
        else:
            header = replace(header, time_ms=header.time_ms + 3_600_000)
        super()._send(None, self._reproposed(proposal, replace(block, header=header)))

    def _propose_twice(self, proposal: Proposal, block: Block) -> None:
        later = replace(block, header=replace(block.header, time_ms=block.header.time_ms + 1))
        for place, number in enumerate(self.links):
            super()._send(number, self._reproposed(proposal, block if place % 2 else later))

    def _reproposed(self, proposal: Proposal, block: Block) -> Proposal:
        value = Value(block.block_id(), block.encode())
        return self._signed(replace(proposal, value=value, valid_round=NO_ROUND, proof=None))

    def _flood(self) -> None:
        """Votes of rounds far ahead, and questions for all blocks."""
        height = self.ledger.height + 1
        for _ in range(FLOODED_VOTES):
            self._lies += 1
            vote = Vote(Step.PREVOTE, height, self._lies, None, self.index)
            super()._send(None, self._signed(vote))
            super()._send(None, Ask(1))

    def _talk_nonsense(self) -> None:
        """Bytes that are no message, or transactions that are none."""
        self._lies += 1
        if self._lies % 2:
            super()._send(None, Offer((os.urandom(JUNK_BYTES),) * TRANSACTIONS_PER_OFFER_MAX))
            return
        for link in self.links.values():
            link.send_now(os.urandom(JUNK_BYTES))

    def _signed(self, message: SignedMessage) -> SignedMessage:
        return replace(message, signature=self.signer.sign(sign_bytes(self.genesis.chain_id, message)))


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a lying validator as the command line says; gives the exit status."""
    parser = argparse.ArgumentParser(prog="tests.kabis.ordering.byzantine", add_help=False)
    parser.add_argument("--fault", action="append", choices=[fault.value for fault in Fault], required=True)
    given, rest = parser.parse_known_args(sys.argv[1:] if arguments is None else arguments)
    faults = frozenset(Fault(name) for name in given.fault)
    return run_process(rest, partial(ByzantineNode, faults=faults))


if __name__ == "__main__":
    sys.exit(main())
