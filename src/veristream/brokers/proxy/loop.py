"""A thread that waits for sockets, times and calls of other threads, and does one thing after the other."""

from __future__ import annotations

import heapq
import selectors
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from itertools import count
from typing import Final, TypeVar

Result = TypeVar("Result")
Call = Callable[[], None]
Ready = Callable[[int], None]

DRAINED: Final = 4096


class Loop:
    """Runs from `start` to `stop`. All but `call` and `run` may only be used in its thread."""

    def __init__(self, name: str) -> None:
        self._selector = selectors.DefaultSelector()
        self._interests: dict[socket.socket, int] = {}
        self._calls: deque[Call] = deque()
        self._timers: list[tuple[float, int, Call]] = []
        self._order = count()
        self._bell, self._ringer = socket.socketpair()
        for each in (self._bell, self._ringer):
            each.setblocking(False)
        self._over = False
        self._failure: Exception | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Starts the thread."""
        self.watch(self._bell, selectors.EVENT_READ, self._heard)
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread; raises what a call raised."""
        self.call(self._end)
        self._thread.join()
        self._selector.close()
        self._bell.close()
        self._ringer.close()
        if self._failure is not None:
            raise self._failure

    def call(self, what: Call) -> None:
        """Calls something soon, in the loop's thread."""
        self._calls.append(what)
        with suppress(OSError):  # the bell is ringing anyway, or the loop has ended
            self._ringer.send(b"!")

    def run(self, what: Callable[[], Result]) -> Result:
        """Calls something in the loop's thread, and returns what it returns."""
        if threading.current_thread() is self._thread:
            return what()
        if self._over:
            raise RuntimeError(f"{self._thread.name} have ended")
        done: Future[Result] = Future()

        def call() -> None:
            try:
                done.set_result(what())
            except Exception as failure:  # noqa: BLE001  # raised where somebody waits
                done.set_exception(failure)

        self.call(call)
        return done.result()

    def at(self, when_s: float, what: Call) -> None:
        """Calls something at a time of the system's monotonic clock."""
        heapq.heappush(self._timers, (when_s, next(self._order), what))

    def watch(self, each: socket.socket, events: int, ready: Ready) -> None:
        """Calls `ready` with those of the events that a socket is ready for; 0 forgets it."""
        before = self._interests.get(each, 0)
        if events == before:
            return
        if not events:
            del self._interests[each]
            self._selector.unregister(each)
            return
        self._interests[each] = events
        if before:
            self._selector.modify(each, events, ready)
        else:
            self._selector.register(each, events, ready)

    def _run(self) -> None:
        while not self._over:
            wait_s = max(0.0, self._timers[0][0] - time.monotonic()) if self._timers else None
            for key, events in self._selector.select(wait_s):
                # An earlier one may have closed this socket
                if key.fileobj in self._interests and not self._over:
                    self._do(lambda key=key, events=events: key.data(events))  # type: ignore[misc]
            while self._timers and self._timers[0][0] <= time.monotonic():
                self._do(heapq.heappop(self._timers)[2])

    def _do(self, what: Call) -> None:
        try:
            what()
        except Exception as failure:  # noqa: BLE001  # raised again by `stop`
            self._failure = self._failure or failure

    def _heard(self, events: int) -> None:
        self._bell.recv(DRAINED)
        while self._calls and not self._over:
            self._do(self._calls.popleft())

    def _end(self) -> None:
        self._over = True
