"""LTL formulas of assertions, read as PAT reads them.

Strength, from tightest: the operators before a formula (`!`, `X`, `[]` or `G`, `<>` or `F`), then `U` and
`R` (or `V`), then `&&` (or `/\\`), `||` (or `\\/`), `->` and `<->`, which are of one strength. All group to
the left, so `a -> b && c` is `(a -> b) && c`: PAT takes this from SPIN's and LTL2BA's formulas.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, cast

from lark import Token

from veristream.errors import ModelError
from veristream.ir.text.read_tree import suggest
from veristream.languages.csp.read.names import Scope
from veristream.languages.csp.read.resolve_expr import expand_value
from veristream.languages.csp.syntax import (
    Formula,
    Holds,
    Number,
    Occurs,
    TemporalBinary,
    TemporalUnary,
)
from veristream.source import Span

_Unary = Literal["!", "X", "[]", "<>"]
_Binary = Literal["&&", "||", "->", "<->", "U", "R"]

_BEFORE: dict[str, _Unary] = {"!": "!", "X": "X", "[]": "[]", "G": "[]", "<>": "<>", "F": "<>"}
_UNTIL: dict[str, _Binary] = {"U": "U", "R": "R", "V": "R"}
_CONNECTIVES: dict[str, _Binary] = {
    "&&": "&&",
    "/\\": "&&",
    "||": "||",
    "\\/": "||",
    "->": "->",
    "<->": "<->",
}
_QUOTED = re.compile(r"\s*([A-Za-z_]\w*)((?:\[[^\]]*\])*)\s*(?:([!?.])\s*([^!?]*?))?\s*")
_WORD = re.compile(r"[A-Za-z_]\w*")


def resolve_formula(scope: Scope, tokens: list[Token]) -> Formula:
    """The formula of these words; raises ModelError where they make none or name nothing."""
    reader = _Reader(scope, tokens)
    formula = reader.connected()
    if reader.position < len(tokens):
        raise reader.error_here(
            "a formula ends before this", "join formulas by `&&`, `||`, `->`, `<->`, `U` or `R`"
        )
    return formula


@dataclass(slots=True)
class _Reader:
    """Walks over the words; `position` is that of the next one."""

    scope: Scope
    tokens: list[Token]
    position: int = 0

    def connected(self) -> Formula:
        """Formulas joined by connectives."""
        return self._chain(_CONNECTIVES)

    def until(self) -> Formula:
        """Formulas joined by U and R."""
        return self._chain(_UNTIL)

    def _chain(self, operators: dict[str, _Binary]) -> Formula:
        read = self.until if operators is _CONNECTIVES else self.single
        left = read()
        while (word := self.peek()) in operators:
            self.position += 1
            right = read()
            left = TemporalBinary(operators[word], left, right, self._join(left.span, right.span))
        return left

    def single(self) -> Formula:
        """A proposition with the operators before it."""
        start, word = self.position, self.peek()
        if word in _BEFORE:
            self.position += 1
            operand = self.single()
            return TemporalUnary(_BEFORE[word], operand, self.span(start))
        if word == "(":
            self.position += 1
            inner = self.connected()
            if self.peek() != ")":
                raise self.error_here(
                    "a `)` is missing in the formula", "join formulas by `&&`, `||`, `->`, `U` or `R`"
                )
            self.position += 1
            return inner
        return self.proposition()

    def proposition(self) -> Formula:
        """A condition or an event."""
        word, start = self.peek(), self.position
        self.position += 1
        if word in {"true", "false"}:
            return Holds(Number(int(word == "true"), self.span(start)), self.span(start))
        if word.startswith('"'):
            return self._quoted(word, start)
        if word == "tau":
            self.position = start
            raise self.error_here("`tau` cannot be observed", "give the event a name")
        if _WORD.fullmatch(word) is None or word in _UNTIL:
            self.position = start
            raise self.error_here(
                "a condition or an event is missing in the formula", "as in `[] (request -> <> reply)`"
            )
        return self._named(word, start)

    def _named(self, name: str, start: int) -> Formula:
        condition = self._condition(name, start)
        if condition is not None:
            return condition
        indices = self._indices(name)
        sign = self.peek()
        channels = self.scope.names.channels
        if (
            sign in {"!", "?"}
            and name not in channels
            and (sign == "?" or self._is_argument(self.position + 1))
        ):
            hint = suggest(name, list(channels), f"declare it: `channel {name} 1;`")
            raise ModelError(f"there is no channel `{name}`", self.span(start), hint)
        if sign not in {"!", "?", "."} or (sign == "!" and name not in channels):
            return self._occurs(name + indices, (), "", start)
        arguments = self._arguments()
        return self._occurs(name + indices, tuple(arguments), sign, start)

    def _condition(self, name: str, start: int) -> Formula | None:
        names, span = self.scope.names, self.span(start)
        follows = self.peek() in {".", "?"}
        if name in names.constants and not follows:
            return Holds(Number(names.constants[name].value, span), span)
        if name not in names.defines:
            return None
        if follows:
            raise self.error_here(
                f"`{name}` is a condition, not an event", "rename the condition or the event"
            )
        return Holds(expand_value(self.scope, names.defines[name], (), span), span)

    def _indices(self, name: str) -> str:
        """`[1][2]` of a channel in an array, as PAT shows it."""
        indices = ""
        while self.peek() == "[" and name in self.scope.names.channels:
            self.position += 1
            indices += f"[{self._argument()}]"
            if self.peek() != "]":
                raise self.error_here("a `]` is missing in the formula")
            self.position += 1
        return indices

    def _arguments(self) -> list[int]:
        """`!1.2`, `?1.2` or `.1.2`; nothing may follow the `!` or `?` of a message without fields."""
        sign = self.peek()
        self.position += 1
        if sign != "." and not self._is_argument(self.position):
            return []
        arguments = [self._argument()]
        while self.peek() == ".":
            self.position += 1
            arguments.append(self._argument())
        return arguments

    def _is_argument(self, position: int) -> bool:
        word = str(self.tokens[position]) if position < len(self.tokens) else ""
        return word.isdigit() or word in {"-", "true", "false"} or word in self.scope.names.constants

    def _argument(self) -> int:
        word = self.peek()
        if not self._is_argument(self.position):
            hint = "in a formula the arguments of events are numbers and constants"
            raise self.error_here("only values can stand here", hint)
        self.position += 1
        if word == "-":
            return -self._argument()
        if word in {"true", "false"}:
            return int(word == "true")
        return int(word) if word.isdigit() else self.scope.names.constants[word].value

    def _quoted(self, word: str, start: int) -> Formula:
        found = _QUOTED.fullmatch(word[1:-1])
        hint = 'an event is quoted as in `"c!1"`, `"c?1.2"` or `"a.1"`'
        if found is None:
            raise ModelError("this is no event", self.span(start), hint)
        name, indices, sign, rest = found[1], found[2], found[3] or "", found[4] or ""
        arguments = [self._text_value(part.strip(), start, hint) for part in rest.split(".") if rest]
        places = [
            self._text_value(part.strip(), start, hint) for part in re.findall(r"\[([^\]]*)\]", indices)
        ]
        shown = name + "".join(f"[{place}]" for place in places)
        return self._occurs(shown, tuple(arguments), sign, start)

    def _text_value(self, text: str, start: int, hint: str) -> int:
        if re.fullmatch(r"-?\d+", text):
            return int(text)
        if text not in self.scope.names.constants:
            raise ModelError(f"`{text}` is no value", self.span(start), hint)
        return self.scope.names.constants[text].value

    def _occurs(self, shown: str, arguments: tuple[int, ...], sign: str, start: int) -> Formula:
        """The event, if there is one of that name; a rendezvous is one event, however it is written."""
        names, span = self.scope.names, self.span(start)
        name = shown.split("[", maxsplit=1)[0]
        channel = names.channels.get(name)
        if channel is None and name not in names.events:
            known = [*names.events, *names.channels, *names.defines]
            hint = suggest(name, known, f"define a condition, `#define {name} ...;`, or perform the event")
            raise ModelError(f"no event, channel or condition is called `{name}`", span, hint)
        if channel is not None and channel.capacity > 0 and sign in {"", "."} and name not in names.events:
            hint = f'write `"{name}!1"` for sending or `"{name}?1"` for receiving'
            raise ModelError(f"`{name}` is a buffered channel", span, hint)
        if sign in {"!", "?"} and channel is None:
            raise ModelError(f"there is no channel `{name}`", span, f"an event is written `{name}.1`")
        kept = sign if channel is not None and channel.capacity > 0 and sign in {"!", "?"} else ""
        return Occurs(shown, arguments, cast(Literal["", "!", "?"], kept), span)

    def peek(self) -> str:
        """The next word; empty at the end."""
        return str(self.tokens[self.position]) if self.position < len(self.tokens) else ""

    def span(self, start: int) -> Span:
        """From the word at `start` to the last one that was read."""
        last = self.tokens[max(start, self.position - 1)]
        return self._join(self.scope.span(self.tokens[start]), self.scope.span(last))

    def error_here(self, message: str, hint: str = "") -> ModelError:
        """A ModelError at the next word."""
        where = self.tokens[min(self.position, len(self.tokens) - 1)]
        return ModelError(message, self.scope.span(where), hint)

    @staticmethod
    def _join(first: Span, last: Span) -> Span:
        return Span(first.source, first.start, last.end) if first.source is last.source else first
