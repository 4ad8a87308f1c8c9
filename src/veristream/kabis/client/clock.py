"""The clock of clients."""

from __future__ import annotations

import time


def monotonic_ms() -> int:
    """Returns the time of a clock that never goes back, in milliseconds."""
    return int(time.monotonic() * 1000)
