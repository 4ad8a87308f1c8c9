"""Following the chain: a replica of the ledger that trusts certificates, not validators.

A client verifies the certificate of each block once and applies the block to its own `Ledger`. More than
two thirds of the validators voted for it, so at least one correct validator has checked every rule, and the
signatures inside the block are not verified again here. (A consumer verifies the signature of every header
whose events it delivers, because that makes the events non-repudiable.)
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

from veristream.kabis.ledger.certified import CertifiedHeader
from veristream.kabis.ledger.ledger import InvalidBlockError, Ledger
from veristream.kabis.ledger.snapshot import Manifest, require_changes, restore
from veristream.kabis.ledger.succession import Succession
from veristream.kabis.protocol.blocks import Block, CertifiedBlock
from veristream.kabis.protocol.genesis import Genesis
from veristream.kabis.protocol.keys import Verify
from veristream.kabis.protocol.keys import verify as verify_signature
from veristream.kabis.protocol.members import Members
from veristream.kabis.protocol.outcomes import Effect
from veristream.kabis.protocol.receipts import CertificateError
from veristream.kabis.protocol.transactions import Transaction, decode_transaction


class FalseBlockError(Exception):
    """The block is not the next one or was never decided; ask another validator."""


@dataclass(frozen=True, slots=True)
class Change:
    """A transaction of a block and its effect; `number` is its position in the block."""

    number: int
    transaction: Transaction
    effect: Effect


@dataclass(frozen=True, slots=True)
class Followed:
    """A block that was applied, with its effects."""

    block: Block
    header: CertifiedHeader
    changes: tuple[Change, ...]


class Follower:
    """The ledger after the last certified block."""

    def __init__(self, genesis: Genesis, verify: Verify = verify_signature) -> None:
        self.genesis = genesis
        self.verify = verify
        self.ledger = Ledger(genesis, _believe)
        self.last: CertifiedHeader | None = None
        self.followed_ms = 0
        self.known = Succession(genesis)
        """Members that a snapshot must have too, because they are known from before."""

    @classmethod
    def restore(
        cls,
        genesis: Genesis,
        manifest: Manifest,
        chunks: Iterable[bytes],
        verify: Verify = verify_signature,
    ) -> Self:
        """Returns a follower that starts after a snapshot's block; raises FalseSnapshotError."""
        follower = cls(genesis, verify)
        follower.ledger = restore(genesis, manifest, chunks, verify, _believe)
        return follower

    def verify_snapshot(self, manifest: Manifest, chunks: Iterable[bytes]) -> Ledger:
        """Returns the ledger of a snapshot, for `resume`; raises FalseSnapshotError."""
        require_changes(manifest, self.known_changes())
        return restore(self.genesis, manifest, chunks, self.verify, _believe)

    def known_changes(self) -> list[tuple[int, Members]]:
        """Returns the changes of the members that are known from before, or from blocks."""
        known = [(each.height, each.members) for each in self.known.handovers]
        return [*known, *self.ledger.memberships.changes]

    def resume(self, ledger: Ledger) -> None:
        """Continues from a restored ledger; the object stays the same, since others hold it."""
        assert ledger.height >= self.ledger.height, "nobody goes back"
        vars(self.ledger).update(vars(ledger))
        self.last = None

    @property
    def next_height(self) -> int:
        """The height of the next block."""
        return self.ledger.height + 1

    def follow(self, certified: CertifiedBlock, now_ms: int) -> Followed | None:
        """Applies the next block; returns None for an old one, raises FalseBlockError for a wrong one."""
        block, certificate = certified.block, certified.certificate
        header = block.header
        if header.height < self.next_height:
            return None
        if (certificate.height, certificate.block_id) != (header.height, header.block_id()):
            raise FalseBlockError("the certificate is for another block")
        try:
            keys = self.ledger.members.validator_keys
            certificate.verify(self.genesis.chain_id, keys, self.verify)
            effects = self.ledger.apply(block, certificate)
        except (CertificateError, InvalidBlockError) as error:
            raise FalseBlockError(str(error)) from error
        self.last, self.followed_ms = CertifiedHeader(header, certificate), now_ms
        changes = [
            Change(number, decode_transaction(encoded), effect)
            for number, (encoded, effect) in enumerate(zip(block.transactions, effects, strict=True))
        ]
        return Followed(block, self.last, tuple(changes))

    def time_ms(self, now_ms: int) -> int:
        """Estimates the time of a block proposed now: the last block's, plus the time since."""
        return self.ledger.time_ms + max(1, now_ms - self.followed_ms)


def _believe(public: bytes, message: bytes, signature: bytes) -> None:
    """Accepts a signature: the validators who voted for the block have verified it."""
