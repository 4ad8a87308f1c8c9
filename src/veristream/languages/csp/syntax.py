"""The resolved syntax of CSP#: the result of reading a model and the input of lowering it.

`#include`, `#define`, macros and `call`, `enum` and indexed conditions have been expanded. An expression
distinguishes global variables from names that a process binds (its parameters, the fields of an input,
an index). No bound name hides another: if a field of an input is already bound, the input matches its
value instead of binding it, as in PAT. An array that is passed or sent is expanded into its elements: a
parameter `x` of three elements is three parameters `x[0]`, `x[1]` and `x[2]`.

Equality ignores spans: two processes are equal if PAT would print them alike.
"""

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


@dataclass(frozen=True, slots=True)
class Pick(Node):
    """`x[i]` of an array that is a parameter or was received: one of its values."""

    values: tuple[Expr, ...]
    index: Expr


Expr = Number | Global | Bound | Unary | Binary | Query | Pick


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


# --- Events -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Event(Node):
    """`name.e1.e2`."""

    name: str
    arguments: tuple[Expr, ...] = ()


@dataclass(frozen=True, slots=True)
class Domain(Node):
    """The values of an index: `{low..high}` or `{a, b, c}`."""

    low: Expr | None = None
    high: Expr | None = None
    values: tuple[Expr, ...] = ()


@dataclass(frozen=True, slots=True)
class Index:
    """`x:{...}` before an `@`."""

    name: str
    domain: Domain


@dataclass(frozen=True, slots=True)
class Events:
    """An event in an alphabet or a hidden set, or one event for each value of the indices.

    The bare name of a channel denotes only the event without arguments, not all events of the channel.
    """

    event: Event
    indices: tuple[Index, ...] = ()


# --- Processes --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Stop(Node):
    """The process without any step."""


@dataclass(frozen=True, slots=True)
class Skip(Node):
    """The process that terminates."""


@dataclass(frozen=True, slots=True)
class Ref(Node):
    """A reference to a defined process, with arguments."""

    name: str
    arguments: tuple[Expr, ...] = ()


@dataclass(frozen=True, slots=True)
class Prefix(Node):
    """`e.i{program} -> then`; `event` is None for tau.

    `program` is None if there is none: an event with a program, even an empty one, never synchronises.
    """

    event: Event | None
    program: Program | None
    then: Process


@dataclass(frozen=True, slots=True)
class Output(Node):
    """`c[i]!e1.e2{program} -> then`."""

    channel: str
    indices: tuple[Expr, ...]
    values: tuple[Expr, ...]
    program: Program | None
    then: Process


@dataclass(frozen=True, slots=True)
class Binder(Node):
    """A field of an input that binds the received value to a name."""

    name: str


@dataclass(frozen=True, slots=True)
class Input(Node):
    """`c[i]?[condition]x.1{program} -> then`; a field that is an expression must equal the message's."""

    channel: str
    indices: tuple[Expr, ...]
    fields: tuple[Binder | Expr, ...]
    condition: Expr | None
    program: Program | None
    then: Process


ChoiceKind = Literal["general", "external", "internal"]


@dataclass(frozen=True, slots=True)
class Choice(Node):
    """`P [] Q` (general), `P [*] Q` (external), `P <> Q` (internal)."""

    kind: ChoiceKind
    branches: tuple[Process, ...]


@dataclass(frozen=True, slots=True)
class Guard(Node):
    """`[condition] P`; also `ifb`."""

    condition: Expr
    process: Process


@dataclass(frozen=True, slots=True)
class Conditional(Node):
    """`if (c) {P} else {Q}`, decided by a tau, or with `atomic` `ifa`, decided without a step.

    Without an `else`, `otherwise` is Skip.
    """

    condition: Expr
    then: Process
    otherwise: Process
    atomic: bool = False


@dataclass(frozen=True, slots=True)
class Case(Node):
    """`case {c1: P1 ... default: Q}`: a tau to the first branch with a true condition; `default` is Skip
    if it is omitted."""

    branches: tuple[tuple[Expr, Process], ...]
    default: Process


@dataclass(frozen=True, slots=True)
class Atomic(Node):
    """`atomic{P}`: its steps take priority over those of other processes."""

    process: Process


@dataclass(frozen=True, slots=True)
class Sequence(Node):
    """`P; Q`."""

    first: Process
    second: Process


@dataclass(frozen=True, slots=True)
class Parallel(Node):
    """`P || Q`, synchronised on the events in both alphabets, or with `interleave` `P ||| Q`."""

    interleave: bool
    branches: tuple[Process, ...]


Operator = Literal["general", "external", "internal", "interleave", "parallel", "sequence"]


@dataclass(frozen=True, slots=True)
class Replicated(Node):
    """`|||x:{0..N-1}; y:{...} @ P`: a branch for each value of the indices, the last varying fastest."""

    operator: Operator
    indices: tuple[Index, ...]
    body: Process


@dataclass(frozen=True, slots=True)
class Copies(Node):
    """`|||{n}@P`; `count` is None for `|||{..}@P`, any number of copies."""

    count: Expr | None
    body: Process


@dataclass(frozen=True, slots=True)
class Interrupt(Node):
    """`P interrupt Q`."""

    process: Process
    by: Process


@dataclass(frozen=True, slots=True)
class Hide(Node):
    """`P \\ {a, b.1}`."""

    process: Process
    events: tuple[Events, ...]


@dataclass(frozen=True, slots=True)
class Assert(Node):
    """`assert(c)`: Skip if the condition holds, otherwise a run-time error."""

    condition: Expr


Process = (
    Stop
    | Skip
    | Ref
    | Prefix
    | Output
    | Input
    | Choice
    | Guard
    | Conditional
    | Case
    | Atomic
    | Sequence
    | Parallel
    | Replicated
    | Copies
    | Interrupt
    | Hide
    | Assert
)


# --- Declarations -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Variable(Node):
    """`var x:{0..5} = 1;` or `var a[2][3] = [...];`, with `initial` in row-major order.

    `low` and `high` are None without a range; `boolean` is set if the initial values are truth values,
    `hidden` if it is declared with `hvar`.
    """

    name: str
    shape: tuple[int, ...] = ()
    initial: tuple[int, ...] = (0,)
    low: int | None = None
    high: int | None = None
    boolean: bool = False
    hidden: bool = False


@dataclass(frozen=True, slots=True)
class Channel(Node):
    """`channel c 3;`, `channel c[N] 0;`; capacity 0 is a rendezvous."""

    name: str
    capacity: int
    shape: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Parameter(Node):
    """A parameter of a process, with its range if one is declared."""

    name: str
    low: int | None = None
    high: int | None = None


@dataclass(frozen=True, slots=True)
class Definition(Node):
    """`P(i) = body;`, with its `#alphabet P {...};` if there is one."""

    name: str
    parameters: tuple[Parameter, ...]
    body: Process
    alphabet: tuple[Events, ...] | None = None


# --- Assertions -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Holds(Node):
    """In a formula: a condition on the global variables and channels."""

    condition: Expr


@dataclass(frozen=True, slots=True)
class Occurs(Node):
    """In a formula: the event that led to the state, as PAT prints it: `a.1`, `c!2.3`, `c?2.3`, `c.2`.

    `channel` is `!` or `?` for an event of a buffered channel, else empty.
    """

    name: str
    arguments: tuple[int, ...] = ()
    channel: Literal["", "!", "?"] = ""


@dataclass(frozen=True, slots=True)
class TemporalUnary(Node):
    """Negation, next, always or eventually."""

    op: Literal["!", "X", "[]", "<>"]
    operand: Formula


@dataclass(frozen=True, slots=True)
class TemporalBinary(Node):
    """A connective, until or release; `R` is also written `V`."""

    op: Literal["&&", "||", "->", "<->", "U", "R"]
    left: Formula
    right: Formula


Formula = Holds | Occurs | TemporalUnary | TemporalBinary


@dataclass(frozen=True, slots=True)
class Simple:
    """A claim that is a single keyword."""

    word: Literal["deadlockfree", "divergencefree", "deterministic", "nonterminating"]


@dataclass(frozen=True, slots=True)
class Reaches:
    """`reaches goal [with min(e)|max(e)]`."""

    condition: Expr
    direction: Literal["min", "max"] | None = None
    value: Expr | None = None


@dataclass(frozen=True, slots=True)
class Satisfies:
    """`|= formula`."""

    formula: Formula


@dataclass(frozen=True, slots=True)
class Refines:
    """`refines Q`, `refines<F> Q`, `refines<FD> Q`."""

    specification: Ref
    model: Literal["T", "F", "FD"]


Claim = Simple | Reaches | Satisfies | Refines


@dataclass(frozen=True, slots=True)
class Assertion(Node):
    """`#assert P() claim;`; `text` is the text between `#assert` and `;` with blanks collapsed."""

    process: Ref
    claim: Claim
    text: str


@dataclass(frozen=True, slots=True)
class Specification(Node):
    """A complete model: a file and all files it includes."""

    variables: tuple[Variable, ...]
    channels: tuple[Channel, ...]
    definitions: tuple[Definition, ...]
    assertions: tuple[Assertion, ...]
