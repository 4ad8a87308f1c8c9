"""`one member holds a partition`."""

from __future__ import annotations

from veristream.history.events import Event, Operation
from veristream.history.oracle.facts import Facts, first
from veristream.history.oracle.found import Found, at
from veristream.history.witnesses import order_of


def look(facts: Facts, found: Found) -> None:
    """Looks for `overlapping assignment`."""
    assigns = [event for event in facts.of(Operation.ASSIGN) if facts.is_log(event)]
    for group in sorted({event.group for event in assigns}):
        found.asked += len({event.process for event in assigns if event.group == group}) > 1
    for later in assigns:
        others = [event for event in assigns if _same(event, later) and event.process != later.process]
        holding = [event for event in others if _overlaps(facts, event, later)]
        if holding:
            found.add(at("overlapping assignment", later, group=True), [first(holding), later])
        if any(not facts.comparable(event.process, later.process) for event in others):
            found.uncompared = True


def _same(one: Event, other: Event) -> bool:
    """Says whether two events are of one partition in one group."""
    return (one.stream, one.partition, one.group) == (other.stream, other.partition, other.group)


def _overlaps(facts: Facts, earlier: Event, later: Event) -> bool:
    if not facts.comparable(earlier.process, later.process) or order_of(earlier) > order_of(later):
        return False
    given_up = [
        event.time_ns
        for event in facts.of(Operation.REVOKE, Operation.CLOSE)
        if event.process == earlier.process
        and event.index > earlier.index
        and (event.operation is Operation.CLOSE or _same(event, earlier))
    ]
    return not given_up or later.time_ns < given_up[0]
