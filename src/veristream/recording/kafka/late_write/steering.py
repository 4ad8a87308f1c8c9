"""What the proxy does to the late write: holds it, and remembers what was written and answered."""

from __future__ import annotations

import threading

from veristream.brokers.proxy.header import Header, read_answer, read_request
from veristream.brokers.proxy.kafka import Key, is_of
from veristream.brokers.proxy.pieces import DROP, PASS, Decision, Gate, Hold, Piece


class HoldWrite:
    """Holds the first Produce of a client until `release`, and drops others until `expect_next`.

    From `expect_next` to `release_next`, those of the client's next transaction are held as well.
    """

    def __init__(self, client: str) -> None:
        self._client = client
        self._gate, self._next_gate = Gate(), Gate()
        self._held: tuple[int, int] | None = None
        self._next_comes = threading.Event()
        self._has_next = threading.Event()
        self._has_answer = threading.Event()
        self.late: Header | None = None
        self.answer: Header | None = None
        self.later: list[Header] = []
        """What was written since `expect_next`."""

    def __call__(self, piece: Piece) -> Decision:
        request = piece.request
        if request is None:
            return PASS
        if is_of(piece, Key.ADD_PARTITIONS_TO_TXN, "to client", self._client):
            if self._next_comes.is_set():
                self._has_next.set()
            return PASS
        if is_of(piece, Key.PRODUCE, "to client", self._client):
            if (piece.connection, request.correlation) == self._held:
                answer = read_answer(Header(request), piece.data)
                self.answer = answer if answer.errors else None
                self._has_answer.set()
            return PASS
        if is_of(piece, Key.PRODUCE, "to broker", self._client):
            return self._write(piece, read_request(request, piece.data))
        return PASS

    def _write(self, piece: Piece, written: Header) -> Decision:
        if self._held is None:
            self._held = piece.connection, written.request.correlation
            self.late = written
            return Hold(self._gate)
        if not self._next_comes.is_set():
            return DROP
        self.later.append(written)
        self._has_next.set()
        return Hold(self._next_gate)

    def wait_held(self, seconds: float) -> bool:
        """Waits until the write is held; returns whether it is."""
        return self._gate.wait_reached(seconds)

    def release(self) -> None:
        """Lets the late write pass."""
        self._gate.open()

    def wait_answered(self, seconds: float) -> Header | None:
        """Waits for the broker's answer to the late write, and returns it, if it came and can be read."""
        self._has_answer.wait(seconds)
        return self.answer

    def expect_next(self) -> None:
        """Takes what the client writes from now on for writes of its next transaction."""
        self._next_comes.set()

    def wait_next(self, seconds: float) -> bool:
        """Waits until the next transaction has the partition, or its first write is held."""
        return self._has_next.wait(seconds)

    def release_next(self) -> None:
        """Lets the writes of the next transaction pass."""
        self._next_gate.open()
