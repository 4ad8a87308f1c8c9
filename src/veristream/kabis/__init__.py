"""Kabis: event streaming where each topic chooses Kafka's guarantees or Byzantine-tolerant ones.

    from veristream.kabis import Access, ClusterFolder, Record

    access = Access(ClusterFolder(Path("kabis-data")))
    with access.producer() as producer:
        done = producer.push(Record("orders", b"two pears")).result()

These names are the public API. They are imported on first use; everything else in this package may change.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from veristream.lazy import load_on_use

if TYPE_CHECKING:
    from veristream.kabis.client.consumed import Consumed
    from veristream.kabis.client.consumer.consumer import AsyncKabisConsumer, KabisConsumer
    from veristream.kabis.client.errors import (
        BelowLowWaterError,
        BufferFullError,
        ClosedError,
        CommitRefusedError,
        DeliveryTimeoutError,
        KeyEndedError,
        KeyInUseError,
        NoGroupError,
        NotAssignedError,
        PolicyChangedError,
        RefusedClientError,
        UnknownTopicError,
    )
    from veristream.kabis.client.options import ConsumerOptions, ProducerOptions, Start
    from veristream.kabis.client.producer.producer import AsyncKabisProducer, KabisProducer
    from veristream.kabis.client.pushes import Acknowledged, Pushed, PushedMany
    from veristream.kabis.cluster.access import Access
    from veristream.kabis.cluster.folder import ClusterFolder
    from veristream.kabis.ledger.certified import ReceiptError
    from veristream.kabis.ledger.event_receipts import (
        EventReceipt,
        VerifiedReceipt,
        export_receipt,
        verify_receipt,
    )
    from veristream.kabis.protocol.genesis import Genesis, load_genesis
    from veristream.kabis.protocol.records import Record

__all__ = [
    "Access",
    "Acknowledged",
    "AsyncKabisConsumer",
    "AsyncKabisProducer",
    "BelowLowWaterError",
    "BufferFullError",
    "ClosedError",
    "ClusterFolder",
    "CommitRefusedError",
    "Consumed",
    "ConsumerOptions",
    "DeliveryTimeoutError",
    "EventReceipt",
    "Genesis",
    "KabisConsumer",
    "KabisProducer",
    "KeyEndedError",
    "KeyInUseError",
    "NoGroupError",
    "NotAssignedError",
    "PolicyChangedError",
    "ProducerOptions",
    "Pushed",
    "PushedMany",
    "ReceiptError",
    "Record",
    "RefusedClientError",
    "Start",
    "UnknownTopicError",
    "VerifiedReceipt",
    "export_receipt",
    "load_genesis",
    "verify_receipt",
]

_HOMES = {
    "veristream.kabis.client.consumed": ("Consumed",),
    "veristream.kabis.client.consumer.consumer": (
        "AsyncKabisConsumer",
        "KabisConsumer",
    ),
    "veristream.kabis.client.errors": (
        "BelowLowWaterError",
        "BufferFullError",
        "ClosedError",
        "CommitRefusedError",
        "DeliveryTimeoutError",
        "KeyEndedError",
        "KeyInUseError",
        "NoGroupError",
        "NotAssignedError",
        "PolicyChangedError",
        "RefusedClientError",
        "UnknownTopicError",
    ),
    "veristream.kabis.client.options": ("ConsumerOptions", "ProducerOptions", "Start"),
    "veristream.kabis.client.producer.producer": (
        "AsyncKabisProducer",
        "KabisProducer",
    ),
    "veristream.kabis.client.pushes": (
        "Acknowledged",
        "Pushed",
        "PushedMany",
    ),
    "veristream.kabis.cluster.access": ("Access",),
    "veristream.kabis.cluster.folder": ("ClusterFolder",),
    "veristream.kabis.ledger.certified": ("ReceiptError",),
    "veristream.kabis.ledger.event_receipts": (
        "EventReceipt",
        "VerifiedReceipt",
        "export_receipt",
        "verify_receipt",
    ),
    "veristream.kabis.protocol.genesis": (
        "Genesis",
        "load_genesis",
    ),
    "veristream.kabis.protocol.records": ("Record",),
}

__getattr__ = load_on_use(__name__, _HOMES)


def __dir__() -> list[str]:
    return __all__
