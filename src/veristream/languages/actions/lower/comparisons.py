"""Comparisons: equality, order, `is` and `in`."""

from __future__ import annotations

import ast

from veristream.ir.expr import Binary, BinaryOp, Const, Expr, Unary
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
from veristream.languages.actions.lower.values import (
    Listed,
    Plain,
    Scope,
    Value,
    conjunction,
    disjunction,
    equal,
    scalar,
)
from veristream.languages.actions.read.types import (
    BOOLEAN,
    INTEGER,
    NONE,
    Scalar,
    SeqOf,
    SetOf,
    Shape,
    is_compatible,
    without_none,
)

_ORDER: dict[type[ast.cmpop], BinaryOp] = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}


def compile_comparison(node: ast.Compare, scope: Scope) -> Value:
    """Compiles a chain of comparisons to their conjunction."""
    parts: list[Expr] = []
    left = node.left
    for op, right in zip(node.ops, node.comparators, strict=True):
        parts.append(_compare(node, scope, left, op, right))
        left = right
    return Plain(BOOLEAN, conjunction(parts))


def _compare(node: ast.Compare, scope: Scope, left: ast.expr, op: ast.cmpop, right: ast.expr) -> Expr:
    match op:
        case ast.In():
            return _contains(left, right, scope)
        case ast.NotIn():
            return Unary("not", _contains(left, right, scope), scope.span(node))
        case ast.Eq():
            return _same(scope, left, right)
        case ast.NotEq():
            return Unary("not", _same(scope, left, right), scope.span(node))
        case ast.Is():
            return _identical(node, scope, left, right)
        case ast.IsNot():
            return Unary("not", _identical(node, scope, left, right), scope.span(node))
        case _:
            return _order(node, scope, left, op, right)


def _order(node: ast.Compare, scope: Scope, left: ast.expr, op: ast.cmpop, right: ast.expr) -> Expr:
    a, b = compile_open(left, scope), compile_open(right, scope)
    if _is_set(a) or _is_set(b):
        if not isinstance(op, ast.LtE | ast.GtE):
            raise scope.module.text.error(
                node, "sets are compared with <= and >=", "a proper subset is `a <= b and a != b`"
            )
        first, second = _unified(scope, left, a, right, b)
        small, large = (first, second) if isinstance(op, ast.LtE) else (second, first)
        both = Binary("&", scalar(small), scalar(large))
        return Binary("==", both, scalar(small), scope.span(node))
    lesser, greater = convert(a, INTEGER, left, scope), convert(b, INTEGER, right, scope)
    return Binary(_ORDER[type(op)], scalar(lesser), scalar(greater), scope.span(node))


def _is_set(value: Value | Listed) -> bool:
    return value.is_set if isinstance(value, Listed) else isinstance(value.shape, SetOf)


def _identical(node: ast.Compare, scope: Scope, left: ast.expr, right: ast.expr) -> Expr:
    """Compiles `is`: the same as == for None, bools, enums and roles."""
    a, b = compile_open(left, scope), compile_open(right, scope)
    if not (_is_none(a) or _is_none(b)):
        for value in (a, b):
            if (
                isinstance(value, Listed)
                or not isinstance(value.shape, Scalar)
                or value.shape.kind == "int"
            ):
                raise scope.module.text.error(
                    node, f"`is` does not compare {describe_value(value)}", "write == or !="
                )
    return _same_values(scope, left, a, right, b)


def _is_none(value: Value | Listed) -> bool:
    return not isinstance(value, Listed) and value.shape == NONE


def _same(scope: Scope, left: ast.expr, right: ast.expr) -> Expr:
    return _same_values(scope, left, compile_open(left, scope), right, compile_open(right, scope))


def _same_values(
    scope: Scope, left: ast.expr, a: Value | Listed, right: ast.expr, b: Value | Listed
) -> Expr:
    first, second = _unified(scope, left, a, right, b)
    if isinstance(first.shape, Scalar | SetOf):
        return Binary("==", scalar(first), scalar(second), scope.span(left))
    return equal(first, second, scope.fresh)


def _unified(
    scope: Scope, left: ast.expr, a: Value | Listed, right: ast.expr, b: Value | Listed
) -> tuple[Value, Value]:
    """Converts both values to one type, so that equal values are equal numbers."""
    if isinstance(a, Listed) and isinstance(b, Listed):
        raise scope.module.text.error(left, "two literals cannot be compared", "compare with the state")
    if isinstance(a, Listed):
        assert not isinstance(b, Listed)
        return convert(a, b.shape, left, scope), b
    if isinstance(b, Listed):
        return a, convert(b, a.shape, right, scope)
    if _never_none(a.shape, b.shape) or _never_none(b.shape, a.shape):
        value, node = (a, left) if _never_none(a.shape, b.shape) else (b, right)
        raise scope.module.text.error(
            node, f"this is {describe_value(value)}, which is never None", "declare it as Maybe[...]"
        )
    return _to_wider(scope, left, a, right, b)


def _never_none(shape: Shape, other: Shape) -> bool:
    return other == NONE and not (isinstance(shape, Scalar) and shape.maybe)


def _to_wider(scope: Scope, left: ast.expr, a: Value, right: ast.expr, b: Value) -> tuple[Value, Value]:
    match a.shape, b.shape:
        case Scalar() as first, Scalar() as second if second.maybe and not first.maybe:
            return comparable(a, second, left, scope), b
        case Scalar() as first, Scalar() as second if first.maybe and second.kind != "none":
            return a, comparable(b, first, right, scope)
        case SetOf() as first, SetOf() as second if is_compatible(second, first):
            return convert(a, second, left, scope), b
        case Scalar(kind="int", maybe=False), Scalar():
            return a, convert(b, INTEGER, right, scope)
        case first, _:
            return a, convert(b, first, right, scope)


def _contains(left: ast.expr, right: ast.expr, scope: Scope) -> Expr:
    """Compiles `in` for a set, sequence, bag, literal or range."""
    domain = static_domain(right, scope)
    if domain is not None:
        return _in_range(left, right, domain, scope)
    container, element = compile_open(right, scope), compile_open(left, scope)
    if isinstance(container, Listed):
        tests = [
            _same_values(scope, left, element, item, compile_open(item, scope)) for item in container.items
        ]
        return disjunction(tests)
    match container.shape:
        case SetOf(item=item):
            return _in_set(container, item, left, element, scope)
        case SeqOf():
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


def _in_range(left: ast.expr, right: ast.expr, domain: Domain, scope: Scope) -> Expr:
    if not isinstance(right, ast.Call):
        raise scope.module.text.error(
            right, "every value of this type is a member", "`in` works on sets, sequences, bags and ranges"
        )
    number = compile_number(left, scope).expr
    if domain.counts is not None:
        return Const(0)
    low, high = Const(domain.low), Const(domain.high)
    return Binary("and", Binary(">=", number, low), Binary("<=", number, high), scope.span(left))


def _in_set(container: Value, item: Scalar, left: ast.expr, element: Value | Listed, scope: Scope) -> Expr:
    given = None if isinstance(element, Listed) else element.shape
    if isinstance(given, Scalar) and given.maybe and not item.maybe and is_compatible(item, given):
        # No set of plain values contains None, but its number may equal that of a value.
        assert not isinstance(element, Listed)
        there = Binary("!=", scalar(element), Const(given.low))
        inside = _bit_test(container, item, Plain(without_none(given), scalar(element)))
        return Binary("and", there, inside, scope.span(left))
    return _bit_test(container, item, convert(element, item, left, scope))


def _bit_test(container: Value, item: Scalar, element: Value) -> Expr:
    """Tests an element's bit; a value outside the set's type is not a member."""
    assert isinstance(element.shape, Scalar)
    expr = scalar(element)
    tests: list[Expr] = []
    if element.shape.low < item.low:
        tests.append(Binary(">=", expr, Const(item.low)))
    if element.shape.high > item.high:
        tests.append(Binary("<=", expr, Const(item.high)))
    if isinstance(expr, Const) and not item.low <= expr.value <= item.high:
        return Const(0)
    return conjunction([*tests, has_bit(scalar(container), item, expr)])
