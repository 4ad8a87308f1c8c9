"""Whose turn it is: requests are started in rounds, one of each identity, so that nobody waits for a crowd.

An identity's `Share` counts what it has in work, over all of its connections. Past its quotas, nothing more
is read from them; past its rate, its requests wait while those of others go on.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from veristream.kabis.wire.quotas import Quotas

STARTED_AT_ONCE = 8
"""How many requests start before the event loop turns to votes, timers and other connections."""
BURST_S = 1.0
"""A rate may be exceeded by what it grants in this time."""


@dataclass(slots=True)
class Bucket:
    """Tokens that refill at a rate, up to those of `BURST_S`; taking more than there are makes a debt."""

    rate: float
    level: float
    at: float

    @staticmethod
    def full(rate: float, now: float) -> Bucket:
        """Returns a full bucket."""
        return Bucket(rate, rate * BURST_S, now)

    def wait_s(self, now: float) -> float:
        """Returns how long it takes until a token may be taken; 0 if now."""
        self.level = min(self.rate * BURST_S, self.level + (now - self.at) * self.rate)
        self.at = now
        return 0.0 if self.level > 0 else (1 - self.level) / self.rate

    def take(self, count: float) -> None:
        """Takes tokens."""
        self.level -= count


class Served(Protocol):
    """A connection whose requests are served."""

    @property
    def closed(self) -> bool:
        """Whether it is closed or closing."""

    @property
    def unsent_bytes(self) -> int:
        """The bytes of answers that the peer has not read."""

    def start_now(self, number: int, body: object, size: int) -> None:
        """Starts a request."""

    def unblock(self) -> None:
        """Reads on, if nothing of its own prevents it."""

    def abort(self) -> None:
        """Closes the connection at once."""


@dataclass(slots=True)
class Share:
    """What one identity has in work, over all of its connections."""

    who: str
    quotas: Quotas
    requests_rate: Bucket
    bytes_rate: Bucket
    note: Callable[[str, str], None]
    is_party: bool = False
    connections: dict[Served, None] = field(default_factory=dict)
    waiting: deque[tuple[Served, int, object, int]] = field(default_factory=deque)
    requests: int = 0
    request_bytes: int = 0
    frame_bytes: int = 0
    drained: asyncio.Event = field(default_factory=asyncio.Event)
    making: asyncio.Lock = field(default_factory=asyncio.Lock)
    banned_until: float = 0.0
    answers_rate: Bucket = field(default_factory=lambda: Bucket.full(float(1 << 30), 0.0))
    _was_full: bool = False
    was_late: bool = False

    @property
    def is_full(self) -> bool:
        """Whether nothing more is read from its connections."""
        full = (
            self.requests >= self.quotas.requests_per_identity
            or self.request_bytes >= self.quotas.request_bytes_per_identity
        )
        if full and not self._was_full:
            self.note(self.who, "requests in work")
        self._was_full = full
        return full

    @property
    def has_room(self) -> bool:
        """Whether one more answer may be made: its peers have read enough of the earlier ones."""
        unsent = sum(each.unsent_bytes for each in self.connections)
        return unsent < self.quotas.unsent_bytes_per_identity

    def begin(self, size: int) -> None:
        """Counts a request that arrived."""
        self.requests += 1
        self.request_bytes += size

    def end(self, size: int) -> None:
        """Counts a request that is answered, and reads on from all connections."""
        was_full = self.is_full
        self.requests -= 1
        self.request_bytes -= size
        if was_full and not self.is_full:
            for connection in tuple(self.connections):
                connection.unblock()

    async def wait_for_answers(self) -> None:
        """Waits until its rate of answers allows one more; a party need not wait."""
        clock = asyncio.get_running_loop().time
        while not self.is_party and (wait_s := self.answers_rate.wait_s(clock())) > 0:
            self.note(self.who, "rate of answers")
            await asyncio.sleep(wait_s)

    def drain(self) -> None:
        """Wakes those who wait for room."""
        self.drained.set()
        self.drained = asyncio.Event()


class Turns:
    """Starts the requests of all identities in rounds."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._ready: deque[Share] = deque()
        self._is_due = False
        self.making = asyncio.Lock()

    def add(self, share: Share, request: tuple[Served, int, object, int]) -> None:
        """Starts a request when its turn comes."""
        share.waiting.append(request)
        if len(share.waiting) == 1:
            self._ready.append(share)
            self._call_soon()

    def _call_soon(self) -> None:
        if not self._is_due:
            self._is_due = True
            self._loop.call_soon(self._start_some)

    def _start_some(self) -> None:
        self._is_due = False
        now = self._loop.time()
        for _ in range(STARTED_AT_ONCE):
            if not self._ready:
                return
            self._start_one(self._ready.popleft(), now)
        if self._ready:
            self._call_soon()

    def _start_one(self, share: Share, now: float) -> None:
        wait_s = max(share.requests_rate.wait_s(now), share.bytes_rate.wait_s(now))
        if wait_s > 0:
            if not share.was_late:
                share.note(share.who, "rate of requests")
            share.was_late = True
            self._loop.call_later(wait_s, self._return, share)
            return
        share.was_late = False
        connection, number, body, size = share.waiting.popleft()
        if share.waiting:
            self._ready.append(share)
        if connection.closed:
            share.end(size)
            return
        share.requests_rate.take(1)
        share.bytes_rate.take(size)
        connection.start_now(number, body, size)

    def _return(self, share: Share) -> None:
        self._ready.append(share)
        self._call_soon()
