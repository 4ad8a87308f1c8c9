"""`order`: of sends to logs, and of receives from logs and queues."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from veristream.history.events import NONE, Event, Operation
from veristream.history.oracle.facts import Facts, Message, chosen, message_of
from veristream.history.oracle.found import Found, at
from veristream.history.verdicts import Anomaly


def look(facts: Facts, found: Found) -> None:
    """Looks for nonmonotonic sends, nonmonotonic polls and skipped polls."""
    _sends(facts, found)
    effective = _effective(facts)
    for process in range(len(facts.manifest.processes)):
        events = [event for event in facts.events if event.process == process]
        _log_polls(facts, found, events, effective)
        _queue_polls(facts, found, events)


@dataclass(frozen=True, slots=True)
class _Effective:
    """An effective offset of a message, and the first event that gives it."""

    message: Message
    offset: int
    given_by: Event


def _effective(facts: Facts) -> list[_Effective]:
    return [
        _Effective(message, offset, event)
        for message in facts.effective_messages()
        for offset, event in facts.offsets_by(message, facts.effective_by(message)).items()
    ]


def _kind(kind: str, one: Event, other: Event) -> str:
    return f"int-{kind}" if (one.process, one.call) == (other.process, other.call) else kind


def _sends(facts: Facts, found: Found) -> None:
    """Compares the acknowledged messages of each producer that follow each other by number."""
    sent: dict[tuple[int, int, int], list[tuple[Message, Event, Event]]] = {}
    for message in sorted(facts.sends):
        acknowledgements = facts.acknowledgements(message)
        if not facts.is_log(message) or not acknowledgements:
            continue
        place = facts.place_of(message, acknowledgements)
        if place is not None:
            sent.setdefault(message[:3], []).append((message, place, chosen(acknowledgements)))
    for in_order in sent.values():
        for (_, before, sent_before), (message, after, sent_after) in pairwise(in_order):
            found.asked += 1
            if after.offset < before.offset:
                stream, partition, producer, number = message
                kind = _kind("nonmonotonic send", sent_before, sent_after)
                anomaly = Anomaly(
                    kind, stream=stream, partition=partition, producer=producer, number=number
                )
                found.add(anomaly, [before, after])


def _log_polls(facts: Facts, found: Found, events: list[Event], effective: list[_Effective]) -> None:
    """Compares the consecutive receives of each session of one process."""
    last: dict[tuple[int, int], Event] = {}
    for event in events:
        if event.operation in (Operation.OPEN, Operation.CLOSE):
            last.clear()
        elif event.operation in (Operation.ASSIGN, Operation.REVOKE, Operation.SEEK):
            last.pop((event.stream, event.partition), None)
        elif event.operation is Operation.RECEIVE and facts.is_log(event):
            before = last.get((event.stream, event.partition))
            if before is not None:
                found.asked += 1
                _compare(found, before, event, effective)
            last[event.stream, event.partition] = event


def _compare(found: Found, before: Event, after: Event, effective: list[_Effective]) -> None:
    if after.offset <= before.offset:
        found.add(at(_kind("nonmonotonic poll", before, after), after), [before, after])
        return
    skipped = [
        each
        for each in effective
        if (each.message.stream, each.message.partition) == (after.stream, after.partition)
        and before.offset < each.offset < after.offset
    ]
    if skipped:
        lowest = min(skipped, key=lambda each: (each.offset, each.message))
        found.add(at(_kind("skipped poll", before, after), after), [before, lowest.given_by, after])


def _queue_polls(facts: Facts, found: Found, events: list[Event]) -> None:
    """Compares each first receipt of one process with the earlier ones of the same producer."""
    seen: set[tuple[Message, int]] = set()
    firsts: dict[tuple[int, int, int, int], list[Event]] = {}
    for event in events:
        if event.operation is not Operation.RECEIVE or not facts.is_queue(event) or event.producer == NONE:
            continue
        again = event.attempt > 1 or (message_of(event), event.group) in seen
        seen.add((message_of(event), event.group))
        if again:
            continue
        earlier = firsts.setdefault((event.stream, event.partition, event.group, event.producer), [])
        if earlier:
            found.asked += 1
            highest = max(earlier, key=lambda each: each.number)
            if event.number < highest.number:
                found.add(at(_kind("nonmonotonic poll", highest, event), event), [highest, event])
        earlier.append(event)
