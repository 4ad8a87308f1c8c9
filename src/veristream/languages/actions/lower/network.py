"""Lowers a Python model to a Network: one component per role instance, and one for the other actions.

Every component has one location; an action is an edge from it to itself. The state of a role is an
array over its instances, so that an instance can access another one that is known only at run time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import PurePath

from veristream.errors import ModelError
from veristream.ir.expr import Block, Const, For, If, Let, Type
from veristream.ir.network import Component, Edge, Enumeration, Location, Network, Variable
from veristream.ir.verify import verify
from veristream.languages.actions.lower.choices import HERE, compile_action
from veristream.languages.actions.lower.initial import check_defaults, variables_of
from veristream.languages.actions.lower.properties import compile_properties, compile_terminal
from veristream.languages.actions.lower.symmetry import bags_of, symmetries_of
from veristream.languages.actions.lower.values import Plain
from veristream.languages.actions.read.declare import declare
from veristream.languages.actions.read.module import Module
from veristream.languages.actions.read.parse import Text, parse
from veristream.source import Source, Span


def read_model(source: Source, constants: Mapping[str, int] | None = None) -> Network:
    """Compiles and verifies a model; raises ModelError if it is invalid."""
    tree = parse(source)
    try:
        module = declare(tree, Text(source), constants or {})
        network = lower(module, PurePath(source.name).stem)
        verify(network)
    except RecursionError:
        raise ModelError(
            f"{source.name} is nested too deeply", hint="name parts of long expressions"
        ) from None
    return network


def lower(module: Module, name: str) -> Network:
    check_defaults(module)
    variables: list[Variable] = []
    for state in module.state.values():
        variables += variables_of(module, state, state.name, None)
    for role in module.roles.values():
        for state in role.state:
            variables += variables_of(module, state, f"{role.name}.{state.name}", role.count)
    components = _components(module)
    if not any(component.edges for component in components):
        raise ModelError(
            "the model has no actions",
            Span(module.text.source, 0, 1),
            "put @action before the functions that change the state",
        )
    properties, terminal = tuple(compile_properties(module)), compile_terminal(module)
    _check_called(module)
    return Network(
        name,
        enums=_enums(module, _shown_types(variables, components)),
        variables=tuple(variables),
        functions=tuple(module.checks.values()),
        components=components,
        properties=properties,
        terminal=terminal,
        symmetries=symmetries_of(module),
        bags=bags_of(module),
    )


def _components(module: Module) -> tuple[Component, ...]:
    result = []
    free = [routine for routine in module.routines.values() if routine.kind == "action"]
    for role in module.roles.values():
        methods = [
            r for (owner, _), r in module.methods.items() if owner == role.name and r.kind == "action"
        ]
        for number in range(role.count):
            instance = Plain(role.scalar, Const(number))
            edges = tuple(compile_action(module, method, instance) for method in methods)
            name = f"{role.name}({number})"
            result.append(_component(name, edges))
    if free:
        result.append(
            _component("environment", tuple(compile_action(module, routine, None) for routine in free))
        )
    return tuple(result)


def _component(name: str, edges: tuple[Edge, ...]) -> Component:
    return Component(name, (Location(HERE),), edges, HERE)


def _check_called(module: Module) -> None:
    """Raises ModelError for a function without a call: its @action is probably missing."""
    for routine in [*module.routines.values(), *module.methods.values()]:
        if routine.kind == "function" and routine.full_name not in module.called:
            raise module.text.error(
                routine.node,
                f"nothing calls {routine.name}",
                "put @action or another decorator before it, or remove it",
            )


def _shown_types(variables: list[Variable], components: tuple[Component, ...]) -> list[Type]:
    """Returns the types of the state variables and of the actions' locals."""
    blocks = [edge.update for component in components for edge in component.edges]
    return [
        *(variable.type for variable in variables),
        *(type_ for block in blocks for type_ in _lets(block)),
    ]


def _lets(block: Block) -> Iterator[Type]:
    for statement in block:
        match statement:
            case Let(type=type_):
                yield type_
            case If(then=then, otherwise=otherwise):
                yield from _lets(then)
                yield from _lets(otherwise)
            case For(body=body):
                yield from _lets(body)


def _enums(module: Module, types: list[Type]) -> tuple[Enumeration, ...]:
    """Returns the enums that display the types."""
    result = {name: Enumeration(name, members) for name, members in module.enums.items()}
    for role in module.roles.values():
        instances = tuple(f"{role.name}({number})" for number in range(role.count))
        result[f"{role.name}.id"] = Enumeration(f"{role.name}.id", instances)
    for type_ in types:
        name = type_.enum
        if name is not None and name != "bool" and name not in result:
            result[name] = _derived(name, result)
    return tuple(result.values())


def _derived(name: str, known: dict[str, Enumeration]) -> Enumeration:
    """Builds the enum of a Maybe or a set from its name, which `types` assigns."""
    base, _, kind = name.rpartition(".")
    if base in known:
        members, low = known[base].members, known[base].low
    elif base == "bool":
        members, low = ("False", "True"), 0
    elif base.startswith("int_"):
        low, high = (int(part.replace("m", "-")) for part in base.removeprefix("int_").split("_"))
        members = tuple(str(value) for value in range(low, high + 1))
    else:
        inner = _derived(base, known)
        members, low = inner.members, inner.low
    if kind == "set":
        return Enumeration(name, members, of_set=True)
    return Enumeration(name, ("None", *members), low - 1)
