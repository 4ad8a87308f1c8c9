"""Local names of an action: what each name refers to, and for how long.

A name for a number or record is a copy. A name for a collection of the state is an alias of that part of
the state, as in Python, with the indices fixed when the name is assigned.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field, replace

from veristream.ir.expr import Assign, Const, Expr, Let, Load, Local, Statement, Type
from veristream.ir.walk import mentions
from veristream.languages.actions.lower import values
from veristream.languages.actions.lower.convert import describe_value
from veristream.languages.actions.read import types

Alias = tuple[str, int]
"""A part of the state that a name refers to: its variable and the number of its indices."""


@dataclass(slots=True)
class Body:
    """An update under compilation: its declarations, and the locals that hold values."""

    declared: list[Statement] = field(default_factory=list)
    held: dict[str, values.Held] = field(default_factory=dict)
    globals: set[str] = field(default_factory=set)
    aliases: frozenset[Alias] = frozenset()  # of the callers' names


def is_alias(value: values.Value) -> bool:
    """Returns whether a name for the value refers to a part of the state."""
    return isinstance(value, values.Stored) and isinstance(
        value.shape, types.SetOf | types.SeqOf | types.MapOf
    )


def aliases_of(scope: values.Scope, body: Body) -> frozenset[Alias]:
    """Returns the parts of the state that names refer to, including those of the callers."""
    named = [
        value for value in scope.locals.values() if isinstance(value, values.Stored) and is_alias(value)
    ]
    return body.aliases | {(value.variable, len(value.indices)) for value in named}


def hold(
    node: ast.stmt, name: str, value: values.Value, scope: values.Scope, body: Body
) -> tuple[list[Statement], values.Scope]:
    """Copies a value into the locals of a name; for a collection, only fixes the path."""
    if isinstance(value, values.Stored) and is_alias(value):
        return _fix_path(node, name, value, scope, body)
    shape = _held_shape(node, name, value, scope)
    held = body.held.get(name)
    if held is None:
        held = values.Held(shape, scope.fresh.name(name))
        body.held[name] = held
        body.declared += [
            _unset(values.local_name(held.name, leaf), leaf.type) for leaf in types.leaves(shape)
        ]
    elif held.shape != shape:
        raise scope.module.text.error(
            node,
            f"{name} was {types.describe(held.shape)} and becomes {types.describe(shape)}",
            "use another name",
        )
    return _copies(node, held, value, scope), scope.bind(name, held)


def _held_shape(
    node: ast.stmt, name: str, value: values.Value, scope: values.Scope
) -> types.Scalar | types.SetOf | types.Record:
    text, shape = scope.module.text, value.shape
    match shape:
        case types.Scalar(kind="none"):
            raise text.error(node, f"the type of {name} is unknown", "None alone has no type")
        case types.Scalar(kind="int", maybe=False):
            return types.INTEGER
        case types.Record() if any(leaf.dimensions for leaf in types.leaves(shape)):
            raise text.error(
                node,
                f"{shape.name} contains collections and cannot be copied into a name",
                "use its fields, such as self.record.field",
            )
        case types.Scalar() | types.SetOf() | types.Record():
            return shape
        case _:
            raise text.error(
                node,
                f"{describe_value(value)} cannot be copied into a name",
                "build collections in the state",
            )


def _copies(node: ast.stmt, held: values.Held, value: values.Value, scope: values.Scope) -> list[Statement]:
    """Returns the assignments to a name's locals; they read all of the value before they write."""
    parts, span = types.leaves(held.shape), scope.span(node)
    targets = [Local(values.local_name(held.name, leaf)) for leaf in parts]
    reads = [values.leaf_of(value, leaf) for leaf in parts]
    if len(parts) == 1 or isinstance(value, values.Stored | values.Held):
        return [Assign(target, read, span=span) for target, read in zip(targets, reads, strict=True)]
    names = [scope.fresh.name("new") for _ in parts]
    lets: list[Statement] = [
        Let(name, leaf.type, read, span=span) for name, leaf, read in zip(names, parts, reads, strict=True)
    ]
    return lets + [
        Assign(target, Local(name), span=span) for target, name in zip(targets, names, strict=True)
    ]


def _unset(name: str, type_: Type) -> Let:
    """Declares a local at the top; it is always set before it is read."""
    return Let(name, type_, Const(min(max(0, type_.low), type_.high)))


def _fix_path(
    node: ast.stmt, name: str, value: values.Stored, scope: values.Scope, body: Body
) -> tuple[list[Statement], values.Scope]:
    statements: list[Statement] = []
    fixed: list[Expr] = []
    for index in value.indices:
        if not mentions(index, Load) and not isinstance(index, Local):
            fixed.append(index)
            continue
        inner_name = f"{name}'index{len(fixed)}"
        copied, inner = hold(node, inner_name, values.Plain(types.INTEGER, index), scope, body)
        statements += copied
        held = inner.locals[inner_name]
        assert isinstance(held, values.Held)
        fixed.append(Local(held.name))
    return statements, scope.bind(name, values.Stored(value.shape, value.variable, tuple(fixed)))


def hold_all(
    node: ast.stmt, names: list[str], scope: values.Scope, body: Body
) -> tuple[list[Statement], values.Scope]:
    """Copies the values of the names, all at the same point."""
    statements: list[Statement] = []
    for name in names:
        copies, scope = hold(node, name, scope.locals[name], scope, body)
        statements += copies
    return statements, scope


def assigned_names(statements: list[ast.stmt]) -> set[str]:
    """Returns the names that the statements assign."""
    return {
        part.id
        for statement in statements
        for part in ast.walk(statement)
        if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)
    }


def used_names(statements: list[ast.stmt]) -> set[str]:
    """Returns the names that the statements read or assign."""
    return {
        part.id for statement in statements for part in ast.walk(statement) if isinstance(part, ast.Name)
    }


def joined_scope(before: values.Scope, then: values.Scope, otherwise: values.Scope) -> values.Scope:
    """Returns the scope after an `if`: the names with the same meaning on both paths."""
    both = {name: value for name, value in then.locals.items() if otherwise.locals.get(name) == value}
    some = set(then.locals) | set(otherwise.locals) | then.unset | otherwise.unset
    return replace(before, locals=both, unset=frozenset(some - set(both)))


def check_replaced(node: ast.stmt, place: values.Stored, scope: values.Scope, body: Body) -> None:
    """Raises ModelError if a name refers to the replaced part: in Python it would keep the old value."""
    for variable, depth in aliases_of(scope, body):
        is_inside = variable == place.variable and depth >= len(place.indices)
        if is_inside or variable.startswith(place.variable + "."):
            raise scope.module.text.error(
                node,
                "a name still refers to the collection that is replaced here",
                "change the collection in place, or do not name it before",
            )


def check_rounds(node: ast.For, before: values.Scope, after: values.Scope) -> None:
    """Raises ModelError if a name would change its meaning after the first iteration of a loop."""
    for name, value in before.locals.items():
        if after.locals.get(name) != value:
            raise before.module.text.error(
                node,
                f"{name} would refer to something else in the loop's second iteration",
                "use another name in the loop",
            )
