"""Expressions and statements of the IR.

Every value is a whole number; a truth value is 0 or 1, and any value but 0 counts as true. There is
no overflow: `verify` refuses an expression whose value might leave 64 bits, so Python's integers and
the kernel's agree on all the others.

An expression is evaluated in a state and in a scope of local names (selected values, received
fields, parameters, loop counters). It may *fault*: a division by zero, an index out of bounds, a
value that leaves its declared range. `and`, `or`, `implies` and `Conditional` evaluate only what
they need, so `i < n and a[i] > 0` is safe.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from veristream.source import NOWHERE, Span


@dataclass(frozen=True, slots=True)
class Type:
    """The whole numbers from `low` to `high`, both included; `enum` names the enum that shows them."""

    low: int
    high: int
    enum: str | None = None


BOOL = Type(0, 1, "bool")
INT = Type(-(2**31), 2**31 - 1)
"""The type of a local that was declared without one."""

UnaryOp = Literal["-", "not", "~"]
BinaryOp = Literal[
    "+",
    "-",
    "*",
    "div",  # towards zero, as C does
    "rem",  # the remainder that goes with div: the sign of the left side
    "mod",  # never negative: (0 - 1) mod 3 is 2; the right side must be positive, else a fault
    "min",
    "max",
    "&",
    "|",
    "^",
    "<<",  # of both shifts the right side must lie in 0..62, else a fault
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
class Load:
    """A state variable, by its full name (`Component.x` for a component's own); faults out of bounds."""

    variable: str
    indices: tuple[Expr, ...] = ()
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Local:
    """A name of the scope: selected, received, parameter, loop counter or local variable."""

    name: str
    index: Expr | None = None
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Unary:
    """`-x`, `not x` (0 or 1) or `~x`."""

    op: UnaryOp
    operand: Expr
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Binary:
    """Two operands, left evaluated first; comparisons and connectives give 0 or 1."""

    op: BinaryOp
    left: Expr
    right: Expr
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Conditional:
    """`condition ? then : otherwise`; only the chosen side is evaluated."""

    condition: Expr
    then: Expr
    otherwise: Expr
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Fold:
    """`all`, `any` or `sum` of the body for `name` from `low` to `high`, stopping early as `and` does."""

    op: FoldOp
    name: str
    low: int
    high: int
    body: Expr
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Call:
    """A function's result; in guards and properties only functions that assign no state may be called."""

    function: str
    arguments: tuple[Expr, ...]
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class AtLocation:
    """Whether the component is at the location; never true of an idle component."""

    component: str
    location: str
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class IsDone:
    """Whether the component is at a final location."""

    component: str
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class IsIdle:
    """Whether the component slot is idle: not started yet, joined or killed."""

    component: str
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Queue:
    """`len`, `empty` or `full` of a buffered channel; `indices` choose one of an array of channels."""

    op: QueueOp
    channel: str
    indices: tuple[Expr, ...] = ()
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Peek:
    """Part `part` of the message at `position` (0 is the oldest); faults past the end of the queue."""

    channel: str
    position: Expr
    part: int
    indices: tuple[Expr, ...] = ()
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Primed:
    """The operand in the state after the step; only in a `Transition` property, not nested."""

    operand: Expr
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class ClockRef:
    """A clock, or one of an array of clocks; faults out of bounds."""

    clock: str
    indices: tuple[Expr, ...] = ()
    span: Span = field(default=NOWHERE, compare=False, repr=False)


ClockOp = Literal["<", "<=", "==", ">=", ">"]


@dataclass(frozen=True, slots=True)
class ClockConstraint:
    """`left - right` compared with `bound`; without `right` the clock alone.

    Where `when` is given and does not hold, the constraint demands nothing, and its indices and bound
    are not evaluated.
    """

    left: ClockRef
    right: ClockRef | None
    op: ClockOp
    bound: Expr
    when: Expr | None = None
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class ClockTest:
    """Whether the clocks satisfy the constraint; only in properties of a timed network."""

    constraint: ClockConstraint
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class ClockValue:
    """What a clock shows; only as the value whose extreme a property of a timed network asks for."""

    clock: ClockRef
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Deadlocked:
    """Whether no action is possible, now or after any delay; only in properties of a timed network."""

    span: Span = field(default=NOWHERE, compare=False, repr=False)


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
class Assign:
    """Stores the value; faults when it leaves the target's range or the index its bounds."""

    target: Load | Local
    value: Expr
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Let:
    """Declares a local, an array where `size` is set (every element starts at `value`).

    It is known to the statements after it in the same block; no name is declared twice in one scope.
    """

    name: str
    type: Type
    value: Expr
    size: int | None = None
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class If:
    """One of two blocks."""

    condition: Expr
    then: Block
    otherwise: Block = ()
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class While:
    """Repeats the block; faults when it would begin for the `limit` + 1st time."""

    condition: Expr
    body: Block
    limit: int
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class For:
    """Runs the block with `name` from `low` to `high`; the counter cannot be assigned."""

    name: str
    low: int
    high: int
    body: Block
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Return:
    """Ends the function with a value; only in functions."""

    value: Expr
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Evaluate:
    """Evaluates a call for its effect."""

    value: Expr
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Check:
    """Faults with the message unless the condition holds."""

    condition: Expr
    message: str
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Reset:
    """Sets a clock to a value that is not negative; only in timed networks."""

    clock: ClockRef
    value: Expr
    span: Span = field(default=NOWHERE, compare=False, repr=False)


Statement = Assign | Let | If | While | For | Return | Evaluate | Check | Reset
Block = tuple[Statement, ...]
