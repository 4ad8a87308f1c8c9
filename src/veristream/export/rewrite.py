"""Rewrites expressions: folds constants, simplifies connectives, substitutes names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import assert_never

from veristream.ir.expr import (
    FALSE,
    TRUE,
    Assign,
    AtLocation,
    Binary,
    BinaryOp,
    Block,
    Call,
    Check,
    ClockTest,
    ClockValue,
    Conditional,
    Const,
    Deadlocked,
    Evaluate,
    Expr,
    Fold,
    For,
    If,
    IsDone,
    IsIdle,
    Let,
    Load,
    Local,
    Peek,
    Primed,
    Queue,
    Reset,
    Return,
    Statement,
    Unary,
    While,
)

_COMPUTE: Mapping[str, Callable[[int, int], int]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "&": lambda a, b: a & b,
    "|": lambda a, b: a | b,
    "^": lambda a, b: a ^ b,
    "min": min,
    "max": max,
    "==": lambda a, b: int(a == b),
    "!=": lambda a, b: int(a != b),
    "<": lambda a, b: int(a < b),
    "<=": lambda a, b: int(a <= b),
    ">": lambda a, b: int(a > b),
    ">=": lambda a, b: int(a >= b),
}
_TRUTHS = frozenset({"==", "!=", "<", "<=", ">", ">=", "and", "or", "implies"})


def children(expr: Expr) -> tuple[Expr, ...]:
    """Returns the expression's direct parts, in evaluation order."""
    match expr:
        case Const() | AtLocation() | IsDone() | IsIdle():
            return ()
        case Load(indices=indices) | Queue(indices=indices):
            return indices
        case Local(index=index):
            return () if index is None else (index,)
        case Unary(operand=operand) | Primed(operand=operand):
            return (operand,)
        case Binary(left=left, right=right):
            return (left, right)
        case Conditional(condition=condition, then=then, otherwise=otherwise):
            return (condition, then, otherwise)
        case Fold(body=body):
            return (body,)
        case Call(arguments=arguments):
            return arguments
        case Peek(indices=indices, position=position):
            return (*indices, position)
        case ClockTest() | ClockValue() | Deadlocked():
            raise AssertionError("timed networks are not exported")
        case _:
            assert_never(expr)


def rebuild(expr: Expr, parts: tuple[Expr, ...]) -> Expr:
    """Replaces the expression's direct parts, in the order of `children`, and simplifies it."""
    match expr:
        case Const() | AtLocation() | IsDone() | IsIdle():
            return expr
        case Load() | Queue():
            return replace(expr, indices=parts)
        case Local():
            return replace(expr, index=parts[0] if parts else None)
        case Unary():
            return shorten(replace(expr, operand=parts[0]))
        case Primed():
            return replace(expr, operand=parts[0])
        case Binary():
            return shorten(replace(expr, left=parts[0], right=parts[1]))
        case Conditional():
            return shorten(replace(expr, condition=parts[0], then=parts[1], otherwise=parts[2]))
        case Fold():
            return replace(expr, body=parts[0])
        case Call():
            return replace(expr, arguments=parts)
        case Peek():
            return replace(expr, indices=parts[:-1], position=parts[-1])
        case ClockTest() | ClockValue() | Deadlocked():
            raise AssertionError("timed networks are not exported")
        case _:
            assert_never(expr)


def walk(expr: Expr) -> Iterator[Expr]:
    """Yields the expression and all its parts."""
    yield expr
    for child in children(expr):
        yield from walk(child)


def substitute(expr: Expr, values: Mapping[str, Expr]) -> Expr:
    """Replaces local names; they are unique, so nothing is captured."""
    if isinstance(expr, Local) and expr.index is None and expr.name in values:
        return values[expr.name]
    parts = children(expr)
    return rebuild(expr, tuple(substitute(part, values) for part in parts)) if parts else expr


def is_truth(expr: Expr) -> bool:
    """Whether the expression is 0 or 1 by its form."""
    match expr:
        case Const(value=value):
            return value in (0, 1)
        case Unary(op=op):
            return op == "not"
        case Binary(op=operator):
            return operator in _TRUTHS
        case Conditional(then=then, otherwise=otherwise):
            return is_truth(then) and is_truth(otherwise)
        case Fold(op=fold):
            return fold != "sum"
        case Queue(op=query):
            return query != "len"
        case AtLocation() | IsDone() | IsIdle():
            return True
        case _:
            return False


def truth(expr: Expr) -> Expr:
    """Returns an expression that is 1 if the given one is not 0, else 0."""
    return expr if is_truth(expr) else shorten(Binary("!=", expr, Const(0), expr.span))


def shorten(expr: Expr) -> Expr:
    """Folds constants at the top of an expression; preserves faults."""
    match expr:
        case Unary(op="not", operand=Const(value=value)):
            return Const(int(not value), expr.span)
        case Unary(op="-", operand=Const(value=value)):
            return Const(-value, expr.span)
        case Conditional(condition=Const(value=value), then=then, otherwise=otherwise):
            return then if value else otherwise
        case Binary(op="and", left=Const(value=value), right=right):
            return truth(right) if value else FALSE
        case Binary(op="or", left=Const(value=value), right=right):
            return TRUE if value else truth(right)
        case Binary(op="implies", left=Const(value=value), right=right):
            return truth(right) if value else TRUE
        case Binary(op="and", left=left, right=Const(value=value)) if value:
            return truth(left)
        case Binary(op="or", left=left, right=Const(value=0)):
            return truth(left)
        case Binary(op=op, left=Const(value=a), right=Const(value=b)) if op in _COMPUTE:
            return Const(_COMPUTE[op](a, b), expr.span)
        case Binary(op="mod", left=Const(value=a), right=Const(value=b)) if b > 0:
            return Const(a % b, expr.span)
        case _:
            return expr


def binary(op: BinaryOp, left: Expr, right: Expr) -> Expr:
    """Combines two operands and simplifies."""
    return shorten(Binary(op, left, right))


def both(left: Expr, right: Expr) -> Expr:
    """Returns `left and right`, for operands that cannot fault."""
    return FALSE if right == FALSE else binary("and", left, right)


def either(left: Expr, right: Expr) -> Expr:
    """Returns `left or right`, for operands that cannot fault."""
    return TRUE if right == TRUE else binary("or", left, right)


def negate(expr: Expr) -> Expr:
    match expr:
        case Unary(op="not", operand=operand) if is_truth(operand):
            return operand
        case Binary(op="==", left=left, right=right):
            return Binary("!=", left, right, expr.span)
        case Binary(op="!=", left=left, right=right):
            return Binary("==", left, right, expr.span)
        case _:
            return shorten(Unary("not", expr, expr.span))


def all_of(parts: Iterable[Expr]) -> Expr:
    """Returns the conjunction of parts that cannot fault, in order."""
    whole: Expr = TRUE
    for part in parts:
        whole = both(whole, part)
    return whole


def any_of(parts: Iterable[Expr]) -> Expr:
    """Returns the disjunction of parts that cannot fault, in order."""
    whole: Expr = FALSE
    for part in parts:
        whole = either(whole, part)
    return whole


def chain(op: BinaryOp, parts: Iterable[Expr], empty: Expr) -> Expr:
    """Combines the parts from the left, preserving faults; `empty` if there are none."""
    whole: Expr | None = None
    for part in parts:
        whole = part if whole is None else binary(op, whole, part)
    return empty if whole is None else whole


def unroll(fold: Fold) -> Expr:
    """Expands the fold to a chain of its bodies, with the same evaluation order and short-circuiting."""
    bodies = [substitute(fold.body, {fold.name: Const(i)}) for i in range(fold.low, fold.high + 1)]
    match fold.op:
        case "all":
            return chain("and", map(truth, bodies), TRUE)
        case "any":
            return chain("or", map(truth, bodies), FALSE)
        case "sum":
            return chain("+", bodies, Const(0))
        case _:
            assert_never(fold.op)


def substitute_statement(statement: Statement, values: Mapping[str, Expr]) -> Statement:
    """Replaces local names in a straight statement."""

    def put(expr: Expr) -> Expr:
        return substitute(expr, values)

    def all_in(block: Block) -> Block:
        return tuple(substitute_statement(inner, values) for inner in block)

    match statement:
        case Assign(target=target, value=value):
            place = put(target)
            assert isinstance(place, Load | Local), "a replaced name is not assigned"
            return replace(statement, target=place, value=put(value))
        case Let(value=value):
            return replace(statement, value=put(value))
        case If(condition=condition, then=then, otherwise=otherwise):
            return replace(
                statement, condition=put(condition), then=all_in(then), otherwise=all_in(otherwise)
            )
        case While(condition=condition, body=body):
            return replace(statement, condition=put(condition), body=all_in(body))
        case For(body=body):
            return replace(statement, body=all_in(body))
        case Check(condition=condition):
            return replace(statement, condition=put(condition))
        case Return(value=value) | Evaluate(value=value) | Reset(value=value):
            return replace(statement, value=put(value))
        case _:
            assert_never(statement)
