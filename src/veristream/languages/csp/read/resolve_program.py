"""Resolves programs, the statements in braces that an event runs; part of `resolve`."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from lark import Token

from veristream.ir.text.read_tree import Node, child, children, optional, token
from veristream.languages.csp import syntax as csp
from veristream.languages.csp.read.names import Define, Scope, check_fresh, unknown
from veristream.languages.csp.read.resolve_expr import (
    at_place,
    combine,
    enter,
    expand_value,
    find_macro,
    find_method,
    global_element,
    indices_of,
    method_macro,
    resolve_array,
    resolve_constant,
    resolve_expr,
    value_body,
    value_of_method,
)
from veristream.source import Span

_NO_EFFECT = "a statement must assign, as in `x = x + 1;`, or call a macro that does"


def resolve_program(scope: Scope, block: Node | None) -> csp.Program | None:
    """Returns the program of an event, or None if it has none."""
    if block is None:
        return None
    return _block(replace(scope, taken=set(scope.bound)), block)


def check_define(scope: Scope, define: Define) -> None:
    """Raises ModelError if the body of a definition is invalid, even if nothing uses it."""
    arguments = tuple(csp.Bound(name) for name in define.parameters)
    if value_body(define.body) is None or _is_program_name(scope, define.body):
        _expand(scope, define, arguments, define.span)
    else:
        expand_value(scope, define, arguments, define.span)


def _is_program_name(scope: Scope, body: Node) -> bool:
    """Whether the body is just the name or the call of a program."""
    value = value_body(body)
    if value is not None and value.data == "method":
        return bool(find_method(scope, value)[0].program)
    if value is None or value.data not in {"name", "invoke"}:
        return False
    name = str(token(value, 0 if value.data == "name" else 1))
    known = [scope.names.defines.get(name), scope.names.macros.get((name, len(children(value))))]
    return any(define is not None and value_body(define.body) is None for define in known)


def _block(scope: Scope, node: Node) -> csp.Program:
    statements: list[csp.Statement] = []
    for part in children(node):
        found, scope = _statement(scope, part)
        statements += found
    return tuple(statements)


def _statement(scope: Scope, node: Node) -> tuple[csp.Program, Scope]:
    """Resolves a statement; returns it with the scope of the statements after it."""
    match node.data:
        case "local":
            return _local(scope, node)
        case "block":
            return _block(scope, node), scope
        case "last":
            return _statement(scope, child(node, 0))
        case "empty":
            return (), scope
        case "if":
            condition, then, *rest = children(node)
            otherwise = _statement(scope, rest[0])[0] if rest else ()
            test = resolve_expr(scope, condition)
            return (csp.If(test, _statement(scope, then)[0], otherwise, span=scope.span(node)),), scope
        case "while":
            condition, body = children(node)
            test = resolve_expr(scope, condition)
            return (csp.While(test, _statement(scope, body)[0], span=scope.span(node)),), scope
        case "step":
            return (_step(scope, node),), scope
        case _:
            assert node.data == "statement", node.data
            return _assignments(scope, node), scope


def _assignments(scope: Scope, node: Node) -> csp.Program:
    """Resolves `x = y = e`, from the right; a statement without `=` must be a macro with a program."""
    *targets, value = children(node)
    if not targets:
        return _called(scope, node, value)
    array = resolve_array(scope, value) if len(targets) == 1 and _is_array(scope, targets[0]) else None
    if array is not None:
        return _copy(scope, node, str(token(targets[0], 0)), array.elements)
    statements: list[csp.Statement] = []
    if value.data == "method" and find_method(scope, value)[0].program:
        statements, assigned = _returned(scope, value)
    else:
        assigned = resolve_expr(scope, value)
    for target in reversed(targets):
        statement = _assign(scope, target, assigned, scope.span(node))
        statements.append(statement)
        assigned = statement.target
    return tuple(statements)


def _returned(scope: Scope, node: Node) -> tuple[list[csp.Statement], csp.Expr]:
    """Resolves a method that changes its object and returns a value; returns a program and the value."""
    method, name, word, arguments = find_method(scope, node)
    if not method.value:
        raise scope.error(node, f"{word} returns nothing", f"write `{name}.{word}(...);` alone")
    local, span = _new_local(scope, f"{name}__{word}"), scope.span(node)
    value = value_of_method(scope, node, name, word, arguments)
    program = [csp.Declare(local, value, span=span), *_do(scope, node)]
    return program, csp.Bound(local, span=span)


def _do(scope: Scope, node: Node) -> csp.Program:
    """Resolves what a method does to its object."""
    method, name, word, arguments = find_method(scope, node)
    if not method.program:
        raise scope.error(node, "this statement has no effect", f"{word} only returns a value")
    define = method_macro(scope, name, word, len(arguments), program=True)
    return at_place(_expand(scope, define, arguments, scope.span(node)), scope.span(node))


def _is_array(scope: Scope, node: Node) -> bool:
    """Whether the node is the name of a global array without indices."""
    name = str(token(node, 0)) if node.data == "name" else ""
    hidden = name in scope.bound or name in scope.local
    return not hidden and name in scope.names.variables and bool(scope.names.variables[name].shape)


def _copy(scope: Scope, node: Node, target: str, values: tuple[csp.Expr, ...]) -> csp.Program:
    """Expands `a = b` for arrays into assignments of the elements."""
    size = len(scope.names.variables[target].initial)
    if size != len(values):
        message = f"`{target}` has {size} elements, and the value has {len(values)}"
        raise scope.error(node, message, "only arrays of the same size can be assigned")
    span = scope.span(node)
    return tuple(
        csp.Assign(csp.Global(target, (csp.Number(place, span=span),), span=span), value, span=span)
        for place, value in enumerate(values)
    )


def _called(scope: Scope, node: Node, value: Node) -> csp.Program:
    if value.data == "name":
        name = str(token(value, 0))
        define = scope.names.defines.get(name)
        if define is not None and name not in scope.bound and name not in scope.local:
            return _expand(scope, define, (), scope.span(value))
    if value.data == "method":
        return _do(scope, value)
    if value.data == "invoke":
        macro, arguments = find_macro(scope, value)
        return _expand(scope, macro, arguments, scope.span(value))
    resolve_expr(scope, value)
    raise scope.error(node, "this statement has no effect", _NO_EFFECT)


def _expand(scope: Scope, define: Define, arguments: tuple[csp.Expr, ...], span: Span) -> csp.Program:
    inner = enter(scope, define, arguments, span)
    if value_body(define.body) is not None and not _is_program_name(scope, define.body):
        raise inner.error(define.body, f"`{define.name}` is a value, not a program", _NO_EFFECT)
    return _statement(inner, define.body)[0]


def _step(scope: Scope, node: Node) -> csp.Statement:
    target, sign = child(node, 0), token(node, 1)
    value = resolve_expr(scope, target)
    changed = combine("+" if sign == "++" else "-", value, csp.Number(1), scope.span(node))
    return _assign(scope, target, changed, scope.span(node))


def _assign(scope: Scope, target: Node, value: csp.Expr, span: Span) -> csp.Assign:
    if target.data not in {"name", "element_of"}:
        raise scope.error(target, "only variables can be assigned", _NO_EFFECT)
    written = token(target, 0)
    name = str(written)
    _check_assignable(scope, written, name)
    if name in scope.arrays:
        return _assign_local_element(scope, target, value, span)
    if name in scope.local:
        if target.data == "element_of":
            raise scope.error(target, f"`{name}` is not an array", f"declare it as one: `var {name}[3];`")
        return csp.Assign(csp.Bound(scope.local[name], span=scope.span(target)), value, span=span)
    if target.data == "element_of":
        return csp.Assign(global_element(scope, target), value, span=span)
    if scope.names.variables[name].shape:
        raise scope.error(target, f"`{name}` is an array", f"assign an element: `{name}[0] = ...`")
    return csp.Assign(csp.Global(name, span=scope.span(target)), value, span=span)


def _check_assignable(scope: Scope, written: Token, name: str) -> None:
    names = scope.names
    if name in scope.local:
        return
    if name in scope.bound:
        hint = f"copy it into a variable: `var v = {name};`"
        raise scope.error(
            written, f"`{name}` is a parameter or received value and cannot be assigned", hint
        )
    if name in names.constants:
        raise scope.error(
            written, f"`{name}` is a constant and cannot be assigned", f"declare `var {name} = ...;`"
        )
    if name in names.defines:
        raise scope.error(
            written, f"`{name}` is a condition and cannot be assigned", "assign the variables it uses"
        )
    if name not in names.variables:
        raise unknown(scope, written, name)


def _assign_local_element(scope: Scope, target: Node, value: csp.Expr, span: Span) -> csp.Assign:
    name = str(token(target, 0))
    shape = scope.arrays[name]
    if target.data == "name":
        raise scope.error(target, f"`{name}` is an array", f"assign an element: `{name}[0] = ...`")
    indices = indices_of(scope, target)
    if len(indices) not in {1, len(shape)}:
        raise scope.error(target, f"`{name}` takes {len(shape)} indices, not {len(indices)}")
    flat = indices[0]
    for index, size in zip(indices[1:], shape[1:], strict=False):
        flat = combine("+", combine("*", flat, csp.Number(size), index.span), index, index.span)
    return csp.Assign(csp.Bound(scope.local[name], span=scope.span(target)), value, flat, span=span)


def _new_local(scope: Scope, name: str) -> str:
    """Returns a name that is unique in the program."""
    unique, count = name, 1
    while unique in scope.taken:
        count += 1
        unique = f"{name}_{count}"
    scope.taken.add(unique)
    return unique


def _local(scope: Scope, node: Node) -> tuple[csp.Program, Scope]:
    """Declares a local variable under a name that is unique in the program."""
    written, initial = token(node, 0), optional(node, 2)
    name = str(written)
    check_fresh(scope, written, name, "variable")
    unique = _new_local(scope, name)
    shape = tuple(
        resolve_constant(scope, size, "the size of an array") for size in children(child(node, 1))
    )
    after = replace(scope, local={**scope.local, name: unique})
    if initial is not None and initial.data == "record":
        hint = f"declare `var {name}[n];` and assign its elements"
        raise scope.error(initial, "a local array cannot have an initial value", hint)
    if not shape:
        value = csp.Number(0, span=scope.span(written)) if initial is None else resolve_expr(scope, initial)
        return (csp.Declare(unique, value, span=scope.span(node)),), after
    if initial is not None or min(shape) < 1:
        message = f"the local array `{name}` needs a size of at least 1 and no initial value"
        raise scope.error(node, message)
    after = replace(after, arrays={**scope.arrays, name: shape})
    return (
        csp.Declare(unique, csp.Number(0, span=scope.span(written)), prod(shape), span=scope.span(node)),
    ), after
