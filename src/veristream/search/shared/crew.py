"""The driver's connections to the workers of a shared exploration."""

from __future__ import annotations

import secrets
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from veristream.search.shared import channel
from veristream.search.shared.channel import Message
from veristream.search.shared.checkpoint import Manifest
from veristream.search.shared.messages import Address, Start, Totals
from veristream.search.shared.worker import Meeting, MessageKind

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


class WorkerLostError(Exception):
    """A worker is gone in the middle of a run."""


@dataclass(slots=True)
class Crew:
    """The workers of one run, once all have come."""

    server: socket.socket
    secret: bytes
    part_count: int
    workers: dict[int, socket.socket] = field(default_factory=dict)

    @property
    def meeting(self) -> Meeting:
        """Where workers connect to."""
        host, port = self.server.getsockname()[:2]
        return Meeting(str(host), int(port), self.secret)

    def gather(
        self,
        seconds: float,
        hopeful: Callable[[], bool],
        folder: str,
        manifest: Manifest | None,
        handed_over: bool = False,
    ) -> None:
        """Waits for all workers, and tells them each other's addresses and where to begin.

        Raises TimeoutError after `seconds`, or once `hopeful` returns false; WorkerLostError.
        """
        addresses: dict[int, Address] = {}
        deadline = time.monotonic() + seconds
        self.server.settimeout(0.5)
        while len(self.workers) < self.part_count:
            try:
                sock = channel.accept(self.server, self.secret)
            except TimeoutError:
                if time.monotonic() > deadline or not hopeful():
                    raise
                continue
            try:
                hello = channel.receive(sock)
            except OSError:
                continue  # it was lost; Spark sends another
            self.workers[hello.number] = sock
            addresses[hello.number] = hello.read(Address)
        ordered = tuple(addresses[number] for number in range(self.part_count))
        saved = None if manifest is None else manifest.parts
        self.tell_all(MessageKind.START, 0, Start(ordered, folder, saved, handed_over))

    def tell(
        self, part: int, kind: MessageKind, number: int = 0, content: DataclassInstance | None = None
    ) -> None:
        """Sends a message to one worker; raises WorkerLostError."""
        try:
            channel.send(self.workers[part], kind, number, content)
        except OSError as error:
            raise WorkerLostError(f"part {part}: {error}") from error

    def tell_all(
        self, kind: MessageKind, number: int = 0, content: DataclassInstance | None = None
    ) -> None:
        """Sends the same message to all workers; raises WorkerLostError."""
        for part in range(self.part_count):
            self.tell(part, kind, number, content)

    def give_states(self, part: int, count: int, blob: bytes) -> None:
        """Sends states to the worker that owns them; raises WorkerLostError."""
        try:
            self.workers[part].sendall(channel.frame(MessageKind.STATES, count, blob))
        except OSError as error:
            raise WorkerLostError(f"part {part}: {error}") from error

    def end_states(self, part: int, frontier: int, totals: Totals) -> None:
        """Lets a worker continue with the states that it was given; raises WorkerLostError."""
        self.tell(part, MessageKind.TAKE_OVER, frontier, totals)

    def hear(self, part: int) -> Message:
        """Returns the next message of a worker; raises WorkerLostError."""
        try:
            return channel.receive(self.workers[part])
        except OSError as error:
            raise WorkerLostError(f"part {part}: {error}") from error

    def hear_all(self) -> list[Message]:
        """Returns the next message of each worker, by part; raises WorkerLostError."""
        return [self.hear(part) for part in range(self.part_count)]

    def close(self) -> None:
        """Lets the workers go."""
        for sock in self.workers.values():
            with suppress(OSError):
                channel.send(sock, MessageKind.STOP)
            sock.close()
        self.workers.clear()
        self.server.close()


def open_crew(host: str, part_count: int) -> Crew:
    """Returns a crew that no worker has come to yet."""
    return Crew(channel.listen(host), secrets.token_bytes(32), part_count)
