"""Decisions about requests of Kafka's protocol, which has a number for each kind of request."""

from __future__ import annotations

import threading
from enum import IntEnum

from veristream.brokers.proxy.pieces import CUT, PASS, Decision, Direction, Gate, Hold, Piece


class Key(IntEnum):
    """The requests that experiments steer."""

    PRODUCE = 0
    FETCH = 1
    METADATA = 3
    OFFSET_COMMIT = 8
    INIT_PRODUCER_ID = 22
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    WRITE_TXN_MARKERS = 27
    TXN_OFFSET_COMMIT = 28


class CutOn:
    """Cuts connections at requests of a kind, by default at their answers, while any of `times` are left.

    The broker then has done what was asked, and the client does not learn it. `client`, if given, is the
    `client.id` whose requests count. Any thread may add to `times`.
    """

    def __init__(
        self, key: Key, times: int = 1, direction: Direction = "to client", client: str | None = None
    ) -> None:
        self._key = key
        self._left = times
        self._direction = direction
        self._client = client
        self._done = 0
        self._lock = threading.Lock()

    @property
    def done(self) -> int:
        """How many connections it has cut."""
        return self._done

    def arm(self, times: int = 1) -> None:
        """Cuts so many times more."""
        with self._lock:
            self._left += times

    def __call__(self, piece: Piece) -> Decision:
        if not is_of(piece, self._key, self._direction, self._client):
            return PASS
        with self._lock:
            if self._left == 0:
                return PASS
            self._left -= 1
            self._done += 1
        return CUT


class HoldOn:
    """Holds the next request of a kind back at its gate, and all that its connection sends after it."""

    def __init__(self, key: Key, direction: Direction = "to broker", client: str | None = None) -> None:
        self._key = key
        self._direction = direction
        self._client = client
        self.gate = Gate()
        self._done = False

    def __call__(self, piece: Piece) -> Decision:
        if self._done or not is_of(piece, self._key, self._direction, self._client):
            return PASS
        self._done = True
        return Hold(self.gate)


def is_of(piece: Piece, key: Key, direction: Direction, client: str | None = None) -> bool:
    """Whether a piece is a request of a kind, or the answer to one."""
    request = piece.request
    return (
        request is not None
        and piece.direction == direction
        and request.key == key
        and client in (None, request.client)
    )
