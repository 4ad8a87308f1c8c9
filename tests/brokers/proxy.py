"""A proxy on loopback between Kafka clients and a broker, which can withhold or change an answer.

It takes apart no more than the heads of requests and answers: their length, what is asked for, in which
version, and the number that an answer has of its request.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from struct import Struct
from types import TracebackType
from typing import Self

_LENGTH = Struct(">i")
_REQUEST = Struct(">hhi")  # API key, version, correlation id
_NUMBER = Struct(">i")
_RESULT = Struct(">hq")  # error code, offset of the first message

PRODUCE = 0
COMPACT_FROM = 9
"""From this version on, counts in produce requests and responses are varints."""
DUPLICATE_SEQUENCE = 46

Answer = Callable[[int, bytes], bytes | None]
"""Maps a produce response of a version to what the client receives; None withholds it."""


def pass_on(_: int, answer: bytes) -> bytes:
    """Returns the answer unchanged."""
    return answer


def keep_back(_: int, answer: bytes) -> None:
    """Withholds the answer."""


def call_duplicate(topic: str) -> Answer:
    """Replies that the broker already has the messages, without their offset, as the protocol allows."""

    def change(version: int, answer: bytes) -> bytes:
        name = topic.encode()
        at = answer.index(name) + len(name) + (1 if version >= COMPACT_FROM else 4) + 4
        assert _RESULT.unpack_from(answer, at)[0] == 0
        return answer[:at] + _RESULT.pack(DUPLICATE_SEQUENCE, -1) + answer[at + _RESULT.size :]

    return change


class Proxy:
    """Forwards everything to the port `target`; `produced` decides about produce responses."""

    def __init__(self) -> None:
        self.produced: Answer = pass_on
        self.target = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self._thread = threading.Thread(target=self._accept, daemon=True)

    @property
    def port(self) -> int:
        """The address for clients."""
        port: int = self._listener.getsockname()[1]
        return port

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()
        self.cut()

    def cut(self) -> None:
        """Closes all connections."""
        while self._open:
            _shut(self._open.pop())

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                try:
                    broker = socket.create_connection(("127.0.0.1", self.target))
                except OSError:
                    client.close()
                    continue
                self._open += [client, broker]
                asked: dict[int, tuple[int, int]] = {}
                for work in (self._pass_requests, self._pass_answers):
                    threading.Thread(target=work, args=(client, broker, asked), daemon=True).start()

    def _pass_requests(
        self, client: socket.socket, broker: socket.socket, asked: dict[int, tuple[int, int]]
    ) -> None:
        with suppress(OSError):
            while (frame := _receive(client)) is not None:
                kind, version, number = _REQUEST.unpack_from(frame)
                asked[number] = (kind, version)
                _send(broker, frame)
        _shut(client, broker)

    def _pass_answers(
        self, client: socket.socket, broker: socket.socket, asked: dict[int, tuple[int, int]]
    ) -> None:
        with suppress(OSError):
            while (frame := _receive(broker)) is not None:
                kind, version = asked.pop(_NUMBER.unpack_from(frame)[0])
                answer = self.produced(version, frame) if kind == PRODUCE else frame
                if answer is not None:
                    _send(client, answer)
        _shut(client, broker)


def _shut(*sockets: socket.socket) -> None:
    for each in sockets:
        with suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)
        each.close()


def _send(target: socket.socket, frame: bytes) -> None:
    target.sendall(_LENGTH.pack(len(frame)) + frame)


def _receive(source: socket.socket) -> bytes | None:
    """Reads the next request or answer; None at the end of the connection."""
    head = _read(source, _LENGTH.size)
    return None if head is None else _read(source, _LENGTH.unpack(head)[0])


def _read(source: socket.socket, size: int) -> bytes | None:
    data = bytearray()
    while len(data) < size:
        part = source.recv(size - len(data))
        if not part:
            return None
        data += part
    return bytes(data)
