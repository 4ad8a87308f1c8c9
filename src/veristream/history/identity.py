"""How a message that a recorder sends says which one it is: its producer and its number.

The identity is ASCII, `vs:PRODUCER:NUMBER`, such as `vs:3:12345`. Brokers with headers carry it in the
header `veristream-id`; without headers, the payload begins with it and a `;`, and the bytes proper follow.
"""

from __future__ import annotations

import re
from typing import Final

from veristream.history.events import NONE

HEADER: Final = "veristream-id"
"""The header of a message that carries its identity."""

UNKNOWN: Final = (NONE, NONE)
"""The identity of a message that has none, or one that nobody here wrote."""

_IDENTITY: Final = re.compile(rb"vs:(0|[1-9][0-9]{0,9}):(0|[1-9][0-9]{0,18})")
_AT_START: Final = re.compile(_IDENTITY.pattern + rb";")
_PRODUCER_MAX: Final = 2**31 - 1
_NUMBER_MAX: Final = 2**63 - 1


def encode(producer: int, number: int) -> bytes:
    """Returns the value of the header."""
    return b"vs:%d:%d" % (producer, number)


def decode(value: bytes | None) -> tuple[int, int]:
    """Returns the producer and the number that a header says; `UNKNOWN` if it is no identity."""
    return UNKNOWN if value is None else _named(_IDENTITY.fullmatch(value))


def encode_payload(producer: int, number: int, body: bytes = b"") -> bytes:
    """Returns a payload that begins with the identity."""
    return b"vs:%d:%d;%b" % (producer, number, body)


def decode_payload(payload: bytes | None) -> tuple[int, int]:
    """Returns the producer and the number that a payload begins with; `UNKNOWN` if it does not."""
    return UNKNOWN if payload is None else _named(_AT_START.match(payload))


def _named(match: re.Match[bytes] | None) -> tuple[int, int]:
    if match is None:
        return UNKNOWN
    producer, number = int(match[1]), int(match[2])
    return (producer, number) if producer <= _PRODUCER_MAX and number <= _NUMBER_MAX else UNKNOWN
