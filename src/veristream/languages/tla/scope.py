"""What names mean: scopes of modules, instances and definitions.

A scope maps names to bindings. Each instance of a module is a scope of its own, in which its constants and
variables are bound to expressions of the scope that instantiates it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches

from veristream.errors import ModelError
from veristream.languages.tla.syntax import (
    Assumption,
    Constants,
    Expression,
    Instance,
    Module,
    Operator,
    Parameter,
    Recursive,
    Unit,
    Use,
    Variables,
)
from veristream.languages.tla.values.community import MODULES
from veristream.languages.tla.values.modules import PRIMITIVE, Native
from veristream.languages.tla.values.values import Value
from veristream.source import Span


@dataclass(frozen=True, slots=True, eq=False)
class Variable:
    """A variable of the specification, by its place in the state."""

    name: str
    place: int


@dataclass(frozen=True, slots=True, eq=False)
class Constant:
    """A value that the configuration gives."""

    value: Value


@dataclass(frozen=True, slots=True, eq=False)
class Undefined:
    """A constant without a value."""

    parameter: Parameter


@dataclass(frozen=True, slots=True, eq=False)
class Local:
    """A bound identifier: the name that it has in compiled code; `lazy` if it must be called."""

    code: str
    lazy: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class LocalOperator:
    """An operator that compiled code has as a function of two states and its arguments."""

    code: str


@dataclass(frozen=True, slots=True, eq=False)
class ByName:
    """An expression of another scope, which stands for a name."""

    expression: Expression
    scope: Scope


@dataclass(frozen=True, slots=True, eq=False)
class Defined:
    """A definition, and the scope that its body is in."""

    operator: Operator
    scope: Scope


@dataclass(frozen=True, slots=True, eq=False)
class Built:
    """An operator of a standard module."""

    name: str
    native: Native


@dataclass(frozen=True, slots=True, eq=False)
class Named:
    """`M(x) == INSTANCE ...`, and the scope that it is in."""

    instance: Instance
    scope: Scope


Binding = (
    Variable | Constant | Undefined | Local | LocalOperator | ByName | Defined | Built | Named
)  # fmt: skip


@dataclass(slots=True, eq=False)
class Scope:
    """Names with their bindings, inside of another scope."""

    names: dict[str, Binding]
    outer: Scope | None = None

    def find(self, name: str) -> Binding | None:
        scope: Scope | None = self
        while scope is not None:
            if name in scope.names:
                return scope.names[name]
            scope = scope.outer
        return None

    def inside(self, names: Mapping[str, Binding]) -> Scope:
        return Scope(dict(names), self)

    def known(self) -> set[str]:
        found = set(self.names)
        return found | self.outer.known() if self.outer is not None else found


def lookup(scope: Scope, name: str, span: Span) -> Binding:
    """What a name means; raises ModelError if nothing does."""
    binding = scope.find(name)
    if binding is None:
        close = get_close_matches(name, scope.known(), 1)
        hint = f"did you mean {close[0]}?" if close else "define it, or extend the module that has it"
        raise ModelError(f"{name} is not defined", span, hint)
    return binding


Load = Callable[[str, Span], Module | None]
"""Reads a module by its name; None if it is a standard module that has no text."""


class Linker:
    """Makes scopes of modules."""

    def __init__(
        self,
        load: Load,
        overrides: Mapping[str, Binding],
        replacements: Mapping[tuple[str | None, str], str],
    ) -> None:
        self._load = load
        self._overrides = overrides
        self._replacements = replacements
        self.variables: list[Variable] = []
        self.assumptions: list[tuple[Assumption, Scope]] = []
        self._root: Scope | None = None
        self._inner: dict[int, dict[str, Module]] = {}
        self._entered: dict[tuple[int, int, int], Scope] = {}
        self._kept: list[object] = []  # so that no id is used again

    def root(self, module: Module) -> Scope:
        """The scope of the module that is checked."""
        base = Scope({name: Built(name, native) for name, native in PRIMITIVE.items()})
        scope = Scope({}, base)
        self._root = scope
        self._fill(scope, module, {}, set(), {}, is_root=True)
        for (within, name), other in self._replacements.items():
            if within is None:
                scope.names[name] = ByName(Use(other), scope)
        return scope

    def _fill(
        self,
        scope: Scope,
        module: Module,
        substituted: Mapping[str, Binding],
        seen: set[str],
        inner: dict[str, Module],
        is_root: bool = False,
    ) -> None:
        """Adds the names of a module, and of those that it extends."""
        if module.name in seen:
            return
        seen.add(module.name)
        for at, name in enumerate(module.extends):
            span = module.extends_at[at].span if module.extends_at else module.span
            self._extend(scope, name, span, substituted, seen, inner, is_root)
        for unit in module.units:
            match unit:
                case Module():
                    inner[unit.name] = unit
                case _:
                    self._add(scope, unit, substituted, inner, is_root)
        for (within, name), other in self._replacements.items():
            # What a standard module defines is replaced everywhere.
            if within == module.name or (within is None and isinstance(scope.names.get(name), Built)):
                assert self._root is not None
                scope.names[name] = ByName(Use(other), self._root)

    def _extend(
        self,
        scope: Scope,
        name: str,
        span: Span,
        substituted: Mapping[str, Binding],
        seen: set[str],
        inner: dict[str, Module],
        is_root: bool,
    ) -> None:
        module = inner.get(name) or self._load(name, span)
        if module is not None:
            self._fill(scope, module, substituted, seen, inner, is_root)
            return
        for own, native in MODULES[name].items():
            scope.names[own] = Built(own, native)

    def _add(
        self,
        scope: Scope,
        unit: Unit,
        substituted: Mapping[str, Binding],
        inner: dict[str, Module],
        is_root: bool,
    ) -> None:
        match unit:
            case Constants(declared):
                for parameter in declared:
                    scope.names[parameter.name] = self._declared(parameter, substituted, is_root)
            case Variables(declared):
                for parameter in declared:
                    if is_root:
                        variable = Variable(parameter.name, len(self.variables))
                        self.variables.append(variable)
                        scope.names[parameter.name] = variable
                    else:
                        scope.names[parameter.name] = self._declared(parameter, substituted, is_root)
            case Operator():
                scope.names[unit.name] = Defined(unit, scope)
            case Instance(name=None):
                other = self.instantiate(unit, scope, scope, inner)
                scope.names.update(
                    (name, binding)
                    for name, binding in other.names.items()
                    if name not in scope.names or not isinstance(scope.names[name], Variable | Constant)
                )
            case Instance(name=str(name)):
                scope.names[name] = Named(unit, scope)
                self._inner[id(unit)] = inner
            case Assumption(name=name):
                if is_root:
                    self.assumptions.append((unit, scope))
                if name is not None:
                    scope.names[name] = Defined(Operator(name, (), unit.condition, span=unit.span), scope)
            case Recursive():
                pass

    def _declared(self, parameter: Parameter, substituted: Mapping[str, Binding], is_root: bool) -> Binding:
        if parameter.name in substituted:
            return substituted[parameter.name]
        if is_root and parameter.name in self._overrides:
            return self._overrides[parameter.name]
        return Undefined(parameter)

    def instantiate(
        self, instance: Instance, scope: Scope, at: Scope, inner: Mapping[str, Module] | None = None
    ) -> Scope:
        """The scope of an instance; its substitutions are expressions of `at`.

        What it does not substitute has its own name in the scope that instantiates it.
        """
        known = dict(inner if inner is not None else self._inner.get(id(instance), {}))
        module = known.get(instance.module) or self._load(instance.module, instance.span)
        if module is None:
            return Scope({name: Built(name, one) for name, one in MODULES[instance.module].items()}, scope)
        substituted: dict[str, Binding] = {}
        for name in self._parameters(module, known, set()):
            own = at.find(name)
            if own is not None:
                substituted[name] = own
        for name, expression in instance.substitutions:
            substituted[name] = ByName(expression, at)
        outer: Scope = scope
        while outer.outer is not None:
            outer = outer.outer
        own_scope = Scope({}, outer)
        self._fill(own_scope, module, substituted, set(), known)
        return own_scope

    def _parameters(self, module: Module, inner: Mapping[str, Module], seen: set[str]) -> Iterable[str]:
        """The names of the constants and variables of a module and of those that it extends."""
        if module.name in seen:
            return
        seen.add(module.name)
        for at, name in enumerate(module.extends):
            span = module.extends_at[at].span if module.extends_at else module.span
            extended = inner.get(name) or self._load(name, span)
            if extended is not None:
                yield from self._parameters(extended, inner, seen)
        for unit in module.units:
            if isinstance(unit, Constants | Variables):
                yield from (one.name for one in unit.declared)

    def resolve(self, use: Use, scope: Scope) -> Binding:
        """What a name means, also one behind instances (`M(1)!Op`)."""
        for component in use.prefix:
            binding = lookup(scope, component.name, component.span)
            while isinstance(binding, ByName) and isinstance(binding.expression, Use):
                binding = lookup(binding.scope, binding.expression.name, component.span)
            if not isinstance(binding, Named):
                raise ModelError(f"{component.name} is no instance of a module", component.span)
            scope = self._enter(binding, component, scope)
        return lookup(scope, use.name, use.span)

    def _enter(self, named: Named, component: Use, scope: Scope) -> Scope:
        instance = named.instance
        key = (
            id(instance),
            id(scope) if component.arguments else 0,
            id(component) if component.arguments else 0,
        )
        if key not in self._entered:
            check_count(
                instance.name or "", len(instance.parameters), len(component.arguments), component.span
            )
            at = named.scope
            if instance.parameters:
                at = named.scope.inside(
                    {
                        parameter.name: ByName(argument, scope)
                        for parameter, argument in zip(
                            instance.parameters, component.arguments, strict=True
                        )
                    }
                )
            self._entered[key] = self.instantiate(instance, named.scope, at)
            self._kept += (component, scope)
        return self._entered[key]


def check_count(name: str, takes: int, given: int, span: Span) -> None:
    """Raises ModelError for a wrong number of arguments."""
    if takes != given:
        arguments = "argument" if takes == 1 else "arguments"
        raise ModelError(f"{name} takes {takes} {arguments}, not {given}", span)
