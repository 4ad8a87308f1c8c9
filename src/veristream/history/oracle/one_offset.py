"""`one offset, one message`."""

from __future__ import annotations

from veristream.history.events import NONE, Event
from veristream.history.oracle.facts import Facts, Message, first
from veristream.history.oracle.found import Found
from veristream.history.verdicts import Anomaly


def look(facts: Facts, found: Found) -> None:
    """Looks for `inconsistent offset`."""
    given: dict[tuple[int, int, int], dict[Message, list[Event]]] = {}
    for message in sorted({*facts.sends, *facts.receipts}):
        if not facts.is_log(message):
            continue
        for event in [*facts.acknowledgements(message), *facts.receipts.get(message, [])]:
            if event.offset != NONE:
                place = (message.stream, message.partition, event.offset)
                given.setdefault(place, {}).setdefault(message, []).append(event)
    for (stream, partition, offset), messages in given.items():
        found.asked += 1
        if len(messages) > 1:
            anomaly = Anomaly("inconsistent offset", stream=stream, partition=partition, offset=offset)
            found.add(anomaly, [first(messages[message]) for message in sorted(messages)[:2]])
