"""Constant expressions, evaluated before compilation."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable

from veristream.errors import ModelError
from veristream.languages.actions.read.module import Module
from veristream.languages.actions.read.types import INTEGER

_OPERATORS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}


def constant_value(node: ast.expr, module: Module) -> int:
    """Evaluates an expression; raises ModelError if it is not constant or too large."""
    value = _value(node, module)
    if not INTEGER.low <= value <= INTEGER.high:
        raise module.text.error(
            node, "this number is too large", f"numbers go from {INTEGER.low} to {INTEGER.high}"
        )
    return value


def _value(node: ast.expr, module: Module) -> int:
    match node:
        case ast.Constant(value=bool() | int() as value):
            return value
        case ast.Name(id=name) if name in module.constants:
            return module.constants[name]
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -constant_value(operand, module)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            return _operation(node, op, constant_value(left, module), constant_value(right, module), module)
        case ast.Call(func=ast.Name(id="min" | "max" as name), args=[_, _, *_] as arguments, keywords=[]):
            values = [constant_value(argument, module) for argument in arguments]
            return min(values) if name == "min" else max(values)
        case ast.Call(func=ast.Name(id="len"), args=[ast.Name(id=name)], keywords=[]) if (
            name in module.roles
        ):
            return module.roles[name].count
        case ast.Call(func=ast.Name(id="len"), args=[ast.Name(id=name)], keywords=[]) if (
            name in module.enums
        ):
            return len(module.enums[name])
        case ast.Name(id=name) if name not in module.places:
            raise module.text.error(node, f"unknown name `{name}`", module.similar(name))
        case _:
            raise module.text.error(node, "this is not a constant", "use only numbers and constants")


def _operation(node: ast.expr, op: ast.operator, left: int, right: int, module: Module) -> int:
    if isinstance(op, ast.FloorDiv | ast.Mod) and right == 0:
        raise module.text.error(node, "division by zero", "check the constants")
    if isinstance(op, ast.Pow) and not 0 <= right <= 64:
        raise module.text.error(node, "the exponent is out of range", "use an exponent from 0 to 64")
    return _OPERATORS[type(op)](left, right)


def is_constant(node: ast.expr, module: Module) -> bool:
    try:
        constant_value(node, module)
    except ModelError:
        return False
    return True
