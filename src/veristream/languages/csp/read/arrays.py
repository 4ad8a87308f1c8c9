"""Finds which parameters and fields of messages are whole arrays, and their shapes.

CSP# has no types: a parameter is an array if some reference passes one, a field of a message if some output
sends one. Both may be passed on, so the processes are walked until nothing new is found.
"""

from __future__ import annotations

from math import prod
from typing import TypeVar

from lark import Token

from veristream.ir.text.read_tree import Node, children, optional, token
from veristream.languages.csp.read.include import Piece
from veristream.languages.csp.read.names import Names, Scope
from veristream.languages.csp.read.resolve_expr import count_elements

Shape = tuple[int, ...]
KeyT = TypeVar("KeyT")


def find_arrays(names: Names, pieces: list[Piece]) -> None:
    """Fills the tables of array parameters and fields; raises ModelError if two sizes do not agree."""
    processes = [piece for piece in pieces if piece.node.data in {"definition", "assertion"}]
    known = -1
    while known < len(names.array_parameters) + len(names.array_fields):
        known = len(names.array_parameters) + len(names.array_fields)
        for piece in processes:
            _walk(Scope(names, piece.source), piece.node)


def _walk(scope: Scope, node: Node) -> None:
    names, bound = scope.names, _bound(scope.names, node)
    for part in node.iter_subtrees():
        if part.data == "reference":
            for position, written in enumerate(_parts(part, 1)):
                shape = _shape(scope, bound, written)
                _note(scope, names.array_parameters, (str(token(part, 0)), position), shape, written)
        elif part.data == "output":
            fields = _parts(part, 2)
            for position, written in enumerate(fields):
                shape = _shape(scope, bound, written)
                _note(scope, names.array_fields, (_channel(part), len(fields), position), shape, written)


def _parts(node: Node, position: int) -> list[Node]:
    found = optional(node, position)
    return [] if found is None else children(found)


def _channel(node: Node) -> str:
    first = node.children[0]
    assert first is not None
    return str(first if isinstance(first, Token) else token(first, 0))


def _note(scope: Scope, table: dict[KeyT, Shape], key: KeyT, shape: Shape | None, written: Node) -> None:
    if shape is None:
        return
    before = table.setdefault(key, shape)
    if prod(before) != prod(shape):
        message = f"this array has {prod(shape)} elements, but one of {prod(before)} is expected"
        raise scope.error(written, message, "pass and send arrays of one size")


def _shape(scope: Scope, bound: dict[str, Shape], written: Node) -> Shape | None:
    if written.data == "record":
        return (count_elements(scope, written),)
    if written.data != "name":
        return None
    name = str(token(written, 0))
    variable = scope.names.variables.get(name)
    return bound.get(name) or (None if variable is None else variable.shape or None)


def _bound(names: Names, node: Node) -> dict[str, Shape]:
    """Returns the arrays that a definition is known to bind, by its parameters and inputs."""
    found: dict[str, Shape] = {}
    if node.data == "definition":
        for position, parameter in enumerate(_parts(node, 1)):
            shape = names.array_parameters.get((str(token(node, 0)), position))
            if shape is not None:
                found[str(token(parameter, 0))] = shape
    for part in node.iter_subtrees():
        if part.data == "input":
            fields = _parts(part, 3)
            for position, field in enumerate(fields):
                shape = names.array_fields.get((_channel(part), len(fields), position))
                if shape is not None and field.data == "name":
                    found.setdefault(str(token(field, 0)), shape)
    return found
