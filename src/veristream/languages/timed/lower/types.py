"""Resolved types, and the layout of data.

Numbers have the type of the IR. Structs and arrays are stored by their *leaves*: a struct as one variable
per field, `s.f`, and an array of structs as arrays of fields.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from math import prod

from veristream.ir import expr as ir

Range = ir.Type
INT = Range(-32768, 32767)
"""The default range, which only variables have."""
WIDE = Range(-(2**31), 2**31 - 1)
"""The range of a constant `int`."""
PADDING_MAX = 16


@dataclass(frozen=True, slots=True)
class Clock:
    """The type of clocks."""


@dataclass(frozen=True, slots=True)
class Channel:
    """The type of channels."""

    urgent: bool = False
    broadcast: bool = False


@dataclass(frozen=True, slots=True)
class Void:
    """The result type of a function that returns no value."""


@dataclass(frozen=True, slots=True)
class Record:
    """A struct."""

    fields: tuple[tuple[str, Type], ...]


@dataclass(frozen=True, slots=True)
class Dimension:
    """The indices of an array, `low` to `high`, both included."""

    low: int
    high: int

    @property
    def size(self) -> int:
        return self.high - self.low + 1


@dataclass(frozen=True, slots=True)
class Array:
    """One dimension of an array; several dimensions are arrays of arrays."""

    dimension: Dimension
    element: Type


Type = Range | Clock | Channel | Void | Record | Array
LeafType = Range | Clock | Channel


@dataclass(frozen=True, slots=True)
class Leaf:
    """A part that is neither struct nor array: its path (`.f.g`), type and enclosing dimensions."""

    path: str
    type: LeafType
    dimensions: tuple[Dimension, ...] = ()

    @property
    def count(self) -> int:
        """The number of elements."""
        return prod(one.size for one in self.dimensions)

    def places(self) -> Iterator[tuple[int, ...]]:
        """Yields the indices of the elements, row by row."""
        return product(*(range(one.low, one.high + 1) for one in self.dimensions))


def leaves(type_: Type) -> tuple[Leaf, ...]:
    """Returns the leaves in the order of declaration."""
    match type_:
        case Record(fields=fields):
            return tuple(
                Leaf(f".{name}{leaf.path}", leaf.type, leaf.dimensions)
                for name, part in fields
                for leaf in leaves(part)
            )
        case Array(dimension=dimension, element=element):
            return tuple(
                Leaf(leaf.path, leaf.type, (dimension, *leaf.dimensions)) for leaf in leaves(element)
            )
        case Void():
            return ()
        case _:
            return (Leaf("", type_),)


def of_constants(type_: Type) -> Type:
    """Returns the type without the default range."""
    match type_:
        case Range() if type_ == INT:
            return WIDE
        case Record(fields=fields):
            return Record(tuple((name, of_constants(part)) for name, part in fields))
        case Array(dimension=dimension, element=element):
            return Array(dimension, of_constants(element))
        case _:
            return type_


def has_clocks(type_: Type) -> bool:
    """Returns whether any part of the type is a clock."""
    return any(isinstance(leaf.type, Clock) for leaf in leaves(type_))


def same_layout(one: Type, other: Type) -> bool:
    """Returns whether data of one type can be copied to the other leaf by leaf."""
    mine, others = leaves(one), leaves(other)
    return len(mine) == len(others) and all(
        left.path == right.path
        and isinstance(left.type, type(right.type))
        and left.dimensions == right.dimensions
        for left, right in zip(mine, others, strict=True)
    )


def default(type_: Range) -> int:
    """Returns the default initial value: 0, or the lower bound if 0 is outside the range."""
    return 0 if type_.low <= 0 <= type_.high else type_.low


def describe(type_: Type) -> str:
    """Describes the type for messages."""
    match type_:
        case Range():
            return "a truth value" if type_ == ir.BOOL else "a number"
        case Clock():
            return "a clock"
        case Channel():
            return "a channel"
        case Void():
            return "nothing"
        case Record():
            return "a struct"
        case Array():
            return "an array"


@dataclass(frozen=True, slots=True)
class Layout:
    """The layout of a dimension: an index is stored at `index - shift`, and there are `size` places."""

    shift: int
    size: int


def lay_out(dimension: Dimension, padded: bool) -> Layout:
    """Lays out a dimension from place 0.

    With `padded`, and a first index of at most `PADDING_MAX`, indices are not shifted, so that traces show
    the indices of the model; the places below the first index stay unused.
    """
    if padded and 0 <= dimension.low <= PADDING_MAX:
        return Layout(0, dimension.high + 1)
    return Layout(dimension.low, dimension.size)
