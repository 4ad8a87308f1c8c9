"""What turns a pure core into a running client: a clock, tasks, and a lock.

`Driver` feeds a core with time and certified blocks and hands its outputs on; `LoopThread` runs an event
loop in a thread of its own, and `Blocking` is what the synchronous faces are made of.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from types import TracebackType
from typing import Any, Generic, Protocol, Self, TypeVar

from veristream.errors import EnvironmentFailure
from veristream.kabis.channels.interfaces import Channels, Connect
from veristream.kabis.client.clock import monotonic_ms
from veristream.kabis.client.errors import RefusedClientError
from veristream.kabis.client.following import ask_height, follow_chain
from veristream.kabis.ledger.follower import Follower
from veristream.kabis.protocol.blocks import CertifiedBlock
from veristream.kabis.wire.endpoints import new_event_loop

_LOGGER = logging.getLogger(__name__)

OPEN_TIMEOUT_S = 30.0

Output = TypeVar("Output")
Result = TypeVar("Result")


class Core(Protocol[Output]):
    """What producers and consumers have in common."""

    follower: Follower
    next_ms: int
    """When `tick` is due."""
    attention: bool
    """Whether `tick` is due at once."""

    def tick(self, now_ms: int) -> list[Output]:
        """Time has passed."""

    def block(self, certified: CertifiedBlock, now_ms: int) -> list[Output]:
        """A block was decided."""

    def close(self) -> list[Output]:
        """Nothing goes on from here."""


class Driver(Generic[Output]):
    """Runs a core in an event loop; `perform` does what the core wants done.

    Every call of the core holds `lock`, so that other threads may call it too.
    """

    def __init__(self, core: Core[Output], perform: Callable[[Sequence[Output]], None]) -> None:
        self.lock = threading.Lock()
        self.channels: Channels
        self.crash: BaseException | None = None
        self._core = core
        self._perform = perform
        self._loop: asyncio.AbstractEventLoop
        self._tasks: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms = 0
        self._waking = False
        self._moved: asyncio.Event
        self._closed = False

    async def open(self, connect: Connect, timeout_s: float) -> None:
        """Connects, and follows the chain up to where the validators say that it is."""
        self._loop = asyncio.get_running_loop()
        self._moved = asyncio.Event()
        self.channels = await connect()
        self.spawn(self._follow())
        try:
            async with asyncio.timeout(timeout_s):
                height = await ask_height(self.channels.ordering)
                while self._core.follower.ledger.height < height:
                    self._moved.clear()
                    await self._moved.wait()
        except RefusedClientError:
            await self.close()
            raise
        except TimeoutError:
            await self.close()
            chain_id = self._core.follower.genesis.chain_id
            raise EnvironmentFailure(
                f"the chain {chain_id} cannot be followed: too few validators answer",
                "see whether they run and can be reached: `veristream kabis status`",
            ) from None

    async def _follow(self) -> None:
        def take(certified: CertifiedBlock) -> None:
            self.feed(partial(self._core.block, certified))

        async for _ in follow_chain(self.channels.ordering, self._core.follower, take):
            self._moved.set()
            await asyncio.sleep(0)  # many blocks at once must not keep other tasks waiting

    def feed(self, call: Callable[[int], list[Output]]) -> None:
        """Gives the core an input, in the event loop, and does what it wants done."""
        with self.lock:
            outputs = call(monotonic_ms())
        self._perform(outputs)
        self._arm()

    def wake(self) -> None:
        """Has the core ticked soon; called with the lock held, from any thread."""
        if not self._waking and not self._closed:
            self._waking = True
            self._loop.call_soon_threadsafe(self._tick)

    def call_soon(self, call: Callable[[], None]) -> None:
        """Has something called in the event loop, from any thread; not any more once that is closed."""
        if not self._closed:
            self._loop.call_soon_threadsafe(call)

    def _tick(self) -> None:
        self._waking = False
        if not self._closed:
            self.feed(self._core.tick)

    def _arm(self) -> None:
        """Sets the timer for when the core wants to be ticked, unless it is set for no later."""
        next_ms = self._core.next_ms
        if self._closed or (self._timer is not None and self._timer_ms <= next_ms):
            return
        if self._timer is not None:
            self._timer.cancel()
        wait_s = min(3600.0, max(0.0, (next_ms - monotonic_ms()) / 1000))
        self._timer, self._timer_ms = self._loop.call_later(wait_s, self._ring), next_ms

    def _ring(self) -> None:
        self._timer = None
        self._tick()

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Runs a coroutine beside everything else; a failure that nobody expected is kept in `crash`."""
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._finished)
        return task

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self.crash = self.crash or task.exception()
            _LOGGER.critical("a client's task failed", exc_info=task.exception())
            self.feed(lambda now_ms: self._core.close())

    async def close(self) -> None:
        """Ends all tasks and lets go of the channels."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        await self.channels.close()


class LoopThread:
    """An event loop in a thread of its own."""

    def __init__(self, name: str) -> None:
        self._loop = new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, Result], timeout_s: float | None = None) -> Result:
        """The coroutine's result, waited for in the calling thread."""
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result(timeout_s)
        except TimeoutError:
            future.cancel()
            raise

    def stop(self) -> None:
        """Ends the loop and its thread."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class Served(Protocol):
    """A client in an event loop."""

    async def open(self, timeout: float) -> None:
        """Connects and follows the chain to its end; raises EnvironmentFailure if that takes longer."""

    async def close(self, timeout: float) -> None:
        """Ends what is begun as well as it can in so many seconds, and lets go of all."""


class Blocking:
    """A client for programs without an event loop: it works in a thread of its own."""

    def __init__(self, served: Served, name: str) -> None:
        self._served = served
        self._thread = LoopThread(name)
        self._closed = False

    def open(self, timeout: float = OPEN_TIMEOUT_S) -> None:
        """Connects and follows the chain to its end; raises EnvironmentFailure if that takes longer."""
        self._thread.run(self._served.open(timeout))

    def close(self) -> None:
        """Ends what is begun as well as it can, and lets go of all."""
        raise NotImplementedError

    def _end(self, timeout: float) -> None:
        """Closes the client in its loop, then ends the thread; once."""
        if not self._closed:
            self._closed = True
            try:
                self._thread.run(self._served.close(timeout))
            finally:
                self._thread.stop()

    def __enter__(self) -> Self:
        try:
            self.open()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
