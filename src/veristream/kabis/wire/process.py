"""The start and the end of a party's process."""

from __future__ import annotations

import ctypes
import logging
import sys
from collections.abc import Callable, Coroutine
from typing import Any

from veristream.errors import EnvironmentFailure, ModelError
from veristream.kabis.wire.endpoints import run
from veristream.kabis.wire.quotas import raise_file_limit

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # the GNU C library's names for them begin with M_
_TRIM_BYTES, _MMAP_BYTES = 64 << 20, 32 << 20


def run_process(work: Callable[[], Coroutine[Any, Any, None]]) -> int:
    """Does the work and logs to stderr; returns the exit status, and logs why it is not 0."""
    logging.basicConfig(
        stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s"
    )
    keep_freed_memory()
    raise_file_limit()
    return tell_failures(lambda: run(work()))


def tell_failures(work: Callable[[], None]) -> int:
    """Does the work; returns the exit status, and writes to stderr why it is not 0."""
    try:
        work()
    except ModelError as error:
        sys.stderr.write(error.render() + "\n")
        return 2
    except EnvironmentFailure as failure:
        sys.stderr.write(failure.render() + "\n")
        return 3
    return 0


def keep_freed_memory() -> None:
    """Makes the C library keep freed memory, up to some size, instead of returning it to the system.

    Batches of a megabyte are allocated often, and getting fresh pages costs more than filling them.
    """
    if sys.platform == "linux":
        mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
        if mallopt is not None:  # there are other C libraries
            mallopt(_TRIM_THRESHOLD, _TRIM_BYTES)
            mallopt(_MMAP_THRESHOLD, _MMAP_BYTES)
