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
from collections.abc import Callable
from functools import partial
from struct import Struct
from typing import cast

from veristream.kabis.protocol.codec import DecodeError, Octets
from veristream.kabis.wire.handlers import (
    Answer,
    AnswerAttached,
    Attached,
    Authorize,
    ConnectionLostError,
    Handlers,
    Later,
    Limits,
    Note,
    PeerRefusedError,
    RequestError,
    note_nothing,
)
from veristream.kabis.wire.handshake import (
    HANDSHAKE_BYTES_MAX,
    LENGTH_BYTES,
    MAC_BYTES,
    Peer,
    Session,
    Splitter,
    WireError,
)
from veristream.kabis.wire.turns import Share, Turns

_LOGGER = logging.getLogger(__name__)

_HEAD = Struct(">BQ")  # kind, id
_REQUEST, _ANSWER, _FAILURE, _MESSAGE, _PING, _PONG, WELCOME, REFUSED = range(1, 9)
_ATTACHED_REQUEST, _ATTACHED_ANSWER = 9, 10
REASON_BYTES_MAX = 1000
FRAME_MORE_BYTES = _HEAD.size + MAC_BYTES
"""What a frame has beside its body."""


__all__ = [
    "Answer",
    "AnswerAttached",
    "Attached",
    "Authorize",
    "Connection",
    "ConnectionLostError",
    "Handlers",
    "Later",
    "Limits",
    "Note",
    "PeerRefusedError",
    "RequestError",
    "note_nothing",
]


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
        self._task_count = self._task_bytes = 0
        self._writable = asyncio.Event()
        self._writable.set()
        self._blocked = False
        self._share: Share | None = None
        self._turns: Turns | None = None
        self._answering = asyncio.Lock()
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
        if self._share is not None:
            self._share.drain()

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

    def fail(self, error: Exception) -> None:
        """Closes the connection at once, because of what is below it."""
        self._fail(error)

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
        self._splitter.frame_bytes_max = self._limits.frame_bytes_max + FRAME_MORE_BYTES
        self._on_frame = self._on_payload

    def _on_payload(self, frame: Octets) -> None:
        assert self._session is not None
        payload = self._session.open(frame)
        if len(payload) < _HEAD.size:
            raise WireError("a frame without a head")
        kind, number = _HEAD.unpack_from(payload)
        body = bytes(payload[_HEAD.size :])
        if not self.opened.done() and kind not in (WELCOME, REFUSED):
            raise WireError("a frame before the welcome")
        match kind:
            case 1:
                self._start(number, body)
            case 2 | 3:
                self._charge()
                self._resolve(kind, number, body)
            case 4:
                self._handlers.receive(self._session.peer, body)
            case 5:
                self._charge()
                if self._writable.is_set():  # else it does not read, and pongs would only pile up
                    self._send(_PONG, number, b"")
            case 6:
                self._charge()
            case 9 | 10:
                self._on_frame = partial(self._on_attachment, kind, number, body)
            case _:
                self._on_welcome(kind, body)

    def _charge(self) -> None:
        """Counts a frame that is no request; raises WireError if there are too many of them."""
        if self._share is not None:
            self._share.requests_rate.take(1)
            if self._share.requests_rate.wait_s(self._loop.time()) > 0:
                raise WireError(f"{self._share.who} sends too many frames that are no requests")

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
        """Starts a request, or has it wait for its turn; reads no further if too many are in work."""
        size = _size_of(body)
        self._task_count += 1
        self._task_bytes += size
        if self._share is None or self._turns is None:
            self.start_now(number, body, size)
        else:
            self._share.begin(size)
            self._turns.add(self._share, (self, number, body, size))
        if self._is_busy():
            self._blocked = True
            self._transport.pause_reading()

    def _is_busy(self) -> bool:
        limits, share = self._limits, self._share
        return (
            self._task_count >= limits.requests_max
            or self._task_bytes >= limits.request_bytes_max
            or (share is not None and share.is_full)
        )

    def start_now(self, number: int, body: object, size: int) -> None:
        """Starts a request, whose turn it is."""
        assert isinstance(body, bytes | Attached)
        task = self._loop.create_task(self._work(number, body))
        self._tasks.add(task)
        task.add_done_callback(lambda done: self._done(done, size))

    async def _work(self, number: int, body: bytes | Attached) -> None:
        await self._wait_for_room()
        kinds = (_ANSWER, _ATTACHED_ANSWER)
        answer: bytes | Attached | Later
        try:
            if isinstance(body, Attached):
                answer = await self._handlers.answer_attached(self.peer, body)
            else:
                answer = await self._handlers.answer(self.peer, body)
            if isinstance(answer, Later):
                answer = await self._make(answer)
        except (RequestError, DecodeError) as error:
            kinds, answer = (_FAILURE, _FAILURE), str(error).encode()[:REASON_BYTES_MAX]
        if not self.closed:
            self._send_either(kinds, number, answer)

    async def _make(self, later: Later) -> bytes | Attached:
        """Makes an answer when there is room for it and it is this identity's turn."""
        await self._wait_for_room()
        if self._share is None or self._turns is None:
            return later.make()
        while True:
            async with self._share.making:
                await self._share.wait_for_answers()
                async with self._turns.making:
                    await asyncio.sleep(0)  # between two answers there is time for votes
                    if self.closed or self._has_room():
                        answer = later.make()
                        self._share.answers_rate.take(_size_of(answer))
                        return answer
            await self._wait_for_room()

    def _has_room(self) -> bool:
        return (
            self._writable.is_set()
            and self.unsent_bytes <= self._limits.write_bytes_max
            and (self._share is None or self._share.has_room)
        )

    async def _wait_for_room(self) -> None:
        """Waits until the peer has read enough of the earlier answers; one after the other goes on.

        Whoever comes through must make its answer before it waits again, so that the next one sees it.
        """
        async with self._answering:
            while not self.closed:
                if not self._writable.is_set():
                    await self._writable.wait()
                elif self.unsent_bytes > self._limits.write_bytes_max:
                    await asyncio.sleep(0)  # the transport has not paused us yet
                elif self._share is not None and not self._share.has_room:
                    self._share.note(self._share.who, "unread answers")
                    await self._share.drained.wait()
                else:
                    return

    @property
    def unsent_bytes(self) -> int:
        """The bytes of answers and messages that the peer has not read."""
        return self._transport.get_write_buffer_size()

    def _done(self, task: asyncio.Task[None], size: int) -> None:
        self._tasks.discard(task)
        self._task_count -= 1
        self._task_bytes -= size
        if self._share is not None:
            self._share.end(size)
        if not task.cancelled() and task.exception() is not None:
            _LOGGER.error("a request could not be answered", exc_info=task.exception())
            self._transport.abort()
        self.unblock()

    def unblock(self) -> None:
        """Reads on, unless too much is in work."""
        if self._blocked and not self._is_busy() and not self.closed:
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
            self._fail(ConnectionLostError(complaint))
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


def _size_of(body: bytes | Attached) -> int:
    return len(body) if isinstance(body, bytes) else len(body.body) + len(body.contents)
