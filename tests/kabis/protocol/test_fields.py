"""How `write` and `read` are derived from the types of fields."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from operator import itemgetter
from typing import Annotated, NamedTuple

import pytest

from veristream.kabis.protocol.codec import Coded, DecodeError, Encoded, Reader, Writer, domain_tag
from veristream.kabis.protocol.fields import (
    OMITTED,
    U8,
    U16,
    U32,
    ascending,
    at_most,
    blob,
    by,
    derive,
    exactly,
    fixed,
    tagged,
    text,
)


class Colour(Enum):
    RED = 1
    BLUE = 2


@dataclass(frozen=True, slots=True)
class Point:
    x: U8
    y: U8


class Pair(NamedTuple):
    left: U8
    right: U16


@dataclass(frozen=True, slots=True)
class Nothing:
    pass


Shape = Annotated[Point | Nothing, tagged("shape")]
Thing = Annotated[Pair | Shape, tagged("thing")]


def write_backwards(writer: Writer, value: str) -> None:
    writer.text(value[::-1])


def read_backwards(reader: Reader) -> str:
    return reader.text()[::-1]


@dataclass(frozen=True, slots=True)
class Part(Coded, kind="test-part"):
    number: U8

    def check(self) -> None:
        if self.number == 13:
            raise DecodeError("thirteen")


@dataclass(frozen=True, slots=True)
class Whole(Coded, kind="test-whole"):
    flag: bool
    colour: Colour
    part: Part
    point: Point
    pair: Pair
    short: Annotated[str, text(3)]
    key: Annotated[bytes, fixed(2)]
    word: Annotated[str, by(write_backwards, read_backwards)]
    items: Annotated[tuple[Annotated[bytes, blob(2)], ...], at_most(2)] = ()
    three: Annotated[tuple[U8, ...], exactly(3)] = (1, 2, 3)
    rising: Annotated[tuple[tuple[U8, U8], ...], at_most(9), ascending("pairs", itemgetter(0))] = ()
    maybe: Part | None = None
    thing: Thing = Nothing()
    unsaid: Annotated[int, OMITTED] = 7


WHOLE = Whole(True, Colour.BLUE, Part(1), Point(2, 3), Pair(4, 5), "né", b"ab", "stop")
FRONT = b"\x01\x02\x01\x02\x03\x04\x00\x05\x00\x00\x00\x03n\xc3\xa9ab\x00\x00\x00\x04pots"
BACK = b"\x00\x00\x00\x00\x01\x02\x03\x00\x00\x00\x00\x00\x01\x01"


def test_fields_follow_each_other() -> None:
    assert WHOLE.encode() == domain_tag("test-whole") + FRONT + BACK
    assert Whole.decode(WHOLE.encode()) == WHOLE


@pytest.mark.parametrize(
    ("value", "back"),
    [
        ({"items": (b"", b"xy")}, b"\0\0\0\x02\0\0\0\0\0\0\0\x02xy" + BACK[4:]),
        ({"three": (7, 8, 9)}, b"\0\0\0\0\x07\x08\x09" + BACK[7:]),
        ({"rising": ((1, 9), (2, 0))}, BACK[:7] + b"\0\0\0\x02\x01\x09\x02\0" + BACK[11:]),
        ({"maybe": Part(5)}, BACK[:11] + b"\x01\x05" + BACK[12:]),
        ({"thing": Pair(1, 2)}, BACK[:12] + b"\0\x01\0\x02"),
        ({"thing": Point(1, 2)}, BACK[:12] + b"\x01\0\x01\x02"),
    ],
)
def test_each_form(value: dict[str, object], back: bytes) -> None:
    fields = {name: getattr(WHOLE, name) for name in Whole.__slots__} | value
    whole = Whole(**fields)
    assert whole.encode() == domain_tag("test-whole") + FRONT + back
    assert Whole.decode(whole.encode()) == whole


def test_what_is_omitted_has_its_default() -> None:
    fields = {name: getattr(WHOLE, name) for name in Whole.__slots__} | {"unsaid": 8}
    assert Whole.decode(Whole(**fields).encode()).unsaid == 7


@pytest.mark.parametrize(
    ("front", "back", "problem"),
    [
        (b"\x02" + FRONT[1:], BACK, "a flag is 2, not 0 or 1"),
        (b"\x01\x03" + FRONT[2:], BACK, "3 is not a valid Colour"),
        (b"\x01\x02\x0d" + FRONT[3:], BACK, "thirteen"),
        (FRONT, b"\0\0\0\x03" + BACK[4:], "3 items, at most 2"),
        (
            FRONT,
            BACK[:7] + b"\0\0\0\x02\x01\0\x01\0" + BACK[11:],
            "pairs are not in strictly ascending order",
        ),
        (FRONT, BACK[:12] + b"\x02", "unknown kind of thing: 2"),
        (FRONT, BACK[:12] + b"\x01\x02", "unknown kind of shape: 2"),
        (FRONT, BACK + b"\0", "1 trailing bytes"),
        (FRONT, BACK[:-1], "truncated"),
    ],
)
def test_what_does_not_decode(front: bytes, back: bytes, problem: str) -> None:
    with pytest.raises(DecodeError, match=problem):
        Whole.decode(domain_tag("test-whole") + front + back)


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ({"short": "four"}, "4 bytes, at most 3"),
        ({"key": b"abc"}, "expected 2 bytes, got 3"),
        ({"items": (b"",) * 3}, "3 items, at most 2"),
        ({"three": (1, 2)}, "expected 3 items, got 2"),
        ({"pair": Pair(0, 1 << 16)}, "65536 does not fit 2 bytes"),
    ],
)
def test_what_could_not_be_read_back_is_not_written(value: dict[str, object], problem: str) -> None:
    fields = {name: getattr(WHOLE, name) for name in Whole.__slots__} | value
    with pytest.raises(ValueError, match=problem):
        Whole(**fields).encode()


def test_what_is_only_encoded_has_no_read() -> None:
    @dataclass(frozen=True, slots=True)
    class Statement(Encoded, kind="test-statement"):
        number: U32

    assert Statement(7).encode() == domain_tag("test-statement") + b"\0\0\0\x07"
    assert not hasattr(Statement, "read")


def test_what_is_written_by_hand_stays() -> None:
    @dataclass(frozen=True, slots=True)
    class Hand(Encoded, kind="test-hand"):
        number: int

        def write(self, writer: Writer) -> None:
            writer.u8(self.number + 1)

    assert Hand(7).encode() == domain_tag("test-hand") + b"\x08"


class Bare:
    number: int


class Either:
    number: U8 | Point


@pytest.mark.parametrize(("cls", "problem"), [(Bare, "needs an annotation"), (Either, "needs `tagged`")])
def test_a_type_that_leaves_the_encoding_open(cls: type, problem: str) -> None:
    with pytest.raises(TypeError, match=problem):
        derive(cls)
