"""The concrete syntax tree, by tree-sitter's grammar of TLA+: parts of nodes, their texts and spans."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache

import tree_sitter
import tree_sitter_tlaplus

from veristream.errors import ModelError
from veristream.source import Source, Span

COMMENTS = ("comment", "block_comment")


@dataclass(frozen=True, slots=True)
class Tree:
    """A text and its tree; offsets of the tree are bytes, those of spans are characters."""

    source: Source
    data: bytes
    root: tree_sitter.Node
    offsets: list[int] | None = field(repr=False)

    def span(self, node: tree_sitter.Node) -> Span:
        if self.offsets is None:
            return Span(self.source, node.start_byte, node.end_byte)
        return Span(self.source, self.offsets[node.start_byte], self.offsets[node.end_byte])

    def text(self, node: tree_sitter.Node) -> str:
        return self.data[node.start_byte : node.end_byte].decode()


def parse_tree(source: Source) -> Tree:
    """Parses a text; raises ModelError at the first place that is no TLA+."""
    data = source.text.encode()
    offsets = None
    if len(data) != len(source.text):
        offsets = [at for at, char in enumerate(source.text) for _ in char.encode()] + [len(source.text)]
    parser = tree_sitter.Parser(_language())
    tree = Tree(source, data, parser.parse(data).root_node, offsets)
    if tree.root.has_error:
        wrong = next(_errors(tree.root))
        span = tree.span(wrong)
        shown = tree.text(wrong).strip().split("\n")[0][:40]
        what = f"`{wrong.type}` is missing here" if wrong.is_missing else f"this is no TLA+: `{shown}`"
        hint = "check the operator, brackets and the alignment of bulleted lists before it"
        raise ModelError(what, span, hint)
    return tree


@cache
def _language() -> tree_sitter.Language:
    """The grammar; its package passes it as a number, of which newer versions of tree-sitter warn."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return tree_sitter.Language(tree_sitter_tlaplus.language())


def _errors(node: tree_sitter.Node) -> Iterator[tree_sitter.Node]:
    """The nodes that the parser could not make sense of, innermost first."""
    for child in node.children:
        if child.has_error or child.is_missing:
            yield from _errors(child)
    if node.is_error or node.is_missing:
        yield node


def parts(node: tree_sitter.Node, name: str) -> list[tree_sitter.Node]:
    """The children of a field, without punctuation."""
    return [one for one in node.children_by_field_name(name) if one.is_named]


def part(node: tree_sitter.Node, name: str) -> tree_sitter.Node:
    """The one child of a field."""
    (one,) = parts(node, name)
    return one


def named(node: tree_sitter.Node) -> list[tree_sitter.Node]:
    """The named children that are no comments."""
    return [one for one in node.named_children if one.type not in COMMENTS]
