"""Updates of the state: assignments, and the methods of sets, sequences and bags.

Every function expects a place whose indices do not change during the update: see `pinned`.
"""

from __future__ import annotations

import ast
from itertools import product

from veristream.ir.expr import (
    Assign,
    Binary,
    Block,
    Check,
    Conditional,
    Const,
    Expr,
    For,
    If,
    Let,
    Load,
    Local,
    Statement,
    Type,
)
from veristream.ir.walk import mentions
from veristream.languages.actions.lower.convert import bit_of, element_of
from veristream.languages.actions.lower.values import (
    Held,
    Scope,
    Stored,
    Value,
    item_at,
    leaf_of,
    length_of,
    local_name,
    scalar,
)
from veristream.languages.actions.read.types import (
    INTEGER,
    Leaf,
    SeqOf,
    SetOf,
    leaves,
    rest_of,
    scalar_type,
)
from veristream.source import Span


def pinned(place: Stored, scope: Scope, span: Span) -> tuple[list[Statement], Stored]:
    """Returns the statements that save the current indices, and the place at the saved indices."""
    statements: list[Statement] = []
    indices: list[Expr] = []
    for index in place.indices:
        if mentions(index, Load):
            name = scope.fresh.name("at")
            statements.append(Let(name, scalar_type(INTEGER), index, None, span))
            index = Local(name, None, span)
        indices.append(index)
    return statements, Stored(place.shape, place.variable, tuple(indices))


def store(place: Stored, value: Value, scope: Scope, span: Span) -> list[Statement]:
    """Stores a value; reads all of it before writing any of it."""
    parts = leaves(place.shape)
    if len(parts) == 1 and not parts[0].dimensions:
        return [
            Assign(Load(place.variable + parts[0].suffix, place.indices), leaf_of(value, parts[0]), span)
        ]
    before, place = pinned(place, scope, span)
    if isinstance(value, Stored):
        more, value = pinned(value, scope, span)
        copies = [statement for leaf in parts for statement in _copy(place, value, leaf, scope, span)]
        return [*before, *more, *copies]
    after: list[Statement] = []
    for leaf in parts:
        for position in product(*(range(size) for size in leaf.dimensions)):
            inner = tuple(map(Const, position))
            name = scope.fresh.name("new")
            before.append(Let(name, leaf.type, leaf_of(value, leaf, inner), None, span))
            after.append(
                Assign(Load(place.variable + leaf.suffix, place.indices + inner), Local(name), span)
            )
    return before + after


def _copy(place: Stored, value: Value, leaf: Leaf, scope: Scope, span: Span) -> list[Statement]:
    names = [scope.fresh.name("i") for _ in leaf.dimensions]
    inner = tuple(Local(name) for name in names)
    target = Load(place.variable + leaf.suffix, place.indices + inner)
    block: Block = (Assign(target, leaf_of(value, leaf, inner), span),)
    for name, size in reversed(list(zip(names, leaf.dimensions, strict=True))):
        block = (For(name, 0, size - 1, block, span),)
    return list(block)


def _set_item(place: Stored, index: Expr, value: Value, span: Span) -> list[Statement]:
    target = item_at(place, index)
    return [
        Assign(Load(target.variable + leaf.suffix, target.indices), leaf_of(value, leaf), span)
        for leaf in leaves(target.shape)
    ]


def _blank_item(place: Stored, index: Expr, span: Span) -> list[Statement]:
    target = item_at(place, index)
    return [
        Assign(Load(target.variable + leaf.suffix, target.indices), Const(rest_of(leaf.type)), span)
        for leaf in leaves(target.shape)
    ]


def _set_length(place: Stored, length: Expr, span: Span) -> Statement:
    return Assign(Load(place.variable + ".len", place.indices), length, span)


def _room(place: Stored, span: Span) -> Check:
    assert isinstance(place.shape, SeqOf)
    full = f"{place.variable} is full: its bound is {place.shape.bound} items"
    return Check(Binary("<", length_of(place), Const(place.shape.bound)), full, span)


def clear(place: Stored, scope: Scope, span: Span) -> list[Statement]:
    """Empties a set, sequence or bag."""
    if isinstance(place.shape, SetOf):
        return [Assign(Load(place.variable, place.indices), Const(0), span)]
    assert isinstance(place.shape, SeqOf)
    name = scope.fresh.name("k")
    blank = _blank_item(place, Local(name), span)
    return [For(name, 0, place.shape.bound - 1, tuple(blank), span), _set_length(place, Const(0), span)]


def append(place: Stored, element: Value, scope: Scope, span: Span) -> list[Statement]:
    """Appends an item; exceeding the bound is a run-time error."""
    assert isinstance(place.shape, SeqOf)
    held, item = taken(element, place.shape, scope, span)
    changes = _set_item(place, length_of(place), item, span)
    longer = _set_length(place, Binary("+", length_of(place), Const(1)), span)
    return [_room(place, span), *held, *changes, longer]


def taken(value: Value, sequence: SeqOf, scope: Scope, span: Span) -> tuple[list[Statement], Held]:
    """Copies an item into fresh locals; returns the statements and the copy."""
    held = Held(sequence.item, scope.fresh.name("item"))
    parts = leaves(sequence.item)
    return [Let(local_name(held.name, p), p.type, leaf_of(value, p), None, span) for p in parts], held


def check_some(place: Stored, span: Span) -> Check:
    """Returns a check that fails if the sequence is empty."""
    return Check(Binary(">", length_of(place), Const(0)), f"{place.variable} is empty", span)


def pop_first(place: Stored, scope: Scope, span: Span) -> list[Statement]:
    """Removes the oldest item of a non-empty sequence."""
    shorter = _set_length(place, Binary("-", length_of(place), Const(1)), span)
    return [*_shift_left(place, scope, span), shorter]


def pop_last(place: Stored, span: Span) -> list[Statement]:
    """Removes the newest item of a non-empty sequence."""
    last = Binary("-", length_of(place), Const(1))
    return [*_blank_item(place, last, span), _set_length(place, last, span)]


def _shift_left(place: Stored, scope: Scope, span: Span) -> list[Statement]:
    """Moves every item one position to the front and clears the last."""
    assert isinstance(place.shape, SeqOf)
    bound = place.shape.bound
    statements: list[Statement] = []
    if bound > 1:
        name = scope.fresh.name("k")
        following = item_at(place, Binary("+", Local(name), Const(1)))
        statements.append(
            For(name, 0, bound - 2, tuple(_set_item(place, Local(name), following, span)), span)
        )
    return statements + _blank_item(place, Const(bound - 1), span)


def change_set(node: ast.Call, place: Stored, method: str, element: Value, scope: Scope) -> list[Statement]:
    """Compiles `add`, `discard` or `remove` of a set."""
    span = scope.span(node)
    assert isinstance(place.shape, SetOf)
    item = place.shape.item
    if method == "add":
        element = element_of(item, element, node.args[0], scope)
    mask, bit = scalar(place), bit_of(item, element, node.args[0], scope)
    target = Load(place.variable, place.indices)
    if method == "add":
        return [Assign(target, Binary("|", mask, bit), span)]
    whole = Const((1 << place.shape.item.size) - 1)
    without: list[Statement] = [Assign(target, Binary("&", mask, Binary("^", whole, bit)), span)]
    if method == "discard":
        return without
    there = Binary("!=", Binary("&", mask, bit), Const(0))
    return [Check(there, f"the removed element is not in {place.variable}", span), *without]


def add_to_bag(place: Stored, element: Value, scope: Scope, span: Span) -> list[Statement]:
    """Inserts an item at its position in the bag's order; exceeding the bound is a run-time error."""
    assert isinstance(place.shape, SeqOf)
    parts = leaves(place.shape.item)
    lets, carried = taken(element, place.shape, scope, span)
    name = scope.fresh.name("k")
    here = item_at(place, Local(name))
    locals_ = [Local(local_name(carried.name, leaf)) for leaf in parts]
    reads = [Load(here.variable + leaf.suffix, here.indices) for leaf in parts]
    swaps: list[Statement] = []
    for leaf, local, read in zip(parts, locals_, reads, strict=True):
        swapped = scope.fresh.name("swap")
        swaps += [
            Let(swapped, leaf.type, read),
            Assign(read, local, span),
            Assign(local, Local(swapped), span),
        ]
    inside = Binary("<", Local(name), length_of(place))
    smaller = Binary("and", inside, _less(locals_, reads))
    at_end = Binary("==", Local(name), length_of(place))
    puts = tuple(Assign(read, local, span) for local, read in zip(locals_, reads, strict=True))
    step = If(at_end, puts, (If(smaller, tuple(swaps), (), span),), span)
    loop = For(name, 0, place.shape.bound - 1, (step,), span)
    longer = _set_length(place, Binary("+", length_of(place), Const(1)), span)
    return [_room(place, span), *lets, loop, longer]


def _less(left: list[Local], right: list[Load]) -> Expr:
    """Compares leaves in lexicographic order."""
    result: Expr = Const(0)
    for a, b in reversed(list(zip(left, right, strict=True))):
        result = Conditional(Binary("==", a, b), result, Binary("<", a, b))
    return result


def remove_from_bag(place: Stored, element: Value, scope: Scope, span: Span) -> list[Statement]:
    """Removes one occurrence of the item; its absence is a run-time error."""
    assert isinstance(place.shape, SeqOf)
    bound = place.shape.bound
    parts = leaves(place.shape.item)
    lets, wanted = taken(element, place.shape, scope, span)
    found, name = scope.fresh.name("found"), scope.fresh.name("k")
    here = item_at(place, Local(name))
    same: Expr = Binary("<", Local(name), length_of(place))
    for leaf in parts:
        read = Load(here.variable + leaf.suffix, here.indices)
        same = Binary("and", same, Binary("==", read, Local(local_name(wanted.name, leaf))))
    loop: list[Statement] = [If(same, (Assign(Local(found), Const(1)),))]
    if bound > 1:
        following = item_at(place, Binary("min", Binary("+", Local(name), Const(1)), Const(bound - 1)))
        loop.append(If(Local(found), tuple(_set_item(place, Local(name), following, span))))
    return [
        *lets,
        Let(found, Type(0, 1), Const(0)),
        For(name, 0, bound - 1, tuple(loop), span),
        Check(Local(found), f"the removed item is not in {place.variable}", span),
        *_blank_item(place, Const(bound - 1), span),
        _set_length(place, Binary("-", length_of(place), Const(1)), span),
    ]
