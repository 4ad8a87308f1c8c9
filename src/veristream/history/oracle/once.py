"""`at most once`."""

from __future__ import annotations

from veristream.history.events import NONE, Event
from veristream.history.oracle.facts import Facts, Message, first
from veristream.history.oracle.found import Found
from veristream.history.verdicts import Anomaly
from veristream.history.witnesses import order_of


def look(facts: Facts, found: Found) -> None:
    """Looks for `duplicate`."""
    for message, receipts in facts.receipts.items():
        if facts.is_log(message):
            offsets = sorted({event.offset for event in receipts})
            found.asked += message in facts.sends
            if len(offsets) > 1:
                shown = [first(event for event in receipts if event.offset == each) for each in offsets[:2]]
                found.add(_duplicate(message, NONE), shown)
            continue
        for group in sorted({event.group for event in receipts}):
            of_group: list[Event] = sorted(
                (event for event in receipts if event.group == group), key=order_of
            )
            found.asked += message in facts.sends
            if len(of_group) > 1:
                found.add(_duplicate(message, group), of_group[:2])


def _duplicate(message: Message, group: int) -> Anomaly:
    stream, partition, producer, number = message
    return Anomaly(
        "duplicate", stream=stream, partition=partition, group=group, producer=producer, number=number
    )
