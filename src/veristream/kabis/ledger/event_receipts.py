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
from enum import Enum
from typing import Annotated

from veristream.kabis.ledger.key_proofs import KeyProof, LeafKeyProof, SectionKeyProof
from veristream.kabis.protocol.batch import Batch
from veristream.kabis.protocol.blocks import Block, BlockHeader
from veristream.kabis.protocol.certificates import Certificate
from veristream.kabis.protocol.codec import Coded, DecodeError
from veristream.kabis.protocol.fields import U32, blob
from veristream.kabis.protocol.genesis import Genesis
from veristream.kabis.protocol.keys import SignatureError, Verify
from veristream.kabis.protocol.keys import verify as verify_signature
from veristream.kabis.protocol.merkle import (
    MerklePath,
    ProofError,
    hash_leaf,
    hash_leaves,
    prove_inclusion,
    verify_inclusion,
)
from veristream.kabis.protocol.receipts import (
    CertificateError,
    NotEnoughVotesError,
    StorageReceipt,
    UnknownValidatorError,
)
from veristream.kabis.protocol.records import LEAF_BYTES_MAX, Event, decode_leaf
from veristream.kabis.protocol.transactions import Submit, decode_transaction

RECEIPT_BYTES_MAX = 4 << 20
_FORMATS = {SectionKeyProof: "receipt/1", LeafKeyProof: "receipt/2"}


class ReceiptFault(Enum):
    """Every reason why a receipt proves nothing."""

    MALFORMED = "the file is not a receipt, or it is damaged"
    ALTERED = "the facts in the file differ from those in its proof"
    OTHER_CHAIN = "it belongs to another chain"
    OTHER_BLOCK = "the certificate is for another block"
    UNKNOWN_VALIDATOR = "a vote is not from a validator of this chain"
    BAD_VOTE = "a vote is not signed by its validator"
    NOT_ENOUGH_VOTES = "no more than two thirds of the validators voted for the block"
    NOT_IN_BLOCK = "the batch is not in the block"
    NOT_IN_BATCH = "the event is not in the batch"
    UNKNOWN_KEY = "the receipt does not prove that the producer's key is registered"
    OLD_KEY_PROOF = "the proof of the key is older than the event's block"
    KEY_NOT_YET_VALID = "the producer's key became valid after the event's block"
    REVOKED_KEY = "the producer's key was revoked, replaced or fenced before the event's block"
    BAD_SIGNATURE = "the batch is not signed by the producer's key"
    UNKNOWN_STORAGE = "a storage receipt is not from a storage party of this chain"
    BAD_STORAGE_RECEIPT = "a storage receipt is for another batch, or is not signed by its party"
    NOT_ENOUGH_STORAGE = "no more than F storage parties gave a receipt for the batch"


class ReceiptError(Exception):
    """The receipt proves nothing; `fault` is the reason."""

    def __init__(self, fault: ReceiptFault, detail: str = "") -> None:
        super().__init__(fault.value + (f": {detail}" if detail else ""))
        self.fault = fault


@dataclass(frozen=True, slots=True)
class CertifiedHeader(Coded, kind="certified-header"):
    """A block's header and the votes that decided it."""

    header: BlockHeader
    certificate: Certificate

    def verify(self, genesis: Genesis, check: Verify) -> None:
        """Raises ReceiptError unless the validators of this chain decided the block."""
        if self.header.chain_id != genesis.chain_id:
            raise ReceiptError(ReceiptFault.OTHER_CHAIN, self.header.chain_id)
        certified = (self.certificate.height, self.certificate.block_id)
        if certified != (self.header.height, self.header.block_id()):
            raise ReceiptError(ReceiptFault.OTHER_BLOCK)
        try:
            self.certificate.verify(genesis.chain_id, genesis.validator_keys, check)
        except NotEnoughVotesError as error:
            raise ReceiptError(ReceiptFault.NOT_ENOUGH_VOTES, str(error)) from error
        except UnknownValidatorError as error:
            raise ReceiptError(ReceiptFault.UNKNOWN_VALIDATOR, str(error)) from error
        except CertificateError as error:
            raise ReceiptError(ReceiptFault.BAD_VOTE, str(error)) from error


@dataclass(frozen=True, slots=True)
class EventReceipt(Coded, kind="event-receipt", bytes_max=RECEIPT_BYTES_MAX):
    """The proof of one event: `position` in its batch, and the `number` of the transaction in its block.

    Without a `key_block` the key proof is from the state that `block` names.
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
) -> EventReceipt:
    """Builds the receipt of the event at `position`; raises ValueError if the block lacks the batch.

    `key` is the result of `Ledger.prove_key` and the certified header of the ledger's last block.
    """
    digest = batch.digest()
    number, submit = find_submit(block.transactions, digest)
    key_proof, key_block = key
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
        "kabis": _FORMATS[type(receipt.key_proof)],
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
    receipt.block.verify(genesis, check)
    _verify_paths(receipt)
    _verify_key(receipt, genesis, check)
    _verify_storage(receipt.submit.receipts, header.digest(), genesis, check)
    if export_receipt(receipt) != data:
        raise ReceiptError(ReceiptFault.ALTERED)
    return _show(receipt, genesis)


def _read_file(data: bytes) -> EventReceipt:
    if len(data) > 2 * RECEIPT_BYTES_MAX:
        raise ReceiptError(ReceiptFault.MALFORMED, f"{len(data)} bytes")
    try:
        facts = json.loads(data)
        if not isinstance(facts, dict) or facts.get("kabis") not in _FORMATS.values():
            raise ValueError(f"its format is not one of {', '.join(_FORMATS.values())}")
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


def _verify_key(receipt: EventReceipt, genesis: Genesis, check: Verify) -> None:
    signed, height = receipt.submit.signed, receipt.block.header.height
    key_block = receipt.key_block or receipt.block
    if key_block is not receipt.block:
        key_block.verify(genesis, check)
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


def _verify_storage(
    receipts: Sequence[StorageReceipt], digest: bytes, genesis: Genesis, check: Verify
) -> None:
    keys = {party.name: party.public for party in genesis.storage}
    for receipt in receipts:
        if receipt.party not in keys:
            raise ReceiptError(ReceiptFault.UNKNOWN_STORAGE, receipt.party)
        if receipt.digest != digest:
            raise ReceiptError(ReceiptFault.BAD_STORAGE_RECEIPT, receipt.party)
        try:
            receipt.verify(genesis.chain_id, keys[receipt.party], check)
        except SignatureError as error:
            raise ReceiptError(ReceiptFault.BAD_STORAGE_RECEIPT, receipt.party) from error
    if len(receipts) < genesis.receipts_needed:
        raise ReceiptError(ReceiptFault.NOT_ENOUGH_STORAGE, f"{len(receipts)}")


def _show(receipt: EventReceipt, genesis: Genesis) -> VerifiedReceipt:
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
        validators=tuple(genesis.validators[voter].name for voter in block.certificate.voters),
        storage=tuple(each.party for each in receipt.submit.receipts),
        key_ended_height=receipt.key_proof.key.ended_height,
    )
