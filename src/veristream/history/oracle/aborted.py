"""`aborted is never read`."""

from __future__ import annotations

from veristream.history.events import NONE, Event, Operation
from veristream.history.oracle.facts import Facts, Fate, Message, Send, first
from veristream.history.oracle.found import Found, at


def look(facts: Facts, found: Found) -> None:
    """Looks for `aborted read` and `precommitted read`."""
    reads = [*facts.of(Operation.RECEIVE), *facts.ok(Operation.READ_TO_END)]
    read = {(event.stream, event.partition) for event in reads}
    for message, sends in facts.sends.items():
        in_transaction = any(event.transaction != NONE for send in sends for event in send.events)
        if facts.is_log(message) and in_transaction and message[:2] in read:
            found.asked += 1
            if facts.manifest.transactions_recorded:
                _decide(facts, found, message)


def _decide(facts: Facts, found: Found, message: Message) -> None:
    sends = facts.possible_sends(message)
    if not sends:
        return
    sent = first(event for send in sends for event in send.events)
    (transaction,) = {send.transaction for send in sends if sent in send.events}
    for receipt in facts.receipts.get(message, []):
        if facts.aborted(message):
            assert transaction is not None
            abort = facts.first_end(transaction, Operation.END_ABORT)
            found.add(at("aborted read", receipt), [sent, abort, receipt])
        elif all(send.transaction is not None for send in sends):
            assert transaction is not None
            commits = _commits(facts, sends)
            if commits and not _comparable(facts, message, receipt):
                found.uncompared = True
            elif all(facts.before(receipt, commit) for commit in commits):
                of_sent = facts.ends(transaction, Operation.END_COMMIT)
                shown = [sent, receipt, *([first(of_sent)] if of_sent else [])]
                found.add(at("precommitted read", receipt), shown)


def _commits(facts: Facts, sends: list[Send]) -> list[Event]:
    """Returns the events of `END_COMMIT` of those transactions of some sends that are not aborted."""
    transactions = {send.transaction for send in sends if send.transaction is not None}
    return [
        event
        for transaction in sorted(transactions)
        if facts.fate(transaction) is not Fate.ABORTED
        for event in facts.ends(transaction, Operation.END_COMMIT)
    ]


def _comparable(facts: Facts, message: Message, receipt: Event) -> bool:
    return all(facts.comparable(receipt.process, send.process) for send in facts.sends[message])
