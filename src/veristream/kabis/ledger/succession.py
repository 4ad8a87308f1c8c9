"""How the members of a chain are followed without its blocks, from the founding ones on.

A handover proves one change: the certified header of a block between the one that ordered the change and
the height from which it is in force, and the path from the new members to the state that this header names.
The members before the change signed that header. So whoever has the genesis and all handovers knows who was
in force at each height, and accepts no certificate of members that have left.

With the genesis alone this trusts that no quorum of any former validators was ever stolen: their keys count
for nothing above their last height, but they can certify another history from there. A checkpoint removes
that for all heights below it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated

from veristream.kabis.ledger.certified import CertifiedHeader, ReceiptError, ReceiptFault
from veristream.kabis.ledger.leaves import encode_leaf_key
from veristream.kabis.ledger.trie import Node, TriePath, hash_leaf, place_of, prove, verify_leaf
from veristream.kabis.protocol.codec import Coded, DecodeError, Reader, Writer
from veristream.kabis.protocol.fields import U64, by
from veristream.kabis.protocol.genesis import Genesis
from veristream.kabis.protocol.keys import Verify
from veristream.kabis.protocol.members import Members
from veristream.kabis.protocol.merkle import ProofError

HANDOVERS_MAX = 10_000


@dataclass(frozen=True, slots=True)
class Handover(Coded, kind="handover", bytes_max=1 << 20):
    """The members from a height on, proved by members before them."""

    block: CertifiedHeader
    height: U64
    members: Members
    path: TriePath

    @property
    def leaf_key(self) -> bytes:
        """The key of the leaf with the members."""
        return encode_leaf_key("memberships", self.height)


def _write_handovers(writer: Writer, handovers: tuple[Handover, ...]) -> None:
    if handovers:
        writer.items(handovers, HANDOVERS_MAX, lambda each: each.write(writer))


def _read_handovers(reader: Reader) -> tuple[Handover, ...]:
    """Takes the handovers, which end the encoding; the encodings without any lack even their number."""
    if not reader.remaining:
        return ()
    handovers = reader.items(HANDOVERS_MAX, lambda: Handover.read(reader))
    if not handovers:
        raise DecodeError("that there is no handover is not written")
    return handovers


Handovers = Annotated[tuple[Handover, ...], by(_write_handovers, _read_handovers)]
"""All handovers from the founding members on; as the last field of an encoding."""


class Succession:
    """The members of a chain by height, as far as handovers prove them."""

    __slots__ = ("_begun", "_founding", "_handovers", "chain_id")

    def __init__(self, genesis: Genesis) -> None:
        self.chain_id = genesis.chain_id
        self._founding = genesis.members
        self._handovers: tuple[Handover, ...] = ()
        self._begun: list[int] = []

    @staticmethod
    def verified(genesis: Genesis, handovers: Iterable[Handover], check: Verify) -> Succession:
        """Returns what the handovers prove; raises ReceiptError."""
        succession = Succession(genesis)
        for handover in handovers:
            succession.take(handover, check)
        return succession

    @property
    def handovers(self) -> tuple[Handover, ...]:
        """All handovers, in their order."""
        return self._handovers

    @property
    def heights(self) -> tuple[int, ...]:
        """The heights from which other members are in force, ascending."""
        return tuple(self._begun)

    def at(self, height: int) -> Members:
        """Returns the members in force at a height."""
        number = bisect_right(self._begun, height)
        return self._handovers[number - 1].members if number else self._founding

    @property
    def latest(self) -> Members:
        """The last members that are known, which may not be in force yet."""
        return self._handovers[-1].members if self._handovers else self._founding

    def until(self, height: int) -> tuple[Handover, ...]:
        """Returns the handovers that somebody needs for the heights up to this one."""
        return self._handovers[: bisect_right(self._begun, height)]

    def verify(self, certified: CertifiedHeader, check: Verify) -> None:
        """Raises ReceiptError unless the validators in force at its height decided the block."""
        certified.verify(self.chain_id, self.at(certified.header.height), check)

    def take(self, handover: Handover, check: Verify) -> None:
        """Adds the next handover; raises ReceiptError unless the last known members prove it."""
        block, last = handover.block, self._begun[-1] if self._begun else 0
        if not last <= block.header.height < handover.height:
            raise ReceiptError(
                ReceiptFault.BAD_HANDOVER,
                f"block {block.header.height} cannot hand over from {last} to {handover.height}",
            )
        self.verify(block, check)
        leaf = hash_leaf(handover.leaf_key, handover.members.encode())
        try:
            verify_leaf(place_of(handover.leaf_key), leaf, handover.path, block.header.state)
        except ProofError as error:
            raise ReceiptError(ReceiptFault.BAD_HANDOVER, str(error)) from error
        self.add(handover)

    def extend(self, handovers: Iterable[Handover], check: Verify) -> None:
        """Takes those that are not known yet; raises ReceiptError if a known one differs."""
        known = dict(zip(self._begun, self._handovers, strict=True))
        for handover in handovers:
            before = known.get(handover.height)
            if before is None:
                self.take(handover, check)
            elif before.members != handover.members:
                raise ReceiptError(
                    ReceiptFault.BAD_HANDOVER, f"other members from height {handover.height}"
                )

    def add(self, handover: Handover) -> None:
        """Adds a handover that the caller has made or verified."""
        self._handovers += (handover,)
        self._begun.append(handover.height)

    def copy(self) -> Succession:
        """Returns a succession with the same handovers, which grows on its own."""
        other = object.__new__(Succession)
        other.chain_id, other._founding = self.chain_id, self._founding
        other._handovers, other._begun = self._handovers, [*self._begun]
        return other


def make_handover(node: Node, block: CertifiedHeader, height: int) -> Handover:
    """Returns the handover to the members from a height on, given the state that the block names."""
    found = prove(node, place_of(encode_leaf_key("memberships", height)))
    assert found is not None, "a change that is not in the state"
    leaf, path = found
    return Handover(block, height, leaf.entry[2], path)
