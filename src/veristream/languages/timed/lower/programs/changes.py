"""Syntactic checks: which parameters a function or template assigns, and where functions return."""

from __future__ import annotations

from veristream.ir.walk import walk
from veristream.languages.timed import syntax
from veristream.languages.timed.lower.builtin import BUILTIN_FUNCTIONS
from veristream.languages.timed.lower.scope import FunctionName


def changes(function: FunctionName, parameter: str) -> bool:
    """Returns whether the function may assign the parameter, directly or by passing it by reference."""
    for node in walk(function.declaration.body):
        match node:
            case syntax.Assignment(target=target) | syntax.Increment(target=target):
                if root(target) == parameter:
                    return True
            case syntax.Call(name=name, arguments=arguments):
                entity = function.scope.look_up(name)
                if entity is None and name in BUILTIN_FUNCTIONS:
                    continue
                if not isinstance(entity, FunctionName):
                    return True
                taken = entity.declaration.parameters
                for one, argument in zip(taken, arguments, strict=False):
                    if one.reference and not one.constant and root(argument) == parameter:
                        return True
    return False


def assigned(template: syntax.Template) -> frozenset[str]:
    """Returns all names that the template assigns, regardless of what they denote there."""
    found: set[str | None] = set()
    for node in walk((template.declarations, template.edges)):
        match node:
            case syntax.Assignment(target=target) | syntax.Increment(target=target):
                found.add(root(target))
    return frozenset(name for name in found if name is not None)


def count_returns(function: syntax.Function) -> int:
    return sum(isinstance(node, syntax.Return) for node in walk(function.body))


def root(expr: syntax.Expression) -> str | None:
    """Returns the variable of which the expression denotes a part, or None."""
    while isinstance(expr, syntax.Index | syntax.Member):
        expr = expr.base
    return expr.name if isinstance(expr, syntax.Name) else None
