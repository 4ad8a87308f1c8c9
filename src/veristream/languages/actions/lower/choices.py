"""The head of an action: choices, requirements, and names for values before the first update."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from veristream.ir.expr import Binary, Const, Expr, Local, Statement, Unary
from veristream.ir.network import Edge, FairnessMark, Label, Select
from veristream.languages.actions.lower import values
from veristream.languages.actions.lower.collections import domain_of
from veristream.languages.actions.lower.convert import compile_condition, compile_open, compile_value
from veristream.languages.actions.lower.expressions import new_scope
from veristream.languages.actions.lower.functions import merge_chosen
from veristream.languages.actions.lower.names import Body, assigned_names, hold_all, used_names
from veristream.languages.actions.lower.statements import compile_block
from veristream.languages.actions.read.annotations import parameter_type
from veristream.languages.actions.read.module import Module, Routine
from veristream.languages.actions.read.types import SeqOf

HERE = "here"
"""The one location of every component."""


@dataclass(slots=True)
class Top:
    """The selects, guards and `global` statements collected from the head of an action."""

    selects: list[Select] = field(default_factory=list)
    guards: list[Expr] = field(default_factory=list)
    globals: list[ast.stmt] = field(default_factory=list)


def compile_action(module: Module, routine: Routine, instance: values.Value | None) -> Edge:
    """Compiles an action to an edge; `instance` is the instance of its role, if it has one."""
    top = Top()
    scope = new_scope(module)
    parameters = routine.node.args.args
    if instance is not None:
        scope, parameters = scope.bind("self", instance), parameters[1:]
    arguments: list[Expr] = []
    for parameter in parameters:
        value = _parameter(module, parameter, scope, top)
        scope = scope.bind(parameter.arg, value)
        arguments.append(value.expr)
    scope, rest = _read_top(routine.node.body, scope, top)
    body = Body()
    copies, scope = _remember(rest, scope, body)
    block, _ = compile_block([*top.globals, *rest], scope, body)
    return Edge(
        HERE,
        HERE,
        Label(routine.name, tuple(arguments)),
        tuple(top.selects),
        values.conjunction(top.guards) if top.guards else None,
        update=(*body.declared, *copies, *block),
        fairness=FairnessMark(routine.options.get("fair", "none")),
        span=module.text.span(routine.node),
    )


def _parameter(module: Module, node: ast.arg, scope: values.Scope, top: Top) -> values.Plain:
    """Compiles a parameter of an action: a nondeterministic choice of a value of its type."""
    instead = "choose from a collection with `x = any_of(...)`"
    shape = parameter_type(module, node, "an action", "the action is tried for each value", instead)
    name = scope.fresh.name(node.arg)
    top.selects.append(Select(name, shape.low, shape.high, span=module.text.span(node)))
    return values.Plain(shape, Local(name))


def _read_top(
    statements: list[ast.stmt], scope: values.Scope, top: Top
) -> tuple[values.Scope, list[ast.stmt]]:
    """Compiles the leading requirements, choices and names; returns the remaining statements."""
    module = scope.module
    for position, statement in enumerate(statements):
        match statement:
            case ast.Expr(value=ast.Constant(value=str())) | ast.Pass():
                continue
            case ast.Global():
                top.globals.append(statement)
            case ast.Expr(value=ast.Call(func=ast.Name(id="require")) as call):
                if len(call.args) != 1 or call.keywords:
                    raise module.text.error(
                        call,
                        "require takes one condition",
                        "join conditions with `and`, or write two lines",
                    )
                top.guards.append(compile_condition(call.args[0], scope))
            case ast.Assign(targets=[ast.Name(id=name) as target], value=value) if (
                name not in module.state and not _takes(value)
            ):
                module.check_local(name, target)
                scope = scope.bind(name, _named(name, value, scope, top))
            case _:
                return scope, statements[position:]
    return scope, []


def _takes(value: ast.expr) -> bool:
    """Whether the expression changes the state: `queue.pop(0)`."""
    return (
        isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr == "pop"
    )


def _named(name: str, value: ast.expr, scope: values.Scope, top: Top) -> values.Value:
    match value:
        case ast.Call(func=ast.Name(id="any_of" | "one_of")):
            return _choose(value, scope, top)
    found = compile_open(value, scope)
    if isinstance(found, values.Listed):
        raise scope.module.text.error(
            value, f"the type of {name} is unknown", "build collections in the state"
        )
    return found


def _choose(node: ast.Call, scope: values.Scope, top: Top) -> values.Value:
    assert isinstance(node.func, ast.Name)
    text, word = scope.module.text, node.func.id
    if node.keywords or not node.args:
        raise text.error(
            node,
            f"{word} has nothing to choose from",
            "write one_of(a, b), or any_of(...) of a set, bag, sequence, role, enum or range",
        )
    name = scope.fresh.name("choice")
    counter = Local(name)
    if word == "one_of":
        top.selects.append(Select(name, 0, len(node.args) - 1, span=scope.span(node)))
        return _one_of(node.args, scope, counter)
    if len(node.args) > 1 or isinstance(node.args[0], ast.List | ast.Set | ast.Tuple):
        raise text.error(node, "any_of takes one collection", "choose between values with one_of(a, b)")
    domain = domain_of(node.args[0], scope)
    top.selects.append(Select(name, domain.low, domain.high, span=scope.span(node)))
    if domain.counts is not None:
        top.guards.append(domain.counts(counter))
    if domain.repeats:
        bag = compile_value(node.args[0], scope)
        if isinstance(bag, values.Stored) and isinstance(bag.shape, SeqOf) and bag.shape.is_bag:
            top.guards.append(_first_of_its_kind(bag, counter, scope))
    return domain.element(counter)


def _one_of(nodes: list[ast.expr], scope: values.Scope, counter: Expr) -> values.Value:
    *others, last = [(node, compile_value(node, scope)) for node in nodes]
    result = last[1]
    for number, (node, value) in reversed(list(enumerate(others))):
        result = merge_chosen(node, Binary("==", counter, Const(number)), value, result, scope)
    return result


def _first_of_its_kind(bag: values.Stored, counter: Expr, scope: values.Scope) -> Expr:
    """Returns a guard that chooses only the first of equal items, which are adjacent in a bag."""
    before = values.item_at(bag, Binary("max", Binary("-", counter, Const(1)), Const(0)))
    same = values.equal(values.item_at(bag, counter), before, scope.fresh)
    return Binary("or", Binary("==", counter, Const(0)), Unary("not", same))


def _remember(
    rest: list[ast.stmt], scope: values.Scope, body: Body
) -> tuple[list[Statement], values.Scope]:
    """Copies the named values that the rest of the action uses, before the first update."""
    used, assigned = used_names(rest), assigned_names(rest)
    names = [
        name
        for name, value in scope.locals.items()
        if name in used and (name in assigned or values.reads_state(value))
    ]
    return hold_all(rest[0], names, scope, body) if rest else ([], scope)
