"""Runs the pure core of a producer or consumer: clock, tasks and lock.

`Driver` feeds time and certified blocks to a core and performs its outputs. `LoopThread` runs an event loop
in its own thread. `Blocking` is the base of the synchronous clients, `AsyncClient` of those that it runs.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine, Sequence
from functools import partial, wraps
from pathlib import Path
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, Self, TypeVar

from veristream.errors import EnvironmentFailure, ModelError
from veristream.kabis.channels.interfaces import Channels, Connect, Storage
from veristream.kabis.client.checkpoint import Checkpoint
from veristream.kabis.client.clock import monotonic_ms
from veristream.kabis.client.following import (
    Progress,
    Pursuit,
    Tell,
    follow_chain,
    watch_for_pruning,
)
from veristream.kabis.ledger.follower import Follower
from veristream.kabis.protocol.blocks import CertifiedBlock
from veristream.kabis.wire.endpoints import new_event_loop

_LOGGER = logging.getLogger(__name__)

OPEN_TIMEOUT_S = 30.0
CHECKPOINT_EVERY_S = 10.0

Output = TypeVar("Output")
Result = TypeVar("Result")


class Core(Protocol[Output]):
    """What the driver needs of a producer's or consumer's core."""

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
        """The client is closed."""


class Driver(Generic[Output]):
    """Runs a core in an event loop; `perform` carries out the core's outputs.

    Every call of the core holds `lock`, so that other threads may call it too.
    """

    def __init__(self, core: Core[Output], perform: Callable[[Sequence[Output]], None]) -> None:
        self.lock = threading.Lock()
        self.channels: Channels
        self.crash: BaseException | None = None
        self.shown: Callable[[Progress], object] = lambda _: None
        self.checkpoint_path: Path | None = None
        self._checkpoint: Checkpoint | None = None
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
        """Connects, and follows the chain to the height that the validators report.

        Raises StalledError if nothing comes for the timeout; `shown` gets the progress.
        """
        self._loop = asyncio.get_running_loop()
        self._moved = asyncio.Event()
        follower = self._core.follower
        self.channels = await connect()
        pursuit = Pursuit(follower, timeout_s)
        pursuit.shown = self.shown
        follow = _Once(lambda: self.spawn(self._follow(pursuit.reasons)))

        async def move() -> None:
            follow()
            self._moved.clear()
            await self._moved.wait()
            if self.crash is not None:
                raise self.crash

        try:
            if self.checkpoint_path is not None:
                self._checkpoint = Checkpoint(self.checkpoint_path, follower.genesis, follower.verify)
            pursuit.checkpoint = self._checkpoint
            await pursuit.catch_up(self.channels.ordering, move)
            follow()
            self.spawn(watch_for_pruning(self.channels.ordering, follower))
            self.spawn(self._keep_checkpoint())
        except (ModelError, EnvironmentFailure):
            await self.close()
            raise

    async def _follow(self, tell: Tell) -> None:
        def take(certified: CertifiedBlock) -> None:
            if self._checkpoint is not None:
                self._checkpoint.check(certified.certificate.height, certified.certificate.block_id)
            self.feed(partial(self._core.block, certified))

        async for _ in follow_chain(self.channels.ordering, self._core.follower, take, tell):
            self._moved.set()
            await asyncio.sleep(0)  # many blocks at once must not keep other tasks waiting

    async def _keep_checkpoint(self) -> None:
        """Writes the checkpoint now and then; closing writes the last one."""
        checkpoint = self._checkpoint
        while checkpoint is not None:
            last = self._core.follower.last
            if last is not None:
                await asyncio.to_thread(checkpoint.keep, last, self._core.follower.ledger.succession)
            await asyncio.sleep(CHECKPOINT_EVERY_S)

    def feed(self, call: Callable[[int], list[Output]]) -> None:
        """Passes an input to the core, in the event loop, and performs its outputs."""
        with self.lock:
            outputs = call(monotonic_ms())
            ledger = self._core.follower.ledger
            memberships, height = ledger.memberships, ledger.height + 1
        self.channels.follow(memberships, height)
        self._perform(outputs)
        self._arm()

    def wake(self) -> None:
        """Schedules a tick of the core. Called with the lock held, from any thread."""
        if not self._waking and not self._closed:
            self._waking = True
            self._loop.call_soon_threadsafe(self._tick)

    def call_soon(self, call: Callable[[], None]) -> None:
        """Schedules a call in the event loop, from any thread; does nothing once the driver is closed."""
        if not self._closed:
            self._loop.call_soon_threadsafe(call)

    def _tick(self) -> None:
        self._waking = False
        if not self._closed:
            self.feed(self._core.tick)

    def _arm(self) -> None:
        """Sets the timer for the core's next tick, unless it fires earlier anyway."""
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
        """Runs a coroutine as a task; an unexpected exception is kept in `crash`."""
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
            self._moved.set()

    async def close(self) -> None:
        """Cancels all tasks and closes the channels."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        last = self._core.follower.last
        if self._checkpoint is not None and last is not None and self.crash is None:
            await asyncio.to_thread(self._checkpoint.keep, last, self._core.follower.ledger.succession)
        await self.channels.close()


class _Once:
    """Does something at the first call."""

    def __init__(self, do: Callable[[], object]) -> None:
        self._do: Callable[[], object] | None = do

    def __call__(self) -> None:
        do, self._do = self._do, None
        if do is not None:
            do()


class LoopThread:
    """An event loop in its own thread."""

    def __init__(self, name: str) -> None:
        self._loop = new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, Result], timeout_s: float | None = None) -> Result:
        """Runs a coroutine in the loop; the calling thread waits for its result."""
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result(timeout_s)
        except TimeoutError:
            future.cancel()
            raise

    def stop(self) -> None:
        """Stops the loop and its thread."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class AsyncClient(Generic[Output]):
    """A producer or consumer in an event loop; `async with` opens and closes it."""

    _driver: Driver[Output]

    async def open(self, timeout: float = OPEN_TIMEOUT_S) -> None:
        """Connects and follows the chain to its end; raises StalledError if nothing comes for so long."""
        raise NotImplementedError

    def show_opening(self, shown: Callable[[Progress], object]) -> None:
        """Has `open` report how far it has followed the chain."""
        self._driver.shown = shown

    def keep_checkpoint(self, path: Path) -> None:
        """Has the client never open with a state older than the one in this file, which it keeps current.

        Call it before `open`, which raises CheckpointError if the file is not of this chain.
        """
        self._driver.checkpoint_path = path

    async def close(self, timeout: float = OPEN_TIMEOUT_S) -> None:
        """Finishes what it can within the timeout, then closes all connections."""
        raise NotImplementedError

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _party(self, name: str) -> Storage:
        return next(party for party in self._driver.channels.storage if party.name == name)


Inner = TypeVar("Inner", bound=AsyncClient[Any])
Arguments = ParamSpec("Arguments")


class Blocking(Generic[Inner]):
    """A client for programs without an event loop; `with` opens and closes it.

    It runs an `AsyncClient` in its own thread, and derives its methods from those of that client by
    `directly`, `in_loop` and `awaited`.
    """

    def __init__(self, inner: Inner, name: str) -> None:
        self._inner = inner
        self._thread = LoopThread(name)
        self._closed = False

    def open(self, timeout: float = OPEN_TIMEOUT_S) -> None:
        """Connects and follows the chain to its end; raises StalledError if nothing comes for so long."""
        self._thread.run(self._inner.open(timeout))

    def show_opening(self, shown: Callable[[Progress], object]) -> None:
        """Has `open` report how far it has followed the chain; from the thread of the client's loop."""
        self._inner.show_opening(shown)

    def keep_checkpoint(self, path: Path) -> None:
        """Has the client never open with a state older than the one in this file; see `AsyncClient`."""
        self._inner.keep_checkpoint(path)

    def close(self) -> None:
        """Finishes what it can, then closes all connections."""
        raise NotImplementedError

    def _end(self, timeout: float) -> None:
        """Closes the client in its loop and stops the thread, once."""
        if not self._closed:
            self._closed = True
            try:
                self._thread.run(self._inner.close(timeout))
            finally:
                self._thread.stop()

    def __enter__(self) -> Self:
        try:
            self.open()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def directly(
    method: Callable[Concatenate[Inner, Arguments], Result],
) -> Callable[Concatenate[Blocking[Inner], Arguments], Result]:
    """Derives the blocking form of a method that any thread may call."""

    @wraps(method)
    def call(self: Blocking[Inner], /, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        return method(self._inner, *args, **kwargs)

    return call


def awaited(
    method: Callable[Concatenate[Inner, Arguments], Coroutine[Any, Any, Result]],
) -> Callable[Concatenate[Blocking[Inner], Arguments], Result]:
    """Derives the blocking form of a coroutine: the calling thread waits for its result."""

    @wraps(method)
    def call(self: Blocking[Inner], /, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        return self._thread.run(method(self._inner, *args, **kwargs))

    return call


def in_loop(
    method: Callable[Concatenate[Inner, Arguments], Result],
) -> Callable[Concatenate[Blocking[Inner], Arguments], Result]:
    """Derives the blocking form of a method that only the event loop's thread may call."""

    @wraps(method)
    async def call(inner: Inner, /, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        return method(inner, *args, **kwargs)

    return awaited(call)
