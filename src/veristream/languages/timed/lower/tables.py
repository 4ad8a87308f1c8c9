"""Constant arrays with unknown indices: each becomes a function that selects a value.

They take no space in a state, and the result type is the exact range of the values, which matters for
comparisons with clocks.
"""

from __future__ import annotations

from math import prod

from veristream.ir import expr as ir
from veristream.ir import network as net
from veristream.languages.timed.lower.scope import Table
from veristream.languages.timed.lower.types import Dimension, Range
from veristream.source import Span


def write_table(name: str, table: Table, span: Span) -> net.Function:
    """Returns a function from the constant's indices to its value."""
    dimensions = table.leaf.dimensions
    parameters = tuple(
        net.Parameter(f"i{number}", ir.INT, span=span) for number in range(1, len(dimensions) + 1)
    )
    checks = tuple(
        ir.Check(_within(ir.Local(one.name), dimension), f"an index of {name} is out of bounds", span=span)
        for one, dimension in zip(parameters, dimensions, strict=True)
    )
    result = Range(min(table.values), max(table.values))
    names = tuple(one.name for one in parameters)
    return net.Function(
        name, parameters, result, (*checks, *_choose(table.values, names, dimensions)), span=span
    )


def _within(index: ir.Expr, dimension: Dimension) -> ir.Expr:
    low = ir.Binary("<=", ir.Const(dimension.low), index)
    return ir.Binary("and", low, ir.Binary("<=", index, ir.Const(dimension.high)))


def _choose(values: tuple[int, ...], names: tuple[str, ...], dimensions: tuple[Dimension, ...]) -> ir.Block:
    """Returns statements that select the value by binary search."""
    if len(set(values)) == 1:
        return (ir.Return(ir.Const(values[0])),)
    first, *rest = dimensions
    if first.size == 1:
        return _choose(values, names[1:], tuple(rest))
    middle = (first.low + first.high) // 2
    cut = (middle - first.low + 1) * prod(one.size for one in rest)
    lower = _choose(values[:cut], names, (Dimension(first.low, middle), *rest))
    upper = _choose(values[cut:], names, (Dimension(middle + 1, first.high), *rest))
    return (ir.If(ir.Binary("<=", ir.Local(names[0]), ir.Const(middle)), lower, upper),)
