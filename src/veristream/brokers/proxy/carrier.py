"""Moves bytes from one socket to another: on Linux inside of the kernel, elsewhere through a buffer."""

from __future__ import annotations

import fcntl
import os
import socket
import sys
from contextlib import suppress
from typing import Final, Protocol

CARRIED: Final = 1 << 20
"""How much is under way at most."""


class Carrier(Protocol):
    """Takes bytes from sockets that do not block, and hands them on in their order."""

    @property
    def held(self) -> int:
        """How many bytes were taken and not handed on."""
        ...

    def take(self, source: socket.socket, limit: int) -> int:
        """Takes up to so many bytes, if it holds none; 0 is the end. Raises OSError."""
        ...

    def give(self, target: socket.socket) -> int:
        """Hands on what it holds, or a part; returns how much. Raises OSError."""
        ...

    def close(self) -> None:
        """Forgets what it holds."""
        ...


class Pipe:
    """A pipe of the kernel: the bytes never come to this process (splice)."""

    def __init__(self) -> None:
        self._exit, self._entry = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        with suppress(OSError):  # a user's pipes are limited: a smaller one is slower
            fcntl.fcntl(self._entry, fcntl.F_SETPIPE_SZ, CARRIED)
        self.held = 0

    def take(self, source: socket.socket, limit: int) -> int:
        """Takes what is there."""
        count = os.splice(source.fileno(), self._entry, min(limit, CARRIED), flags=_FLAGS)
        self.held += count
        return count

    def give(self, target: socket.socket) -> int:
        """Hands on what fits."""
        count = os.splice(self._exit, target.fileno(), self.held, flags=_FLAGS)
        self.held -= count
        return count

    def close(self) -> None:
        """Closes the pipe."""
        os.close(self._exit)
        os.close(self._entry)
        self.held = 0


class Buffer:
    """A buffer of this process."""

    def __init__(self) -> None:
        self._whole = memoryview(bytearray(CARRIED))
        self._rest = self._whole[:0]

    @property
    def held(self) -> int:
        """How many bytes were taken and not handed on."""
        return len(self._rest)

    def take(self, source: socket.socket, limit: int) -> int:
        """Takes what is there."""
        count = source.recv_into(self._whole, min(limit, CARRIED))
        self._rest = self._whole[:count]
        return count

    def give(self, target: socket.socket) -> int:
        """Hands on what fits."""
        count = target.send(self._rest)
        self._rest = self._rest[count:]
        return count

    def close(self) -> None:
        """Forgets what it holds."""
        self._rest = self._whole[:0]


HAS_SPLICE: Final = sys.platform == "linux"
_FLAGS: Final = os.SPLICE_F_MOVE | os.SPLICE_F_NONBLOCK if HAS_SPLICE else 0


def make_carrier() -> Carrier:
    """Returns what moves bytes fastest on this system."""
    return Pipe() if HAS_SPLICE else Buffer()
