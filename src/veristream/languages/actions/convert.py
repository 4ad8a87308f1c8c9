"""Values where a type is wanted: literals get their types, None its number, ranges their checks.

A Maybe of numbers keeps None as the number below its least. Two such types, or one and plain numbers,
may use one number for different things, so every value that moves between types passes through here.
"""

from __future__ import annotations

import ast
from dataclasses import replace

from veristream.ir.constant import constant_value
from veristream.ir.expr import Binary, Call, Conditional, Const, Expr, Local, Return, Type
from veristream.ir.network import Function, Parameter
from veristream.languages.actions.types import (
    BOOLEAN,
    INTEGER,
    MapOf,
    Scalar,
    SeqOf,
    SetOf,
    Shape,
    describe,
    is_compatible,
)
from veristream.languages.actions.values import Items, Listed, Plain, Scope, Value, scalar
from veristream.source import Span


def compile_open(node: ast.expr, scope: Scope, wanted: Shape | None = None) -> Value | Listed:
    """The value of an expression, or a literal that still lacks its type."""
    return scope.compile(node, scope, wanted)


def compile_value(node: ast.expr, scope: Scope, wanted: Shape | None = None) -> Value:
    """The value of an expression; with `wanted`, as one of that type."""
    value = compile_open(node, scope, wanted)
    if wanted is not None:
        return convert(value, wanted, node, scope)
    if isinstance(value, Listed):
        raise scope.module.text.error(
            node, "the type of this literal is not known here", "build collections in the state"
        )
    return value


def compile_scalar(node: ast.expr, scope: Scope, wanted: Scalar) -> Expr:
    """The expression of a number, enum member, role or bool."""
    return scalar(compile_value(node, scope, wanted))


def compile_number(node: ast.expr, scope: Scope) -> Plain:
    """A whole number, with the range that it surely lies in."""
    value = compile_value(node, scope, INTEGER)
    assert isinstance(value.shape, Scalar)
    return Plain(value.shape, scalar(value))


def compile_condition(node: ast.expr, scope: Scope) -> Expr:
    """The expression of a truth value."""
    value = compile_open(node, scope)
    if isinstance(value, Listed) or value.shape != BOOLEAN:
        raise scope.module.text.error(
            node,
            f"this is {describe_value(value)}, and a condition is needed here",
            "compare it, for instance with `is not None`, `!= 0` or `len(...) > 0`",
        )
    return scalar(value)


def describe_value(value: Value | Listed) -> str:
    """What kind of thing the value is, for messages."""
    if isinstance(value, Listed):
        return "a literal"
    if isinstance(value, Plain) and isinstance(value.shape, Scalar) and value.shape.kind == "int":
        return "a number"
    return describe(value.shape)


def convert(value: Value | Listed, wanted: Shape, node: ast.expr, scope: Scope) -> Value:
    """The value as one of the wanted type; raises ModelError where it cannot be."""
    if isinstance(value, Listed):
        return _typed_literal(value, wanted, scope)
    if not is_compatible(wanted, value.shape):
        hint = ""
        if isinstance(value.shape, Scalar) and value.shape.kind == "none":
            hint = f"declare it as Maybe[{describe(wanted)}] if it may be None"
        raise scope.module.text.error(
            node, f"this is {describe_value(value)}, and {describe(wanted)} is needed here", hint
        )
    match wanted, value.shape:
        case Scalar(), Scalar():
            return _convert_scalar(value, value.shape, wanted, scope.span(node), scope)
        case SetOf(item=whole), SetOf(item=item) if whole != item:
            return Plain(wanted, Binary("<<", scalar(value), Const(item.low - whole.low)))
        case _:
            return value


def _convert_scalar(value: Value, given: Scalar, wanted: Scalar, span: Span, scope: Scope) -> Value:
    if given.kind == "none":
        return Plain(wanted, Const(wanted.low, span))
    expr = scalar(value)
    if given.maybe and not wanted.maybe:
        return _not_none(expr, given, span, scope)
    if given.kind != "int" or not wanted.maybe:
        return value
    if given.maybe:
        if given.low == wanted.low:
            return value
        inner = _beside_none(expr, Scalar(given.low + 1, given.high), wanted)
        none = Binary("==", expr, Const(given.low))
        return Plain(wanted, Conditional(none, Const(wanted.low), inner))
    return Plain(wanted, _beside_none(expr, given, wanted))


def _beside_none(expr: Expr, given: Scalar, wanted: Scalar) -> Expr:
    """The number as one of a Maybe; the one that stands for None there becomes one that is outside."""
    if not given.low <= wanted.low <= given.high:
        return expr
    if isinstance(expr, Const):
        return Const(wanted.high + 1, expr.span) if expr.value == wanted.low else expr
    return Conditional(Binary("==", expr, Const(wanted.low)), Const(wanted.high + 1), expr)


def _not_none(expr: Expr, given: Scalar, span: Span, scope: Scope) -> Plain:
    """The value of a Maybe; a fault where it is None."""
    found = Scalar(given.low + 1, given.high, given.kind, given.name)
    name = f"Maybe_{given.name or given.kind}_{found.low}_{found.high}".replace("-", "m")
    return Plain(found, checked(expr, found, name, "the_value", span, scope))


def checked(expr: Expr, wanted: Scalar, name: str, what: str, span: Span, scope: Scope) -> Expr:
    """The number, or a fault where it is outside of the type."""
    known = constant_value(expr)
    if known is not None and wanted.low <= known <= wanted.high:
        return Const(known, span)
    type_ = Type(wanted.low, wanted.high)
    body = (Return(Local(what)),)
    scope.module.checks.setdefault(name, Function(name, (Parameter(what, type_),), type_, body))
    return Call(name, (replace(expr, span=span),), span)


def _typed_literal(value: Listed, wanted: Shape, scope: Scope) -> Value:
    match wanted:
        case SetOf() if value.is_set:
            return _typed_set(value, wanted, scope)
        case SeqOf() if isinstance(value.node, ast.List):
            return _typed_sequence(value, wanted, scope)
    hints = {SetOf: "a set is written {a, b} or set()", SeqOf: "it is written [a, b] or []"}
    hint = "a map is changed key by key" if isinstance(wanted, MapOf) else hints.get(type(wanted), "")
    raise scope.module.text.error(value.node, f"this literal is not {describe(wanted)}", hint)


def _typed_set(value: Listed, wanted: SetOf, scope: Scope) -> Plain:
    mask: Expr = Const(0)
    for item in value.items:
        element = compile_value(item, scope, wanted.item)
        bit = bit_of(wanted.item, element, item, scope)
        if isinstance(mask, Const) and isinstance(bit, Const):
            mask = Const(mask.value | bit.value)
        else:
            mask = Binary("|", mask, bit)
    return Plain(wanted, mask)


def _typed_sequence(value: Listed, wanted: SeqOf, scope: Scope) -> Items:
    text = scope.module.text
    if len(value.items) > wanted.bound:
        raise text.error(value.node, f"{len(value.items)} items do not fit into {describe(wanted)}")
    if wanted.is_bag and len(value.items) > 1:
        raise text.error(
            value.node, "a bag starts empty or with one item", "add the others one by one with add"
        )
    return Items(wanted, tuple(compile_value(item, scope, wanted.item) for item in value.items))


def bit_of(item: Scalar, element: Value, node: ast.expr, scope: Scope) -> Expr:
    """The mask of one element of a set; a fault, or a ModelError, where the set cannot hold it."""
    expr = scalar(element)
    if isinstance(expr, Const):
        if not item.low <= expr.value <= item.high:
            raise scope.module.text.error(
                node, f"{expr.value} is not a value of {describe(item)}", "widen the type of the set"
            )
        return Const(1 << (expr.value - item.low))
    return Binary("<<", Const(1), shifted(expr, item.low), scope.span(node))


def shifted(expr: Expr, low: int) -> Expr:
    """The position of a value, counted from the least one."""
    if low == 0:
        return expr
    if isinstance(expr, Const):
        return Const(expr.value - low, expr.span)
    return Binary("-", expr, Const(low), expr.span)
