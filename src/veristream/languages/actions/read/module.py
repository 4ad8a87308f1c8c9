"""The declarations of a model as data."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field

from veristream.errors import suggest
from veristream.ir.network import Function
from veristream.languages.actions.read.parse import Node, Text
from veristream.languages.actions.read.types import Record, Scalar, Shape

PROPERTIES = ("always", "exists", "eventually", "leads_to", "transition")
DECORATORS = ("action", "terminal", *PROPERTIES)
WORDS = (
    *DECORATORS,
    *("constant", "Enum", "auto", "Record", "Role", "Int", "Maybe", "Set", "Seq", "Bag", "Map"),
    *("require", "any_of", "one_of", "after", "deadlock_free", "replace"),
)
"""The names that a model imports."""

BUILTINS = ("range", "len", "all", "any", "sum", "min", "max", "set")
"""The built-in Python functions that a model can call."""

RESERVED = frozenset(
    (
        *WORDS,
        *BUILTINS,
        *("bool", "int", "float", "str", "list", "dict", "tuple", "frozenset", "print", "abs", "sorted"),
        *("reversed", "enumerate", "zip", "map", "filter", "isinstance", "annotations", "environment"),
    )
)
"""The names that a model cannot redefine."""


@dataclass(frozen=True, slots=True)
class StateVariable:
    """A declared variable with its initial value."""

    name: str
    shape: Shape
    default: ast.expr | None
    node: ast.AnnAssign


@dataclass(frozen=True, slots=True)
class Routine:
    """A function of the model: an action, a property, or a function to call."""

    name: str
    node: ast.FunctionDef
    kind: str  # one of DECORATORS, or "function"
    role: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def full_name(self) -> str:
        """The name with the role as prefix, as shown in messages."""
        return self.name if self.role is None else f"{self.role}.{self.name}"


@dataclass(frozen=True, slots=True)
class RoleClass:
    """A role: its number of instances, its own state and its routines."""

    name: str
    count: int
    symmetric: bool
    state: tuple[StateVariable, ...]
    node: ast.ClassDef

    @property
    def scalar(self) -> Scalar:
        """The type of an instance."""
        return Scalar(0, self.count - 1, "role", self.name)


@dataclass(slots=True)
class Module:
    """The declarations of a model, and the functions that its compilation needs."""

    text: Text
    constants: dict[str, int] = field(default_factory=dict)
    enums: dict[str, tuple[str, ...]] = field(default_factory=dict)
    records: dict[str, Record] = field(default_factory=dict)
    defaults: dict[tuple[str, str], ast.expr] = field(default_factory=dict)  # of record fields
    roles: dict[str, RoleClass] = field(default_factory=dict)
    state: dict[str, StateVariable] = field(default_factory=dict)
    routines: dict[str, Routine] = field(default_factory=dict)
    methods: dict[tuple[str, str], Routine] = field(default_factory=dict)
    deadlock: list[tuple[str, ast.expr]] = field(default_factory=list)
    places: dict[str, ast.stmt] = field(default_factory=dict)  # where each name is declared
    called: set[str] = field(default_factory=set)  # the full names of called functions
    checks: dict[str, Function] = field(default_factory=dict)  # IR functions that check a range

    def similar(self, name: str, others: list[str] | None = None) -> str:
        """Returns a hint with the closest known name, or an empty string."""
        known = [*(others or []), *self.places, *WORDS, *BUILTINS]
        return suggest(name, [other for other in known if other != name])

    def enum(self, name: str) -> Scalar:
        """The type of an enum's members."""
        return Scalar(0, len(self.enums[name]) - 1, "enum", name)

    def check_local(self, name: str, node: Node) -> None:
        """Raises ModelError if a local name would shadow a declared or reserved one."""
        if name in self.places:
            raise self.text.error(node, f"{name} is already declared in the model", "use another name")
        if name in RESERVED or name == "self" or "__" in name:
            raise self.text.error(node, f"{name} is reserved", "use another name")
