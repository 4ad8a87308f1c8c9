"""Parses the text form of a network into a tree, and explains syntax errors."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from typing import TypeAlias, cast

from lark import Lark, Token, Tree
from lark.exceptions import UnexpectedCharacters, UnexpectedToken
from lark.lexer import PatternStr

from veristream.errors import ModelError
from veristream.ir.text.spelling import quote, unquote
from veristream.source import Source, Span

Node: TypeAlias = Tree[Token]
Branch: TypeAlias = Tree[Token] | Token

_BEGINNING = "a network begins with `network NAME`"
_EXPECTED_MAX = 6
_WORDS = {
    "NAME": "a name",
    "INT": "a number",
    "STRING": 'a "text"',
    "QUOTE": "a 'name'",
    "OPERATOR": "an operator",
    "TEMPORAL_OPERATOR": "an operator",
    "PASSING": "`rendezvous`, `broadcast`",
    "LOCATION_KIND": "`committed`, `atomic`",
    "FAIR_KIND": "`weak`, `strong`",
    "FAIRNESS": "`weak-action`, `strong-action`, `weak-process`, `strong-process` or `strong-global`",
    "DIRECTION": "`maximise`, `minimise`",
    "SLOTS": "`join`, `kill`, `actors`",
    "STATE_CLAIM": "`always`, `transition`, `inevitable`, `potentially`",
    "PLAIN_CLAIM": "`deadlockfree`, `divergencefree`, `nonterminating`, `deterministic`",
    "REFINES": "`refines`, `refines<F>`, `refines<FD>`",
    "$END": "the end of the file",
}
_EXPRESSION = {"NAME", "INT", "LPAR", "PREFIX", "FOLD", "OUTERMOST", "CLOCK"}
_POSTFIX = {"LPAR", "LSQB", "DOT", "AT", "PRIME"}
_OTHER_SPELLINGS = {
    "%": "the remainder is `rem`, or `mod` where it must not be negative",
    "/": "division is `div`",
    "=": "assignment is `:=`, comparison is `==`",
    '"': 'a text ends with `"` on the same line',
    "`": "a quoted name ends with a backquote on the same line",
    "'": "an action's quoted name ends with `'` on the same line",
}


@cache
def _parser() -> Lark:
    grammar = files("veristream.ir.text").joinpath("network.lark").read_text(encoding="utf-8")
    return Lark(grammar, parser="lalr", propagate_positions=True, maybe_placeholders=True)


def parse(source: Source) -> Node:
    """Parses a network; raises ModelError at the first syntax error."""
    try:
        return _parser().parse(source.text)
    except UnexpectedToken as error:
        raise _unexpected_token(source, error) from None
    except UnexpectedCharacters as error:
        raise _unexpected_character(source, error) from None


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


def name_of(written: Token) -> str:
    """Returns the name of a token, without backquotes."""
    return unquote(written) if written.startswith("`") else str(written)


def _unexpected_token(source: Source, error: UnexpectedToken) -> ModelError:
    found, accepts = error.token, set(error.accepts)
    if accepts == {"NETWORK"}:
        empty = found.type == "$END"
        message = f"the file is empty; {_BEGINNING}" if empty else _BEGINNING
        where = Span(source, 0, 0) if empty else span_of(source, found)
        return ModelError(message, where, "write `network NAME` on the first line")
    expected = f"expected {_expected(accepts)}"
    if found.type == "$END":
        end = len(source.text.rstrip())
        return ModelError("unexpected end of file", Span(source, max(end - 1, 0), end), expected)
    return ModelError(
        f"unexpected `{found}`", span_of(source, found), _hint_for(str(found), accepts) or expected
    )


def _hint_for(found: str, accepts: set[str]) -> str:
    if found == "=":
        return "assignment is `:=`" if "ASSIGN" in accepts else "comparison is `==`"
    is_word = re.fullmatch(r"[^\W\d]\w*", found) is not None
    if is_word and {"SEMICOLON", "RBRACE"} <= accepts and accepts & {"ASSIGN", "OPERATOR"}:
        return "statements end with `;`"
    if is_word and "NAME" in accepts and "OPERATOR" not in accepts:
        return f"`{found}` is a keyword; write {quote(found)} to use it as a name"
    return ""


def _unexpected_character(source: Source, error: UnexpectedCharacters) -> ModelError:
    start = cast(int, error.pos_in_stream)
    character = source.text[start]
    allowed = set(error.allowed or ())
    hint = _OTHER_SPELLINGS.get(character, "")
    if allowed == {"NETWORK"}:
        return ModelError(_BEGINNING, Span(source, start, start + 1), "write `network NAME` first")
    return ModelError(
        f"unexpected character {character!r}",
        Span(source, start, start + 1),
        hint or f"expected {_expected(allowed)}",
    )


def _expected(accepts: set[str]) -> str:
    """Describes the accepted tokens, the most helpful first, limited to a few."""
    words = []
    rest = set(accepts)
    if {"NAME", "INT", "LPAR"} <= rest:
        words.append("an expression")
        rest -= _EXPRESSION
    elif "OPERATOR" in rest:
        rest -= _POSTFIX
    patterns = {
        terminal.name: f"`{terminal.pattern.value}`"
        for terminal in _parser().terminals
        if isinstance(terminal.pattern, PatternStr)
    }
    known = {name: _WORDS.get(name, patterns.get(name)) for name in rest}
    words += sorted({word for word in known.values() if word is not None}, key=_telling)
    if len(words) > _EXPECTED_MAX:
        words = [*words[:_EXPECTED_MAX], "or more"]
    return ", ".join(words)


def _telling(word: str) -> tuple[bool, bool, str]:
    return (word == "`;`", word.startswith("`") and word[1].isalpha(), word)
