"""Updates of the state: assignments, and the methods of sets, sequences and bags.

Every function expects a place whose indices do not change during the update: see `pinned`.
"""

from __future__ import annotations

import ast
from itertools import product

from veristream.ir import expr as ir
from veristream.ir.walk import mentions
from veristream.languages.actions.lower import values
from veristream.languages.actions.lower.convert import bit_of, element_of
from veristream.languages.actions.read import types
from veristream.source import Span


def pinned(
    place: values.Stored, scope: values.Scope, span: Span
) -> tuple[list[ir.Statement], values.Stored]:
    """Returns the statements that save the current indices, and the place at the saved indices."""
    statements: list[ir.Statement] = []
    indices: list[ir.Expr] = []
    for index in place.indices:
        if mentions(index, ir.Load):
            name = scope.fresh.name("at")
            statements.append(ir.Let(name, types.scalar_type(types.INTEGER), index, span=span))
            index = ir.Local(name, span=span)
        indices.append(index)
    return statements, values.Stored(place.shape, place.variable, tuple(indices))


def store(place: values.Stored, value: values.Value, scope: values.Scope, span: Span) -> list[ir.Statement]:
    """Stores a value; reads all of it before writing any of it."""
    parts = types.leaves(place.shape)
    if len(parts) == 1 and not parts[0].dimensions:
        return [
            ir.Assign(
                ir.Load(place.variable + parts[0].suffix, place.indices),
                values.leaf_of(value, parts[0]),
                span=span,
            )
        ]
    before, place = pinned(place, scope, span)
    if isinstance(value, values.Stored):
        more, value = pinned(value, scope, span)
        copies = [statement for leaf in parts for statement in _copy(place, value, leaf, scope, span)]
        return [*before, *more, *copies]
    after: list[ir.Statement] = []
    for leaf in parts:
        for position in product(*(range(size) for size in leaf.dimensions)):
            inner = tuple(map(ir.Const, position))
            name = scope.fresh.name("new")
            before.append(ir.Let(name, leaf.type, values.leaf_of(value, leaf, inner), span=span))
            after.append(
                ir.Assign(
                    ir.Load(place.variable + leaf.suffix, place.indices + inner), ir.Local(name), span=span
                )
            )
    return before + after


def _copy(
    place: values.Stored, value: values.Value, leaf: types.Leaf, scope: values.Scope, span: Span
) -> list[ir.Statement]:
    names = [scope.fresh.name("i") for _ in leaf.dimensions]
    inner = tuple(ir.Local(name) for name in names)
    target = ir.Load(place.variable + leaf.suffix, place.indices + inner)
    block: ir.Block = (ir.Assign(target, values.leaf_of(value, leaf, inner), span=span),)
    for name, size in reversed(list(zip(names, leaf.dimensions, strict=True))):
        block = (ir.For(name, 0, size - 1, block, span=span),)
    return list(block)


def _set_item(place: values.Stored, index: ir.Expr, value: values.Value, span: Span) -> list[ir.Statement]:
    target = values.item_at(place, index)
    return [
        ir.Assign(
            ir.Load(target.variable + leaf.suffix, target.indices), values.leaf_of(value, leaf), span=span
        )
        for leaf in types.leaves(target.shape)
    ]


def _blank_item(place: values.Stored, index: ir.Expr, span: Span) -> list[ir.Statement]:
    target = values.item_at(place, index)
    return [
        ir.Assign(
            ir.Load(target.variable + leaf.suffix, target.indices),
            ir.Const(types.rest_of(leaf.type)),
            span=span,
        )
        for leaf in types.leaves(target.shape)
    ]


def _set_length(place: values.Stored, length: ir.Expr, span: Span) -> ir.Statement:
    return ir.Assign(ir.Load(place.variable + ".len", place.indices), length, span=span)


def _room(place: values.Stored, span: Span) -> ir.Check:
    assert isinstance(place.shape, types.SeqOf)
    full = f"{place.variable} is full: its bound is {place.shape.bound} items"
    return ir.Check(ir.Binary("<", values.length_of(place), ir.Const(place.shape.bound)), full, span=span)


def clear(place: values.Stored, scope: values.Scope, span: Span) -> list[ir.Statement]:
    """Empties a set, sequence or bag."""
    if isinstance(place.shape, types.SetOf):
        return [ir.Assign(ir.Load(place.variable, place.indices), ir.Const(0), span=span)]
    assert isinstance(place.shape, types.SeqOf)
    name = scope.fresh.name("k")
    blank = _blank_item(place, ir.Local(name), span)
    return [
        ir.For(name, 0, place.shape.bound - 1, tuple(blank), span=span),
        _set_length(place, ir.Const(0), span),
    ]


def append(
    place: values.Stored, element: values.Value, scope: values.Scope, span: Span
) -> list[ir.Statement]:
    """Appends an item; exceeding the bound is a run-time error."""
    assert isinstance(place.shape, types.SeqOf)
    held, item = taken(element, place.shape, scope, span)
    changes = _set_item(place, values.length_of(place), item, span)
    longer = _set_length(place, ir.Binary("+", values.length_of(place), ir.Const(1)), span)
    return [_room(place, span), *held, *changes, longer]


def taken(
    value: values.Value, sequence: types.SeqOf, scope: values.Scope, span: Span
) -> tuple[list[ir.Statement], values.Held]:
    """Copies an item into fresh locals; returns the statements and the copy."""
    held = values.Held(sequence.item, scope.fresh.name("item"))
    parts = types.leaves(sequence.item)
    return [
        ir.Let(values.local_name(held.name, p), p.type, values.leaf_of(value, p), span=span) for p in parts
    ], held


def check_some(place: values.Stored, span: Span) -> ir.Check:
    """Returns a check that fails if the sequence is empty."""
    return ir.Check(
        ir.Binary(">", values.length_of(place), ir.Const(0)), f"{place.variable} is empty", span=span
    )


def pop_first(place: values.Stored, scope: values.Scope, span: Span) -> list[ir.Statement]:
    """Removes the oldest item of a non-empty sequence."""
    shorter = _set_length(place, ir.Binary("-", values.length_of(place), ir.Const(1)), span)
    return [*_shift_left(place, scope, span), shorter]


def pop_last(place: values.Stored, span: Span) -> list[ir.Statement]:
    """Removes the newest item of a non-empty sequence."""
    last = ir.Binary("-", values.length_of(place), ir.Const(1))
    return [*_blank_item(place, last, span), _set_length(place, last, span)]


def _shift_left(place: values.Stored, scope: values.Scope, span: Span) -> list[ir.Statement]:
    """Moves every item one position to the front and clears the last."""
    assert isinstance(place.shape, types.SeqOf)
    bound = place.shape.bound
    statements: list[ir.Statement] = []
    if bound > 1:
        name = scope.fresh.name("k")
        following = values.item_at(place, ir.Binary("+", ir.Local(name), ir.Const(1)))
        statements.append(
            ir.For(name, 0, bound - 2, tuple(_set_item(place, ir.Local(name), following, span)), span=span)
        )
    return statements + _blank_item(place, ir.Const(bound - 1), span)


def change_set(
    node: ast.Call, place: values.Stored, method: str, element: values.Value, scope: values.Scope
) -> list[ir.Statement]:
    """Compiles `add`, `discard` or `remove` of a set."""
    span = scope.span(node)
    assert isinstance(place.shape, types.SetOf)
    item = place.shape.item
    if method == "add":
        element = element_of(item, element, node.args[0], scope)
    mask, bit = values.scalar(place), bit_of(item, element, node.args[0], scope)
    target = ir.Load(place.variable, place.indices)
    if method == "add":
        return [ir.Assign(target, ir.Binary("|", mask, bit), span=span)]
    whole = ir.Const((1 << place.shape.item.size) - 1)
    without: list[ir.Statement] = [
        ir.Assign(target, ir.Binary("&", mask, ir.Binary("^", whole, bit)), span=span)
    ]
    if method == "discard":
        return without
    there = ir.Binary("!=", ir.Binary("&", mask, bit), ir.Const(0))
    return [ir.Check(there, f"the removed element is not in {place.variable}", span=span), *without]


def add_to_bag(
    place: values.Stored, element: values.Value, scope: values.Scope, span: Span
) -> list[ir.Statement]:
    """Inserts an item at its position in the bag's order; exceeding the bound is a run-time error."""
    assert isinstance(place.shape, types.SeqOf)
    parts = types.leaves(place.shape.item)
    lets, carried = taken(element, place.shape, scope, span)
    name = scope.fresh.name("k")
    here = values.item_at(place, ir.Local(name))
    locals_ = [ir.Local(values.local_name(carried.name, leaf)) for leaf in parts]
    reads = [ir.Load(here.variable + leaf.suffix, here.indices) for leaf in parts]
    swaps: list[ir.Statement] = []
    for leaf, local, read in zip(parts, locals_, reads, strict=True):
        swapped = scope.fresh.name("swap")
        swaps += [
            ir.Let(swapped, leaf.type, read),
            ir.Assign(read, local, span=span),
            ir.Assign(local, ir.Local(swapped), span=span),
        ]
    inside = ir.Binary("<", ir.Local(name), values.length_of(place))
    smaller = ir.Binary("and", inside, _less(locals_, reads))
    at_end = ir.Binary("==", ir.Local(name), values.length_of(place))
    puts = tuple(ir.Assign(read, local, span=span) for local, read in zip(locals_, reads, strict=True))
    step = ir.If(at_end, puts, (ir.If(smaller, tuple(swaps), span=span),), span=span)
    loop = ir.For(name, 0, place.shape.bound - 1, (step,), span=span)
    longer = _set_length(place, ir.Binary("+", values.length_of(place), ir.Const(1)), span)
    return [_room(place, span), *lets, loop, longer]


def _less(left: list[ir.Local], right: list[ir.Load]) -> ir.Expr:
    """Compares leaves in lexicographic order."""
    result: ir.Expr = ir.Const(0)
    for a, b in reversed(list(zip(left, right, strict=True))):
        result = ir.Conditional(ir.Binary("==", a, b), result, ir.Binary("<", a, b))
    return result


def remove_from_bag(
    place: values.Stored, element: values.Value, scope: values.Scope, span: Span
) -> list[ir.Statement]:
    """Removes one occurrence of the item; its absence is a run-time error."""
    assert isinstance(place.shape, types.SeqOf)
    bound = place.shape.bound
    parts = types.leaves(place.shape.item)
    lets, wanted = taken(element, place.shape, scope, span)
    found, name = scope.fresh.name("found"), scope.fresh.name("k")
    here = values.item_at(place, ir.Local(name))
    same: ir.Expr = ir.Binary("<", ir.Local(name), values.length_of(place))
    for leaf in parts:
        read = ir.Load(here.variable + leaf.suffix, here.indices)
        same = ir.Binary("and", same, ir.Binary("==", read, ir.Local(values.local_name(wanted.name, leaf))))
    loop: list[ir.Statement] = [ir.If(same, (ir.Assign(ir.Local(found), ir.Const(1)),))]
    if bound > 1:
        following = values.item_at(
            place, ir.Binary("min", ir.Binary("+", ir.Local(name), ir.Const(1)), ir.Const(bound - 1))
        )
        loop.append(ir.If(ir.Local(found), tuple(_set_item(place, ir.Local(name), following, span))))
    return [
        *lets,
        ir.Let(found, ir.Type(0, 1), ir.Const(0)),
        ir.For(name, 0, bound - 1, tuple(loop), span=span),
        ir.Check(ir.Local(found), f"the removed item is not in {place.variable}", span=span),
        *_blank_item(place, ir.Const(bound - 1), span),
        _set_length(place, ir.Binary("-", values.length_of(place), ir.Const(1)), span),
    ]
