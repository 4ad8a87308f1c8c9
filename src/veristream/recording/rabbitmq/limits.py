"""How many messages RabbitMQ may have in flight to a channel, by its prefetch and that of its consumers."""

from __future__ import annotations

from typing import Final

UNLIMITED: Final = 2**31 - 1


class Limits:
    """The prefetch of one channel.

    RabbitMQ applies a prefetch to each consumer that comes after it, and one of the whole channel to all
    of them together; 0 is no limit. Consumers that acknowledge nothing have none. What a client gets one by
    one comes on top: the limit grows with it, so that it never counts as too much.
    """

    def __init__(self) -> None:
        self._each = 0
        self._whole = 0
        self._extra = 0
        self._consumers: dict[str, list[int]] = {}
        self._told: dict[tuple[int, int], int] = {}

    def set(self, prefetch: int, *, whole: bool) -> None:
        """Sets the prefetch of consumers that come, or that of the channel."""
        if whole:
            self._whole = prefetch
        else:
            self._each = prefetch

    def add(self, queue: str, *, limited: bool) -> None:
        """Adds a consumer of a queue."""
        self._consumers.setdefault(queue, []).append(self._each if limited else UNLIMITED)

    def add_one(self) -> None:
        """Adds a message that a client gets."""
        self._extra += 1

    def remove(self, queue: str) -> None:
        """Takes away a consumer: the one with the smallest limit, so that what is left is never too low."""
        left = self._consumers.get(queue, [])
        if left:
            left.remove(min(left, key=lambda each: each or UNLIMITED))

    def of(self, queue: str) -> int:
        """Returns the limit of the messages of a queue; `UNLIMITED` if it has none."""
        own = self._consumers.get(queue, [])
        if UNLIMITED in own:
            return UNLIMITED  # what is not acknowledged is under no prefetch
        each = UNLIMITED if not own or 0 in own else sum(own)
        limit = min(each, self._whole or UNLIMITED)
        return UNLIMITED if limit == UNLIMITED else limit + self._extra

    def changed(self, queue: str, place: tuple[int, int]) -> int | None:
        """Returns the limit if it differs from what was told of this place before (at first: none)."""
        limit = self.of(queue)
        if limit == self._told.get(place, UNLIMITED):
            return None
        self._told[place] = limit
        return limit
