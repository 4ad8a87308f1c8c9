"""Pushing an epoch exactly once, by the sequence numbers that the ledger counts; without Spark.

One process pushes at a time: the producer's journal is locked. A producer's events of a partition are
numbered on the ledger, and no other producer pushes under its name. So the number on the ledger, less the
number from before the epoch, is how many events of the epoch are there, and the rest is pushed. What is
there is read back and compared, so that a stranger's events under our name are an error and not a loss.

Topics that are not validated have no such numbers: an epoch that is begun again pushes them again.
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
"""Raises ModelError unless the first so many events of the epoch in a place are those on the ledger."""


class Staged(NamedTuple):
    """A row as its task encoded it; without a partition the key chooses it."""

    topic: str
    partition: int | None
    leaf: bytes


def deliver(
    producer: KabisProducer, outbox: Outbox, number: int, rows: Sequence[Staged], check: Check
) -> int:
    """Pushes the rows of an epoch, once however often it is called; gives how many it pushed now."""
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
    """The rows with the partitions that they go to, and how many events of ours those have now."""
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
    """Pushes events and waits until all are acknowledged; raises why one was not."""
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
    """Pushes what the ledger does not have of an epoch that was begun before; gives how much that is."""
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
    """How many events of ours a partition has, once what was signed before a restart has arrived there."""
    deadline_s = time.monotonic() + timeout_s
    while (found := producer.sequence(*place)) is None:
        if time.monotonic() > deadline_s:
            raise EnvironmentFailure(
                f"events that were signed before a restart do not arrive within {timeout_s:g} s",
                "see `veristream kabis status`; perhaps their topic is no longer validated",
            )
        time.sleep(POLL_S)
    return found


def check_there(watch: Watch, name: str, epoch: Epoch, place: Place, count: int) -> None:
    """Reads back what the ledger has of us since the epoch began, and compares it."""
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
            f"somebody else has pushed to {place[0]}-{place[1]} as {name} in the middle of an epoch",
            hint="give the writer a client of its own: veristream kabis client add NAME, option client",
        )
