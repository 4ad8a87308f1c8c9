"""Deterministic bytes for everything that is signed, hashed, stored or sent.

One value has one encoding, and only that encoding decodes: signatures and hashes are over encodings. An
encoding begins with its domain tag, `kabis/1/<kind>`, so that a signature for one kind of statement never
counts for another. Integers are big endian; bytes and texts carry their length in front.

Input from outside is decoded here. A decoder raises `DecodeError` and nothing else. Before it allocates,
it checks every length against a limit and against the number of bytes left.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from itertools import pairwise
from typing import Any, ClassVar, Self, TypeVar

from veristream.kabis.protocol.fields import derive

DIGEST_BYTES = 32
SIGNATURE_BYTES = 64
PUBLIC_KEY_BYTES = 32
NAME_BYTES_MAX = 249
"""The longest name of a topic, producer, party, group or chain: Kafka's limit for topics."""

ZERO_DIGEST = bytes(DIGEST_BYTES)

_TAG = re.compile(rb"kabis/[1-9][0-9]{0,3}/[a-z]+(-[a-z]+)*")
_TAG_BYTES_MAX = 64

_U16 = struct.Struct(">H")
_U32 = struct.Struct(">I")
_U64 = struct.Struct(">Q")

Item = TypeVar("Item")
Member = TypeVar("Member", bound=Enum)
Octets = bytes | memoryview
"""Bytes, or a view of a receive buffer, so that large payloads are not copied."""


class DecodeError(Exception):
    """The bytes are not a valid encoding of the expected kind."""


class UnknownKindError(DecodeError):
    """The bytes begin with a well-formed tag of a kind that this version does not know."""


def domain_tag(kind: str) -> bytes:
    """Returns the tag that begins an encoding of this kind, its length in front."""
    tag = b"kabis/1/" + kind.encode("ascii")
    return _U32.pack(len(tag)) + tag


class Writer:
    """Collects the parts of one encoding; raises ValueError for a value that could not be read back."""

    __slots__ = ("_parts",)

    def __init__(self, kind: str) -> None:
        self._parts = [domain_tag(kind)]

    def u8(self, value: int) -> None:
        """Appends one byte."""
        self._parts.append(bytes((value,)))

    def u16(self, value: int) -> None:
        """Appends two bytes."""
        self._pack(_U16, value)

    def u32(self, value: int) -> None:
        """Appends four bytes."""
        self._pack(_U32, value)

    def u64(self, value: int) -> None:
        """Appends eight bytes."""
        self._pack(_U64, value)

    def flag(self, value: bool) -> None:
        """Appends 1 for true, 0 for false."""
        self._parts.append(b"\x01" if value else b"\x00")

    def fixed(self, value: bytes, length: int) -> None:
        """Appends bytes of a length that both sides know."""
        if len(value) != length:
            raise ValueError(f"expected {length} bytes, got {len(value)}")
        self._parts.append(value)

    def digest(self, value: bytes) -> None:
        """Appends a SHA-256 digest."""
        self.fixed(value, DIGEST_BYTES)

    def signature(self, value: bytes) -> None:
        """Appends an Ed25519 signature."""
        self.fixed(value, SIGNATURE_BYTES)

    def public_key(self, value: bytes) -> None:
        """Appends an Ed25519 public key."""
        self.fixed(value, PUBLIC_KEY_BYTES)

    def blob(self, value: bytes, length_max: int) -> None:
        """Appends bytes, their length in front."""
        if len(value) > length_max:
            raise ValueError(f"{len(value)} bytes, at most {length_max}")
        self._parts.append(_U32.pack(len(value)))
        self._parts.append(value)

    def text(self, value: str, length_max: int = NAME_BYTES_MAX) -> None:
        """Appends the UTF-8 bytes of a text, their length in front."""
        self.blob(value.encode("utf-8"), length_max)

    def items(self, values: Iterable[Item], count_max: int, write: Callable[[Item], object]) -> None:
        """Appends the number of values, then each value by `write`."""
        values = tuple(values)
        if len(values) > count_max:
            raise ValueError(f"{len(values)} items, at most {count_max}")
        self.u32(len(values))
        for value in values:
            write(value)

    def repeat(self, values: Sequence[Item], count: int, write: Callable[[Item], object]) -> None:
        """Appends each value by `write`; both sides know the number of values."""
        if len(values) != count:
            raise ValueError(f"expected {count} items, got {len(values)}")
        for value in values:
            write(value)

    def option(self, value: Item | None, write: Callable[[Item], object]) -> None:
        """Appends a presence byte, then the value by `write` unless it is None."""
        self.flag(value is not None)
        if value is not None:
            write(value)

    def raw(self, value: bytes) -> None:
        """Appends bytes that end the encoding, or bytes of a length that the reader knows by then."""
        self._parts.append(value)

    def to_bytes(self) -> bytes:
        """Returns the encoding."""
        return b"".join(self._parts)

    def _pack(self, form: struct.Struct, value: int) -> None:
        try:
            self._parts.append(form.pack(value))
        except struct.error as error:
            raise ValueError(f"{value} does not fit {form.size} bytes") from error


class Reader:
    """Reads one encoding from front to back; every method raises DecodeError if the bytes do not fit."""

    __slots__ = ("_at", "_data")

    def __init__(self, data: bytes, kind: str) -> None:
        tag = domain_tag(kind)
        if not data.startswith(tag):
            raise DecodeError(f"not an encoded {kind}")
        self._data = data
        self._at = len(tag)

    @property
    def remaining(self) -> int:
        """The number of bytes left."""
        return len(self._data) - self._at

    def fixed(self, length: int) -> bytes:
        """Reads `length` bytes."""
        end = self._at + length
        if end > len(self._data):
            raise DecodeError(f"truncated: {length} bytes expected, {self.remaining} left")
        taken = self._data[self._at : end]
        self._at = end
        return taken

    def skip(self, expected: bytes) -> bool:
        """Skips these bytes and returns True if they come next."""
        found = self._data.startswith(expected, self._at)
        if found:
            self._at += len(expected)
        return found

    def u8(self) -> int:
        """Reads one byte."""
        return self.fixed(1)[0]

    def u16(self) -> int:
        """Reads two bytes."""
        return int.from_bytes(self.fixed(2), "big")

    def u32(self) -> int:
        """Reads four bytes."""
        return int.from_bytes(self.fixed(4), "big")

    def u64(self) -> int:
        """Reads eight bytes."""
        return int.from_bytes(self.fixed(8), "big")

    def flag(self) -> bool:
        """Reads a truth value; accepts only 0 and 1, so that it has one encoding."""
        value = self.u8()
        if value > 1:
            raise DecodeError(f"a flag is {value}, not 0 or 1")
        return value == 1

    def digest(self) -> bytes:
        """Reads a SHA-256 digest."""
        return self.fixed(DIGEST_BYTES)

    def signature(self) -> bytes:
        """Reads an Ed25519 signature."""
        return self.fixed(SIGNATURE_BYTES)

    def public_key(self) -> bytes:
        """Reads an Ed25519 public key."""
        return self.fixed(PUBLIC_KEY_BYTES)

    def blob(self, length_max: int) -> bytes:
        """Reads bytes that have their length in front."""
        length = self.u32()
        if length > length_max:
            raise DecodeError(f"{length} bytes, at most {length_max}")
        return self.fixed(length)

    def text(self, length_max: int = NAME_BYTES_MAX) -> str:
        """Reads a text."""
        try:
            return self.blob(length_max).decode("utf-8")
        except UnicodeDecodeError as error:
            raise DecodeError("a text is not valid UTF-8") from error

    def items(self, count_max: int, read: Callable[[], Item]) -> tuple[Item, ...]:
        """Reads a count, then as many values by `read`, each of which takes at least one byte."""
        count = self.u32()
        if count > count_max:
            raise DecodeError(f"{count} items, at most {count_max}")
        if count > self.remaining:
            raise DecodeError(f"truncated: {count} items expected, {self.remaining} bytes left")
        return tuple([read() for _ in range(count)])

    def repeat(self, count: int, read: Callable[[], Item]) -> tuple[Item, ...]:
        """Reads `count` values by `read`."""
        return tuple([read() for _ in range(count)])

    def ascending(
        self, items: tuple[Item, ...], what: str, key: Callable[[Item], Any] | None
    ) -> tuple[Item, ...]:
        """Returns the items if their keys strictly ascend, so that a set has one encoding."""
        keys = items if key is None else tuple(map(key, items))
        if any(not earlier < later for earlier, later in pairwise(keys)):  # type: ignore[operator]
            raise DecodeError(f"{what} are not in strictly ascending order")
        return items

    def member(self, kind: type[Member]) -> Member:
        """Reads a member of an enumeration by its value, in one byte."""
        try:
            return kind(self.u8())
        except ValueError as error:
            raise DecodeError(str(error)) from error

    def choose(self, readers: Sequence[Callable[[Reader], Item]], what: str) -> Item:
        """Reads a tag, in one byte, then a value by the reader with that number."""
        tag = self.u8()
        if tag >= len(readers):
            raise DecodeError(f"unknown kind of {what}: {tag}")
        return readers[tag](self)

    def option(self, read: Callable[[], Item]) -> Item | None:
        """Reads a presence byte, then a value by `read` if it is present."""
        return read() if self.flag() else None

    def end(self) -> None:
        """Raises DecodeError if bytes are left."""
        if self.remaining:
            raise DecodeError(f"{self.remaining} trailing bytes")


class Encoded:
    """A value with one encoding of its own.

    A class with a `kind` gets its `write` and `read` from the types of its fields (see `fields`), unless it
    has a `write` of its own.
    """

    __slots__ = ()

    KIND: ClassVar[str]

    def __init_subclass__(cls, kind: str | None = None) -> None:
        super().__init_subclass__()
        if kind is not None:  # a dataclass with slots is made a second time, without arguments
            cls.KIND = kind
        if "KIND" in vars(cls) and "write" not in vars(cls):
            if "read" in vars(cls):
                raise TypeError(f"{cls.__name__} has a read of its own, and no write")
            for name, function in derive(cls).items():
                setattr(cls, name, function)

    def write(self, writer: Writer) -> None:
        """Appends the value, without a tag: alone or inside another value."""
        raise NotImplementedError

    def encode(self) -> bytes:
        """Returns the value's only encoding."""
        writer = Writer(self.KIND)
        self.write(writer)
        return writer.to_bytes()


class Coded(Encoded):
    """A value that is also read back, from bytes that anybody may have made."""

    __slots__ = ()

    BYTES_MAX: ClassVar[int] = 1 << 24
    """The longest encoding that `decode` accepts."""

    def __init_subclass__(cls, kind: str | None = None, bytes_max: int | None = None) -> None:
        super().__init_subclass__(kind)
        if bytes_max is not None:
            cls.BYTES_MAX = bytes_max

    @classmethod
    def read(cls, reader: Reader) -> Self:
        """Takes what `write` appended; raises DecodeError."""
        raise NotImplementedError

    def check(self) -> None:
        """Raises DecodeError if fields that were read do not fit each other; `read` calls it last."""
        return

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Returns the value with this encoding; raises DecodeError and nothing else."""
        if len(data) > cls.BYTES_MAX:
            raise DecodeError(f"{len(data)} bytes, at most {cls.BYTES_MAX} for a {cls.KIND}")
        reader = Reader(data, cls.KIND)
        value = cls.read(reader)
        reader.end()
        return value


Kind = TypeVar("Kind", bound=Coded)


def decode_one_of(tags: Mapping[bytes, type[Kind]], data: bytes) -> Kind:
    """Decodes a value of the class that its domain tag selects."""
    length = int.from_bytes(data[:4], "big")
    kind = tags.get(data[: 4 + min(length, 64)])
    if kind is None:
        if _TAG.fullmatch(data[4 : 4 + min(length, _TAG_BYTES_MAX)]) and length <= _TAG_BYTES_MAX:
            raise UnknownKindError("unknown kind of transaction")
        raise DecodeError("not a transaction")
    return kind.decode(data)
