"""What a consumer's core wants done."""

from __future__ import annotations

from dataclasses import dataclass

from veristream.kabis.client.consumed import Place
from veristream.kabis.client.pushes import Failure
from veristream.kabis.protocol.batch import SignedHeader
from veristream.kabis.protocol.certificates import Certificate
from veristream.kabis.protocol.partitions import PartitionName


class Ticket:
    """An action of ours on its way to the ledger; `failure` says why it did not take effect, if so."""

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
    """Have a storage party sign that it does not have a batch which it vouched for."""

    party: str
    place: Place
    first_index: int
    signed: SignedHeader
    certificate: Certificate


@dataclass(frozen=True, slots=True)
class Submit:
    """Give a transaction to a validator, by its number."""

    validator: int
    transaction: bytes


@dataclass(frozen=True, slots=True)
class Settle:
    """Tell whoever waits for the ticket that it is done."""

    ticket: Ticket


@dataclass(frozen=True, slots=True)
class Ready:
    """There is something to take."""


Output = Fetch | FetchPlain | AskAbsence | Submit | Settle | Ready
