"""Pushes events, reads them back with a validating consumer, and compares them.

Chaos and the demonstration push values in ascending order, so the order of delivery can be checked without
a record of it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence

from veristream.kabis.client.options import ConsumerOptions, ProducerOptions
from veristream.kabis.client.pushes import Acknowledged, Pushed
from veristream.kabis.cluster.access import Access
from veristream.kabis.protocol.records import Record

PATIENCE_S = 60.0
QUIET_S = 1.0
"""How long a consumer waits for further events."""

Place = tuple[int, int]
"""A partition and an index in it."""
Delivered = list[tuple[Place, bytes]]
"""Events in the order of delivery."""


def push(
    access: Access, records: Sequence[Record], batch_events: int, halfway: Callable[[], None] = lambda: None
) -> list[Acknowledged]:
    """Pushes events, calls `halfway` after half of them, and waits until all are acknowledged."""
    pushed: list[Pushed] = []
    with access.producer(options=ProducerOptions(batch_events=batch_events)) as producer:
        for number, record in enumerate(records):
            if number and number == len(records) // 2:
                pushed[number // 2].result(PATIENCE_S)  # some are admitted, some in flight
                halfway()
            pushed.append(producer.push(record, PATIENCE_S))
        return [each.result(PATIENCE_S) for each in pushed]


def read_back(
    access: Access, topic: str, first: Mapping[int, int], wanted: Collection[Place], nearest: str | None
) -> tuple[Delivered, dict[str, int]]:
    """Reads each partition from its first index until all wanted events have arrived and no more follow.

    Returns the events, and the number of bad answers from each storage party. The consumer asks `nearest`
    first.
    """
    read: Delivered = []
    missing = set(wanted)
    deadline_s = time.monotonic() + PATIENCE_S
    with access.consumer(options=ConsumerOptions(nearest=nearest)) as consumer:
        consumer.assign([(topic, partition) for partition in first])
        for partition, index in first.items():
            consumer.seek((topic, partition), index)
        while time.monotonic() < deadline_s:
            found = consumer.pull(QUIET_S)
            for event in found:
                read.append(((event.partition, event.index), event.value or b""))
                missing.discard((event.partition, event.index))
            if not found and not missing:
                break
        return read, consumer.suspicions()


def find_problems(acknowledged: Mapping[Place, bytes], read: Delivered) -> list[str]:
    """Returns the problems of what was read; unacknowledged events may or may not be there."""
    found = dict(read)
    problems = []
    missing = [place for place in acknowledged if place not in found]
    if missing:
        problems.append(f"{len(missing)} acknowledged events are lost, the first at {_show(missing[0])}")
    changed = [place for place, value in acknowledged.items() if found.get(place, value) != value]
    if changed:
        problems.append(f"{len(changed)} events were altered, the first at {_show(changed[0])}")
    if len(found) < len(read):
        problems.append(f"{len(read) - len(found)} events were delivered twice")
    for partition in sorted({place[0] for place in found}):
        problems += _find_disorder(partition, [each for each in read if each[0][0] == partition])
    return problems


def _find_disorder(partition: int, read: Delivered) -> list[str]:
    problems = []
    if [place for place, _ in read] != sorted(place for place, _ in read):
        problems.append(f"partition {partition} was delivered out of the order of its indices")
    values = [value for _, value in sorted(dict(read).items())]
    if len(set(values)) < len(values):
        problems.append(f"partition {partition} has {len(values) - len(set(values))} events twice")
    elif values != sorted(values):
        problems.append(f"partition {partition} is not in the order in which its events were pushed")
    return problems


def _show(place: Place) -> str:
    return f"index {place[1]} of partition {place[0]}"
