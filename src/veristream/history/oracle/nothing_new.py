"""`nothing from nowhere`."""

from __future__ import annotations

from veristream.history.events import NONE, Event, Operation, Outcome
from veristream.history.oracle.facts import Facts, Message, first, message_of
from veristream.history.oracle.found import Found, at
from veristream.history.verdicts import Anomaly


def look(facts: Facts, found: Found) -> None:
    """Looks for `unexpected` and `altered`."""
    for event in facts.of(Operation.RECEIVE):
        found.asked += 1
        if event.producer == NONE:
            if facts.manifest.producers_complete:
                found.add(_unexpected(message_of(event), event.process, event.index), [event])
        else:
            _compare_digest(facts, found, event)
    if facts.manifest.producers_complete:
        for message, receipts in facts.receipts.items():
            if not facts.possible_sends(message):
                failed = [each for each in _sends(facts, message) if each.outcome is Outcome.FAIL]
                shown = [first(receipts), *([first(failed)] if failed else [])]
                found.add(_unexpected(message), shown)


def _unexpected(message: Message, process: int = NONE, index: int = NONE) -> Anomaly:
    stream, partition, producer, number = message
    return Anomaly(
        "unexpected",
        stream=stream,
        partition=partition,
        producer=producer,
        number=number,
        process=process,
        index=index,
    )


def _sends(facts: Facts, message: Message) -> list[Event]:
    return [event for send in facts.sends.get(message, []) for event in send.events]


def _compare_digest(facts: Facts, found: Found, receipt: Event) -> None:
    sent = [event for event in _sends(facts, message_of(receipt)) if event.digest]
    if receipt.digest and sent and all(event.digest != receipt.digest for event in sent):
        found.add(at("altered", receipt), [receipt, first(sent)])
