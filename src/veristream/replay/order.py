"""What consumers received, redeliveries included, and whether a message came after a later one.

The check of `order` on histories leaves redeliveries out, since brokers promise nothing of them. Models of
what an application handles do not.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Final

from veristream.history.events import NONE, Event, Operation
from veristream.history.store.reader import read_events, read_manifest
from veristream.history.verdicts import Word
from veristream.replay.outcome import Evidence, Observed

HANDLED: Final = "handled in order"
"""What tables call it."""


def observe_order(history: Path, names: Collection[str]) -> tuple[Observed, tuple[Evidence, ...]]:
    """Reads a small history, and looks at what the processes of these names received, one by one."""
    manifest = read_manifest(history)
    received: dict[int, list[Event]] = {}
    for event in sorted(read_events(history), key=lambda each: (each.process, each.index)):
        if event.operation is Operation.RECEIVE and manifest.processes[event.process].name in names:
            received.setdefault(event.process, []).append(event)
    late: list[str] = []
    evidence: list[Evidence] = []
    for process, events in received.items():
        name = manifest.processes[process].name
        overtaken = list(find_overtaken(events))
        evidence.append(Evidence(f"{name} received {_tell(events)}", shows=bool(overtaken)))
        late += [f"{name} received message {one.number} after message {high}" for one, high in overtaken]
    return _judge(late, sum(map(len, received.values()))), tuple(evidence)


def find_overtaken(events: Collection[Event]) -> list[tuple[Event, int]]:
    """Returns what was received after a later message of its producer, with the number of the latest."""
    latest: dict[tuple[int, int, int, int], int] = {}
    found = []
    for event in events:
        if event.producer == NONE:
            continue
        key = event.stream, event.partition, event.group, event.producer
        if event.number < latest.get(key, NONE):
            found.append((event, latest[key]))
        latest[key] = max(event.number, latest.get(key, NONE))
    return found


def _judge(late: list[str], deliveries: int) -> Observed:
    if late:
        return Observed(HANDLED, Word.VIOLATED, "; ".join(late))
    if not deliveries:
        return Observed(HANDLED, Word.NOT_OBSERVABLE, "nothing was received")
    return Observed(HANDLED, Word.HELD, f"over {deliveries} deliveries, redeliveries included")


def _tell(events: list[Event]) -> str:
    seen: set[tuple[int, int]] = set()
    told = []
    for event in events:
        message = event.producer, event.number
        again = event.attempt > 1 or message in seen
        told.append(f"{event.number}{' again' if again else ''}")
        seen.add(message)
    return f"message{'s' if len(told) > 1 else ''} {', '.join(told)}"
