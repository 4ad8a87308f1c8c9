"""The members of a chain by height, as the audit's tasks need them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from veristream.kabis.protocol.actions import SetMembers
from veristream.kabis.protocol.blocks import CertifiedBlock
from veristream.kabis.protocol.codec import DecodeError, domain_tag
from veristream.kabis.protocol.genesis import Genesis
from veristream.kabis.protocol.keys import Verify
from veristream.kabis.protocol.keys import verify as verify_signature
from veristream.kabis.protocol.members import Members, Memberships, Party
from veristream.kabis.protocol.receipts import CertificateError
from veristream.kabis.protocol.transactions import Signed, decode_transaction

HEIGHT_MAX = (1 << 64) - 1
CHANGE_TAG = domain_tag(SetMembers.KIND)
"""What the encoding of a block contains that changes the members; of others, hardly any."""


@dataclass(frozen=True, slots=True)
class History:
    """The founding members, and the later ones by the height from which they are in force, ascending."""

    genesis: Genesis
    changes: tuple[tuple[int, Members], ...] = ()

    def at(self, height: int) -> Members:
        """Returns the members in force at a height."""
        begun = [members for begin, members in self.changes if begin <= height]
        return begun[-1] if begun else self.genesis.members

    def storage_names(self) -> tuple[str, ...]:
        """Returns the names of all storage parties that the chain ever had."""
        members = (self.genesis.members, *(each for _, each in self.changes))
        return tuple(dict.fromkeys(party.name for each in members for party in each.storage))

    def storage_parties(self) -> tuple[Party, ...]:
        """Returns all storage parties that the chain ever had, with the keys that they had last."""
        return Memberships(self.genesis.members, self.changes).storage_parties(HEIGHT_MAX)

    def former(self) -> frozenset[str]:
        """Returns the names of the storage parties that left; nothing obliges them to answer any more."""
        return frozenset(self.storage_names()) - {party.name for party in self.at(HEIGHT_MAX).storage}

    def changed(self, action: SetMembers) -> History:
        """Returns the history with one more change."""
        return replace(self, changes=(*self.changes, (action.height, action.members)))


def find_history(
    genesis: Genesis, blocks: Iterable[CertifiedBlock], verify: Verify = verify_signature
) -> History:
    """Returns the members by height, given at least all blocks that change them, in their order.

    A block that its validators did not decide changes nothing here; reading the ledger reports it.
    """
    history = History(genesis)
    for certified in blocks:
        changing = [each for each in certified.block.transactions if CHANGE_TAG in each]
        header, certificate = certified.block.header, certified.certificate
        if not changing:
            continue
        try:
            if certificate.block_id != header.block_id():
                continue
            certificate.verify(genesis.chain_id, history.at(header.height).validator_keys, verify)
        except CertificateError:
            continue
        for encoded in changing:
            history = _take(history, encoded)
    return history


def _take(history: History, encoded: bytes) -> History:
    try:
        transaction = decode_transaction(encoded)
    except DecodeError:
        return history
    match transaction:
        case Signed(action=SetMembers() as action):
            return history.changed(action)
        case _:
            return history
