"""The receipt of one event: who pushed what, where and when, verifiable with the genesis alone.

It holds the event's leaf with its path to the batch's root, the producer's signed header with the storage
receipts, the path of that transaction to the block's root, the block's header, and the certificate. A
`KeyProof` shows that the producer's key was valid at that height: the key's entry in the state named by a
certified header, of the event's own block or of a later one. So verification needs neither the validators
nor the registry, and a receipt also shows if the key has ended since.

The file is JSON: facts for people, and the proof from which they follow. Verification decodes the proof,
checks all of it, and exports the file again; the bytes must be equal. So no byte can be changed.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from veristream.kabis.ledger.certified import CertifiedHeader, ReceiptError, ReceiptFault
from veristream.kabis.ledger.key_proofs import KeyProof, LeafKeyProof, SectionKeyProof
from veristream.kabis.ledger.succession import Handovers, Succession
from veristream.kabis.protocol.batch import Batch
from veristream.kabis.protocol.blocks import Block, Certificate
from veristream.kabis.protocol.codec import Coded, DecodeError
from veristream.kabis.protocol.fields import U32, blob
from veristream.kabis.protocol.genesis import Genesis
from veristream.kabis.protocol.keys import SignatureError, Verify
from veristream.kabis.protocol.keys import verify as verify_signature
from veristream.kabis.protocol.members import Members
from veristream.kabis.protocol.merkle import (
    MerklePath,
    ProofError,
    hash_leaf,
    hash_leaves,
    prove_inclusion,
    verify_inclusion,
)
from veristream.kabis.protocol.records import LEAF_BYTES_MAX, Event, decode_leaf
from veristream.kabis.protocol.transactions import Submit, decode_transaction

RECEIPT_BYTES_MAX = 4 << 20
_FORMATS = {SectionKeyProof: "receipt/1", LeafKeyProof: "receipt/2"}
_WITH_HANDOVERS = "receipt/3"
_KNOWN = (*_FORMATS.values(), _WITH_HANDOVERS)


@dataclass(frozen=True, slots=True)
class EventReceipt(Coded, kind="event-receipt", bytes_max=RECEIPT_BYTES_MAX):
    """The proof of one event: `position` in its batch, and the `number` of the transaction in its block.

    Without a `key_block` the key proof is from the state that `block` names. The handovers show which
    members were in force at the heights of both.
    """

    leaf: Annotated[bytes, blob(LEAF_BYTES_MAX)]
    position: U32
    leaf_path: MerklePath
    submit: Submit
    number: U32
    transaction_path: MerklePath
    block: CertifiedHeader
    key_proof: KeyProof
    key_block: CertifiedHeader | None = None
    handovers: Handovers = ()


@dataclass(frozen=True, slots=True)
class VerifiedReceipt:
    """What a valid receipt shows; `event` is as stored, sealed if the topic is sealed.

    Events of a partition are ordered by height, `number` and `position`. `time_ms` is the block's.
    `key_ended_height` is set if the key was valid then and had ended by the time of the receipt.
    """

    chain_id: str
    topic: str
    partition: int
    producer: str
    key_epoch: int
    public: bytes
    sequence: int
    event: Event
    digest: bytes
    height: int
    number: int
    position: int
    time_ms: int
    validators: tuple[str, ...]
    storage: tuple[str, ...]
    key_ended_height: int | None


def make_receipt(
    batch: Batch,
    position: int,
    block: Block,
    certificate: Certificate,
    key: tuple[KeyProof, CertifiedHeader],
    succession: Succession | None = None,
) -> EventReceipt:
    """Builds the receipt of the event at `position`; raises ValueError if the block lacks the batch.

    `key` is the result of `Ledger.prove_key` and the certified header of the ledger's last block. A receipt
    of a block after a change of the members needs the ledger's `succession`.
    """
    digest = batch.digest()
    number, submit = find_submit(block.transactions, digest)
    key_proof, key_block = key
    last = max(block.header.height, key_block.header.height)
    return EventReceipt(
        leaf=batch.leaves[position],
        position=position,
        leaf_path=prove_inclusion(hash_leaves(batch.leaves), position),
        submit=submit,
        number=number,
        transaction_path=prove_inclusion(hash_leaves(block.transactions), number),
        block=CertifiedHeader(block.header, certificate),
        key_proof=key_proof,
        key_block=None if key_block.header == block.header else key_block,
        handovers=() if succession is None else succession.until(last),
    )


def find_submit(transactions: Sequence[bytes], digest: bytes) -> tuple[int, Submit]:
    """Returns the position in the block, and the transaction, that admitted a batch; raises ValueError."""
    for number, encoded in enumerate(transactions):
        transaction = decode_transaction(encoded)
        if isinstance(transaction, Submit) and transaction.signed.digest() == digest:
            return number, transaction
    raise ValueError("the block does not have this batch")


def export_receipt(receipt: EventReceipt) -> bytes:
    """Returns the receipt as the bytes of its file."""
    header = receipt.submit.signed.header
    facts = {
        "kabis": _FORMATS[type(receipt.key_proof)] if not receipt.handovers else _WITH_HANDOVERS,
        "chain_id": header.chain_id,
        "topic": header.topic,
        "partition": header.partition,
        "producer": header.producer,
        "key_epoch": header.key_epoch,
        "sequence": header.first_sequence + receipt.position,
        "height": receipt.block.header.height,
        "time_ms": receipt.block.header.time_ms,
        "batch": header.digest().hex(),
        "proof": b64encode(receipt.encode()).decode("ascii"),
    }
    return (json.dumps(facts, indent=2) + "\n").encode("ascii")


def verify_receipt(data: bytes, genesis: Genesis, check: Verify = verify_signature) -> VerifiedReceipt:
    """Verifies the receipt in a file against a trusted genesis; raises ReceiptError."""
    receipt = _read_file(data)
    header = receipt.submit.signed.header
    if header.chain_id != genesis.chain_id:
        raise ReceiptError(ReceiptFault.OTHER_CHAIN, header.chain_id)
    succession = Succession.verified(genesis, receipt.handovers, check)
    succession.verify(receipt.block, check)
    _verify_paths(receipt)
    _verify_key(receipt, succession, check)
    _verify_storage(receipt, succession, check)
    if export_receipt(receipt) != data:
        raise ReceiptError(ReceiptFault.ALTERED)
    return _show(receipt, succession.at(receipt.block.header.height))


def _read_file(data: bytes) -> EventReceipt:
    if len(data) > 2 * RECEIPT_BYTES_MAX:
        raise ReceiptError(ReceiptFault.MALFORMED, f"{len(data)} bytes")
    try:
        facts = json.loads(data)
        if not isinstance(facts, dict) or facts.get("kabis") not in _KNOWN:
            raise ValueError(f"its format is not one of {', '.join(_KNOWN)}")
        proof = facts.get("proof")
        if not isinstance(proof, str):
            raise ValueError("it has no proof")
        return EventReceipt.decode(b64decode(proof, validate=True))
    except (ValueError, RecursionError, DecodeError) as error:
        raise ReceiptError(ReceiptFault.MALFORMED, str(error)) from error


def _verify_paths(receipt: EventReceipt) -> None:
    block, header = receipt.block.header, receipt.submit.signed.header
    transaction = hash_leaf(receipt.submit.encode())
    try:
        verify_inclusion(transaction, receipt.number, block.count, receipt.transaction_path, block.root)
    except ProofError as error:
        raise ReceiptError(ReceiptFault.NOT_IN_BLOCK, str(error)) from error
    leaf = hash_leaf(receipt.leaf)
    try:
        verify_inclusion(leaf, receipt.position, header.count, receipt.leaf_path, header.root)
    except ProofError as error:
        raise ReceiptError(ReceiptFault.NOT_IN_BATCH, str(error)) from error


def _verify_key(receipt: EventReceipt, succession: Succession, check: Verify) -> None:
    signed, height = receipt.submit.signed, receipt.block.header.height
    key_block = receipt.key_block or receipt.block
    if key_block is not receipt.block:
        succession.verify(key_block, check)
    if any(begun > max(height, key_block.header.height) for begun in succession.heights):
        raise ReceiptError(ReceiptFault.BAD_HANDOVER, "a handover is of a later height")
    if key_block.header.height < height:
        raise ReceiptError(ReceiptFault.OLD_KEY_PROOF, f"height {key_block.header.height}, not {height}")
    producer, key = signed.header.producer, receipt.key_proof.key
    try:
        receipt.key_proof.verify(producer, signed.header.key_epoch, key_block.header.state)
    except ProofError as error:
        raise ReceiptError(ReceiptFault.UNKNOWN_KEY, f"{producer}, {error}") from error
    if key.registered_height >= height:
        raise ReceiptError(ReceiptFault.KEY_NOT_YET_VALID, f"registered at height {key.registered_height}")
    if not key.valid_at(height):
        raise ReceiptError(ReceiptFault.REVOKED_KEY, f"ended at height {key.ended_height}")
    try:
        signed.verify(key.public, check)
    except SignatureError as error:
        raise ReceiptError(ReceiptFault.BAD_SIGNATURE, producer) from error


def _verify_storage(verified: EventReceipt, succession: Succession, check: Verify) -> None:
    members = succession.at(verified.block.header.height)
    receipts, digest = verified.submit.receipts, verified.submit.signed.digest()
    keys = {party.name: party.public for party in members.storage}
    for receipt in receipts:
        if receipt.party not in keys:
            raise ReceiptError(ReceiptFault.UNKNOWN_STORAGE, receipt.party)
        if receipt.digest != digest:
            raise ReceiptError(ReceiptFault.BAD_STORAGE_RECEIPT, receipt.party)
        try:
            receipt.verify(succession.chain_id, keys[receipt.party], check)
        except SignatureError as error:
            raise ReceiptError(ReceiptFault.BAD_STORAGE_RECEIPT, receipt.party) from error
    if len(receipts) < members.receipts_needed:
        raise ReceiptError(ReceiptFault.NOT_ENOUGH_STORAGE, f"{len(receipts)}")


def _show(receipt: EventReceipt, members: Members) -> VerifiedReceipt:
    header, block = receipt.submit.signed.header, receipt.block
    try:
        event = decode_leaf(receipt.leaf)
    except DecodeError as error:
        raise ReceiptError(
            ReceiptFault.MALFORMED, f"the producer signed an invalid event: {error}"
        ) from error
    return VerifiedReceipt(
        chain_id=header.chain_id,
        topic=header.topic,
        partition=header.partition,
        producer=header.producer,
        key_epoch=header.key_epoch,
        public=receipt.key_proof.key.public,
        sequence=header.first_sequence + receipt.position,
        event=event,
        digest=header.digest(),
        height=block.header.height,
        number=receipt.number,
        position=receipt.position,
        time_ms=block.header.time_ms,
        validators=tuple(members.validators[voter].name for voter in block.certificate.voters),
        storage=tuple(each.party for each in receipt.submit.receipts),
        key_ended_height=receipt.key_proof.key.ended_height,
    )
