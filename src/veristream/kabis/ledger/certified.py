"""A block's header with the votes that decided it, and why a proof on the chain may be refused."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from veristream.kabis.protocol.blocks import BlockHeader, Certificate
from veristream.kabis.protocol.codec import Coded
from veristream.kabis.protocol.keys import Verify
from veristream.kabis.protocol.members import Members
from veristream.kabis.protocol.receipts import (
    CertificateError,
    NotEnoughVotesError,
    UnknownValidatorError,
)


class ReceiptFault(Enum):
    """Every reason why a receipt proves nothing."""

    MALFORMED = "the file is not a receipt, or it is damaged"
    ALTERED = "the facts in the file differ from those in its proof"
    OTHER_CHAIN = "it belongs to another chain"
    BAD_HANDOVER = "a change of the members is not proved"
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

    def verify(self, chain_id: str, members: Members, check: Verify) -> None:
        """Raises ReceiptError unless these validators decided the block; the caller knows the height's."""
        if self.header.chain_id != chain_id:
            raise ReceiptError(ReceiptFault.OTHER_CHAIN, self.header.chain_id)
        certified = (self.certificate.height, self.certificate.block_id)
        if certified != (self.header.height, self.header.block_id()):
            raise ReceiptError(ReceiptFault.OTHER_BLOCK)
        try:
            self.certificate.verify(chain_id, members.validator_keys, check)
        except NotEnoughVotesError as error:
            raise ReceiptError(ReceiptFault.NOT_ENOUGH_VOTES, str(error)) from error
        except UnknownValidatorError as error:
            raise ReceiptError(ReceiptFault.UNKNOWN_VALIDATOR, str(error)) from error
        except CertificateError as error:
            raise ReceiptError(ReceiptFault.BAD_VOTE, str(error)) from error
