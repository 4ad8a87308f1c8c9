"""The syntax of UPPAAL models, as parsed: names are unresolved and expressions untyped.

The alternative spellings `&&`, `||`, `!` and `:=` are normalised to `and`, `or`, `not` and `=`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from veristream.source import Node

# Expressions

UnaryOp = Literal["-", "+", "not"]
Arithmetic = Literal["+", "-", "*", "/", "%", "**", "&", "|", "^", "<<", ">>", "<?", ">?"]
Comparison = Literal["==", "!=", "<", "<=", ">", ">="]
BinaryOp = Arithmetic | Comparison | Literal["and", "or", "imply"]
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


# Declarations


@dataclass(frozen=True, slots=True)
class InitialList(Node):
    """`{ 1, 2 }` or `{ field: 1, 2 }`; the name is None if omitted."""

    items: tuple[tuple[str | None, Initial], ...]


Initial = Expression | InitialList


@dataclass(frozen=True, slots=True)
class Variable(Node):
    """One declared name: a variable, constant, clock or channel.

    `shape` has one entry per dimension: its size, or its index type.
    """

    name: str
    type: Type
    shape: tuple[Expression | Type, ...] = ()
    initial: Initial | None = None
    constant: bool = False
    meta: bool = False


@dataclass(frozen=True, slots=True)
class TypeDefinition(Node):
    """`typedef type name shape`."""

    name: str
    type: Type
    shape: tuple[Expression | Type, ...] = ()


@dataclass(frozen=True, slots=True)
class Parameter(Node):
    """A parameter of a template or function; `reference` means `&`."""

    name: str
    type: Type
    shape: tuple[Expression | Type, ...] = ()
    reference: bool = False
    constant: bool = False


@dataclass(frozen=True, slots=True)
class Function(Node):
    """A function; the result type `void` is a `PlainType`."""

    name: str
    result: Type
    parameters: tuple[Parameter, ...]
    body: Block


@dataclass(frozen=True, slots=True)
class ChannelPriority(Node):
    """`chan priority a, b[0] < default < c`: the lowest level first; `default` is a `Name`."""

    levels: tuple[tuple[Expression, ...], ...]


@dataclass(frozen=True, slots=True)
class Hook(Node):
    """`before_update { update }` or `after_update { update }`."""

    when: Literal["before", "after"]
    update: tuple[Expression, ...]


Declaration = Variable | TypeDefinition | Function | ChannelPriority | Hook


# Statements


@dataclass(frozen=True, slots=True)
class Block(Node):
    """`{ declarations statements }`."""

    declarations: tuple[Variable | TypeDefinition, ...]
    statements: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class Evaluate(Node):
    """An expression evaluated for its side effects."""

    value: Expression


@dataclass(frozen=True, slots=True)
class For(Node):
    """`for (begin; condition; after) body`; each of the three is optional, and commas separate several."""

    begin: tuple[Expression, ...]
    condition: Expression | None
    after: tuple[Expression, ...]
    body: Statement


@dataclass(frozen=True, slots=True)
class ForEach(Node):
    """`for (name : type) body`."""

    name: str
    type: Type
    body: Statement


@dataclass(frozen=True, slots=True)
class While(Node):
    """`while (condition) body`, or `do body while (condition)` if `body_first`."""

    condition: Expression
    body: Statement
    body_first: bool = False


@dataclass(frozen=True, slots=True)
class If(Node):
    """`if (condition) then else otherwise`."""

    condition: Expression
    then: Statement
    otherwise: Statement | None = None


@dataclass(frozen=True, slots=True)
class Return(Node):
    """`return value;`."""

    value: Expression | None = None


@dataclass(frozen=True, slots=True)
class Nothing(Node):
    """`;`."""


Statement = Block | Evaluate | For | ForEach | While | If | Return | Nothing


# Templates


@dataclass(frozen=True, slots=True)
class Location(Node):
    """A location; edges refer to its `key`, and `name` is empty if it has none."""

    key: str
    name: str = ""
    invariant: Expression | None = None
    kind: Literal["normal", "urgent", "committed"] = "normal"


@dataclass(frozen=True, slots=True)
class Branchpoint(Node):
    """A point where an edge splits into several branches; probability weights are ignored."""

    key: str


@dataclass(frozen=True, slots=True)
class Select(Node):
    """`name : type`."""

    name: str
    type: Type


@dataclass(frozen=True, slots=True)
class Sync(Node):
    """`channel!` or `channel?`."""

    channel: Expression
    direction: Literal["!", "?"]


@dataclass(frozen=True, slots=True)
class Edge(Node):
    """An edge; `source` and `target` are keys of locations or branchpoints."""

    source: str
    target: str
    select: tuple[Select, ...] = ()
    guard: Expression | None = None
    sync: Sync | None = None
    update: tuple[Expression, ...] = ()


@dataclass(frozen=True, slots=True)
class Template(Node):
    """A template; `initial` is the key of a location, or None if missing."""

    name: str
    parameters: tuple[Parameter, ...]
    declarations: tuple[Declaration, ...]
    locations: tuple[Location, ...]
    branchpoints: tuple[Branchpoint, ...]
    initial: str | None
    edges: tuple[Edge, ...]


@dataclass(frozen=True, slots=True)
class Instantiation(Node):
    """`name(parameters) = template(arguments);`."""

    name: str
    parameters: tuple[Parameter, ...]
    template: str
    arguments: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class ProcessName(Node):
    """A name on the system line."""

    name: str


# Queries


@dataclass(frozen=True, slots=True)
class PathQuery(Node):
    """`A[] p`, `E<> p`, `E[] p`, `A<> p`."""

    quantifier: Literal["A[]", "E<>", "E[]", "A<>"]
    condition: Expression
    text: str
    comment: str = ""


@dataclass(frozen=True, slots=True)
class LeadsToQuery(Node):
    """`cause --> effect`."""

    cause: Expression
    effect: Expression
    text: str
    comment: str = ""


@dataclass(frozen=True, slots=True)
class ExtremeQuery(Node):
    """`sup{condition}: a, b`, `inf` or `bounds`, which means both; without braces the condition is None."""

    extreme: Literal["sup", "inf", "bounds"]
    condition: Expression | None
    values: tuple[Expression, ...]
    text: str
    comment: str = ""


@dataclass(frozen=True, slots=True)
class UnreadQuery(Node):
    """A query that is wrong or unsupported, and why; the span is what the message is about."""

    text: str
    message: str
    hint: str = ""


Query = PathQuery | LeadsToQuery | ExtremeQuery | UnreadQuery


@dataclass(frozen=True, slots=True)
class System(Node):
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
