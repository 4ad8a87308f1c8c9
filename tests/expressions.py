"""Random expressions for `strategies`: valid by construction, and mostly free of faults."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any, Literal, TypeVar

from hypothesis import strategies as st

from veristream.ir.constant import constant_value
from veristream.ir.expr import (
    BOOL,
    AtLocation,
    Binary,
    BinaryOp,
    Call,
    Conditional,
    Const,
    Expr,
    Fold,
    IsDone,
    IsIdle,
    Load,
    Local,
    Peek,
    Queue,
    Type,
    Unary,
)
from veristream.ir.network import (
    Channel,
    ChannelKind,
    Network,
    Variable,
    all_variables,
)

T = TypeVar("T")
Draw = Callable[[st.SearchStrategy[Any]], Any]

TYPES = (Type(0, 1), BOOL, Type(0, 2), Type(-1, 1), Type(1, 2), Type(0, 2, "Color"))
COMPARISONS: tuple[BinaryOp, ...] = ("==", "!=", "<", "<=", ">", ">=")


@dataclass(frozen=True, slots=True)
class Words:
    """What an expression may mention; `scalars` and `arrays` are local."""

    network: Network  # as far as it is known: names, shapes, locations
    scalars: tuple[tuple[str, Type], ...] = ()
    arrays: tuple[tuple[str, int, Type], ...] = ()
    assignable: tuple[tuple[str, Type], ...] = ()

    def add(self, name: str, type_: Type, *, assignable: bool = False) -> Words:
        """These words and one more local."""
        local = ((name, type_),)
        return replace(
            self,
            scalars=self.scalars + local,
            assignable=self.assignable + (local if assignable else ()),
        )

    @property
    def variables(self) -> tuple[Variable, ...]:
        return all_variables(self.network)

    @property
    def buffers(self) -> tuple[Channel, ...]:
        return tuple(c for c in self.network.channels if c.kind is ChannelKind.BUFFER)


class Builder:
    """Draws expressions; small numbers drawn mean simple things, so examples shrink."""

    def __init__(self, draw: Draw, faults: bool) -> None:
        self.draw = draw
        self._faults = faults
        self._numbers = count()
        self.impure: set[str] = set()

    def fresh(self, stem: str) -> str:
        """A name that no scope has yet."""
        return f"{stem}{next(self._numbers)}"

    def pick(self, options: Sequence[T]) -> T:
        """One of the options."""
        return options[self.upto(len(options) - 1)]

    def upto(self, high: int, low: int = 0) -> int:
        """A number from low to high."""
        number: int = self.draw(st.integers(low, high)) if low < high else low
        return number

    def rarely(self, one_in: int) -> bool:
        """True once in so many draws."""
        return self.upto(one_in - 1) == one_in - 1

    def careless(self) -> bool:
        """Whether to leave out a precaution, so that the model may fault."""
        return self._faults and self.rarely(24)

    def number(self, words: Words, depth: int = 2) -> Expr:
        """An expression of small value."""
        if depth == 0:
            return self.leaf(words)
        left = self.number(words, depth - 1)
        match self.pick(
            ("leaf", "leaf", "plain", "plain", "bits", "divide", "shift", "if", "fold", "call", "not")
        ):
            case "plain":
                ops: tuple[BinaryOp, ...] = ("+", "-", "*", "min", "max")
                return Binary(self.pick(ops), left, self.number(words, depth - 1))
            case "bits":
                bits: tuple[BinaryOp, ...] = ("&", "|", "^")
                return Binary(self.pick(bits), left, self.number(words, depth - 1))
            case "divide":
                divisions: tuple[BinaryOp, ...] = ("div", "rem", "mod")
                right = self.leaf(words) if self.careless() else Const(self.upto(3, 1))
                return Binary(self.pick(divisions), left, right)
            case "shift":
                shifts: tuple[BinaryOp, ...] = ("<<", ">>")
                return Binary(self.pick(shifts), left, Const(self.upto(2)))
            case "if":
                return Conditional(self.condition(words, depth - 1), left, self.number(words, depth - 1))
            case "fold":
                return self._fold("sum", words, depth)
            case "call":
                return self.call(words, pure=True) or left
            case "not":
                return Unary("~" if self.rarely(2) else "-", left)
            case _:
                return left

    def condition(self, words: Words, depth: int = 2) -> Expr:
        """An expression for its truth."""
        kinds = ("compare", "compare", "at", "queue") + (("and", "not", "fold", "number") if depth else ())
        match self.pick(kinds):
            case "at":
                return self._place(words)
            case "queue" if words.buffers:
                return self._queue(words, self.pick(("empty", "full")))
            case "and":
                ops: tuple[BinaryOp, ...] = ("and", "or", "implies")
                left = self.condition(words, depth - 1)
                return Binary(self.pick(ops), left, self.condition(words, depth - 1))
            case "not":
                return Unary("not", self.condition(words, depth - 1))
            case "fold":
                return self._fold(self.pick(("all", "any")), words, depth)
            case "number":
                return self.number(words, depth - 1)
            case _:
                left = self.number(words, min(depth, 1))
                return Binary(self.pick(COMPARISONS), left, self.leaf(words))

    def fit(self, expr: Expr, type_: Type) -> Expr:
        """The expression, brought into the type's range."""
        value = constant_value(expr)
        if self.careless() and (value is None or type_.low <= value <= type_.high):
            return expr
        if self.rarely(2):
            return Binary("min", Binary("max", expr, Const(type_.low)), Const(type_.high))
        wrapped = Binary("mod", expr, Const(type_.high - type_.low + 1))
        return Binary("+", wrapped, Const(type_.low)) if type_.low else wrapped

    def indices(self, shape: tuple[int, ...], words: Words) -> tuple[Expr, ...]:
        """One index for each dimension, within its bounds."""
        return tuple(
            Const(self.upto(size - 1))
            if self.rarely(2)
            else self.fit(self.leaf(words, simple=True), Type(0, size - 1))
            for size in shape
        )

    def call(self, words: Words, *, pure: bool) -> Call | None:
        """A call of a function, if there is one."""
        known = [f for f in words.network.functions if not pure or f.name not in self.impure]
        if not known:
            return None
        function = self.pick(known)
        arguments = (self.fit(self.leaf(words), parameter.type) for parameter in function.parameters)
        return Call(function.name, tuple(arguments))

    def leaf(self, words: Words, *, simple: bool = False) -> Expr:
        kinds = ("const", "variable", "variable", "local", "local") + (
            () if simple else ("array", "len", "peek")
        )
        match self.pick(kinds):
            case "variable" if words.variables:
                variable = self.pick(words.variables)
                return Load(variable.name, tuple(Const(self.upto(size - 1)) for size in variable.shape))
            case "local" if words.scalars:
                return Local(self.pick(words.scalars)[0])
            case "array" if words.arrays:
                name, size, _ = self.pick(words.arrays)
                return Local(name, self.indices((size,), words)[0])
            case "len" if words.buffers:
                return self._queue(words, "len")
            case "peek" if words.buffers:
                return self._peek(words)
            case "array" if not simple:
                return self._place(words)
            case _:
                return Const(self.upto(3, -1))

    def _place(self, words: Words) -> Expr:
        component = self.pick(words.network.components)
        match self.pick(("at", "at", "done", "idle")):
            case "done":
                return IsDone(component.name)
            case "idle":
                return IsIdle(component.name)
            case _:
                return AtLocation(component.name, self.pick(component.locations).name)

    def _queue(self, words: Words, op: Literal["len", "empty", "full"]) -> Queue:
        channel = self.pick(words.buffers)
        return Queue(op, channel.name, self.indices(channel.shape, words))

    def _peek(self, words: Words) -> Expr:
        channel = self.pick(words.buffers)
        if not channel.fields:
            return Queue("len", channel.name, self.indices(channel.shape, words))
        indices = self.indices(channel.shape, words)
        position = self.upto(channel.capacity - 1)
        peek = Peek(channel.name, Const(position), self.upto(len(channel.fields) - 1), indices)
        if self.careless():
            return peek
        there = Binary("<", Const(position), Queue("len", channel.name, indices))
        return Conditional(there, peek, Const(0))

    def _fold(self, op: Literal["all", "any", "sum"], words: Words, depth: int) -> Fold:
        name, low = self.fresh("k"), self.upto(1)
        high = low + self.upto(1)
        inner = words.add(name, Type(low, high))
        body = self.number(inner, depth - 1) if op == "sum" else self.condition(inner, depth - 1)
        return Fold(op, name, low, high, body)
