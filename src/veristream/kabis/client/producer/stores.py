"""The storage parties that a producer uses, as they change."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from veristream.kabis.client.producer.queue import PartitionQueue
from veristream.kabis.ledger.ledger import Ledger
from veristream.kabis.protocol.keys import SignatureError, Verify
from veristream.kabis.protocol.members import MemberRole, Members
from veristream.kabis.protocol.receipts import StorageReceipt


class Stores:
    """The parties in force for the next block and those about to be, with their keys.

    Batches go to both, so that receipts of a party that joins are there when they count.
    """

    def __init__(self, ledger: Ledger) -> None:
        self.keys: dict[str, bytes] = {}
        self._members: Members = ledger.memberships.founding
        self._chain_id = ledger.genesis.chain_id
        self.meet(ledger, ())

    def meet(self, ledger: Ledger, queues: Iterable[PartitionQueue]) -> bool:
        """Follows the members; returns whether they differ.

        What parties answered that left, or have another key, does not count any more.
        """
        memberships, height = ledger.memberships, ledger.height + 1
        members = memberships.at(height)
        keys = {party.name: party.public for party in members.storage}
        for party in memberships.may_come(height, MemberRole.STORAGE):
            keys.setdefault(party.name, party.public)  # the key in force takes precedence
        if members is self._members and keys == self.keys:
            return False
        gone = {name for name, public in self.keys.items() if keys.get(name) != public}
        self._members, self.keys = members, keys
        for queue in queues:
            queue.meet(gone)
        return True

    def verify(self, name: str, receipt: StorageReceipt, check: Verify) -> None:
        """Raises SignatureError unless it is the receipt of a party in force, or about to be."""
        if receipt.party != name:
            raise SignatureError(f"a receipt of {receipt.party!r}")
        if name not in self.keys:
            raise SignatureError("it is no longer a storage party")
        receipt.verify(self._chain_id, self.keys[name], check)

    def choose(self, receipts: Mapping[str, StorageReceipt]) -> list[StorageReceipt] | None:
        """Returns as many receipts of parties in force as a batch needs; None if there are too few."""
        in_force = {party.name for party in self._members.storage}
        chosen = [receipt for name, receipt in receipts.items() if name in in_force]
        needed = self._members.receipts_needed
        return chosen[:needed] if len(chosen) >= needed else None

    def suffice(self, names: Collection[str]) -> bool:
        """Returns whether all parties in force but F are among these."""
        storage = self._members.storage
        return sum(party.name in names for party in storage) >= len(storage) - self._members.faults
