"""Group commit: requests that arrive while one flush runs share the next one."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from veristream.errors import EnvironmentFailure


class Committer:
    """Calls a log's `sync` in its own thread while records wait to become durable."""

    def __init__(self, sync: Callable[[], int], durable: int, interval_s: float) -> None:
        self._sync = sync
        self._durable = durable
        self._interval_s = interval_s
        self._thread = ThreadPoolExecutor(1, "kabis-log-sync")
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._asked = asyncio.Event()
        self._count = 0
        self._committed = asyncio.Event()
        self._failure: EnvironmentFailure | None = None

    async def wait_for(self, position: int) -> None:
        """Waits until the record at a position is durable. Raises the log's failure if it never will be."""
        if position < self._durable:
            return
        if self._failure is not None:
            raise self._failure
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._count += 1
        heapq.heappush(self._waiting, (position, self._count, future))
        self._asked.set()
        await future

    async def wait_for_more(self) -> None:
        """Waits until another record becomes durable."""
        await self._committed.wait()

    async def run(self) -> None:
        """Flushes while records wait, until the log fails, and raises its failure."""
        loop = asyncio.get_running_loop()
        try:
            while True:
                await self._asked.wait()
                self._asked.clear()
                while self._waiting:
                    durable = await loop.run_in_executor(self._thread, self._sync)
                    if durable == self._durable:
                        await asyncio.sleep(self._interval_s)
                    self._release(durable)
        except EnvironmentFailure as failure:
            self._fail(failure)
            raise
        finally:
            self._thread.shutdown()

    def _release(self, durable: int) -> None:
        if durable == self._durable:
            return
        self._durable = durable
        while self._waiting and self._waiting[0][0] < durable:
            future = heapq.heappop(self._waiting)[2]
            if not future.done():
                future.set_result(None)
        self._committed.set()
        self._committed = asyncio.Event()

    def _fail(self, failure: EnvironmentFailure) -> None:
        self._failure = failure
        for _position, _count, future in self._waiting:
            if not future.done():
                future.set_exception(failure)
        self._waiting.clear()
