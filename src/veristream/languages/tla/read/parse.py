"""Parses TLA+ modules to syntax."""

from __future__ import annotations

import re
from typing import Final

import tree_sitter

from veristream.errors import ModelError
from veristream.languages.tla.read.expressions import Reader
from veristream.languages.tla.read.tree import Tree, named, parse_tree, part
from veristream.languages.tla.syntax import Assumption, Constants, Module, Operator, Unit, Variables
from veristream.source import Node, Source, Span

_BEGINNING: Final = re.compile(r"-{4,}\s*MODULE\b")
SKIPPED = ("header_line", "extends", "double_line", "single_line", "use_or_hide")
"""Parts of a module that say nothing that a check needs."""
PROOFS = ("terminal_proof", "non_terminal_proof")


def read_module(source: Source) -> Module:
    """Parses the first module of a text. Raises ModelError, with position and hint, if it is invalid."""
    if not _BEGINNING.search(source.text):
        hint = "a module begins with `---- MODULE Name ----` and ends with `====`"
        raise ModelError("there is no module in this file", Span(source, 0, 0), hint)
    tree = parse_tree(source)
    return next(_module(tree, one) for one in named(tree.root) if one.type == "module")


def _module(tree: Tree, node: tree_sitter.Node) -> Module:
    reader, name = Reader(tree), part(node, "name")
    extended = [one for child in named(node) if child.type == "extends" for one in named(child)]
    units: list[Unit | Module] = []
    for child in named(node):
        is_nameless = child.type == "theorem" and not child.children_by_field_name("name")
        if child != name and child.type not in (*SKIPPED, *PROOFS) and not is_nameless:
            units.append(_unit(reader, child))
    return Module(
        tree.text(name),
        tuple(map(tree.text, extended)),
        tuple(units),
        tuple(Node(span=tree.span(one)) for one in extended),
        span=tree.span(name),
    )


def _unit(reader: Reader, node: tree_sitter.Node) -> Unit | Module:
    tree = reader.tree
    match node.type:
        case "module":
            return _module(tree, node)
        case "constant_declaration":
            return Constants(tuple(map(reader.parameter, named(node))), span=tree.span(node))
        case "variable_declaration":
            return Variables(tuple(map(reader.parameter, named(node))), span=tree.span(node))
        case "assumption":
            *name, condition = [one for one in named(node) if one.type != "def_eq"]
            called = tree.text(name[0]) if name else None
            return Assumption(reader.expression(condition), called, span=tree.span(node))
        case "theorem":
            called, body = tree.text(part(node, "name")), part(node, "statement")
            proved = reader.expression(body)
            return Operator(called, (), proved, span=tree.span(node))
        case "local_definition":
            (inner,) = named(node)
            return reader.definition(inner, local=True)
        case _:
            return reader.definition(node)
