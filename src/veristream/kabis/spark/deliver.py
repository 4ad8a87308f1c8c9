"""Pushes an epoch exactly once, using sequence numbers on the ledger; independent of Spark.

Only one process pushes at a time, because the producer's journal is locked. The ledger numbers a producer's
events in each partition, and no other producer uses its name. So the current number minus the number before
the epoch is how many events of the epoch were admitted; the rest is pushed. The admitted ones are read back
and compared, so that events pushed by someone else under our name cause an error and not a loss.

Unvalidated topics have no such numbers: an epoch that is started again pushes their events again.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from veristream.errors import EnvironmentFailure, ModelError
from veristream.kabis.channels.interfaces import Channels
from veristream.kabis.client.consumed import Place
from veristream.kabis.client.errors import UnknownTopicError
from veristream.kabis.client.fetching import Fetcher
from veristream.kabis.client.producer.producer import KabisProducer
from veristream.kabis.protocol.records import Record, choose_partition, decode_leaf
from veristream.kabis.spark.outbox import Epoch, Outbox, Posted
from veristream.kabis.spark.watch import Watch

POLL_S = 0.02

Check = Callable[[Epoch, Place, int], None]
"""Raises ModelError unless the first `count` events of the epoch in a place are those on the ledger."""


class Staged(NamedTuple):
    """A row as encoded by its task; without a partition, the key determines it."""

    topic: str
    partition: int | None
    leaf: bytes


def deliver(
    producer: KabisProducer, outbox: Outbox, number: int, rows: Sequence[Staged], check: Check
) -> int:
    """Pushes the rows of an epoch exactly once, even if called again; returns how many it pushed now."""
    kept = outbox.load()
    pushed = 0
    if kept is not None and not kept.finished:
        pushed = push_rest(producer, kept, check)
        outbox.save(Epoch(kept.number, finished=True))
    if not rows or (kept is not None and number <= kept.number):
        return pushed
    epoch = Epoch(number, False, *stage(producer, rows))
    outbox.save(epoch)
    push(producer, epoch.events)
    outbox.save(Epoch(number, finished=True))
    return pushed + len(epoch.events)


def stage(
    producer: KabisProducer, rows: Iterable[Staged]
) -> tuple[tuple[tuple[Place, int], ...], tuple[Posted, ...]]:
    """Assigns rows to partitions; returns them with the current number of our events in each."""
    counts: dict[str, int] = {}
    events = []
    for number, row in enumerate(rows):
        count = counts.get(row.topic) or counts.setdefault(row.topic, producer.partitions_for(row.topic))
        partition = row.partition
        if partition is None:
            key = decode_leaf(row.leaf).key
            partition = number % count if key is None else choose_partition(key, count)
        elif not 0 <= partition < count:
            raise UnknownTopicError(row.topic, f"there is no partition {partition}")
        events.append(Posted(row.topic, partition, row.leaf))
    places = sorted({(event.topic, event.partition) for event in events})
    return tuple((place, wait_for_sequence(producer, place)) for place in places), tuple(events)


def push(producer: KabisProducer, events: Iterable[Posted]) -> None:
    """Pushes events and waits until all are acknowledged; raises the first failure."""
    pending = []
    for topic, partition, leaf in events:
        event = decode_leaf(leaf)
        pending.append(
            producer.push(
                Record(topic, event.value, event.key, event.headers, event.timestamp_ms, partition)
            )
        )
    producer.flush()
    for each in pending:
        each.result()


def push_rest(producer: KabisProducer, epoch: Epoch, check: Check) -> int:
    """Pushes the events of an interrupted epoch that are not on the ledger; returns their number."""
    there: Counter[Place] = Counter()
    for place, before in epoch.before:
        there[place] = wait_for_sequence(producer, place) - before
        if there[place]:
            check(epoch, place, there[place])
    rest = []
    for posted in epoch.events:
        place = posted.topic, posted.partition
        if there[place] > 0:
            there[place] -= 1
        else:
            rest.append(posted)
    push(producer, rest)
    return len(rest)


def wait_for_sequence(producer: KabisProducer, place: Place, timeout_s: float = 60.0) -> int:
    """Returns the number of our events in a partition, after those signed before a restart are admitted."""
    deadline_s = time.monotonic() + timeout_s
    while (found := producer.sequence(*place)) is None:
        if time.monotonic() > deadline_s:
            raise EnvironmentFailure(
                f"events signed before a restart were not admitted within {timeout_s:g} s",
                "check `veristream kabis status`; perhaps their topic is no longer validated",
            )
        time.sleep(POLL_S)
    return found


def check_there(watch: Watch, name: str, epoch: Epoch, place: Place, count: int) -> None:
    """Reads back our admitted events since the start of the epoch, and compares them."""
    watch.refresh()
    before = dict(epoch.before)[place]
    expected = epoch.lane(place)[:count]
    admissions = [
        admission
        for admission in watch.ledger.admissions(*place, watch.ledger.partition(*place).low_water)
        if admission.signed.header.producer == name
        and admission.signed.header.first_sequence >= before
        and not admission.skipped
    ]

    async def read_back(channels: Channels) -> dict[int, tuple[bytes, ...]]:
        fetcher = Fetcher(channels.storage, watch.timeout_s)
        return {
            each.signed.header.first_sequence - before: (await fetcher.fetch(each)).leaves
            for each in admissions
        }

    found = watch.run(read_back)
    if len(expected) < count or any(
        expected[at : at + len(leaves)] != list(leaves) for at, leaves in found.items()
    ):
        raise ModelError(
            f"another process has pushed to {place[0]}-{place[1]} as {name} during an epoch",
            hint="use a separate client for each writer: veristream kabis client add NAME, option client",
        )
