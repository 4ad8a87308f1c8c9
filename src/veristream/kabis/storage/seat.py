"""A storage party's place among the members: whether it may give receipts, and with which of its keys.

A party signs with the key that the members in force name. It holds two while its key is being replaced. It
gives receipts while it is in force or about to be, so that producers have receipts of a party that joins
before they need them, and none of a party that has left.
"""

from __future__ import annotations

from collections.abc import Sequence

from veristream.kabis.protocol.genesis import Genesis
from veristream.kabis.protocol.keys import Signer
from veristream.kabis.protocol.members import MemberRole, Memberships
from veristream.kabis.storage.admission import BehindError, Gate, StorageRefusedError
from veristream.kabis.storage.messages import Standing


class Seat:
    """The keys of one party, and its standing; it signs with the present key.

    Without a gate, which knows the chain, the founding members are in force for ever.
    """

    def __init__(
        self, genesis: Genesis, name: str, signers: Sequence[Signer], gate: Gate | None = None
    ) -> None:
        self.name = name
        self._signers = {signer.public: signer for signer in signers}
        self._founding = Memberships(genesis.members)
        self._gate = gate

    @staticmethod
    def of(genesis: Genesis, name: str, signer: Signer, gate: Gate | None) -> Seat:
        """Returns the seat that is the signer, or that of a party with one key."""
        return signer if isinstance(signer, Seat) else Seat(genesis, name, (signer,), gate)

    @property
    def memberships(self) -> Memberships:
        """The members at every height, as far as the chain is followed."""
        return self._founding if self._gate is None else self._gate.view.memberships

    @property
    def next_height(self) -> int:
        """The height of the next block, as far as the chain is followed."""
        return 1 if self._gate is None else self._gate.view.height + 1

    @property
    def standing(self) -> Standing:
        """Where the party stands in the next block."""
        height, memberships = self.next_height, self.memberships
        now = memberships.at(height).find(MemberRole.STORAGE, self.name)
        if now is not None and now.public in self._signers:
            return Standing.MEMBER
        if any(key in self._signers for key in self._coming_keys(height)):
            return Standing.COMING
        last = memberships.storage_key(self.name, height)
        return Standing.FORMER if last in self._signers else Standing.STRANGER

    def _coming_keys(self, height: int) -> list[bytes]:
        coming = self.memberships.may_come(height, MemberRole.STORAGE)
        return [party.public for party in coming if party.name == self.name]

    @property
    def lacks_key(self) -> bool:
        """Whether the members in force or about to be name a key of the party that it does not have."""
        return any(key not in self._signers for key in self._coming_keys(self.next_height))

    def add(self, signer: Signer) -> bool:
        """Takes another key; returns False if it has it."""
        if signer.public in self._signers:
            return False
        self._signers[signer.public] = signer
        return True

    @property
    def public(self) -> bytes:
        """The present public key."""
        return self._present.public

    def sign(self, message: bytes) -> bytes:
        """Signs with the present key."""
        return self._present.sign(message)

    @property
    def _present(self) -> Signer:
        return self.signer_at(self.next_height)

    def signer_at(self, height: int) -> Signer:
        """Returns the key that counts at a height; before the party joins, the one with which it will."""
        keys = [self.memberships.storage_key(self.name, height), *self._coming_keys(height)]
        named = (self._signers[key] for key in keys if key in self._signers)
        return next(named, next(iter(self._signers.values())))

    def require(self) -> None:
        """Raises StorageRefusedError unless the party is in force, or about to be."""
        match self.standing:
            case Standing.MEMBER | Standing.COMING:
                return
            case Standing.FORMER:
                raise StorageRefusedError(f"{self.name} is {Standing.FORMER.value}")
            case Standing.STRANGER:
                height = self.next_height - 1
                raise BehindError(f"{self.name} is {Standing.STRANGER.value}, as of block {height}")
