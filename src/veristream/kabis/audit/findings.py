"""What an audit may find: each fault by its name, whom it speaks against, and where it stands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """Every fault that has a name; `phantom` is a note, and no fault."""

    BAD_SIGNATURE = "bad_signature"
    ALTERED = "altered"
    WITHHELD = "withheld"
    HOLE = "hole"
    SPLICE = "splice"
    EQUIVOCATION = "equivocation"
    UNVERIFIABLE_RECEIPT = "unverifiable_receipt"
    DAMAGED = "damaged"
    SILENT = "silent"
    PHANTOM = "phantom"


MEANINGS: Mapping[Kind, str] = {
    Kind.BAD_SIGNATURE: "a batch whose signature is not its producer's, or of a key that was not valid",
    Kind.ALTERED: "a party gives back other events than those that were signed",
    Kind.WITHHELD: "a party vouched for a batch and does not give it back",
    Kind.HOLE: "sequence numbers are missing on the ledger, or their batch was skipped",
    Kind.SPLICE: "a batch on the ledger does not follow the batch before it",
    Kind.EQUIVOCATION: "two signed statements where there can be one",
    Kind.UNVERIFIABLE_RECEIPT: "a storage receipt or a certificate on the ledger that does not verify",
    Kind.DAMAGED: "a party's log on disk is damaged",
    Kind.SILENT: "a party does not answer: nothing is known of what it keeps",
    Kind.PHANTOM: "a batch that is stored and was never admitted (a note: it may be on its way)",
}

NOTES = frozenset({Kind.PHANTOM})
"""What is told and is nobody's fault."""


class Role(StrEnum):
    """What the accused is; `ledger` where the validators as a whole let it pass."""

    STORAGE = "storage"
    PRODUCER = "producer"
    VALIDATOR = "validator"
    LEDGER = "ledger"


@dataclass(frozen=True, slots=True)
class Finding:
    """One fault: whom it speaks against, and the batch or block where it stands.

    `sequence` is the first sequence number concerned, -1 where there is none; `height` the block, 0 where
    there is none.
    """

    kind: str
    role: str
    accused: str
    topic: str = ""
    partition: int = 0
    producer: str = ""
    key_epoch: int = 0
    sequence: int = -1
    count: int = 0
    height: int = 0
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Tally:
    """What was counted of one stream: at a party, or with an empty name on the ledger.

    `good` batches have `events` events; the party `vouched` for so many, gave so many `copies`, and of so
    many nothing is known. On the ledger `copies` are all batches that the parties gave.
    """

    topic: str
    partition: int
    producer: str
    party: str = ""
    vouched: int = 0
    copies: int = 0
    good: int = 0
    unanswered: int = 0
    events: int = 0
