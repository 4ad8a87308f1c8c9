"""A fake nsqd on loopback, which answers as a test says."""

from __future__ import annotations

import json
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Self

Command = tuple[str, bytes]
"""The line of a command, and its body."""

BODIES = ("IDENTIFY", "PUB", "MPUB")
FEATURES = {"max_rdy_count": 2500, "msg_timeout": 60000}


@dataclass
class Client:
    """A connection that the fake nsqd accepted."""

    connection: socket.socket

    def frame(self, kind: int, data: bytes) -> None:
        self.connection.sendall(struct.pack(">II", len(data) + 4, kind) + data)

    def respond(self, data: bytes) -> None:
        self.frame(0, data)

    def refuse(self, text: str) -> None:
        self.frame(1, text.encode())

    def deliver(self, id_: bytes, body: bytes, attempts: int = 1) -> None:
        self.frame(2, struct.pack(">qH16s", 7, attempts, id_) + body)

    def cut(self) -> None:
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)


Answer = Callable[[Client, str, bytes], bool]
"""Answers a command unless it returns False; then it gets the usual answer."""


def usually(client: Client, line: str, body: bytes) -> None:
    """Answers as an nsqd does that has no trouble, and no message in flight."""
    word, *rest = line.split(" ")
    match word:
        case "IDENTIFY":
            client.respond(json.dumps(FEATURES).encode())
        case "SUB" | "PUB" | "MPUB":
            client.respond(b"OK")
        case "TOUCH":
            client.refuse(f"E_TOUCH_FAILED TOUCH {rest[0]} failed ID not in flight")


@dataclass
class FakeNsqd:
    """Accepts connections one after the other; `seen` are the commands of all."""

    answer: Answer = lambda client, line, body: False
    seen: list[Command] = field(default_factory=list)
    accepted: int = 0

    def __post_init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    @property
    def lines(self) -> list[str]:
        """The commands but IDENTIFY."""
        return [line for line, _ in self.seen if line != "IDENTIFY"]

    def close(self) -> None:
        with suppress(OSError):  # closed before
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(10)
        assert not self._thread.is_alive()

    def _serve(self) -> None:
        while True:
            try:
                connection = self._listener.accept()[0]
            except OSError:
                return
            self.accepted += 1
            with connection, suppress(ConnectionError, EOFError):
                self._talk(Client(connection))

    def _talk(self, client: Client) -> None:
        file = client.connection.makefile("rb")
        assert file.read(4) == b"  V2"
        while line := file.readline().decode().rstrip("\n"):
            body = b""
            if line.partition(" ")[0] in BODIES:
                body = file.read(int.from_bytes(file.read(4), "big"))
            self.seen.append((line, body))
            if not self.answer(client, line, body):
                usually(client, line, body)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@contextmanager
def fake_nsqd(answer: Answer | None = None) -> Iterator[FakeNsqd]:
    """Runs one."""
    with FakeNsqd(answer) if answer else FakeNsqd() as nsqd:
        yield nsqd
