"""`acknowledged means delivered`."""

from __future__ import annotations

from veristream.history.events import NONE, Event, Operation
from veristream.history.oracle.facts import Facts, Message, first, transaction_of
from veristream.history.oracle.found import Found
from veristream.history.verdicts import Anomaly


def look(facts: Facts, found: Found) -> None:
    """Looks for `lost write`."""
    for message in facts.effective_messages():
        if facts.is_log(message):
            received = message in facts.receipts
            _decide(facts, found, message, received, _log_reads(facts, message), NONE)
            continue
        groups = _subscriptions(facts, message.stream)
        if not groups:
            found.asked += 1
            found.undecided += 1
        for group in groups:
            received = any(event.group == group for event in facts.receipts.get(message, []))
            _decide(facts, found, message, received, _queue_reads(facts, message, group), group)


def _subscriptions(facts: Facts, stream: int) -> list[int]:
    events = facts.of(Operation.RECEIVE, Operation.READ_TO_END)
    return sorted({event.group for event in events if event.stream == stream})


def _reads(facts: Facts, message: Message) -> list[Event]:
    return [
        event
        for event in facts.ok(Operation.READ_TO_END)
        if (event.stream, event.partition) == (message.stream, message.partition)
    ]


def _sent_before(facts: Facts, message: Message, read: Event) -> bool:
    return all(send.end is not None and facts.before(send.end, read) for send in facts.sends[message])


def _log_reads(facts: Facts, message: Message) -> list[Event]:
    """Returns the reads to the end of a log that cover a message that nobody received."""
    offsets = [event.offset for event in facts.effective_by(message) if event.offset != NONE]
    reads = _reads(facts, message)
    if offsets:
        return [read for read in reads if any(read.number <= offset < read.offset for offset in offsets)]
    return [read for read in reads if read.number == 0 and _sent_before(facts, message, read)]


def _queue_reads(facts: Facts, message: Message, group: int) -> list[Event]:
    return [
        read
        for read in _reads(facts, message)
        if read.group == group and _sent_before(facts, message, read)
    ]


def _decide(
    facts: Facts, found: Found, message: Message, received: bool, reads: list[Event], group: int
) -> None:
    found.asked += 1
    if received:
        return
    if not reads:
        found.undecided += 1
        return
    sent = first(facts.effective_by(message))
    events = [sent, first(reads)]
    if transaction := transaction_of(sent):
        events.append(facts.first_end(transaction, Operation.END_COMMIT))
    stream, partition, producer, number = message
    anomaly = Anomaly(
        "lost write", stream=stream, partition=partition, group=group, producer=producer, number=number
    )
    found.add(anomaly, events)
