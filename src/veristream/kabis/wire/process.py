"""How a process of a party begins and ends."""

from __future__ import annotations

import ctypes
import logging
import sys
from collections.abc import Callable, Coroutine
from typing import Any

from veristream.errors import EnvironmentFailure, ModelError
from veristream.kabis.wire.endpoints import run

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # the GNU C library's names for them begin with M_
_TRIM_BYTES, _MMAP_BYTES = 64 << 20, 32 << 20


def run_process(work: Callable[[], Coroutine[Any, Any, None]]) -> int:
    """Does the work and logs to stderr; gives the exit status, and says there why it is not 0."""
    logging.basicConfig(
        stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s"
    )
    keep_freed_memory()
    try:
        run(work())
    except ModelError as error:
        sys.stderr.write(error.render() + "\n")
        return 2
    except EnvironmentFailure as failure:
        sys.stderr.write(failure.render() + "\n")
        return 3
    return 0


def keep_freed_memory() -> None:
    """Has the C library keep what is freed, up to some size, and not give it back to the system.

    Batches come and go by the megabyte, and it costs more to get fresh pages for one than to fill them.
    """
    if sys.platform == "linux":
        mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
        if mallopt is not None:  # there are other C libraries
            mallopt(_TRIM_THRESHOLD, _TRIM_BYTES)
            mallopt(_MMAP_THRESHOLD, _MMAP_BYTES)
