"""What a producer's core wants done."""

from __future__ import annotations

from dataclasses import dataclass

from veristream.kabis.client.pushes import Failure, Parcel, Settlement
from veristream.kabis.protocol.partitions import PartitionName, StreamName
from veristream.kabis.protocol.plain import PlainAppend


@dataclass(frozen=True, slots=True)
class Write:
    """Make the batch durable in the journal; it must not leave before."""

    data: bytes
    digest: bytes


@dataclass(frozen=True, slots=True)
class Store:
    """Have a storage party keep a batch."""

    party: str
    place: PartitionName
    data: bytes
    digest: bytes


@dataclass(frozen=True, slots=True)
class Submit:
    """Give a transaction to a validator, by its number."""

    validator: int
    place: PartitionName
    transaction: bytes
    digest: bytes


@dataclass(frozen=True, slots=True)
class Append:
    """Have a storage party write events of a topic that is not validated."""

    party: str
    append: PlainAppend


@dataclass(frozen=True, slots=True)
class Recover:
    """Ask a storage party what it has of us."""

    party: str
    stream: StreamName
    first_sequence: int


@dataclass(frozen=True, slots=True)
class Admitted:
    """The batch is on the ledger; the journal may forget it."""

    digest: bytes


@dataclass(frozen=True, slots=True)
class Settle:
    """Tell whoever waits what became of the events."""

    parcel: Parcel
    fate: Settlement | Failure


Output = Write | Store | Submit | Append | Recover | Admitted | Settle
