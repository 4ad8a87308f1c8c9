"""Blocks: what validators decide one after the other, each a list of encoded transactions.

A block's id is the hash of its header alone. The header has the Merkle root of the transactions and the
hash of the ledger's state before the block, so that a certificate for the id vouches for all of it. Only
transactions that take effect stand in a block (`ledger`): standing there is being admitted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import ClassVar, Self

from veristream.kabis.protocol.certificates import Certificate, read_certificate, write_certificate
from veristream.kabis.protocol.codec import Coded, DecodeError, Reader, Writer
from veristream.kabis.protocol.merkle import compute_root, hash_leaves

TRANSACTIONS_MAX = 10_000
TRANSACTION_BYTES_MAX = 1 << 17
BLOCK_BYTES_MAX = 4 << 20


@dataclass(frozen=True, slots=True)
class BlockHeader(Coded):
    """What a block says of itself.

    `previous` is the id of the block before, at height 1 the genesis' digest; `state` is the hash of the
    ledger after the block before; `time_ms` grows from block to block.
    """

    KIND: ClassVar[str] = "block-header"
    BYTES_MAX: ClassVar[int] = 1024

    chain_id: str
    height: int
    time_ms: int
    previous: bytes
    proposer: str
    count: int
    root: bytes
    state: bytes

    def block_id(self) -> bytes:
        """What validators vote for."""
        return sha256(self.encode()).digest()

    def write(self, writer: Writer) -> None:
        """Appends the header."""
        writer.text(self.chain_id)
        writer.u64(self.height)
        writer.u64(self.time_ms)
        writer.digest(self.previous)
        writer.text(self.proposer)
        writer.u32(self.count)
        writer.digest(self.root)
        writer.digest(self.state)

    @classmethod
    def read(cls, reader: Reader) -> Self:
        """Takes a header."""
        return cls(
            chain_id=reader.text(),
            height=reader.u64(),
            time_ms=reader.u64(),
            previous=reader.digest(),
            proposer=reader.text(),
            count=reader.u32(),
            root=reader.digest(),
            state=reader.digest(),
        )


@dataclass(frozen=True, slots=True)
class Block(Coded):
    """A header and the encoded transactions under its root."""

    KIND: ClassVar[str] = "block"
    BYTES_MAX: ClassVar[int] = BLOCK_BYTES_MAX

    header: BlockHeader
    transactions: tuple[bytes, ...]

    def block_id(self) -> bytes:
        """What validators vote for."""
        return self.header.block_id()

    def write(self, writer: Writer) -> None:
        """Appends header and transactions."""
        self.header.write(writer)
        writer.items(
            self.transactions, TRANSACTIONS_MAX, lambda encoded: writer.blob(encoded, TRANSACTION_BYTES_MAX)
        )

    @classmethod
    def read(cls, reader: Reader) -> Self:
        """Takes a block; its transactions are those under the header's root."""
        header = BlockHeader.read(reader)
        transactions = reader.items(TRANSACTIONS_MAX, lambda: reader.blob(TRANSACTION_BYTES_MAX))
        if header.count != len(transactions) or header.root != transactions_root(transactions):
            raise DecodeError("the transactions are not those that the block's header speaks of")
        return cls(header, transactions)


def transactions_root(transactions: Sequence[bytes]) -> bytes:
    """The Merkle root over encoded transactions."""
    return compute_root(hash_leaves(transactions))


@dataclass(frozen=True, slots=True)
class CertifiedBlock(Coded):
    """A block and the votes that decided it."""

    KIND: ClassVar[str] = "certified-block"

    block: Block
    certificate: Certificate

    def write(self, writer: Writer) -> None:
        """Appends both."""
        self.block.write(writer)
        write_certificate(writer, self.certificate)

    @classmethod
    def read(cls, reader: Reader) -> Self:
        """Takes both; whether the votes are good is for the reader to check."""
        return cls(Block.read(reader), read_certificate(reader))
