"""A certificate made by CometBFT: precommits for the block whose header names one of our blocks.

The application in every node returns an *anchor* for each block: the height and the id of our last block.
CometBFT puts it as the application hash into the header of its next block, and more than two thirds of the
validators sign that header's hash. So a certificate is the anchor, its Merkle path among the header's
fourteen fields, and the votes for the header. It proves as much as votes over our block id: a correct
validator signs no header with an application hash other than its own. The votes also cover chain, height
and round.

The encodings are those of CometBFT 0.38 (`types/block.go`, `types/canonical.go`), which follow the
Tendermint specification; the fields are hashed as in RFC 6962.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import attrgetter
from typing import Annotated

from veristream.kabis.protocol.codec import DIGEST_BYTES, Coded, DecodeError
from veristream.kabis.protocol.fields import U16, U32, U64, Digest, Signature, ascending, at_most, fixed
from veristream.kabis.protocol.keys import SignatureError, Verify
from veristream.kabis.protocol.keys import verify as verify_signature
from veristream.kabis.protocol.merkle import MerklePath, ProofError, hash_leaf, verify_inclusion
from veristream.kabis.protocol.protobuf import (
    encode_bytes,
    encode_fixed,
    encode_integer,
    encode_message,
    encode_varint,
)
from veristream.kabis.protocol.receipts import (
    PARTIES_MAX,
    CertificateError,
    NotEnoughVotesError,
    UnknownValidatorError,
    VoteSignatureError,
    quorum,
)

HEADER_FIELDS = 14
ANCHOR_FIELD = 10
"""The position of the application hash among the header's fields, counted from 0."""
ANCHOR_BYTES = 8 + DIGEST_BYTES
_PRECOMMIT = 2
_SECOND_NS = 1_000_000_000


def encode_anchor(height: int, block_id: bytes) -> bytes:
    """Returns the application hash: our last block, or the genesis' digest at height 0."""
    return height.to_bytes(8, "big") + block_id


@dataclass(frozen=True, slots=True)
class CometVote:
    """A validator's position in our genesis, the time in its vote, and its signature."""

    validator: U16
    time_ns: U64
    signature: Signature


@dataclass(frozen=True, slots=True)
class Votes:
    """Precommits of one height and round of CometBFT for one header, and the parts of its block."""

    height: U64
    round_number: U32
    header_hash: Digest
    parts_total: U32
    parts_hash: Digest
    signed: Annotated[
        tuple[CometVote, ...], at_most(PARTIES_MAX), ascending("votes", attrgetter("validator"))
    ]

    def message(self, chain_id: str, time_ns: int) -> bytes:
        """Returns the bytes that a validator signed: the canonical vote, its length in front."""
        parts = encode_integer(1, self.parts_total) + encode_bytes(2, self.parts_hash)
        block_id = encode_bytes(1, self.header_hash) + encode_message(2, parts)
        vote = (
            encode_integer(1, _PRECOMMIT)
            + encode_fixed(2, self.height)
            + encode_fixed(3, self.round_number)
            + encode_message(4, block_id)
            + encode_message(5, encode_time(time_ns))
            + encode_bytes(6, chain_id.encode("utf-8"))
        )
        return encode_varint(len(vote)) + vote


def encode_time(time_ns: int) -> bytes:
    """Encodes a protobuf timestamp."""
    return encode_integer(1, time_ns // _SECOND_NS) + encode_integer(2, time_ns % _SECOND_NS)


@dataclass(frozen=True, slots=True)
class CometCertificate(Coded, kind="cometbft-certificate", bytes_max=1 << 17):
    """The proof that CometBFT's validators decided our block named by the anchor."""

    anchor: Annotated[bytes, fixed(ANCHOR_BYTES)]
    path: MerklePath
    votes: Votes

    @property
    def height(self) -> int:
        """The height of our block."""
        return int.from_bytes(self.anchor[:8], "big")

    @property
    def block_id(self) -> bytes:
        """The id of our block."""
        return self.anchor[8:]

    @property
    def voters(self) -> tuple[int, ...]:
        """The positions of the validators that voted, ascending."""
        return tuple(vote.validator for vote in self.votes.signed)

    def check(self) -> None:
        """Raises DecodeError if the height does not fit CometBFT's signed integers."""
        if self.votes.height >> 63:
            raise DecodeError("the height exceeds the 63 bits of CometBFT")

    def verify(self, chain_id: str, validators: Sequence[bytes], check: Verify = verify_signature) -> None:
        """Raises CertificateError unless more than two thirds of these validators precommitted it."""
        leaf = hash_leaf(encode_bytes(1, self.anchor))
        try:
            verify_inclusion(leaf, ANCHOR_FIELD, HEADER_FIELDS, self.path, self.votes.header_hash)
        except ProofError as error:
            raise CertificateError(f"the header does not name our block: {error}") from error
        if any(later <= earlier for earlier, later in pairwise(self.voters)):
            raise CertificateError("votes are not in strictly ascending order of validators")
        for vote in self.votes.signed:
            if vote.validator >= len(validators):
                raise UnknownValidatorError(f"there is no validator {vote.validator}")
            message = self.votes.message(chain_id, vote.time_ns)
            try:
                check(validators[vote.validator], message, vote.signature)
            except SignatureError as error:
                raise VoteSignatureError(
                    f"the vote of validator {vote.validator} is not signed by it"
                ) from error
        if len(self.voters) < quorum(len(validators)):
            raise NotEnoughVotesError(f"{len(self.voters)} votes of {len(validators)} validators")
