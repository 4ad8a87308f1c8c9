"""Local names of an action: what a name stands for, and until when.

A name for a number or record is a copy. A name for a collection of the state stands for that very part
of the state, as in Python, with its indices as they were when it was named.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field, replace

from veristream.ir.expr import Assign, Const, Expr, Let, Load, Local, Statement, Type
from veristream.languages.actions.lower.convert import describe_value
from veristream.languages.actions.lower.values import (
    Held,
    Plain,
    Scope,
    Stored,
    Value,
    leaf_of,
    local_name,
    mentions,
)
from veristream.languages.actions.read.types import (
    INTEGER,
    MapOf,
    Record,
    Scalar,
    SeqOf,
    SetOf,
    describe,
    leaves,
)

Alias = tuple[str, int]
"""A part of the state that a name stands for: its variable, and the number of its indices."""


@dataclass(slots=True)
class Body:
    """An update while it is compiled: what it declares, and the locals that hold values."""

    declared: list[Statement] = field(default_factory=list)
    held: dict[str, Held] = field(default_factory=dict)
    globals: set[str] = field(default_factory=set)
    aliases: frozenset[Alias] = frozenset()  # what the callers' names stand for


def is_alias(value: Value) -> bool:
    """Whether a name for the value stands for a part of the state."""
    return isinstance(value, Stored) and isinstance(value.shape, SetOf | SeqOf | MapOf)


def aliases_of(scope: Scope, body: Body) -> frozenset[Alias]:
    """The parts of the state that names stand for, those of the callers included."""
    named = [value for value in scope.locals.values() if isinstance(value, Stored) and is_alias(value)]
    return body.aliases | {(value.variable, len(value.indices)) for value in named}


def hold(
    node: ast.stmt, name: str, value: Value, scope: Scope, body: Body
) -> tuple[list[Statement], Scope]:
    """Copies a value into the locals of a name; of a collection only the path is fixed."""
    if isinstance(value, Stored) and is_alias(value):
        return _fix_path(node, name, value, scope, body)
    shape = _held_shape(node, name, value, scope)
    held = body.held.get(name)
    if held is None:
        held = Held(shape, scope.fresh.name(name))
        body.held[name] = held
        body.declared += [_unset(local_name(held.name, leaf), leaf.type) for leaf in leaves(shape)]
    elif held.shape != shape:
        raise scope.module.text.error(
            node, f"{name} was {describe(held.shape)} and becomes {describe(shape)}", "use another name"
        )
    return _copies(node, held, value, scope), scope.bind(name, held)


def _held_shape(node: ast.stmt, name: str, value: Value, scope: Scope) -> Scalar | SetOf | Record:
    text, shape = scope.module.text, value.shape
    match shape:
        case Scalar(kind="none"):
            raise text.error(node, f"the type of {name} is not known", "None alone has no type")
        case Scalar(kind="int", maybe=False):
            return INTEGER
        case Record() if any(leaf.dimensions for leaf in leaves(shape)):
            raise text.error(
                node,
                f"{shape.name} holds collections and cannot be copied into a name",
                "speak of its parts, such as self.record.field",
            )
        case Scalar() | SetOf() | Record():
            return shape
        case _:
            raise text.error(
                node,
                f"{describe_value(value)} cannot be copied into a name",
                "build collections in the state",
            )


def _copies(node: ast.stmt, held: Held, value: Value, scope: Scope) -> list[Statement]:
    """The assignments to a name's locals, all of the value read before any of it is written."""
    parts, span = leaves(held.shape), scope.span(node)
    targets = [Local(local_name(held.name, leaf)) for leaf in parts]
    reads = [leaf_of(value, leaf) for leaf in parts]
    if len(parts) == 1 or isinstance(value, Stored | Held):
        return [Assign(target, read, span) for target, read in zip(targets, reads, strict=True)]
    names = [scope.fresh.name("new") for _ in parts]
    lets: list[Statement] = [
        Let(name, leaf.type, read, None, span) for name, leaf, read in zip(names, parts, reads, strict=True)
    ]
    return lets + [Assign(target, Local(name), span) for target, name in zip(targets, names, strict=True)]


def _unset(name: str, type_: Type) -> Let:
    """A local that is declared at the top; nothing reads it before it is set."""
    return Let(name, type_, Const(min(max(0, type_.low), type_.high)))


def _fix_path(
    node: ast.stmt, name: str, value: Stored, scope: Scope, body: Body
) -> tuple[list[Statement], Scope]:
    statements: list[Statement] = []
    fixed: list[Expr] = []
    for index in value.indices:
        if not mentions(index, Load) and not isinstance(index, Local):
            fixed.append(index)
            continue
        inner_name = f"{name}'index{len(fixed)}"
        copied, inner = hold(node, inner_name, Plain(INTEGER, index), scope, body)
        statements += copied
        held = inner.locals[inner_name]
        assert isinstance(held, Held)
        fixed.append(Local(held.name))
    return statements, scope.bind(name, Stored(value.shape, value.variable, tuple(fixed)))


def hold_all(node: ast.stmt, names: list[str], scope: Scope, body: Body) -> tuple[list[Statement], Scope]:
    """Copies what the names stand for, in one moment."""
    statements: list[Statement] = []
    for name in names:
        copies, scope = hold(node, name, scope.locals[name], scope, body)
        statements += copies
    return statements, scope


def assigned_names(statements: list[ast.stmt]) -> set[str]:
    """The names that the statements assign to."""
    return {
        part.id
        for statement in statements
        for part in ast.walk(statement)
        if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)
    }


def used_names(statements: list[ast.stmt]) -> set[str]:
    """The names that the statements read or assign to."""
    return {
        part.id for statement in statements for part in ast.walk(statement) if isinstance(part, ast.Name)
    }


def joined_scope(before: Scope, then: Scope, otherwise: Scope) -> Scope:
    """The scope after an `if`: the names that mean the same on both of its paths."""
    both = {name: value for name, value in then.locals.items() if otherwise.locals.get(name) == value}
    some = set(then.locals) | set(otherwise.locals) | then.unset | otherwise.unset
    return replace(before, locals=both, unset=frozenset(some - set(both)))


def check_replaced(node: ast.stmt, place: Stored, scope: Scope, body: Body) -> None:
    """Raises ModelError where a name would keep standing for what is replaced: in Python it would not."""
    for variable, depth in aliases_of(scope, body):
        is_inside = variable == place.variable and depth >= len(place.indices)
        if is_inside or variable.startswith(place.variable + "."):
            raise scope.module.text.error(
                node,
                "a name still stands for the collection that is replaced here",
                "change it in place, or do not name it before",
            )


def check_rounds(node: ast.For, before: Scope, after: Scope) -> None:
    """Raises ModelError where a name means something else in the second round of a loop."""
    for name, value in before.locals.items():
        if after.locals.get(name) != value:
            raise before.module.text.error(
                node,
                f"{name} would stand for something else in the loop's second round",
                "use another name in the loop",
            )
