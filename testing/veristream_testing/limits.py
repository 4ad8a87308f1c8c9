"""Limits of this process that stand in for a full disk and for too many open files."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def file_size_limit(size_bytes: int) -> Iterator[None]:
    """Within it, no file may grow beyond a size: a full disk that needs no disk."""
    with _limited(resource.RLIMIT_FSIZE, size_bytes):
        yield


@contextmanager
def no_more_files() -> Iterator[None]:
    """Within it, the process may open no further file."""
    free = os.dup(0)  # the lowest free number, and all below it are in use
    os.close(free)
    with _limited(resource.RLIMIT_NOFILE, free):
        yield


@contextmanager
def _limited(kind: int, value: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(kind)
    resource.setrlimit(kind, (value, hard))
    try:
        yield
    finally:
        resource.setrlimit(kind, (soft, hard))
