"""`commits never move back`."""

from __future__ import annotations

from veristream.history.events import NONE, Event, Operation
from veristream.history.oracle.facts import Facts, first
from veristream.history.oracle.found import Found, at


def look(facts: Facts, found: Found) -> None:
    """Looks for `lost commit` and `backward commit`."""
    commits = [event for event in facts.ok(Operation.COMMIT) if facts.is_log(event)]
    assigns = [
        event for event in facts.of(Operation.ASSIGN) if facts.is_log(event) and event.offset != NONE
    ]
    for event in commits:
        _compare(facts, found, "backward commit", event, commits)
    for event in assigns:
        _compare(facts, found, "lost commit", event, commits)


def _compare(facts: Facts, found: Found, kind: str, event: Event, commits: list[Event]) -> None:
    others = [
        commit
        for commit in commits
        if (commit.stream, commit.partition, commit.group) == (event.stream, event.partition, event.group)
    ]
    before = [commit for commit in others if facts.before(commit, event)]
    found.asked += bool(before)
    highest = max((commit.offset for commit in before), default=NONE)
    if event.offset < highest:
        shown = first(commit for commit in before if commit.offset == highest)
        found.add(at(kind, event, group=True), [shown, event])
    elif any(
        commit.offset > event.offset and not facts.comparable(commit.process, event.process)
        for commit in others
    ):
        found.uncompared = True
