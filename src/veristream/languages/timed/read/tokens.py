"""The tokens of UPPAAL's texts, with their positions in the file.

A text is often part of an XML file, where `<` is written `&lt;`; a `Fragment` maps each of its characters
to characters of the file. This module rejects constructs of statistical and hybrid models, and skips
`gantt`, `progress` and `IO` sections, which do not affect verdicts. It matches brackets, so that a missing
bracket is reported where it was opened.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from lark import Token

from veristream.errors import ModelError
from veristream.ir.text.read_tree import pair_brackets, span_of
from veristream.source import Source, Span

Mode = Literal["model", "xta", "query"]
"""Selects the keywords: of declarations, additionally of XTA files, or of queries."""


@dataclass(frozen=True, slots=True, eq=False)
class Fragment:
    """A text, the start and end of each character in the file, and the enclosing `place`."""

    source: Source
    text: str
    starts: Sequence[int]
    ends: Sequence[int]
    place: Span

    def span(self, start: int, end: int) -> Span:
        """Returns the position in the file of the characters from `start` to `end`."""
        if start >= end:
            return self.place
        return Span(self.source, self.starts[start], self.ends[end - 1])

    def part(self, start: int, end: int) -> Fragment:
        """Returns the fragment from `start` to `end`."""
        place = self.span(start, end)
        return Fragment(
            self.source, self.text[start:end], self.starts[start:end], self.ends[start:end], place
        )

    def stripped(self) -> Span:
        """Returns the position of the text without surrounding whitespace."""
        start = len(self.text) - len(self.text.lstrip())
        return self.span(start, len(self.text.rstrip()))


def whole(source: Source) -> Fragment:
    """Returns the fragment for a whole file."""
    size = len(source.text)
    return Fragment(source, source.text, range(size), range(1, size + 1), Span(source, 0, 0))


_LOGIC = {
    "true": "TRUE",
    "false": "FALSE",
    "and": "OPERATOR",
    "or": "OPERATOR",
    "xor": "OPERATOR",
    "imply": "OPERATOR",
    "not": "NOT",
    "forall": "QUANTIFIER",
    "exists": "QUANTIFIER",
    "sum": "QUANTIFIER",
    "int": "_INT",
    "scalar": "_SCALAR",
    "bool": "PLAIN",
}
_MODEL = _LOGIC | {
    "const": "CONST",
    "meta": "META",
    "urgent": "URGENT",
    "broadcast": "BROADCAST",
    "clock": "PLAIN",
    "void": "PLAIN",
    "chan": "_CHAN",
    "struct": "_STRUCT",
    "typedef": "_TYPEDEF",
    "default": "DEFAULT",
    "for": "_FOR",
    "while": "_WHILE",
    "do": "_DO",
    "if": "_IF",
    "else": "_ELSE",
    "return": "_RETURN",
    "system": "_SYSTEM",
    "before_update": "HOOK",
    "after_update": "HOOK",
}
_XTA = _MODEL | {
    "process": "_PROCESS",
    "state": "_STATE",
    "branchpoint": "_BRANCHPOINT",
    "commit": "COMMIT",
    "init": "_INIT",
    "trans": "_TRANS",
    "select": "_SELECT",
    "guard": "_GUARD",
    "sync": "_SYNC",
    "assign": "_ASSIGN",
    "probability": "_PROBABILITY",
}
KEYWORDS: dict[Mode, dict[str, str]] = {
    "model": _MODEL,
    "xta": _XTA,
    "query": _LOGIC | {"deadlock": "DEADLOCK"},
}
SYMBOLS = {
    "=": "ASSIGN",
    ":=": "ASSIGN",
    "++": "STEP",
    "--": "STEP",
    "+": "SIGN",
    "-": "SIGN",
    "!": "BANG",
    "?": "QUERY",
    "&": "AMP",
    "<": "LT",
    "->": "_ARROW",
    "-u->": "_ARROW",
    "-->": "_LEADSTO",
    "(": "_LPAR",
    ")": "_RPAR",
    "[": "_LSQB",
    "]": "_RSQB",
    "{": "_LBRACE",
    "}": "_RBRACE",
    ",": "_COMMA",
    ":": "_COLON",
    ".": "_DOT",
    ";": "_END",
}
"""Other symbols are a CHANGE if they end with `=`, and otherwise a binary OPERATOR."""
_COMPARISONS = {"==", "!=", "<=", ">="}

SKIPPED = r"[\s\ufeff]+|//[^\n]*|/\*.*?\*/|\\[ \t\r]*\n"
"""Whitespace, comments, and the backslash that joins two lines."""
_TOKEN = re.compile(
    rf"""(?P<skip>{SKIPPED})
      | (?P<name>[^\W\d]\w*)
      | (?P<real>\d+(?:\.\d+(?:[eE][-+]?\d+)?|[eE][-+]?\d+))
      | (?P<int>\d+)
      | (?P<string>"[^"\n]*")
      | (?P<symbol><<=|>>=|-u->|\*\*|<<|>>|<\?|>\?|<=|>=|==|!=|&&|\|\||\+\+|--|->|:=|[-+*/%&|^]=
                  |[-+*/%&|^<>=!?:;,.()\[\]{{}}'])""",
    re.VERBOSE | re.DOTALL,
)
_PATH = re.compile(rf"(?:{SKIPPED})*(?P<path>[AE]\s*(?:\[\s*\]|<>))", re.DOTALL)
_NUMBER_MAX = 2**31

_SYMBOLIC = "models are checked exhaustively, not by simulation: use `int`, `bool` and `clock`"
_NO_C = "write the function in the model"
_RANDOM = {
    f"random{suffix}"
    for suffix in ("", "_arcsine", "_beta", "_gamma", "_normal", "_poisson", "_tri", "_weibull")
}
_REFUSED: dict[str, tuple[set[str], str, str]] = {
    "double": ({"NAME"}, "is a statistical or hybrid construct", _SYMBOLIC),
    "hybrid": ({"PLAIN"}, "is a statistical or hybrid construct", _SYMBOLIC),
    "string": (
        {"NAME"},
        "is a type for calls to external libraries, which are not supported",
        "use numbers",
    ),
    "dynamic": ({"NAME"}, "is a statistical construct: processes cannot be made at run time", _SYMBOLIC),
    "spawn": ({"NAME"}, "is a statistical construct: processes cannot be made at run time", _SYMBOLIC),
    "exit": ({"_LPAR"}, "is a statistical construct: processes cannot terminate at run time", _SYMBOLIC),
    "numOf": ({"_LPAR"}, "is a statistical construct: processes cannot be made at run time", _SYMBOLIC),
    "import": ({"STRING"}, "of C libraries is not supported", _NO_C),
    "break": ({"_END"}, "is not a statement of UPPAAL", "move it into the condition of the loop"),
    "continue": ({"_END"}, "is not a statement of UPPAAL", "put the rest of the loop into an `if`"),
    "switch": ({"_LPAR"}, "is not a statement of UPPAAL", "use `if` and `else if`"),
    **{word: ({"_LPAR"}, "is a statistical construct", "use `select` on an edge") for word in _RANDOM},
}
"""Rejected words: the kinds of the next token that give the word this meaning, the message and the hint."""


def tokens_of(fragment: Fragment, mode: Mode) -> list[Token]:
    """Returns the tokens; raises ModelError for an unexpected character, bracket or construct."""
    tokens = _scan(fragment, mode)
    partner = pair_brackets(fragment.source, tokens)
    tokens = _without_charts(tokens, partner)
    _refuse(fragment, tokens)
    _mark_constants(tokens)
    return tokens


def _scan(fragment: Fragment, mode: Mode) -> list[Token]:
    text, position, tokens = fragment.text, 0, []
    path = _PATH.match(text) if mode == "query" else None
    if path is not None:
        position = path.end()
        tokens.append(_token(fragment, "PATH", "".join(path["path"].split()), path.span("path")))
    while position < len(text):
        found = _TOKEN.match(text, position)
        if mode == "query" and text.startswith("-->", position):
            start, position = position, position + 3
            tokens.append(_token(fragment, "_LEADSTO", "-->", (start, position)))
            continue
        if found is None or (text.startswith("/*", position) and found[0] in {"/", "/="}):
            raise _strange_character(fragment, position)
        position = found.end()
        if found.lastgroup != "skip":
            kind = _kind_of(fragment, found, mode, tokens)
            tokens.append(_token(fragment, kind, found[0], found.span()))
    return tokens


def _token(fragment: Fragment, kind: str, text: str, where: tuple[int, int]) -> Token:
    span = fragment.span(*where)
    return Token(kind, text, span.start, end_pos=span.end)


def _kind_of(fragment: Fragment, found: re.Match[str], mode: Mode, before: list[Token]) -> str:
    word = found[0]
    match found.lastgroup:
        case "name":
            if word == "priority" and before and before[-1].type == "_CHAN":
                return "_PRIORITY"
            if mode == "query" and not before and word in {"sup", "inf", "bounds"}:
                return "EXTREME"
            return KEYWORDS[mode].get(word, "NAME")
        case "int":
            if int(word) > _NUMBER_MAX:
                hint = "numbers have 32 bits"
                raise ModelError(f"`{word}` is too large", fragment.span(*found.span()), hint)
            return "INT"
        case "real":
            return "REAL"
        case "string":
            return "STRING"
        case _ if word.endswith("=") and word not in _COMPARISONS and word not in SYMBOLS:
            return "CHANGE"
        case _:
            return SYMBOLS.get(word, "OPERATOR")


def _strange_character(fragment: Fragment, position: int) -> ModelError:
    character, span = fragment.text[position], fragment.span(position, position + 1)
    match character:
        case "/":
            return ModelError("unterminated comment", span, "close it with `*/`")
        case '"':
            return ModelError("unterminated string", span, 'close it with `"` on the same line')
        case _:
            hint = "names consist of letters, digits and `_`"
            return ModelError(f"unexpected character `{character}`", span, hint)


def _without_charts(tokens: list[Token], partner: dict[int, int]) -> list[Token]:
    """Removes `gantt { ... }`, `progress { ... }` and `IO P { ... }`."""
    kept: list[Token] = []
    position = 0
    while position < len(tokens):
        brace = position + (2 if tokens[position] == "IO" else 1)
        is_chart = tokens[position] in {"gantt", "progress", "IO"}
        if is_chart and brace in partner and tokens[brace] == "{":
            position = partner[brace]
        else:
            kept.append(tokens[position])
        position += 1
    return kept


def _refuse(fragment: Fragment, tokens: list[Token]) -> None:
    for position, token in enumerate(tokens):
        after = tokens[position + 1].type if position + 1 < len(tokens) else ""
        if token.type == "NAME" and token in _REFUSED and after in _REFUSED[token][0]:
            _, wrong, hint = _REFUSED[token]
            raise ModelError(f"`{token}` {wrong}", span_of(fragment.source, token), hint)
        if token == "'":
            message = "clock rates, written with `'`, are a statistical or hybrid construct"
            hint = "remove it; all clocks run at the same rate and cannot be stopped"
            raise ModelError(message, span_of(fragment.source, token), hint)
        if token.type == "REAL":
            message = f"the real number `{token}` is a statistical or hybrid construct"
            raise ModelError(message, span_of(fragment.source, token), "use integers")


def _mark_constants(tokens: list[Token]) -> None:
    """Distinguishes `const N 5` and a parameter `const N` from `const T x = 5`."""
    for position, token in enumerate(tokens):
        following = [after.type for after in tokens[position + 1 : position + 3]]
        if token.type == "CONST" and following[:1] == ["NAME"] and following[1:] not in (["NAME"], ["AMP"]):
            token.type = "_OLD_CONST"
