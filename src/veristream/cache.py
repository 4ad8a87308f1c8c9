"""The cache directory: programs and tables that are made once and used by later processes.

An entry carries a digest of its content, so that a damaged one is noticed, and is written atomically, so
that several processes may use the cache at once. A cache that cannot be used is as good as an empty one.
"""

from __future__ import annotations

import os
from hashlib import sha256
from pathlib import Path

_DIGEST_BYTES = 32


def cache_directory(name: str) -> Path:
    """Returns a folder in $VERISTREAM_CACHE, or else in the user's cache directory."""
    own = os.environ.get("VERISTREAM_CACHE")
    if own:
        return Path(own) / name
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "veristream" / name


def read_entry(path: Path) -> bytes | None:
    """Returns the content of an entry, or None if it is missing or damaged."""
    try:
        written = path.read_bytes()
    except OSError:
        return None
    digest, content = written[:_DIGEST_BYTES], written[_DIGEST_BYTES:]
    return content if sha256(content).digest() == digest else None


def write_entry(path: Path, content: bytes) -> None:
    """Writes an entry atomically; does nothing if the cache cannot be written."""
    import tempfile  # with much else, and seldom needed

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
        with os.fdopen(handle, "wb") as file:
            file.write(sha256(content).digest() + content)
        os.replace(name, path)
    except OSError:
        return
