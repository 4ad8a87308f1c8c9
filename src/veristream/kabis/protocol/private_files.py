"""Small files with secrets in them: only their owner may read them, and none is ever overwritten."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from veristream.errors import EnvironmentFailure, ModelError

PRIVATE_BYTES_MAX = 1 << 20


def write_private(path: Path, text: str) -> None:
    """Writes a new file that only its owner may read, durably."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
    except FileExistsError as error:
        hint = "choose another name; keys are never overwritten"
        raise ModelError(f"{path} exists already", hint=hint) from error
    except OSError as error:
        raise EnvironmentFailure(f"cannot write {path}: {error.strerror}") from error


def read_private(path: Path) -> str:
    """The text of a file; refuses one that others may read."""
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            data = file.read(PRIVATE_BYTES_MAX)
    except OSError as error:
        raise EnvironmentFailure(f"cannot read {path}: {error.strerror}") from error
    if stat.S_IMODE(mode) & 0o077:
        raise ModelError(f"others may read {path}, which holds a secret", hint=f"chmod 600 {path}")
    return data.decode("ascii", errors="replace")
