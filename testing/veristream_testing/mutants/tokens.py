"""Texts as tokens, and the parts of a text that a mutation moves: groups in brackets, items, operands.

One lexer serves all languages: it only has to split a text where its own language does. What joins tokens
is the blank text before each, so that the tokens of a text are that text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

_TOKEN = re.compile(
    r"""(?P<blank>(?:\s+|//[^\n]*|/\*.*?\*/|<!--.*?-->)+)
      | (?P<tag></?[A-Za-z][\w]*(?=[\s>/])|<[!?][^>]*>|/>)
      | (?P<name>[A-Za-z_]\w*)
      | (?P<number>\d+(?:\.\d+)?)
      | (?P<string>"[^"\n]*")
      | (?P<operator>\|\|\||-->|-u->|<->|\[\*\]|A\[\]|&lt;=|&gt;=|&lt;|&gt;|&amp;&amp;|&amp;
                  |<<|>>|<\?|>\?|\|\||\|=|\[\]|<>|->|<=|>=|==|!=|&&|\+\+|--|[-+*/%:]=|\.\.|/\\|\\/|.)""",
    re.VERBOSE | re.DOTALL,
)
_OPERATORS = (
    ("==", "!=", "<=", ">=", "<", ">", "&lt;", "&lt;=", "&gt;", "&gt;="),
    ("+", "-", "*", "/", "%", "<<", ">>", "<?", ">?", "&", "^", "|"),
    ("&&", "||", "and", "or", "imply", "xor", "&amp;&amp;"),
    ("=", ":=", "+=", "-=", "*=", "/="),
    ("++", "--"),
    ("!", "?"),
    ("true", "false"),
)
_CSP = (
    ("|||", "||", "[]", "[*]", "<>", ";", "interrupt"),
    ("[]", "<>", "X", "!"),
    ("&&", "||", "U", "R", "->", "<->"),
    ("deadlockfree", "deterministic", "divergencefree", "nonterminating"),
    ("if", "ifa", "ifb"),
    ("Skip", "Stop"),
    ("min", "max"),
    ("var", "hvar"),
)
_TIMED = (
    ("int", "bool", "clock", "chan", "void", "scalar"),
    ("urgent", "broadcast", "const", "meta", "commit"),
    ("guard", "sync", "assign", "select"),
    ("invariant", "assignment", "guard", "synchronisation", "comments", "select"),
    ("forall", "exists", "sum"),
    ("A", "E"),
    ("sup", "inf"),
    ("if", "while"),
    ("before_update", "after_update"),
)
_CLASSES = _OPERATORS + _CSP + _TIMED
_WORDS = frozenset(
    {text for group in _CLASSES for text in group if text[0].isalpha() and text not in "AEUXR"}
    | {
        "else",
        "do",
        "case",
        "ifb",
        "for",
        "init",
        "tau",
        "define",
        "assert",
        "alphabet",
        "return",
        "default",
        "atomic",
        "call",
        "before_update",
        "after_update",
        "priority",
    }
    | {"process", "state", "trans", "system", "branchpoint", "typedef", "struct", "progress", "include"}
    | {
        "channel",
        "enum",
        "reaches",
        "refines",
        "with",
        "not",
        "deadlock",
        "probability",
        "import",
        "min",
        "max",
    }
)
"""The keywords of all languages; a name that is one of them elsewhere is seldom replaced."""
_CLOSES = {"(": ")", "[": "]", "{": "}"}
_SEPARATORS = {",", ";", "|||", "||", "[]", "&&"}


@dataclass(frozen=True, order=True, slots=True)
class Part:
    """The tokens from `start` up to but not including `end`; one of the same shape may stand there.

    `divider` is the token that divides it from its neighbours; a statement ends with its own.
    """

    start: int
    end: int
    shape: str
    divider: str = ""


@dataclass(frozen=True, slots=True)
class Token:
    """A token, its kind, and the blank text before it."""

    kind: str
    text: str
    before: str = ""


def tokenise(text: str) -> list[Token]:
    """Returns the tokens; the blank text at the end of a text is dropped."""
    tokens, before = [], ""
    for found in _TOKEN.finditer(text):
        if found.lastgroup == "blank":
            before = found[0]
            continue
        kind = "keyword" if found[0] in _WORDS else found.lastgroup or "operator"
        tokens.append(Token(kind, found[0], before))
        before = ""
    return tokens


def untokenise(tokens: Sequence[Token]) -> str:
    """Returns the text of the tokens; words that would grow together get a space."""
    pieces, last = [], ""
    for token in tokens:
        joint = token.before
        if not joint and last[-1:].isalnum() and token.text[:1].isalnum():
            joint = " "
        pieces.append(joint + token.text)
        last = token.text
    return "".join(pieces) + "\n"


def classes_of(token: Token, language: str) -> list[tuple[str, ...]]:
    """Returns the sets of tokens that may stand where this one stands."""
    return [group for group in _OPERATORS + (_CSP if language == "csp" else _TIMED) if token.text in group]


def groups_of(tokens: Sequence[Token]) -> list[Part]:
    """Returns the parts in brackets, and the elements of XML, with what encloses them."""
    return [Part(start, end, tokens[start].text) for start, end in _groups(tokens)]


def _groups(tokens: Sequence[Token]) -> list[tuple[int, int]]:
    found = []
    opened: list[tuple[str, int]] = []
    for at, token in enumerate(tokens):
        text = token.text
        if text in _CLOSES:
            opened.append((_CLOSES[text], at))
        elif token.kind == "tag" and text[1:2].isalpha():
            opened.append((f"</{text[1:]}", at))
        elif any(_closes(text, close) for close, _ in opened):
            while not _closes(text, opened[-1][0]):
                opened.pop()
            # The closing tag of an element is followed by its `>`.
            found.append((opened.pop()[1], min(at + 1 + (text[:2] == "</"), len(tokens))))
    return found


def _closes(text: str, close: str) -> bool:
    return text == close or (text == "/>" and close.startswith("</"))


def items_of(tokens: Sequence[Token]) -> list[Part]:
    """Returns what separators divide: the statements, arguments and branches of a text and its groups."""
    jumps = dict(_groups(tokens))
    found = list(_divide(tokens, jumps, (0, len(tokens)), ""))
    for start, end in jumps.items():
        found += _divide(tokens, jumps, (start + 1, end - 1), tokens[start].text)
    return found


def _divide(
    tokens: Sequence[Token], jumps: Mapping[int, int], inside: tuple[int, int], bracket: str
) -> Iterator[Part]:
    begin = at = inside[0]
    divider = ""
    while at < inside[1]:
        text = tokens[at].text
        after = jumps.get(at, at + 1)
        if text in _SEPARATORS:
            # A statement keeps its semicolon; other items do not keep what divides them.
            divider, end = text, at + (text == ";")
            if begin < end:
                yield Part(begin, end, f"{bracket} {text} {_opening(tokens, begin)}", text.strip(";"))
            begin = after
        elif text == "{" and bracket in ("", "{") and _begins(tokens, after):
            yield Part(begin, after, f"{bracket} }} {_opening(tokens, begin)}")
            begin = after
        at = after
    if inside[0] < begin < inside[1] and divider != ";":
        yield Part(begin, inside[1], f"{bracket} {divider} {_opening(tokens, begin)}", divider)


def _opening(tokens: Sequence[Token], start: int) -> str:
    """Returns the keyword that an item begins with, or its first bracket."""
    first = [token for token in tokens[start : start + 2] if token.text != "#"][:1]
    return (
        first[0].text if first and (first[0].kind in ("keyword", "tag") or first[0].text in _CLOSES) else ""
    )


def _begins(tokens: Sequence[Token], at: int) -> bool:
    """Whether another declaration begins here, after a block."""
    return at >= len(tokens) or tokens[at].kind in ("keyword", "name") or tokens[at].text in ("#", "}")


def operands_of(tokens: Sequence[Token]) -> list[Part]:
    """Returns names and numbers with the groups that follow them at once, such as calls and elements."""
    jumps = {start: end for start, end in _groups(tokens) if tokens[start].text in ("(", "[")}
    found = []
    for at, token in enumerate(tokens):
        if token.kind in ("name", "number"):
            end = at + 1
            while end in jumps:
                end = jumps[end]
            found.append(Part(at, end, f"{role_of(tokens, at)} {_side(tokens, end)}"))
    return found


def role_of(tokens: Sequence[Token], at: int) -> str:
    """Returns what stands on both sides of a token, as far as it tells what the token is."""
    return f"{_side(tokens, at - 1)} {_side(tokens, at + 1)}"


def _side(tokens: Sequence[Token], at: int) -> str:
    if not 0 <= at < len(tokens):
        return ""
    token = tokens[at]
    for number, group in enumerate(_CLASSES):
        if token.text in group and token.kind == "operator":
            return f"operator {min(number, 2)}"  # what computes, compares or connects has operands
    return token.text if token.kind in ("keyword", "operator", "tag") else token.kind
