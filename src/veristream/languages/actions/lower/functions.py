"""The model's own functions, expanded at every call."""

from __future__ import annotations

import ast
from dataclasses import replace

from veristream.ir.expr import Expr
from veristream.languages.actions.lower.convert import (
    compile_condition,
    compile_open,
    compile_value,
    convert,
    describe_value,
)
from veristream.languages.actions.lower.values import Listed, Scope, Value, choose
from veristream.languages.actions.read.annotations import shape_of
from veristream.languages.actions.read.module import Routine
from veristream.languages.actions.read.types import Record, Scalar, SetOf, is_compatible, without_none


def find_routine(node: ast.Call, scope: Scope) -> tuple[Routine, list[Value]]:
    """Returns the called function and its arguments, including `self`."""
    module = scope.module
    owner: list[Value] = []
    match node.func:
        case ast.Name(id=name) if name in module.routines:
            routine = module.routines[name]
        case ast.Name(id=name):
            what = "cannot be called" if name in module.places else "is not a function of the model"
            raise module.text.error(
                node, f"{name} {what}", module.similar(name) or "a model can call only its own functions"
            )
        case ast.Attribute(value=owner_node, attr=name):
            instance = compile_open(owner_node, scope)
            routine = _method(node, instance, name, scope)
            assert not isinstance(instance, Listed) and isinstance(instance.shape, Scalar)
            wanted = without_none(instance.shape) if instance.shape.maybe else instance.shape
            owner = [convert(instance, wanted, owner_node, scope)]
        case _:
            raise module.text.error(node, "this cannot be called", "call a function by its name")
    _check_call(node, routine, scope)
    return routine, [*owner, *_arguments(node, routine, scope, len(owner))]


def _method(node: ast.Call, instance: Value | Listed, name: str, scope: Scope) -> Routine:
    shape = None if isinstance(instance, Listed) else instance.shape
    if isinstance(shape, Scalar) and (shape.name, name) in scope.module.methods:
        return scope.module.methods[shape.name, name]
    hint = "change sets, sequences and bags on a separate line"
    if isinstance(shape, Scalar) and shape.kind == "role":
        known = [method for role, method in scope.module.methods if role == shape.name]
        hint = f"it has {', '.join(known)}" if known else "declare it in the role"
    raise scope.module.text.error(
        node, f"{describe_value(instance)} has no function {name} that returns a value", hint
    )


def _check_call(node: ast.Call, routine: Routine, scope: Scope) -> None:
    text = scope.module.text
    if routine.kind != "function":
        raise text.error(
            node,
            f"{routine.name} is an @{routine.kind} and cannot be called",
            "move the shared statements into a function without a decorator",
        )
    if routine.full_name in scope.calls:
        chain = " -> ".join([*scope.calls, routine.full_name])
        raise text.error(
            node, f"{routine.name} calls itself ({chain})", "recursion is not supported; use a loop"
        )
    scope.module.called.add(routine.full_name)


def _arguments(node: ast.Call, routine: Routine, scope: Scope, skipped: int) -> list[Value]:
    parameters = routine.node.args.args[skipped:]
    if node.keywords or len(node.args) != len(parameters):
        names = ", ".join(parameter.arg for parameter in parameters)
        raise scope.module.text.error(
            node,
            f"{routine.name} takes {len(parameters)} positional argument{'s' * (len(parameters) != 1)}",
            f"write {routine.name}({names})",
        )
    values: list[Value] = []
    for argument, parameter in zip(node.args, parameters, strict=True):
        wanted = None if parameter.annotation is None else shape_of(scope.module, parameter.annotation)
        values.append(compile_value(argument, scope, wanted))
    return values


def routine_scope(routine: Routine, arguments: list[Value], scope: Scope) -> Scope:
    """Returns the scope inside a function: its parameters, without the caller's names."""
    for parameter in routine.node.args.args:
        if parameter.arg != "self":
            scope.module.check_local(parameter.arg, parameter)
    names = [parameter.arg for parameter in routine.node.args.args]
    return replace(
        scope,
        locals=dict(zip(names, arguments, strict=True)),
        calls=(*scope.calls, routine.full_name),
        unset=frozenset(),
    )


def compile_call(node: ast.Call, scope: Scope) -> Value:
    routine, arguments = find_routine(node, scope)
    return returned_value(routine, routine_scope(routine, arguments, scope))


def returned_value(routine: Routine, scope: Scope) -> Value:
    """Compiles the value that a function or property returns; raises ModelError if a path returns none."""
    value = _returned(routine.node.body, scope)
    if value is None:
        raise scope.module.text.error(
            routine.node,
            f"{routine.name} does not return a value on every path",
            "end it with `return ...`",
        )
    return value


def _returned(body: list[ast.stmt], scope: Scope) -> Value | None:
    """Compiles what a body returns; None if it ends without `return`.

    The body can contain only names for values, `if` and `return`.
    """
    for position, statement in enumerate(body):
        match statement:
            case ast.Return(value=None):
                raise scope.module.text.error(statement, "return without a value", "return a value")
            case ast.Return(value=ast.expr() as value):
                return compile_value(value, scope)
            case ast.If(test=test, body=then_body, orelse=else_body) if _returns(statement):
                rest = body[position + 1 :]
                then = _returned([*then_body, *rest], scope)
                otherwise = _returned([*else_body, *rest], scope)
                if then is None or otherwise is None:
                    return None
                return merge(test, then, otherwise, scope)
            case _:
                scope = _name_value(statement, scope)
    return None


def _returns(statement: ast.stmt) -> bool:
    return any(isinstance(part, ast.Return) for part in ast.walk(statement))


def _name_value(statement: ast.stmt, scope: Scope) -> Scope:
    """Returns the scope after a statement that only names values."""
    match statement:
        case ast.Expr(value=ast.Constant()) | ast.Pass():
            return scope
        case ast.Assign(targets=[ast.Name(id=name) as target], value=value):
            scope.module.check_local(name, target)
            return scope.bind(name, compile_value(value, scope))
        case ast.If(test=test, body=then_body, orelse=else_body):
            compile_condition(test, scope)  # an invalid condition is an error even if nothing depends on it
            then, otherwise = scope, scope
            for inner in then_body:
                then = _name_value(inner, then)
            for inner in else_body:
                otherwise = _name_value(inner, otherwise)
            return _merge_names(test, then, otherwise, scope)
        case _:
            raise scope.module.text.error(
                statement,
                "a function that returns a value can contain only names for values, if and return",
                "change the state in actions, or in functions that return nothing",
            )


def _merge_names(test: ast.expr, then: Scope, otherwise: Scope, before: Scope) -> Scope:
    merged: dict[str, Value] = {}
    for name, value in then.locals.items():
        other = otherwise.locals.get(name)
        if other is not None:
            merged[name] = value if value == other else merge(test, value, other, before)
    unset = (set(then.locals) ^ set(otherwise.locals)) | then.unset | otherwise.unset
    return replace(before, locals=merged, unset=frozenset(unset - set(merged)))


def merge(test: ast.expr, then: Value, otherwise: Value, scope: Scope) -> Value:
    """Selects a value by a condition; raises ModelError if the two types differ."""
    return merge_chosen(test, compile_condition(test, scope), then, otherwise, scope)


def merge_chosen(node: ast.expr, condition: Expr, then: Value, otherwise: Value, scope: Scope) -> Value:
    """Selects a value by a compiled condition; reports errors at the node."""
    first, second = then.shape, otherwise.shape
    if isinstance(first, Scalar) and isinstance(second, Scalar) and second.maybe:
        then = convert(then, second, node, scope)
    elif is_compatible(first, second):
        otherwise = convert(otherwise, first, node, scope)
    else:
        then = convert(then, second, node, scope)
    if not isinstance(then.shape, Scalar | SetOf | Record):
        raise scope.module.text.error(
            node, "a condition cannot choose between collections", "choose between their items"
        )
    return choose(condition, then, otherwise)


def returned_node(body: list[ast.stmt], scope: Scope) -> tuple[ast.expr | None, Scope]:
    """Returns the expression after `return` in a body without branches, and the scope at that point."""
    for statement in body:
        if isinstance(statement, ast.Return):
            return statement.value, scope
        scope = _name_value(statement, scope)
    return None, scope
