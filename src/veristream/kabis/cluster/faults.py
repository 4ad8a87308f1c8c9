"""The catalogue of Kabis faults: what a storage party or a validator can do wrong, each with one name.

Real processes (`liars`), `veristream kabis chaos` and the simulations of our tests inject faults from this
list. Each of them implements the part that it can: a process cannot let bits decay on a disk, and a client
in a simulation never sees a vote.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class StorageFault(StrEnum):
    """A fault of a storage party, by the word that commands and reports use."""

    ALTER = "alter"
    WITHHOLD = "withhold"
    SILENT = "silent"
    LATE = "late"
    FORGET = "forget"
    SUBSTITUTE = "substitute"
    GARBAGE = "garbage"
    FORGE = "forge"
    DECAY = "decay"


class ValidatorFault(StrEnum):
    """A fault of a validator, by the word that commands and reports use."""

    EQUIVOCATE = "equivocate"
    SILENT = "silent"
    CENSOR = "censor"
    REFUSE = "refuse"
    RANDOM = "random"
    AGREE = "agree"
    OBSTRUCT = "obstruct"
    FLOOD = "flood"
    FORGE = "forge"
    TWINS = "twins"


STORAGE_FAULTS: Mapping[StorageFault, str] = {
    StorageFault.ALTER: "changes every event that it returns",
    StorageFault.WITHHOLD: "signs receipts, and then returns nothing",
    StorageFault.SILENT: "does not answer",
    StorageFault.LATE: "answers late",
    StorageFault.FORGET: "signs receipts and stores nothing",
    StorageFault.SUBSTITUTE: "returns another batch than the one asked for",
    StorageFault.GARBAGE: "returns bytes that are not a batch",
    StorageFault.FORGE: "signs receipts in another's name, and returns batches that nobody pushed",
    StorageFault.DECAY: "is honest, but bits flip on its disk",
}
VALIDATOR_FAULTS: Mapping[ValidatorFault, str] = {
    ValidatorFault.EQUIVOCATE: "contradicts each of its votes",
    ValidatorFault.SILENT: "says nothing, and drops what clients submit",
    ValidatorFault.CENSOR: "accepts what clients submit, and drops it",
    ValidatorFault.REFUSE: "refuses whatever clients submit",
    ValidatorFault.RANDOM: "votes at random",
    ValidatorFault.AGREE: "votes for every value that it sees, in every step",
    ValidatorFault.OBSTRUCT: "votes nil in all rounds, except for its proposal of the oldest locked value",
    ValidatorFault.FLOOD: "holds everything back, then sends it at once, with votes of rounds far ahead",
    ValidatorFault.FORGE: "votes in the name of others and pads certificates",
    ValidatorFault.TWINS: "runs twice, honestly, with one key",
}
"""What a party with the fault does."""
