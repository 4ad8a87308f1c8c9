"""Whoever has the keys of former validators: it forges what they could certify when they were in force.

It acts only at heights at which they are not in force any more, and only towards those who know that: those
must not believe it. Somebody who has the genesis alone cannot know better, once a quorum of former keys is
stolen; towards them no more than F former validators of each set lie.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from random import Random

from veristream.kabis.ledger.leaves import decode_leaf
from veristream.kabis.ledger.snapshot import Manifest
from veristream.kabis.ledger.succession import Handover
from veristream.kabis.ledger.trie import Leaf, hash_leaf, place_of, root_of, update
from veristream.kabis.protocol.blocks import Block, CertifiedBlock
from veristream.kabis.protocol.codec import DecodeError
from veristream.kabis.protocol.members import Members, Memberships, Party
from veristream.kabis.protocol.receipts import CommitCertificate, VoteKind, quorum, vote_bytes
from veristream.kabis.wire.connection import RequestError
from veristream_testing.simulation.chain import CHAIN, Key
from veristream_testing.simulation.upkeep.offers import (
    AHEAD,
    Honest,
    Offered,
    Source,
    change,
    leaves_of,
    to_chunks,
)

Knows = Callable[[], Collection[int]]
"""The heights of the changes that somebody knows of."""


@dataclass(frozen=True, slots=True)
class Stolen:
    """Former members, of whom a quorum's keys are not in use any more; others begin at `end`."""

    members: Members
    end: int
    gone: tuple[int, ...]

    @property
    def keys(self) -> set[bytes]:
        """The keys that are not in use any more."""
        return {self.members.validators[number].public for number in self.gone}

    def certify(self, block_id: bytes, height: int) -> CommitCertificate:
        """Returns a certificate of their quorum."""
        message = vote_bytes(CHAIN, VoteKind.PRECOMMIT, height, 0, block_id)
        needed = self.gone[: quorum(len(self.members.validators))]
        keys = {number: Key(self.members.validators[number].public) for number in needed}
        votes = tuple((number, key.sign(message)) for number, key in sorted(keys.items()))
        return CommitCertificate(height, 0, block_id, votes)


@dataclass(slots=True)
class Former:
    """The thief of all former keys; `make_block` returns a block to forge at a height, if it can be one."""

    random: Random
    memberships: Callable[[], Memberships]
    top: Callable[[], int]
    honest: Callable[[], Honest | None]
    make_block: Callable[[int], Block | None]
    liars: Callable[[], Collection[str]]
    forged: int = 0

    def steal(self, height: int, knows: Collection[int]) -> Stolen | None:
        """Returns members that are not in force any more at a height, as somebody knows."""
        for stolen in self._list_stolen(height):
            if stolen.end <= height and stolen.end in knows:
                return stolen
        return None

    def poses_as(self, party: Party, knows: Collection[int]) -> bool:
        """Whether it has stolen the key of a party that has left, as somebody knows."""
        return any(
            stolen.end in knows and party.public in stolen.keys
            for stolen in self._list_stolen(self.top() + 1)
        )

    def _list_stolen(self, claimed: int) -> list[Stolen]:
        """Returns the former sets of whose keys a quorum is neither in use nor in force at a height."""
        found, height, memberships = [], self.top() + 1, self.memberships()
        changes = memberships.changes
        in_use = {
            party.public
            for members in (memberships.at(height), memberships.pending(height), memberships.at(claimed))
            for party in (members.validators if members is not None else ())
        }
        before = memberships.founding
        for end, following in changes:
            gone = tuple(
                number
                for number, party in enumerate(before.validators)
                if party.public not in in_use and end <= height
            )
            if len(gone) >= quorum(len(before.validators)):
                found.append(Stolen(before, end, gone))
            before = following
        return found[::-1]

    def listens_as(self, party: Party) -> bool:
        """Whether it listens for a former validator that nobody else listens for."""
        memberships = self.memberships()
        height = self.top() + 1
        present = [memberships.at(height), memberships.pending(height)]
        if any(party in each.validators for each in present if each is not None):
            return False
        former = [memberships.founding, *(members for _, members in memberships.changes)]
        return any(party in self._list_false(members) for members in former)

    def _list_false(self, members: Members) -> list[Party]:
        """Returns as many validators of a set as may lie beside those that do."""
        liars = self.liars()
        others = [party for party in members.validators if party.name not in liars]
        return others[: max(0, members.faults - (len(members.validators) - len(others)))]

    def forge_block(self, height: int, knows: Collection[int]) -> CertifiedBlock | None:
        """Returns a block that former validators certify at a height at which they have left."""
        stolen = self.steal(height, knows)
        block = None if stolen is None else self.make_block(height)
        if stolen is None or block is None:
            return None
        self.forged += 1
        header = replace(block.header, time_ms=block.header.time_ms + 1)
        block = replace(block, header=header)
        return CertifiedBlock(block, stolen.certify(block.block_id(), height))

    def forge_snapshot(self, knows: Collection[int]) -> Offered | None:
        """Returns a snapshot that former validators certify, without the change that ended them."""
        honest = self.honest()
        true = None if honest is None else honest.offered()
        if true is None:
            return None
        manifest = Manifest.decode(true.manifest)
        height = manifest.header.height + AHEAD
        stolen = self.steal(height + 1, knows)
        if stolen is None:
            return None
        self.forged += 1
        leaves = [leaf for leaf in change(leaves_of(true.chunks)) if not _is_later(leaf, stolen.end)]
        placed = [Leaf(place_of(key), hash_leaf(key, value), None) for key, value in leaves]
        state = root_of(update(None, ((leaf.place, leaf) for leaf in placed)))
        header = replace(manifest.header, height=height)
        following = replace(
            manifest.following.header, height=height + 1, previous=header.block_id(), state=state
        )
        certified = replace(
            manifest.following,
            header=following,
            certificate=stolen.certify(following.block_id(), following.height),
        )
        handovers = tuple(each for each in manifest.handovers if each.height < stolen.end)
        false = replace(
            manifest, header=header, following=certified, leaves=len(leaves), chunks=1, handovers=handovers
        )
        return Offered(false.encode(), to_chunks(leaves))


def _is_later(leaf: tuple[bytes, bytes], end: int) -> bool:
    """Whether a leaf has members from this height on, or from a later one."""
    table, key, _ = decode_leaf(*leaf)
    return table == "memberships" and isinstance(key, int) and key >= end


@dataclass(frozen=True, slots=True)
class FormerSource:
    """A former validator that lies; it may have taken the place of another liar."""

    former: Former
    knows: Knows
    other: Source | None

    def height(self) -> int:
        """Returns any height."""
        top = self.former.top()
        return self.former.random.choice((0, top // 2, top, top + 1000))

    def blocks(self, first: int, last: int) -> list[CertifiedBlock]:
        """Returns a block that former validators certify."""
        forged = self.former.forge_block(first, self.knows())
        if forged is None:
            raise RequestError("ask somebody else")
        return [forged]

    def offered(self) -> Offered | None:
        """Returns a snapshot that former validators certify, or the other lie."""
        try:
            forged = self.former.forge_snapshot(self.knows())
        except DecodeError:
            return None  # the true one has rotted
        if forged is None or (self.other is not None and self.former.random.random() < 0.3):
            return None if self.other is None else self.other.offered()
        return forged

    def handovers(self) -> tuple[Handover, ...]:
        """Returns nothing of what ended it."""
        return ()
