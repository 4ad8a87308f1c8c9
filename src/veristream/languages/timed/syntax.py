"""The syntax of UPPAAL's models, as the reader leaves it: nothing is resolved, nothing is typed.

Names are as written. `&&`, `||`, `!`, `:=` and `imply` are brought to one spelling each.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from veristream.languages.timed.syntax_expr import (
    Assignment as Assignment,
)
from veristream.languages.timed.syntax_expr import (
    AssignOp as AssignOp,
)
from veristream.languages.timed.syntax_expr import (
    Binary as Binary,
)
from veristream.languages.timed.syntax_expr import (
    BinaryOp as BinaryOp,
)
from veristream.languages.timed.syntax_expr import (
    Call as Call,
)
from veristream.languages.timed.syntax_expr import (
    ChannelType as ChannelType,
)
from veristream.languages.timed.syntax_expr import (
    Deadlock as Deadlock,
)
from veristream.languages.timed.syntax_expr import (
    Expression as Expression,
)
from veristream.languages.timed.syntax_expr import (
    Increment as Increment,
)
from veristream.languages.timed.syntax_expr import (
    Index as Index,
)
from veristream.languages.timed.syntax_expr import (
    IntType as IntType,
)
from veristream.languages.timed.syntax_expr import (
    Member as Member,
)
from veristream.languages.timed.syntax_expr import (
    Name as Name,
)
from veristream.languages.timed.syntax_expr import (
    NamedType as NamedType,
)
from veristream.languages.timed.syntax_expr import (
    Number as Number,
)
from veristream.languages.timed.syntax_expr import (
    PlainType as PlainType,
)
from veristream.languages.timed.syntax_expr import (
    ProcessCall as ProcessCall,
)
from veristream.languages.timed.syntax_expr import (
    Quantified as Quantified,
)
from veristream.languages.timed.syntax_expr import (
    QuantifierOp as QuantifierOp,
)
from veristream.languages.timed.syntax_expr import (
    ScalarType as ScalarType,
)
from veristream.languages.timed.syntax_expr import (
    StructField as StructField,
)
from veristream.languages.timed.syntax_expr import (
    StructType as StructType,
)
from veristream.languages.timed.syntax_expr import (
    Ternary as Ternary,
)
from veristream.languages.timed.syntax_expr import (
    Type as Type,
)
from veristream.languages.timed.syntax_expr import (
    Unary as Unary,
)
from veristream.languages.timed.syntax_expr import (
    UnaryOp as UnaryOp,
)
from veristream.source import NOWHERE, Span

# Declarations


@dataclass(frozen=True, slots=True)
class InitialList:
    """`{ 1, 2 }` or `{ field: 1, 2 }`; a name where one is written."""

    items: tuple[tuple[str | None, Initial], ...]
    span: Span = field(default=NOWHERE, compare=False, repr=False)


Initial = Expression | InitialList


@dataclass(frozen=True, slots=True)
class Variable:
    """One declared name: a variable, constant, clock or channel.

    `shape` has one entry a dimension: its size, or the type that indexes it.
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
    """A parameter of a template or function; `reference` where `&` stands before its name."""

    name: str
    type: Type
    shape: tuple[Expression | Type, ...] = ()
    reference: bool = False
    constant: bool = False
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Function:
    """A function; `void` results are `PlainType`."""

    name: str
    result: Type
    parameters: tuple[Parameter, ...]
    body: Block
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class ChannelPriority:
    """`chan priority a, b[0] < default < c`: levels from the lowest; `default` is the Name so called."""

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
    """An expression for its effect."""

    value: Expression
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class For:
    """`for (begin; condition; after) body`; any of the three may be missing, commas join several."""

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
    """`while (condition) body`; with `body_first` `do body while (condition)`."""

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
    """A location; `key` is the id that edges refer to, `name` is empty where none is written."""

    key: str
    name: str = ""
    invariant: Expression | None = None
    kind: Literal["normal", "urgent", "committed"] = "normal"
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Branchpoint:
    """A point where an edge goes on along one of several; weights mean nothing here."""

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
    """An edge; ends are keys of locations or branchpoints."""

    source: str
    target: str
    select: tuple[Select, ...] = ()
    guard: Expression | None = None
    sync: Sync | None = None
    update: tuple[Expression, ...] = ()
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Template:
    """A template; `initial` is a key, None where it is missing."""

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
    """One name of the system line."""

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
    """`sup{condition}: a, b`, `inf{...}: ...`; `bounds` is both; without braces the condition is None."""

    extreme: Literal["sup", "inf", "bounds"]
    condition: Expression | None
    values: tuple[Expression, ...]
    text: str
    comment: str = ""
    span: Span = field(default=NOWHERE, compare=False, repr=False)


Query = PathQuery | LeadsToQuery | ExtremeQuery


@dataclass(frozen=True, slots=True)
class System:
    """A whole model; `processes` has the groups of the system line, from the lowest priority.

    `declarations` are the global ones, `system_declarations` those that stand beside the system line
    (variables, types and functions there; instantiations are apart). `skipped` has the texts of queries
    that are answered by simulation or by a game, and are therefore left out.
    """

    declarations: tuple[Declaration, ...]
    templates: tuple[Template, ...]
    instantiations: tuple[Instantiation, ...]
    system_declarations: tuple[Declaration, ...]
    processes: tuple[tuple[ProcessName, ...], ...]
    queries: tuple[Query, ...]
    skipped: tuple[str, ...] = ()
    span: Span = field(default=NOWHERE, compare=False, repr=False)
