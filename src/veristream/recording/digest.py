"""The digest of a message's bytes, by which a receipt shows whether they were altered."""

from __future__ import annotations

from zlib import crc32


def digest(payload: bytes | str | None) -> int:
    """Returns a number of the bytes, of a text as UTF-8; never 0, which says that none was taken."""
    try:
        return crc32(payload) or 1  # type: ignore[arg-type]
    except TypeError:
        return crc32(payload.encode() if isinstance(payload, str) else b"") or 1
