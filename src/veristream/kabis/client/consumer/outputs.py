"""The outputs of a consumer's core."""

from __future__ import annotations

from dataclasses import dataclass

from veristream.kabis.client.consumed import Place
from veristream.kabis.client.pushes import Failure
from veristream.kabis.protocol.batch import SignedHeader
from veristream.kabis.protocol.blocks import Certificate
from veristream.kabis.protocol.partitions import PartitionName


class Ticket:
    """An action that was submitted to the ledger; `failure` says why it had no effect."""

    __slots__ = ("done", "failure")

    def __init__(self) -> None:
        self.done = False
        self.failure: Failure | None = None


@dataclass(frozen=True, slots=True)
class Fetch:
    """Ask a storage party for a batch."""

    party: str
    place: Place
    first_index: int
    digest: bytes


@dataclass(frozen=True, slots=True)
class FetchPlain:
    """Ask a storage party for events of a topic that is not validated."""

    party: str
    place: PartitionName
    offset: int
    bytes_max: int
    wait_ms: int


@dataclass(frozen=True, slots=True)
class AskAbsence:
    """Ask a storage party to sign that it lacks a batch for which it gave a receipt."""

    party: str
    place: Place
    first_index: int
    signed: SignedHeader
    certificate: Certificate


@dataclass(frozen=True, slots=True)
class Submit:
    """Submit a transaction to a validator, by its number."""

    validator: int
    transaction: bytes


@dataclass(frozen=True, slots=True)
class Settle:
    """Tell those who wait for the ticket that it is done."""

    ticket: Ticket


@dataclass(frozen=True, slots=True)
class Ready:
    """There are events to take."""


Output = Fetch | FetchPlain | AskAbsence | Submit | Settle | Ready
