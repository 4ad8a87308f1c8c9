"""`transactions are seen whole`."""

from __future__ import annotations

from veristream.history.events import Event, Operation
from veristream.history.oracle import cycles
from veristream.history.oracle.facts import Facts, Fate, Message, Transaction, first, transaction_of
from veristream.history.oracle.found import Found
from veristream.history.verdicts import Anomaly

Sent = dict[Message, list[Event]]


def look(facts: Facts, found: Found) -> None:
    """Looks for `torn transaction` and `G1c`, and notes `G0`."""
    if not facts.manifest.transactions_recorded:
        return
    sent = _sent_in_committed(facts)
    reads = [event for event in facts.ok(Operation.READ_TO_END) if facts.is_log(event)]
    for reader in sorted({event.process for event in reads}):
        of_reader = [event for event in reads if event.process == reader]
        for transaction, messages in sent.items():
            _decide(facts, found, transaction, messages, of_reader)
    cycles.look(facts, found)


def _sent_in_committed(facts: Facts) -> dict[Transaction, Sent]:
    """Returns the messages of each committed transaction, with the OK events of their sends in it."""
    sent: dict[Transaction, Sent] = {}
    for message in sorted(facts.sends):
        for event in facts.acknowledgements(message) if facts.is_log(message) else []:
            transaction = transaction_of(event)
            if transaction is not None and facts.fate(transaction) is Fate.COMMITTED:
                sent.setdefault(transaction, {}).setdefault(message, []).append(event)
    return sent


def _covering(facts: Facts, message: Message, sent: list[Event], reads: list[Event]) -> list[Event]:
    offsets = facts.offsets_by(message, sent)
    return [
        read
        for read in reads
        if (read.stream, read.partition) == (message.stream, message.partition)
        and any(read.number <= offset < read.offset for offset in offsets)
    ]


def _decide(
    facts: Facts, found: Found, transaction: Transaction, messages: Sent, reads: list[Event]
) -> None:
    reader = reads[0].process
    covered = [message for message, sent in messages.items() if _covering(facts, message, sent, reads)]
    found.asked += len(covered) > 1
    receipts = {
        message: [event for event in facts.receipts.get(message, []) if event.process == reader]
        for message in covered
    }
    covered.sort(key=lambda each: (each.stream, each.partition, each.number, each.producer))
    received = [message for message in covered if receipts[message]]
    missed = [message for message in covered if not receipts[message]]
    if received and missed:
        anomaly = Anomaly(
            "torn transaction",
            process=reader,
            producer=transaction.process,
            transaction=transaction.number,
        )
        events = [
            first(messages[received[0]]),
            first(receipts[received[0]]),
            first(messages[missed[0]]),
            first(_covering(facts, missed[0], messages[missed[0]], reads)),
            facts.first_end(transaction, Operation.END_COMMIT),
        ]
        found.add(anomaly, events)
