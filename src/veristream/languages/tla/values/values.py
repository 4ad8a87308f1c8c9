"""The values of TLA+, as Python objects.

Numbers, booleans and strings are Python's own. A sequence, or a function whose domain is `1..n`, is a
tuple; any other function, also a record, is a `Mapped`. A finite set is a frozenset, or a `Described` set
that is enumerated when somebody asks for its elements. Equal values are equal objects, whatever describes
them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import Any, Final

Value = Any
"""A value of TLA+: int, bool, str, ModelValue, tuple, Mapped, Delayed, frozenset or a Described set."""


class EvaluationError(Exception):
    """An expression has no value; the message says why."""


class ModelValue:
    """A value that equals only itself."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[Callable[[str], ModelValue], tuple[str]]:
        return model_value, (self.name,)


_model_values: dict[str, ModelValue] = {}


def model_value(name: str) -> ModelValue:
    """The model value of this name: always the same object."""
    return _model_values.setdefault(name, ModelValue(name))


class Mapped:
    """A function whose domain is not `1..n`; a record is a function of strings."""

    __slots__ = ("_hash", "items")

    def __init__(self, items: Mapping[Value, Value]) -> None:
        self.items = items
        self._hash: int | None = None

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Mapped):
            return self.items == other.items
        return NotImplemented

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(frozenset(self.items.items()))
        return self._hash

    def __repr__(self) -> str:
        return show(self)


def function(items: Mapping[Value, Value]) -> Value:
    """The function with these arguments and values."""
    count = len(items)
    if count and 1 not in items:
        return Mapped(items)
    if all(place in items for place in range(1, count + 1)) and not any(type(one) is bool for one in items):
        return tuple(items[place] for place in range(1, count + 1))
    return Mapped(items)


class Delayed:
    """A function that is computed where it is applied: its domain has no end, or it is recursive."""

    def __init__(self, domain: Value, compute: Callable[[Value], Value]) -> None:
        self.domain = domain
        self._compute = compute
        self._known: dict[Value, Value] = {}

    def at(self, argument: Value) -> Value:
        """The value, computed once; the argument is in the domain."""
        if argument not in self._known:
            self._known[argument] = self._compute(argument)
        return self._known[argument]

    @cached_property
    def whole(self) -> Value:
        """The function, computed for its whole domain."""
        return function({each: self.at(each) for each in elements(self.domain)})

    def __eq__(self, other: object) -> bool:
        return bool(self.whole == (other.whole if isinstance(other, Delayed) else other))

    def __hash__(self) -> int:
        return hash(self.whole)

    def __repr__(self) -> str:
        return show(self.whole)


class Described:
    """A set by a description; subclasses say which values are in it, and enumerate them in order."""

    text = "a set"

    def has(self, value: Value) -> bool:
        """Whether the value is an element."""
        raise NotImplementedError

    def enumerate(self) -> Iterable[Value]:
        """The elements, in the order of `order`; raises EvaluationError if there is no end of them."""
        raise EvaluationError(f"{self.text} has no end: it cannot be enumerated")

    @cached_property
    def explicit(self) -> frozenset[Value]:
        """The set with its elements."""
        return frozenset(self.enumerate())

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if isinstance(other, Described):
            return self.explicit == other.explicit
        return self.explicit == other

    def __hash__(self) -> int:
        return hash(self.explicit)

    def __repr__(self) -> str:
        return show(self.explicit)


def elements(value: Value) -> Iterable[Value]:
    """The elements of a finite set, in any order."""
    if type(value) is frozenset:
        return value
    if isinstance(value, Described):
        return value.enumerate()
    raise EvaluationError(f"{show(value)} is no set: it has no elements")


def explicit(value: Value) -> frozenset[Value]:
    """The set with its elements."""
    if type(value) is frozenset:
        return value
    if isinstance(value, Described):
        return value.explicit
    raise EvaluationError(f"{show(value)} is no set")


def kind(value: Value) -> str:
    """What a value is; values of different kinds cannot be compared."""
    match value:
        case bool():
            return "boolean"
        case int():
            return "number"
        case str():
            return "string"
        case ModelValue():
            return "model value"
        case tuple() | Mapped() | Delayed():
            return "function"
        case frozenset() | Described():
            return "set"
        case _:
            raise AssertionError(type(value))


def check_kinds(left: Value, right: Value) -> None:
    """Raises EvaluationError for values of kinds that cannot be compared."""
    kinds = kind(left), kind(right)
    if kinds[0] != kinds[1] and "model value" not in kinds:
        raise EvaluationError(
            f"the {kinds[0]} {show(left)} cannot be compared with the {kinds[1]} {show(right)}"
        )


def make_set(items: Iterable[Value]) -> frozenset[Value]:
    """The set of these values; raises EvaluationError if two of them cannot be compared."""
    found = frozenset(items)
    if len({type(one) for one in found}) > 1:
        first = None
        for one in found:
            if isinstance(one, ModelValue):
                continue
            if first is not None:
                check_kinds(first, one)
            first = one
    return found


def order(value: Value) -> tuple[Any, ...]:
    """A key that sorts values as TLC does: by size first, model values before others."""
    match value:
        case ModelValue():
            return (0, value.name)
        case bool() | int() | str():
            return (1, value)
        case tuple():
            return (1, len(value), tuple((1, at) for at in range(1, len(value) + 1)), *map(order, value))
        case Mapped():
            names = sorted(value.items, key=order)
            if names and isinstance(names[0], str):
                pairs = (part for name in names for part in ((1, name), order(value.items[name])))
                return (1, len(names), *pairs)
            return (1, len(names), tuple(map(order, names)), *(order(value.items[one]) for one in names))
        case Delayed():
            return order(value.whole)
        case _:
            found = explicit(value)
            return (1, len(found), *sorted(map(order, found)))


def in_order(value: Value) -> list[Value]:
    """The elements of a set as TLC enumerates them."""
    if type(value) is frozenset:
        return sorted(value, key=order)
    return list(elements(value))


_KEPT_ORDERS: Final = 1 << 16
_orders: dict[int, tuple[frozenset[Value], tuple[Value, ...]]] = {}
"""By identity: Python takes the sets {0, 1} and {FALSE, TRUE} for equal."""


def ordered(value: Value) -> Iterable[Value]:
    """The elements as TLC enumerates them, so that steps have the same order in every process."""
    if type(value) is not frozenset:
        return elements(value)
    if len(value) < 2:
        return value
    known = _orders.get(id(value))
    if known is None or known[0] is not value:
        if len(_orders) >= _KEPT_ORDERS:
            _orders.clear()
        known = _orders[id(value)] = value, tuple(sorted(value, key=order))
    return known[1]


def show(value: Value) -> str:
    """The value as TLA+ writes it."""
    match value:
        case bool():
            return "TRUE" if value else "FALSE"
        case int():
            return str(value)
        case str():
            escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
            return f'"{escaped}"'
        case ModelValue():
            return value.name
        case tuple():
            return f"<<{', '.join(map(show, value))}>>"
        case Mapped():
            names = sorted(value.items, key=order)
            if all(isinstance(one, str) for one in names):
                return f"[{', '.join(f'{one} |-> {show(value.items[one])}' for one in names)}]"
            return f"({' @@ '.join(f'{show(one)} :> {show(value.items[one])}' for one in names)})"
        case Delayed():
            return show(value.whole)
        case frozenset():
            return f"{{{', '.join(map(show, sorted(value, key=order)))}}}"
        case Described():
            try:
                return show(value.explicit)
            except EvaluationError:
                return value.text
        case _:
            return repr(value)
