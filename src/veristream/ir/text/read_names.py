"""The meaning of names while a network is read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from veristream.errors import ModelError, suggest
from veristream.ir.expr import Type
from veristream.ir.network import Enumeration
from veristream.source import Source, Span

NO_CONSTANTS: Mapping[str, int] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Struct:
    """A record type of the text form; in the network each member is a variable."""

    name: str
    members: tuple[Member, ...]


@dataclass(frozen=True, slots=True)
class Member:
    """A member of a struct; its dimensions follow those of the variable."""

    name: str
    shape: tuple[int, ...]
    type: Type | Struct


@dataclass(frozen=True, slots=True)
class Names:
    """The declarations of the network that have been read so far."""

    source: Source
    enums: Mapping[str, Enumeration] = field(default_factory=dict)
    constants: Mapping[str, int] = field(default_factory=dict)
    structs: Mapping[str, Struct] = field(default_factory=dict)
    variables: frozenset[str] = frozenset()
    functions: frozenset[str] = frozenset()
    later: frozenset[str] = frozenset()  # variables declared later, for error messages


@dataclass(frozen=True, slots=True)
class Scope:
    """The visible names: the network's, a component's own, and local ones."""

    names: Names
    component: str | None = None
    constants: Mapping[str, int] = field(
        default_factory=dict
    )  # a template's parameters, an unrolled counter
    locals: frozenset[str] = frozenset()

    def declare(self, *names: str) -> Scope:
        """Returns the scope with more local names."""
        return replace(self, locals=self.locals | set(names))

    def define(self, name: str, value: int) -> Scope:
        """Returns the scope with one more constant."""
        return replace(self, constants={**self.constants, name: value}, locals=self.locals - {name})


def find_variable(name: str, scope: Scope, outermost: bool) -> str | None:
    """Returns the full name of the state variable that the name denotes, or None."""
    if scope.component is not None and not outermost:
        own = f"{scope.component}.{name}"
        if own in scope.names.variables:
            return own
    return name if name in scope.names.variables else None


def find_constant(name: str, scope: Scope, span: Span) -> int | None:
    """Returns the value of a constant, parameter or enum member, or None."""
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
    """Returns the error for an unknown name; suggests the closest known one."""
    parts = sorted(v for v in scope.names.variables if v.startswith(name + "."))
    if parts:
        return ModelError(
            f"`{name}` has no value of its own",
            span,
            "use one of its members: " + ", ".join(f"`{part}`" for part in parts[:4]),
        )
    if name in scope.names.later and name not in scope.names.variables:
        return ModelError(f"expected a constant, found the variable `{name}`", span, "use a `const`")
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
