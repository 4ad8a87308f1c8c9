"""Commands that run until somebody ends them."""

from __future__ import annotations

import signal
import threading


def stopped_by_signals() -> threading.Event:
    """What is set at Ctrl-C, or when the process is asked to end; neither does anything else any more."""
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    return stop
