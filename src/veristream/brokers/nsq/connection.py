"""A connection to nsqd: a small synchronous client, which shows each answer and hides nothing.

No client for Python shows which commands nsqd has executed, and none on PyPI has had a release for years
(ansq 2023, pynsq 2021, gnsq 2020); see `docs/recording-nsq.md`.
"""

from __future__ import annotations

import select
import socket
import time
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Final

from veristream.brokers.nsq import protocol
from veristream.brokers.nsq.protocol import Frame, FrameBuffer, Message, Refusal, Response

CONNECT_S: Final = 5.0
ANSWER_S: Final = 10.0
CHUNK: Final = 1 << 16
SLICE_S: Final = 0.1
"""How long to wait at a time, so that `since_ns` is not much older than what arrives next."""

NO_HEARTBEAT: Final[Mapping[str, object]] = {"heartbeat_interval": -1}
"""For a connection that only publishes: nsqd never cuts it for being silent."""


class Refused(Exception):  # noqa: N818  # nsqd's answer, which most callers expect
    """nsqd answered a command with an error; it closes the connection after most of them."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(f"{refusal.code} {refusal.text}".strip())
        self.code = refusal.code
        self.text = refusal.text


class Connection:
    """A connection to one nsqd, for one thread at a time.

    `features` are what nsqd said of itself. What `receive` returns arrived after `since_ns`, a time of the
    monotonic clock at which nothing had been waiting here.

    Whatever is raised as an OSError (TimeoutError is one) ends the connection: nobody knows which of the
    commands without an answer were executed.
    """

    def __init__(self, address: str, options: Mapping[str, object] | None = None) -> None:
        host, _, port = address.rpartition(":")
        self.address = address
        self._socket = socket.create_connection((host, int(port)), CONNECT_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.settimeout(ANSWER_S)  # sending blocks while nsqd is suspended
        self._arrival = select.poll()
        self._arrival.register(self._socket, select.POLLIN)
        self._frames = FrameBuffer()
        self._waiting: deque[Frame] = deque()
        self.features: Mapping[str, object] = {}
        self.since_ns = self._empty_ns = time.monotonic_ns()
        try:
            self.send(protocol.MAGIC)
            answer = self.call(protocol.identify({"feature_negotiation": True, **(options or {})}))
            self.features = protocol.read_features(answer)
        except BaseException:
            self.close()
            raise

    def publish(self, topic: str, body: bytes) -> None:
        """Publishes a message; raises Refused, or an OSError if nobody knows whether it was published."""
        self.call(protocol.publish(topic, body))

    def publish_many(self, topic: str, bodies: Sequence[bytes]) -> None:
        """Publishes messages in one command; raises Refused, or an OSError as `publish` does."""
        self.call(protocol.publish_many(topic, bodies))

    def subscribe(self, topic: str, channel: str) -> None:
        """Makes this connection a consumer of a channel; messages come after the first `ready`."""
        self.call(protocol.subscribe(topic, channel))

    def send(self, command: bytes) -> None:
        """Sends a command and does not wait; raises OSError."""
        self._socket.sendall(command)

    def call(self, command: bytes, patience_s: float = ANSWER_S) -> bytes:
        """Sends a command and returns its answer; raises Refused, or OSError.

        Messages that come before are kept for `receive`. No command without an answer may be under way.
        """
        self.send(command)
        deadline_s = time.monotonic() + patience_s
        while True:
            frame = self._read(deadline_s - time.monotonic())
            match frame:
                case None:
                    raise TimeoutError(f"{self.address} did not answer within {patience_s:g} s")
                case Refusal():
                    raise Refused(frame)
                case Response():
                    return frame.body
                case Message():
                    self._waiting.append(frame)

    def receive(self, timeout_s: float) -> Frame | None:
        """Returns the next message, refusal or answer; None after the timeout. Raises OSError."""
        return self._waiting.popleft() if self._waiting else self._read(timeout_s)

    def close(self) -> None:
        """Closes the connection; nsqd delivers what is in flight on it again once that has timed out."""
        self._socket.close()

    def _read(self, timeout_s: float) -> Frame | None:
        """Returns the next frame that is no heartbeat; heartbeats are answered here."""
        deadline_s = time.monotonic() + timeout_s
        while True:
            frame = self._frames.next()
            if frame == _HEARTBEAT:
                self.send(protocol.NOTHING)
            elif frame is not None:
                return frame
            else:
                left_s = deadline_s - time.monotonic()
                if not self._fill(min(max(left_s, 0), SLICE_S)) and left_s <= SLICE_S:
                    return None

    def _fill(self, timeout_s: float) -> bool:
        """Waits for bytes; says whether any came. Raises OSError."""
        asked_ns = time.monotonic_ns()
        if not self._arrival.poll(timeout_s * 1000):
            self._empty_ns = asked_ns
            return False
        if self._frames.is_empty:
            self.since_ns = self._empty_ns
        asked_ns = time.monotonic_ns()
        data = self._socket.recv(CHUNK)
        if not data:
            raise ConnectionResetError(f"{self.address} closed the connection")
        if len(data) < CHUNK:
            self._empty_ns = asked_ns
        self._frames.feed(data)
        return True


_HEARTBEAT: Final = Response(protocol.HEARTBEAT)
