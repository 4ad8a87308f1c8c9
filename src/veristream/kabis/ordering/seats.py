"""Who votes at each height, with which keys, and whom a validator talks to.

The members of a height are known two heights before (`ledger.membership`), so messages of the next height
can be verified while this one is decided. A validator that is not among the members of a height observes:
it follows what others decide. Its own key of a height is the one that the members of that height name.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from veristream.kabis.ledger.ledger import Ledger
from veristream.kabis.ordering.messages import Committee, Verifier
from veristream.kabis.ordering.tendermint import Identity
from veristream.kabis.protocol.keys import Signer, Verify
from veristream.kabis.protocol.members import Members, Party

OBSERVER = -1
"""The position of a validator that does not vote."""
LEAVING_HEIGHTS = 1_000
"""For so many heights whoever has left, or has a former key, may still fetch blocks, and so learns it."""
_KEPT = 8

Me = int | str
"""A validator: its position among the founding ones, or its name."""
Signers = Signer | tuple[Signer, ...]
"""The keys of a validator: the one of now, and the one that a pending change names, if there is one."""


@dataclass(frozen=True, slots=True)
class _Seat:
    members: Members
    identity: Identity
    verifier: Verifier


class Seats:
    """The validators by height, as the ledger knows them, seen by one that may be among them."""

    def __init__(
        self, ledger: Ledger, me: Me, signers: Signers, check: Verify, identify: Callable[[bytes], bytes]
    ) -> None:
        self.name = ledger.genesis.validators[me].name if isinstance(me, int) else me
        self._ledger = ledger
        several = signers if isinstance(signers, tuple) else (signers,)
        self._signers = {signer.public: signer for signer in several}
        self._first = several[0]
        self._check = check
        self._identify = identify
        self._known: dict[int, _Seat] = {}
        self._later: tuple[int, Members] | None = None

    def members(self, height: int) -> Members:
        """Returns the members of a height, at most two above the ledger's."""
        return self._at(height).members

    def identity(self, height: int) -> Identity:
        """Returns who this validator is at a height; its index is `OBSERVER` if it does not vote."""
        return self._at(height).identity

    def verifier(self, height: int) -> Verifier:
        """Returns what verifies messages about a height."""
        return self._at(height).verifier

    def votes_at(self, height: int) -> bool:
        """Returns whether this validator votes at a height."""
        return self.identity(height).index != OBSERVER

    def has(self, public: bytes) -> bool:
        """Returns whether it has the key with this public part."""
        return public in self._signers

    def learn(self, signer: Signer) -> None:
        """Adds a key, for the heights at which the members name it."""
        self._signers[signer.public] = signer
        self._known.clear()

    def _at(self, height: int) -> _Seat:
        seat = self._known.get(height)
        if seat is None:
            seat = self._known[height] = self._make(height)
            if len(self._known) > _KEPT:
                del self._known[min(self._known)]
        return seat

    def _make(self, height: int) -> _Seat:
        members, check = self._ledger.members_at(height), self._check
        keys = members.validator_keys
        committee = Committee(self._ledger.genesis.chain_id, len(keys))
        index = members.index_of(self.name)
        signer = None if index is None else self._signers.get(keys[index])
        if index is None or signer is None:
            identity = Identity(OBSERVER, committee, self._first.sign)
        else:
            identity = Identity(index, committee, signer.sign)
        verifier = Verifier(
            committee, lambda number, data, signature: check(keys[number], data, signature), self._identify
        )
        return _Seat(members, identity, verifier)

    # Between heights

    def expect(self, height: int, members: Members) -> None:
        """Notes members that are proved to be in force from a height on, which the ledger has yet to reach.

        Of the members that the ledger knows, there may be none left to fetch blocks from.
        """
        self._later = (height, members)

    def _expected(self) -> list[Members]:
        """The proved members of a later height, if the ledger does not know them."""
        if self._later is None or self._later[0] <= self._ledger.height + 1:
            return []
        return [self._later[1]]

    def _all(self) -> list[tuple[int, Members]]:
        """All members that were ever ordered, by the height that they begin at; the founding ones at 0."""
        return [(0, self._ledger.genesis.members), *self._ledger.memberships.changes]

    def _present(self) -> list[Members]:
        """The members in force for the next block, then the pending ones."""
        pending = self._ledger.pending_members
        return [self._ledger.members, *([] if pending is None else [pending[1]])]

    def named(self) -> list[Party]:
        """Returns what the members in force and the pending ones say of this validator."""
        parties = [party for each in self._present() for party in each.validators]
        return [party for party in parties if party.name == self.name]

    @property
    def signer(self) -> Signer:
        """The key by which others know this validator now."""
        named = (self._signers.get(party.public) for party in self.named())
        return next((signer for signer in named if signer is not None), self._first)

    def key(self, attempt: int) -> Signer:
        """Returns the key for an attempt to connect; others may know an earlier or a later one."""
        keys = [self.signer, *(each for each in self._signers.values() if each is not self.signer)]
        return keys[attempt % len(keys)]

    @property
    def left_at(self) -> int | None:
        """The height from which this validator is none any more; None if it is one, or never was."""
        if self.named():
            return None
        known = self._all()
        held = [height for height, members in known if members.index_of(self.name) is not None]
        return min(height for height, _ in known if height > held[-1]) if held else None

    def _recent(self) -> list[Members]:
        """The members in force for the next block, pending and later ones, then former ones for a while."""
        height = self._ledger.height + 1
        known = [each for each in self._all() if each[0] <= height]
        ends = [*(begin for begin, _ in known[1:]), height + 1]
        former = [
            members
            for (_, members), end in zip(known, ends, strict=True)
            if height - LEAVING_HEIGHTS < end <= height
        ]
        return [*self._present(), *self._expected(), *reversed(former)]

    def others(self) -> dict[str, tuple[Party, ...]]:
        """Returns the other validators to talk to, by name: in force, pending or later, or just left.

        Of a validator with several keys, the one in force comes first. Whoever lags behind a change may
        still know itself, or us, by another.
        """
        found: dict[str, dict[bytes, Party]] = {}
        for members in self._recent():
            for party in members.validators:
                found.setdefault(party.name, {}).setdefault(party.public, party)
        found.pop(self.name, None)
        return {name: tuple(parties.values()) for name, parties in found.items()}

    def admits(self, name: str, public: bytes) -> bool:
        """Returns whether another validator with this name and key may connect."""
        return any(party.public == public for party in self.others().get(name, ()))
