"""Too little memory: what a task needs, and what to do about it, instead of a traceback."""

from __future__ import annotations

import socket
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from veristream.errors import EnvironmentFailure
from veristream.history.job.layout import Layout

BYTES_PER_EVENT: Final = 160
"""What the check of a bucket takes for each event at its peak, as docs/audit.md says."""


@contextmanager
def enough_memory(layout: Layout) -> Iterator[None]:
    """Raises EnvironmentFailure if memory runs out; there is no verdict then."""
    try:
        yield
    except MemoryError as error:
        rows: Counter[int] = Counter()
        for group in layout.groups:
            rows[group.bucket] += group.rows
        largest = max(rows.values(), default=0)
        raise EnvironmentFailure(
            f"too little memory on {socket.gethostname()}: the largest bucket has {largest:,} events, "
            f"which take about {largest * BYTES_PER_EVENT / 1e6:,.0f} MB",
            hint="record into more buckets, or audit where there is more memory; "
            "a partition is always in one bucket",
        ) from error
