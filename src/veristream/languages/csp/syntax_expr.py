"""Expressions and programs of CSP#, with every name resolved; see `syntax`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from veristream.source import NOWHERE, Span

# --- Expressions ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Number:
    """A whole number; `true` is 1 and `false` is 0."""

    value: int
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Global:
    """A global variable, or an element of a global array; one index reads a flattened array."""

    name: str
    indices: tuple[Expr, ...] = ()
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Bound:
    """A name that a process binds, or a local variable of a program."""

    name: str
    span: Span = field(default=NOWHERE, compare=False, repr=False)


UnaryOp = Literal["-", "!", "~"]
BinaryOp = Literal[
    "+", "-", "*", "/", "%", "&", "|", "^", "==", "!=", "<", "<=", ">", ">=", "&&", "||", "xor"
]
"""`/` goes towards zero, `%` is never negative; `xor` is that of truth values."""


@dataclass(frozen=True, slots=True)
class Unary:
    """One operand."""

    op: UnaryOp
    operand: Expr
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Binary:
    """Two operands; `&&` and `||` evaluate the right one only where it matters."""

    op: BinaryOp
    left: Expr
    right: Expr
    span: Span = field(default=NOWHERE, compare=False, repr=False)


QueryOp = Literal["count", "empty", "full", "size", "peek"]


@dataclass(frozen=True, slots=True)
class Query:
    """`call(ccount, c)` and its kin: how a buffered channel stands; `peek` is its oldest message."""

    op: QueryOp
    channel: str
    indices: tuple[Expr, ...] = ()
    span: Span = field(default=NOWHERE, compare=False, repr=False)


Expr = Number | Global | Bound | Unary | Binary | Query


# --- Programs ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Declare:
    """`var x = e;` in a program: known to the rest of its block; an array where `size` is set."""

    name: str
    value: Expr
    size: int | None = None
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Assign:
    """Stores a value in a global or in a local variable of the program; `index` is for a local array."""

    target: Global | Bound
    value: Expr
    index: Expr | None = None
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class If:
    """One of two programs."""

    condition: Expr
    then: Program
    otherwise: Program = ()
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class While:
    """Repeats a program while the condition holds."""

    condition: Expr
    body: Program
    span: Span = field(default=NOWHERE, compare=False, repr=False)


Statement = Declare | Assign | If | While
Program = tuple[Statement, ...]
