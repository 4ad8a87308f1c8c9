"""The initial state: the declared values, which are constants."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from itertools import product
from math import prod

from veristream.ir.constant import constant_value
from veristream.ir.network import Variable
from veristream.ir.verify import ELEMENTS_MAX
from veristream.languages.actions.lower.convert import check_items, compile_value
from veristream.languages.actions.lower.expressions import new_scope
from veristream.languages.actions.lower.records import record_arguments
from veristream.languages.actions.lower.values import scalar
from veristream.languages.actions.read import types
from veristream.languages.actions.read.module import Module, StateVariable


@dataclass(frozen=True, slots=True)
class Start:
    """Collects the initial values of a declared variable.

    `cells` holds the number of each element of each leaf, by suffix and inner indices.
    """

    module: Module
    state: StateVariable
    cells: dict[tuple[str, tuple[int, ...]], int] = field(default_factory=dict)


def variables_of(module: Module, state: StateVariable, name: str, count: int | None) -> list[Variable]:
    """Returns the IR variables of a declared one; `count` makes each an array over a role's instances."""
    parts = types.leaves(state.shape)
    size = (count or 1) * sum(prod(leaf.dimensions) for leaf in parts)
    if size > ELEMENTS_MAX:
        raise module.text.error(
            state.node.annotation,
            f"{state.name} has {size} elements",
            f"the limit is {ELEMENTS_MAX} elements; lower the bounds of its type",
        )
    start = Start(module, state)
    _fill(start, state.shape, state.default, "", ())
    outer = () if count is None else (count,)
    span = module.text.span(state.node)
    result = []
    for leaf in parts:
        inner = [range(dimension) for dimension in leaf.dimensions]
        values = tuple(start.cells[leaf.suffix, indices] for indices in product(*inner))
        result.append(
            Variable(
                name + leaf.suffix, leaf.type, outer + leaf.dimensions, values * (count or 1), span=span
            )
        )
    return result


def check_defaults(module: Module) -> None:
    """Raises ModelError if the default of a record's field is not a constant of its type."""
    for (record, name), default in module.defaults.items():
        shape = module.records[record].field(name)
        assert shape is not None
        annotation = ast.copy_location(ast.Name(name), default)
        target = ast.copy_location(ast.Name(name), default)
        node = ast.copy_location(ast.AnnAssign(target, annotation, default, 1), default)
        variables_of(module, StateVariable(name, shape, default, node), name, None)


def _fill(
    start: Start, shape: types.Shape, default: ast.expr | None, suffix: str, inner: tuple[int, ...]
) -> None:
    match shape:
        case types.Scalar() | types.SetOf():
            start.cells[suffix, inner] = _constant(start, shape, default)
        case types.Record(name=record, fields=fields):
            given = _record_arguments(start, shape, default)
            for name, part in fields:
                value = given.get(name, start.module.defaults.get((record, name)))
                _fill(start, part, value, f"{suffix}.{name}", inner)
        case types.MapOf(key=key, value=value_shape):
            entries = _map_entries(start, shape, default)
            for position in range(key.size):
                value = entries[position] if entries else default
                _fill(start, value_shape, value, suffix, (*inner, position))
        case types.SeqOf():
            _fill_sequence(start, shape, default, suffix, inner)


def _fill_sequence(
    start: Start, shape: types.SeqOf, default: ast.expr | None, suffix: str, inner: tuple[int, ...]
) -> None:
    items = _list_items(start, shape, default)
    start.cells[f"{suffix}.len", inner] = len(items)
    for position in range(shape.bound):
        if position < len(items):
            _fill(start, shape.item, items[position], f"{suffix}.item", (*inner, position))
        else:
            for leaf in types.leaves(shape.item):
                start.cells[f"{suffix}.item{leaf.suffix}", (*inner, position)] = types.rest_of(leaf.type)


def _list_items(start: Start, shape: types.SeqOf, default: ast.expr | None) -> list[ast.expr]:
    text = start.module.text
    if default is None:
        return []
    if not isinstance(default, ast.List):
        raise text.error(
            default,
            f"the initial value of {types.describe(shape)} is not a list",
            "write [] for an empty one",
        )
    check_items(default, len(default.elts), shape, start.module)
    return default.elts


def _record_arguments(start: Start, shape: types.Record, default: ast.expr | None) -> dict[str, ast.expr]:
    match default:
        case None:
            return {}
        case ast.Call(func=ast.Name(id=name)) if name == shape.name:
            return record_arguments(start.module, shape, default)
        case _:
            raise start.module.text.error(
                default, f"the initial value of {shape.name} is not a record", f"write {shape.name}(...)"
            )


def _map_entries(start: Start, shape: types.MapOf, default: ast.expr | None) -> dict[int, ast.expr]:
    """Returns the entries of a dict by position; empty if one value applies to every key."""
    if not isinstance(default, ast.Dict):
        return {}
    text = start.module.text
    entries: dict[int, ast.expr] = {}
    for key, value in zip(default.keys, default.values, strict=True):
        if key is None:
            raise text.error(default, "models cannot use ** here", "write the entries one by one")
        position = _constant(start, shape.key, key) - shape.key.low
        if position in entries:
            raise text.error(key, "duplicate key", "remove one of the entries")
        entries[position] = value
    if len(entries) < shape.key.size:
        raise text.error(
            default,
            f"{types.describe(shape)} has {shape.key.size} keys, but the dict has {len(entries)}",
            "add the missing keys, or write one value for all keys instead of a dict",
        )
    return entries


def _constant(start: Start, shape: types.Scalar | types.SetOf, default: ast.expr | None) -> int:
    text, node = start.module.text, start.state.node
    if default is None:
        if isinstance(shape, types.SetOf):
            return 0
        if shape.maybe:
            return shape.low
        raise text.error(node, f"{start.state.name} has no initial value", _example(start, shape))
    value = compile_value(default, new_scope(start.module), shape)
    number = constant_value(scalar(value))
    if number is None:
        raise text.error(
            default, "this is not a constant", "an initial value consists of literals and constants"
        )
    _check_range(start, types.leaves(shape)[0], number, default)
    return number


def _example(start: Start, shape: types.Scalar) -> str:
    first = {"bool": "False", "role": f"{shape.name}[0]", "int": str(shape.low)}.get(shape.kind)
    if shape.kind == "enum":
        first = f"{shape.name}.{start.module.enums[shape.name][0]}"
    return f"write `{start.state.name}: ... = {first}`, or a default in the record"


def _check_range(start: Start, leaf: types.Leaf, value: int, node: ast.expr) -> None:
    if not leaf.type.low <= value <= leaf.type.high:
        raise start.module.text.error(
            node,
            f"{value} is outside the range {leaf.type.low} to {leaf.type.high}",
            "widen the type or change the initial value",
        )
