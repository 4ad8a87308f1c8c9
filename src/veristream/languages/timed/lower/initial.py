"""Initial values of declarations."""

from __future__ import annotations

from dataclasses import replace

from veristream.errors import ModelError, unknown
from veristream.ir import expr as ir
from veristream.languages.timed import syntax
from veristream.languages.timed.lower.constant import check_range, evaluate, find_fixed, look_up
from veristream.languages.timed.lower.scope import Fixed, Ref, Scope
from veristream.languages.timed.lower.types import (
    INT,
    Array,
    Dimension,
    Range,
    Record,
    Type,
    default,
    describe,
    leaves,
    same_layout,
)
from veristream.source import Span

Values = dict[str, list[int]]
"""The values of each leaf, row by row, keyed by its path."""


def initial_values(type_: Type, initial: syntax.Initial | None, scope: Scope, span: Span) -> Values:
    """Evaluates the initial value of a declaration; `initial` is None for the default."""
    match type_:
        case Range():
            return {"": [_initial_number(type_, initial, scope)]}
        case Array() | Record() if isinstance(initial, syntax.Name | syntax.Index | syntax.Member):
            return _copied(type_, initial, scope)
        case Array(dimension=dimension, element=element):
            items = _array_items(dimension.size, initial, span)
            parts = [initial_values(element, item, scope, span) for item in items]
            return {path: [number for part in parts for number in part[path]] for path in parts[0]}
        case Record():
            found: Values = {}
            for name, item in record_items(type_, initial, span).items():
                part = initial_values(dict(type_.fields)[name], item, scope, span)
                found.update({f".{name}{path}": values for path, values in part.items()})
            return found
        case _:
            if initial is not None:
                raise ModelError(
                    f"{describe(type_)} cannot have an initial value", initial.span, "remove it"
                )
            return {}


def _initial_number(type_: Range, initial: syntax.Initial | None, scope: Scope) -> int:
    if initial is None:
        return default(type_)
    if isinstance(initial, syntax.InitialList):
        raise ModelError("expected a number, found a list", initial.span, "remove the braces")
    value = evaluate(initial, scope)
    if type_ == ir.BOOL:
        return int(value != 0)
    return check_range(value, type_, initial.span)


def _array_items(
    size: int, initial: syntax.Initial | None, span: Span
) -> tuple[syntax.Initial | None, ...]:
    if initial is None:
        return (None,) * size
    if not isinstance(initial, syntax.InitialList):
        raise ModelError("expected a list, found a single value", initial.span, "write `{ ... }`")
    if len(initial.items) != size or any(name is not None for name, _ in initial.items):
        raise ModelError(
            f"expected {size} value(s) for the array, found {len(initial.items)}",
            initial.span,
            "write one value per element, without names",
        )
    return tuple(item for _, item in initial.items)


def record_items(
    type_: Record, initial: syntax.Initial | None, span: Span
) -> dict[str, syntax.Initial | None]:
    """Returns the initial values of a struct by field, in the order of the fields."""
    names = [name for name, _ in type_.fields]
    if initial is None:
        return dict.fromkeys(names)
    if not isinstance(initial, syntax.InitialList):
        raise ModelError("expected a list, found a single value", initial.span, "write `{ ... }`")
    if len(initial.items) != len(names):
        raise ModelError(
            f"expected {len(names)} value(s) for the struct, found {len(initial.items)}",
            initial.span,
            f"the fields are {', '.join(names)}",
        )
    found: dict[str, syntax.Initial | None] = {}
    for position, (name, item) in enumerate(initial.items):
        chosen = names[position] if name is None else name
        if chosen not in names or chosen in found:
            raise unknown("field", chosen, names, item.span, f"the fields are {', '.join(names)}")
        found[chosen] = item
    return {name: found[name] for name in names}


def _copied(type_: Type, initial: syntax.Expression, scope: Scope) -> Values:
    """Returns the values of another constant of the same type."""
    ref = find_fixed(initial, scope)
    if isinstance(ref, Fixed) or not same_layout(ref.type, type_):
        raise ModelError(
            "this constant has a different type",
            initial.span,
            f"use {describe(type_)} of the declared type",
        )
    values: Values = {}
    for leaf in leaves(ref.type):
        table = ref.tables[ref.name + leaf.path]
        before = tuple(index.value for index in ref.indices if isinstance(index, ir.Const))
        values[leaf.path] = [
            look_up(_leaf_at(ref, leaf.path, (*before, *place), table.leaf.dimensions), initial.span)
            for place in leaf.places()
        ]
    return values


def _leaf_at(ref: Ref, path: str, indices: tuple[int, ...], dimensions: tuple[Dimension, ...]) -> Ref:
    constants = tuple(ir.Const(index) for index in indices)
    return replace(ref, name=ref.name + path, type=INT, indices=constants, dimensions=dimensions)
