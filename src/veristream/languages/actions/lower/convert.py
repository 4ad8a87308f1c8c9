"""Conversion to an expected type: typed literals, the encoding of None, range checks.

A Maybe of numbers encodes None as the number below its smallest value. The same number may therefore mean
different things in two types, so every value that changes its type passes through this module.
"""

from __future__ import annotations

import ast
from dataclasses import replace

from veristream.ir.constant import constant_value
from veristream.ir.expr import Binary, Call, Conditional, Const, Expr, Local, Return, Type
from veristream.ir.network import Function, Parameter
from veristream.languages.actions.lower.values import Items, Listed, Plain, Scope, Value, scalar
from veristream.languages.actions.read import types
from veristream.languages.actions.read.module import Module
from veristream.source import Span


def compile_open(node: ast.expr, scope: Scope, wanted: types.Shape | None = None) -> Value | Listed:
    """Compiles an expression to a value, or to a literal whose type is still open."""
    return scope.compile(node, scope, wanted)


def compile_value(node: ast.expr, scope: Scope, wanted: types.Shape | None = None) -> Value:
    """Compiles an expression and converts it to the type `wanted`, if given."""
    value = compile_open(node, scope, wanted)
    if wanted is not None:
        return convert(value, wanted, node, scope)
    if isinstance(value, Listed):
        raise scope.module.text.error(
            node, "the type of this literal is unknown", "build collections in the state"
        )
    return value


def compile_scalar(node: ast.expr, scope: Scope, wanted: types.Scalar) -> Expr:
    """Compiles a number, enum member, role or bool."""
    return scalar(compile_value(node, scope, wanted))


def compile_number(node: ast.expr, scope: Scope) -> Plain:
    """Compiles a whole number; its type is a range that contains it."""
    value = compile_value(node, scope, types.INTEGER)
    assert isinstance(value.shape, types.Scalar)
    return Plain(value.shape, scalar(value))


def compile_condition(node: ast.expr, scope: Scope) -> Expr:
    value = compile_open(node, scope)
    if isinstance(value, Listed) or value.shape != types.BOOLEAN:
        raise scope.module.text.error(
            node,
            f"expected a condition, found {describe_value(value)}",
            "write a comparison, such as `is not None`, `!= 0` or `len(...) > 0`",
        )
    return scalar(value)


def describe_value(value: Value | Listed) -> str:
    """Returns the value's type for messages."""
    if isinstance(value, Listed):
        return "a literal"
    if isinstance(value, Plain) and isinstance(value.shape, types.Scalar) and value.shape.kind == "int":
        return "a number"
    return types.describe(value.shape)


def convert(value: Value | Listed, wanted: types.Shape, node: ast.expr, scope: Scope) -> Value:
    """Converts the value to the type `wanted`; raises ModelError if the types do not match."""
    if isinstance(value, Listed):
        return _typed_literal(value, wanted, scope)
    if not types.is_compatible(wanted, value.shape):
        raise scope.module.text.error(
            node,
            f"expected {types.describe(wanted)}, found {describe_value(value)}",
            _hint(value.shape, wanted, scope),
        )
    match wanted, value.shape:
        case types.Scalar(), types.Scalar():
            return _convert_scalar(value, value.shape, wanted, scope.span(node), scope)
        case types.SetOf(item=whole), types.SetOf(item=item) if whole != item:
            return Plain(wanted, Binary("<<", scalar(value), Const(item.low - whole.low)))
        case _:
            return value


def _convert_scalar(
    value: Value, given: types.Scalar, wanted: types.Scalar, span: Span, scope: Scope
) -> Value:
    if given.kind == "none":
        return Plain(wanted, Const(wanted.low, span))
    expr = scalar(value)
    if given.maybe and not wanted.maybe:
        return _not_none(expr, given, span, scope)
    if given.kind != "int" or not wanted.maybe:
        return value
    if given.maybe and given.low == wanted.low:
        return value
    inner = expr
    if given.low <= wanted.low <= given.high:  # a number that would encode None
        inner = _not_none(expr, wanted, span, scope).expr
    if given.maybe:
        inner = Conditional(Binary("==", expr, Const(given.low)), Const(wanted.low), inner)
    return Plain(wanted, inner)


def _not_none(expr: Expr, given: types.Scalar, span: Span, scope: Scope) -> Plain:
    """Returns the value of a Maybe; None, or the number that encodes it, is a run-time error."""
    found = types.without_none(given)
    name = f"Maybe_{given.name or given.kind}_{found.low}_{found.high}".replace("-", "m")
    return Plain(found, checked(expr, found, name, "the_value", span, scope))


def comparable(value: Value, wanted: types.Scalar, node: ast.expr, scope: Scope) -> Value:
    """Converts a number for comparison with a Maybe: it never equals None and never fails."""
    given = value.shape
    if not isinstance(given, types.Scalar) or given.kind != "int" or wanted.kind != "int":
        return convert(value, wanted, node, scope)
    expr = scalar(value)
    same: Expr = expr
    if given.low <= wanted.low <= given.high:
        same = Conditional(Binary("==", expr, Const(wanted.low)), Const(wanted.high + 1), expr)
    if given.maybe:
        same = Conditional(Binary("==", expr, Const(given.low)), Const(wanted.low), same)
    return Plain(wanted, same)


def _hint(given: types.Shape, wanted: types.Shape, scope: Scope) -> str:
    """Returns a hint for a type mismatch."""
    match given, wanted:
        case types.Scalar(kind="none"), _:
            return f"declare it as Maybe[{types.describe(wanted)}] if it may be None"
        case types.Scalar(kind="bool"), types.Scalar(kind="int"):
            return "count conditions with sum(...), or write `1 if condition else 0`"
        case types.Scalar(kind="role"), types.Scalar(kind="int"):
            return "use `.id` for the number of an instance"
        case types.Scalar(kind="enum"), types.Scalar(kind="int"):
            return "enum members have neither an order nor a number; compare them with =="
        case _, types.Scalar(kind="role", name=name):
            return f"write an instance, such as {name}[0]"
        case _, types.Scalar(kind="enum", name=name):
            return f"write a member, such as {name}.{scope.module.enums[name][0]}"
        case _:
            return "both sides must have the same type"


def checked(expr: Expr, wanted: types.Scalar, name: str, what: str, span: Span, scope: Scope) -> Expr:
    """Adds a range check: a number outside the type is a run-time error."""
    known = constant_value(expr)
    if known is not None and wanted.low <= known <= wanted.high:
        return Const(known, span)
    type_ = Type(wanted.low, wanted.high)
    body = (Return(Local(what)),)
    scope.module.checks.setdefault(name, Function(name, (Parameter(what, type_),), type_, body))
    return Call(name, (replace(expr, span=span),), span=span)


def _typed_literal(value: Listed, wanted: types.Shape, scope: Scope) -> Value:
    match wanted:
        case types.SetOf() if value.is_set:
            return _typed_set(value, wanted, scope)
        case types.SeqOf() if isinstance(value.node, ast.List):
            return _typed_sequence(value, wanted, scope)
    hints = {types.SetOf: "write a set as {a, b} or set()", types.SeqOf: "write it as [a, b] or []"}
    hint = "assign to a map key by key" if isinstance(wanted, types.MapOf) else "a literal is a collection"
    hint = hints.get(type(wanted), hint)
    raise scope.module.text.error(value.node, f"this literal is not {types.describe(wanted)}", hint)


def _typed_set(value: Listed, wanted: types.SetOf, scope: Scope) -> Plain:
    mask: Expr = Const(0)
    for item in value.items:
        element = compile_value(item, scope, wanted.item)
        bit = bit_of(wanted.item, element, item, scope)
        if isinstance(mask, Const) and isinstance(bit, Const):
            mask = Const(mask.value | bit.value)
        else:
            mask = Binary("|", mask, bit)
    return Plain(wanted, mask)


def _typed_sequence(value: Listed, wanted: types.SeqOf, scope: Scope) -> Items:
    check_items(value.node, len(value.items), wanted, scope.module)
    return Items(wanted, tuple(compile_value(item, scope, wanted.item) for item in value.items))


def check_items(node: ast.expr, count: int, shape: types.SeqOf, module: Module) -> None:
    """Raises ModelError if a literal with `count` items does not fit into the sequence or bag."""
    if count > shape.bound:
        raise module.text.error(
            node, f"{count} items do not fit into {types.describe(shape)}", "raise its bound"
        )
    if shape.is_bag and count > 1:
        raise module.text.error(
            node, "a bag literal has at most one item", "add the others one by one with add"
        )


def bit_of(item: types.Scalar, element: Value, node: ast.expr, scope: Scope) -> Expr:
    """Returns the mask of one element of a set; raises ModelError for a constant outside its type."""
    expr = scalar(element)
    if isinstance(expr, Const):
        if not item.low <= expr.value <= item.high:
            raise scope.module.text.error(
                node, f"{expr.value} is not a value of {types.describe(item)}", "widen the type of the set"
            )
        return Const(1 << (expr.value - item.low))
    return Binary("<<", Const(1), shifted(expr, item.low), span=scope.span(node))


def element_of(item: types.Scalar, value: Value, node: ast.expr, scope: Scope) -> Value:
    """Converts the value to an element of a set; a value outside its type is a run-time error."""
    assert isinstance(value.shape, types.Scalar)
    if isinstance(scalar(value), Const) or item.covers(value.shape):
        return value
    name = f"set_of_{item.low}_to_{item.high}".replace("-", "m")
    return Plain(item, checked(scalar(value), item, name, "element", scope.span(node), scope))


def shifted(expr: Expr, low: int) -> Expr:
    """Returns the value's offset from `low`."""
    if low == 0:
        return expr
    if isinstance(expr, Const):
        return Const(expr.value - low, expr.span)
    return Binary("-", expr, Const(low), span=expr.span)
