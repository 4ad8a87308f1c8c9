"""Parse trees and syntax errors: what the readers of networks, CSP# and UPPAAL's languages share."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias, cast

from lark import Token, Tree
from lark.parsers.lalr_interactive_parser import InteractiveParser

from veristream.errors import ModelError
from veristream.source import Source, Span

Node: TypeAlias = Tree[Token]
Branch: TypeAlias = Tree[Token] | Token

_EXPECTED_MAX = 6
CLOSED_BY = {"(": ")", "[": "]", "{": "}"}


def feed(state: InteractiveParser, tokens: Sequence[Token]) -> Node:
    """Parses the tokens to their end; raises UnexpectedToken."""
    for one in tokens:
        state.feed_token(one)
    last = tokens[-1] if tokens else Token("$END", "", 0)
    tree: Node = state.feed_token(Token.new_borrow_pos("$END", "", last))
    return tree


def token_before(tokens: Sequence[Token], found: Token) -> Token | None:
    """Returns the token before one of the tokens, or the last one before the end of the text."""
    before: Token | None = None
    for one in tokens:
        if one is found:
            break
        before = one
    return before


def pair_brackets(
    source: Source, tokens: Sequence[Token], interrupts: Callable[[int, list[int]], bool] | None = None
) -> dict[int, int]:
    """Maps the position of each bracket to that of its partner; raises ModelError if one is missing.

    `interrupts(position, opened)` says whether a declaration begins at the position, so that the brackets
    at the positions `opened` are not closed.
    """
    partner: dict[int, int] = {}
    opened: list[int] = []
    for position, one in enumerate(tokens):
        if one in CLOSED_BY:
            opened.append(position)
        elif one in CLOSED_BY.values():
            if not opened:
                hint = "remove it, or add the opening bracket"
                raise ModelError(f"unmatched `{one}`", span_of(source, one), hint)
            if CLOSED_BY[tokens[opened[-1]]] != one:
                raise _not_closed(source, tokens[opened[-1]], f"`{one}`", one)
            partner[opened[-1]] = position
            partner[position] = opened.pop()
        elif opened and interrupts is not None and interrupts(position, opened):
            raise _not_closed(source, tokens[opened[-1]], "declaration", one)
    if opened:
        raise _not_closed(source, tokens[opened[-1]])
    return partner


def _not_closed(source: Source, opening: Token, what: str = "", found: Token | None = None) -> ModelError:
    where = "" if found is None else f" before the {what} on line {span_of(source, found).line}"
    hint = f"add the missing `{CLOSED_BY[opening]}`"
    return ModelError(f"this `{opening}` is not closed{where}", span_of(source, opening), hint)


def span_of(source: Source, branch: Branch) -> Span:
    """Returns the source span of a part of the tree."""
    if isinstance(branch, Token):
        start = branch.start_pos or 0
        return Span(source, start, start + len(branch) if branch.end_pos is None else branch.end_pos)
    if branch.meta.empty:
        return Span(source, 0, 0)
    return Span(source, branch.meta.start_pos, branch.meta.end_pos)


def children(node: Node) -> list[Node]:
    """Returns the children that are nodes."""
    return [child for child in node.children if isinstance(child, Tree)]


def child(node: Node, position: int) -> Node:
    """Returns the child at the position, which is a node."""
    found = node.children[position]
    assert isinstance(found, Tree), (node.data, position)
    return found


def maybe(node: Node, position: int) -> Branch | None:
    """Returns the child at the position, or None if it is omitted."""
    return cast("Branch | None", node.children[position])


def optional(node: Node, position: int) -> Node | None:
    """Returns the child at the position, which is a node, or None if it is omitted."""
    found = maybe(node, position)
    return found if isinstance(found, Tree) else None


def token(node: Node, position: int) -> Token:
    """Returns the child at the position, which is a token."""
    found = node.children[position]
    assert isinstance(found, Token), (node.data, position)
    return found


def is_word(found: str) -> bool:
    """Returns whether the text of a token is a name or a keyword."""
    return re.fullmatch(r"[^\W\d]\w*", found) is not None


def list_expected(first: list[str], others: Iterable[str]) -> str:
    """Lists what a parser accepts, at most a few words: `first`, then general words, signs and keywords."""
    rest = set(others) - {"", *first}
    words = first + sorted(rest, key=lambda word: (word[0] != "a", word[1:2].isalpha(), word))
    if len(words) > _EXPECTED_MAX:
        words = [*words[:_EXPECTED_MAX], "or more"]
    return ", ".join(words)
