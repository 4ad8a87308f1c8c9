"""An event loop whose clock stands still while anything happens, for tests whose parties are all in it.

Nobody is late because the machine is busy, or stopped the process: an answer that is on its way arrives
before any time is over. Time passes only while everybody waits, as fast as it does elsewhere.
"""

from __future__ import annotations

import asyncio
import selectors
import time
from collections.abc import Callable, Coroutine
from typing import Any

LIMIT_S = 30
"""Who waits forever is ended; by this clock no test takes more than a second or two."""
BUSY_S = 600
"""Who is busy forever is ended too, by everybody's clock."""


class _Waiting(selectors.DefaultSelector):
    """Counts the time that was waited for in vain."""

    def __init__(self) -> None:
        super().__init__()
        self.waited_s = 0.0
        self._end_s = time.monotonic() + BUSY_S

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        began_s = time.monotonic()
        if began_s > self._end_s:
            raise TimeoutError(f"it is still busy after {BUSY_S} s")
        ready = super().select(timeout)
        if not ready and timeout is not None:
            self.waited_s += min(timeout, time.monotonic() - began_s)
        return ready


class SteadyLoop(asyncio.SelectorEventLoop):
    """The loop; it is begun with a clock at 0."""

    def __init__(self) -> None:
        self._waiting = _Waiting()
        super().__init__(self._waiting)

    def time(self) -> float:
        """How long everybody has waited."""
        return self._waiting.waited_s


def run_steadily(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Runs a test that must end, by a clock that no busy machine can hurry."""

    async def bounded() -> None:
        async with asyncio.timeout(LIMIT_S):
            await test()

    with asyncio.Runner(loop_factory=SteadyLoop) as runner:
        runner.run(bounded())
