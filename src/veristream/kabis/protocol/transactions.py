"""What validators order: batches, topics, keys, groups, marks and evidence.

A transaction is signed by whom it concerns. A `Submit` is by its header's signature; an action of an admin
or client travels in `Signed`, whose number only grows, so that it cannot be replayed; a skip, an eviction
and evidence prove themselves and need no author.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from operator import attrgetter
from typing import Annotated, ClassVar

from veristream.kabis.protocol.actions import Action, Hole, TransactionPart, decode_action
from veristream.kabis.protocol.batch import SignedHeader
from veristream.kabis.protocol.blocks import TRANSACTION_BYTES_MAX
from veristream.kabis.protocol.codec import Reader, Writer, decode_one_of, domain_tag
from veristream.kabis.protocol.fields import U32, U64, Name, Signature, ascending, at_most, by
from veristream.kabis.protocol.keys import Signer, Verify, possession_bytes
from veristream.kabis.protocol.keys import verify as verify_signature
from veristream.kabis.protocol.receipts import PARTIES_MAX, SignedVote, StorageAbsence, StorageReceipt

REMEMBERED_BYTES_MAX = 2048
ACTION_BYTES_MAX = TRANSACTION_BYTES_MAX - 1024


@dataclass(frozen=True, slots=True)
class Submit(TransactionPart):
    """A producer asks for its batch to be admitted; the storage receipts ascend by party."""

    KIND: ClassVar[str] = "submit"

    signed: SignedHeader
    receipts: Annotated[
        tuple[StorageReceipt, ...], at_most(PARTIES_MAX), ascending("storage receipts", attrgetter("party"))
    ]


def _write_action(writer: Writer, action: Action) -> None:
    writer.blob(action.encode(), ACTION_BYTES_MAX)


def _read_action(reader: Reader) -> Action:
    return decode_action(reader.blob(ACTION_BYTES_MAX))


@dataclass(frozen=True, slots=True)
class Signed(TransactionPart):
    """An action of an admin or client; its number is above that of the author's last one."""

    KIND: ClassVar[str] = "signed"

    author: Name
    key_epoch: U32
    number: U64
    action: Annotated[Action, by(_write_action, _read_action)]
    signature: Signature

    def verify(self, chain_id: str, public: bytes, check: Verify = verify_signature) -> None:
        """Raises SignatureError unless the author's key signed it for this chain."""
        check(public, signed_bytes(chain_id, self), self.signature)


@dataclass(frozen=True, slots=True)
class Skip(TransactionPart):
    """A hole that the storage parties themselves confess: all who gave a receipt say so."""

    KIND: ClassVar[str] = "skip"

    hole: Hole
    absences: Annotated[
        tuple[StorageAbsence, ...], at_most(PARTIES_MAX), ascending("statements", attrgetter("party"))
    ]


@dataclass(frozen=True, slots=True)
class Evict(TransactionPart):
    """A member of a group has said nothing for longer than its session; anybody may point it out."""

    KIND: ClassVar[str] = "evict"

    group: Name
    name: Name
    instance: Name


@dataclass(frozen=True, slots=True)
class BatchConflict(TransactionPart):
    """Evidence: one producer's key signed two batches with a sequence number in common."""

    KIND: ClassVar[str] = "batch-conflict"

    first: SignedHeader
    second: SignedHeader


@dataclass(frozen=True, slots=True)
class VoteConflict(TransactionPart):
    """Evidence: one validator voted for two blocks in one step."""

    KIND: ClassVar[str] = "vote-conflict"

    first: SignedVote
    second: SignedVote


Transaction = Submit | Signed | Skip | Evict | BatchConflict | VoteConflict

_TRANSACTIONS: tuple[type[Transaction], ...] = (Submit, Signed, Skip, Evict, BatchConflict, VoteConflict)
_TRANSACTION_TAGS: Mapping[bytes, type[Transaction]] = {
    domain_tag(kind.KIND): kind for kind in _TRANSACTIONS
}


def decode_transaction(data: bytes) -> Transaction:
    """The transaction with this encoding, of whichever kind.

    A validator decodes the same bytes when they come in, when it makes or checks a block, and when it
    applies one; what is small is remembered in between.
    """
    if len(data) > REMEMBERED_BYTES_MAX:
        return decode_one_of(_TRANSACTION_TAGS, data)
    return _decode_and_remember(data)


@lru_cache(maxsize=4096)
def _decode_and_remember(data: bytes) -> Transaction:
    return decode_one_of(_TRANSACTION_TAGS, data)


def signed_bytes(chain_id: str, transaction: Signed) -> bytes:
    """What the author of an action signs."""
    writer = Writer("signed-action")
    writer.text(chain_id)
    writer.text(transaction.author)
    writer.u32(transaction.key_epoch)
    writer.u64(transaction.number)
    _write_action(writer, transaction.action)
    return writer.to_bytes()


@dataclass(frozen=True, slots=True)
class Author:
    """Who acts: an admin or client on one chain, with the key of one epoch."""

    chain_id: str
    name: str
    key_epoch: int
    signer: Signer


def sign_action(author: Author, number: int, action: Action) -> Signed:
    """The action as a transaction; the number is above all that the author has used."""
    unsigned = Signed(author.name, author.key_epoch, number, action, b"")
    signature = author.signer.sign(signed_bytes(author.chain_id, unsigned))
    return Signed(author.name, author.key_epoch, number, action, signature)


def prove_possession(chain_id: str, name: str, key_epoch: int, signer: Signer) -> bytes:
    """The new key's own signature, for `RegisterKey` and `RotateKey`."""
    return signer.sign(possession_bytes(chain_id, name, key_epoch))


def submit(signed: SignedHeader, receipts: Iterable[StorageReceipt]) -> Submit:
    """The transaction that asks for a batch to be admitted."""
    by_party = {receipt.party: receipt for receipt in receipts}
    return Submit(signed, tuple(by_party[party] for party in sorted(by_party)))


def skip(hole: Hole, absences: Iterable[StorageAbsence]) -> Skip:
    """The transaction that asks for a hole to be skipped."""
    by_party = {absence.party: absence for absence in absences}
    return Skip(hole, tuple(by_party[party] for party in sorted(by_party)))
