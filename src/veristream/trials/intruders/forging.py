"""Forgeries in the bytes of others: a message of a Produce request is exchanged, its checksum corrected."""

from __future__ import annotations

import re
import socket
from collections.abc import Sequence
from struct import Struct
from typing import Final

from veristream.brokers.proxy.pieces import PASS, Change, Decision, Piece

_LENGTH: Final = Struct(">i")
_CHECKSUM: Final = Struct(">I")
_LENGTH_AT, _LENGTH_END, _MAGIC_AT, _CHECKSUM_AT, _CHECKED_FROM = 8, 12, 16, 17, 21
"""Where a batch of records has its fields (Kafka's message format, version 2)."""
_REFUSAL: Final = re.compile(rb"Authentication failed[ -~]*")
ANSWER_S: Final = 30.0
ANSWER_BYTES: Final = 1 << 16


def forge(data: bytes, old: bytes, new: bytes) -> bytes | None:
    """Returns the data with `new` in place of `old`, and the checksum of its batch corrected.

    Returns None if `old` is not in a whole batch. Both must have the same length.
    """
    if len(old) != len(new):
        raise ValueError("a forgery must be as long as what it replaces")
    found = data.find(old)
    for start in range(found - _CHECKED_FROM, -1, -1):
        end = start + _LENGTH_END + _LENGTH.unpack_from(data, start + _LENGTH_AT)[0]
        if data[start + _MAGIC_AT] == 2 and found + len(old) <= end <= len(data):
            (stated,) = _CHECKSUM.unpack_from(data, start + _CHECKSUM_AT)
            if stated == checksum(data[start + _CHECKED_FROM : end]):
                changed = bytearray(data)
                changed[found : found + len(old)] = new
                correct = checksum(bytes(changed[start + _CHECKED_FROM : end]))
                _CHECKSUM.pack_into(changed, start + _CHECKSUM_AT, correct)
                return bytes(changed)
    return None


def checksum(data: bytes) -> int:
    """Computes CRC-32C, which anybody can compute: it protects from accidents, not from intruders."""
    remainder = 0xFFFFFFFF
    for byte in data:
        remainder = _TABLE[(remainder ^ byte) & 0xFF] ^ (remainder >> 8)
    return remainder ^ 0xFFFFFFFF


def _tabulate(remainder: int) -> int:
    for _ in range(8):
        remainder = (remainder >> 1) ^ (0x82F63B78 if remainder & 1 else 0)
    return remainder


_TABLE: Final = tuple(map(_tabulate, range(256)))


class Changer:
    """Exchanges a message on its way to the broker; a decision about pieces, which lets all others pass."""

    def __init__(self, old: str, new: str) -> None:
        self._old, self._new = old.encode(), new.encode()
        self._changed = 0

    @property
    def changed(self) -> int:
        """How many pieces it has changed."""
        return self._changed

    def __call__(self, piece: Piece) -> Decision:
        if piece.direction != "to broker" or self._old not in piece.data:
            return PASS
        forged = forge(piece.data, self._old, self._new)
        if forged is None:
            return PASS
        self._changed += 1
        return Change(forged)


def replay(address: str, session: Sequence[bytes], old: str, new: str) -> str:
    """Sends what a client has sent, on a new connection, with `new` in place of the message `old`.

    Each piece waits for an answer to the one before it. Returns how the broker refuses, if it does.
    """
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=ANSWER_S) as connection:
        for number, piece in enumerate(session, start=1):
            forged = forge(piece, old.encode(), new.encode()) if old.encode() in piece else None
            try:
                connection.sendall(piece if forged is None else forged)
                answer = connection.recv(ANSWER_BYTES)
            except TimeoutError:
                return f"the broker does not answer piece {number} of {len(session)}"
            except OSError:
                answer = b""
            refusal = _REFUSAL.search(answer)
            if refusal is not None:
                return refusal[0].decode()
            if not answer:
                return f"the broker ends the connection after {number} of {len(session)} pieces"
    return ""
