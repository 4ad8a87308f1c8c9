"""What validators order: batches, topics, keys, groups, marks and evidence.

The party concerned signs a transaction. A `Submit` carries the header's signature. An action of an admin or
client travels in `Signed`, whose number increases, so that it cannot be replayed. A skip, an eviction and
evidence prove themselves and need no author.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from operator import attrgetter
from typing import Annotated, get_args

from veristream.kabis.protocol.actions import Action, Hole, TransactionPart, decode_action
from veristream.kabis.protocol.batch import SignedHeader
from veristream.kabis.protocol.blocks import TRANSACTION_BYTES_MAX
from veristream.kabis.protocol.codec import (
    DecodeError,
    Reader,
    UnknownKindError,
    Writer,
    decode_one_of,
    domain_tag,
)
from veristream.kabis.protocol.fields import U32, U64, Name, Signature, ascending, at_most, by
from veristream.kabis.protocol.keys import Signer, Verify, possession_bytes
from veristream.kabis.protocol.keys import verify as verify_signature
from veristream.kabis.protocol.members import MemberRole, Possession, member_possession_bytes
from veristream.kabis.protocol.receipts import PARTIES_MAX, SignedVote, StorageAbsence, StorageReceipt

CACHED_BYTES_MAX = 2048
ACTION_BYTES_MAX = TRANSACTION_BYTES_MAX - 1024


@dataclass(frozen=True, slots=True)
class Submit(TransactionPart, kind="submit"):
    """A producer requests admission of its batch; the storage receipts ascend by party."""

    signed: SignedHeader
    receipts: Annotated[
        tuple[StorageReceipt, ...], at_most(PARTIES_MAX), ascending("storage receipts", attrgetter("party"))
    ]


def _write_action(writer: Writer, action: Action) -> None:
    writer.blob(action.encode(), ACTION_BYTES_MAX)


def _read_action(reader: Reader) -> Action:
    return decode_action(reader.blob(ACTION_BYTES_MAX))


@dataclass(frozen=True, slots=True)
class Signed(TransactionPart, kind="signed"):
    """An action of an admin or client; its number is above that of the author's previous one."""

    author: Name
    key_epoch: U32
    number: U64
    action: Annotated[Action, by(_write_action, _read_action)]
    signature: Signature

    def verify(self, chain_id: str, public: bytes, check: Verify = verify_signature) -> None:
        """Raises SignatureError unless the author's key signed it for this chain."""
        check(public, signed_bytes(chain_id, self), self.signature)


@dataclass(frozen=True, slots=True)
class Skip(TransactionPart, kind="skip"):
    """A hole that all storage parties which gave a receipt admit."""

    hole: Hole
    absences: Annotated[
        tuple[StorageAbsence, ...], at_most(PARTIES_MAX), ascending("statements", attrgetter("party"))
    ]


@dataclass(frozen=True, slots=True)
class Evict(TransactionPart, kind="evict"):
    """A member of a group has been silent for longer than its session; anybody may report it."""

    group: Name
    name: Name
    instance: Name


@dataclass(frozen=True, slots=True)
class BatchConflict(TransactionPart, kind="batch-conflict"):
    """Evidence: a producer's key signed two batches with a common sequence number."""

    first: SignedHeader
    second: SignedHeader


@dataclass(frozen=True, slots=True)
class VoteConflict(TransactionPart, kind="vote-conflict"):
    """Evidence: a validator voted for two blocks in one step."""

    first: SignedVote
    second: SignedVote


Transaction = Submit | Signed | Skip | Evict | BatchConflict | VoteConflict

_TRANSACTION_TAGS: Mapping[bytes, type[Transaction]] = {
    domain_tag(kind.KIND): kind for kind in get_args(Transaction)
}


def decode_transaction(data: bytes) -> Transaction:
    """Returns the transaction of any kind with this encoding; raises DecodeError.

    Small transactions are cached: a validator decodes the same bytes when they arrive, when it builds or
    checks a block, and when it applies one.
    """
    if len(data) > CACHED_BYTES_MAX:
        return decode_one_of(_TRANSACTION_TAGS, data)
    return _decode_cached(data)


def is_of_unknown_kind(data: bytes) -> bool:
    """Whether only a newer version can tell if this is a transaction: we do not know its kind."""
    try:
        decode_transaction(data)
    except UnknownKindError:
        return True
    except DecodeError:
        return False
    return False


@lru_cache(maxsize=4096)
def _decode_cached(data: bytes) -> Transaction:
    return decode_one_of(_TRANSACTION_TAGS, data)


def signed_bytes(chain_id: str, transaction: Signed) -> bytes:
    """Returns the bytes that the author of an action signs."""
    writer = Writer("signed-action")
    writer.text(chain_id)
    writer.text(transaction.author)
    writer.u32(transaction.key_epoch)
    writer.u64(transaction.number)
    _write_action(writer, transaction.action)
    return writer.to_bytes()


@dataclass(frozen=True, slots=True)
class Author:
    """An admin or client of one chain, with the key of one epoch."""

    chain_id: str
    name: str
    key_epoch: int
    signer: Signer


def sign_action(author: Author, number: int, action: Action) -> Signed:
    """Signs an action; the number must be above all that the author has used."""
    unsigned = Signed(author.name, author.key_epoch, number, action, b"")
    signature = author.signer.sign(signed_bytes(author.chain_id, unsigned))
    return Signed(author.name, author.key_epoch, number, action, signature)


def prove_possession(chain_id: str, name: str, key_epoch: int, signer: Signer) -> bytes:
    """Returns the new key's own signature, for `RegisterKey` and `RotateKey`."""
    return signer.sign(possession_bytes(chain_id, name, key_epoch))


def prove_membership(chain_id: str, role: MemberRole, name: str, signer: Signer) -> Possession:
    """Returns a new member's proof that it has its key, for `SetMembers`."""
    return Possession(role, name, signer.sign(member_possession_bytes(chain_id, role, name)))


def submit(signed: SignedHeader, receipts: Iterable[StorageReceipt]) -> Submit:
    """Returns the transaction that requests admission of a batch."""
    by_party = {receipt.party: receipt for receipt in receipts}
    return Submit(signed, tuple(by_party[party] for party in sorted(by_party)))


def skip(hole: Hole, absences: Iterable[StorageAbsence]) -> Skip:
    """Returns the transaction that skips a hole."""
    by_party = {absence.party: absence for absence in absences}
    return Skip(hole, tuple(by_party[party] for party in sorted(by_party)))
