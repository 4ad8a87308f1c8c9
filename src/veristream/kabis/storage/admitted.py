"""Compact records of what the chain admitted: about 60 bytes for each batch above the low-water mark."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence

from veristream.kabis.protocol.codec import DIGEST_BYTES


class AdmittedStream:
    """The admitted batches of one stream, by their first sequence numbers, which ascend."""

    __slots__ = ("_digests", "_firsts")

    def __init__(self) -> None:
        self._firsts = array("Q")
        self._digests = bytearray()

    def add(self, first_sequence: int, digest: bytes) -> None:
        """Adds the next admitted batch."""
        self._firsts.append(first_sequence)
        self._digests += digest

    def digest_of(self, first_sequence: int) -> bytes | None:
        """Returns the digest of the admitted batch that begins with a number, or None."""
        place = bisect_left(self._firsts, first_sequence)
        if place == len(self._firsts) or self._firsts[place] != first_sequence:
            return None
        return bytes(self._digests[place * DIGEST_BYTES : (place + 1) * DIGEST_BYTES])

    def last_before(self, next_sequence: int) -> tuple[int, bytes]:
        """Returns the first number and the digest of the admitted batch that ends with a number."""
        place = bisect_left(self._firsts, next_sequence) - 1
        return self._firsts[place], bytes(self._digests[place * DIGEST_BYTES : (place + 1) * DIGEST_BYTES])

    def columns(self) -> tuple[bytes, ...]:
        """Returns everything as bytes, for `restore`."""
        return self._firsts.tobytes(), bytes(self._digests)

    def restore(self, columns: Sequence[bytes]) -> None:
        """Takes over columns; raises ValueError if they do not fit together."""
        firsts, digests = columns
        self._firsts, self._digests = array("Q", firsts), bytearray(digests)
        if len(digests) != DIGEST_BYTES * len(self._firsts):
            raise ValueError("columns of different lengths")

    def let_go(self, next_sequence: int) -> None:
        """Forgets the batches that begin below a number."""
        count = bisect_left(self._firsts, next_sequence)
        del self._firsts[:count]
        del self._digests[: count * DIGEST_BYTES]


class AdmittedOrder:
    """The admitted batches of one partition in their order: where each ends, and whose it is."""

    __slots__ = ("_ends", "_next_sequences", "_streams", "next_index")

    def __init__(self) -> None:
        self.next_index = 0
        self._ends = array("Q")
        self._streams = array("I")
        self._next_sequences = array("Q")

    def add(self, count: int, stream: int, next_sequence: int) -> None:
        """Adds a batch of so many events; `stream` is the number of its stream."""
        self.next_index += count
        self._ends.append(self.next_index)
        self._streams.append(stream)
        self._next_sequences.append(next_sequence)

    def first_after(self, index: int) -> tuple[int, int, int] | None:
        """Returns the first batch that ends after an index: its end, and what `add` was given."""
        place = bisect_right(self._ends, index)
        if place == len(self._ends):
            return None
        return self._ends[place], self._streams[place], self._next_sequences[place]

    def columns(self) -> tuple[bytes, ...]:
        """Returns everything but `next_index` as bytes, for `restore`."""
        return self._ends.tobytes(), self._streams.tobytes(), self._next_sequences.tobytes()

    def restore(self, next_index: int, columns: Sequence[bytes]) -> None:
        """Takes over columns; raises ValueError if they do not fit together."""
        ends, streams, next_sequences = columns
        self.next_index = next_index
        self._ends, self._streams = array("Q", ends), array("I", streams)
        self._next_sequences = array("Q", next_sequences)
        if not len(self._ends) == len(self._streams) == len(self._next_sequences):
            raise ValueError("columns of different lengths")

    def let_go(self, index: int) -> Iterator[tuple[int, int]]:
        """Forgets the batches wholly below an index; yields their streams and ends."""
        count = bisect_right(self._ends, index)
        yield from zip(self._streams[:count], self._next_sequences[:count], strict=True)
        for each in (self._ends, self._streams, self._next_sequences):
            del each[:count]
