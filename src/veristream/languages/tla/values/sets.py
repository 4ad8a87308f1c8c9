"""Sets by descriptions: large or infinite ones, which mostly are asked whether a value is in them."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations, product

from veristream.languages.tla.values.values import (
    Delayed,
    Described,
    EvaluationError,
    Mapped,
    ModelValue,
    Value,
    check_kinds,
    elements,
    explicit,
    function,
    in_order,
    make_set,
    show,
)


def member(value: Value, of: Value) -> bool:
    """Whether a value is in a set."""
    if type(of) is frozenset:
        if value in of:
            return True
        for one in of:
            if type(one) is not type(value):
                check_kinds(value, one)
            break
        return False
    if isinstance(of, Described):
        return of.has(value)
    raise EvaluationError(f"{show(of)} is no set: nothing is an element of it")


class Interval(Described):
    """`low..high`."""

    def __init__(self, low: int, high: int) -> None:
        self.low, self.high = low, high

    def has(self, value: Value) -> bool:
        if type(value) is not int:
            if isinstance(value, ModelValue) or self.low > self.high:
                return False
            check_kinds(value, self.low)
        return bool(self.low <= value <= self.high)

    def enumerate(self) -> Iterable[Value]:
        return range(self.low, self.high + 1)


class Numbers(Described):
    """`Nat` or `Int`."""

    def __init__(self, text: str, least: int | None) -> None:
        self.text, self.least = text, least

    def has(self, value: Value) -> bool:
        if type(value) is not int:
            if isinstance(value, ModelValue):
                return False
            check_kinds(value, 0)
        return self.least is None or value >= self.least

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Numbers):
            return self.text == other.text
        if isinstance(other, Described):
            raise EvaluationError(f"{self.text} cannot be compared with a set that is described")
        return False

    def __hash__(self) -> int:
        return hash(self.text)


class Strings(Described):
    """`STRING`."""

    text = "STRING"

    def has(self, value: Value) -> bool:
        if not isinstance(value, str) and not isinstance(value, ModelValue):
            check_kinds(value, "")
        return isinstance(value, str)


class Anything(Described):
    """`Any`: every value."""

    text = "Any"

    def has(self, value: Value) -> bool:
        return True


class Subsets(Described):
    """`SUBSET of`."""

    def __init__(self, of: Value) -> None:
        self.of = of
        self.text = f"SUBSET {of.text}" if isinstance(of, Described) else "SUBSET"

    def has(self, value: Value) -> bool:
        if isinstance(value, ModelValue):
            return False
        return all(member(one, self.of) for one in elements(value))

    def enumerate(self) -> Iterable[Value]:
        items = in_order(self.of)
        for size in range(len(items) + 1):
            yield from map(frozenset, combinations(items, size))


class Functions(Described):
    """`[domain -> range]`."""

    def __init__(self, domain: Value, range_: Value) -> None:
        self.domain, self.range = domain, range_
        self.text = "a set of functions"

    def has(self, value: Value) -> bool:
        if isinstance(value, ModelValue):
            return False
        known = pairs(value)
        if explicit(self.domain) != known.keys():
            return False
        return all(member(one, self.range) for one in known.values())

    def enumerate(self) -> Iterable[Value]:
        names = in_order(self.domain)
        for values in product(in_order(self.range), repeat=len(names)):
            yield function(dict(zip(names, values, strict=True)))


class Records(Described):
    """`[a : S, b : T]`."""

    def __init__(self, fields: dict[str, Value]) -> None:
        self.fields = fields
        self.text = "a set of records"

    def has(self, value: Value) -> bool:
        if isinstance(value, ModelValue):
            return False
        known = pairs(value)
        if known.keys() != self.fields.keys():
            return False
        return all(member(known[name], self.fields[name]) for name in self.fields)

    def enumerate(self) -> Iterable[Value]:
        names = sorted(self.fields)
        for values in product(*(in_order(self.fields[name]) for name in names)):
            yield Mapped(dict(zip(names, values, strict=True)))


class Tuples(Described):
    """`S \\X T`."""

    def __init__(self, of: tuple[Value, ...]) -> None:
        self.of = of
        self.text = "a set of tuples"

    def has(self, value: Value) -> bool:
        if isinstance(value, ModelValue):
            return False
        if isinstance(value, Delayed):
            value = value.whole
        if isinstance(value, Mapped):
            return False
        if not isinstance(value, tuple):
            check_kinds(value, ())
        return len(value) == len(self.of) and all(map(member, value, self.of))

    def enumerate(self) -> Iterable[Value]:
        return product(*map(in_order, self.of))


class Sequences(Described):
    """`Seq(of)`."""

    def __init__(self, of: Value) -> None:
        self.of = of
        self.text = "Seq"

    def has(self, value: Value) -> bool:
        if isinstance(value, Delayed):
            value = value.whole
        if isinstance(value, ModelValue | Mapped):
            return False
        if not isinstance(value, tuple):
            check_kinds(value, ())
        return all(member(one, self.of) for one in value)


class Union(Described):
    """A union of sets that are described themselves."""

    def __init__(self, parts: tuple[Value, ...]) -> None:
        self.parts = parts
        self.text = f"a union with {next((one.text for one in parts if is_endless(one)), 'a set')}"

    def has(self, value: Value) -> bool:
        return any(member(value, one) for one in self.parts)

    def enumerate(self) -> Iterable[Value]:
        if is_endless(self):
            return super().enumerate()
        return in_order(make_set(one for part in self.parts for one in elements(part)))


class Without(Described):
    """`left \\ right`, the first of which has no end."""

    def __init__(self, left: Value, right: Value) -> None:
        self.left, self.right = left, right
        self.text = f"what is left of {left.text}"

    def has(self, value: Value) -> bool:
        return member(value, self.left) and not member(value, self.right)


def is_endless(value: Value) -> bool:
    """Whether a set cannot be enumerated."""
    match value:
        case Numbers() | Strings() | Anything() | Sequences() | Without():
            return True
        case Union(parts=parts):
            return any(map(is_endless, parts))
        case Subsets(of=of):
            return is_endless(of)
        case Functions(domain=domain, range=range_):
            return is_endless(domain) or is_endless(range_)
        case Records(fields=fields):
            return any(map(is_endless, fields.values()))
        case Tuples(of=of):
            return any(map(is_endless, of))
        case _:
            return False


def pairs(value: Value) -> dict[Value, Value]:
    """The arguments of a function with their values."""
    match value:
        case tuple():
            return dict(enumerate(value, 1))
        case Mapped():
            return value.items  # type: ignore[return-value]
        case Delayed():
            return pairs(value.whole)
        case _:
            raise EvaluationError(f"{show(value)} is no function")
