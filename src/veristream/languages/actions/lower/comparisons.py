"""Comparisons: equality, order, `is` and `in`."""

from __future__ import annotations

import ast

from veristream.ir.expr import Binary, BinaryOp, Const, Expr, Unary
from veristream.languages.actions.lower import values
from veristream.languages.actions.lower.collections import (
    Domain,
    domain_of_value,
    fold,
    has_bit,
    static_domain,
)
from veristream.languages.actions.lower.convert import (
    comparable,
    compile_number,
    compile_open,
    convert,
    describe_value,
)
from veristream.languages.actions.read import types

_ORDER: dict[type[ast.cmpop], BinaryOp] = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}


def compile_comparison(node: ast.Compare, scope: values.Scope) -> values.Value:
    """Compiles a chain of comparisons to their conjunction."""
    parts: list[Expr] = []
    left = node.left
    for op, right in zip(node.ops, node.comparators, strict=True):
        parts.append(_compare(node, scope, left, op, right))
        left = right
    return values.Plain(types.BOOLEAN, values.conjunction(parts))


def _compare(
    node: ast.Compare, scope: values.Scope, left: ast.expr, op: ast.cmpop, right: ast.expr
) -> Expr:
    match op:
        case ast.In():
            return _contains(left, right, scope)
        case ast.NotIn():
            return Unary("not", _contains(left, right, scope), span=scope.span(node))
        case ast.Eq():
            return _same(scope, left, right)
        case ast.NotEq():
            return Unary("not", _same(scope, left, right), span=scope.span(node))
        case ast.Is():
            return _identical(node, scope, left, right)
        case ast.IsNot():
            return Unary("not", _identical(node, scope, left, right), span=scope.span(node))
        case _:
            return _order(node, scope, left, op, right)


def _order(node: ast.Compare, scope: values.Scope, left: ast.expr, op: ast.cmpop, right: ast.expr) -> Expr:
    a, b = compile_open(left, scope), compile_open(right, scope)
    if _is_set(a) or _is_set(b):
        if not isinstance(op, ast.LtE | ast.GtE):
            raise scope.module.text.error(
                node, "sets are compared with <= and >=", "a proper subset is `a <= b and a != b`"
            )
        first, second = _unified(scope, left, a, right, b)
        small, large = (first, second) if isinstance(op, ast.LtE) else (second, first)
        both = Binary("&", values.scalar(small), values.scalar(large))
        return Binary("==", both, values.scalar(small), span=scope.span(node))
    lesser, greater = convert(a, types.INTEGER, left, scope), convert(b, types.INTEGER, right, scope)
    return Binary(_ORDER[type(op)], values.scalar(lesser), values.scalar(greater), span=scope.span(node))


def _is_set(value: values.Value | values.Listed) -> bool:
    return value.is_set if isinstance(value, values.Listed) else isinstance(value.shape, types.SetOf)


def _identical(node: ast.Compare, scope: values.Scope, left: ast.expr, right: ast.expr) -> Expr:
    """Compiles `is`: the same as == for None, bools, enums and roles."""
    a, b = compile_open(left, scope), compile_open(right, scope)
    if not (_is_none(a) or _is_none(b)):
        for value in (a, b):
            if (
                isinstance(value, values.Listed)
                or not isinstance(value.shape, types.Scalar)
                or value.shape.kind == "int"
            ):
                raise scope.module.text.error(
                    node, f"`is` does not compare {describe_value(value)}", "write == or !="
                )
    return _same_values(scope, left, a, right, b)


def _is_none(value: values.Value | values.Listed) -> bool:
    return not isinstance(value, values.Listed) and value.shape == types.NONE


def _same(scope: values.Scope, left: ast.expr, right: ast.expr) -> Expr:
    return _same_values(scope, left, compile_open(left, scope), right, compile_open(right, scope))


def _same_values(
    scope: values.Scope,
    left: ast.expr,
    a: values.Value | values.Listed,
    right: ast.expr,
    b: values.Value | values.Listed,
) -> Expr:
    first, second = _unified(scope, left, a, right, b)
    if isinstance(first.shape, types.Scalar | types.SetOf):
        return Binary("==", values.scalar(first), values.scalar(second), span=scope.span(left))
    return values.equal(first, second, scope.fresh)


def _unified(
    scope: values.Scope,
    left: ast.expr,
    a: values.Value | values.Listed,
    right: ast.expr,
    b: values.Value | values.Listed,
) -> tuple[values.Value, values.Value]:
    """Converts both values to one type, so that equal values are equal numbers."""
    if isinstance(a, values.Listed) and isinstance(b, values.Listed):
        raise scope.module.text.error(left, "two literals cannot be compared", "compare with the state")
    if isinstance(a, values.Listed):
        assert not isinstance(b, values.Listed)
        return convert(a, b.shape, left, scope), b
    if isinstance(b, values.Listed):
        return a, convert(b, a.shape, right, scope)
    if _never_none(a.shape, b.shape) or _never_none(b.shape, a.shape):
        value, node = (a, left) if _never_none(a.shape, b.shape) else (b, right)
        raise scope.module.text.error(
            node, f"this is {describe_value(value)}, which is never None", "declare it as Maybe[...]"
        )
    return _to_wider(scope, left, a, right, b)


def _never_none(shape: types.Shape, other: types.Shape) -> bool:
    return other == types.NONE and not (isinstance(shape, types.Scalar) and shape.maybe)


def _to_wider(
    scope: values.Scope, left: ast.expr, a: values.Value, right: ast.expr, b: values.Value
) -> tuple[values.Value, values.Value]:
    match a.shape, b.shape:
        case types.Scalar() as first, types.Scalar() as second if second.maybe and not first.maybe:
            return comparable(a, second, left, scope), b
        case types.Scalar() as first, types.Scalar() as second if first.maybe and second.kind != "none":
            return a, comparable(b, first, right, scope)
        case types.SetOf() as first, types.SetOf() as second if types.is_compatible(second, first):
            return convert(a, second, left, scope), b
        case types.Scalar(kind="int", maybe=False), types.Scalar():
            return a, convert(b, types.INTEGER, right, scope)
        case first, _:
            return a, convert(b, first, right, scope)


def _contains(left: ast.expr, right: ast.expr, scope: values.Scope) -> Expr:
    """Compiles `in` for a set, sequence, bag, literal or range."""
    domain = static_domain(right, scope)
    if domain is not None:
        return _in_range(left, right, domain, scope)
    container, element = compile_open(right, scope), compile_open(left, scope)
    if isinstance(container, values.Listed):
        tests = [
            _same_values(scope, left, element, item, compile_open(item, scope)) for item in container.items
        ]
        return values.disjunction(tests)
    match container.shape:
        case types.SetOf(item=item):
            return _in_set(container, item, left, element, scope)
        case types.SeqOf():
            return fold(
                "any",
                domain_of_value(container),
                scope,
                lambda value: _same_values(scope, right, value, left, element),
            )
        case _:
            raise scope.module.text.error(
                right,
                f"`in` does not work on {describe_value(container)}",
                "it works on sets, sequences, bags, literals and ranges",
            )


def _in_range(left: ast.expr, right: ast.expr, domain: Domain, scope: values.Scope) -> Expr:
    if not isinstance(right, ast.Call):
        raise scope.module.text.error(
            right, "every value of this type is a member", "`in` works on sets, sequences, bags and ranges"
        )
    number = compile_number(left, scope).expr
    if domain.counts is not None:
        return Const(0)
    low, high = Const(domain.low), Const(domain.high)
    return Binary("and", Binary(">=", number, low), Binary("<=", number, high), span=scope.span(left))


def _in_set(
    container: values.Value,
    item: types.Scalar,
    left: ast.expr,
    element: values.Value | values.Listed,
    scope: values.Scope,
) -> Expr:
    given = None if isinstance(element, values.Listed) else element.shape
    if (
        isinstance(given, types.Scalar)
        and given.maybe
        and not item.maybe
        and types.is_compatible(item, given)
    ):
        # No set of plain values contains None, but its number may equal that of a value.
        assert not isinstance(element, values.Listed)
        there = Binary("!=", values.scalar(element), Const(given.low))
        inside = _bit_test(container, item, values.Plain(types.without_none(given), values.scalar(element)))
        return Binary("and", there, inside, span=scope.span(left))
    return _bit_test(container, item, convert(element, item, left, scope))


def _bit_test(container: values.Value, item: types.Scalar, element: values.Value) -> Expr:
    """Tests an element's bit; a value outside the set's type is not a member."""
    assert isinstance(element.shape, types.Scalar)
    expr = values.scalar(element)
    tests: list[Expr] = []
    if element.shape.low < item.low:
        tests.append(Binary(">=", expr, Const(item.low)))
    if element.shape.high > item.high:
        tests.append(Binary("<=", expr, Const(item.high)))
    if isinstance(expr, Const) and not item.low <= expr.value <= item.high:
        return Const(0)
    return values.conjunction([*tests, has_bit(values.scalar(container), item, expr)])
