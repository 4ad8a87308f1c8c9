"""Calls that run beside each other: each client has a thread, in which its calls run in their order."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as StillRunning

from veristream.replay.course import Answer


class Caller:
    """A thread of a client; `call` begins a call, whose answer comes later."""

    def __init__(self) -> None:
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="replay")
        self._running: Future[Answer] | None = None

    @property
    def is_busy(self) -> bool:
        """Whether the last call is still running."""
        return self._running is not None and not self._running.done()

    def call(self, work: Callable[[], Answer]) -> None:
        """Begins a call; the one before has to be over, or to end soon."""
        self._running = self._executor.submit(work)

    def wait_returned(self, seconds: float) -> Answer | None:
        """Returns how the last call ended; None if it is still running after so long."""
        assert self._running is not None, "a call returns only if there is one"
        try:
            return self._running.result(seconds)
        except StillRunning:
            return None

    def wait(self, work: Callable[[], Answer], seconds: float) -> Answer:
        """Does something in the thread, after all calls."""
        return self._executor.submit(work).result(seconds)

    def close(self, *last: Callable[[], object]) -> None:
        """Does what is left in the thread, and ends it; raises what that raises."""
        ends = [self._executor.submit(each) for each in last]
        self._executor.shutdown(wait=True)
        for each in ends:
            each.result()
