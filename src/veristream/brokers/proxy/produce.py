"""What Produce requests and their answers say: who wrote with which epoch, and what the broker made of it.

Only the first batch is looked at: experiments that steer single writes send one at a time.
"""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct, error
from typing import Final

from veristream.brokers.proxy.kafka import Key
from veristream.brokers.proxy.pieces import Piece

_FLEXIBLE: Final = 9
"""From this version on, lengths are variable and fields may be tagged."""

_TOPIC_IDS: Final = 13
"""From this version on, topics have ids instead of names."""

_OLDEST: Final = 3
_ID_BYTES: Final = 16
_SHORT: Final = Struct(">h")
_LONG: Final = Struct(">i")
_PRODUCER: Final = Struct(">qh")
_PRODUCER_AT: Final = 43
"""Where a batch has its producer: behind its offset, length, checksum, count and times."""

_OFFSET: Final = Struct(">q")


@dataclass(frozen=True, slots=True)
class Written:
    """Of a Produce request: its version, the transactional id, and the producer's id and epoch."""

    version: int
    transactional_id: str
    producer: int
    epoch: int


@dataclass(frozen=True, slots=True)
class Answered:
    """Of the answer: an error code of Kafka, 0 for none, and the offset of the first record."""

    error: int
    offset: int


def read_written(piece: Piece) -> Written | None:
    """Reads a Produce request; None if it is none, or one that cannot be read."""
    request = piece.request
    if request is None or request.key != Key.PRODUCE or request.version < _OLDEST:
        return None
    flexible = request.version >= _FLEXIBLE
    fields = _Fields(piece.data, flexible)
    try:
        fields.skip(_LONG.size + 2 * _SHORT.size + _LONG.size)
        fields.skip(max(0, fields.number(_SHORT)))  # the client's name, which is never compact
        fields.tags()
        id_ = fields.text()
        fields.skip(_SHORT.size + _LONG.size)  # acks and timeout
        fields.count()
        fields.topic(request.version)
        fields.count()
        fields.skip(_LONG.size)  # the partition
        fields.count()  # bytes of its records
        fields.skip(_PRODUCER_AT)
        producer, epoch = fields.pair(_PRODUCER)
    except (error, IndexError):
        return None
    return Written(request.version, id_, producer, epoch)


def read_answered(piece: Piece) -> Answered | None:
    """Reads the answer to a Produce request; None if it is none, or one that cannot be read."""
    request = piece.request
    if request is None or request.key != Key.PRODUCE or request.version < _OLDEST:
        return None
    fields = _Fields(piece.data, request.version >= _FLEXIBLE)
    try:
        fields.skip(2 * _LONG.size)  # length and correlation id
        fields.tags()
        fields.count()
        fields.topic(request.version)
        fields.count()
        fields.skip(_LONG.size)  # the partition
        return Answered(fields.number(_SHORT), fields.number(_OFFSET))
    except (error, IndexError):
        return None


class _Fields:
    """Reads fields one after the other; raises IndexError or struct.error beyond the end."""

    def __init__(self, data: bytes, flexible: bool) -> None:
        self._data = data
        self._flexible = flexible
        self._at = 0

    def skip(self, size: int) -> None:
        self._at += size

    def number(self, form: Struct) -> int:
        (value,) = self.pair(form)
        return value

    def pair(self, form: Struct) -> tuple[int, ...]:
        values = form.unpack_from(self._data, self._at)
        self._at += form.size
        return values

    def count(self) -> int:
        """Reads the length of an array or of bytes."""
        return self._variable() - 1 if self._flexible else self.number(_LONG)

    def text(self) -> str:
        size = self._variable() - 1 if self._flexible else self.number(_SHORT)
        self._at += max(0, size)
        return self._data[self._at - max(0, size) : self._at].decode(errors="replace")

    def topic(self, version: int) -> None:
        if version >= _TOPIC_IDS:
            self.skip(_ID_BYTES)
        else:
            self.text()

    def tags(self) -> None:
        """Skips tagged fields, which only newer versions have."""
        for _ in range(self._variable() if self._flexible else 0):
            self._variable()
            self.skip(self._variable())

    def _variable(self) -> int:
        value = shift = 0
        while True:
            byte = self._data[self._at]
            self._at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value
