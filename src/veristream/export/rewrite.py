"""Rewrites expressions: folds constants, simplifies connectives, substitutes names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import assert_never

from veristream.ir import expr as ir
from veristream.ir.constant import constant_value

_COMPARISONS = frozenset({"==", "!=", "<", "<=", ">", ">="})
_TRUTHS = _COMPARISONS | {"and", "or", "implies"}
_FOLDED = _COMPARISONS | {"+", "-", "*", "&", "|", "^", "min", "max", "mod"}


def children(expr: ir.Expr) -> tuple[ir.Expr, ...]:
    """Returns the expression's direct parts, in evaluation order."""
    match expr:
        case ir.Const() | ir.AtLocation() | ir.IsDone() | ir.IsIdle():
            return ()
        case ir.Load(indices=indices) | ir.Queue(indices=indices):
            return indices
        case ir.Local(index=index):
            return () if index is None else (index,)
        case ir.Unary(operand=operand) | ir.Primed(operand=operand):
            return (operand,)
        case ir.Binary(left=left, right=right):
            return (left, right)
        case ir.Conditional(condition=condition, then=then, otherwise=otherwise):
            return (condition, then, otherwise)
        case ir.Fold(body=body):
            return (body,)
        case ir.Call(arguments=arguments):
            return arguments
        case ir.Peek(indices=indices, position=position):
            return (*indices, position)
        case ir.ClockTest() | ir.ClockValue() | ir.Deadlocked():
            raise AssertionError("timed networks are not exported")
        case _:
            assert_never(expr)


def rebuild(expr: ir.Expr, parts: tuple[ir.Expr, ...]) -> ir.Expr:
    """Replaces the expression's direct parts, in the order of `children`, and simplifies it."""
    match expr:
        case ir.Const() | ir.AtLocation() | ir.IsDone() | ir.IsIdle():
            return expr
        case ir.Load() | ir.Queue():
            return replace(expr, indices=parts)
        case ir.Local():
            return replace(expr, index=parts[0] if parts else None)
        case ir.Unary():
            return shorten(replace(expr, operand=parts[0]))
        case ir.Primed():
            return replace(expr, operand=parts[0])
        case ir.Binary():
            return shorten(replace(expr, left=parts[0], right=parts[1]))
        case ir.Conditional():
            return shorten(replace(expr, condition=parts[0], then=parts[1], otherwise=parts[2]))
        case ir.Fold():
            return replace(expr, body=parts[0])
        case ir.Call():
            return replace(expr, arguments=parts)
        case ir.Peek():
            return replace(expr, indices=parts[:-1], position=parts[-1])
        case ir.ClockTest() | ir.ClockValue() | ir.Deadlocked():
            raise AssertionError("timed networks are not exported")
        case _:
            assert_never(expr)


def substitute(expr: ir.Expr, values: Mapping[str, ir.Expr]) -> ir.Expr:
    """Replaces local names; they are unique, so nothing is captured."""
    if isinstance(expr, ir.Local) and expr.index is None and expr.name in values:
        return values[expr.name]
    parts = children(expr)
    return rebuild(expr, tuple(substitute(part, values) for part in parts)) if parts else expr


def is_truth(expr: ir.Expr) -> bool:
    """Whether the expression is 0 or 1 by its form."""
    match expr:
        case ir.Const(value=value):
            return value in (0, 1)
        case ir.Unary(op=op):
            return op == "not"
        case ir.Binary(op=operator):
            return operator in _TRUTHS
        case ir.Conditional(then=then, otherwise=otherwise):
            return is_truth(then) and is_truth(otherwise)
        case ir.Fold(op=fold):
            return fold != "sum"
        case ir.Queue(op=query):
            return query != "len"
        case ir.AtLocation() | ir.IsDone() | ir.IsIdle():
            return True
        case _:
            return False


def truth(expr: ir.Expr) -> ir.Expr:
    """Returns an expression that is 1 if the given one is not 0, else 0."""
    return expr if is_truth(expr) else shorten(ir.Binary("!=", expr, ir.Const(0), span=expr.span))


def shorten(expr: ir.Expr) -> ir.Expr:
    """Folds constants at the top of an expression; preserves faults."""
    match expr:
        case ir.Unary(op="not", operand=ir.Const(value=value)):
            return ir.Const(int(not value), expr.span)
        case ir.Unary(op="-", operand=ir.Const(value=value)):
            return ir.Const(-value, expr.span)
        case ir.Conditional(condition=ir.Const(value=value), then=then, otherwise=otherwise):
            return then if value else otherwise
        case ir.Binary(op="and", left=ir.Const(value=value), right=right):
            return truth(right) if value else ir.FALSE
        case ir.Binary(op="or", left=ir.Const(value=value), right=right):
            return ir.TRUE if value else truth(right)
        case ir.Binary(op="implies", left=ir.Const(value=value), right=right):
            return truth(right) if value else ir.TRUE
        case ir.Binary(op="and", left=left, right=ir.Const(value=value)) if value:
            return truth(left)
        case ir.Binary(op="or", left=left, right=ir.Const(value=0)):
            return truth(left)
        case ir.Binary(op=op, left=ir.Const(), right=ir.Const()) if op in _FOLDED:
            folded = constant_value(expr)
            return expr if folded is None else ir.Const(folded, expr.span)
        case _:
            return expr


def binary(op: ir.BinaryOp, left: ir.Expr, right: ir.Expr) -> ir.Expr:
    """Combines two operands and simplifies."""
    return shorten(ir.Binary(op, left, right))


def both(left: ir.Expr, right: ir.Expr) -> ir.Expr:
    """Returns `left and right`, for operands that cannot fault."""
    return ir.FALSE if right == ir.FALSE else binary("and", left, right)


def either(left: ir.Expr, right: ir.Expr) -> ir.Expr:
    """Returns `left or right`, for operands that cannot fault."""
    return ir.TRUE if right == ir.TRUE else binary("or", left, right)


def negate(expr: ir.Expr) -> ir.Expr:
    match expr:
        case ir.Unary(op="not", operand=operand) if is_truth(operand):
            return operand
        case ir.Binary(op="==", left=left, right=right):
            return ir.Binary("!=", left, right, span=expr.span)
        case ir.Binary(op="!=", left=left, right=right):
            return ir.Binary("==", left, right, span=expr.span)
        case _:
            return shorten(ir.Unary("not", expr, span=expr.span))


def all_of(parts: Iterable[ir.Expr]) -> ir.Expr:
    """Returns the conjunction of parts that cannot fault, in order."""
    whole: ir.Expr = ir.TRUE
    for part in parts:
        whole = both(whole, part)
    return whole


def any_of(parts: Iterable[ir.Expr]) -> ir.Expr:
    """Returns the disjunction of parts that cannot fault, in order."""
    whole: ir.Expr = ir.FALSE
    for part in parts:
        whole = either(whole, part)
    return whole


def chain(op: ir.BinaryOp, parts: Iterable[ir.Expr], empty: ir.Expr) -> ir.Expr:
    """Combines the parts from the left, preserving faults; `empty` if there are none."""
    whole: ir.Expr | None = None
    for part in parts:
        whole = part if whole is None else binary(op, whole, part)
    return empty if whole is None else whole


def unroll(fold: ir.Fold) -> ir.Expr:
    """Expands the fold to a chain of its bodies, with the same evaluation order and short-circuiting."""
    bodies = [substitute(fold.body, {fold.name: ir.Const(i)}) for i in range(fold.low, fold.high + 1)]
    match fold.op:
        case "all":
            return chain("and", map(truth, bodies), ir.TRUE)
        case "any":
            return chain("or", map(truth, bodies), ir.FALSE)
        case "sum":
            return chain("+", bodies, ir.Const(0))
        case _:
            assert_never(fold.op)


def substitute_statement(statement: ir.Statement, values: Mapping[str, ir.Expr]) -> ir.Statement:
    """Replaces local names in a straight statement."""

    def put(expr: ir.Expr) -> ir.Expr:
        return substitute(expr, values)

    def all_in(block: ir.Block) -> ir.Block:
        return tuple(substitute_statement(inner, values) for inner in block)

    match statement:
        case ir.Assign(target=target, value=value):
            place = put(target)
            assert isinstance(place, ir.Load | ir.Local), "a replaced name is not assigned"
            return replace(statement, target=place, value=put(value))
        case ir.Let(value=value):
            return replace(statement, value=put(value))
        case ir.If(condition=condition, then=then, otherwise=otherwise):
            return replace(
                statement, condition=put(condition), then=all_in(then), otherwise=all_in(otherwise)
            )
        case ir.While(condition=condition, body=body):
            return replace(statement, condition=put(condition), body=all_in(body))
        case ir.For(body=body):
            return replace(statement, body=all_in(body))
        case ir.Check(condition=condition):
            return replace(statement, condition=put(condition))
        case ir.Return(value=value) | ir.Evaluate(value=value) | ir.Reset(value=value):
            return replace(statement, value=put(value))
        case _:
            assert_never(statement)
