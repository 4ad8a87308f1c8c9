"""Signed statements of storage parties and validators, and the certificates made of votes.

`event_receipts` combines them into the receipt of one event, for an auditor or a court.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise
from operator import itemgetter
from typing import Annotated

from veristream.kabis.protocol.codec import Coded, Writer
from veristream.kabis.protocol.fields import U16, U32, U64, Digest, Name, Signature, ascending, at_most
from veristream.kabis.protocol.keys import SignatureError, Signer, Verify
from veristream.kabis.protocol.keys import verify as verify_signature

PARTIES_MAX = 1024
"""The maximum number of validators, and of storage parties, in a chain."""


@dataclass(frozen=True, slots=True)
class StorageReceipt(Coded, kind="storage-receipt", bytes_max=1024):
    """A storage party states that the batch with this header digest is durable in its log."""

    party: Name
    digest: Digest
    signature: Signature

    def verify(self, chain_id: str, public: bytes, check: Verify = verify_signature) -> None:
        """Raises SignatureError unless the party's key signed it for this chain."""
        check(public, storage_receipt_bytes(chain_id, self.party, self.digest), self.signature)


def storage_receipt_bytes(chain_id: str, party: str, digest: bytes) -> bytes:
    """Returns the bytes that a storage party signs when a batch is durable."""
    writer = Writer("stored")
    writer.text(chain_id)
    writer.text(party)
    writer.digest(digest)
    return writer.to_bytes()


def sign_storage_receipt(chain_id: str, party: str, digest: bytes, signer: Signer) -> StorageReceipt:
    """Signs a receipt; a party does so only once the batch is durable."""
    return StorageReceipt(party, digest, signer.sign(storage_receipt_bytes(chain_id, party, digest)))


@dataclass(frozen=True, slots=True)
class StorageAbsence(Coded, kind="storage-absence", bytes_max=1024):
    """A storage party states that at this height it did not have the batch with this header digest.

    The party itself has seen the height certified. Otherwise somebody could ask early, with a future
    height, and use the true answer against a batch that was stored later.
    """

    party: Name
    digest: Digest
    height: U64
    signature: Signature

    def verify(self, chain_id: str, public: bytes, check: Verify = verify_signature) -> None:
        """Raises SignatureError unless the party's key signed it for this chain."""
        check(public, storage_absence_bytes(chain_id, self.party, self.digest, self.height), self.signature)


def storage_absence_bytes(chain_id: str, party: str, digest: bytes, height: int) -> bytes:
    """Returns the bytes that a storage party signs when it does not have a batch."""
    writer = Writer("absent")
    writer.text(chain_id)
    writer.text(party)
    writer.digest(digest)
    writer.u64(height)
    return writer.to_bytes()


def sign_storage_absence(
    chain_id: str, party: str, digest: bytes, height: int, signer: Signer
) -> StorageAbsence:
    """Signs the statement that a party does not have a batch at a height that it has seen certified."""
    signature = signer.sign(storage_absence_bytes(chain_id, party, digest, height))
    return StorageAbsence(party, digest, height, signature)


class VoteKind(Enum):
    """The two steps of a round in which validators vote."""

    PREVOTE = 1
    PRECOMMIT = 2


def vote_bytes(
    chain_id: str, kind: VoteKind, height: int, round_number: int, block_id: bytes | None
) -> bytes:
    """Returns the bytes that a validator signs when it votes; without a block id it votes for nil."""
    writer = Writer("prevote" if kind is VoteKind.PREVOTE else "precommit")
    writer.text(chain_id)
    writer.u64(height)
    writer.u32(round_number)
    writer.option(block_id, writer.digest)
    return writer.to_bytes()


@dataclass(frozen=True, slots=True)
class SignedVote(Coded, kind="signed-vote", bytes_max=512):
    """A vote with its signature; `validator` is the position in the genesis, counted from 0."""

    validator: U16
    kind: VoteKind
    height: U64
    round_number: U32
    block_id: Digest | None
    signature: Signature

    def verify(self, chain_id: str, public: bytes, check: Verify = verify_signature) -> None:
        """Raises SignatureError unless the validator's key signed it for this chain."""
        message = vote_bytes(chain_id, self.kind, self.height, self.round_number, self.block_id)
        check(public, message, self.signature)


class CertificateError(Exception):
    """The votes do not decide the block."""


class NotEnoughVotesError(CertificateError):
    """The votes are valid, but no more than two thirds of the validators voted."""


class UnknownValidatorError(CertificateError):
    """A voter is not a validator of this chain."""


class VoteSignatureError(CertificateError):
    """The signature of a vote is not valid."""


@dataclass(frozen=True, slots=True)
class CommitCertificate(Coded, kind="commit-certificate", bytes_max=1 << 17):
    """Precommits of one height and round for one block, by validator in ascending order."""

    height: U64
    round_number: U32
    block_id: Digest
    signatures: Annotated[
        tuple[tuple[U16, Signature], ...], at_most(PARTIES_MAX), ascending("votes", itemgetter(0))
    ]

    @property
    def voters(self) -> tuple[int, ...]:
        """The positions of the validators that voted, ascending."""
        return tuple(validator for validator, _ in self.signatures)

    def verify(self, chain_id: str, validators: Sequence[bytes], check: Verify = verify_signature) -> None:
        """Raises CertificateError unless more than two thirds of these validators precommitted the block.

        One invalid vote invalidates it: no honest party builds such a certificate.
        """
        message = vote_bytes(chain_id, VoteKind.PRECOMMIT, self.height, self.round_number, self.block_id)
        if any(later <= earlier for earlier, later in pairwise(self.voters)):
            raise CertificateError("votes are not in strictly ascending order of validators")
        for validator, signature in self.signatures:
            if validator >= len(validators):
                raise UnknownValidatorError(f"there is no validator {validator}")
            try:
                check(validators[validator], message, signature)
            except SignatureError as error:
                raise VoteSignatureError(
                    f"the vote of validator {validator} is not signed by it"
                ) from error
        if len(self.voters) < quorum(len(validators)):
            raise NotEnoughVotesError(f"{len(self.voters)} votes of {len(validators)} validators")


def quorum(validators: int) -> int:
    """Returns the smallest number of validators that is more than two thirds."""
    return 2 * validators // 3 + 1
