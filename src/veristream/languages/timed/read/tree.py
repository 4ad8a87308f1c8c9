"""Parses one text of a model, and explains syntax errors."""

from __future__ import annotations

from functools import cache
from typing import Literal

from lark import Lark, Token
from lark.exceptions import UnexpectedToken

from veristream.errors import ModelError
from veristream.ir.text.grammar import load_grammar
from veristream.ir.text.read_tree import (
    Node,
    feed,
    is_word,
    list_expected,
    span_of,
    token_before,
)
from veristream.languages.timed.read.tokens import (
    KEYWORDS,
    SYMBOLS,
    Fragment,
    Mode,
    tokens_of,
)

Start = Literal["world", "parameters", "conditions", "updates", "selects", "sync", "query"]
_STARTS = ["world", "parameters", "conditions", "updates", "selects", "sync", "query"]
_SILENT = {"NOT", "QUANTIFIER", "TRUE", "FALSE", "OPERATOR", "SIGN", "STEP", "PLAIN"}
_WORDS = {
    **{kind: f"`{word}`" for word, kind in KEYWORDS["xta"].items() if kind not in _SILENT},
    **{kind: f"`{word}`" for word, kind in SYMBOLS.items() if kind not in _SILENT},
    "NAME": "a name",
    "INT": "a number",
    "OPERATOR": "an operator",
    "CHANGE": "an operator",
    "STEP": "`++`, `--`",
    "SIGN": "a sign",
    "ASSIGN": "`=`",
    "_ARROW": "`->`",
    "_PRIORITY": "`priority`",
    "PATH": "`A[]`, `E<>`, `E[]`, `A<>`",
    "EXTREME": "`sup`, `inf`, `bounds`",
    "DEADLOCK": "`deadlock`",
    "_OLD_CONST": "`const`",
    "HOOK": "`before_update`, `after_update`",
    "$END": "end of text",
}
_EXPRESSION = {
    *("NAME", "INT", "TRUE", "FALSE", "DEADLOCK", "_LPAR"),
    *("NOT", "BANG", "SIGN", "STEP", "QUANTIFIER"),
}
_BETWEEN = {
    *("OPERATOR", "SIGN", "AMP", "LT", "ASSIGN", "CHANGE"),
    *("QUERY", "_LSQB", "_DOT", "STEP", "_LPAR"),
}
_TYPE = {
    *("CONST", "_OLD_CONST", "META", "URGENT", "BROADCAST"),
    *("_INT", "_SCALAR", "PLAIN", "_CHAN", "_STRUCT", "NAME"),
}
_DECLARATION = {*_TYPE, "HOOK", "_TYPEDEF", "_SYSTEM", "_PROCESS", "_END"}
_STATEMENT = {
    *_EXPRESSION,
    *_TYPE,
    "_TYPEDEF",
    "_LBRACE",
    "_FOR",
    "_WHILE",
    "_DO",
    "_IF",
    "_RETURN",
    "_END",
}


@cache
def _parser() -> Lark:
    return load_grammar("veristream.languages.timed.read", "grammar.lark", lexer="basic", start=_STARTS)


def parse(fragment: Fragment, start: Start, mode: Mode = "model") -> Node:
    """Parses the text; raises ModelError at the first unexpected token."""
    tokens = tokens_of(fragment, mode)
    state = _parser().parse_interactive(start=start)
    try:
        return feed(state, tokens)
    except UnexpectedToken as error:
        before = token_before(tokens, error.token)
        accepts = _in_mode(_accepted(tokens, error.token, start), mode)
        raise _unexpected(fragment, before, error.token, accepts) from None


def _accepted(tokens: list[Token], wrong: Token, start: Start) -> set[str]:
    """Returns the tokens accepted in place of `wrong`, from a second parse: `wrong` advanced the first."""
    state = _parser().parse_interactive(start=start)
    for token in tokens:
        if token is wrong:
            break
        state.feed_token(token)
    return set(state.accepts())  # type: ignore[no-untyped-call]


def _in_mode(accepts: set[str], mode: Mode) -> set[str]:
    """Removes tokens that cannot occur in the mode."""
    absent = set(KEYWORDS["xta"].values()) - set(KEYWORDS[mode].values()) - set(SYMBOLS.values())
    return accepts - absent - ({"_OLD_CONST"} if mode == "query" else {"DEADLOCK"})


def _unexpected(fragment: Fragment, before: Token | None, found: Token, accepts: set[str]) -> ModelError:
    expected = f"expected {_expected(accepts)}"
    if before is not None and accepts >= {"BANG", "QUERY"} and found.type in {"_END", "$END"}:
        hint = "write `c!` to send or `c?` to receive; CSP synchronisation is not supported"
        message = "this synchronisation has neither `!` nor `?`"
        return ModelError(message, span_of(fragment.source, before), hint)
    if found.type == "$END":
        hint = "declarations and statements end with `;`" if "_END" in accepts else expected
        span = fragment.place if before is None else span_of(fragment.source, before)
        return ModelError("unexpected end of text", span, hint)
    hint = _hint_for(before, found, accepts) or expected
    return ModelError(f"unexpected `{found}`", span_of(fragment.source, found), hint)


def _hint_for(before: Token | None, found: Token, accepts: set[str]) -> str:
    """Returns a hint on the probable mistake, or an empty text."""
    last = "" if before is None else str(before)
    match last, found.type, str(found):
        case "=" | ":=", "LT", _:
            return "write `<=` for less than or equal"
        case _, "OPERATOR", ">" if last in {"=", ":="}:
            return "write `>=` for greater than or equal"
        case _, "OPERATOR", "==" if "ASSIGN" in accepts:
            return "write an initial value with a single `=`"
        case _, "_LPAR", _ if {"_COMMA", "LT", "_END"} == accepts:
            return "the system line can only contain names: write `P1 = P(1);` before it, and `system P1;`"
        case _, "BANG" | "QUERY", _ if "$END" in accepts:
            return "a synchronisation has one channel, `c!` or `c?`"
        case _, "_ARROW", _ if "_LEADSTO" in accepts:
            return "write `-->` for leads to, and `imply` for implies"
        case "AG" | "AF" | "EF" | "EG", _, _ if "_LEADSTO" in accepts:
            return "start a query with `A[]`, `E<>`, `E[]`, `A<>`, `sup`, `inf` or `bounds`, or use `-->`"
        case "struct", _, _:
            return "write the fields of a struct in braces"
        case "=" | ":=", _, _ if accepts == {"NAME"}:
            return (
                "write an instance as `P1 = P(1);`; assignments are only allowed on edges and in functions"
            )
    return _hint_for_word(found, accepts)


def _hint_for_word(found: Token, accepts: set[str]) -> str:
    if (
        "_END" in accepts
        and "NAME" not in accepts
        and (is_word(found) or found.type in {"_LBRACE", "_RBRACE"})
    ):
        return "is a `;` missing before it?"
    if found.type == "_END" and "$END" in accepts and "_END" not in accepts:
        return "labels and queries do not end with `;`; separate their parts with `,`"
    if "NAME" in accepts and is_word(found) and not accepts & {"INT", "_TYPEDEF"}:
        return f"`{found}` is a keyword; choose another name"
    return ""


def _expected(accepts: set[str]) -> str:
    words, rest = [], set(accepts)
    for group, name in (
        (_STATEMENT, "a statement"),
        (_DECLARATION - {"_PROCESS", "_SYSTEM"}, "a declaration"),
        (_EXPRESSION - {"DEADLOCK"}, "an expression"),
        (_TYPE - {"CONST", "_OLD_CONST", "META", "URGENT", "BROADCAST"}, "a type"),
        (_BETWEEN - {"_LPAR", "_DOT", "_LSQB", "STEP"}, "an operator"),
    ):
        if rest >= group:
            words.append(name)
            rest -= group | (_BETWEEN if name == "an operator" else _EXPRESSION | _TYPE - {"_LPAR"})
    return list_expected(words, (_WORDS.get(kind, "") for kind in rest))
