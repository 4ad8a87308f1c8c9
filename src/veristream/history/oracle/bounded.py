"""`in flight is bounded`."""

from __future__ import annotations

from dataclasses import dataclass, field

from veristream.history.events import NONE, Event, Operation, Outcome
from veristream.history.oracle.facts import Facts, Message, message_of
from veristream.history.oracle.found import Found, at
from veristream.history.witnesses import HELD_SHOWN


def look(facts: Facts, found: Found) -> None:
    """Looks for `overrun` and `too many attempts`."""
    for process in range(len(facts.manifest.processes)):
        holders: dict[tuple[int, int], _Holder] = {}
        for event in facts.events:
            if event.process != process:
                continue
            if event.operation in (Operation.CLOSE, Operation.OPEN):
                for holder in holders.values():
                    holder.held.clear()
            elif facts.is_queue(event):
                lifetime = facts.manifest.streams[event.stream].redelivery_ns
                if facts.jumped(process):
                    lifetime = None
                holder = holders.setdefault((event.stream, event.group), _Holder(lifetime))
                _follow(facts, found, event, holder)


@dataclass(slots=True)
class _Holder:
    """What one process holds of one subscription, and its limit.

    `held` has the last receipt of each message in flight; of producer -1 it has every receipt. While
    `remaining` is not 0, `earlier` is the limit for as many more receives, afterwards `ready` is.
    """

    lifetime: int | None
    held: list[Event] = field(default_factory=list)
    ready: Event | None = None
    earlier: Event | None = None
    remaining: int = 0

    def limit(self) -> Event | None:
        """Returns the `READY` that sets the limit of the next receive."""
        return self.earlier if self.remaining else self.ready

    def expire(self, time_ns: int) -> None:
        """Forgets what has been in flight for longer than a delivery counts."""
        if self.lifetime is not None:
            self.held = [each for each in self.held if time_ns - each.time_ns <= self.lifetime]

    def forget(self, message: Message) -> None:
        """Ends a message; of producer -1, the oldest receipt in the partition."""
        same = [each for each in self.held if message_of(each)[:3] == message[:3]]
        if message.producer != NONE:
            same = [each for each in same if each.number == message.number]
        if same:
            self.held.remove(same[0])

    def allow(self, ready: Event) -> None:
        """Takes a new limit; under a lower one, what was under way may still come."""
        limit = self.limit()
        if limit is not None and ready.number < limit.number:
            self.earlier = limit
            self.remaining = max(limit.number - len(self.held), 0)
        else:
            self.remaining = 0
        self.ready = ready


def _follow(facts: Facts, found: Found, event: Event, holder: _Holder) -> None:
    holder.expire(event.time_ns)
    match event.operation:
        case Operation.READY:
            holder.allow(event)
        case Operation.ACKNOWLEDGE | Operation.REJECT:
            if event.outcome is Outcome.INVOKE or facts.begin(event).outcome is not Outcome.INVOKE:
                holder.forget(message_of(event))
        case Operation.RECEIVE:
            _receive(facts, found, event, holder)
        case _:
            pass


def _receive(facts: Facts, found: Found, event: Event, holder: _Holder) -> None:
    if event.producer != NONE:
        holder.forget(message_of(event))
    holder.held.append(event)
    limit = holder.limit()
    holder.remaining = max(holder.remaining - 1, 0)
    stream = facts.manifest.streams[event.stream]
    found.asked += limit is not None or stream.attempts_max is not None
    if stream.attempts_max is not None and event.attempt > stream.attempts_max:
        found.add(at("too many attempts", event, group=True, partition=False), [event])
    if limit is None:
        return
    if stream.redelivery_ns is not None and facts.jumped(event.process):
        found.uncompared = True
    elif len(holder.held) > limit.number:
        shown = sorted(holder.held, key=lambda each: each.index)[-HELD_SHOWN:]
        found.add(at("overrun", event, group=True, partition=False), [limit, *shown])
