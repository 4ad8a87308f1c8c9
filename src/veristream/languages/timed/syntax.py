"""The syntax of UPPAAL models, as parsed: names are unresolved and expressions untyped.

The alternative spellings `&&`, `||`, `!` and `:=` are normalised to `and`, `or`, `not` and `=`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

# One statement for all names; isort would make one for each.
# isort: off
from veristream.languages.timed.syntax_expr import (
    Assignment as Assignment,
    AssignOp as AssignOp,
    Binary as Binary,
    BinaryOp as BinaryOp,
    Call as Call,
    ChannelType as ChannelType,
    Deadlock as Deadlock,
    Expression as Expression,
    Increment as Increment,
    Index as Index,
    IntType as IntType,
    Member as Member,
    Name as Name,
    NamedType as NamedType,
    Number as Number,
    PlainType as PlainType,
    ProcessCall as ProcessCall,
    Quantified as Quantified,
    QuantifierOp as QuantifierOp,
    ScalarType as ScalarType,
    StructField as StructField,
    StructType as StructType,
    Ternary as Ternary,
    Type as Type,
    Unary as Unary,
    UnaryOp as UnaryOp,
)
# isort: on

from veristream.source import NOWHERE, Span

# Declarations


@dataclass(frozen=True, slots=True)
class InitialList:
    """`{ 1, 2 }` or `{ field: 1, 2 }`; the name is None if omitted."""

    items: tuple[tuple[str | None, Initial], ...]
    span: Span = field(default=NOWHERE, compare=False, repr=False)


Initial = Expression | InitialList


@dataclass(frozen=True, slots=True)
class Variable:
    """One declared name: a variable, constant, clock or channel.

    `shape` has one entry per dimension: its size, or its index type.
    """

    name: str
    type: Type
    shape: tuple[Expression | Type, ...] = ()
    initial: Initial | None = None
    constant: bool = False
    meta: bool = False
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class TypeDefinition:
    """`typedef type name shape`."""

    name: str
    type: Type
    shape: tuple[Expression | Type, ...] = ()
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a template or function; `reference` means `&`."""

    name: str
    type: Type
    shape: tuple[Expression | Type, ...] = ()
    reference: bool = False
    constant: bool = False
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Function:
    """A function; the result type `void` is a `PlainType`."""

    name: str
    result: Type
    parameters: tuple[Parameter, ...]
    body: Block
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class ChannelPriority:
    """`chan priority a, b[0] < default < c`: the lowest level first; `default` is a `Name`."""

    levels: tuple[tuple[Expression, ...], ...]
    span: Span = field(default=NOWHERE, compare=False, repr=False)


Declaration = Variable | TypeDefinition | Function | ChannelPriority


# Statements


@dataclass(frozen=True, slots=True)
class Block:
    """`{ declarations statements }`."""

    declarations: tuple[Variable | TypeDefinition, ...]
    statements: tuple[Statement, ...]
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Evaluate:
    """An expression evaluated for its side effects."""

    value: Expression
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class For:
    """`for (begin; condition; after) body`; each of the three is optional, and commas separate several."""

    begin: tuple[Expression, ...]
    condition: Expression | None
    after: tuple[Expression, ...]
    body: Statement
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class ForEach:
    """`for (name : type) body`."""

    name: str
    type: Type
    body: Statement
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class While:
    """`while (condition) body`, or `do body while (condition)` if `body_first`."""

    condition: Expression
    body: Statement
    body_first: bool = False
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class If:
    """`if (condition) then else otherwise`."""

    condition: Expression
    then: Statement
    otherwise: Statement | None = None
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Return:
    """`return value;`."""

    value: Expression | None = None
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Nothing:
    """`;`."""

    span: Span = field(default=NOWHERE, compare=False, repr=False)


Statement = Block | Evaluate | For | ForEach | While | If | Return | Nothing


# Templates


@dataclass(frozen=True, slots=True)
class Location:
    """A location; edges refer to its `key`, and `name` is empty if it has none."""

    key: str
    name: str = ""
    invariant: Expression | None = None
    kind: Literal["normal", "urgent", "committed"] = "normal"
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Branchpoint:
    """A point where an edge splits into several branches; probability weights are ignored."""

    key: str
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Select:
    """`name : type`."""

    name: str
    type: Type
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Sync:
    """`channel!` or `channel?`."""

    channel: Expression
    direction: Literal["!", "?"]
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Edge:
    """An edge; `source` and `target` are keys of locations or branchpoints."""

    source: str
    target: str
    select: tuple[Select, ...] = ()
    guard: Expression | None = None
    sync: Sync | None = None
    update: tuple[Expression, ...] = ()
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Template:
    """A template; `initial` is the key of a location, or None if missing."""

    name: str
    parameters: tuple[Parameter, ...]
    declarations: tuple[Declaration, ...]
    locations: tuple[Location, ...]
    branchpoints: tuple[Branchpoint, ...]
    initial: str | None
    edges: tuple[Edge, ...]
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Instantiation:
    """`name(parameters) = template(arguments);`."""

    name: str
    parameters: tuple[Parameter, ...]
    template: str
    arguments: tuple[Expression, ...]
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class ProcessName:
    """A name on the system line."""

    name: str
    span: Span = field(default=NOWHERE, compare=False, repr=False)


# Queries


@dataclass(frozen=True, slots=True)
class PathQuery:
    """`A[] p`, `E<> p`, `E[] p`, `A<> p`."""

    quantifier: Literal["A[]", "E<>", "E[]", "A<>"]
    condition: Expression
    text: str
    comment: str = ""
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class LeadsToQuery:
    """`cause --> effect`."""

    cause: Expression
    effect: Expression
    text: str
    comment: str = ""
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class ExtremeQuery:
    """`sup{condition}: a, b`, `inf` or `bounds`, which means both; without braces the condition is None."""

    extreme: Literal["sup", "inf", "bounds"]
    condition: Expression | None
    values: tuple[Expression, ...]
    text: str
    comment: str = ""
    span: Span = field(default=NOWHERE, compare=False, repr=False)


Query = PathQuery | LeadsToQuery | ExtremeQuery


@dataclass(frozen=True, slots=True)
class System:
    """A whole model; `processes` has the groups of the system line, lowest priority first.

    `declarations` are the global declarations; `system_declarations` are the variables, types and functions
    declared in the system section. `skipped` has the texts of unsupported (statistical, game or hybrid)
    queries.
    """

    declarations: tuple[Declaration, ...]
    templates: tuple[Template, ...]
    instantiations: tuple[Instantiation, ...]
    system_declarations: tuple[Declaration, ...]
    processes: tuple[tuple[ProcessName, ...], ...]
    queries: tuple[Query, ...]
    skipped: tuple[str, ...] = ()
    span: Span = field(default=NOWHERE, compare=False, repr=False)
