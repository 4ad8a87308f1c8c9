"""The outputs of a producer's core."""

from __future__ import annotations

from dataclasses import dataclass

from veristream.kabis.client.pushes import Failure, Parcel, Settlement
from veristream.kabis.protocol.partitions import PartitionName, StreamName
from veristream.kabis.protocol.plain import PlainAppend


@dataclass(frozen=True, slots=True)
class Write:
    """Make the batch durable in the journal; it must not be sent before."""

    data: bytes
    digest: bytes


@dataclass(frozen=True, slots=True)
class Store:
    """Send a batch to a storage party."""

    party: str
    place: PartitionName
    data: bytes
    digest: bytes


@dataclass(frozen=True, slots=True)
class Submit:
    """Submit a transaction to a validator, by its number."""

    validator: int
    place: PartitionName
    transaction: bytes
    digest: bytes


@dataclass(frozen=True, slots=True)
class Append:
    """Send events of a topic that is not validated to a storage party."""

    party: str
    append: PlainAppend


@dataclass(frozen=True, slots=True)
class Recover:
    """Ask a storage party for our batches."""

    party: str
    stream: StreamName
    first_sequence: int


@dataclass(frozen=True, slots=True)
class Admitted:
    """The batch is on the ledger; the journal may forget it."""

    digest: bytes


@dataclass(frozen=True, slots=True)
class Settle:
    """Tell those who wait for the parcel its fate."""

    parcel: Parcel
    fate: Settlement | Failure


Output = Write | Store | Submit | Append | Recover | Admitted | Settle
