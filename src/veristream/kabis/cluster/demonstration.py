"""A demonstration: a storage party and a validator lie, and a validating consumer is not affected.

The cluster is real, its parties are processes, and both liars lie from the start. Every acknowledged event
is compared with what was delivered, the accused are read from the ledger, and the receipt of one event is
verified with only the genesis.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from veristream.kabis.client.administration import act_all
from veristream.kabis.cluster.access import Access
from veristream.kabis.cluster.accusations import wait_for_accusations
from veristream.kabis.cluster.cluster import Cluster, StartOptions
from veristream.kabis.cluster.delivery import PATIENCE_S, find_problems, push, read_back
from veristream.kabis.cluster.faults import StorageFault, ValidatorFault
from veristream.kabis.cluster.folder import ADMIN
from veristream.kabis.ledger.event_receipts import VerifiedReceipt, export_receipt, verify_receipt
from veristream.kabis.protocol.actions import SetTopic
from veristream.kabis.protocol.records import Record

TOPIC = "orders"
PARTITIONS = 4
BATCH_EVENTS = 20

LYING_STORAGE = "storage-1"
LIARS = {LYING_STORAGE: StorageFault.ALTER.value, "validator-2": ValidatorFault.EQUIVOCATE.value}
"""The liars and their faults."""


@dataclass(frozen=True, slots=True)
class Demonstration:
    """The result of the demonstration; `problems` is empty if all events were delivered as pushed."""

    parties: int
    acknowledged: int
    delivered: int
    suspected: tuple[str, ...]
    caught: tuple[str, ...]
    receipt: VerifiedReceipt
    problems: tuple[str, ...]
    seconds: float


def demonstrate(cluster: Cluster, events: int) -> Demonstration:
    """Starts a new cluster with two liars, pushes events and reads them back; leaves the cluster up."""
    cluster.create()
    cluster.start(StartOptions(faults=LIARS))
    access = Access(cluster.folder)
    topic = SetTopic(TOPIC, PARTITIONS, validated=True)
    act_all(access.genesis, access.admin(), access.author(ADMIN), [topic])
    began_s = time.monotonic()
    records = [
        Record(TOPIC, f"order {number:06}".encode("ascii"), partition=number // BATCH_EVENTS % PARTITIONS)
        for number in range(events)
    ]
    told = push(access, records, BATCH_EVENTS)
    pushed = {
        (each.partition, each.index): record.value or b""
        for record, each in zip(records, told, strict=True)
    }
    first = dict.fromkeys(range(PARTITIONS), 0)
    read, suspicions = read_back(access, TOPIC, first, pushed, nearest=LYING_STORAGE)
    caught = wait_for_accusations(access, PATIENCE_S)
    receipt = verify_receipt(export_receipt(told[events // 2].receipt()), access.genesis)
    problems = find_problems(pushed, read)
    if not dict(read).keys() <= pushed.keys():
        problems.append("events were delivered that nobody pushed")
    return Demonstration(
        len(cluster.names()),
        len(told),
        len(read),
        tuple(f"{name}: {number} bad answers" for name, number in suspicions.items()),
        tuple(f"{name} in block {height}" for name, height in caught.items()),
        receipt,
        tuple(problems),
        time.monotonic() - began_s,
    )
