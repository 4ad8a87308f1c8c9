"""`acknowledged is never delivered again`."""

from __future__ import annotations

from veristream.history.events import NONE, Event, Operation
from veristream.history.oracle.facts import Facts, Message, first, message_of
from veristream.history.oracle.found import Found, at


def look(facts: Facts, found: Found) -> None:
    """Looks for `zombie delivery`."""
    acknowledged: dict[tuple[Message, int], list[Event]] = {}
    for event in facts.ok(Operation.ACKNOWLEDGE):
        if facts.is_queue(event) and event.producer != NONE:
            acknowledged.setdefault((message_of(event), event.group), []).append(event)
    found.asked = len(acknowledged)
    for message, receipts in facts.receipts.items():
        for receipt in receipts:
            acknowledgements = acknowledged.get((message, receipt.group), [])
            before = [event for event in acknowledgements if facts.before(event, receipt)]
            if before:
                found.add(at("zombie delivery", receipt, group=True), [first(before), receipt])
            elif any(not facts.comparable(event.process, receipt.process) for event in acknowledgements):
                found.uncompared = True
