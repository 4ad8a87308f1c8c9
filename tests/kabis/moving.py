"""A ledger whose members change, with the certificates of whoever is in force."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from veristream.kabis.client.changes import Change, plan_change
from veristream.kabis.cluster.folder import ADMIN, ClusterFolder
from veristream.kabis.ledger.ledger import Ledger
from veristream.kabis.ledger.membership import find_new_keys
from veristream.kabis.protocol.actions import SetMembers
from veristream.kabis.protocol.blocks import Block
from veristream.kabis.protocol.genesis import Genesis
from veristream.kabis.protocol.keys import SecretKey, load_key
from veristream.kabis.protocol.receipts import CommitCertificate, SignedVote, VoteKind, vote_bytes
from veristream.kabis.protocol.transactions import Author, prove_membership, sign_action
from veristream_testing.simulation.votes import certify


class Moving:
    """Makes blocks one by one; `keys` are the secret keys of all who ever sign, and the admin's."""

    def __init__(self, genesis: Genesis, admin: SecretKey, keys: Iterable[SecretKey]) -> None:
        self.ledger = Ledger(genesis)
        self._admin = Author(genesis.chain_id, ADMIN, 0, admin)
        self._keys = {key.public: key for key in keys}
        self._actions = 0

    def change(self, change: Change, height: int) -> None:
        """Orders a change in the next block."""
        before = self.ledger.members
        after = plan_change(before, change)
        proofs = [
            prove_membership(self._admin.chain_id, role, party.name, self._keys[party.public])
            for role, party in find_new_keys(before, after)
        ]
        self._actions += 1
        action = SetMembers(after, height, tuple(sorted(proofs, key=lambda each: each.place)))
        self._go(sign_action(self._admin, self._actions, action).encode())

    def reach(self, height: int) -> None:
        """Makes empty blocks up to this height."""
        while self.ledger.height < height:
            self._go()

    def _go(self, *transactions: bytes) -> None:
        proposer = self.ledger.members.validators[0].name
        block = self.ledger.propose(transactions, self.ledger.time_ms + 10, proposer)
        assert block.transactions == transactions, "a transaction without effect"
        self.ledger.apply(block, self._certify(block))

    def _certify(self, block: Block) -> CommitCertificate:
        block_id, height, members = block.header.block_id(), block.header.height, self.ledger.members
        message = vote_bytes(self._admin.chain_id, VoteKind.PRECOMMIT, height, 0, block_id)
        voters = list(enumerate(members.validators))[: 2 * members.faults + 1]
        return certify(
            [
                SignedVote(
                    number, VoteKind.PRECOMMIT, height, 0, block_id, self._keys[party.public].sign(message)
                )
                for number, party in voters
            ]
        )


def moving_over(folder: ClusterFolder) -> Moving:
    """Makes blocks of a cluster that does not run, with the keys in its folder, newcomers' too."""

    def found() -> Iterable[Path]:
        yield from folder.path.glob("validator-*/key*")
        yield from folder.path.glob("storage-*/key*")

    return Moving(folder.genesis(), folder.key(ADMIN), map(load_key, found()))
