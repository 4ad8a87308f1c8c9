"""Reads symmetries and bags of the text form."""

from __future__ import annotations

from typing import cast

from lark import Token, Tree

from veristream.ir.network import Sorted, SymmetricValues, SymmetricVariable, Symmetry
from veristream.ir.text.parse import name_of
from veristream.ir.text.read_expr import read_constant
from veristream.ir.text.read_names import Scope
from veristream.ir.text.read_tree import Node, child, children, span_of, token


def _dotted(node: Node) -> str:
    return ".".join(name_of(cast(Token, part)) for part in node.children)


def read_symmetry(node: Node, scope: Scope) -> Symmetry:
    """Reads `symmetry NAME SIZE { variable by 0, 1 id from 0; ... }`."""
    variables = tuple(_symmetric(part, scope) for part in children(node) if part.data == "symmetric")
    size = int(str(token(node, 1)))
    return Symmetry(name_of(token(node, 0)), size, variables, span=span_of(scope.names.source, node))


def _symmetric(node: Node, scope: Scope) -> SymmetricVariable:
    dimensions: tuple[int, ...] = ()
    values, low = SymmetricValues.OTHER, 0
    for part in children(node)[1:]:
        if part.data == "symmetric_by":
            dimensions = tuple(int(str(number)) for number in part.children)
        else:
            values = SymmetricValues(str(part.children[0]))
            low = read_constant(cast("Tree[Token]", part.children[1]), scope)
    return SymmetricVariable(_dotted(child(node, 0)), dimensions, values, low)


def read_bag(node: Node, scope: Scope) -> Sorted:
    """Reads `bag LENGTH { ITEM, ... }`."""
    length, *items = (_dotted(part) for part in children(node))
    return Sorted(length, tuple(items), span=span_of(scope.names.source, node))
