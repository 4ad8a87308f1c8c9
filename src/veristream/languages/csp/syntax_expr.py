"""The resolved syntax of CSP# expressions and programs; `syntax` holds that of everything else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from veristream.source import Node

# --- Expressions ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Number(Node):
    """A whole number; `true` is 1 and `false` is 0."""

    value: int


@dataclass(frozen=True, slots=True)
class Global(Node):
    """A global variable or an element of a global array; a single index addresses the flattened array."""

    name: str
    indices: tuple[Expr, ...] = ()


@dataclass(frozen=True, slots=True)
class Bound(Node):
    """A name bound by a process, or a local variable of a program."""

    name: str


UnaryOp = Literal["-", "!", "~"]
BinaryOp = Literal[
    "+", "-", "*", "/", "%", "&", "|", "^", "==", "!=", "<", "<=", ">", ">=", "&&", "||", "xor"
]
"""`/` truncates towards zero, `%` is never negative, `xor` is the logical one."""


@dataclass(frozen=True, slots=True)
class Unary(Node):
    op: UnaryOp
    operand: Expr


@dataclass(frozen=True, slots=True)
class Binary(Node):
    """An operator with two operands; `&&` and `||` short-circuit."""

    op: BinaryOp
    left: Expr
    right: Expr


QueryOp = Literal["count", "empty", "full", "size", "peek"]


@dataclass(frozen=True, slots=True)
class Query(Node):
    """`call(ccount, c)` and its variants: the state of a buffered channel; `peek` is its oldest message."""

    op: QueryOp
    channel: str
    indices: tuple[Expr, ...] = ()


Expr = Number | Global | Bound | Unary | Binary | Query


# --- Programs ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Declare(Node):
    """`var x = e;` in a program: visible in the rest of its block; an array if `size` is set."""

    name: str
    value: Expr
    size: int | None = None


@dataclass(frozen=True, slots=True)
class Assign(Node):
    """Assigns to a global variable or to a local one; `index` selects an element of a local array."""

    target: Global | Bound
    value: Expr
    index: Expr | None = None


@dataclass(frozen=True, slots=True)
class If(Node):
    condition: Expr
    then: Program
    otherwise: Program = ()


@dataclass(frozen=True, slots=True)
class While(Node):
    condition: Expr
    body: Program


Statement = Declare | Assign | If | While
Program = tuple[Statement, ...]
