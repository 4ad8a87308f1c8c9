"""The syntax of UPPAAL's expressions and types, as parsed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from veristream.source import Node

UnaryOp = Literal["-", "+", "not"]
BinaryOp = Literal[
    "+",
    "-",
    "*",
    "/",
    "%",
    "**",
    "&",
    "|",
    "^",
    "<<",
    ">>",
    "<?",
    ">?",
    "==",
    "!=",
    "<",
    "<=",
    ">",
    ">=",
    "and",
    "or",
    "imply",
]
AssignOp = Literal["=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>="]
QuantifierOp = Literal["forall", "exists", "sum"]


@dataclass(frozen=True, slots=True)
class Number(Node):
    """A number; `true` and `false` are 1 and 0."""

    value: int


@dataclass(frozen=True, slots=True)
class Name(Node):
    """A variable, constant, channel, location or process."""

    name: str


@dataclass(frozen=True, slots=True)
class Index(Node):
    """`base[index]`."""

    base: Expression
    index: Expression


@dataclass(frozen=True, slots=True)
class Member(Node):
    """`base.name`: a field, or a member of a process (`Producer(0).Publish`)."""

    base: Expression
    name: str


@dataclass(frozen=True, slots=True)
class Unary(Node):
    """`-x`, `+x`, `not x` (also `!x`)."""

    op: UnaryOp
    operand: Expression


@dataclass(frozen=True, slots=True)
class Binary(Node):
    """A binary operation; `<?` and `>?` are minimum and maximum."""

    op: BinaryOp
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class Ternary(Node):
    """`condition ? then : otherwise`."""

    condition: Expression
    then: Expression
    otherwise: Expression


@dataclass(frozen=True, slots=True)
class Call(Node):
    """`name(arguments)`: a function call, or in a query an instance of a template."""

    name: str
    arguments: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class ProcessCall(Node):
    """`process.name(arguments)`: a call of a process's function; only in queries."""

    process: Expression
    call: Call


@dataclass(frozen=True, slots=True)
class Assignment(Node):
    """`target op value`; an expression, as in C."""

    op: AssignOp
    target: Expression
    value: Expression


@dataclass(frozen=True, slots=True)
class Increment(Node):
    """`++x`, `--x` (`prefix`), `x++`, `x--`."""

    op: Literal["++", "--"]
    target: Expression
    prefix: bool


@dataclass(frozen=True, slots=True)
class Quantified(Node):
    """`forall (name : type) body`, `exists`, `sum`."""

    op: QuantifierOp
    name: str
    type: Type
    body: Expression


@dataclass(frozen=True, slots=True)
class Deadlock(Node):
    """The keyword `deadlock`; only in queries."""


Expression = (
    Number
    | Name
    | Index
    | Member
    | Unary
    | Binary
    | Ternary
    | Call
    | ProcessCall
    | Assignment
    | Increment
    | Quantified
    | Deadlock
)


# Types


@dataclass(frozen=True, slots=True)
class IntType(Node):
    """`int`, or `int[low, high]`."""

    low: Expression | None = None
    high: Expression | None = None


@dataclass(frozen=True, slots=True)
class ScalarType(Node):
    """`scalar[size]`."""

    size: Expression


@dataclass(frozen=True, slots=True)
class PlainType(Node):
    """A type without parts."""

    kind: Literal["bool", "clock", "void"]


@dataclass(frozen=True, slots=True)
class ChannelType(Node):
    """`chan` with its prefixes."""

    urgent: bool = False
    broadcast: bool = False


@dataclass(frozen=True, slots=True)
class StructField(Node):
    """A field; `shape` as in `Variable`."""

    name: str
    type: Type
    shape: tuple[Expression | Type, ...] = ()


@dataclass(frozen=True, slots=True)
class StructType(Node):
    """`struct { ... }`, with one entry per name."""

    fields: tuple[StructField, ...]


@dataclass(frozen=True, slots=True)
class NamedType(Node):
    """A type name with its prefixes."""

    name: str
    urgent: bool = False
    broadcast: bool = False


Type = IntType | ScalarType | PlainType | ChannelType | StructType | NamedType
