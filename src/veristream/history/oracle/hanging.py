"""`no transaction hangs`."""

from __future__ import annotations

from veristream.history.events import NONE, Event, Operation, Outcome
from veristream.history.oracle.facts import Facts, Transaction, first, transaction_of
from veristream.history.oracle.found import Found, at


def look(facts: Facts, found: Found) -> None:
    """Looks for `hanging transaction`."""
    if not facts.manifest.transactions_recorded or not facts.manifest.producers_complete:
        return
    reads = [each for each in facts.ok(Operation.READ_TO_END) if facts.is_log(each)]
    for read in reads:
        if not tells_length(read) and _is_over(facts, read):
            found.asked += 1
            _decide(facts, found, read, [each for each in reads if tells_length(each)])


def tells_length(read: Event) -> bool:
    """Says whether a read only tells how long a log is: it is from the end to the end."""
    return read.number == read.offset > 0


def _is_over(facts: Facts, read: Event) -> bool:
    """Says whether there were transactions in what is read, and all of them were over before."""
    found = {
        transaction
        for event in facts.of(Operation.SEND)
        if event.stream == read.stream and event.partition in (read.partition, NONE)
        if (transaction := transaction_of(event)) is not None
    }
    ends = [_end(facts, each) for each in found]
    return bool(ends) and all(end is not None and facts.before(end, read) for end in ends)


def _end(facts: Facts, transaction: Transaction) -> Event | None:
    """Returns the first OK end of a transaction by index; None if it is not over."""
    ends = [*facts.ends(transaction, Operation.END_COMMIT), *facts.ends(transaction, Operation.END_ABORT)]
    ok = [each for each in ends if each.outcome is Outcome.OK]
    return min(ok, key=lambda each: each.index, default=None)


def _decide(facts: Facts, found: Found, read: Event, lengths: list[Event]) -> None:
    place = read.stream, read.partition
    later = [
        each for each in lengths if (each.stream, each.partition) == place and facts.before(read, each)
    ]
    if not later:
        found.undecided += 1
        return
    end = max(each.offset for each in later)
    there = [
        event
        for event in facts.ok(Operation.SEND)
        if (event.stream, event.partition) == place
        and event.offset != NONE
        and read.offset <= event.offset < end
        and facts.before(event, read)
    ]
    if there:
        lowest = min(event.offset for event in there)
        sent = first(event for event in there if event.offset == lowest)
        length = first(each for each in later if each.offset > lowest)
        found.add(at("hanging transaction", read), [sent, read, length])
