"""The messages between clients and brokers: those that the run decides about wait at the proxy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from veristream.brokers.proxy.pieces import Direction
from veristream.brokers.proxy.script import Match, Rule
from veristream.brokers.proxy.steering import Seen, Steering, WaitedTooLong
from veristream.replay.course import Held

TOLD_MAX: Final = 8
"""How many messages an explanation lists."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of messages that is steered: its key in the protocol, and who says it."""

    key: int
    direction: Direction = "to broker"

    def match(self, client: str) -> Match:
        """Returns what means the messages of this kind between a client and the broker."""
        return Match(self.direction, key=self.key, client=client)


@dataclass(slots=True)
class Taken:
    """A message that was taken: between whom, what reports call it, and the rule that holds it."""

    client: str
    kind: str
    title: str
    rule: str
    seen: Seen
    is_released: bool = False


def title_of(kind: str, nth: int, client: str, direction: Direction = "to broker") -> str:
    """Returns what reports call a message."""
    return f"{kind} {nth} {'of' if direction == 'to broker' else 'to'} {client}"


class Wire:
    """Holds so many messages of each kind of each client; the name of a client is that of its process.

    What comes beyond that passes: the model does not have it.
    """

    def __init__(
        self, steering: Steering, kinds: Mapping[str, Kind], counts: Mapping[tuple[str, str], int]
    ) -> None:
        self.steering = steering
        self._kinds = kinds
        self._rules: Counter[tuple[str, str]] = Counter()
        self._found: Counter[tuple[str, str]] = Counter()
        self._titles: Counter[tuple[str, str]] = Counter()
        self.taken: list[Taken] = []
        """What was taken; the number of a `Held` is a place in this list."""
        for (client, kind), times in counts.items():
            for _ in range(times):
                self.hold(client, kind)

    def hold(self, client: str, kind: str) -> None:
        """Holds one message more than before; rules act in the order in which they were made."""
        self._rules[client, kind] += 1
        name = self._title(kind, self._rules[client, kind], client)
        self.steering.perform(Rule(name, "hold", self._kinds[kind].match(client)))

    def take(self, client: str, kind: str, seconds: float) -> Held | None:
        """Waits until the next message of a kind of a client is held; None if none comes."""
        found = self.find_next(client, kind, seconds)
        if found is None:
            return None
        self._titles[client, kind] += 1
        title = self._title(kind, self._titles[client, kind], client)
        self.taken.append(Taken(client, kind, title, *found))
        return Held(len(self.taken) - 1, kind, title)

    def find_next(self, client: str, kind: str, seconds: float) -> tuple[str, Seen] | None:
        """Waits until the next rule holds a message; returns both, or None if none comes."""
        name = self._title(kind, self._found[client, kind] + 1, client)
        try:
            seen = self.steering.wait_held(name, seconds)
        except WaitedTooLong:
            return None
        self._found[client, kind] += 1
        return name, seen

    def release(self, held: Held) -> tuple[Seen, int]:
        """Lets a message go on; returns it, and the mark since which what comes of it passes."""
        one = self.taken[held.number]
        one.is_released = True
        mark = self.steering.mark()
        self.steering.release(one.rule)
        return one.seen, mark

    def wait_gone(self, held: Held, seconds: float) -> Seen | None:
        """Lets a message go on, and waits until it has passed; None if it does not."""
        seen, mark = self.release(held)
        match = Match(seen.direction, seen.node, seen.connection, seen.number)
        return self.wait_passed(match, seconds, mark)

    def wait_passed(self, match: Match, seconds: float, mark: int, nth: int = 1) -> Seen | None:
        """Waits until the how many-th message that matches has passed since a mark; None if none does."""
        try:
            return self.steering.wait_passed(match, seconds, nth, mark)
        except WaitedTooLong:
            return None

    def connections(self, client: str) -> list[int]:
        """Returns the connections on which a client has said something so far, in their order."""
        said = [
            each.connection
            for each in self.steering.log
            if each.header is not None and each.header.request.client == client
        ]
        return list(dict.fromkeys(said))

    def explain(self) -> str:
        """Says what passed last and what waits."""
        waiting = ", ".join(self.steering.held()) or "nothing"
        passed = [each.tell() for each in self.steering.passed if self._is_steered(each)]
        told = "; ".join(passed[-TOLD_MAX:]) or "nothing"
        return f"{waiting} waits at the proxy; the last that passed: {told}"

    def release_all(self) -> None:
        """Lets everything pass from now on."""
        self.steering.end()

    def _title(self, kind: str, nth: int, client: str) -> str:
        return title_of(kind, nth, client, self._kinds[kind].direction)

    def _is_steered(self, seen: Seen) -> bool:
        """Whether it is of a kind that is steered, or the answer to one."""
        return seen.header is not None and any(
            seen.header.request.key == kind.key and seen.direction in (kind.direction, "to client")
            for kind in self._kinds.values()
        )
