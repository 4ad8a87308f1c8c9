"""`only who may reads`."""

from __future__ import annotations

from veristream.history.events import Event, Operation
from veristream.history.oracle.facts import Facts, first
from veristream.history.oracle.found import Found
from veristream.history.verdicts import Anomaly


def look(facts: Facts, found: Found) -> None:
    """Looks for `leaked`."""
    leaked: dict[tuple[int, int], list[Event]] = {}
    for event in facts.of(Operation.RECEIVE):
        readers = facts.manifest.streams[event.stream].readers
        if readers is None:
            continue
        found.asked += 1
        if event.process not in readers:
            leaked.setdefault((event.stream, event.process), []).append(event)
    for (stream, process), events in leaked.items():
        found.add(Anomaly("leaked", stream=stream, process=process), [first(events)])
