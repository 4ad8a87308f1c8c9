"""The digest of a message's bytes, by which a receipt shows whether they were altered."""

from __future__ import annotations

from zlib import crc32


def digest(payload: bytes | str | None) -> int:
    """Returns a number of the bytes, of a text as UTF-8; never 0, which says that none was taken."""
    if isinstance(payload, str):
        payload = payload.encode()
    return crc32(payload or b"") or 1
