"""What a validator tells others once its records are durable, in the order in which it was decided.

A vote whose record is lost in a crash would be signed again, perhaps for another block: so nothing that
depends on a record leaves before the record is durable. Offers and requests depend on none. Simulations
use the same outbox as running validators.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from veristream.kabis.ordering.peers import Ask, Offer, PeerMessage

Effect = Callable[[], None]


@dataclass(slots=True)
class Outbox:
    """Effects that wait for records, each with the position up to which records must be durable."""

    _waiting: deque[tuple[int, Effect]] = field(default_factory=deque)

    def __len__(self) -> int:
        return len(self._waiting)

    def hold(self, effect: Effect, *, end: int, durable: int) -> bool:
        """Runs the effect at once if nothing is to wait for; otherwise keeps it and returns True."""
        if not self._waiting and durable >= end:
            effect()
            return False
        self._waiting.append((end, effect))
        return True

    def release(self, durable: int) -> None:
        """Runs the effects whose records are durable, oldest first."""
        while self._waiting and self._waiting[0][0] <= durable:
            self._waiting.popleft()[1]()


def waits_for_records(message: PeerMessage) -> bool:
    """Whether the message says something that the sender must remember after a crash."""
    return not isinstance(message, Offer | Ask)
