"""Tables whose changes are pending until committed, and the encoding of their keys."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar

from veristream.kabis.protocol.codec import PUBLIC_KEY_BYTES, DecodeError, Reader, Writer

STATE_NAME_BYTES_MAX = 1024
"""More than `NAME_BYTES_MAX`, since the name of an accused producer ends with its key epoch."""
KEY_BYTES_MAX = 4096

KeyPart = str | int | bytes
TableKey = str | int | bytes | tuple[KeyPart, ...]
KeyType = TypeVar("KeyType", bound=TableKey)
Value = TypeVar("Value")


class Table(Generic[KeyType, Value]):
    """A map whose changes are visible at once, until `commit` keeps them or `discard` drops them."""

    __slots__ = ("_changes", "_kept")

    def __init__(self) -> None:
        self._kept: dict[KeyType, Value] = {}
        self._changes: dict[KeyType, Value | None] = {}

    def get(self, key: KeyType) -> Value | None:
        """Returns the value of a key, or None."""
        return self._changes[key] if key in self._changes else self._kept.get(key)

    def put(self, key: KeyType, value: Value) -> None:
        """Sets the value of a key."""
        self._changes[key] = value

    def drop(self, key: KeyType) -> None:
        """Removes a key."""
        self._changes[key] = None

    def items(self) -> Iterator[tuple[KeyType, Value]]:
        """Iterates over keys and values, in no particular order."""
        for key, value in self._kept.items():
            if key not in self._changes:
                yield key, value
        for key, changed in self._changes.items():
            if changed is not None:
                yield key, changed

    def changes(self) -> list[tuple[KeyType, Value | None]]:
        """Returns the pending changes; None is a removal."""
        return list(self._changes.items())

    def commit(self) -> None:
        """Keeps the pending changes."""
        for key, value in self._changes.items():
            if value is None:
                self._kept.pop(key, None)
            else:
                self._kept[key] = value
        self._changes.clear()

    def discard(self) -> None:
        """Drops the pending changes."""
        self._changes.clear()


def encode_key(key: TableKey) -> bytes:
    """Returns the only encoding of a table's key."""
    writer = Writer("state-key")
    for part in key if isinstance(key, tuple) else (key,):
        if isinstance(part, str):
            writer.u8(1)
            writer.text(part, STATE_NAME_BYTES_MAX)
        elif isinstance(part, int):
            writer.u8(2)
            writer.u64(part)
        else:
            writer.u8(3)
            writer.blob(part, PUBLIC_KEY_BYTES)
    return writer.to_bytes()


def decode_key(data: bytes) -> tuple[KeyPart, ...]:
    """Returns the parts of an encoded key; raises DecodeError."""
    reader = Reader(data, "state-key")
    parts: list[KeyPart] = []
    while reader.remaining:
        match reader.u8():
            case 1:
                parts.append(reader.text(STATE_NAME_BYTES_MAX))
            case 2:
                parts.append(reader.u64())
            case 3:
                parts.append(reader.blob(PUBLIC_KEY_BYTES))
            case kind:
                raise DecodeError(f"unknown kind of part in a key: {kind}")
    return tuple(parts)
