"""What a channel holds: deliveries that were not answered, and answers that may not have arrived yet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from veristream.history.events import Operation
from veristream.history.identity import HEADER, UNKNOWN, decode
from veristream.recording.journal import Call, Fields, Journal

COUNT = "x-delivery-count"
"""How often a quorum queue delivered a message before."""
DEAD = "x-death"
"""Where a message was dead-lettered: it comes from another queue."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """A message that was received: the queue that it came from, and how it is called in a history."""

    queue: str
    fields: Fields


class Deliveries:
    """The delivery tags of one channel, and its acknowledgements that nobody has confirmed.

    AMQP does not answer an acknowledgement. It has certainly arrived once a later method of the channel
    that asks the same queue is answered (`settle`), since a channel and a queue work in order.
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._held: dict[int, Delivery] = {}
        self._unsettled: dict[str, list[Call]] = {}

    @property
    def held(self) -> int:
        """How many deliveries were not answered."""
        return len(self._held)

    def add(self, tag: int, delivery: Delivery) -> None:
        """Notes that a delivery waits for its answer."""
        self._held[tag] = delivery

    def answer(self, operation: Operation, tag: int, *, multiple: bool) -> list[tuple[str, Call]]:
        """Begins the answer to a delivery, or to all up to it; tag 0 then means all.

        Returns a call for each, and its queue. An unknown tag has none: RabbitMQ closes the channel then,
        unless it is of a message that was not recorded.
        """
        if multiple:
            tags = [each for each in self._held if each <= tag or tag == 0]
        else:
            tags = [tag] if tag in self._held else []
        answered = [self._held.pop(each) for each in tags]
        return [(each.queue, self._journal.invoke(operation, **each.fields)) for each in answered]

    def sent(self, calls: list[tuple[str, Call]]) -> None:
        """Notes answers that were written to the connection, and may not have arrived."""
        for queue, call in calls:
            self._unsettled.setdefault(queue, []).append(call)

    def unsettled(self) -> list[str]:
        """Returns the queues for which answers were sent and may not have arrived."""
        return list(self._unsettled)

    def settle(self, queue: str) -> None:
        """Notes that the answers that were sent to a queue have arrived."""
        for call in self._unsettled.pop(queue, ()):
            self._journal.ok(call)

    def lose(self, error: str) -> None:
        """Notes that the channel ended: nobody will know which of the answers have arrived."""
        for calls in self._unsettled.values():
            for call in calls:
                self._journal.indefinite(call, error)
        self._unsettled.clear()
        self._held.clear()


def identify(headers: Mapping[str, Any] | None) -> tuple[int, int]:
    """Returns the producer and the number of a message; `UNKNOWN` if its headers do not say."""
    found = (headers or {}).get(HEADER)
    if isinstance(found, str):  # pika decodes what was sent as a string
        found = found.encode("utf-8", errors="replace")
    return decode(found) if isinstance(found, bytes) else UNKNOWN


def attempt_of(headers: Mapping[str, Any] | None, *, redelivered: bool) -> int:
    """Returns the how many-th delivery this is, as far as RabbitMQ tells: 2 may be any later one."""
    count = (headers or {}).get(COUNT)
    if isinstance(count, int) and count > 0:
        return count + 1
    return 2 if redelivered else 1


def place_of(exchange: str, key: str) -> str:
    """Returns the name of the stream of messages that are published so.

    The default exchange puts a message into the queue that its key names, and the queue is the stream.
    """
    return f"{exchange}/{key}" if exchange else key
