"""A worker of a shared exploration: owns one part, exchanges records with the others and obeys the driver.

The driver starts each level. Within a level, parts send each other records as they find them. A part is
done with the level once it has expanded its own states and all other parts have said that they have, too.
"""

from __future__ import annotations

import errno
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
from veristream.search.shared.assignment import Assignment
from veristream.search.shared.channel import Message
from veristream.search.shared.contract import RemainderGiver, SharedPart, StateReceiver
from veristream.search.shared.messages import (
    Address,
    Ask,
    Failure,
    LevelDone,
    Question,
    SavedPart,
    SaveTo,
    Start,
    Totals,
)


class MessageKind(IntEnum):
    """Kinds of messages between driver and worker, and between workers (RECORDS, LEVEL_ENDS)."""

    HELLO = 0
    START = 1
    GO = 2
    DONE = 3
    ASK = 4
    DESCRIBE = 5
    DESCRIBED = 6
    SAVE = 7
    SAVED = 8
    STOP = 9
    FAILED = 10
    RECORDS = 11
    LEVEL_ENDS = 12
    ANSWER = 13
    STATES = 14
    TAKE_OVER = 15
    SHARE = 16


INBOX_BYTES_MAX = 64 << 20

UNREACHABLE = "[peer unreachable]"
"""Marks the message of PeerUnreachableError; the driver looks for it in the text that Spark returns."""

_UNREACHABLE_ERRNOS = (errno.ENETUNREACH, errno.ETIMEDOUT, errno.EHOSTUNREACH)


class PeerUnreachableError(ConnectionError):
    """The network does not let a worker connect to another one."""

    def __init__(self, cause: OSError) -> None:
        super().__init__(f"{UNREACHABLE} {type(cause).__name__}: {cause}")


def _is_unreachable(error: OSError) -> bool:
    kinds = (ConnectionRefusedError, socket.gaierror, TimeoutError)
    return isinstance(error, kinds) or error.errno in _UNREACHABLE_ERRNOS


@dataclass(frozen=True, slots=True)
class Meeting:
    """The driver's address, and the secret that authenticates the processes of the run."""

    host: str
    port: int
    secret: bytes


class Peers:
    """The connections to all other parts; their messages go into one inbox."""

    def __init__(self, number: int, count: int, secret: bytes, host: str) -> None:
        self.number, self.count, self.secret = number, count, secret
        self.server = channel.listen(host)
        self.sockets: dict[int, socket.socket] = {}
        self.inbox: queue.SimpleQueue[tuple[int, Message]] = queue.SimpleQueue()
        self.waiting = 0
        self.changed = threading.Condition()
        self.broken: str = ""

    @property
    def port(self) -> int:
        """The port that accepts connections of other parts."""
        return int(self.server.getsockname()[1])

    def connect(self, addresses: tuple[Address, ...]) -> None:
        """Connects to the parts before this one, and waits for those after it.

        Raises PeerUnreachableError and OSError.
        """
        for other in range(self.number):
            sock = self._connect_to(addresses[other])
            channel.send(sock, MessageKind.HELLO, self.number)
            self.sockets[other] = sock
        while len(self.sockets) < self.count - 1:
            sock = channel.accept(self.server, self.secret)
            self.sockets[channel.receive(sock).number] = sock
        for other, sock in self.sockets.items():
            threading.Thread(target=self._listen, args=(other, sock), daemon=True).start()

    def _connect_to(self, address: Address) -> socket.socket:
        try:
            return channel.connect((address.host, address.port), self.secret)
        except OSError as error:
            if _is_unreachable(error):
                raise PeerUnreachableError(error) from error
            raise

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
            self.inbox.put((other, Message(MessageKind.FAILED, 0, b"")))

    def next(self, block: bool) -> tuple[int, Message] | None:
        """Returns the next message of another part; None if none has come and `block` is not set."""
        try:
            other, message = self.inbox.get(block=block)
        except queue.Empty:
            return None
        if message.kind == MessageKind.FAILED:
            raise ConnectionError(self.broken)
        with self.changed:
            self.waiting -= len(message.payload)
            self.changed.notify_all()
        return other, message

    def close(self) -> None:
        """Closes all connections."""
        self.server.close()
        for sock in self.sockets.values():
            sock.close()


class Worker:
    """Explores one part as the driver says."""

    def __init__(self, part: SharedPart, peers: Peers, driver: socket.socket) -> None:
        self.part, self.peers, self.driver = part, peers, driver
        self.ended: set[int] = set()
        self.sent_bytes = 0
        self.failure: OutOfMemoryError | DiskFullError | None = None

    def begin(self, initial: Row, folder: str, saved: SavedPart | None, handed_over: bool) -> None:
        """Begins with the initial state, with a checkpoint, or with what the driver hands over."""
        if handed_over:
            self._take_over()
        elif saved is None:
            self.part.seed(initial)
            self.part.end_level()
        else:
            with self._noting_failure():
                self.part.load(folder, saved)

    @contextmanager
    def _noting_failure(self) -> Iterator[None]:
        """Notes that there is no more room; the driver learns of it at the end of the level."""
        try:
            yield
        except (OutOfMemoryError, DiskFullError) as error:
            self.failure = error

    def _take_over(self) -> None:
        """Takes the states that the driver has found, piece by piece."""
        part = self.part
        assert isinstance(part, StateReceiver)
        while (message := channel.receive(self.driver)).kind == MessageKind.STATES:
            if self.failure is None:
                with self._noting_failure():
                    part.accept(message.number, message.payload)
        part.take_over(message.number, message.read(Totals))

    def follow(self) -> None:
        """Does what the driver says, until it sends STOP."""
        while True:
            message = channel.receive(self.driver)
            match message.kind:
                case MessageKind.GO:
                    self._level(message.number)
                case MessageKind.ASK:
                    self._answer(message.read(Ask).question)
                case MessageKind.DESCRIBE:
                    found = self.part.describe(message.number)
                    channel.send(self.driver, MessageKind.DESCRIBED, 0, found)
                case MessageKind.STATES:
                    assert isinstance(self.part, StateReceiver)
                    self.part.accept(message.number, message.payload)
                case MessageKind.SHARE:
                    self._share()
                case MessageKind.SAVE:
                    self._save(message.number, message.read(SaveTo).folder)
                case MessageKind.STOP:
                    return
                case _:
                    raise AssertionError(f"unexpected message of the driver: {message.kind}")

    def _level(self, level: int) -> None:
        """Expands one level and waits for the others to finish it. A part without room lets the others end
        the level, so that the driver can still ask all parts for what they found."""
        self._expand()
        for other in self.peers.sockets:
            self._send(other, channel.frame(MessageKind.LEVEL_ENDS, level))
        while len(self.ended) < self.peers.count - 1:
            self._take(block=True)
        self.ended.clear()
        if self.failure is not None:
            channel.send(self.driver, MessageKind.FAILED, level, Failure(_disk(self.failure)))
            return
        size = self.part.end_level()
        done = LevelDone(size, self.sent_bytes, self.part.report())
        channel.send(self.driver, MessageKind.DONE, level, done)

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
        for other in self.peers.sockets:
            records = self.part.outbox(other)
            if records:
                self._send(other, channel.frame(MessageKind.RECORDS, 0, records))

    def _send(self, other: int, data: bytes) -> None:
        """Sends without a deadlock: takes in what has come while the other part accepts no more."""
        sock = self.peers.sockets[other]
        self.sent_bytes += len(data)
        view = memoryview(data)
        while view:
            try:
                view = view[sock.send(view, socket.MSG_DONTWAIT) :]
            except BlockingIOError:
                if not self._take(block=False):
                    select.select([], [sock], [], 0.05)

    def _take(self, block: bool) -> bool:
        """Takes in the next message of another part; returns False if there is none."""
        found = self.peers.next(block)
        if found is None:
            return False
        other, message = found
        if message.kind == MessageKind.LEVEL_ENDS:
            self.ended.add(other)
        elif self.failure is None:
            with self._noting_failure():
                self.part.take_in(other, message.payload)
        return True

    def _answer(self, question: Question) -> None:
        try:
            answer = self.part.answer(question)
        except (OutOfMemoryError, DiskFullError) as error:
            channel.send(self.driver, MessageKind.FAILED, 0, Failure(_disk(error)))
            return
        channel.send(self.driver, MessageKind.ANSWER, 0, answer)

    def _share(self) -> None:
        """Sends the driver what is left of the part, array by array."""
        assert isinstance(self.part, RemainderGiver)
        for piece in self.part.share():
            self.driver.sendall(channel.frame(MessageKind.SHARE, 0, piece))

    def _save(self, level: int, folder: str) -> None:
        try:
            saved = self.part.save(folder, level)
        except OSError as error:
            channel.send(self.driver, MessageKind.FAILED, level, Failure(str(error)))
            return
        channel.send(self.driver, MessageKind.SAVED, level, saved)


def _disk(failure: OutOfMemoryError | DiskFullError) -> str:
    """The operating system's message if the disk is full, else empty."""
    return str(failure) if isinstance(failure, DiskFullError) else ""


def serve(meeting: Meeting, assignment: Assignment, number: int) -> None:
    """Connects to the driver as the owner of the numbered part, and works until the driver sends STOP."""
    driver = channel.connect((meeting.host, meeting.port), meeting.secret)
    host = driver.getsockname()[0]
    peers = Peers(number, assignment.part_count, meeting.secret, host)
    try:
        opened = assignment.open_part(assignment, number)
        channel.send(driver, MessageKind.HELLO, number, Address(host, peers.port))
        start = channel.receive(driver).read(Start)
        worker = Worker(opened.part, peers, driver)
        saved = None if start.saved is None else start.saved[number]
        worker.begin(opened.initial, start.folder, saved, start.handed_over)
        peers.connect(start.addresses)
        worker.follow()
    finally:
        peers.close()
        driver.close()
