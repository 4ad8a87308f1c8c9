"""The outcome of a transaction."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Reason(Enum):
    """Every reason to refuse a transaction."""

    MALFORMED = "the bytes are not a valid transaction"
    OTHER_CHAIN = "it is for another chain"
    UNKNOWN_TOPIC = "there is no such topic"
    UNVALIDATED_TOPIC = "the topic is not validated"
    UNKNOWN_PARTITION = "the topic has no such partition"
    UNKNOWN_KEY = "no such key is registered"
    KEY_NOT_YET_VALID = "the key becomes valid with a later block"
    KEY_ENDED = "the key was revoked, replaced or fenced"
    BAD_SIGNATURE = "a signature does not match the key"
    EARLY = "an earlier batch of the producer is missing"
    OLD = "its sequence number was used by a batch that the ledger no longer remembers"
    CONFLICT = "its sequence number belongs to another batch"
    WRONG_PREVIOUS = "it does not follow the producer's last batch"
    UNKNOWN_PARTY = "there is no such storage party"
    WRONG_RECEIPT = "a storage receipt is for another batch"
    TOO_FEW_RECEIPTS = "too few storage receipts"
    NOT_ADMIN = "only an admin may do this"
    REPLAYED = "the author has already used a higher number"
    BAD_NAME = "names consist of letters, digits, '.', '_' and '-'"
    OUT_OF_RANGE = "a number is out of range"
    KEY_IN_USE = "the key is registered, or was registered before"
    WRONG_EPOCH = "the key epoch is not the next one"
    NO_SUCH_MEMBER = "the group has no such member"
    WRONG_GENERATION = "the group has changed since then"
    NOT_ASSIGNED = "the partition is assigned to another member"
    STILL_ALIVE = "the member's session has not expired"
    TOO_MANY = "a limit of the ledger is reached"
    NO_SUCH_BATCH = "no such batch was admitted, or it is below the low-water mark"
    NOT_ABSENT = "not every storage party with a receipt for the batch states that it lacks the batch"
    STALE_ABSENCE = "a statement was made before the batch was admitted"
    NO_CONFLICT = "the two messages do not contradict each other"
    UNKNOWN_VALIDATOR = "there is no such validator"
    UNKNOWN_VERSION = "the validator's program does not know this protocol version"
    NO_RIGHT = "a right is missing"
    BAD_RULE = "the rule makes no sense"
    NO_SUCH_RULE = "there is no such rule"
    BAD_MEMBERS = "the members break a rule"
    CHANGE_PENDING = "another change of the members is not in force yet"
    FIXED_MEMBERS = "CometBFT decides who its validators are, so the members of this chain do not change"
    OLD_VERSION = "the chain's protocol version lacks this; an admin may upgrade it"


@dataclass(frozen=True, slots=True)
class Admitted:
    """The batch's events have `count` indices from `first_index` on."""

    first_index: int
    count: int


@dataclass(frozen=True, slots=True)
class Done:
    """The action took effect."""


@dataclass(frozen=True, slots=True)
class Already:
    """It took effect before; nothing changed now."""


@dataclass(frozen=True, slots=True)
class Refused:
    """Nothing changed, for this reason."""

    reason: Reason
    detail: str = ""

    def __str__(self) -> str:
        return self.reason.value + (f": {self.detail}" if self.detail else "")


NOT_YET = frozenset((Reason.EARLY, Reason.KEY_NOT_YET_VALID))
"""Reasons that may pass: such a transaction is worth keeping for a while."""

Outcome = Admitted | Done | Already | Refused
Effect = Admitted | Done


class RefusedError(Exception):
    """Raised by a rule that a transaction breaks, before anything has changed."""

    def __init__(self, reason: Reason, detail: str = "") -> None:
        super().__init__(reason.value)
        self.refused = Refused(reason, detail)


def require(condition: bool, reason: Reason, detail: str = "") -> None:
    """Raises RefusedError unless the condition holds."""
    if not condition:
        raise RefusedError(reason, detail)
