"""Atomic and durable file operations, and the errors of the file system."""

from __future__ import annotations

import errno
import fcntl
import os
from contextlib import suppress
from pathlib import Path

from veristream.errors import EnvironmentFailure

_HOLDER_BYTES = 20
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_NO_FILES = frozenset({errno.EMFILE, errno.ENFILE})


class InUse(EnvironmentFailure):
    """Another process has this folder open."""


class Full(EnvironmentFailure):
    """The disk is full; nothing was written."""


class OutOfFiles(Full):
    """The process or the machine may open no more files; nothing was written."""


class Failed(EnvironmentFailure):
    """The disk failed, so that its contents are unknown until the log is reopened."""


def flush(descriptor: int) -> None:
    """Waits until the file's bytes are on the disk."""
    if hasattr(os, "fdatasync"):
        os.fdatasync(descriptor)
    elif hasattr(fcntl, "F_FULLFSYNC"):  # macOS: fsync leaves them in the drive's own cache
        fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
    else:
        os.fsync(descriptor)


def flush_folder(folder: Path) -> None:
    """Waits until the folder's names are on the disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_all(descriptor: int, data: bytes) -> None:
    """Writes every byte at the descriptor's position, with as many calls as it takes."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def replace(path: Path, data: bytes, *, flushed: bool = True) -> None:
    """Replaces a file with these bytes; after a crash it is the old one or the new one, complete.

    Unless `flushed`, it does not wait for the disk, and only the file's own checksum shows damage.
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
        try:
            flush_folder(path.parent)
        except OSError as error:
            raise failure(error, path.parent) from error


def open_file(path: Path, flags: int) -> int:
    """Opens an existing file and returns the descriptor; raises `OutOfFiles` if no more may be opened."""
    try:
        return os.open(path, flags | os.O_CLOEXEC)
    except OSError as error:
        raise failure(error, path) from error


def failure(error: OSError, path: Path) -> EnvironmentFailure:
    """Returns the error for a failed operation, with a hint."""
    if error.errno in _NO_FILES:
        return OutOfFiles(
            f"cannot open {path}: {error.strerror}",
            "raise the limit of open files (ulimit -n), or close connections",
        )
    if error.errno in _FULL:
        return Full(
            f"no room to write {path}: {error.strerror}; nothing of it was kept",
            "free space, or let retention remove older segments",
        )
    return Failed(
        f"{path}: {error.strerror}", "look at the disk and its permissions, then start the party again"
    )


def lock(folder: Path) -> int:
    """Locks the folder for this process and returns the descriptor. Raises `InUse` if another has it."""
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
