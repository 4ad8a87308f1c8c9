"""Type annotations of a model."""

from __future__ import annotations

import ast

from veristream.languages.actions.read import types
from veristream.languages.actions.read.constants import constant_value
from veristream.languages.actions.read.module import Module

_BOUNDED = {
    "int": "Int[0, 10], with the smallest and the largest value",
    "list": "Seq[T, bound]",
    "set": "Set[T]",
    "dict": "Map[K, V]",
    "tuple": "a Record",
    "str": "an Enum",
    "float": "Int[low, high]",
}
"""What to write instead of Python's own types, which are unbounded."""

_EXAMPLES = {
    "Int": "Int[0, 3]",
    "Maybe": "Maybe[Int[0, 3]]",
    "Set": "Set[Int[0, 3]]",
    "Seq": "Seq[Int[0, 3], 4]",
    "Bag": "Bag[Message, 4]",
    "Map": "Map[Int[0, 3], bool]",
}


def shape_of(module: Module, node: ast.expr) -> types.Shape:
    """Returns the type of an annotation."""
    match node:
        case ast.Name(id="bool"):
            return types.BOOLEAN
        case ast.Name(id=name) if name in module.enums:
            return module.enum(name)
        case ast.Name(id=name) if name in module.records:
            return module.records[name]
        case ast.Name(id=name) if name in module.roles:
            return module.roles[name].scalar
        case ast.Name(id=name) | ast.Subscript(value=ast.Name(id=name)) if name in _BOUNDED:
            raise module.text.error(node, f"`{name}` has no bounds", f"write {_BOUNDED[name]}")
        case ast.Name(id=name) if name in _EXAMPLES:
            raise module.text.error(node, f"{name} has no bounds here", f"write it as {_EXAMPLES[name]}")
        case ast.Name(id=name) if name in module.places:
            raise module.text.error(node, f"{name} is not a type", "use an enum, a record or a role")
        case ast.Name(id=name):
            raise module.text.error(
                node,
                f"unknown type `{name}`",
                module.similar(name) or "declare a type before its first use",
            )
        case ast.Subscript(value=ast.Name(id=name), slice=inner):
            arguments = inner.elts if isinstance(inner, ast.Tuple) else [inner]
            return _generic(module, node, name, arguments)
        case _:
            raise module.text.error(
                node,
                "this is not a type",
                "types are bool, Int[a, b], enums, records, roles, "
                "Maybe[T], Set[T], Seq[T, n], Bag[T, n], Map[K, V]",
            )


def _generic(module: Module, node: ast.expr, name: str, arguments: list[ast.expr]) -> types.Shape:
    if name not in _EXAMPLES:
        raise module.text.error(node, f"unknown type `{name}[...]`", module.similar(name))
    wanted = 1 if name in ("Maybe", "Set") else 2
    if len(arguments) != wanted:
        raise module.text.error(
            node,
            f"{name} takes {wanted} argument{'s' * (wanted > 1)}, not {len(arguments)}",
            f"write it as {_EXAMPLES[name]}",
        )
    if name == "Int":
        return _int(module, node, arguments)
    first = shape_of(module, arguments[0])
    match name:
        case "Maybe":
            item = _scalar(module, arguments[0], first, name)
            return types.Scalar(item.low - 1, item.high, item.kind, item.name, maybe=True)
        case "Set":
            item = _scalar(module, arguments[0], first, name)
            if item.size > types.SET_SIZE_MAX:
                raise module.text.error(
                    node,
                    f"a set over {item.size} values is too large",
                    f"a set ranges over at most {types.SET_SIZE_MAX} values",
                )
            return types.SetOf(item)
        case "Map":
            return types.MapOf(_scalar(module, arguments[0], first, name), shape_of(module, arguments[1]))
        case _:
            return _sequence(module, arguments, first, name)


def _int(module: Module, node: ast.expr, arguments: list[ast.expr]) -> types.Scalar:
    low, high = (int(constant_value(argument, module)) for argument in arguments)
    if low > high:
        raise module.text.error(
            node, f"the range {low} to {high} is empty", "write the smallest value first"
        )
    return types.Scalar(low, high)


def _sequence(module: Module, arguments: list[ast.expr], item: types.Shape, name: str) -> types.SeqOf:
    bound = int(constant_value(arguments[1], module))
    if bound < 1:
        raise module.text.error(arguments[1], f"the bound {bound} is too small", "it must be at least 1")
    if not isinstance(item, types.Scalar) and not (isinstance(item, types.Record) and _is_flat(item)):
        raise module.text.error(
            arguments[0],
            f"the items of a {name} cannot be {types.describe(item)}",
            "items are numbers, bools, enums, roles, or records with no collections except sets",
        )
    return types.SeqOf(item, bound, is_bag=name == "Bag")


def _is_flat(record: types.Record) -> bool:
    return all(
        isinstance(shape, types.Scalar | types.SetOf)
        or (isinstance(shape, types.Record) and _is_flat(shape))
        for _, shape in record.fields
    )


def _scalar(module: Module, node: ast.expr, shape: types.Shape, owner: str) -> types.Scalar:
    if not isinstance(shape, types.Scalar) or (owner == "Maybe" and shape.maybe):
        raise module.text.error(
            node,
            f"{owner} needs a number, bool, enum or role here",
            "records and collections are not allowed here",
        )
    return shape


def parameter_type(module: Module, node: ast.arg, owner: str, each: str, instead: str) -> types.Scalar:
    """Returns the type of a parameter of `owner`; the two other texts complete the hints."""
    if node.annotation is None:
        raise module.text.error(
            node, f"the parameter {node.arg} has no type", f"write `{node.arg}: Int[0, 3]`; {each}"
        )
    module.check_local(node.arg, node)
    shape = shape_of(module, node.annotation)
    if not isinstance(shape, types.Scalar):
        message = f"the parameter of {owner} must be a number, bool, enum or role"
        raise module.text.error(node, message, instead)
    return shape
