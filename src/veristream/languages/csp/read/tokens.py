"""The words of a CSP# file, with what one symbol of lookahead cannot tell apart already told apart.

A `;` both separates processes and ends declarations; a `(` after the name of a `#define` begins its
parameters or its condition; a `!` sends or negates. All are decided here, by looking as far ahead as it
takes. Brackets are paired first, so that one that is missing is reported where it was opened.
"""

from __future__ import annotations

import re
from difflib import get_close_matches

from lark import Token

from veristream.errors import ModelError
from veristream.source import Source, Span

KEYWORDS = {
    "var": "_VAR",
    "hvar": "_VAR",
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
"""What is not listed is an OPERATOR between two operands."""

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
_CLOSED_BY = {"(": ")", "[": "]", "{": "}"}
_BEGINNINGS = {"_VAR", "_CHANNEL", "_ENUM", *DIRECTIVES.values()}
_NO_CSHARP = "write it as a macro, `#define f(x) ...;` with `call(f, 1)`, or as a program in braces"


def tokens_of(source: Source) -> list[Token]:
    """All words of the text; raises ModelError where a character, bracket or C# feature does not fit."""
    tokens = _scan(source)
    _refuse_csharp(source, tokens)
    partner = _pair(source, tokens)
    _mark_ends(tokens, partner)
    _mark_macros(tokens, partner)
    _mark_assertions(tokens)
    _mark_outputs(tokens)
    return _without_empty_arguments(tokens)


def span_of_token(source: Source, token: Token) -> Span:
    """The characters of a word."""
    return Span(source, token.start_pos or 0, token.end_pos or 0)


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
                close = get_close_matches(word.lower(), list(DIRECTIVES), n=1)
                known = ", ".join(f"`#{name}`" for name in DIRECTIVES)
                hint = f"did you mean `#{close[0]}`?" if close else f"there are {known}"
                raise ModelError(f"`#{word}` is unknown", Span(source, found.start(), found.end()), hint)
            return DIRECTIVES[word]
        case _:
            return SYMBOLS.get(found[0], "OPERATOR")


def _strange_character(source: Source, position: int) -> ModelError:
    character = source.text[position]
    span = Span(source, position, position + 1)
    if character == "/":
        return ModelError("this comment is never closed", span, "a comment ends with `*/`")
    if character == '"':
        return ModelError('this `"` is never closed', span, 'a text ends with `"` on the same line')
    if character == "$":
        return ModelError("fields of C# objects are not supported", span, "use a variable of the model")
    if character == "#":
        known = ", ".join(f"`#{name}`" for name in DIRECTIVES)
        return ModelError("`#` without a word", span, f"there are {known}")
    if character == "'":
        return ModelError("unexpected character `'`", span, "names consist of letters, digits and `_`")
    return ModelError(
        f"unexpected character {character!r}", span, "names consist of the letters a to z, digits and `_`"
    )


def _refuse_csharp(source: Source, tokens: list[Token]) -> None:
    for before, token, after in zip(tokens, tokens[1:], tokens[2:] + tokens[:1], strict=False):
        span = span_of_token(source, token)
        if before.type == "_VAR" and token == "<":
            raise ModelError(
                "variables of C# types are not supported", span, "use numbers and arrays of numbers"
            )
        if before.type == "_INCLUDE" and token == "<":
            raise ModelError("C# libraries are not supported", span, _NO_CSHARP)
        if token == "new" and before.type in {"_EQUALS", "_LPAR", "_COMMA"} and after.type == "NAME":
            raise ModelError("objects of C# classes are not supported", span, "use arrays of numbers")
        if before.type == "_DOT" and token.type == "NAME" and after.type == "_LPAR":
            raise ModelError(
                f"methods of C# objects, such as `{token}`, are not supported", span, _NO_CSHARP
            )
        if token == "for" and after.type == "_LPAR" and before.type in {"_LBRACE", "SEMI", "_RBRACE"}:
            raise ModelError("there is no `for`", span, "write `var i = 0; while (i < n) { ... i++; }`")


def _pair(source: Source, tokens: list[Token]) -> dict[int, int]:
    """Where each bracket's partner is, both ways."""
    partner: dict[int, int] = {}
    opened: list[int] = []
    for position, token in enumerate(tokens):
        if token in _CLOSED_BY:
            opened.append(position)
        elif token in _CLOSED_BY.values():
            if not opened:
                hint = "remove it, or add the bracket that it closes"
                raise ModelError(f"`{token}` closes nothing", span_of_token(source, token), hint)
            if _CLOSED_BY[tokens[opened[-1]]] != token:
                raise _not_closed(source, tokens[opened[-1]], f"before the `{token}` of line", token)
            partner[opened[-1]] = position
            partner[position] = opened.pop()
        elif opened and _begins_declaration(tokens, position, opened):
            raise _not_closed(source, tokens[opened[-1]], "before the declaration of line", token)
    if opened:
        raise _not_closed(source, tokens[opened[-1]], "", None)
    return partner


def _begins_declaration(tokens: list[Token], position: int, opened: list[int]) -> bool:
    """Whether the word begins a declaration although brackets are open: one of them was forgotten."""
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


def _not_closed(source: Source, opening: Token, before: str, where: Token | None) -> ModelError:
    closing = _CLOSED_BY[opening]
    line = f" {before} {span_of_token(source, where).line}" if where is not None else ""
    return ModelError(
        f"this `{opening}` is not closed{line}",
        span_of_token(source, opening),
        f"add `{closing}` where it ends",
    )


def _heads_definition(tokens: list[Token], position: int) -> bool:
    """Whether `P =` or `P(...) =` stands here."""
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
    """Gives every `;` that ends a declaration the type _END."""
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
    """Whether after a `;` at this place another declaration begins, rather than another process."""
    if position >= len(tokens) or tokens[position].type in _BEGINNINGS:
        return True
    if tokens[position].type == "SEMI":
        return not _is_index(tokens, position + 1)
    return tokens[position].type == "NAME" and _heads_definition(tokens, position)


def _mark_macros(tokens: list[Token], partner: dict[int, int]) -> None:
    """Tells `#define m(i, j) ...` from `#define goal (x) ...`."""
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
    """Whether a macro's body can begin here; a sign decides by whether `(` stood right after the name."""
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
    """Inside `#assert` the words of claims are keywords, and after `|=` all is the formula's."""
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
    """Makes `<F>` and `<FD>` after `refines` one word."""
    for position in range(len(tokens) - 4, -1, -1):
        before, opening, model, closing = tokens[position : position + 4]
        if before.type == "_REFINES" and opening == "<" and closing == ">":
            joined = Token("MODEL", str(model), opening.start_pos, end_pos=closing.end_pos)
            tokens[position + 1 : position + 4] = [joined]


def _mark_outputs(tokens: list[Token]) -> None:
    """A `!` after a name or an index sends, except in `#define p !b` and `case { a: P !b: Q }`."""
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
        depth += (token in _CLOSED_BY) - (token in _CLOSED_BY.values())
        if depth < 0 or (depth == 0 and token.type in {"_ARROW", "SEMI", "_END"}):
            return False
        if depth == 0 and token.type == "_COLON":
            return True
    return False


def _without_empty_arguments(tokens: list[Token]) -> list[Token]:
    """`Skip()` is `Skip`; and the `..` of `|||{..}@P` is a word of its own."""
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
    """The text without comments, its runs of blanks made single."""
    return _SPACE.sub(" ", text).strip()
