"""Constant folding.

Parameters and unrolled quantifiers leave comparisons of constants behind. Folding drops no operand that
might fault, unless that operand would not have been evaluated.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce

from veristream.ir import expr as ir
from veristream.ir.constant import constant_value
from veristream.ir.walk import mentions
from veristream.source import Span

_TRUTHS = frozenset({"==", "!=", "<", "<=", ">", ">=", "and", "or", "implies"})
SHALLOW = 16
"""So many parts may be combined one by one."""
_TOTAL = _TRUTHS | {"+", "-", "*", "min", "max"}


def fold(op: ir.BinaryOp, left: ir.Expr, right: ir.Expr, span: Span) -> ir.Expr:
    """Returns `left op right`, simplified."""
    whole = ir.Binary(op, left, right, span=span)
    if isinstance(left, ir.Const) and isinstance(right, ir.Const):
        value = constant_value(whole)
        return whole if value is None else ir.Const(value, span)
    match op, left, right:
        case "and" | "or", ir.Const(), _ if _decides(op, left):
            return ir.Const(int(op == "or"), span)
        case "implies", ir.Const(value=0), _:
            return ir.Const(1, span)
        case "and" | "or" | "implies", ir.Const(), other if _is_truth(other):
            return other
        case "and" | "or", other, ir.Const() if not _decides(op, right) and _is_truth(other):
            return other
        case "and" | "or", other, ir.Const() if _decides(op, right) and _is_total(other):
            return ir.Const(int(op == "or"), span)
        case "implies", other, ir.Const(value=value) if value and _is_total(other):
            return ir.Const(1, span)
        case "implies", other, ir.Const(value=0):
            return negation(other)
        case _:
            return whole


def negation(condition: ir.Expr) -> ir.Expr:
    if isinstance(condition, ir.Const):
        return ir.Const(int(not condition.value), condition.span)
    return ir.Unary("not", condition, span=condition.span)


def conjunction(parts: Iterable[ir.Expr]) -> ir.Expr:
    """Returns the conjunction of the conditions; true if there are none."""
    needed = [part for part in parts if not (isinstance(part, ir.Const) and part.value)]
    if not needed:
        return ir.TRUE
    return combine("and", needed, needed[0].span)


def combine(op: ir.BinaryOp, parts: Sequence[ir.Expr], span: Span) -> ir.Expr:
    """Combines one or more parts by an associative operation, in order, as a tree that is not deep."""
    if len(parts) <= SHALLOW:
        return reduce(lambda one, other: fold(op, one, other, span), parts)
    middle = len(parts) // 2
    return fold(op, combine(op, parts[:middle], span), combine(op, parts[middle:], span), span)


def condition_of(parts: Iterable[ir.Expr]) -> ir.Expr | None:
    """Returns the conjunction of the conditions, or None if it is always true."""
    whole = conjunction(parts)
    return None if isinstance(whole, ir.Const) and whole.value else whole


def has_call(node: object) -> bool:
    """Returns whether the node contains a call, which may have side effects."""
    return mentions(node, ir.Call)


def _decides(op: str, side: ir.Expr) -> bool:
    """Returns whether the constant `side` alone decides `and` or `or`."""
    return isinstance(side, ir.Const) and bool(side.value) == (op == "or")


def _is_truth(expr: ir.Expr) -> bool:
    """Returns whether the value is always 0 or 1."""
    match expr:
        case ir.Binary(op=op):
            return op in _TRUTHS
        case ir.Unary(op="not") | ir.Fold(op="all" | "any"):
            return True
        case ir.AtLocation() | ir.ClockTest() | ir.Deadlocked():
            return True
        case _:
            return False


def _is_total(expr: ir.Expr) -> bool:
    """Returns whether the evaluation cannot fault."""
    match expr:
        case ir.Const() | ir.AtLocation() | ir.Load(indices=()) | ir.Local(index=None):
            return True
        case ir.Unary(operand=operand):
            return _is_total(operand)
        case ir.Binary(op=op, left=left, right=right):
            return op in _TOTAL and _is_total(left) and _is_total(right)
        case _:
            return False
