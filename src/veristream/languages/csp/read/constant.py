"""Evaluates constant expressions while a model is read, such as sizes, ranges and initial values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import assert_never

from veristream.languages.csp import syntax as csp


def apply_unary(op: csp.UnaryOp, value: int) -> int:
    match op:
        case "-":
            return -value
        case "!":
            return int(not value)
        case "~":
            return ~value
    assert_never(op)


def apply_binary(op: csp.BinaryOp, left: int, right: int) -> int | None:
    """Applies an operator; returns None for a division by zero."""
    if op in {"/", "%"} and right == 0:
        return None
    match op:
        case "/":
            quotient = abs(left) // abs(right)
            return quotient if (left < 0) == (right < 0) else -quotient
        case "%":
            return left % abs(right)
        case "+" | "-" | "*":
            return {"+": left + right, "-": left - right, "*": left * right}[op]
        case "&" | "|" | "^":
            return {"&": left & right, "|": left | right, "^": left ^ right}[op]
        case "==" | "!=":
            return int((left == right) == (op == "=="))
        case "<" | "<=" | ">" | ">=":
            return int({"<": left < right, "<=": left <= right, ">": left > right, ">=": left >= right}[op])
        case "&&":
            return int(bool(left) and bool(right))
        case "||":
            return int(bool(left) or bool(right))
        case "xor":
            return int(bool(left) != bool(right))
    assert_never(op)


def evaluate(expr: csp.Expr, variables: Mapping[str, csp.Variable]) -> int | None:
    """Evaluates an expression over the initial values of the variables; returns None if it cannot."""
    match expr:
        case csp.Number(value):
            return value
        case csp.Unary(op, operand):
            value_of = evaluate(operand, variables)
            return None if value_of is None else apply_unary(op, value_of)
        case csp.Binary(op, left, right):
            first, second = evaluate(left, variables), evaluate(right, variables)
            return None if first is None or second is None else apply_binary(op, first, second)
        case csp.Global(name, indices):
            places = [evaluate(index, variables) for index in indices]
            return _initial(variables[name], places) if name in variables else None
        case csp.Bound() | csp.Query() | csp.Pick():
            return None
    assert_never(expr)


def _initial(variable: csp.Variable, places: list[int | None]) -> int | None:
    shape = variable.shape if len(places) == len(variable.shape) else (len(variable.initial),)
    flat = 0
    for place, size in zip(places, shape, strict=False):
        if place is None or not 0 <= place < size:
            return None
        flat = flat * size + place
    return variable.initial[flat]
