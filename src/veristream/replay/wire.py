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


class Wire:
    """Holds so many messages of each kind of each client; the name of a client is that of its process.

    What comes beyond that passes: the model does not have it.
    """

    def __init__(
        self, steering: Steering, kinds: Mapping[str, Kind], counts: Mapping[tuple[str, str], int]
    ) -> None:
        self.steering = steering
        self._kinds = kinds
        self._taken: Counter[tuple[str, str]] = Counter()
        self._held: dict[int, tuple[str, Seen]] = {}
        for (client, kind), times in counts.items():
            for nth in range(1, times + 1):
                steering.perform(
                    Rule(self._name(client, kind, nth), "hold", kinds[kind].match(client), nth)
                )

    def take(self, client: str, kind: str, seconds: float) -> Held | None:
        """Waits until the next message of a kind of a client is held; None if none comes."""
        nth = self._taken[client, kind] + 1
        name = self._name(client, kind, nth)
        try:
            seen = self.steering.wait_held(name, seconds)
        except WaitedTooLong:
            return None
        self._taken[client, kind] = nth
        number = len(self._held)
        self._held[number] = name, seen
        return Held(number, kind, name)

    def release(self, held: Held) -> tuple[Seen, int]:
        """Lets a message go on; returns it, and the mark since which what comes of it passes."""
        name, seen = self._held[held.number]
        mark = self.steering.mark()
        self.steering.release(name)
        return seen, mark

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

    def _name(self, client: str, kind: str, nth: int) -> str:
        return f"{kind} {nth} {'of' if self._kinds[kind].direction == 'to broker' else 'to'} {client}"

    def _is_steered(self, seen: Seen) -> bool:
        """Whether it is of a kind that is steered, or the answer to one."""
        return seen.header is not None and any(
            seen.header.request.key == kind.key and seen.direction in (kind.direction, "to client")
            for kind in self._kinds.values()
        )
