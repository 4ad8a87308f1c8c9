"""Findings of an audit: the kind of fault, the accused, and the place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """Kinds of findings; `phantom` is a note, not a fault."""

    BAD_SIGNATURE = "bad_signature"
    NO_RIGHT = "no_right"
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
    Kind.BAD_SIGNATURE: "a batch is not signed by its producer, or the key was not valid",
    Kind.NO_RIGHT: "a batch or an access rule is on the ledger, but its author had no right to it",
    Kind.ALTERED: "a party returns events other than those that were signed",
    Kind.WITHHELD: "a party signed a receipt for a batch but does not return the batch",
    Kind.HOLE: "sequence numbers are missing on the ledger, or their batch was skipped",
    Kind.SPLICE: "a batch on the ledger does not follow the previous one",
    Kind.EQUIVOCATION: "a producer or a validator signed two contradicting messages",
    Kind.UNVERIFIABLE_RECEIPT: "a storage receipt or a certificate on the ledger does not verify",
    Kind.DAMAGED: "a party's log is damaged on disk",
    Kind.SILENT: "a party does not answer, so its data cannot be checked",
    Kind.PHANTOM: "a batch is stored but not admitted (only a note: it may be in flight)",
}

NOTES = frozenset({Kind.PHANTOM})
"""Kinds that are reported but are not faults."""


class Role(StrEnum):
    """Role of the accused; `ledger` if the validators as a whole admitted it."""

    STORAGE = "storage"
    PRODUCER = "producer"
    VALIDATOR = "validator"
    LEDGER = "ledger"


@dataclass(frozen=True, slots=True)
class Finding:
    """One fault: the accused, and the batch or block.

    `sequence` is the first sequence number concerned, or -1; `height` is the block, or 0.
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
    """Counts of one stream at a party, or on the ledger if `party` is empty.

    The `good` batches have `events` events. `vouched` counts the party's receipts, `copies` the batches
    that it returned, `unanswered` those for which it did not answer. On the ledger, `copies` counts the
    copies of all parties.
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
