"""What names stand for, and where they are known."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from enum import Enum as PythonEnum

from veristream.errors import ModelError
from veristream.ir import expr as ir
from veristream.languages.timed import syntax
from veristream.languages.timed.lower.types import Array, Dimension, Leaf, Range, Record, Type, has_clocks
from veristream.source import Span


class Home(PythonEnum):
    """Where data is kept."""

    STATE = "state"  # a variable, clock or channel of the network
    LOCAL = "local"  # a name of a function's or an edge's scope
    FIXED = "fixed"  # a constant with parts, kept in a table


@dataclass(frozen=True, slots=True)
class Fixed:
    """A number that is known: a constant, a parameter, a variable that is being unrolled."""

    value: int
    type: Range


@dataclass(frozen=True, slots=True)
class Table:
    """The numbers of a constant's leaf, row by row."""

    leaf: Leaf
    values: tuple[int, ...]

    def at(self, indices: tuple[int, ...]) -> int | None:
        """The number there, or None out of bounds."""
        position = 0
        for dimension, index in zip(self.leaf.dimensions, indices, strict=True):
            if not dimension.low <= index <= dimension.high:
                return None
            position = position * dimension.size + index - dimension.low
        return self.values[position]


@dataclass(frozen=True, slots=True)
class Ref:
    """Stored data or a part of it: the IR's name so far, and the indices given so far.

    `dimensions` are those that the indices belong to. `tables` has the numbers of a constant, by the names
    of its leaves.
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
        """One element of an array."""
        assert isinstance(self.type, Array)
        return replace(
            self,
            type=self.type.element,
            indices=(*self.indices, index),
            dimensions=(*self.dimensions, self.type.dimension),
        )

    def part(self, name: str) -> Ref | None:
        """A field of a struct, or None where it has none of that name."""
        assert isinstance(self.type, Record)
        types = dict(self.type.fields)
        return replace(self, name=f"{self.name}.{name}", type=types[name]) if name in types else None


def stored(name: str, type_: Type, writable: bool = True) -> Ref:
    """A variable, clock or channel of the network."""
    return Ref(name, type_, padded=not has_clocks(type_), writable=writable)


@dataclass(frozen=True, slots=True)
class TypeName:
    """A name for a type."""

    type: Type


@dataclass(frozen=True, slots=True, eq=False)
class FunctionName:
    """A function where it is declared; `owner` is empty or the component's name with a dot."""

    declaration: syntax.Function
    scope: Scope

    @property
    def full_name(self) -> str:
        """The IR's name of it."""
        return f"{self.scope.owner}{self.declaration.name}"


@dataclass(frozen=True, slots=True, eq=False)
class Process:
    """A component, as queries see it: its locations and what it declares."""

    component: str
    locations: Mapping[str, str]  # the IR's names of those that have one in the model
    scope: Scope


@dataclass(frozen=True, slots=True)
class Family:
    """The processes of a template with free parameters, by their values."""

    name: str
    members: Mapping[tuple[int, ...], Process]


Entity = Fixed | Ref | TypeName | FunctionName | Process | Family


@dataclass(slots=True, eq=False)
class Scope:
    """Names in one block, and the block around it."""

    outer: Scope | None = None
    owner: str = ""  # what the IR's names of its variables begin with
    names: dict[str, Entity] = field(default_factory=dict)

    def inner(self) -> Scope:
        """A scope within this one."""
        return Scope(self, self.owner)

    def declare(self, name: str, entity: Entity, span: Span) -> None:
        """One more name; it may hide one of an outer scope."""
        if name in self.names:
            raise ModelError(f"`{name}` is declared twice", span, "give one of them another name")
        self.names[name] = entity

    def bind(self, name: str, entity: Entity) -> Scope:
        """A scope within this one that knows one more name."""
        return Scope(self, self.owner, {name: entity})

    def look_up(self, name: str) -> Entity | None:
        """What the name stands for, or None."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.names:
                return scope.names[name]
            scope = scope.outer
        return None

    def find(self, name: str, span: Span) -> Entity:
        """What the name stands for; raises ModelError where nothing is called so."""
        entity = self.look_up(name)
        if entity is None:
            raise unknown("name", name, self.known(), span, "declare it first")
        return entity

    def known(self) -> list[str]:
        """All names, the nearest first."""
        return [*self.names, *(self.outer.known() if self.outer is not None else ())]


def unknown(kind: str, name: str, known: Iterable[str], span: Span, hint: str) -> ModelError:
    """The error for a name that nothing has, with the nearest that something has."""
    close = get_close_matches(name, list(known), n=1)
    return ModelError(f"unknown {kind} `{name}`", span, f"did you mean `{close[0]}`?" if close else hint)


@dataclass(slots=True)
class LocalNames:
    """Names for locals: an inner one never hides an outer one in the IR, so each is given once."""

    used: set[str] = field(default_factory=set)

    def fresh(self, name: str) -> str:
        """The name, or the name with a number where it is taken."""
        candidate, number = name, 2
        while candidate in self.used:
            candidate, number = f"{name}_{number}", number + 1
        self.used.add(candidate)
        return candidate
