"""Reads the configuration of a check, a `.cfg` file, as TLC does."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Final

from veristream.errors import ModelError
from veristream.source import NOWHERE, Node, Source, Span

_TOKEN: Final = re.compile(
    r"(?P<skip>\s+|\\\*[^\n]*|\(\*.*?\*\))"
    r'|(?P<number>-?\d+)|(?P<string>"[^"\n]*")|(?P<name>[A-Za-z0-9_]*[A-Za-z_][A-Za-z0-9_!]*)'
    r"|(?P<symbol><-|[={},\[\]()])",
    re.DOTALL,
)
_LISTS: Final = {
    "INVARIANT": "invariants", "INVARIANTS": "invariants",
    "PROPERTY": "properties", "PROPERTIES": "properties",
    "CONSTRAINT": "constraints", "CONSTRAINTS": "constraints",
    "ACTION_CONSTRAINT": "action_constraints", "ACTION_CONSTRAINTS": "action_constraints",
    "SYMMETRY": "symmetry",
}  # fmt: skip
_SINGLE: Final = {
    "INIT": "init", "NEXT": "next", "SPECIFICATION": "specification", "VIEW": "view",
    "ALIAS": "alias", "POSTCONDITION": "postcondition",
}  # fmt: skip
_KEYWORDS: Final = (*_LISTS, *_SINGLE, "CONSTANT", "CONSTANTS", "CHECK_DEADLOCK")


@dataclass(frozen=True, slots=True)
class ModelName(Node):
    """A model value."""

    name: str


@dataclass(frozen=True, slots=True)
class Values(Node):
    """A set of values."""

    items: tuple[Value, ...]


Value = int | bool | str | ModelName | Values


@dataclass(frozen=True, slots=True)
class Assigned(Node):
    """`name = value`."""

    name: str
    value: Value


@dataclass(frozen=True, slots=True)
class Replaced(Node):
    """`name <- other`, in one module only if that is given."""

    name: str
    other: str
    module: str | None = None


@dataclass(frozen=True, slots=True)
class Named(Node):
    """The name of a definition."""

    name: str


@dataclass(frozen=True, slots=True)
class Config:
    """What a configuration says."""

    source: Source = NOWHERE.source
    constants: tuple[Assigned | Replaced, ...] = ()
    init: Named | None = None
    next: Named | None = None
    specification: Named | None = None
    view: Named | None = None
    alias: Named | None = None
    postcondition: Named | None = None
    invariants: tuple[Named, ...] = ()
    properties: tuple[Named, ...] = ()
    constraints: tuple[Named, ...] = ()
    action_constraints: tuple[Named, ...] = ()
    symmetry: tuple[Named, ...] = ()
    check_deadlock: bool = True


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    span: Span


@dataclass(slots=True)
class _Parser:
    source: Source
    tokens: list[_Token]
    at: int = 0
    found: dict[str, object] = field(default_factory=dict)

    def peek(self, ahead: int = 0) -> _Token:
        at = self.at + ahead
        if at < len(self.tokens):
            return self.tokens[at]
        end = len(self.source.text.rstrip())
        return _Token("end", "", Span(self.source, max(end - 1, 0), end))

    def take(self) -> _Token:
        token = self.peek()
        self.at += 1
        return token

    def expect(self, text: str) -> _Token:
        token = self.take()
        if token.text != text:
            raise ModelError(f"`{text}` is expected here", token.span)
        return token

    def names(self) -> list[Named]:
        names: list[Named] = []
        while self.peek().kind == "name" and self.peek().text not in _KEYWORDS:
            token = self.take()
            names.append(Named(token.text, span=token.span))
            if self.peek().text == ",":
                self.take()
        return names

    def statement(self) -> None:
        keyword = self.take()
        if keyword.text in _LISTS:
            key = _LISTS[keyword.text]
            before = self.found.get(key, ())
            assert isinstance(before, tuple)
            self.found[key] = (*before, *self.names())
        elif keyword.text in _SINGLE:
            names = self.names()
            if len(names) != 1:
                raise ModelError(f"{keyword.text} takes one name, not {len(names)}", keyword.span)
            self._once(_SINGLE[keyword.text], names[0], keyword)
        elif keyword.text == "CHECK_DEADLOCK":
            word = self.take()
            if word.text not in ("TRUE", "FALSE"):
                raise ModelError("CHECK_DEADLOCK is TRUE or FALSE", word.span)
            self.found["check_deadlock"] = word.text == "TRUE"
        elif keyword.text in ("CONSTANT", "CONSTANTS"):
            self._constants()
        else:
            close = get_close_matches(keyword.text.upper(), _KEYWORDS, 1)
            hint = f"did you mean {close[0]}?" if close else f"statements begin with {', '.join(_KEYWORDS)}"
            raise ModelError(f"`{keyword.text}` begins no statement", keyword.span, hint)

    def _once(self, key: str, value: Named, keyword: _Token) -> None:
        if key in self.found:
            raise ModelError(f"{keyword.text} is said twice", keyword.span, "remove one of them")
        self.found[key] = value

    def _constants(self) -> None:
        constants = list[Assigned | Replaced]()
        while self.peek().kind == "name" and self.peek(1).text in ("=", "<-"):
            name, relation = self.take(), self.take()
            if relation.text == "=":
                constants.append(Assigned(name.text, self._value(), span=name.span))
                continue
            module = None
            if self.peek().text == "[":
                self.take()
                module = self.take().text
                self.expect("]")
            other = self.take()
            if module is None:
                constants.append(Replaced(name.text, other.text, span=other.span))
            else:
                constants.append(Replaced(name.text, other.text, module, span=other.span))
        word = self.peek().text
        is_keyword = word in _KEYWORDS or get_close_matches(word, _KEYWORDS, 1, cutoff=0.8)
        if self.peek().kind == "name" and not is_keyword:
            hint = "write `name = value`, or `name <- definition`"
            raise ModelError(f"{self.peek().text} has no value", self.peek().span, hint)
        before = self.found.get("constants", ())
        assert isinstance(before, tuple)
        self.found["constants"] = (*before, *constants)

    def _value(self) -> Value:
        token = self.take()
        match token.kind, token.text:
            case "number", digits:
                return int(digits)
            case "string", quoted:
                return quoted[1:-1]
            case "name", "TRUE" | "FALSE":
                return token.text == "TRUE"
            case "name", name:
                return ModelName(name, span=token.span)
            case _, "{":
                items: list[Value] = []
                while self.peek().text != "}":
                    items.append(self._value())
                    if self.peek().text == ",":
                        self.take()
                    elif self.peek().text != "}":
                        raise ModelError("`,` or `}` is expected here", self.peek().span)
                self.take()
                return Values(tuple(items), span=token.span)
            case _:
                hint = "a value is a number, a string, TRUE, FALSE, a name, or a set of them in braces"
                raise ModelError("a value is expected here", token.span, hint)


def read_config(source: Source) -> Config:
    """Parses a configuration; raises ModelError, with position and hint, if it is wrong."""
    parser = _Parser(source, list(_tokens(source)))
    while parser.peek().kind != "end":
        parser.statement()
    return Config(source, **parser.found)  # type: ignore[arg-type]


def _tokens(source: Source) -> list[_Token]:
    found: list[_Token] = []
    at = 0
    while at < len(source.text):
        match = _TOKEN.match(source.text, at)
        if match is None:
            raise ModelError(
                f"`{source.text[at]}` means nothing in a configuration", Span(source, at, at + 1)
            )
        assert match.lastgroup is not None
        if match.lastgroup != "skip":
            found.append(_Token(match.lastgroup, match.group(), Span(source, at, match.end())))
        at = match.end()
    return found
