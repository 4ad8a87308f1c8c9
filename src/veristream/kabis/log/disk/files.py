"""Files that are whole or not there: what the log asks of a file system, and how it says that it failed."""

from __future__ import annotations

import errno
import fcntl
import os
from contextlib import suppress
from pathlib import Path

from veristream.errors import EnvironmentFailure

_HOLDER_BYTES = 20
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


class InUse(EnvironmentFailure):
    """Another process has this folder open."""


class Full(EnvironmentFailure):
    """There is no room for it; nothing of it was kept."""


class Failed(EnvironmentFailure):
    """The disk did not do what it was asked, so that nobody knows what is on it until it is opened anew."""


def flush(descriptor: int) -> None:
    """Returns when the file's bytes are on the disk."""
    if hasattr(os, "fdatasync"):
        os.fdatasync(descriptor)
    elif hasattr(fcntl, "F_FULLFSYNC"):  # macOS: fsync leaves them in the drive's own cache
        fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
    else:
        os.fsync(descriptor)


def flush_folder(folder: Path) -> None:
    """Returns when the folder's names are on the disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_all(descriptor: int, data: bytes) -> None:
    """Writes every byte at the descriptor's place, however many calls it takes."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def replace(path: Path, data: bytes, *, flushed: bool = True) -> None:
    """Makes the file hold exactly these bytes; after a crash it is the old one or the new one, whole.

    Not `flushed`, it is only as good as its own checksum says, and costs no wait for the disk.
    """
    fresh = path.with_name(path.name + ".new")
    try:
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            write_all(descriptor, data)
            if flushed:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.replace(fresh, path)
    except OSError as error:
        with suppress(OSError):
            fresh.unlink()
        raise failure(error, path) from error
    if flushed:
        flush_folder(path.parent)


def failure(error: OSError, path: Path) -> EnvironmentFailure:
    """The error of the system, in words that say what was lost (nothing) and what to do."""
    if error.errno in _FULL:
        return Full(
            f"no room to write {path}: {error.strerror}; nothing of it was kept",
            "free space, or let retention remove older segments",
        )
    return Failed(
        f"{path}: {error.strerror}", "look at the disk and its permissions, then start the party again"
    )


def lock(folder: Path) -> int:
    """The descriptor that holds the folder for this process; `InUse` when another has it."""
    path = folder / "lock"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.pread(descriptor, _HOLDER_BYTES, 0).decode("ascii", "replace").strip()
        os.close(descriptor)
        raise InUse(
            f"{folder} is in use by process {holder or 'unknown'}",
            "stop that process, or give this one a folder of its own",
        ) from None
    os.pwrite(descriptor, str(os.getpid()).encode().ljust(_HOLDER_BYTES), 0)
    return descriptor
