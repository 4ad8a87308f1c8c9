"""Writes expressions and statements in Promela and in embedded C.

The two differ only in how they access variables, write conditionals and report failed checks. C is needed
where Promela allows only expressions: for guards with loops, and guards that ask what a step would lead to.
Both compute with 32 bits; an intermediate value that needs more is not exported correctly.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import assert_never

from veristream.export.flat import FlatBlock, Put, Take
from veristream.export.names import Globals, Locals
from veristream.export.rewrite import binary, unroll
from veristream.export.safety import Knowledge
from veristream.ir import expr as ir
from veristream.ir.bounds import interval
from veristream.ir.network import Channel

_RANKS: Mapping[str, int] = {
    "or": 1,
    "and": 2,
    "|": 3,
    "^": 4,
    "&": 5,
    "==": 6,
    "!=": 6,
    "<": 7,
    "<=": 7,
    ">": 7,
    ">=": 7,
    "<<": 8,
    ">>": 8,
    "+": 9,
    "-": 9,
    "*": 10,
    "div": 10,
    "rem": 10,
}
_SYMBOLS = {"or": "||", "and": "&&", "div": "/", "rem": "%"}
_UNARY, _ATOM = 11, 12
_SHIFT_MAX = 31
UNROLLED_CELLS_MAX = 8
"""The messages of a longer queue move up in a loop."""


def variable_name(names: Globals, variable: str) -> str:
    """Returns the identifier of a variable, or of a component's location."""
    if variable.startswith("@"):
        return names.name("at", variable[1:])
    return names.name("v", variable)


def length_name(names: Globals, channel: str) -> str:
    """Returns the identifier of a buffer's length."""
    return names.name("len", channel)


def cells_name(names: Globals, channel: str, part: int) -> str:
    """Returns the identifier of the array that holds one part of a buffer's messages."""
    return names.name("q", f"{channel}_{part}")


@dataclass(slots=True)
class Writer:
    """Writes one of the two languages; `copies` are the variables that a C function has copied."""

    known: Knowledge
    names: Globals
    locals: Locals
    in_c: bool
    copies: frozenset[str] = frozenset()

    # Expressions.

    def expr(self, expr: ir.Expr, rank: int = 0) -> str:
        """Writes an expression, in parentheses if it binds weaker than `rank`."""
        text, own = self._expr(expr)
        return f"({text})" if own < rank else text

    def _expr(self, expr: ir.Expr) -> tuple[str, int]:
        match expr:
            case ir.Const(value=value):
                return str(value), _ATOM if value >= 0 else 0
            case ir.Load(variable=name, indices=indices):
                place = self._place(indices, self.known.shapes[name])
                return self._reach(variable_name(self.names, name), place), _ATOM
            case ir.Local(name=name, index=index):
                return self._local(name, index), _ATOM
            case ir.Unary(
                op="not", operand=ir.Queue(op="empty" | "full" as op, channel=name, indices=indices)
            ):
                channel = self.known.names.channels[name]
                relation = "> 0" if op == "empty" else f"< {channel.capacity}"
                return f"{self.length(channel, indices)} {relation}", _RANKS["<"]
            case ir.Unary(op=op, operand=operand):
                symbol = "!" if op == "not" else op
                return symbol + self.expr(operand, _ATOM), _UNARY
            case ir.Binary():
                return self._binary(expr)
            case ir.Conditional(condition=condition, then=then, otherwise=otherwise):
                return self._choice(self.expr(condition, 1), self.expr(then, 1), self.expr(otherwise, 1))
            case ir.Fold():
                return self._expr(unroll(expr))
            case ir.Queue(op=op, channel=name, indices=indices):
                channel = self.known.names.channels[name]
                length = self.length(channel, indices)
                if op == "len":
                    return length, _ATOM
                return f"{length} == {0 if op == 'empty' else channel.capacity}", _RANKS["=="]
            case ir.Peek(channel=name, position=position, part=part, indices=indices):
                channel = self.known.names.channels[name]
                return self.cell(channel, part, indices, position), _ATOM
            case ir.AtLocation() | ir.IsDone() | ir.IsIdle() | ir.Call() | ir.Primed():
                raise AssertionError(f"not straight: {expr}")
            case ir.ClockTest() | ir.ClockValue() | ir.Deadlocked():
                raise AssertionError("timed networks are not exported")
            case _:
                assert_never(expr)

    def _choice(self, condition: str, then: str, otherwise: str) -> tuple[str, int]:
        mark = "?" if self.in_c else "->"
        return f"({condition} {mark} {then} : {otherwise})", _ATOM

    def _local(self, name: str, index: ir.Expr | None) -> str:
        text = self.locals.name(name, self.known.sizes.get(name))
        return text if index is None else f"{text}[{self.expr(index)}]"

    def _binary(self, expr: ir.Binary) -> tuple[str, int]:
        left, right = expr.left, expr.right
        match expr.op:
            case "implies":
                return f"!{self.expr(left, _ATOM)} || {self.expr(right, 2)}", _RANKS["or"]
            case "min" | "max":
                a, b = self.expr(left, 8), self.expr(right, 8)
                return self._choice(f"{a} {'<' if expr.op == 'min' else '>'} {b}", a, b)
            case "mod":
                a, b = self.expr(left, 10), self.expr(right, 11)
                if interval(left, self.known.names).low >= 0:
                    return f"{a} % {b}", _RANKS["rem"]
                return f"({a} % {b} + {b}) % {b}", _RANKS["rem"]
            case "<<" | ">>" if interval(right, self.known.names).high > _SHIFT_MAX:
                return self._wide_shift(expr)
            case op:
                rank = _RANKS[op]
                symbol = _SYMBOLS.get(op, op)
                # Operands of bit operators and comparisons get parentheses: few readers know their ranks.
                inner = rank if op in ("or", "and", "+", "-", "*", "div", "rem") else 9
                lower = inner + (0 if op in ("or", "and") else 1)
                return f"{self.expr(left, inner)} {symbol} {self.expr(right, lower)}", rank

    def _wide_shift(self, expr: ir.Binary) -> tuple[str, int]:
        """Writes a shift that may exceed 31 bits, which C leaves undefined."""
        a, b = self.expr(expr.left, 9), self.expr(expr.right, 9)
        if expr.op == "<<":
            return self._choice(f"{b} > {_SHIFT_MAX}", "0", f"({a} << {b})")
        sign = self._choice(f"{a} < 0", "-1", "0")[0]
        return self._choice(f"{b} > {_SHIFT_MAX}", sign, f"({a} >> {b})")

    # Storage.

    def _reach(self, name: str, place: str | None) -> str:
        owner = "now." if self.in_c and name not in self.copies else ""
        return f"{owner}{name}" + ("" if place is None else f"[{place}]")

    def _place(self, indices: tuple[ir.Expr, ...], shape: tuple[int, ...]) -> str | None:
        """Writes the row-major position of an element; None for a variable that is not an array."""
        if not shape:
            return None
        return self.expr(flat_index(indices, shape))

    def length(self, channel: Channel, indices: tuple[ir.Expr, ...]) -> str:
        """Writes the number of messages in a buffer."""
        place = self._place(indices, channel.shape)
        return self._reach(length_name(self.names, channel.name), place)

    def cell(
        self, channel: Channel, part: int, indices: tuple[ir.Expr, ...], position: ir.Expr | str
    ) -> str:
        """Writes one part of a message in a buffer; a position given as text is already an expression."""
        name = cells_name(self.names, channel.name, part)
        if isinstance(position, ir.Const) and not channel.shape:
            return self._reach(name, str(position.value))
        text = position if isinstance(position, str) else self.expr(position, 9)
        if not channel.shape:
            return self._reach(name, text)
        row = flat_index(indices, channel.shape)
        if isinstance(row, ir.Const):
            start = row.value * channel.capacity
            if isinstance(position, ir.Const):
                return self._reach(name, str(start + position.value))
            return self._reach(name, text if start == 0 else f"{start} + {text}")
        return self._reach(name, f"{self.expr(row, 10)} * {channel.capacity} + {text}")

    # Statements.

    def lines(self, block: FlatBlock) -> list[str]:
        """Writes the statements, one per line unless they contain blocks; each ends in a semicolon."""
        return [line for statement in block for line in self._statement(statement)]

    def _statement(self, statement: ir.Statement | Put | Take) -> list[str]:
        match statement:
            case ir.Assign(target=target, value=value):
                return [f"{self.expr(target)} = {self.expr(value)};"]
            case ir.Let(name=name, value=value, size=None):
                return [f"{self._local(name, None)} = {self.expr(value)};"]
            case ir.Let(name=name, value=value, size=size):
                assert size is not None
                text, array = self.expr(value), self._local(name, None)
                return [f"{array}[{i}] = {text};" for i in range(size)]
            case ir.If(condition=condition, then=then, otherwise=otherwise):
                return self._if(self.expr(condition), self.lines(then), self.lines(otherwise))
            case ir.While(condition=condition, body=body):
                return self._loop(self.expr(condition), self.lines(body))
            case ir.For(name=name, low=low, high=high, body=body):
                counter = self._local(name, None)
                lines = [*self.lines(body), f"{counter} = {counter} + 1;"]
                return [f"{counter} = {low};", *self._loop(f"{counter} <= {high}", lines)]
            case ir.Check(condition=condition, message=message):
                return [self._check(self.expr(condition, 1), message)]
            case Put():
                return self._put(statement)
            case Take():
                return self._take(statement)
            case ir.Return() | ir.Evaluate() | ir.Reset():
                raise AssertionError(f"not straight: {statement}")
            case _:
                assert_never(statement)

    def _if(self, condition: str, then: list[str], otherwise: list[str]) -> list[str]:
        if self.in_c:
            tail = ["} else {", *indent(otherwise)] if otherwise else []
            return [f"if ({condition}) {{", *indent(then), *tail, "}"]
        first = [f":: {condition} ->", *indent(then or ["skip;"])]
        last = [":: else ->", *indent(otherwise)] if otherwise else [":: else"]
        return ["if", *first, *last, "fi;"]

    def _loop(self, condition: str, body: list[str]) -> list[str]:
        assert self.in_c, "a loop has locals, so it is written in C"
        return [f"while ({condition}) {{", *indent(body), "}"]

    def _check(self, condition: str, message: str) -> str:
        note = message.replace("*/", "* /")
        if self.in_c:
            return f"if (!({condition})) {{ fault = 1; return 1; }} /* {note} */"
        if condition.startswith("!"):
            condition = f"({condition}) == 1"  # SPIN reports a violated formula as an assertion of `!...`
        return f"assert({condition}); /* {note} */"

    def _put(self, put: Put) -> list[str]:
        channel = self.known.names.channels[put.channel]
        length = self.length(channel, put.indices)
        lines = [
            f"{self.cell(channel, part, put.indices, length)} = {self.expr(value)};"
            for part, value in enumerate(put.values)
        ]
        return [*lines, f"{length} = {length} + 1;"]

    def _take(self, take: Take) -> list[str]:
        """Moves the other messages up and clears the last cell, so that equal queues are equal states."""
        channel = self.known.names.channels[take.channel]
        length = self.length(channel, take.indices)
        return [*self._move_up(channel, take.indices), f"{length} = {length} - 1;"]

    def _move_up(self, channel: Channel, indices: tuple[ir.Expr, ...]) -> list[str]:
        lines: list[str] = []
        parts = range(len(channel.fields))
        last = channel.capacity - 1

        def cell(part: int, position: ir.Expr | str) -> str:
            return self.cell(channel, part, indices, position)

        if channel.capacity <= UNROLLED_CELLS_MAX:
            for i in range(last):
                lines += [f"{cell(part, ir.Const(i))} = {cell(part, ir.Const(i + 1))};" for part in parts]
        elif parts:
            body = [f"{cell(part, 'cursor')} = {cell(part, 'cursor + 1')};" for part in parts]
            lines += ["cursor = 0;", *self._loop(f"cursor < {last}", [*body, "cursor = cursor + 1;"])]
        return lines + [f"{cell(part, ir.Const(last))} = 0;" for part in parts]


def flat_index(indices: tuple[ir.Expr, ...], shape: tuple[int, ...]) -> ir.Expr:
    """Returns the row-major position of an element in its array."""
    position = indices[0]
    for index, size in zip(indices[1:], shape[1:], strict=True):
        position = binary("+", binary("*", position, ir.Const(size)), index)
    return position


def indent(lines: list[str]) -> list[str]:
    return ["  " + line for line in lines]
