"""Large arrays that cost memory only where they are used.

Address space is reserved once, so an array that grows is never copied; the system provides pages when they
are first written.
"""

from __future__ import annotations

import mmap
import os
import sys
import tempfile
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veristream.errors import EnvironmentFailure

MIB = 1 << 20
_NO_RESERVE = 0x4000 if sys.platform == "linux" else 0  # the module mmap does not name it
DEFAULT_SHARE = 0.6
"""The share of the machine's memory that a search may use if the user sets no limit."""


class OutOfMemoryError(Exception):
    """The budget does not allow another state; what is explored so far stays."""


@dataclass(frozen=True, slots=True)
class Reserve:
    """Reserved memory, seen as 64-bit words; it lives as long as this value."""

    words: NDArray[np.int64]
    mapping: Any

    @property
    def address(self) -> int:
        """The address of the first word."""
        return int(self.words.ctypes.data)

    def forget(self, first: int, last: int) -> None:
        """Frees the pages between two bytes; they are zero then."""
        _evict(self.mapping, first, last)


def _evict(mapping: Any, first: int, last: int) -> None:
    """Lets the system take back the pages between two bytes: with that of the first byte, without that of
    the last."""
    start, end = (place - place % mmap.PAGESIZE for place in (first, last))
    if start < end:
        mapping.madvise(mmap.MADV_DONTNEED, start, end - start)


def reserve(byte_count: int) -> Reserve:
    """Reserves zeroed memory; pages are allocated when they are first written."""
    size = max(mmap.PAGESIZE, -(-byte_count // 8) * 8)  # whole words
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NO_RESERVE
    try:
        mapping = mmap.mmap(-1, size, flags=flags)
    except (OSError, ValueError) as error:
        raise EnvironmentFailure(
            f"cannot reserve {size // MIB} MiB of address space ({error})",
            "set a smaller --max-memory-mib or --workers, or raise the limit on virtual memory (ulimit -v)",
        ) from error
    if hasattr(mmap, "MADV_HUGEPAGE") and size >= 4 * MIB:
        mapping.madvise(mmap.MADV_HUGEPAGE)  # random look-ups miss the page tables less
    return Reserve(np.frombuffer(mapping, dtype=np.int64, count=size // 8), mapping)


STEP = 64 * MIB
"""How much of a file is claimed on disk at a time."""


class DiskFullError(Exception):
    """The disk that states are spilled to is full."""


@dataclass(slots=True)
class Spill:
    """An array in a file: the system keeps the parts in use in memory, and `forget` releases the rest.

    Disk space is claimed before it is written to, so that a full disk is an error and not a crash.
    """

    words: NDArray[np.int64]
    mapping: Any
    handle: int
    claimed: int = 0

    @property
    def address(self) -> int:
        """The address of the first word."""
        return int(self.words.ctypes.data)

    def claim(self, byte_count: int) -> None:
        """Makes sure that the first bytes can be written; raises DiskFullError."""
        while self.claimed < byte_count:
            try:
                os.posix_fallocate(self.handle, self.claimed, STEP)
            except OSError as error:
                raise DiskFullError(str(error)) from error
            self.claimed += STEP

    def forget(self, first: int, last: int) -> None:
        """Evicts the pages between two bytes from this process's memory; they stay readable."""
        _evict(self.mapping, first, last)

    def close(self) -> None:
        """Releases the disk space."""
        os.close(self.handle)


def spill(byte_count: int, folder: str) -> Spill:
    """Reserves an array in a new file of the folder; the file is deleted when it is closed."""
    handle, name = tempfile.mkstemp(dir=folder, prefix="veristream-")
    os.unlink(name)
    size = max(STEP, byte_count + STEP)
    os.ftruncate(handle, size)
    mapping = mmap.mmap(handle, size, flags=mmap.MAP_SHARED)
    return Spill(np.frombuffer(mapping, dtype=np.int64, count=size // 8), mapping, handle)


def budget_bytes(memory_max_mib: int | None) -> int:
    """The bytes that a search may use; None stands for the default share of the machine's memory."""
    return (default_budget_mib() if memory_max_mib is None else memory_max_mib) * MIB


def default_budget_mib() -> int:
    """The default share of the memory of this machine, or of its control group if that has less."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        with open("/sys/fs/cgroup/memory.max", encoding="ascii") as file:
            limit = file.read().strip()
        if limit.isdigit():
            total = min(total, int(limit))
    except OSError:
        pass
    return int(total * DEFAULT_SHARE) // MIB
