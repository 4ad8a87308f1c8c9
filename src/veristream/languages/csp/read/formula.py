"""Parses and resolves the LTL formulas of assertions, with PAT's precedence; part of `resolve`.

From tightest to loosest: the prefix operators (`!`, `X`, `[]` or `G`, `<>` or `F`); `U` and `R` (or `V`);
then `&&` (or `/\\`), `||` (or `\\/`), `->` and `<->`, which share one precedence. All binary operators
associate to the left, so `a -> b && c` is `(a -> b) && c`, as in SPIN and LTL2BA, where PAT took it from.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, cast

from lark import Token

from veristream.errors import ModelError, suggest
from veristream.languages.csp import syntax as csp
from veristream.languages.csp.read.names import Scope
from veristream.languages.csp.read.resolve_expr import expand_value
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


def resolve_formula(scope: Scope, tokens: list[Token]) -> csp.Formula:
    """Returns the formula of these tokens; raises ModelError on a syntax error or an unknown name."""
    reader = _Reader(scope, tokens)
    formula = reader.connected()
    if reader.position < len(tokens):
        raise reader.error_here(
            "expected an operator in the formula", "join formulas with `&&`, `||`, `->`, `<->`, `U` or `R`"
        )
    return formula


@dataclass(slots=True)
class _Reader:
    """A recursive-descent parser; `position` is that of the next token."""

    scope: Scope
    tokens: list[Token]
    position: int = 0

    def connected(self) -> csp.Formula:
        """Parses formulas joined by connectives."""
        return self._chain(_CONNECTIVES)

    def until(self) -> csp.Formula:
        """Parses formulas joined by U and R."""
        return self._chain(_UNTIL)

    def _chain(self, operators: dict[str, _Binary]) -> csp.Formula:
        read = self.until if operators is _CONNECTIVES else self.single
        left = read()
        while (word := self.peek()) in operators:
            self.position += 1
            right = read()
            left = csp.TemporalBinary(operators[word], left, right, span=self._join(left.span, right.span))
        return left

    def single(self) -> csp.Formula:
        """Parses a proposition or a parenthesised formula with its prefix operators."""
        start, word = self.position, self.peek()
        if word in _BEFORE:
            self.position += 1
            operand = self.single()
            return csp.TemporalUnary(_BEFORE[word], operand, span=self.span(start))
        if word == "(":
            self.position += 1
            inner = self.connected()
            if self.peek() != ")":
                raise self.error_here(
                    "expected `)` or an operator in the formula",
                    "join formulas with `&&`, `||`, `->`, `<->`, `U` or `R`",
                )
            self.position += 1
            return inner
        return self.proposition()

    def proposition(self) -> csp.Formula:
        """Parses a condition or an event."""
        word, start = self.peek(), self.position
        self.position += 1
        if word in {"true", "false"}:
            return csp.Holds(csp.Number(int(word == "true"), span=self.span(start)), span=self.span(start))
        if word.startswith('"'):
            return self._quoted(word, start)
        if word == "tau":
            self.position = start
            raise self.error_here("`tau` cannot be observed", "give the event a name")
        if _WORD.fullmatch(word) is None or word in _UNTIL:
            self.position = start
            raise self.error_here(
                "expected a condition or an event in the formula",
                "for example `[] (request -> <> reply)`",
            )
        return self._named(word, start)

    def _named(self, name: str, start: int) -> csp.Formula:
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

    def _condition(self, name: str, start: int) -> csp.Formula | None:
        names, span = self.scope.names, self.span(start)
        follows = self.peek() in {".", "?"}
        if name in names.constants and not follows:
            return csp.Holds(csp.Number(names.constants[name].value, span=span), span=span)
        if name not in names.defines:
            return None
        if follows:
            raise self.error_here(
                f"`{name}` is a condition, not an event", "rename the condition or the event"
            )
        return csp.Holds(expand_value(self.scope, names.defines[name], (), span), span=span)

    def _indices(self, name: str) -> str:
        """Parses the indices `[1][2]` of a channel; returns them as PAT prints them."""
        indices = ""
        while self.peek() == "[" and name in self.scope.names.channels:
            self.position += 1
            indices += f"[{self._argument()}]"
            if self.peek() != "]":
                raise self.error_here("expected `]` in the formula")
            self.position += 1
        return indices

    def _arguments(self) -> list[int]:
        """Parses `!1.2`, `?1.2` or `.1.2`, or `!` or `?` alone for a message without fields."""
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
            hint = "in a formula the arguments of events must be numbers or constants"
            raise self.error_here("expected a value", hint)
        self.position += 1
        if word == "-":
            return -self._argument()
        if word in {"true", "false"}:
            return int(word == "true")
        return int(word) if word.isdigit() else self.scope.names.constants[word].value

    def _quoted(self, word: str, start: int) -> csp.Formula:
        found = _QUOTED.fullmatch(word[1:-1])
        hint = 'quote an event as in `"c!1"`, `"c?1.2"` or `"a.1"`'
        if found is None:
            raise ModelError("this string is not an event", self.span(start), hint)
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
            raise ModelError(f"`{text}` is not a number or constant", self.span(start), hint)
        return self.scope.names.constants[text].value

    def _occurs(self, shown: str, arguments: tuple[int, ...], sign: str, start: int) -> csp.Formula:
        """Returns the proposition of an event; a rendezvous is the same event with `!`, `?` or `.`.

        Raises ModelError if the model has no such event.
        """
        names, span = self.scope.names, self.span(start)
        name = shown.split("[", maxsplit=1)[0]
        channel = names.channels.get(name)
        if channel is None and name not in names.events:
            known = [*names.events, *names.channels, *names.defines]
            otherwise = f"define a condition, `#define {name} ...;`, or use the event in a process"
            hint = suggest(name, known, otherwise)
            raise ModelError(f"there is no event, channel or condition `{name}`", span, hint)
        if channel is not None and channel.capacity > 0 and sign in {"", "."} and name not in names.events:
            hint = f'write `"{name}!1"` for sending or `"{name}?1"` for receiving'
            raise ModelError(f"`{name}` is a buffered channel", span, hint)
        if sign in {"!", "?"} and channel is None:
            raise ModelError(f"there is no channel `{name}`", span, f"write an event as `{name}.1`")
        kept = sign if channel is not None and channel.capacity > 0 and sign in {"!", "?"} else ""
        return csp.Occurs(shown, arguments, cast(Literal["", "!", "?"], kept), span=span)

    def peek(self) -> str:
        """Returns the next token without consuming it, or an empty string at the end."""
        return str(self.tokens[self.position]) if self.position < len(self.tokens) else ""

    def span(self, start: int) -> Span:
        """Returns the span from the token at `start` to the last one consumed."""
        last = self.tokens[max(start, self.position - 1)]
        return self._join(self.scope.span(self.tokens[start]), self.scope.span(last))

    def error_here(self, message: str, hint: str = "") -> ModelError:
        """Returns a ModelError located at the next token."""
        where = self.tokens[min(self.position, len(self.tokens) - 1)]
        return ModelError(message, self.scope.span(where), hint)

    @staticmethod
    def _join(first: Span, last: Span) -> Span:
        return Span(first.source, first.start, last.end) if first.source is last.source else first
