"""Construction of records: `Message(kind=..., ...)` and `replace(message, kind=...)`."""

from __future__ import annotations

import ast
from dataclasses import replace

from veristream.languages.actions.lower.convert import compile_value, describe_value
from veristream.languages.actions.lower.values import Fields, Scope, Value, part_of
from veristream.languages.actions.read.module import Module
from veristream.languages.actions.read.types import Record


def compile_record(node: ast.Call, scope: Scope, name: str) -> Value:
    """Compiles the construction of a record; omitted fields take their defaults."""
    record = scope.module.records[name]
    given = record_arguments(scope.module, record, node)
    parts: dict[str, Value] = {}
    for field, shape in record.fields:
        if field in given:
            parts[field] = compile_value(given[field], scope, shape)
        elif (name, field) in scope.module.defaults:
            # A default does not see the names where the record is constructed.
            outside = replace(scope, locals={})
            parts[field] = compile_value(scope.module.defaults[name, field], outside, shape)
        else:
            raise scope.module.text.error(
                node,
                f"{name} needs a value for {field}",
                "pass it here, or declare a default for the field",
            )
    return Fields(record, parts)


def record_arguments(module: Module, record: Record, node: ast.Call) -> dict[str, ast.expr]:
    """Returns the fields that a call passes by position or by name."""
    names = [field for field, _ in record.fields]
    if len(node.args) > len(names):
        raise module.text.error(
            node, f"{record.name} has {len(names)} fields, not {len(node.args)}", ", ".join(names)
        )
    given = dict(zip(names, node.args, strict=False))
    for keyword in node.keywords:
        if keyword.arg is None or keyword.arg not in names:
            what = "no ** arguments" if keyword.arg is None else f"no field {keyword.arg}"
            raise module.text.error(keyword, f"{record.name} has {what}", f"it has {', '.join(names)}")
        if keyword.arg in given:
            raise module.text.error(keyword, f"duplicate field {keyword.arg}", "remove one of them")
        given[keyword.arg] = keyword.value
    return given


def compile_replace(node: ast.Call, scope: Scope, record: ast.expr) -> Value:
    """Compiles `replace(record, field=value)`."""
    value = compile_value(record, scope)
    shape = value.shape
    if not isinstance(shape, Record):
        raise scope.module.text.error(
            record,
            f"replace(...) takes a record first, not {describe_value(value)}",
            "write replace(record, field=value)",
        )
    parts: dict[str, Value] = {name: part_of(value, name) for name, _ in shape.fields}
    for keyword in node.keywords:
        wanted = shape.field(keyword.arg or "")
        if keyword.arg is None or wanted is None:
            names = ", ".join(name for name, _ in shape.fields)
            raise scope.module.text.error(
                keyword, f"{shape.name} has no field {keyword.arg}", f"it has {names}"
            )
        parts[keyword.arg] = compile_value(keyword.value, scope, wanted)
    return Fields(shape, parts)
