"""What names mean while a network is read, and the types they have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from veristream.errors import ModelError
from veristream.ir.expr import Type
from veristream.ir.network import Enumeration
from veristream.ir.text.read_tree import suggest
from veristream.source import Source, Span

NO_CONSTANTS: Mapping[str, int] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Struct:
    """A record type of the text form; the network knows only its members, one variable each."""

    name: str
    members: tuple[Member, ...]


@dataclass(frozen=True, slots=True)
class Member:
    """A part of a struct; its shape comes after that of the variable."""

    name: str
    shape: tuple[int, ...]
    type: Type | Struct


@dataclass(frozen=True, slots=True)
class Names:
    """What the network declares, as far as it has been read."""

    source: Source
    enums: Mapping[str, Enumeration] = field(default_factory=dict)
    constants: Mapping[str, int] = field(default_factory=dict)
    structs: Mapping[str, Struct] = field(default_factory=dict)
    variables: frozenset[str] = frozenset()
    functions: frozenset[str] = frozenset()
    later: frozenset[str] = frozenset()  # variables that will be declared, for the sake of errors


@dataclass(frozen=True, slots=True)
class Scope:
    """What is known at one place: the network's names, then a component's own, then local ones."""

    names: Names
    component: str | None = None
    constants: Mapping[str, int] = field(
        default_factory=dict
    )  # a template's parameters, an unrolled counter
    locals: frozenset[str] = frozenset()

    def declare(self, *names: str) -> Scope:
        """The scope with further local names."""
        return replace(self, locals=self.locals | set(names))

    def define(self, name: str, value: int) -> Scope:
        """The scope with a further constant."""
        return replace(self, constants={**self.constants, name: value}, locals=self.locals - {name})


def find_variable(name: str, scope: Scope, outermost: bool) -> str | None:
    """The full name of the state variable that the name means here."""
    if scope.component is not None and not outermost:
        own = f"{scope.component}.{name}"
        if own in scope.names.variables:
            return own
    return name if name in scope.names.variables else None


def find_constant(name: str, scope: Scope, span: Span) -> int | None:
    """The value of a constant, parameter or enum member of that name."""
    for constants in (scope.constants, scope.names.constants):
        if name in constants:
            return constants[name]
    enum, _, member = name.rpartition(".")
    plain = [e for e in scope.names.enums.values() if not e.of_set]
    owners = [e for e in plain if enum in ("", e.name) and member in e.members]
    values = {owner.low + owner.members.index(member) for owner in owners}
    if len(values) > 1:
        raise ModelError(
            f"`{name}` is a member of several enums",
            span,
            "write " + " or ".join(f"`{owner.name}.{name}`" for owner in owners),
        )
    return values.pop() if values else None


def unknown_name(name: str, scope: Scope, span: Span) -> ModelError:
    """The error for a name that means nothing here, with the nearest that does."""
    parts = sorted(v for v in scope.names.variables if v.startswith(name + "."))
    if parts:
        return ModelError(
            f"`{name}` has parts and no value of its own",
            span,
            "name a part: " + ", ".join(f"`{part}`" for part in parts[:4]),
        )
    if name in scope.names.later and name not in scope.names.variables:
        return ModelError(f"`{name}` is a variable; a constant is expected here", span, "use a `const`")
    return ModelError(
        f"unknown name `{name}`",
        span,
        suggest(name, list(_known(scope)), "declare it with `var`, `const` or `enum`"),
    )


def _known(scope: Scope) -> Iterator[str]:
    yield from scope.locals
    yield from scope.constants
    yield from scope.names.constants
    own = "" if scope.component is None else f"{scope.component}."
    for variable in scope.names.variables:
        yield variable
        if own and variable.startswith(own):
            yield variable.removeprefix(own)
    for enum in scope.names.enums.values():
        yield from enum.members
