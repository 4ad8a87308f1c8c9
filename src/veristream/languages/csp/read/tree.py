"""The parser of CSP#: from the tokens of one file to its parse tree.

The grammar is `grammar.lark`. Syntax errors get a hint that names the probable mistake. `include` calls
the parser for each file; `resolve` turns the trees into syntax.
"""

from __future__ import annotations

from functools import cache

from lark import Lark, Token
from lark.exceptions import UnexpectedToken

from veristream.errors import ModelError, suggest
from veristream.ir.text.grammar import load_grammar
from veristream.ir.text.read_tree import (
    Node,
    feed,
    is_word,
    list_expected,
    span_of,
    token_before,
)
from veristream.languages.csp.read.tokens import (
    CLAIMS,
    DIRECTIVES,
    KEYWORDS,
    SYMBOLS,
    tokens_of,
)
from veristream.source import Source, Span

_WORDS = {
    "NAME": "a name",
    "TYPE": "a type",
    "METHOD": "a method",
    "_NEW": "`new`",
    "INT": "a number",
    "STRING": 'a "string"',
    "SIMPLE": "`deadlockfree`, `divergencefree`, `deterministic`, `nonterminating`",
    "EXTREME": "`min`, `max`",
    "MODEL": "`<F>`, `<FD>`",
    "LTL": "a formula",
    "OPERATOR": "an operator",
    "SIGN": "an operator",
    "STEP": "`++`, `--`",
    "BANG": "`!`",
    "TAU": "an event",
    "_END": "`;`",
    "_MACRO_LPAR": "`(`",
    "RANGE_ALL": "`..`",
    "$END": "the end of the file",
    **{kind: f"`{word}`" for word, kind in SYMBOLS.items() if kind not in {"SIGN", "STEP", "NOT"}},
    **{kind: f"`{word}`" for word, kind in KEYWORDS.items() if word not in {"hvar", "tau"}},
    **{kind: f"`#{word}`" for word, kind in DIRECTIVES.items()},
    "_REACHES": "`reaches`",
    "_REFINES": "`refines`",
    "_WITH": "`with`",
}
_EXPRESSION = {
    "INT",
    "NAME",
    "METHOD",
    "_LPAR",
    "SIGN",
    "NOT",
    "TILDE",
    "CALL",
    "TRUE",
    "FALSE",
    "AND",
    "BAR2",
    "XOR",
}
_TERM = {
    "NAME",
    "TAU",
    "SKIP",
    "STOP",
    "_LPAR",
    "_LSQB",
    "_LBRACE",
    "CASE",
    "IF",
    "IFA",
    "IFB",
    "ATOMIC",
    "ASSERT",
}
_BINARY = {"OPERATOR", "SIGN", "AND", "BAR2", "XOR"}
_BETWEEN = {"BAR3", "BAR2", "BOX", "STARBOX", "DIAMOND", "INTERRUPT", "SEMI", "_HIDE"}
_BEGINNINGS = {"NAME", "_VAR", "_HVAR", "_CHANNEL", "_ENUM", *DIRECTIVES.values()}


@cache
def _parser() -> Lark:
    return load_grammar("veristream.languages.csp.read", "grammar.lark", lexer="basic")


def parse(source: Source) -> Node:
    """Returns the parse tree of one file; raises ModelError at the first unexpected token."""
    tokens = tokens_of(source)
    state = _parser().parse_interactive()
    try:
        return feed(state, tokens)
    except UnexpectedToken as error:
        accepts: set[str] = set(state.accepts())  # type: ignore[no-untyped-call]
        raise _unexpected(source, token_before(tokens, error.token), error.token, accepts) from None


def _unexpected(source: Source, before: Token | None, found: Token, accepts: set[str]) -> ModelError:
    expected = f"expected {_expected(accepts)}"
    if found.type == "$END":
        end = len(source.text.rstrip())
        hint = "declarations end with `;`" if "_END" in accepts else expected
        return ModelError("unexpected end of file", Span(source, max(end - 1, 0), end), hint)
    hint = _hint_for(before, found, accepts) or expected
    return ModelError(f"unexpected `{found}`", span_of(source, found), hint)


def _hint_for(before: Token | None, found: Token, accepts: set[str]) -> str:
    """Returns a hint about the probable mistake, or an empty string."""
    hint = _hint_for_sign(before, found, accepts) or _hint_for_word(before, found, accepts)
    if hint:
        return hint
    if found.type in {"OPERATOR", "_COLON"} and "_ARROW" in accepts:
        return "expected a process, not a condition; do not separate the branches of `case` by `;`"
    if accepts >= _TERM and found.type in _BETWEEN | {"_END", "_RPAR", "_RBRACE"}:
        if before is not None and before.type == "_ARROW":
            more = "; put a choice in parentheses" if found.type not in {"_END", "SEMI", "_RPAR"} else ""
            return f"a process must follow `->`: `a -> Skip`{more}"
        if before is not None and before.type == "SEMI" and found.type in {"_RPAR", "_RBRACE"}:
            return f"`;` joins two processes; remove it, or add a process before `{found}`"
        return "a process is missing here"
    if accepts == {"_LBRACE"} and found.type in _TERM:
        return "put the branches of `if`, `ifa`, `ifb` and `atomic` in braces"
    return ""


def _hint_for_sign(before: Token | None, found: Token, accepts: set[str]) -> str:
    if found.type == "BECOMES":
        return "use `=` for assignments and definitions"
    if found.type == "CHANGE":
        return f"write `x = x {found[0]} 1` instead"
    if found.type == "_EQUALS" and accepts & {"OPERATOR", "_RPAR", "_RSQB", "_COLON"}:
        return "use `==` to compare"
    if found.type == "_EQUALS" and {"_COMMA", "_LSQB", "INT"} <= accepts:
        return "write the capacity of a channel without `=`: `channel c 3;`"
    if found == "==" and "_EQUALS" in accepts:
        return "use a single `=` in a definition"
    if found.type == "_ARROW" and before is not None and before.type in {"_RPAR", "_RSQB"}:
        return "expected an event before `->`; its arguments follow dots: `a.1.x -> P`"
    if found.type == "_ARROW" and before is not None and before.type in {"SKIP", "STOP"}:
        return f"`{before}` is a process, not an event; choose another name for the event"
    return ""


def _hint_for_word(before: Token | None, found: Token, accepts: set[str]) -> str:
    if "SIMPLE" in accepts and found.type == "NAME":
        return suggest(found.lower(), CLAIMS)
    if "_END" in accepts and found.type in _BEGINNINGS:
        return "is a `;` missing before this?"
    if {"SEMI", "_RBRACE"} <= accepts and "_EQUALS" in accepts | {found.type} and is_word(found):
        return "statements end with `;`"
    if "SEMI" in accepts and "BOX" not in accepts and "_RBRACE" in accepts and is_word(found):
        return "statements end with `;`"
    if "NAME" in accepts and found in KEYWORDS and not accepts & {"OPERATOR", "BOX"}:
        return f"`{found}` is a keyword; choose another name"
    if found.type == "_ELSE" and before is not None and before.type in {"SEMI", "_END"}:
        return "remove the `;` before `else`"
    return ""


def _expected(accepts: set[str]) -> str:
    words, rest = [], set(accepts)
    if accepts >= _TERM:
        words.append("a process")
        rest -= _TERM | _BETWEEN
    elif accepts >= {"INT", "NAME", "_LPAR"}:
        words.append("an expression")
        rest -= _EXPRESSION
    elif accepts >= _BINARY:
        words.append("an operator")
        rest -= _BINARY
    if "_END" in rest:
        words.append("`;`")
    return list_expected(words, (_WORDS.get(kind, "") for kind in rest))
