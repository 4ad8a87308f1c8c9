"""Scopes, and the entities that names denote."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum as PythonEnum

from veristream.errors import ModelError, unknown
from veristream.ir import expr as ir
from veristream.languages.timed import syntax
from veristream.languages.timed.lower.types import Array, Dimension, Leaf, Range, Record, Type, has_clocks
from veristream.source import Span


class Home(PythonEnum):
    """Where data is stored."""

    STATE = "state"  # a variable, clock or channel of the network
    LOCAL = "local"  # a local variable of a function or an edge
    FIXED = "fixed"  # a constant struct or array, stored in a table


@dataclass(frozen=True, slots=True)
class Fixed:
    """A known number: a constant, a parameter, or the variable of an unrolled quantifier."""

    value: int
    type: Range


@dataclass(frozen=True, slots=True)
class Table:
    """The values of a constant's leaf, row by row."""

    leaf: Leaf
    values: tuple[int, ...]

    def at(self, indices: tuple[int, ...]) -> int | None:
        """Returns the value at the indices, or None if they are out of bounds."""
        position = 0
        for dimension, index in zip(self.leaf.dimensions, indices, strict=True):
            if not dimension.low <= index <= dimension.high:
                return None
            position = position * dimension.size + index - dimension.low
        return self.values[position]


@dataclass(frozen=True, slots=True)
class Ref:
    """Stored data or a part of it: its name in the IR, and the indices applied so far.

    `dimensions` are the dimensions of these indices. `tables` has the values of a constant, keyed by the
    names of its leaves.
    """

    name: str
    type: Type
    home: Home = Home.STATE
    indices: tuple[ir.Expr, ...] = ()
    dimensions: tuple[Dimension, ...] = ()
    padded: bool = False  # see `types.lay_out`
    writable: bool = True
    tables: Mapping[str, Table] = field(default_factory=dict, compare=False, repr=False)

    def at(self, index: ir.Expr) -> Ref:
        """Returns one element of an array."""
        assert isinstance(self.type, Array)
        return replace(
            self,
            type=self.type.element,
            indices=(*self.indices, index),
            dimensions=(*self.dimensions, self.type.dimension),
        )

    def part(self, name: str) -> Ref | None:
        """Returns a field of a struct, or None if there is no such field."""
        assert isinstance(self.type, Record)
        types = dict(self.type.fields)
        return replace(self, name=f"{self.name}.{name}", type=types[name]) if name in types else None


def stored(name: str, type_: Type, writable: bool = True) -> Ref:
    """Returns a reference to a variable, clock or channel of the network."""
    return Ref(name, type_, padded=not has_clocks(type_), writable=writable)


@dataclass(frozen=True, slots=True)
class TypeName:
    """A name for a type."""

    type: Type


@dataclass(frozen=True, slots=True, eq=False)
class FunctionName:
    """A declared function, and the scope of its declaration."""

    declaration: syntax.Function
    scope: Scope

    @property
    def full_name(self) -> str:
        """The name of the function in the IR."""
        return f"{self.scope.owner}{self.declaration.name}"


@dataclass(frozen=True, slots=True, eq=False)
class Process:
    """A component as seen by queries: its locations and declarations."""

    component: str
    locations: Mapping[str, str]  # named locations: name in the model -> name in the IR
    scope: Scope


@dataclass(frozen=True, slots=True)
class Family:
    """The processes of a template with free parameters, keyed by the parameter values."""

    name: str
    members: Mapping[tuple[int, ...], Process]


Entity = Fixed | Ref | TypeName | FunctionName | Process | Family


@dataclass(slots=True, eq=False)
class Scope:
    """The names of one block, and the enclosing block.

    The outermost scope has the evaluator of function calls in constants. Functions use constants, and a
    constant may call a function; passing the evaluator keeps this module independent of functions.
    """

    outer: Scope | None = None
    owner: str = ""  # prefix of the names in the IR: empty, or the component with a dot
    names: dict[str, Entity] = field(default_factory=dict)
    evaluate_call: Callable[[syntax.Call, Scope], int] | None = None

    def inner(self) -> Scope:
        """Returns a nested scope."""
        return Scope(self, self.owner)

    def declare(self, name: str, entity: Entity, span: Span) -> None:
        """Declares a name, which may hide one of an outer scope; raises ModelError for a duplicate."""
        if name in self.names:
            raise ModelError(f"`{name}` is declared twice", span, "rename one of them")
        self.names[name] = entity

    def bind(self, name: str, entity: Entity) -> Scope:
        """Returns a nested scope with one name."""
        return Scope(self, self.owner, {name: entity})

    def look_up(self, name: str) -> Entity | None:
        """Returns the entity that the name denotes, or None."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.names:
                return scope.names[name]
            scope = scope.outer
        return None

    def find(self, name: str, span: Span) -> Entity:
        """Returns the entity that the name denotes; raises ModelError if the name is unknown."""
        entity = self.look_up(name)
        if entity is None:
            raise unknown("name", name, self.known(), span, "declare it first")
        return entity

    def call(self, expr: syntax.Call) -> int:
        """Returns the result of a function call in a constant; raises ModelError if it is not constant."""
        scope = self
        while scope.outer is not None:
            scope = scope.outer
        assert scope.evaluate_call is not None
        return scope.evaluate_call(expr, self)

    def known(self) -> list[str]:
        """Returns all visible names, the innermost first."""
        return [*self.names, *(self.outer.known() if self.outer is not None else ())]


@dataclass(slots=True)
class LocalNames:
    """Unique names for local variables: in the IR an inner one must not hide an outer one."""

    used: set[str] = field(default_factory=set)

    def fresh(self, name: str) -> str:
        """Returns the name, with a number appended if it is taken."""
        candidate, number = name, 2
        while candidate in self.used:
            candidate, number = f"{name}_{number}", number + 1
        self.used.add(candidate)
        return candidate
