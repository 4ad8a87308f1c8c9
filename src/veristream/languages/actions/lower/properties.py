"""Compiles the properties of a model."""

from __future__ import annotations

import ast
from itertools import product
from math import prod

from veristream.ir import property as prop
from veristream.ir.expr import Const, Expr
from veristream.languages.actions.lower.convert import compile_condition, describe_value
from veristream.languages.actions.lower.expressions import new_scope
from veristream.languages.actions.lower.functions import returned_node, returned_value
from veristream.languages.actions.lower.values import Plain, Scope, conjunction, disjunction, scalar
from veristream.languages.actions.read.annotations import parameter_type
from veristream.languages.actions.read.module import PROPERTIES, Module, Routine
from veristream.languages.actions.read.types import BOOLEAN, Scalar

CHOICES_MAX = 10_000
"""The maximum number of combinations of a property's parameters."""


def compile_properties(module: Module) -> list[prop.Property]:
    """Compiles all properties in source order; one with parameters covers all their values."""
    result: list[prop.Property] = []
    for name, node in module.deadlock:
        result.append(prop.Property(name, prop.DeadlockFree(), span=module.text.span(node)))
    for routine in [*module.routines.values(), *module.methods.values()]:
        if routine.kind in PROPERTIES:
            result += _compile(module, routine)
    return sorted(result, key=lambda property_: property_.span.start)


def compile_terminal(module: Module) -> Expr | None:
    """Compiles the disjunction of the @terminal conditions: states where termination is intended."""
    conditions = [
        _condition(routine, new_scope(module))
        for routine in module.routines.values()
        if routine.kind == "terminal"
    ]
    return disjunction(conditions) if conditions else None


def _compile(module: Module, routine: Routine) -> list[prop.Property]:
    scopes = _scopes(module, routine)
    fairness = prop.Fairness(routine.options.get("fairness", "none"))
    span = module.text.span(routine.node)
    if routine.kind in ("eventually", "leads_to"):
        return [
            prop.Property(routine.name + suffix, _temporal(routine, scope), fairness, span=span)
            for suffix, scope in scopes
        ]
    conditions = [_condition(routine, scope) for _, scope in scopes]
    claims: dict[str, type[prop.Always | prop.Reachable | prop.Transition]] = {
        "always": prop.Always,
        "exists": prop.Reachable,
        "transition": prop.Transition,
    }
    joined = disjunction(conditions) if routine.kind == "exists" else conjunction(conditions)
    return [prop.Property(routine.name, claims[routine.kind](joined), fairness, span=span)]


def _scopes(module: Module, routine: Routine) -> list[tuple[str, Scope]]:
    """Returns a name suffix and a scope for each combination of the parameters, including `self`."""
    parameters = [(node.arg, _parameter(module, routine, node)) for node in routine.node.args.args]
    if prod(shape.size for _, shape in parameters) > CHOICES_MAX:
        raise module.text.error(
            routine.node,
            f"the parameters have more than {CHOICES_MAX} combinations",
            "use all(...) or any(...)",
        )
    result = []
    for values in product(*(range(shape.low, shape.high + 1) for _, shape in parameters)):
        scope = new_scope(module, allows_after=routine.kind == "transition")
        for (name, shape), value in zip(parameters, values, strict=True):
            scope = scope.bind(name, Plain(shape, Const(value)))
        result.append((f"({', '.join(map(str, values))})" if values else "", scope))
    return result


def _parameter(module: Module, routine: Routine, node: ast.arg) -> Scalar:
    if node.arg == "self" and routine.role is not None:
        return module.roles[routine.role].scalar
    instead = "use all(...) or any(...) in the property"
    return parameter_type(module, node, "a property", "the property covers each value", instead)


def _condition(routine: Routine, scope: Scope) -> Expr:
    if routine.kind == "leads_to":
        raise AssertionError("@leads_to has two conditions")
    value = returned_value(routine, scope)
    if value.shape != BOOLEAN:
        raise scope.module.text.error(
            routine.node,
            f"the property {routine.name} returns {describe_value(value)}",
            "return a condition, such as a comparison",
        )
    return scalar(value)


def _temporal(routine: Routine, scope: Scope) -> prop.Claim:
    if routine.kind == "eventually":
        return prop.Temporal(prop.TemporalUnary("<>", prop.Holds(_condition(routine, scope))))
    value, inner = returned_node(routine.node.body, scope)
    match value:
        case ast.Tuple(elts=[cause, effect]):
            return prop.LeadsTo(compile_condition(cause, inner), compile_condition(effect, inner))
        case _:
            raise scope.module.text.error(
                value or routine.node, "@leads_to returns two conditions", "write `return cause, effect`"
            )
