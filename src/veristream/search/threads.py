"""Work that threads divide; native loops let them run at the same time."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

LEAST = 1 << 12
"""Fewer items are not worth sharing."""


def divide(work: Callable[[int, int], None], count: int, workers: int) -> None:
    """Calls `work(first, last)` for ranges that cover 0..count-1, on as many threads."""
    if workers == 1 or count < LEAST:
        work(0, count)
        return
    bounds = [count * k // workers for k in range(workers + 1)]
    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(work, bounds[:-1], bounds[1:]))
