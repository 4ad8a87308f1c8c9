"""Blocks: validators decide them one after the other; each is a list of encoded transactions.

A block's id is the hash of its header alone. The header holds the Merkle root of the transactions and the
hash of the ledger's state before the block, so a certificate for the id covers all of it. A block contains
only transactions that take effect (`ledger`), so a transaction in a block is admitted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Annotated, assert_never

from veristream.kabis.protocol.codec import Coded, DecodeError, Reader, Writer
from veristream.kabis.protocol.cometbft_certificate import CometCertificate
from veristream.kabis.protocol.fields import U32, U64, Digest, Name, at_most, blob, by
from veristream.kabis.protocol.merkle import compute_root, hash_leaves
from veristream.kabis.protocol.receipts import CommitCertificate

TRANSACTIONS_MAX = 10_000
TRANSACTION_BYTES_MAX = 1 << 17
BLOCK_BYTES_MAX = 4 << 20

EncodedTransaction = Annotated[bytes, blob(TRANSACTION_BYTES_MAX)]


@dataclass(frozen=True, slots=True)
class BlockHeader(Coded, kind="block-header", bytes_max=1024):
    """The header of a block.

    `previous` is the id of the previous block, or the digest of the genesis at height 1; `state` is the
    hash of the ledger after the previous block; `time_ms` strictly increases.
    """

    chain_id: Name
    height: U64
    time_ms: U64
    previous: Digest
    proposer: Name
    count: U32
    root: Digest
    state: Digest

    def block_id(self) -> bytes:
        """The hash that validators vote for."""
        return sha256(self.encode()).digest()


@dataclass(frozen=True, slots=True)
class Block(Coded, kind="block", bytes_max=BLOCK_BYTES_MAX):
    """A header and the encoded transactions under its root."""

    header: BlockHeader
    transactions: Annotated[tuple[EncodedTransaction, ...], at_most(TRANSACTIONS_MAX)]

    def block_id(self) -> bytes:
        """The hash that validators vote for."""
        return self.header.block_id()

    def check(self) -> None:
        """Raises DecodeError unless the transactions hash to the header's root."""
        header = self.header
        if header.count != len(self.transactions) or header.root != transactions_root(self.transactions):
            raise DecodeError("the transactions do not match the block's header")


def transactions_root(transactions: Sequence[bytes]) -> bytes:
    """Returns the Merkle root of encoded transactions."""
    return compute_root(hash_leaves(transactions))


_NO_HEIGHT = bytes(8)
"""Height 0, which no block has. In place of our certificate's height, it announces one of CometBFT's."""


def write_certificate(writer: Writer, certificate: CommitCertificate | CometCertificate) -> None:
    """Appends a certificate of either kind."""
    match certificate:
        case CommitCertificate():
            if certificate.height == 0:
                raise ValueError("no block has height 0")
        case CometCertificate():
            writer.raw(_NO_HEIGHT)
        case _:
            assert_never(certificate)
    certificate.write(writer)


def read_certificate(reader: Reader) -> CommitCertificate | CometCertificate:
    """Takes a certificate of either kind."""
    return CometCertificate.read(reader) if reader.skip(_NO_HEIGHT) else CommitCertificate.read(reader)


Certificate = Annotated[CommitCertificate | CometCertificate, by(write_certificate, read_certificate)]
"""Votes of more than two thirds of the validators for a block: ours, or CometBFT's for its header."""


@dataclass(frozen=True, slots=True)
class CertifiedBlock(Coded, kind="certified-block"):
    """A block and the votes that decided it."""

    block: Block
    certificate: Certificate
