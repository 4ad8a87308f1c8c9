"""Work that threads divide; native loops let them run at the same time."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Result = TypeVar("Result")

LEAST = 1 << 12
"""Fewer items are not worth sharing."""

LINE = 16
"""Words between the counters of two threads, so that they share no cache line."""


def lone_words(count: int) -> NDArray[np.int64]:
    """Zeroed words on cache lines of their own: a thread that writes them disturbs no other."""
    return np.zeros(count + 2 * LINE, np.int64)[LINE : LINE + count]


class Crew:
    """Threads that wait for work; the thread that calls `run` is the first of them."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._pool = ThreadPoolExecutor(max(1, size - 1))  # starts no thread before there is work

    def run(self, work: Callable[[int], Result]) -> list[Result]:
        """Calls `work` with the number of each thread, at the same time; returns the results."""
        others = [self._pool.submit(work, number) for number in range(1, self.size)]
        first = work(0)
        return [first, *(other.result() for other in others)]

    def close(self) -> None:
        """Ends the threads."""
        self._pool.shutdown(wait=True)


def divide(work: Callable[[int, int], None], count: int, workers: int) -> None:
    """Calls `work(first, last)` for ranges that cover 0..count-1, on as many threads."""
    if workers == 1 or count < LEAST:
        work(0, count)
        return
    bounds = [count * k // workers for k in range(workers + 1)]
    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(work, bounds[:-1], bounds[1:]))
