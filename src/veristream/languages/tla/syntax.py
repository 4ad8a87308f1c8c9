"""The syntax of TLA+ modules, as parsed: names are unresolved.

Operators that are symbols have the name of the symbol's ASCII form; alternative spellings have one name.
A conjunction or disjunction has all of its items, whether it is written as a list or with infix symbols.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from veristream.source import Node

# Expressions


@dataclass(frozen=True, slots=True)
class Number(Node):
    """A natural number."""

    value: int


@dataclass(frozen=True, slots=True)
class Text(Node):
    """A string."""

    value: str


@dataclass(frozen=True, slots=True)
class Boolean(Node):
    """`TRUE` or `FALSE`."""

    value: bool


@dataclass(frozen=True, slots=True)
class Use(Node):
    """An identifier or operator with its arguments; `prefix` are the instances before it (`M(1)!`)."""

    name: str
    arguments: tuple[Expression, ...] = ()
    prefix: tuple[Use, ...] = ()


@dataclass(frozen=True, slots=True)
class Lambda(Node):
    """`LAMBDA x, y : body`, an argument of an operator."""

    parameters: tuple[str, ...]
    body: Expression


@dataclass(frozen=True, slots=True)
class Junction(Node):
    """A conjunction or disjunction."""

    op: Literal["/\\", "\\/"]
    items: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Bound(Node):
    """`x, y \\in S` or `<<x, y>> \\in S`; without a set if the quantifier is unbounded."""

    names: tuple[str, ...]
    of_tuple: bool
    set: Expression | None

    def groups(self, each: Sequence[str]) -> list[list[str]]:
        """What takes the parts of one element: all of them of a tuple, each by itself otherwise."""
        return [list(each)] if self.of_tuple else [[one] for one in each]


@dataclass(frozen=True, slots=True)
class Quantifier(Node):
    """`\\A` or `\\E` with its bounds."""

    op: Literal["\\A", "\\E"]
    bounds: tuple[Bound, ...]
    body: Expression


@dataclass(frozen=True, slots=True)
class Choose(Node):
    """`CHOOSE x \\in S : body`."""

    bound: Bound
    body: Expression


@dataclass(frozen=True, slots=True)
class SetOf(Node):
    """`{a, b}`."""

    items: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Filter(Node):
    """`{x \\in S : condition}`."""

    bound: Bound
    condition: Expression


@dataclass(frozen=True, slots=True)
class Image(Node):
    """`{value : x \\in S, y \\in T}`."""

    value: Expression
    bounds: tuple[Bound, ...]


@dataclass(frozen=True, slots=True)
class Function(Node):
    """`[x \\in S |-> value]`; with a name if the definition `f[x \\in S] == value` makes it recursive."""

    bounds: tuple[Bound, ...]
    value: Expression
    name: str | None = None


@dataclass(frozen=True, slots=True)
class FunctionSet(Node):
    """`[S -> T]`."""

    domain: Expression
    range: Expression


@dataclass(frozen=True, slots=True)
class Record(Node):
    """`[a |-> 1, b |-> 2]`."""

    fields: tuple[tuple[str, Expression], ...]


@dataclass(frozen=True, slots=True)
class RecordSet(Node):
    """`[a : S, b : T]`."""

    fields: tuple[tuple[str, Expression], ...]


@dataclass(frozen=True, slots=True)
class Tuple(Node):
    """`<<a, b>>`."""

    items: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Product(Node):
    """`S \\X T`."""

    items: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Apply(Node):
    """`f[i, j]`, also `r.field`."""

    function: Expression
    arguments: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Update(Node):
    """One update of an EXCEPT: the arguments at each level of the path, and the new value."""

    path: tuple[tuple[Expression, ...], ...]
    value: Expression


@dataclass(frozen=True, slots=True)
class Except(Node):
    """`[f EXCEPT ![i] = value]`."""

    base: Expression
    updates: tuple[Update, ...]


@dataclass(frozen=True, slots=True)
class Previous(Node):
    """`@` in an EXCEPT."""


@dataclass(frozen=True, slots=True)
class If(Node):
    """`IF condition THEN yes ELSE no`."""

    condition: Expression
    yes: Expression
    no: Expression


@dataclass(frozen=True, slots=True)
class Case(Node):
    """`CASE a -> x [] b -> y [] OTHER -> z`."""

    arms: tuple[tuple[Expression, Expression], ...]
    other: Expression | None


@dataclass(frozen=True, slots=True)
class Let(Node):
    """`LET definitions IN body`."""

    definitions: tuple[Definition, ...]
    body: Expression


@dataclass(frozen=True, slots=True)
class Prime(Node):
    """`x'`."""

    operand: Expression


@dataclass(frozen=True, slots=True)
class Square(Node):
    """`[A]_v`, or `<<A>>_v` if `angle`."""

    action: Expression
    subscript: Expression
    angle: bool


@dataclass(frozen=True, slots=True)
class Fair(Node):
    """`WF_v(A)` or `SF_v(A)`."""

    strong: bool
    subscript: Expression
    action: Expression


@dataclass(frozen=True, slots=True)
class Part(Node):
    """`Op!2!1`: a part of a definition's body, by its number; without numbers (`Op!:`) the whole body."""

    of: Use
    path: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Unsupported(Node):
    """An expression that has no meaning here; it is an error only where it is used."""

    what: str
    hint: str = ""


Expression = (
    Number | Text | Boolean | Use | Lambda | Junction | Quantifier | Choose | SetOf | Filter | Image
    | Function | FunctionSet | Record | RecordSet | Tuple | Product | Apply | Except | Previous | If | Case
    | Let | Prime | Square | Fair | Part | Unsupported
)  # fmt: skip

# Modules


@dataclass(frozen=True, slots=True)
class Parameter(Node):
    """A parameter of an operator; it is an operator itself if it takes arguments."""

    name: str
    arity: int = 0


@dataclass(frozen=True, slots=True)
class Operator(Node):
    """`Op(x, F(_)) == body`."""

    name: str
    parameters: tuple[Parameter, ...]
    body: Expression
    local: bool = False


@dataclass(frozen=True, slots=True)
class Instance(Node):
    """`INSTANCE module WITH a <- e`, with a name and parameters in `M(x) == INSTANCE ...`."""

    name: str | None
    parameters: tuple[Parameter, ...]
    module: str
    substitutions: tuple[tuple[str, Expression], ...]
    local: bool = False


@dataclass(frozen=True, slots=True)
class Recursive(Node):
    """`RECURSIVE f(_), g`: names that are used before they are defined."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Constants(Node):
    """`CONSTANT N, F(_)`."""

    declared: tuple[Parameter, ...]


@dataclass(frozen=True, slots=True)
class Variables(Node):
    """`VARIABLES x, y`."""

    declared: tuple[Parameter, ...]


@dataclass(frozen=True, slots=True)
class Assumption(Node):
    """`ASSUME condition`, maybe with a name."""

    condition: Expression
    name: str | None = None


Definition = Operator | Instance | Recursive
Unit = Definition | Constants | Variables | Assumption


@dataclass(frozen=True, slots=True)
class Module(Node):
    """A module: the modules that it extends, the modules inside it, and its units in order."""

    name: str
    extends: tuple[str, ...]
    units: tuple[Unit | Module, ...]
    extends_at: tuple[Node, ...] = field(default=(), compare=False)
