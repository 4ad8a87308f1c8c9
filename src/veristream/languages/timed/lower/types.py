"""Types with every name and bound resolved, and how data of a type is laid out.

A number's type is the IR's. What has parts is stored by its *leaves*: a struct as one variable a field,
`s.f`, and an array of structs as arrays of fields.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from math import prod

from veristream.ir import expr as ir

Range = ir.Type
INT = Range(-32768, 32767)
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
    """The result of a function that gives none."""


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
        """How many indices there are."""
        return self.high - self.low + 1


@dataclass(frozen=True, slots=True)
class Array:
    """One dimension of an array; more of them are arrays of arrays."""

    dimension: Dimension
    element: Type


Type = Range | Clock | Channel | Void | Record | Array
LeafType = Range | Clock | Channel


@dataclass(frozen=True, slots=True)
class Leaf:
    """A part without parts: its path from the whole (`.f.g`), its type and the arrays around it."""

    path: str
    type: LeafType
    dimensions: tuple[Dimension, ...] = ()

    @property
    def count(self) -> int:
        """How many elements it has."""
        return prod(one.size for one in self.dimensions)

    def places(self) -> Iterator[tuple[int, ...]]:
        """The indices of its elements, row by row."""
        return product(*(range(one.low, one.high + 1) for one in self.dimensions))


def leaves(type_: Type) -> tuple[Leaf, ...]:
    """The leaves in the order of their declaration."""
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


def has_clocks(type_: Type) -> bool:
    """Whether a part of it is a clock."""
    return any(isinstance(leaf.type, Clock) for leaf in leaves(type_))


def same_layout(one: Type, other: Type) -> bool:
    """Whether data of one type can be copied to the other, part by part."""
    mine, others = leaves(one), leaves(other)
    return len(mine) == len(others) and all(
        left.path == right.path
        and isinstance(left.type, type(right.type))
        and left.dimensions == right.dimensions
        for left, right in zip(mine, others, strict=True)
    )


def default(type_: Range) -> int:
    """What a variable begins with where nothing is said: 0, or the lower bound where 0 does not fit."""
    return 0 if type_.low <= 0 <= type_.high else type_.low


def describe(type_: Type) -> str:
    """The type in words, for messages."""
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
    """Where an index of a dimension stands: `index - shift`, of `size` places."""

    shift: int
    size: int


def lay_out(dimension: Dimension, padded: bool) -> Layout:
    """Places from 0. With `padded`, indices keep their numbers, so that traces show those of the model;
    the few places below the first index are not used."""
    if padded and 0 <= dimension.low <= PADDING_MAX:
        return Layout(0, dimension.high + 1)
    return Layout(dimension.low, dimension.size)
