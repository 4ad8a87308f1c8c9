"""A chain whose members change, with blocks that the validators of each height certify."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tests.kabis.chain import CHAIN, Chain, certificate_of_members, key_of, make_genesis
from veristream.kabis.ledger.certified import CertifiedHeader
from veristream.kabis.ledger.membership import find_new_keys
from veristream.kabis.protocol.actions import SetMembers
from veristream.kabis.protocol.blocks import Block, CertifiedBlock
from veristream.kabis.protocol.keys import SecretKey
from veristream.kabis.protocol.members import Members, Party
from veristream.kabis.protocol.outcomes import Effect
from veristream.kabis.protocol.transactions import Transaction, prove_membership

FOUNDING = make_genesis().members
KEYS: dict[bytes, SecretKey] = {
    key_of(f"{kind}{number}", epoch).public: key_of(f"{kind}{number}", epoch)
    for kind in "vs"
    for number in range(10)
    for epoch in range(3)
}
"""The keys that members of tests have, by their public keys."""


def member(name: str, key_epoch: int = 0) -> Party:
    return Party(name, key_of(name, key_epoch).public, "127.0.0.1:9000")


def replaced(members: Members, old: str, new: Party) -> Members:
    """The members with one validator or storage party replaced."""

    def swap(parties: Sequence[Party]) -> tuple[Party, ...]:
        return tuple(new if party.name == old else party for party in parties)

    return replace(members, validators=swap(members.validators), storage=swap(members.storage))


def seven(members: Members) -> Members:
    """The members with three more validators and two more storage parties, for F = 2."""
    validators = (*members.validators, *(member(f"v{number}") for number in (7, 8, 9)))
    return replace(
        members, faults=2, validators=validators, storage=(*members.storage, member("s3"), member("s4"))
    )


def change(before: Members, after: Members, height: int) -> SetMembers:
    """The change with the proofs that it needs."""
    proofs = [
        prove_membership(CHAIN, role, party.name, KEYS[party.public])
        for role, party in find_new_keys(before, after)
    ]
    return SetMembers(after, height, tuple(sorted(proofs, key=lambda proof: proof.place)))


def certify_block(block: Block, members: Members, voters: Sequence[int] | None = None) -> CertifiedBlock:
    """The block with votes of as many of these members as a quorum needs, or of these voters."""
    return CertifiedBlock(block, certificate_of_members(block, members, KEYS, voters))


class Changing(Chain):
    """A chain that keeps certified blocks."""

    def certified_block(self, height: int) -> CertifiedBlock:
        return certify_block(self.blocks[height - 1], self.ledger.members_at(height))

    def certified(self, height: int) -> CertifiedHeader:
        certified = self.certified_block(height)
        return CertifiedHeader(certified.block.header, certified.certificate)

    def set_members(self, after: Members, height: int) -> None:
        """Orders the members in the next block."""
        self.block(self.act("admin", change(self.ledger.members, after, height)))

    def block(self, *transactions: Transaction, clock_ms: int | None = None) -> tuple[Effect, ...]:
        """Applies a block of exactly these transactions, proposed and certified by the members."""
        encoded = [transaction.encode() for transaction in transactions]
        members = self.ledger.members
        block = self.ledger.propose(encoded, clock_ms or self.clock_ms, members.validators[0].name)
        assert list(block.transactions) == encoded, "a transaction that does not take effect"
        self.blocks.append(block)
        return self.ledger.apply(block, certify_block(block, members).certificate)

    def grow(self, height: int) -> None:
        """Adds empty blocks up to a height."""
        while self.ledger.height < height:
            self.block()


def changed_twice() -> Changing:
    """A chain of height 12: from height 4 on another member is in force, from height 9 on seven are."""
    chain = Changing()
    chain.grow(1)
    second = replaced(FOUNDING, "v0", member("v4"))
    chain.set_members(second, 4)
    chain.grow(5)
    chain.set_members(seven(second), 9)
    chain.grow(12)
    return chain
