"""`committed means processed`."""

from __future__ import annotations

from veristream.history.events import NONE, Event, Operation, Outcome
from veristream.history.oracle.facts import Facts, Message, first, message_of
from veristream.history.oracle.found import Found
from veristream.history.verdicts import Anomaly


def look(facts: Facts, found: Found) -> None:
    """Looks for `unprocessed`."""
    commits = [event for event in facts.ok(Operation.COMMIT) if facts.is_log(event)]
    for group in sorted({event.group for event in commits}):
        found.asked += 1
        if _decidable(facts, group):
            for message in sorted({*facts.sends, *facts.receipts}):
                if facts.is_log(message):
                    _decide(facts, found, message, [event for event in commits if event.group == group])
        else:
            found.undecided += 1


def _decidable(facts: Facts, group: int) -> bool:
    of_group = [event for event in facts.events if event.group == group and facts.is_log(event)]
    return any(event.operation is Operation.ACKNOWLEDGE for event in of_group) and not any(
        event.operation is Operation.RECEIVE and event.producer == NONE for event in of_group
    )


def _first_position(facts: Facts, message: Message, group: int) -> int:
    starts = [
        event.offset
        for event in facts.of(Operation.ASSIGN)
        if (event.stream, event.partition, event.group) == (message.stream, message.partition, group)
        and event.offset != NONE
    ]
    return min(starts, default=0)


def _decide(facts: Facts, found: Found, message: Message, commits: list[Event]) -> None:
    group = commits[0].group
    effective_by = facts.effective_by(message)
    received = [event for event in facts.receipts.get(message, []) if event.group == group]
    offsets = {event.offset for event in received} | set(facts.offsets_by(message, effective_by))
    asked = [offset for offset in offsets if offset >= _first_position(facts, message, group)]
    if not asked:
        return
    past = [
        event
        for event in commits
        if (event.stream, event.partition) == (message.stream, message.partition)
        and event.offset > min(asked)
    ]
    processed = any(
        event.group == group and message_of(event) == message and event.outcome is not Outcome.FAIL
        for event in facts.of(Operation.ACKNOWLEDGE)
    )
    if past and not processed:
        stream, partition, producer, number = message
        anomaly = Anomaly(
            "unprocessed", stream=stream, partition=partition, group=group, producer=producer, number=number
        )
        found.add(anomaly, [first(effective_by or received), first(past)])
