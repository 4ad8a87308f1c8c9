"""Reads of and writes to stored data, as IR expressions."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from veristream.ir import expr as ir
from veristream.languages.timed.lower.constant import look_up
from veristream.languages.timed.lower.model import Model
from veristream.languages.timed.lower.scope import Home, Ref
from veristream.languages.timed.lower.tables import write_table
from veristream.languages.timed.lower.types import Dimension, Leaf, Range, lay_out, leaves
from veristream.source import Span


def read(ref: Ref, model: Model, span: Span) -> ir.Expr:
    """Returns the IR expression that reads the leaf `ref`."""
    match ref.home:
        case Home.STATE:
            return ir.Load(ref.name, places(ref), span=span)
        case Home.LOCAL:
            return ir.Local(ref.name, local_place(ref), span=span)
        case Home.FIXED:
            if all(isinstance(index, ir.Const) for index in ref.indices):
                return ir.Const(look_up(ref, span), span)
            if ref.name not in model.functions:
                model.functions[ref.name] = write_table(ref.name, ref.tables[ref.name], span)
            return ir.Call(ref.name, ref.indices, span=span)


def target(ref: Ref, span: Span) -> ir.Load | ir.Local:
    """Returns the IR target for an assignment to `ref`, a leaf of a variable."""
    if ref.home is Home.STATE:
        return ir.Load(ref.name, places(ref), span=span)
    return ir.Local(ref.name, local_place(ref), span=span)


def clock(ref: Ref, span: Span) -> ir.ClockRef:
    return ir.ClockRef(ref.name, places(ref), span=span)


def places(ref: Ref) -> tuple[ir.Expr, ...]:
    """Returns the indices of `ref`, shifted to count from 0."""
    return tuple(
        subtract(index, lay_out(dimension, ref.padded).shift)
        for index, dimension in zip(ref.indices, ref.dimensions, strict=True)
    )


def local_place(ref: Ref) -> ir.Expr | None:
    """Returns the position in a local array, which the IR stores row by row in one dimension."""
    position: ir.Expr | None = None
    for index, dimension in zip(ref.indices, ref.dimensions, strict=True):
        step = subtract(index, dimension.low)
        position = step if position is None else add(scale(position, dimension.size), step)
    return position


def confine(ref: Ref, index: ir.Expr, values: Range, dimension: Dimension) -> ir.Expr:
    """Returns the index, guarded so that an index out of bounds faults.

    Without the guard it could reach the padding below the first element of a padded array, or the next
    row of a local array.
    """
    if dimension.low <= values.low and values.high <= dimension.high:
        return index
    below = ir.Binary("<", index, ir.Const(dimension.low))
    if ref.home is Home.STATE and lay_out(dimension, ref.padded).shift < dimension.low:
        return ir.Conditional(below, ir.Const(-1), index, span=index.span)
    if ref.home is Home.LOCAL and _rank(ref) > 1:
        above = ir.Binary(">", index, ir.Const(dimension.high))
        outside = ir.Const(dimension.low + _extent(ref))
        return ir.Conditional(ir.Binary("or", below, above), outside, index, span=index.span)
    return index


def _rank(ref: Ref) -> int:
    return max(len(ref.dimensions) + len(leaf.dimensions) for leaf in leaves(ref.type))


def _extent(ref: Ref) -> int:
    """Returns an upper bound on the number of elements of any leaf of the whole array."""
    outer = prod(one.size for one in ref.dimensions)
    return max(outer * leaf.count for leaf in leaves(ref.type))


def elements(ref: Ref) -> list[tuple[Leaf, Ref]]:
    """Returns every element of every leaf, with its leaf."""
    return [
        (leaf, element(ref, leaf, tuple(ir.Const(index) for index in place)))
        for leaf in leaves(ref.type)
        for place in leaf.places()
    ]


def element(ref: Ref, leaf: Leaf, indices: tuple[ir.Expr, ...]) -> Ref:
    return replace(
        ref,
        name=ref.name + leaf.path,
        type=leaf.type,
        indices=(*ref.indices, *indices),
        dimensions=(*ref.dimensions, *leaf.dimensions),
    )


def subtract(value: ir.Expr, number: int) -> ir.Expr:
    """Returns `value - number`, simplified."""
    if number == 0:
        return value
    if isinstance(value, ir.Const):
        return ir.Const(value.value - number, value.span)
    return ir.Binary("-", value, ir.Const(number), span=value.span)


def scale(value: ir.Expr, number: int) -> ir.Expr:
    """Returns `value * number`, simplified."""
    if isinstance(value, ir.Const):
        return ir.Const(value.value * number, value.span)
    return ir.Binary("*", value, ir.Const(number), span=value.span)


def add(left: ir.Expr, right: ir.Expr) -> ir.Expr:
    """Returns `left + right`, simplified."""
    match left, right:
        case ir.Const(value=one, span=span), ir.Const(value=other):
            return ir.Const(one + other, span)
        case ir.Const(value=0), _:
            return right
        case _, ir.Const(value=0):
            return left
        case _:
            return ir.Binary("+", left, right, span=left.span)
