"""`a fenced producer never commits`."""

from __future__ import annotations

from veristream.history.events import NONE, Event, Operation, Outcome
from veristream.history.oracle.facts import Facts, first
from veristream.history.oracle.found import Found
from veristream.history.verdicts import Anomaly


def look(facts: Facts, found: Found) -> None:
    """Looks for `zombie commit`."""
    opens = [event for event in facts.ok(Operation.OPEN) if event.group != NONE]
    for group in sorted({event.group for event in opens}):
        found.asked += len({event.process for event in opens if event.group == group}) > 1
    for commit in facts.ok(Operation.END_COMMIT):
        fencing = [
            event
            for event in opens
            if event.group == commit.group
            and event.process != commit.process
            and event.epoch > commit.epoch
        ]
        before = [event for event in fencing if facts.before(event, commit)]
        if before:
            anomaly = Anomaly(
                "zombie commit", group=commit.group, process=commit.process, index=commit.index
            )
            found.add(anomaly, [first(before), *_invokes(facts, commit), commit])
        elif any(not facts.comparable(event.process, commit.process) for event in fencing):
            found.uncompared = True


def _invokes(facts: Facts, commit: Event) -> list[Event]:
    begin = facts.begin(commit)
    return [begin] if begin.outcome is Outcome.INVOKE else []
