"""Groups rows of operands and operators by precedence.

The grammar leaves expressions and formulas flat: one rule per level would make its tables large and slow
to build.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Generic, TypeVar

from lark import Token, Tree

from veristream.errors import ModelError
from veristream.ir.text.read_tree import Branch, Node, span_of
from veristream.source import Source

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Grouping(Generic[T]):
    """How to combine a row into one value; a higher level binds tighter."""

    levels: Mapping[str, int]  # of operators between two operands
    prefix_levels: Mapping[str, int]
    rightward: AbstractSet[str]  # operators that group from the right
    alone: AbstractSet[str]  # operators that cannot be chained
    synonyms: Mapping[str, str]
    operand: Callable[[Node], T]
    prefix: Callable[[Token, str, T], T]
    infix: Callable[[str, T, T], T]


def group(source: Source, items: Sequence[Branch], grouping: Grouping[T]) -> T:
    """Returns the value of the whole row."""
    value, end = _group(source, items, 0, 0, grouping)
    assert end == len(items)
    return value


def _group(
    source: Source, items: Sequence[Branch], start: int, level: int, grouping: Grouping[T]
) -> tuple[T, int]:
    """Combines the items from `start` up to the first operator below the level."""
    left, position = _operand(source, items, start, grouping)
    closed = -1  # the level of an operator that cannot be chained
    while position < len(items):
        op = grouping.synonyms.get(str(items[position]), str(items[position]))
        own = grouping.levels[op]
        if own < level:
            break
        if own == closed:
            raise ModelError(
                "comparisons cannot be chained",
                span_of(source, items[position]),
                "write `a < b and b < c`, or use parentheses",
            )
        closed = own if op in grouping.alone else -1
        inner = own if op in grouping.rightward else own + 1
        right, position = _group(source, items, position + 1, inner, grouping)
        left = grouping.infix(op, left, right)
    return left, position


def _operand(source: Source, items: Sequence[Branch], start: int, grouping: Grouping[T]) -> tuple[T, int]:
    first = items[start]
    if isinstance(first, Tree):
        return grouping.operand(first), start + 1
    op = grouping.synonyms.get(str(first), str(first))
    operand, position = _group(source, items, start + 1, grouping.prefix_levels[op], grouping)
    return grouping.prefix(first, op, operand), position
