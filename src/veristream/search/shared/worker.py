"""A worker of a shared exploration: it owns one part, talks to the other parts and follows the driver.

The driver sets the pace level by level. Within a level records flow between parts as they are found; a part
is done with the level once it has expanded its own states and all others have told that they have.
"""

from __future__ import annotations

import queue
import select
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import IntEnum

from veristream.kernel.layout import Row
from veristream.search.memory import DiskFullError, OutOfMemoryError
from veristream.search.reach import partition
from veristream.search.shared import channel
from veristream.search.shared.assignment import Order
from veristream.search.shared.channel import Message
from veristream.search.shared.contract import Giving, SharedPart, Value


class Say(IntEnum):
    """Kinds of messages: between worker and driver, then between workers."""

    HELLO = 0
    PEERS = 1
    GO = 2
    DONE = 3
    ASK = 4
    TELL = 5
    TOLD = 6
    SAVE = 7
    SAVED = 8
    STOP = 9
    FAILED = 10
    RECORDS = 11
    LEVEL_ENDS = 12
    ANSWER = 13
    TAKE = 14
    TAKEN = 15
    SHARE = 16


INBOX_BYTES_MAX = 64 << 20


@dataclass(frozen=True, slots=True)
class Meeting:
    """Where the driver is, and the secret that proves who belongs to the run."""

    host: str
    port: int
    secret: bytes


class Exchange:
    """The connections to all other parts: what they send waits in one inbox."""

    def __init__(self, number: int, count: int, secret: bytes, host: str) -> None:
        self.number, self.count, self.secret = number, count, secret
        self.server = channel.listen(host)
        self.peers: dict[int, socket.socket] = {}
        self.inbox: queue.SimpleQueue[tuple[int, Message]] = queue.SimpleQueue()
        self.waiting = 0
        self.changed = threading.Condition()
        self.broken: str = ""

    @property
    def port(self) -> int:
        """Where others connect to."""
        return int(self.server.getsockname()[1])

    def meet(self, addresses: list[tuple[str, int]]) -> None:
        """Connects to the parts before this one, and waits for those after it."""
        for other in range(self.number):
            host, port = addresses[other]
            sock = channel.connect((host, port), self.secret)
            channel.send(sock, Say.HELLO, self.number)
            self.peers[other] = sock
        while len(self.peers) < self.count - 1:
            sock = channel.accept(self.server, self.secret)
            self.peers[channel.receive(sock).number] = sock
        for other, sock in self.peers.items():
            threading.Thread(target=self._listen, args=(other, sock), daemon=True).start()

    def _listen(self, other: int, sock: socket.socket) -> None:
        try:
            while True:
                message = channel.receive(sock)
                with self.changed:
                    self.changed.wait_for(lambda: self.waiting < INBOX_BYTES_MAX)
                    self.waiting += len(message.payload)
                self.inbox.put((other, message))
        except OSError as error:
            self.broken = f"part {other} is gone: {error}"
            self.inbox.put((other, Message(Say.FAILED, 0, b"")))

    def next(self, block: bool) -> tuple[int, Message] | None:
        """The next message of another part; None where there is none yet and `block` is not set."""
        try:
            other, message = self.inbox.get(block=block)
        except queue.Empty:
            return None
        if message.kind == Say.FAILED:
            raise ConnectionError(self.broken)
        with self.changed:
            self.waiting -= len(message.payload)
            self.changed.notify_all()
        return other, message

    def close(self) -> None:
        """Ends all connections."""
        self.server.close()
        for sock in self.peers.values():
            sock.close()


class Worker:
    """One part of an exploration at work."""

    def __init__(self, part: SharedPart, exchange: Exchange, driver: socket.socket) -> None:
        self.part, self.exchange, self.driver = part, exchange, driver
        self.ended: set[int] = set()
        self.sent_bytes = 0
        self.failure: OutOfMemoryError | DiskFullError | None = None

    def begin(self, initial: Row, folder: str, saved: Value | None, handed: bool) -> None:
        """Begins with the initial state, with a checkpoint, or with what the driver hands over."""
        if handed:
            self._take_over()
        elif saved is None:
            self.part.seed(initial)
            self.part.end_level()
        else:
            with self._noting_failure():
                self.part.load(folder, saved)

    @contextmanager
    def _noting_failure(self) -> Iterator[None]:
        """Where there is no more room, the driver is told at the end of the level."""
        try:
            yield
        except (OutOfMemoryError, DiskFullError) as error:
            self.failure = error

    def _take_over(self) -> None:
        """Takes the states that the driver has found, piece by piece."""
        while (message := channel.receive(self.driver)).kind == Say.TAKE:
            if self.failure is None:
                with self._noting_failure():
                    self.part.accept(message.number, message.payload)
        self.part.go_on(message.number, message.json())

    def follow(self) -> None:
        """Does what the driver says, until it says stop."""
        while True:
            message = channel.receive(self.driver)
            match message.kind:
                case Say.GO:
                    self._level(message.number)
                case Say.ASK:
                    self._answer(message.json())
                case Say.TELL:
                    channel.send(self.driver, Say.TOLD, 0, self.part.tell(message.number))
                case Say.TAKE:
                    self.part.accept(message.number, message.payload)
                case Say.SHARE:
                    self._share()
                case Say.SAVE:
                    self._save(message.number, message.json())
                case Say.STOP:
                    return
                case _:
                    raise AssertionError(f"the driver says {message.kind}")

    def _level(self, level: int) -> None:
        """Expands one level and waits for the others to be done with it. A part that has no more room lets
        the others end the level, so that all can still be asked for what they found."""
        self._expand()
        for other in self.exchange.peers:
            self._send(other, channel.frame(Say.LEVEL_ENDS, level))
        while len(self.ended) < self.exchange.count - 1:
            self._take(block=True)
        self.ended.clear()
        if self.failure is not None:
            channel.send(self.driver, Say.FAILED, level, {"disk": _disk(self.failure)})
            return
        size = self.part.end_level()
        told = {"size": size, "sent_bytes": self.sent_bytes, **self.part.report()}
        channel.send(self.driver, Say.DONE, level, told)

    def _expand(self) -> None:
        while self.failure is None:
            reason = partition.LEVEL
            with self._noting_failure():
                reason = self.part.work()
            if reason != partition.QUANTUM:
                self._flush()
            while self._take(block=False):
                pass
            if reason == partition.LEVEL:
                return

    def _flush(self) -> None:
        for other in self.exchange.peers:
            records = self.part.outbox(other)
            if records:
                self._send(other, channel.frame(Say.RECORDS, 0, records))

    def _send(self, other: int, data: bytes) -> None:
        """Sends without ever standing still: while the other cannot take more, what came in is taken in."""
        sock = self.exchange.peers[other]
        self.sent_bytes += len(data)
        view = memoryview(data)
        while view:
            try:
                view = view[sock.send(view, socket.MSG_DONTWAIT) :]
            except BlockingIOError:
                if not self._take(block=False):
                    select.select([], [sock], [], 0.05)

    def _take(self, block: bool) -> bool:
        """Takes in the next message of another part; False where there is none."""
        found = self.exchange.next(block)
        if found is None:
            return False
        other, message = found
        if message.kind == Say.LEVEL_ENDS:
            self.ended.add(other)
        elif self.failure is None:
            with self._noting_failure():
                self.part.take_in(other, message.payload)
        return True

    def _answer(self, question: Value) -> None:
        try:
            answer = self.part.hear(question)
        except (OutOfMemoryError, DiskFullError) as error:
            channel.send(self.driver, Say.FAILED, 0, {"disk": _disk(error)})
            return
        channel.send(self.driver, Say.ANSWER, 0, answer)

    def _share(self) -> None:
        """Gives the driver what is left of the part, array by array."""
        assert isinstance(self.part, Giving)
        for piece in self.part.share():
            self.driver.sendall(channel.frame(Say.SHARE, 0, piece))

    def _save(self, level: int, folder: str) -> None:
        try:
            saved = self.part.save(folder, level)
        except OSError as error:
            channel.send(self.driver, Say.FAILED, level, {"disk": str(error)})
            return
        channel.send(self.driver, Say.SAVED, level, saved)


def _disk(failure: OutOfMemoryError | DiskFullError) -> str:
    """What the disk said, where it is what is full."""
    return str(failure) if isinstance(failure, DiskFullError) else ""


def serve(meeting: Meeting, order: Order, number: int) -> None:
    """Comes to the meeting as the owner of the numbered part, and works until the driver says stop."""
    driver = channel.connect((meeting.host, meeting.port), meeting.secret)
    host = driver.getsockname()[0]
    exchange = Exchange(number, order.part_count, meeting.secret, host)
    try:
        opened = order.open_part(order, number)
        channel.send(driver, Say.HELLO, number, {"host": host, "port": exchange.port})
        beginning = channel.receive(driver).json()
        worker = Worker(opened.part, exchange, driver)
        worker.begin(opened.initial, beginning["folder"], beginning["saved"][number], beginning["handed"])
        exchange.meet([(host, port) for host, port in beginning["addresses"]])
        worker.follow()
    finally:
        exchange.close()
        driver.close()
