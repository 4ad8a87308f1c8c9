"""Constant expressions."""

from __future__ import annotations

from veristream.ir.expr import Binary, Conditional, Const, Expr, Unary
from veristream.ir.network import Network
from veristream.ir.oracle.evaluate import Environment, ModelFault, evaluate
from veristream.ir.state import name_parts

_NO_STATE = Environment(name_parts(Network("")), [], [], [])


def constant_value(expr: Expr) -> int | None:
    """Evaluates an expression of literals; returns None if it is not constant or would fault."""
    if isinstance(expr, Const):
        return expr.value
    if not _is_closed(expr):
        return None
    try:
        return evaluate(expr, _NO_STATE, {})
    except ModelFault:
        return None


def _is_closed(expr: Expr) -> bool:
    match expr:
        case Const():
            return True
        case Unary(operand=operand):
            return _is_closed(operand)
        case Binary(left=left, right=right):
            return _is_closed(left) and _is_closed(right)
        case Conditional(condition=condition, then=then, otherwise=otherwise):
            return all(map(_is_closed, (condition, then, otherwise)))
        case _:
            return False
