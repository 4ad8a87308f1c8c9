"""One authenticated connection on asyncio: requests with answers, and messages without.

Both sides may send many requests at a time (`handshake.py` describes identities and frames). A peer cannot
make us hold much memory: before it has proved its key it may send two small frames within a few seconds.
Afterwards the size of a frame is limited, and so are the number and the total bytes of requests in
progress, past which we stop reading. No request is started while the peer does not read our answers. A peer
that stops in the middle of a frame, does not read, or is silent, is disconnected.

A request or an answer may have an *attachment*, which is sent as the next frame and, unless the session is
encrypted, without a MAC. It is for contents that the receiver checks against a hash in the authenticated
part anyway, such as batches. So each of their bytes is hashed once, and copied nowhere.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from struct import Struct
from typing import Protocol, cast

from veristream.kabis.protocol.codec import DecodeError, Octets
from veristream.kabis.wire.handshake import (
    HANDSHAKE_BYTES_MAX,
    LENGTH_BYTES,
    MAC_BYTES,
    ClientHandshake,
    Peer,
    ServerHandshake,
    Session,
    Splitter,
    WireError,
    prefix,
)

_LOGGER = logging.getLogger(__name__)

_HEAD = Struct(">BQ")  # kind, id
_REQUEST, _ANSWER, _FAILURE, _MESSAGE, _PING, _PONG, _WELCOME, _REFUSED = range(1, 9)
_ATTACHED_REQUEST, _ATTACHED_ANSWER = 9, 10
_REASON_BYTES_MAX = 1000


class ConnectionLostError(WireError):
    """The connection ended; it is unknown whether the other side received the request."""


class PeerRefusedError(WireError):
    """The other side knows our identity and refuses the connection."""


class RequestError(Exception):
    """The other side answered that it will not or cannot do what was asked, and why."""


@dataclass(frozen=True, slots=True)
class Attached:
    """A body, and attached contents that only a hash in the body, or a signature, authenticates."""

    body: bytes
    contents: Octets


Answer = Callable[[Peer, bytes], Awaitable[bytes | Attached]]
AnswerAttached = Callable[[Peer, Attached], Awaitable[bytes | Attached]]
Receive = Callable[[Peer, bytes], None]
Authorize = Callable[[Peer], str | None]
"""Returns why a peer that has proved its key is refused, or None if it is admitted."""


async def _answer_nothing(_peer: Peer, _body: bytes) -> bytes:
    raise RequestError("nothing is answered here")


async def _take_nothing(_peer: Peer, _request: Attached) -> bytes:
    raise RequestError("nothing may be attached to this")


def _receive_nothing(_peer: Peer, _body: bytes) -> None:
    """Drops messages that nobody waits for."""


@dataclass(frozen=True, slots=True)
class Handlers:
    """Handles requests and messages; `answer` may raise RequestError or DecodeError."""

    answer: Answer = _answer_nothing
    receive: Receive = _receive_nothing
    answer_attached: AnswerAttached = _take_nothing


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits for a peer: sizes, counts and times."""

    frame_bytes_max: int = 16 << 20
    requests_max: int = 256
    request_bytes_max: int = 32 << 20
    write_bytes_max: int = 1 << 20
    connections_max: int = 1024
    handshake_s: float = 5.0
    stall_s: float = 30.0
    idle_s: float = 60.0


class Connection(asyncio.BufferedProtocol):
    """One connection; `opened` is done when both sides have proved their keys."""

    def __init__(self, handlers: Handlers, limits: Limits) -> None:
        self._loop = asyncio.get_running_loop()
        self._handlers = handlers
        self._limits = limits
        self._splitter = Splitter(HANDSHAKE_BYTES_MAX)
        self._on_frame: Callable[[Octets], None]
        self._session: Session | None = None
        self._next_id = 0
        self._waiting: dict[int, asyncio.Future[bytes | Attached]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._task_bytes = 0
        self._writable = asyncio.Event()
        self._writable.set()
        self._blocked = False
        self._made = self._heard = self._frame_begun = self._paused = self._due = self._loop.time()
        self.opened: asyncio.Future[Peer] = self._loop.create_future()
        self.lost: asyncio.Future[None] = self._loop.create_future()

    # Called by the transport.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Starts the handshake and its timeout."""
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is one in all but its class
        self._transport.set_write_buffer_limits(high=self._limits.write_bytes_max)
        self._watch()

    def get_buffer(self, sizehint: int) -> memoryview:
        """Returns the buffer for what arrives."""
        return self._splitter.room()

    def buffer_updated(self, nbytes: int) -> None:
        """Acts on every complete frame that has arrived."""
        self._heard = self._loop.time()
        if not self._splitter.partial:
            self._frame_begun = self._heard
        self._splitter.fill(nbytes)
        self._pump()

    def _pump(self) -> None:
        try:
            while not self._blocked:
                frame = self._splitter.next()
                if frame is None:
                    return
                self._frame_begun = self._heard
                self._on_frame(frame)
        except (WireError, DecodeError) as error:
            self._fail(error)

    def pause_writing(self) -> None:
        """The peer reads more slowly than we write."""
        self._paused = self._loop.time()
        self._writable.clear()

    def resume_writing(self) -> None:
        """The peer has read."""
        self._writable.set()

    def connection_lost(self, exc: Exception | None) -> None:
        """Fails all pending requests."""
        self._timer.cancel()
        error = ConnectionLostError("the connection ended" + (f": {exc}" if exc else ""))
        if not self.opened.done():
            self.opened.set_exception(error)
            self.opened.exception()  # whoever waits sees it; nobody may be waiting
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(error)
        self._waiting.clear()
        for task in self._tasks:
            task.cancel()
        self._writable.set()
        if not self.lost.done():
            self.lost.set_result(None)

    # Called by the owner.

    @property
    def peer(self) -> Peer:
        """The other side, once `opened` is done."""
        assert self._session is not None
        return self._session.peer

    @property
    def closed(self) -> bool:
        """Whether the connection is closed or closing."""
        return self.lost.done() or self._transport.is_closing()

    async def request(self, body: bytes, timeout_s: float | None = None) -> bytes:
        """Returns the answer to a request. Raises RequestError, ConnectionLostError or TimeoutError."""
        answer = await self.exchange(body, timeout_s)
        if isinstance(answer, Attached):
            raise RequestError("an answer with an attachment that nobody asked for")
        return answer

    async def exchange(self, body: bytes | Attached, timeout_s: float | None = None) -> bytes | Attached:
        """Like `request`, but the request or the answer may have an attachment."""
        async with asyncio.timeout(timeout_s):
            await self._writable.wait()
            if self.closed:
                raise ConnectionLostError("the connection ended")
            self._next_id += 1
            number = self._next_id
            future: asyncio.Future[bytes | Attached] = self._loop.create_future()
            self._waiting[number] = future
            self._send_either((_REQUEST, _ATTACHED_REQUEST), number, body)
            try:
                return await future
            finally:
                self._waiting.pop(number, None)

    async def send(self, body: bytes) -> None:
        """Sends a message without an answer; waits while the other side does not read."""
        await self._writable.wait()
        self.send_now(body)

    def send_now(self, body: bytes) -> bool:
        """Sends a message, or drops it and returns False if the other side does not read."""
        if self.closed or not self._writable.is_set():
            return False
        self._send(_MESSAGE, 0, body)
        return True

    def close(self) -> None:
        """Closes the connection after what was already written."""
        self._transport.close()

    def abort(self) -> None:
        """Closes the connection at once."""
        self._transport.abort()

    # Frames.

    def _send(self, kind: int, number: int, body: bytes) -> None:
        if len(body) > self._limits.frame_bytes_max:
            raise WireError(f"{len(body)} bytes do not fit a frame of {self._limits.frame_bytes_max}")
        assert self._session is not None
        self._transport.write(self._session.seal(_HEAD.pack(kind, number) + body))

    def _send_either(self, kinds: tuple[int, int], number: int, body: bytes | Attached) -> None:
        """Sends a frame of the first kind, or one of the second and the attachment after it."""
        if isinstance(body, bytes):
            self._send(kinds[0], number, body)
            return
        size = len(body.contents)
        if size > self._limits.frame_bytes_max:
            raise WireError(f"{size} bytes do not fit a frame of {self._limits.frame_bytes_max}")
        self._send(kinds[1], number, body.body)
        assert self._session is not None
        if self._session.encrypted:
            self._transport.write(self._session.seal(bytes(body.contents)))
        else:
            self._transport.write(size.to_bytes(LENGTH_BYTES, "big"))
            self._transport.write(body.contents)

    def _open(self, session: Session) -> None:
        self._session = session
        self._splitter.frame_bytes_max = self._limits.frame_bytes_max + _HEAD.size + MAC_BYTES
        self._on_frame = self._on_payload

    def _on_payload(self, frame: Octets) -> None:
        assert self._session is not None
        payload = self._session.open(frame)
        if len(payload) < _HEAD.size:
            raise WireError("a frame without a head")
        kind, number = _HEAD.unpack_from(payload)
        body = bytes(payload[_HEAD.size :])
        if not self.opened.done() and kind not in (_WELCOME, _REFUSED):
            raise WireError("a frame before the welcome")
        match kind:
            case 1:
                self._start(number, body)
            case 2 | 3:
                self._resolve(kind, number, body)
            case 4:
                self._handlers.receive(self._session.peer, body)
            case 5:
                self._send(_PONG, number, b"")
            case 6:
                pass
            case 9 | 10:
                self._on_frame = partial(self._on_attachment, kind, number, body)
            case _:
                self._on_welcome(kind, body)

    def _on_attachment(self, kind: int, number: int, body: bytes, frame: Octets) -> None:
        assert self._session is not None
        self._on_frame = self._on_payload
        attached = Attached(body, self._session.open(frame) if self._session.encrypted else frame)
        if kind == _ATTACHED_REQUEST:
            self._start(number, attached)
        else:
            self._resolve(_ANSWER, number, attached)

    def _on_welcome(self, kind: int, body: bytes) -> None:
        raise WireError(f"a frame of kind {kind}, which is not sent here")

    def _resolve(self, kind: int, number: int, body: bytes | Attached) -> None:
        future = self._waiting.pop(number, None)
        if future is None or future.done():
            return  # it came too late, and nobody waits for it
        if kind == _ANSWER or isinstance(body, Attached):
            future.set_result(body)
        else:
            future.set_exception(RequestError(body.decode("utf-8", "replace")))

    # Requests of the other side.

    def _start(self, number: int, body: bytes | Attached) -> None:
        task = self._loop.create_task(self._work(number, body))
        size = len(body) if isinstance(body, bytes) else len(body.body) + len(body.contents)
        self._tasks.add(task)
        self._task_bytes += size
        task.add_done_callback(lambda done: self._done(done, size))
        limits = self._limits
        if len(self._tasks) >= limits.requests_max or self._task_bytes >= limits.request_bytes_max:
            self._blocked = True
            self._transport.pause_reading()

    async def _work(self, number: int, body: bytes | Attached) -> None:
        await self._writable.wait()
        kinds = (_ANSWER, _ATTACHED_ANSWER)
        answer: bytes | Attached
        try:
            if isinstance(body, Attached):
                answer = await self._handlers.answer_attached(self.peer, body)
            else:
                answer = await self._handlers.answer(self.peer, body)
        except (RequestError, DecodeError) as error:
            kinds, answer = (_FAILURE, _FAILURE), str(error).encode()[:_REASON_BYTES_MAX]
        if not self.closed:
            self._send_either(kinds, number, answer)

    def _done(self, task: asyncio.Task[None], size: int) -> None:
        self._tasks.discard(task)
        self._task_bytes -= size
        if not task.cancelled() and task.exception() is not None:
            _LOGGER.error("a request could not be answered", exc_info=task.exception())
            self._transport.abort()
        limits = self._limits
        if (
            self._blocked
            and len(self._tasks) < limits.requests_max
            and self._task_bytes < limits.request_bytes_max
            and not self.closed
        ):
            self._blocked = False
            self._transport.resume_reading()
            self._pump()

    # The watch.

    def _watch(self) -> None:
        """Disconnects a peer that is too slow; pings one that is silent."""
        now, limits = self._loop.time(), self._limits
        self._forgive(now)
        complaint = self._complaint(now)
        if complaint:
            self._fail(WireError(complaint))
            return
        if self.opened.done() and now - self._heard > limits.idle_s / 2 and self._writable.is_set():
            self._send(_PING, 0, b"")
        period = min(limits.handshake_s, limits.stall_s, limits.idle_s) / 4
        self._due = now + period
        self._timer = self._loop.call_later(period, self._watch)

    def _forgive(self, now: float) -> None:
        """Does not count the time in which we did not listen ourselves."""
        late_s = now - self._due
        self._made = min(now, self._made + late_s)
        self._heard = min(now, self._heard + late_s)
        self._frame_begun = min(now, self._frame_begun + late_s)
        self._paused = min(now, self._paused + late_s)

    def _complaint(self, now: float) -> str:
        limits = self._limits
        if not self.opened.done():
            # Counted from the start, so that single bytes do not extend the time.
            return "the handshake takes too long" if now - self._made > limits.handshake_s else ""
        if not self._writable.is_set() and now - self._paused > limits.stall_s:
            return "the peer does not read"
        if self._blocked:
            return ""  # we do not read ourselves
        if self._splitter.partial and now - self._frame_begun > limits.stall_s:
            return "the peer stopped in the middle of a frame"
        return "the peer is silent" if now - self._heard > limits.idle_s else ""

    def _fail(self, error: Exception) -> None:
        _LOGGER.info("a connection is cut off: %s", error)
        if not self.opened.done():
            self.opened.set_exception(error)
            self.opened.exception()
        self._transport.abort()


class Owner(Protocol):
    """Counts a server's connections."""

    def add(self, connection: Connection) -> None:
        """A connection was made."""

    def remove(self, connection: Connection) -> None:
        """A connection ended."""


class ServerConnection(Connection):
    """The server's side: it proves its key first, then decides whether to admit the client."""

    def __init__(
        self,
        handshake: ServerHandshake,
        authorize: Authorize,
        handlers: Handlers,
        limits: Limits,
        owner: Owner,
    ) -> None:
        super().__init__(handlers, limits)
        self._handshake = handshake
        self._authorize = authorize
        self._owner = owner
        self._on_frame = self._on_hello

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Tells the server that it has one connection more."""
        super().connection_made(transport)
        self._owner.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Tells the server that it has one connection less."""
        super().connection_lost(exc)
        self._owner.remove(self)

    def _on_hello(self, frame: Octets) -> None:
        self._transport.write(prefix(self._handshake.answer(bytes(frame))))
        self._on_frame = self._on_proof

    def _on_proof(self, frame: Octets) -> None:
        session = self._handshake.finish(bytes(frame))
        refusal = self._authorize(session.peer)
        self._open(session)
        if refusal is None:
            self._send(_WELCOME, 0, b"")
            self.opened.set_result(session.peer)
            return
        _LOGGER.info("%s %r is refused: %s", session.peer.role.name.lower(), session.peer.name, refusal)
        self._send(_REFUSED, 0, refusal.encode()[:_REASON_BYTES_MAX])
        self._on_frame = lambda _frame: None
        self._transport.close()


class ClientConnection(Connection):
    """The client's side."""

    def __init__(
        self,
        handshake: ClientHandshake,
        handlers: Handlers,
        limits: Limits,
    ) -> None:
        super().__init__(handlers, limits)
        self._handshake = handshake
        self._on_frame = self._on_answer

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Sends the hello."""
        super().connection_made(transport)
        self._transport.write(prefix(self._handshake.hello))

    def _on_answer(self, frame: Octets) -> None:
        proof, session = self._handshake.finish(bytes(frame))
        self._transport.write(prefix(proof))
        self._open(session)

    def _on_welcome(self, kind: int, body: bytes) -> None:
        if self.opened.done() or kind not in (_WELCOME, _REFUSED):
            super()._on_welcome(kind, body)
        elif kind == _WELCOME:
            self.opened.set_result(self.peer)
        else:
            self._fail(PeerRefusedError(body.decode("utf-8", "replace")))
