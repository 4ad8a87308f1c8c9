"""Commands that run until they are interrupted."""

from __future__ import annotations

import signal
import threading


def stopped_by_signals() -> threading.Event:
    """Returns an event that SIGINT and SIGTERM set from now on, instead of ending the process."""
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    return stop
