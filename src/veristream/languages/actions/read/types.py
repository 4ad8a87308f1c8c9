"""The types of a model's values and their encoding as variables.

A value consists of one or more *leaves*, each a variable or an array: a record has the leaves of its
fields, a map those of its values with one more dimension, a sequence or bag a length and the leaves of
its items. A set is a bit mask. Only the first `len` items of a sequence are meaningful; the others hold the
leaf's lowest value, so that equal sequences are equal states. A bag is a sorted sequence.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from veristream.ir.expr import BOOL, INT, Type

SET_SIZE_MAX = 60


@dataclass(frozen=True, slots=True)
class Scalar:
    """A bounded number; `kind` says what the number represents.

    `name` is the enum or role. With `maybe`, `low` represents None.
    """

    low: int
    high: int
    kind: Literal["int", "bool", "enum", "role", "none"] = "int"
    name: str = ""
    maybe: bool = False

    @property
    def size(self) -> int:
        """The number of values."""
        return self.high - self.low + 1

    def covers(self, other: Scalar) -> bool:
        """Returns whether this range contains the other, which has the same kind."""
        return self.low <= other.low and other.high <= self.high


@dataclass(frozen=True, slots=True)
class Record:
    """Named fields."""

    name: str
    fields: tuple[tuple[str, Shape], ...]

    def field(self, name: str) -> Shape | None:
        """The type of a field."""
        return dict(self.fields).get(name)


@dataclass(frozen=True, slots=True)
class SetOf:
    """A set over the values of a scalar type: bit v - low of the mask."""

    item: Scalar


@dataclass(frozen=True, slots=True)
class SeqOf:
    """At most `bound` items; a bag ignores their order."""

    item: Scalar | Record
    bound: int
    is_bag: bool = False


@dataclass(frozen=True, slots=True)
class MapOf:
    """A value for every key."""

    key: Scalar
    value: Shape


Shape = Scalar | Record | SetOf | SeqOf | MapOf

BOOLEAN = Scalar(0, 1, "bool")
INTEGER = Scalar(INT.low, INT.high)
NONE = Scalar(0, 0, "none")


@dataclass(frozen=True, slots=True)
class Leaf:
    """A part of a value: the suffix of its variable's name, its inner dimensions, its type."""

    suffix: str
    dimensions: tuple[int, ...]
    type: Type


def leaves(shape: Shape) -> tuple[Leaf, ...]:
    """Returns the leaves of a value, in a fixed order."""
    match shape:
        case Scalar():
            return (Leaf("", (), scalar_type(shape)),)
        case SetOf(item=item):
            return (Leaf("", (), Type(0, (1 << item.size) - 1, set_name(item))),)
        case Record(fields=fields):
            return tuple(
                Leaf(f".{name}{leaf.suffix}", leaf.dimensions, leaf.type)
                for name, part in fields
                for leaf in leaves(part)
            )
        case MapOf(key=key, value=value):
            return tuple(
                Leaf(leaf.suffix, (key.size, *leaf.dimensions), leaf.type) for leaf in leaves(value)
            )
        case SeqOf(item=item, bound=bound):
            items = tuple(
                Leaf(f".item{leaf.suffix}", (bound, *leaf.dimensions), _with_rest(leaf.type))
                for leaf in leaves(item)
            )
            return (Leaf(".len", (), Type(0, bound)), *items)


def rest_of(type_: Type) -> int:
    """Returns the value of an unused item's leaf: the lowest one, or one below the instances of a role.

    It must not be an instance, because a permutation of the instances would change it.
    """
    return type_.low - 1 if (type_.enum or "").endswith(".id") else type_.low


def _with_rest(type_: Type) -> Type:
    rest = rest_of(type_)
    return type_ if rest == type_.low else Type(rest, type_.high, f"{type_.enum}.maybe")


def scalar_type(scalar: Scalar) -> Type:
    """Returns the IR type of a scalar, with the enum that displays its values."""
    if scalar.kind == "bool" and not scalar.maybe:
        return BOOL
    return Type(scalar.low, scalar.high, display_name(scalar))


def display_name(scalar: Scalar) -> str | None:
    """Returns the enum that displays a scalar's values; None for plain numbers."""
    base = {"int": None, "bool": "bool", "none": None, "enum": scalar.name, "role": f"{scalar.name}.id"}
    name = base[scalar.kind]
    if not scalar.maybe:
        return name
    return f"{name or f'int_{scalar.low + 1}_{scalar.high}'.replace('-', 'm')}.maybe"


def set_name(item: Scalar) -> str:
    """Returns the enum that displays a set."""
    plain = f"int_{item.low}_{item.high}".replace("-", "m")
    return f"{display_name(item) or plain}.set"


def describe(shape: Shape) -> str:
    """Returns the type as the user writes it."""
    match shape:
        case Scalar(maybe=True):
            return f"Maybe[{describe(without_none(shape))}]"
        case Scalar(kind="int"):
            return "a number" if shape == INTEGER else f"Int[{shape.low}, {shape.high}]"
        case Scalar(kind="bool"):
            return "bool"
        case Scalar(kind="none"):
            return "None"
        case Scalar(name=name) | Record(name=name):
            return name
        case SetOf(item=item):
            return f"Set[{describe(item)}]"
        case SeqOf(item=item, bound=bound, is_bag=is_bag):
            return f"{'Bag' if is_bag else 'Seq'}[{describe(item)}, {bound}]"
        case MapOf(key=key, value=value):
            return f"Map[{describe(key)}, {describe(value)}]"


def without_none(scalar: Scalar) -> Scalar:
    """Returns the T of a Maybe[T]."""
    return Scalar(scalar.low + 1, scalar.high, scalar.kind, scalar.name)


def is_compatible(wanted: Shape, given: Shape) -> bool:
    """Returns whether a value of one type is accepted for the other; ranges are checked later."""
    match wanted, given:
        case Scalar(), Scalar(kind="none"):
            return wanted.maybe
        case Scalar(), Scalar():
            return (wanted.kind, wanted.name) == (given.kind, given.name)
        case SetOf(item=Scalar(kind="int", maybe=False) as whole), SetOf(item=item):
            return item.kind == "int" and not item.maybe and whole.covers(item)
        case _:
            return wanted == given


def joined(left: Scalar, right: Scalar) -> Scalar:
    """Returns the smallest range that contains both."""
    return Scalar(min(left.low, right.low), max(left.high, right.high))
