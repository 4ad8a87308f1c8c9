"""The syntax of UPPAAL's expressions and types, as parsed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from veristream.source import NOWHERE, Span

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
class Number:
    """A number; `true` and `false` are 1 and 0."""

    value: int
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Name:
    """A variable, constant, channel, location or process."""

    name: str
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Index:
    """`base[index]`."""

    base: Expression
    index: Expression
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Member:
    """`base.name`: a field, or a member of a process (`Producer(0).Publish`)."""

    base: Expression
    name: str
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Unary:
    """`-x`, `+x`, `not x` (also `!x`)."""

    op: UnaryOp
    operand: Expression
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Binary:
    """A binary operation; `<?` and `>?` are minimum and maximum."""

    op: BinaryOp
    left: Expression
    right: Expression
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Ternary:
    """`condition ? then : otherwise`."""

    condition: Expression
    then: Expression
    otherwise: Expression
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Call:
    """`name(arguments)`: a function call, or in a query an instance of a template."""

    name: str
    arguments: tuple[Expression, ...]
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class ProcessCall:
    """`process.name(arguments)`: a call of a process's function; only in queries."""

    process: Expression
    call: Call
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Assignment:
    """`target op value`; an expression, as in C."""

    op: AssignOp
    target: Expression
    value: Expression
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Increment:
    """`++x`, `--x` (`prefix`), `x++`, `x--`."""

    op: Literal["++", "--"]
    target: Expression
    prefix: bool
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Quantified:
    """`forall (name : type) body`, `exists`, `sum`."""

    op: QuantifierOp
    name: str
    type: Type
    body: Expression
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Deadlock:
    """The keyword `deadlock`; only in queries."""

    span: Span = field(default=NOWHERE, compare=False, repr=False)


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
class IntType:
    """`int`, or `int[low, high]`."""

    low: Expression | None = None
    high: Expression | None = None
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class ScalarType:
    """`scalar[size]`."""

    size: Expression
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class PlainType:
    """A type without parts."""

    kind: Literal["bool", "clock", "void"]
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class ChannelType:
    """`chan` with its prefixes."""

    urgent: bool = False
    broadcast: bool = False
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class StructField:
    """A field; `shape` as in `Variable`."""

    name: str
    type: Type
    shape: tuple[Expression | Type, ...] = ()
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class StructType:
    """`struct { ... }`, with one entry per name."""

    fields: tuple[StructField, ...]
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class NamedType:
    """A type name with its prefixes."""

    name: str
    urgent: bool = False
    broadcast: bool = False
    span: Span = field(default=NOWHERE, compare=False, repr=False)


Type = IntType | ScalarType | PlainType | ChannelType | StructType | NamedType
