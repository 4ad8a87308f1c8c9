"""The lexer of CSP#: the first stage, from text to the tokens that `tree` parses.

The parser has one token of lookahead, which is too little for CSP#: a `;` separates processes or ends a
declaration; a `(` after the name of a `#define` opens its parameters or its condition; a `!` sends or
negates. The lexer looks further ahead and gives each of these tokens the right type. It pairs brackets
first, so that a missing one is reported where it was opened.
"""

from __future__ import annotations

import re
from functools import partial

from lark import Token

from veristream.errors import ModelError, suggest
from veristream.ir.text.read_tree import CLOSED_BY, pair_brackets, span_of
from veristream.source import Source, Span

KEYWORDS = {
    "var": "_VAR",
    "hvar": "_HVAR",
    "channel": "_CHANNEL",
    "enum": "_ENUM",
    "if": "IF",
    "ifa": "IFA",
    "ifb": "IFB",
    "else": "_ELSE",
    "while": "WHILE",
    "case": "CASE",
    "default": "_DEFAULT",
    "atomic": "ATOMIC",
    "assert": "ASSERT",
    "interrupt": "INTERRUPT",
    "Skip": "SKIP",
    "Stop": "STOP",
    "tau": "TAU",
    "call": "CALL",
    "true": "TRUE",
    "false": "FALSE",
    "xor": "XOR",
}
DIRECTIVES = {
    "define": "_DEFINE",
    "assert": "_ASSERTION",
    "alphabet": "_ALPHABET",
    "include": "_INCLUDE",
    "import": "_IMPORT",
}
CLAIMS = {
    "deadlockfree": "SIMPLE",
    "divergencefree": "SIMPLE",
    "deterministic": "SIMPLE",
    "nonterminating": "SIMPLE",
    "reaches": "_REACHES",
    "refines": "_REFINES",
    "with": "_WITH",
    "min": "EXTREME",
    "max": "EXTREME",
}
SYMBOLS = {
    "|||": "BAR3",
    "||": "BAR2",
    "|=": "_MODELS",
    "[*]": "STARBOX",
    "[]": "BOX",
    "<->": "EQUIVALENT",
    "<>": "DIAMOND",
    "->": "_ARROW",
    "&&": "AND",
    "++": "STEP",
    "--": "STEP",
    "+=": "CHANGE",
    "-=": "CHANGE",
    ":=": "BECOMES",
    "..": "_RANGE",
    "/\\": "CONNECTIVE",
    "\\/": "CONNECTIVE",
    "+": "SIGN",
    "-": "SIGN",
    "!": "NOT",
    "~": "TILDE",
    "?": "QUERY",
    "=": "_EQUALS",
    "(": "_LPAR",
    ")": "_RPAR",
    "[": "_LSQB",
    "]": "_RSQB",
    "{": "_LBRACE",
    "}": "_RBRACE",
    ";": "SEMI",
    ":": "_COLON",
    ",": "_COMMA",
    ".": "_DOT",
    "@": "_AT",
    "\\": "_HIDE",
}
"""Every other symbol is an OPERATOR between two operands."""

_TOKEN = re.compile(
    r"""(?P<skip>[\s\ufeff]+|//[^\n]*|/\*.*?\*/)
      | \#\s*(?P<hash>[A-Za-z]\w*)
      | (?P<name>[A-Za-z_]\w*)
      | (?P<int>\d+)
      | (?P<string>"[^"\n]*")
      | (?P<symbol>\|\|\||\|\||\|=|\[\*\]|\[\]|<->|<>|->|<=|>=|==|!=|&&|\+\+|--|\+=|-=|:=|\.\.|/\\|\\/
                  |[-+*/%<>=!&|^~()\[\]{};:,.@?\\])""",
    re.VERBOSE | re.DOTALL | re.ASCII,
)
_SPACE = re.compile(r"(?:[\s\ufeff]+|//[^\n]*|/\*.*?\*/)+", re.DOTALL)
_BEGINNINGS = {"_VAR", "_HVAR", "_CHANNEL", "_ENUM", *DIRECTIVES.values()}
_NO_CSHARP = "write it as a macro, `#define f(x) ...;` with `call(f, 1)`, or as a program in braces"


def tokens_of(source: Source) -> list[Token]:
    """Returns the tokens of a file.

    Raises ModelError at an unexpected character, an unmatched bracket or an unsupported C# feature.
    """
    tokens = _join_objects(_scan(source))
    _refuse_csharp(source, tokens)
    partner = pair_brackets(source, tokens, partial(_begins_declaration, tokens))
    _mark_ends(tokens, partner)
    _mark_macros(tokens, partner)
    _mark_assertions(tokens)
    _mark_outputs(tokens)
    return _without_empty_arguments(tokens)


def _scan(source: Source) -> list[Token]:
    text, position, tokens = source.text, 0, []
    while position < len(text):
        found = _TOKEN.match(text, position)
        if found is None or (text.startswith("/*", position) and found[0] == "/"):
            raise _strange_character(source, position)
        start, position = position, found.end()
        kind = found.lastgroup
        if kind == "skip":
            continue
        tokens.append(Token(_type_of(source, kind, found), found[0], start, end_pos=position))
    return tokens


def _type_of(source: Source, kind: str | None, found: re.Match[str]) -> str:
    match kind:
        case "name":
            return KEYWORDS.get(found[0], "NAME")
        case "int":
            return "INT"
        case "string":
            return "STRING"
        case "hash":
            word = found["hash"]
            if word not in DIRECTIVES:
                known = [f"#{name}" for name in DIRECTIVES]
                listed = ", ".join(f"`{name}`" for name in known)
                hint = suggest(f"#{word.lower()}", known, f"expected one of {listed}")
                span = Span(source, found.start(), found.end())
                raise ModelError(f"unknown directive `#{word}`", span, hint)
            return DIRECTIVES[word]
        case _:
            return SYMBOLS.get(found[0], "OPERATOR")


def _strange_character(source: Source, position: int) -> ModelError:
    character = source.text[position]
    span = Span(source, position, position + 1)
    if character == "/":
        return ModelError("unterminated comment", span, "close it with `*/`")
    if character == '"':
        return ModelError("unterminated string", span, 'close it with `"` on the same line')
    if character == "$":
        return ModelError("fields of C# objects are not supported", span, "use a variable of the model")
    if character == "#":
        known = ", ".join(f"`#{name}`" for name in DIRECTIVES)
        return ModelError("`#` without a directive", span, f"expected one of {known}")
    if character == "'":
        return ModelError("unexpected character `'`", span, "names consist of letters, digits and `_`")
    return ModelError(
        f"unexpected character {character!r}", span, "names consist of the letters a to z, digits and `_`"
    )


def _join_objects(tokens: list[Token]) -> list[Token]:
    """Joins `<List>` after `var` into a type, and `l.Add` before a `(` into a method; marks `new`."""
    joined: list[Token] = []
    position, typed = 0, False
    while position < len(tokens):
        one, *more = tokens[position : position + 4]
        types = [each.type for each in (one, *more)]
        before = joined[-1].type if joined else ""
        if before == "_VAR" and one == "<" and types[1:2] == ["NAME"] and more[1:2] == [">"]:
            joined.append(Token("TYPE", str(more[0]), one.start_pos, end_pos=more[1].end_pos))
            position, typed = position + 3, True
            continue
        if types == ["NAME", "_DOT", "NAME", "_LPAR"]:
            joined.append(Token("METHOD", f"{one}.{more[1]}", one.start_pos, end_pos=more[1].end_pos))
            position += 3
            continue
        if typed and before == "_EQUALS" and one == "new":
            one.type = "_NEW"
        typed = typed and one.type != "SEMI"
        joined.append(one)
        position += 1
    return joined


def _refuse_csharp(source: Source, tokens: list[Token]) -> None:
    for before, token, after in zip(tokens, tokens[1:], tokens[2:] + tokens[:1], strict=False):
        span = span_of(source, token)
        if before.type == "_HVAR" and token == "<":
            hint = "declare it with `var`, or use numbers and arrays of numbers"
            raise ModelError("an `hvar` of a C# type is not supported", span, hint)
        if before.type == "_INCLUDE" and token == "<":
            raise ModelError("C# libraries are not supported", span, _NO_CSHARP)
        if (
            token.type == "NAME"
            and token == "new"
            and before.type in {"_EQUALS", "_LPAR", "_COMMA"}
            and after.type == "NAME"
        ):
            raise ModelError("objects of C# classes are not supported", span, "use arrays of numbers")
        if token == "for" and after.type == "_LPAR" and before.type in {"_LBRACE", "SEMI", "_RBRACE"}:
            hint = "write `var i = 0; while (i < n) { ... i++; }`"
            raise ModelError("`for` loops are not supported", span, hint)


def _begins_declaration(tokens: list[Token], position: int, opened: list[int]) -> bool:
    """Whether a declaration begins while brackets are open, so that a closing one must be missing."""
    token = tokens[position]
    if token.type in DIRECTIVES.values() or token.type in {"_CHANNEL", "_ENUM"}:
        return True
    in_braces = any(tokens[place] == "{" for place in opened)
    return (
        not in_braces
        and token.type == "NAME"
        and tokens[position - 1].type == "SEMI"
        and _heads_definition(tokens, position)
    )


def _heads_definition(tokens: list[Token], position: int) -> bool:
    """Whether `P =` or `P(...) =` begins at the position."""
    position += 1
    if position < len(tokens) and tokens[position].type == "_LPAR":
        depth = 0
        while position < len(tokens):
            depth += (tokens[position] == "(") - (tokens[position] == ")")
            position += 1
            if depth == 0:
                break
    return position < len(tokens) and tokens[position].type in {"_EQUALS", "BECOMES"}


def _mark_ends(tokens: list[Token], partner: dict[int, int]) -> None:
    """Changes the type of every `;` that ends a declaration to _END."""
    position, fresh, in_process = 0, True, False
    while position < len(tokens):
        token = tokens[position]
        if fresh:
            in_process, fresh = token.type == "NAME", False
        if position in partner:
            position = partner[position]
        elif token.type == "SEMI" and not _is_index(tokens, position + 1):
            fresh = not in_process or _ends_here(tokens, position + 1)
            token.type = "_END" if fresh else "SEMI"
        elif token.type in _BEGINNINGS:
            in_process = False
        position += 1


def _is_index(tokens: list[Token], position: int) -> bool:
    following = [token.type for token in tokens[position : position + 3]]
    return following == ["NAME", "_COLON", "_LBRACE"]


def _ends_here(tokens: list[Token], position: int) -> bool:
    """Whether a declaration, not a process, begins at the position, which follows a `;`."""
    if position >= len(tokens) or tokens[position].type in _BEGINNINGS:
        return True
    if tokens[position].type == "SEMI":
        return not _is_index(tokens, position + 1)
    return tokens[position].type == "NAME" and _heads_definition(tokens, position)


def _mark_macros(tokens: list[Token], partner: dict[int, int]) -> None:
    """Distinguishes `#define m(i, j) ...` from `#define goal (x) ...`."""
    for position, token in enumerate(tokens):
        if token.type != "_DEFINE" or position + 2 >= len(tokens) or tokens[position + 2] != "(":
            continue
        opening, closing = position + 2, partner[position + 2]
        inside = [tokens[place].type for place in range(opening + 1, closing)]
        names = bool(inside) and inside == ["NAME", *["_COMMA", "NAME"] * (len(inside) // 2)]
        if names and _is_body(
            tokens, closing + 1, tokens[opening].start_pos == tokens[position + 1].end_pos
        ):
            tokens[opening].type = "_MACRO_LPAR"


def _is_body(tokens: list[Token], position: int, adjacent: bool) -> bool:
    """Whether the body of a macro can begin here; it can with a sign only if no blank preceded the `(`."""
    if position >= len(tokens):
        return False
    match tokens[position].type:
        case "SIGN":
            return adjacent
        case "AND" | "BAR2" | "XOR":
            return _is_index(tokens, position + 1)
        case "OPERATOR" | "_END" | "SEMI" | "_EQUALS":
            return False
        case _:
            return True


def _mark_assertions(tokens: list[Token]) -> None:
    """Makes the claim words keywords inside `#assert`, and everything after `|=` part of the formula."""
    inside, formula = False, False
    for position, token in enumerate(tokens):
        if token.type in _BEGINNINGS:
            inside, formula = token.type == "_ASSERTION", False
        elif token.type == "_END":
            inside = formula = False
        elif formula:
            token.type = "LTL"
        elif inside and token.type == "_MODELS":
            formula = True
        elif inside and token.type == "NAME" and position and tokens[position - 1].type != "_ASSERTION":
            token.type = CLAIMS.get(token, "NAME")
    _join_models(tokens)


def _join_models(tokens: list[Token]) -> None:
    """Joins `<F>` and `<FD>` after `refines` into one token."""
    for position in range(len(tokens) - 4, -1, -1):
        before, opening, model, closing = tokens[position : position + 4]
        if before.type == "_REFINES" and opening == "<" and closing == ">":
            joined = Token("MODEL", str(model), opening.start_pos, end_pos=closing.end_pos)
            tokens[position + 1 : position + 4] = [joined]


def _mark_outputs(tokens: list[Token]) -> None:
    """Marks a `!` after a name or an index as sending, except in `#define p !b` and `case {a: P !b: Q}`."""
    for position, token in enumerate(tokens):
        if token.type != "NOT" or position == 0:
            continue
        defined = position > 1 and tokens[position - 2].type == "_DEFINE"
        after_name = tokens[position - 1].type in {"NAME", "_RSQB"}
        if after_name and not defined and not _is_case_condition(tokens, position):
            token.type = "BANG"


def _is_case_condition(tokens: list[Token], position: int) -> bool:
    depth = 0
    for place in range(position + 1, len(tokens)):
        token = tokens[place]
        depth += (token in CLOSED_BY) - (token in CLOSED_BY.values())
        if depth < 0 or (depth == 0 and token.type in {"_ARROW", "SEMI", "_END"}):
            return False
        if depth == 0 and token.type == "_COLON":
            return True
    return False


def _without_empty_arguments(tokens: list[Token]) -> list[Token]:
    """Turns `Skip()` into `Skip`, and gives the `..` of `|||{..}@P` a type of its own."""
    kept: list[Token] = []
    for token in tokens:
        if (
            token.type == "_RPAR"
            and len(kept) > 1
            and kept[-1].type == "_LPAR"
            and kept[-2].type in {"SKIP", "STOP"}
        ):
            kept.pop()
            continue
        if (
            token.type == "_RANGE"
            and len(kept) > 1
            and kept[-1].type == "_LBRACE"
            and kept[-2].type == "BAR3"
        ):
            token.type = "RANGE_ALL"
        kept.append(token)
    return kept


def blank(text: str) -> str:
    """Removes comments and collapses each run of blanks into one."""
    return _SPACE.sub(" ", text).strip()
