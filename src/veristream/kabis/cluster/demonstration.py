"""A demonstration: a storage party and a validator lie, and a consumer that validates does not mind.

The cluster is real, its parties are processes, and both liars lie from the first moment on. What is shown
is computed: every event that was acknowledged is compared with what was delivered, who was caught is read
from the ledger, and the receipt of one event is verified with nothing but the genesis.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from veristream.kabis.client.administration import act_all
from veristream.kabis.client.options import ConsumerOptions, ProducerOptions
from veristream.kabis.client.pushes import Acknowledged
from veristream.kabis.cluster.access import Access
from veristream.kabis.cluster.accusations import wait_for_accusations
from veristream.kabis.cluster.cluster import Cluster, Start
from veristream.kabis.cluster.folder import ADMIN
from veristream.kabis.ledger.event_receipts import VerifiedReceipt, export_receipt, verify_receipt
from veristream.kabis.protocol.actions import SetTopic
from veristream.kabis.protocol.records import Record

TOPIC = "orders"
PARTITIONS = 4
BATCH_EVENTS = 20
PATIENCE_S = 60.0
QUIET_S = 1.0

LYING_STORAGE = "storage-1"
LIARS = {LYING_STORAGE: "alter", "validator-2": "equivocate"}
"""Who lies, and how."""

Place = tuple[int, int]
"""A partition and an index in it."""


@dataclass(frozen=True, slots=True)
class Demonstration:
    """What became of the events while parties lied; `problems` are empty if all are there as pushed."""

    parties: int
    acknowledged: int
    delivered: int
    suspected: tuple[str, ...]
    caught: tuple[str, ...]
    receipt: VerifiedReceipt
    problems: tuple[str, ...]
    seconds: float


def demonstrate(cluster: Cluster, events: int) -> Demonstration:
    """Starts a new cluster with two liars in it, pushes events and reads them; the cluster stays up."""
    cluster.create()
    cluster.start(Start(faults=LIARS))
    access = Access(cluster.folder)
    topic = SetTopic(TOPIC, PARTITIONS, validated=True)
    act_all(access.genesis, access.admin(), access.author(ADMIN), [topic])
    began_s = time.monotonic()
    told = _push(access, events)
    read, suspected = _read(access, len(told))
    caught = wait_for_accusations(access, PATIENCE_S)
    pushed = {(each.partition, each.index): value for value, each in told}
    receipt = verify_receipt(export_receipt(told[events // 2][1].receipt()), access.genesis)
    return Demonstration(
        len(cluster.names()),
        len(told),
        len(read),
        suspected,
        tuple(f"{name} in block {height}" for name, height in caught.items()),
        receipt,
        tuple(find_problems(pushed, read)),
        time.monotonic() - began_s,
    )


def _push(access: Access, events: int) -> list[tuple[bytes, Acknowledged]]:
    values = [f"order {number:06}".encode("ascii") for number in range(events)]
    with access.producer(options=ProducerOptions(batch_events=BATCH_EVENTS)) as producer:
        pushed = [
            producer.push(Record(TOPIC, value, partition=number // BATCH_EVENTS % PARTITIONS), PATIENCE_S)
            for number, value in enumerate(values)
        ]
        return [(value, each.result(PATIENCE_S)) for value, each in zip(values, pushed, strict=True)]


def _read(access: Access, count: int) -> tuple[list[tuple[Place, bytes]], tuple[str, ...]]:
    """What a consumer that validates gets, in its order, and whom it suspects.

    It asks the liar first, whoever vouched for a batch, so that it meets the lie.
    """
    read: list[tuple[Place, bytes]] = []
    deadline_s = time.monotonic() + PATIENCE_S
    with access.consumer(options=ConsumerOptions(nearest=LYING_STORAGE)) as consumer:
        consumer.assign([(TOPIC, partition) for partition in range(PARTITIONS)])
        consumer.seek_to_beginning()
        while time.monotonic() < deadline_s:
            found = consumer.pull(QUIET_S)
            read += [((event.partition, event.index), event.value or b"") for event in found]
            if not found and len(read) >= count:
                break
        suspicions = consumer.suspicions()
    return read, tuple(f"{name}: {number} bad answers" for name, number in suspicions.items())


def find_problems(pushed: dict[Place, bytes], read: Sequence[tuple[Place, bytes]]) -> list[str]:
    """Whether what was delivered is what was acknowledged, once, and in the order of each partition."""
    problems = []
    if dict(read) != pushed:
        problems.append("what was delivered is not what was acknowledged")
    if len(dict(read)) < len(read):
        problems.append("an event was delivered twice")
    for partition in range(PARTITIONS):
        places = [place for place, _ in read if place[0] == partition]
        values = [value for place, value in read if place[0] == partition]
        if places != sorted(places) or values != sorted(values):
            problems.append(f"partition {partition} was delivered out of order")
    return problems
