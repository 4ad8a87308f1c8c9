"""Expressions and statements of the IR.

Every value is an integer; a truth value is 0 or 1, and any nonzero value is true. There is no overflow:
`verify` rejects an expression that might exceed 64 bits, so Python's integers and the kernel's agree.

An expression is evaluated in a state and in a scope of local names (selected values, received fields,
parameters, loop counters). It may *fault*: a division by zero, an index out of bounds, a value outside its
declared range. `and`, `or`, `implies` and `Conditional` short-circuit, so `i < n and a[i] > 0` is safe.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from veristream.source import NOWHERE, Node, Span


@dataclass(frozen=True, slots=True)
class Type:
    """The integers from `low` to `high`, both included; `enum` names the enum that displays them."""

    low: int
    high: int
    enum: str | None = None


BOOL = Type(0, 1, "bool")
INT = Type(-(2**31), 2**31 - 1)
"""The type of a local declared without a type."""

UnaryOp = Literal["-", "not", "~"]
BinaryOp = Literal[
    "+",
    "-",
    "*",
    "div",  # truncates towards zero, as in C
    "rem",  # the remainder of div: has the sign of the left operand
    "mod",  # never negative: (0 - 1) mod 3 is 2; a right operand that is not positive is a fault
    "min",
    "max",
    "&",
    "|",
    "^",
    "<<",  # for both shifts, a right operand outside 0..62 is a fault
    ">>",
    "==",
    "!=",
    "<",
    "<=",
    ">",
    ">=",
    "and",
    "or",
    "implies",
]
FoldOp = Literal["all", "any", "sum"]
QueueOp = Literal["len", "empty", "full"]


@dataclass(frozen=True, slots=True)
class Const:
    """A number."""

    value: int
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Load(Node):
    """A state variable by its full name (`Component.x` for a component's own); faults out of bounds."""

    variable: str
    indices: tuple[Expr, ...] = ()


@dataclass(frozen=True, slots=True)
class Local(Node):
    """A name in scope: a selected or received value, parameter, loop counter or local variable."""

    name: str
    index: Expr | None = None


@dataclass(frozen=True, slots=True)
class Unary(Node):
    """`-x`, `not x` (0 or 1) or `~x`."""

    op: UnaryOp
    operand: Expr


@dataclass(frozen=True, slots=True)
class Binary(Node):
    """A binary operation, the left operand evaluated first; comparisons and connectives are 0 or 1."""

    op: BinaryOp
    left: Expr
    right: Expr


@dataclass(frozen=True, slots=True)
class Conditional(Node):
    """`condition ? then : otherwise`; only the chosen branch is evaluated."""

    condition: Expr
    then: Expr
    otherwise: Expr


@dataclass(frozen=True, slots=True)
class Fold(Node):
    """`all`, `any` or `sum` of the body for `name` from `low` to `high`; `all` and `any` short-circuit."""

    op: FoldOp
    name: str
    low: int
    high: int
    body: Expr


@dataclass(frozen=True, slots=True)
class Call(Node):
    """A function call; guards and properties can call only functions that do not assign state."""

    function: str
    arguments: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class AtLocation(Node):
    """Tests whether the component is at the location; false for an idle component."""

    component: str
    location: str


@dataclass(frozen=True, slots=True)
class IsDone(Node):
    """Tests whether the component is at a final location."""

    component: str


@dataclass(frozen=True, slots=True)
class IsIdle(Node):
    """Tests whether the component slot is idle: not started, joined or killed."""

    component: str


@dataclass(frozen=True, slots=True)
class Queue(Node):
    """`len`, `empty` or `full` of a buffered channel; `indices` select from an array of channels."""

    op: QueueOp
    channel: str
    indices: tuple[Expr, ...] = ()


@dataclass(frozen=True, slots=True)
class Peek(Node):
    """Field `part` of the message at `position` (0 is the oldest); faults past the end of the queue."""

    channel: str
    position: Expr
    part: int
    indices: tuple[Expr, ...] = ()


@dataclass(frozen=True, slots=True)
class Primed(Node):
    """The operand in the state after the step; allowed only in a `Transition` property, not nested."""

    operand: Expr


@dataclass(frozen=True, slots=True)
class ClockRef(Node):
    """A clock, or an element of an array of clocks; faults out of bounds."""

    clock: str
    indices: tuple[Expr, ...] = ()


ClockOp = Literal["<", "<=", "==", ">=", ">"]


@dataclass(frozen=True, slots=True)
class ClockConstraint(Node):
    """Compares `left - right` with `bound`, or only `left` without `right`.

    If `when` is given and false, the constraint is true, and its indices and bound are not evaluated.
    """

    left: ClockRef
    right: ClockRef | None
    op: ClockOp
    bound: Expr
    when: Expr | None = None


@dataclass(frozen=True, slots=True)
class ClockTest(Node):
    """Tests whether the clocks satisfy the constraint; only in properties of a timed network."""

    constraint: ClockConstraint


@dataclass(frozen=True, slots=True)
class ClockValue(Node):
    """The value of a clock; allowed only as the value to optimise in a property of a timed network."""

    clock: ClockRef


@dataclass(frozen=True, slots=True)
class Deadlocked(Node):
    """Tests that no action is possible, now or after any delay; only in properties of a timed network."""


Expr = (
    Const
    | Load
    | Local
    | Unary
    | Binary
    | Conditional
    | Fold
    | Call
    | AtLocation
    | IsDone
    | IsIdle
    | Queue
    | Peek
    | Primed
    | ClockTest
    | ClockValue
    | Deadlocked
)

TRUE = Const(1)
FALSE = Const(0)


@dataclass(frozen=True, slots=True)
class Assign(Node):
    """Stores the value; faults if it is outside the target's range or an index is out of bounds."""

    target: Load | Local
    value: Expr


@dataclass(frozen=True, slots=True)
class Let(Node):
    """Declares a local, or an array if `size` is set; every element starts at `value`.

    It is visible to the following statements of the same block; a scope declares a name only once.
    """

    name: str
    type: Type
    value: Expr
    size: int | None = None


@dataclass(frozen=True, slots=True)
class If(Node):
    """Runs one of two blocks."""

    condition: Expr
    then: Block
    otherwise: Block = ()


@dataclass(frozen=True, slots=True)
class While(Node):
    """Repeats the block while the condition holds; faults after `limit` iterations."""

    condition: Expr
    body: Block
    limit: int


@dataclass(frozen=True, slots=True)
class For(Node):
    """Runs the block with `name` from `low` to `high`; the counter cannot be assigned."""

    name: str
    low: int
    high: int
    body: Block


@dataclass(frozen=True, slots=True)
class Return(Node):
    """Returns a value; allowed only in functions."""

    value: Expr


@dataclass(frozen=True, slots=True)
class Evaluate(Node):
    """Evaluates a call for its effect."""

    value: Expr


@dataclass(frozen=True, slots=True)
class Check(Node):
    """Faults with the message unless the condition holds."""

    condition: Expr
    message: str


@dataclass(frozen=True, slots=True)
class Reset(Node):
    """Sets a clock to a non-negative value; only in timed networks."""

    clock: ClockRef
    value: Expr


Statement = Assign | Let | If | While | For | Return | Evaluate | Check | Reset
Block = tuple[Statement, ...]
