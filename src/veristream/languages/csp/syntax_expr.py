"""The resolved syntax of CSP# expressions and programs; `syntax` holds that of everything else."""

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
    """A global variable or an element of a global array; a single index addresses the flattened array."""

    name: str
    indices: tuple[Expr, ...] = ()
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Bound:
    """A name bound by a process, or a local variable of a program."""

    name: str
    span: Span = field(default=NOWHERE, compare=False, repr=False)


UnaryOp = Literal["-", "!", "~"]
BinaryOp = Literal[
    "+", "-", "*", "/", "%", "&", "|", "^", "==", "!=", "<", "<=", ">", ">=", "&&", "||", "xor"
]
"""`/` truncates towards zero, `%` is never negative, `xor` is the logical one."""


@dataclass(frozen=True, slots=True)
class Unary:
    op: UnaryOp
    operand: Expr
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Binary:
    """An operator with two operands; `&&` and `||` short-circuit."""

    op: BinaryOp
    left: Expr
    right: Expr
    span: Span = field(default=NOWHERE, compare=False, repr=False)


QueryOp = Literal["count", "empty", "full", "size", "peek"]


@dataclass(frozen=True, slots=True)
class Query:
    """`call(ccount, c)` and its variants: the state of a buffered channel; `peek` is its oldest message."""

    op: QueryOp
    channel: str
    indices: tuple[Expr, ...] = ()
    span: Span = field(default=NOWHERE, compare=False, repr=False)


Expr = Number | Global | Bound | Unary | Binary | Query


# --- Programs ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Declare:
    """`var x = e;` in a program: visible in the rest of its block; an array if `size` is set."""

    name: str
    value: Expr
    size: int | None = None
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Assign:
    """Assigns to a global variable or to a local one; `index` selects an element of a local array."""

    target: Global | Bound
    value: Expr
    index: Expr | None = None
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class If:
    condition: Expr
    then: Program
    otherwise: Program = ()
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class While:
    condition: Expr
    body: Program
    span: Span = field(default=NOWHERE, compare=False, repr=False)


Statement = Declare | Assign | If | While
Program = tuple[Statement, ...]
