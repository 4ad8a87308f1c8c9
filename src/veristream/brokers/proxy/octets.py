"""The bytes of a message of Kafka's protocol, read one after the other."""

from __future__ import annotations

from struct import Struct
from typing import Final

_INT16: Final = Struct(">h")
_INT32: Final = Struct(">i")
_INT64: Final = Struct(">q")
_PRODUCER: Final = Struct(">qh")
VARINT_BYTES_MAX: Final = 5
UUID_BYTES: Final = 16


class TooShort(Exception):  # noqa: N818  # no error: the proxy forwards what it cannot read
    """The bytes end earlier, or say what no message can say."""


class Octets:
    """Reads from the front. `compact` lengths are varints, and structures end with tagged fields."""

    def __init__(self, data: bytes, *, compact: bool) -> None:
        self._data = data
        self._at = 0
        self._compact = compact

    def skip(self, count: int) -> None:
        """Passes over so many bytes."""
        self._at += count
        if self._at > len(self._data):
            raise TooShort

    def int16(self) -> int:
        """Reads an int16."""
        return self._number(_INT16)

    def int32(self) -> int:
        """Reads an int32."""
        return self._number(_INT32)

    def int64(self) -> int:
        """Reads an int64."""
        return self._number(_INT64)

    def flag(self) -> bool:
        """Reads a boolean."""
        self.skip(1)
        return self._data[self._at - 1] != 0

    def text(self) -> str | None:
        """Reads a string, which may be null."""
        return self._text(self._varint() - 1) if self._compact else self.classic_text()

    def classic_text(self) -> str | None:
        """Reads a string with two bytes for its length, as the client's name in a header always has."""
        return self._text(self.int16())

    def hexadecimal(self) -> str:
        """Reads a UUID as 32 digits."""
        self.skip(UUID_BYTES)
        return self._data[self._at - UUID_BYTES : self._at].hex()

    def length(self) -> int:
        """Reads the length of bytes or of an array; -1 is null."""
        return self._varint() - 1 if self._compact else self.int32()

    def count(self) -> int:
        """Reads the length of an array of items that have at least a byte each."""
        count = self.length()
        if count > len(self._data) - self._at:
            raise TooShort
        return max(count, 0)

    def tags(self) -> None:
        """Passes over tagged fields, if there are any in this version."""
        if self._compact:
            for _ in range(self._varint()):
                self._varint()
                self.skip(self._varint())

    def peek_byte(self, ahead: int) -> int:
        """Returns a byte further on."""
        if self._at + ahead >= len(self._data):
            raise TooShort
        return self._data[self._at + ahead]

    def peek_producer(self, ahead: int) -> tuple[int, int]:
        """Returns a producer's id and epoch further on."""
        if self._at + ahead + _PRODUCER.size > len(self._data):
            raise TooShort
        producer, epoch = _PRODUCER.unpack_from(self._data, self._at + ahead)
        return producer, epoch

    def _text(self, length: int) -> str | None:
        if length < 0:
            return None
        self.skip(length)
        return self._data[self._at - length : self._at].decode()

    def _number(self, form: Struct) -> int:
        self.skip(form.size)
        (number,) = form.unpack_from(self._data, self._at - form.size)
        return int(number)

    def _varint(self) -> int:
        value = 0
        for place in range(VARINT_BYTES_MAX):
            self.skip(1)
            byte = self._data[self._at - 1]
            value |= (byte & 0x7F) << 7 * place
            if byte < 0x80:
                return value
        raise TooShort
