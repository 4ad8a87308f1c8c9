"""What the proxy does to the late write: holds it, and remembers what was written and answered."""

from __future__ import annotations

import threading

from veristream.brokers.proxy.kafka import Key, is_of
from veristream.brokers.proxy.pieces import DROP, PASS, Decision, Gate, Hold, Piece
from veristream.brokers.proxy.produce import Answered, Written, read_answered, read_written


class HoldWrite:
    """Holds the first Produce of a client and drops others until `release`; remembers them."""

    def __init__(self, client: str) -> None:
        self._client = client
        self._gate = Gate()
        self._held: tuple[int, int] | None = None
        self._released = threading.Event()
        self._has_answer = threading.Event()
        self.late: Written | None = None
        self.answer: Answered | None = None
        self.later: list[Written] = []
        """What was written after the release."""

    def __call__(self, piece: Piece) -> Decision:
        request = piece.request
        if request is None:
            return PASS
        if is_of(piece, Key.PRODUCE, "to client", self._client):
            if (piece.connection, request.correlation) == self._held:
                self.answer = read_answered(piece)
                self._has_answer.set()
        elif is_of(piece, Key.PRODUCE, "to broker", self._client):
            if self._held is None:
                self._held = piece.connection, request.correlation
                self.late = read_written(piece)
                return Hold(self._gate)
            if not self._released.is_set():
                return DROP
            written = read_written(piece)
            if written is not None:
                self.later.append(written)
        return PASS

    def wait_held(self, seconds: float) -> bool:
        """Waits until the write is held; returns whether it is."""
        return self._gate.wait_reached(seconds)

    def release(self) -> None:
        """Lets the write pass, and all that comes."""
        self._released.set()
        self._gate.open()

    def wait_answered(self, seconds: float) -> Answered | None:
        """Waits for the broker's answer to the write, and returns it, if it came and can be read."""
        self._has_answer.wait(seconds)
        return self.answer
