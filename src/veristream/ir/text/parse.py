"""Parses the text form of a network, and explains syntax errors."""

from __future__ import annotations

from functools import cache
from typing import cast

from lark import Lark, Token
from lark.exceptions import UnexpectedCharacters, UnexpectedToken
from lark.lexer import PatternStr

from veristream.errors import ModelError
from veristream.ir.text.grammar import load_grammar
from veristream.ir.text.read_tree import Node, is_word, list_expected, span_of
from veristream.ir.text.spelling import quote, unquote
from veristream.source import Source, Span

_BEGINNING = "a network begins with `network NAME`"
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
    return load_grammar("veristream.ir.text", "network.lark")


def parse(source: Source) -> Node:
    """Parses a network; raises ModelError at the first syntax error."""
    try:
        return _parser().parse(source.text)
    except UnexpectedToken as error:
        raise _unexpected_token(source, error) from None
    except UnexpectedCharacters as error:
        raise _unexpected_character(source, error) from None


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
    if is_word(found) and {"SEMICOLON", "RBRACE"} <= accepts and accepts & {"ASSIGN", "OPERATOR"}:
        return "statements end with `;`"
    if is_word(found) and "NAME" in accepts and "OPERATOR" not in accepts:
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
    words = []
    rest = accepts - {"SEMICOLON"} or accepts  # a `;` is allowed almost everywhere
    if {"NAME", "INT", "LPAR"} <= rest:
        words.append("an expression")
        rest = rest - _EXPRESSION
    elif "OPERATOR" in rest:
        rest = rest - _POSTFIX
    patterns = {
        terminal.name: f"`{terminal.pattern.value}`"
        for terminal in _parser().terminals
        if isinstance(terminal.pattern, PatternStr)
    }
    return list_expected(words, (_WORDS.get(name, patterns.get(name, "")) for name in rest))
