"""The level of an expression: constant, of a state, of a step, or of a run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields
from enum import IntEnum
from typing import Any, Final

from veristream.languages.tla.scope import (
    Binding,
    ByName,
    Defined,
    Local,
    LocalOperator,
    Named,
    Scope,
    Variable,
)
from veristream.languages.tla.syntax import (
    Apply,
    Bound,
    Case,
    Choose,
    Fair,
    Filter,
    Function,
    If,
    Image,
    Instance,
    Junction,
    Lambda,
    Let,
    Operator,
    Prime,
    Quantifier,
    Square,
    Use,
)
from veristream.source import Node

TEMPORAL: Final = ("[]", "<>", "~>", "-+->")
SPECIAL: Final = ("=>", "\\cdot")
"""Operators that have no definition, and the level of their arguments."""
HIDDEN: Final = Local("hidden")
"""Stands for a bound identifier whose value is the same in all states."""


class Level(IntEnum):
    """What the value of an expression depends on."""

    CONSTANT = 0
    STATE = 1
    ACTION = 2
    TEMPORAL = 3


def children(node: Node) -> Iterator[Node]:
    """The nodes directly inside of a node."""
    for field in fields(node):
        yield from _nodes(getattr(node, field.name))


def _nodes(value: Any) -> Iterator[Node]:
    if isinstance(value, Node):
        yield value
    elif isinstance(value, tuple):
        for one in value:
            yield from _nodes(one)


def bound_names(node: Node) -> set[str]:
    """The identifiers that a node binds in what is inside of it."""
    match node:
        case Quantifier(bounds=bounds) | Image(bounds=bounds):
            return _names(bounds)
        case Function(bounds=bounds, name=name):
            return _names(bounds) | ({name} if name is not None else set())
        case Choose(bound=bound) | Filter(bound=bound):
            return set(bound.names)
        case Lambda(parameters=parameters):
            return set(parameters)
        case _:
            return set()


def _names(bounds: tuple[Bound, ...]) -> set[str]:
    return {name for bound in bounds for name in bound.names}


class Levels:
    """Computes levels; remembers those of definitions."""

    def __init__(self, resolve: Callable[[Use, Scope], Binding]) -> None:
        self._resolve = resolve
        self._known: dict[tuple[int, int], Level] = {}
        self._kept: list[object] = []  # so that no id is used again
        self._primed: dict[int, frozenset[str]] = {}
        self._entered: set[int] = set()
        self._branching: dict[tuple[int, int], bool] = {}

    def level(self, node: Node, scope: Scope) -> Level:
        match node:
            case Use():
                return self._use(node, scope)
            case Prime():
                return Level.ACTION
            case Square():
                return Level.ACTION
            case Fair():
                return Level.TEMPORAL
            case Let():
                return self._let(node, scope)
        names = bound_names(node)
        inner = scope.inside(dict.fromkeys(names, HIDDEN)) if names else scope
        return max((self.level(one, inner) for one in children(node)), default=Level.CONSTANT)

    def _let(self, node: Let, scope: Scope) -> Level:
        return self.level(node.body, self.with_definitions(node, scope))

    def with_definitions(self, node: Let, scope: Scope) -> Scope:
        """The scope in a LET."""
        inner = scope.inside({})
        for one in node.definitions:
            if isinstance(one, Operator):
                inner.names[one.name] = Defined(one, inner)
            elif isinstance(one, Instance) and one.name is not None:
                inner.names[one.name] = Named(one, inner)
        return inner

    def _use(self, node: Use, scope: Scope) -> Level:
        if node.name in TEMPORAL:
            return Level.TEMPORAL
        if node.name == "UNCHANGED":
            return Level.ACTION
        if node.name == "ENABLED":
            return Level.STATE
        of_arguments = max((self.level(one, scope) for one in node.arguments), default=Level.CONSTANT)
        if node.name in SPECIAL:
            return of_arguments
        return max(of_arguments, self.of_binding(self._resolve(node, scope)))

    def of_binding(self, binding: Binding) -> Level:
        match binding:
            case Variable():
                return Level.STATE
            case ByName(expression, scope):
                return self.level(expression, scope)
            case Defined(operator, scope):
                return self._definition(operator, scope)
            case _:
                return Level.CONSTANT

    def _definition(self, operator: Operator, scope: Scope) -> Level:
        key = id(operator), id(scope)
        if key not in self._known:
            self._known[key] = Level.CONSTANT  # while it is computed: of a recursive definition
            self._kept += (operator, scope)
            names: dict[str, Binding] = {
                one.name: HIDDEN if one.arity == 0 else LocalOperator("hidden")
                for one in operator.parameters
            }
            self._known[key] = self.level(operator.body, scope.inside(names))
        return self._known[key]

    def branches(self, node: Node, scope: Scope) -> bool:
        """Whether a disjunction or an existential quantifier decides the truth of an expression."""
        match node:
            case Junction("\\/", items):
                return len(items) > 1 or self.branches(items[0], scope)
            case Quantifier("\\E"):
                return True
            case Junction(items=items):
                return any(self.branches(one, scope) for one in items)
            case Quantifier(body=body):
                names = dict.fromkeys(bound_names(node), HIDDEN)
                return self.branches(body, scope.inside(names))
            case If(yes=yes, no=no):
                return self.branches(yes, scope) or self.branches(no, scope)
            case Case(arms, other):
                parts = [value for _, value in arms] + ([] if other is None else [other])
                return any(self.branches(one, scope) for one in parts)
            case Let(body=body):
                return self.branches(body, self.with_definitions(node, scope))
            case Use("=>", (_, conclusion)):
                return self.branches(conclusion, scope)
            case Apply():
                found = self.applied(node, scope)
                if found is None:
                    return False
                function, at = found
                if id(function) in self._entered:
                    return False  # of a recursive function
                self._entered.add(id(function))
                try:
                    hidden = dict.fromkeys(bound_names(function), HIDDEN)
                    return self.branches(function.value, at.inside(hidden))
                finally:
                    self._entered.discard(id(function))
            case Use() if node.name not in (*SPECIAL, *TEMPORAL, "UNCHANGED", "ENABLED"):
                return self._branches_in(self._resolve(node, scope))
            case _:
                return False

    def applied(self, node: Apply, scope: Scope) -> tuple[Function, Scope] | None:
        """The function that is applied, and its scope, if a definition without parameters has it."""
        if not isinstance(node.function, Use) or node.function.arguments:
            return None
        match self._resolve(node.function, scope):
            case Defined(Operator(body=Function() as function), at):
                names = [name for bound in function.bounds for name in bound.names]
                is_plain = not any(bound.of_tuple for bound in function.bounds)
                return (function, at) if is_plain and len(names) == len(node.arguments) else None
        return None

    def _branches_in(self, binding: Binding) -> bool:
        match binding:
            case ByName(expression, scope):
                return self.branches(expression, scope)
            case Defined(operator, scope):
                key = id(operator), id(scope)
                if key not in self._branching:
                    self._branching[key] = False  # while it is found out: of a recursive definition
                    self._kept += (operator, scope)
                    names = dict.fromkeys((one.name for one in operator.parameters), HIDDEN)
                    self._branching[key] = self.branches(operator.body, scope.inside(names))
                return self._branching[key]
            case _:
                return False

    def primed(self, operator: Operator, scope: Scope) -> frozenset[str]:
        """The parameters that an operator uses in another state: expressions must stand for them."""
        if id(operator) not in self._primed:
            self._primed[id(operator)] = frozenset()
            self._kept.append(operator)
            own = {one.name for one in operator.parameters}
            found = frozenset(self.moved(operator.body, own, scope)) if own else frozenset[str]()
            self._primed[id(operator)] = found
        return self._primed[id(operator)]

    def moved(self, node: Node, names: set[str], scope: Scope, inside: bool = False) -> set[str]:
        """Those names that are used in an expression for another state."""
        if isinstance(node, Use):
            moves = node.name in ("UNCHANGED", "ENABLED", *TEMPORAL)
            found = {node.name} & names if inside else set()
            binding = scope.find(node.name) if not node.prefix else self._resolve(node, scope)
            if isinstance(binding, Defined) and node.arguments:
                primed = self.primed(binding.operator, binding.scope)
                pairs = zip(binding.operator.parameters, node.arguments, strict=False)
                for parameter, argument in pairs:
                    into = inside or moves or parameter.name in primed
                    found |= self.moved(argument, names, scope, into)
                return found
            moves = moves or bool(node.prefix)
            parts: tuple[Node, ...] = (*node.arguments, *node.prefix)
            return found.union(*(self.moved(one, names, scope, inside or moves) for one in parts))
        inside = inside or isinstance(node, Prime | Square | Fair)
        return set[str]().union(*(self.moved(one, names, scope, inside) for one in children(node)))


def mentions(node: Node, name: str) -> bool:
    """Whether a name is used anywhere inside."""
    if isinstance(node, Use) and node.name == name:
        return True
    return any(mentions(one, name) for one in children(node))
