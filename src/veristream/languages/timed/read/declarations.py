"""Builds declarations, functions, statements and parameters from parse trees."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from lark import Tree

from veristream.errors import ModelError
from veristream.ir.text.read_tree import Node, child, children, maybe, optional, token
from veristream.languages.timed import syntax
from veristream.languages.timed.read.expressions import (
    Scope,
    maybe_expression,
    read_channel,
    read_expression,
    read_expressions,
    read_old_value,
    read_prefixed,
    read_shape,
    read_type,
)
from veristream.languages.timed.read.labels import read_updates

_DECLARATIONS = {"variables", "old_constants", "typedef", "function", "priority"}


def read_declarations(scope: Scope, nodes: list[Node]) -> tuple[syntax.Declaration, ...]:
    """Reads the declarations among the nodes, in order, and adds their types to the scope."""
    found: list[syntax.Declaration] = []
    for node in nodes:
        match node.data:
            case "variables" | "old_constants" | "typedef":
                found += _read_locals(scope, node)
            case "function":
                found.append(_read_function(scope, node))
            case "priority":
                found.append(_read_priority(scope, node))
            case "hook":
                found.append(_read_hook(scope, node))
    return tuple(found)


def _read_locals(scope: Scope, node: Node) -> Iterator[syntax.Variable | syntax.TypeDefinition]:
    """Reads variables, constants and types, which a block can declare too."""
    match node.data:
        case "variables":
            yield from _read_variables(scope, node)
        case "typedef":
            yield from _read_types(scope, node)
        case _:
            yield from _read_old_constants(scope, node)


def _read_variables(scope: Scope, node: Node) -> Iterator[syntax.Variable]:
    kind, prefixes = read_prefixed(scope, child(node, 0))
    for part in children(node)[1:]:
        name, shape, initial = str(token(part, 0)), read_shape(scope, child(part, 1)), optional(part, 3)
        value = None if initial is None else _read_initial(scope, initial)
        scope.types.discard(name)
        span = scope.span(part)
        yield syntax.Variable(name, kind, shape, value, "const" in prefixes, "meta" in prefixes, span=span)


def _read_old_constants(scope: Scope, node: Node) -> Iterator[syntax.Variable]:
    """`const N 5, M 6;`."""
    for part in children(node):
        written, span = child(part, 2), scope.span(part)
        is_list = written.data == "list"
        value = _read_initial(scope, written) if is_list else read_old_value(scope, written)
        name, shape = str(token(part, 0)), read_shape(scope, child(part, 1))
        scope.types.discard(name)
        yield syntax.Variable(name, syntax.IntType(span=span), shape, value, constant=True, span=span)


def _read_initial(scope: Scope, node: Node) -> syntax.Initial:
    if node.data != "list":
        return read_expression(scope, node)
    items = []
    for item in children(node):
        name = maybe(item, 0)
        items.append((None if name is None else str(name), _read_initial(scope, child(item, 1))))
    return syntax.InitialList(tuple(items), span=scope.span(node))


def _read_types(scope: Scope, node: Node) -> Iterator[syntax.TypeDefinition]:
    kind, _ = read_prefixed(scope, child(node, 0))  # `const` and `meta` do not affect the values of a type
    for part in children(node)[1:]:
        name = str(token(part, 0))
        yield syntax.TypeDefinition(name, kind, read_shape(scope, child(part, 1)), span=scope.span(part))
        scope.types.add(name)


def _read_priority(scope: Scope, node: Node) -> syntax.ChannelPriority:
    levels: list[tuple[syntax.Expression, ...]] = []
    for level in children(node):
        channels: list[syntax.Expression] = []
        for part in level.children:
            if isinstance(part, Tree):
                channels.append(read_channel(scope, part))
            else:
                channels.append(syntax.Name("default", span=scope.span(part)))
        levels.append(tuple(channels))
    return syntax.ChannelPriority(tuple(levels), span=scope.span(node))


def _read_hook(scope: Scope, node: Node) -> syntax.Hook:
    word = token(node, 0)
    when: Literal["before", "after"] = "before" if word == "before_update" else "after"
    return syntax.Hook(when, read_updates(scope, child(node, 1)), span=scope.span(word))


def _read_function(scope: Scope, node: Node) -> syntax.Function:
    result, inner = read_type(scope, child(node, 0)), scope.inner()
    parameters = read_parameters(inner, optional(node, 2))
    body = _read_block(inner, child(node, 3))
    return syntax.Function(str(token(node, 1)), result, parameters, body, span=scope.span(token(node, 1)))


def read_parameters(scope: Scope, node: Node | None) -> tuple[syntax.Parameter, ...]:
    """Reads the parameters of a function, template or instance.

    In the style of UPPAAL 3, `(int a, b; const c)`, a type applies to all names that follow it, `const`
    declares a constant number, and all other parameters are passed by reference.
    """
    if node is None:
        return ()
    parts = children(node)
    old = any(part.data != "parameter" for part in parts)
    found: list[syntax.Parameter] = []
    for part in parts:
        if part.data != "old_separator":
            found.append(_read_parameter(scope, part, old, found[-1:]))
            scope.types.discard(found[-1].name)
    return tuple(found)


def _read_parameter(
    scope: Scope, node: Node, old: bool, before: list[syntax.Parameter]
) -> syntax.Parameter:
    span = scope.span(node)
    match node.data:
        case "parameter":
            kind, prefixes = read_prefixed(scope, child(node, 0))
            name, shape = str(token(node, 2)), read_shape(scope, child(node, 3))
            constant = "const" in prefixes
            reference = maybe(node, 1) is not None or (old and not constant)
            return syntax.Parameter(name, kind, shape, reference, constant, span=span)
        case "old_parameter":
            kind, reference, constant = syntax.IntType(span=span), False, True
        case _ if not before:
            message = f"the parameter `{token(node, 0)}` has no type"
            raise ModelError(message, span, f"write `int {token(node, 0)}`")
        case _:
            kind, reference, constant = before[0].type, before[0].reference, before[0].constant
    shape = read_shape(scope, child(node, 1))
    return syntax.Parameter(str(token(node, 0)), kind, shape, reference, constant, span=span)


# --- Statements


def _read_block(scope: Scope, node: Node) -> syntax.Block:
    declarations: list[syntax.Variable | syntax.TypeDefinition] = []
    statements: list[syntax.Statement] = []
    for part in children(node):
        if part.data not in _DECLARATIONS:
            statements.append(_read_statement(scope, part))
        elif statements:
            hint = "move it to the beginning of the block, or open a nested block with `{`"
            raise ModelError("declarations must precede statements", scope.span(part), hint)
        else:
            declarations += _read_locals(scope, part)
    return syntax.Block(tuple(declarations), tuple(statements), span=scope.span(node))


def _read_statement(scope: Scope, node: Node) -> syntax.Statement:
    span = scope.span(node)
    match node.data:
        case "block":
            return _read_block(scope.inner(), node)
        case "evaluate":
            return syntax.Evaluate(read_expression(scope, child(node, 0)), span=span)
        case "for":
            return syntax.For(
                read_expressions(scope, optional(node, 0)),
                maybe_expression(scope, optional(node, 1)),
                read_expressions(scope, optional(node, 2)),
                _read_statement(scope, child(node, 3)),
                span=span,
            )
        case "foreach":
            name, kind = str(token(node, 0)), read_type(scope, child(node, 1))
            return syntax.ForEach(name, kind, _read_statement(scope, child(node, 2)), span=span)
        case "while":
            condition = child(node, 0)
            return syntax.While(
                read_expression(scope, condition), _read_statement(scope, child(node, 1)), span=span
            )
        case "do":
            body, condition = _read_statement(scope, child(node, 0)), child(node, 1)
            return syntax.While(read_expression(scope, condition), body, body_first=True, span=span)
        case "if":
            branches = [_read_statement(scope, part) for part in children(node)[1:]]
            otherwise = branches[1] if len(branches) > 1 else None
            return syntax.If(read_expression(scope, child(node, 0)), branches[0], otherwise, span=span)
        case "return":
            return syntax.Return(maybe_expression(scope, optional(node, 0)), span=span)
        case _:
            return syntax.Nothing(span=span)
