"""The standard modules as native operations.

An operator that takes operators gets Python functions for them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cmp_to_key
from itertools import permutations
from typing import Final

from veristream.languages.tla.values import operations as op
from veristream.languages.tla.values.sets import (
    Anything,
    Numbers,
    Sequences,
    Strings,
    member,
    pairs,
)
from veristream.languages.tla.values.values import (
    Delayed,
    EvaluationError,
    Value,
    elements,
    explicit,
    function,
    in_order,
    make_set,
    show,
)

Of = Callable[..., Value]


@dataclass(frozen=True, slots=True)
class Native:
    """An operator: how many arguments it takes, which of them are operators, and what it computes."""

    arity: int
    compute: Of
    operators: tuple[int, ...] = ()


def sequence(value: Value) -> tuple[Value, ...]:
    if isinstance(value, Delayed):
        value = value.whole
    if isinstance(value, tuple):
        return value
    raise EvaluationError(f"{show(value)} is no sequence")


def _head(value: Value) -> Value:
    if not sequence(value):
        raise EvaluationError("Head of the empty sequence")
    return sequence(value)[0]


def _tail(value: Value) -> Value:
    if not sequence(value):
        raise EvaluationError("Tail of the empty sequence")
    return sequence(value)[1:]


def _concatenate(left: Value, right: Value) -> Value:
    if isinstance(left, str) and isinstance(right, str):
        return left + right
    return sequence(left) + sequence(right)


def _length(value: Value) -> Value:
    return len(value) if isinstance(value, str) else len(sequence(value))


def _part(value: Value, first: Value, last: Value) -> Value:
    first, last = op.number(first), op.number(last)
    if first > last:
        return "" if isinstance(value, str) else ()
    whole = value if isinstance(value, str) else sequence(value)
    if first < 1 or last > len(whole):
        raise EvaluationError(f"SubSeq from {first} to {last} of {show(value)}")
    return whole[first - 1 : last]


def _select(value: Value, test: Of) -> Value:
    return tuple(one for one in sequence(value) if op.boolean(test(one)))


def _count(value: Value) -> Value:
    return len(explicit(value))


def _is_finite(value: Value) -> Value:
    from veristream.languages.tla.values.sets import is_endless

    return not is_endless(value)


def _print(shown: Value, value: Value) -> Value:
    return value


def _assert(condition: Value, message: Value) -> Value:
    if condition is not True:
        raise EvaluationError(f"Assert: {message if isinstance(message, str) else show(message)}")
    return True


def _permutations(value: Value) -> Value:
    items = in_order(value)
    return make_set(function(dict(zip(items, each, strict=True))) for each in permutations(items))


def _sort(value: Value, before: Of) -> Value:
    def compare(left: Value, right: Value) -> int:
        return -1 if before(left, right) else 1 if before(right, left) else 0

    return tuple(sorted(sequence(value), key=cmp_to_key(compare)))


def _over(left: Value, right: Value) -> Value:
    return function({**pairs(right), **pairs(left)})


def _one(argument: Value, value: Value) -> Value:
    return function({argument: value})


def bag_count(bag: Value, one: Value) -> int:
    return int(pairs(bag).get(one, 0))


def bag(counts: Mapping[Value, int]) -> Value:
    return function({one: count for one, count in counts.items() if count > 0})


def _bag_sum(left: Value, right: Value) -> Value:
    counts = dict(pairs(left))
    for one, count in pairs(right).items():
        counts[one] = counts.get(one, 0) + count
    return bag(counts)


def _bag_difference(left: Value, right: Value) -> Value:
    taken = pairs(right)
    return bag({one: count - taken.get(one, 0) for one, count in pairs(left).items()})


def _is_bag(value: Value) -> Value:
    return all(type(one) is int and one > 0 for one in pairs(value).values())


_NUMBERS: Final = {
    "+": Native(2, op.add), "-": Native(2, op.subtract), "*": Native(2, op.multiply),
    "^": Native(2, op.power), "\\div": Native(2, op.divide), "%": Native(2, op.modulo),
    "<": Native(2, op.less), ">": Native(2, op.greater), "=<": Native(2, op.at_most),
    ">=": Native(2, op.at_least), "..": Native(2, op.interval), "-.": Native(1, op.negate),
    "Nat": Native(0, lambda: Numbers("Nat", 0)),
    "Int": Native(0, lambda: Numbers("Int", None)),
}  # fmt: skip
_SEQUENCES: Final = {
    "Seq": Native(1, Sequences), "Len": Native(1, _length), "\\o": Native(2, _concatenate),
    "Append": Native(2, lambda of, one: (*sequence(of), one)), "Head": Native(1, _head),
    "Tail": Native(1, _tail), "SubSeq": Native(3, _part), "SelectSeq": Native(2, _select, (1,)),
}  # fmt: skip
_FINITE: Final = {"Cardinality": Native(1, _count), "IsFiniteSet": Native(1, _is_finite)}
_TLC: Final = {
    "Print": Native(2, _print), "PrintT": Native(1, lambda value: True), "Assert": Native(2, _assert),
    "JavaTime": Native(0, lambda: 0), "Permutations": Native(1, _permutations),
    "SortSeq": Native(2, _sort, (1,)), "@@": Native(2, _over), ":>": Native(2, _one),
    "ToString": Native(1, show), "Any": Native(0, Anything), "TLCEval": Native(1, lambda value: value),
}  # fmt: skip
_BAGS: Final = {
    "IsABag": Native(1, _is_bag), "BagToSet": Native(1, lambda bag: frozenset(pairs(bag))),
    "SetToBag": Native(1, lambda of: function(dict.fromkeys(elements(of), 1))),
    "BagIn": Native(2, lambda one, bag: bag_count(bag, one) > 0), "EmptyBag": Native(0, lambda: ()),
    "(+)": Native(2, _bag_sum), "(-)": Native(2, _bag_difference),
    "CopiesIn": Native(2, lambda one, bag: bag_count(bag, one)),
    "BagCardinality": Native(1, lambda bag: sum(pairs(bag).values())),
}  # fmt: skip
STANDARD: Final[Mapping[str, Mapping[str, Native]]] = {
    "Naturals": _NUMBERS,
    "Integers": _NUMBERS,
    "Reals": _NUMBERS,
    "Sequences": _SEQUENCES,
    "FiniteSets": _FINITE,
    "TLC": _TLC,
    "Bags": _BAGS,
}
"""The operators of each standard module, by name."""

PRIMITIVE: Final[Mapping[str, Native]] = {
    "=": Native(2, op.equal), "#": Native(2, lambda a, b: not op.equal(a, b)),
    "\\in": Native(2, member), "\\notin": Native(2, lambda one, of: not member(one, of)),
    "\\cup": Native(2, op.union), "\\cap": Native(2, op.intersection), "\\": Native(2, op.difference),
    "\\subseteq": Native(2, op.is_subset), "SUBSET": Native(1, op.subsets),
    "UNION": Native(1, op.big_union), "DOMAIN": Native(1, op.domain),
    "BOOLEAN": Native(0, lambda: frozenset((True, False))), "STRING": Native(0, Strings),
    "~": Native(1, lambda value: not op.boolean(value)),
    "<=>": Native(2, lambda a, b: op.boolean(a) == op.boolean(b)),
}  # fmt: skip
"""The operators that need no module."""
