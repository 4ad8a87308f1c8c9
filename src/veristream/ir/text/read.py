"""Reads the text form of a Network, which `printer` writes.

In addition to the parts of a Network, the text can define constants, structs (one variable per member)
and components with parameters (one component for each combination of values); the reader expands them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import reduce
from itertools import product
from math import prod
from typing import cast

from lark import Token

from veristream.errors import ModelError, suggest
from veristream.ir import network as net
from veristream.ir.expr import INT, Binary, Expr, Type
from veristream.ir.text.parse import name_of, parse
from veristream.ir.text.read_body import read_block, read_edge, read_location
from veristream.ir.text.read_expr import (
    instance_name,
    read_component,
    read_constant,
    read_expr,
    read_type,
    read_type_or_struct,
)
from veristream.ir.text.read_names import NO_CONSTANTS, Member, Names, Scope, Struct
from veristream.ir.text.read_property import read_property
from veristream.ir.text.read_symmetry import read_bag, read_symmetry
from veristream.ir.text.read_tree import Branch, Node, child, children, maybe, optional, span_of, token
from veristream.ir.text.spelling import BUILT_IN
from veristream.ir.verify import verify
from veristream.source import Source

_INSTANCES_MAX = 4096


@dataclass(frozen=True, slots=True)
class _Instance:
    """A component to read: its syntax tree, its name and the values of its parameters."""

    node: Node
    name: str
    constants: Mapping[str, int]


def read_network(source: Source, constants: Mapping[str, int] = NO_CONSTANTS) -> net.Network:
    """Reads and verifies a network; `constants` replace those of the same name."""
    network = _network(parse(source), _Around(source, constants, NO_CONSTANTS))
    verify(network)
    return network


@dataclass(frozen=True, slots=True)
class _Around:
    """The context of a network: its source, constants to replace, and constants it sees."""

    source: Source
    overrides: Mapping[str, int]
    visible: Mapping[str, int]


def _network(root: Node, around: _Around) -> net.Network:
    """Reads a network, or a network block inside another, without verifying it."""
    source = around.source
    names = _read_names(root, around)
    scope = Scope(names)
    variables = tuple(v for node in _all(root, "var") for v in _variables(node, scope))
    instances = [i for node in _all(root, "component") for i in _instances(node, scope)]
    own = {
        instance.name: tuple(
            variable
            for node in _all(instance.node, "var")
            for variable in _variables(node, _inside(instance, scope))
        )
        for instance in instances
    }
    every = [v.name for v in variables] + [v.name for part in own.values() for v in part]
    scope = Scope(replace(names, variables=frozenset(every)))
    return net.Network(
        name_of(token(root, 0)),
        tuple(names.enums.values()),
        variables,
        tuple(_channel(node, scope) for node in _all(root, "channel")),
        tuple(_clock(node, scope) for node in _all(root, "clock")),
        tuple(_function(node, scope) for node in _all(root, "function")),
        tuple(_component(instance, own[instance.name], scope) for instance in instances),
        tuple(read_property(node, scope, _specification) for node in _all(root, "property")),
        _terminal(root, scope),
        tuple(read_symmetry(node, scope) for node in _all(root, "symmetry")),
        tuple(read_bag(node, scope) for node in _all(root, "bag")),
        bool(_all(root, "timed")),
        "; ".join(json.loads(token(node, 0), strict=False) for node in _all(root, "remark")),
        span=span_of(source, token(root, 0)),
    )


def _specification(root: Node, scope: Scope) -> net.Network:
    """Reads a network in a property; it sees only the constants of the enclosing network."""
    return _network(root, _Around(scope.names.source, NO_CONSTANTS, scope.names.constants))


def _terminal(root: Node, scope: Scope) -> Expr | None:
    """Reads the `terminal` condition; several are joined with `or`."""
    conditions = [read_expr(child(node, 0), scope) for node in _all(root, "terminal")]
    return reduce(lambda a, b: Binary("or", a, b), conditions) if conditions else None


def _all(node: Node, kind: str) -> list[Node]:
    return [part for part in children(node) if part.data == kind]


def _inside(instance: _Instance, scope: Scope) -> Scope:
    return replace(scope, component=instance.name, constants=instance.constants)


def _declared_twice(name: str, source: Source, branch: Branch) -> ModelError:
    return ModelError(
        f"`{name}` is declared twice", span_of(source, branch), "give one of them another name"
    )


def _read_names(root: Node, around: _Around) -> Names:
    """Reads the names that declarations can refer to: enums, constants, structs and functions."""
    source = around.source
    enums: dict[str, net.Enumeration] = {}
    for node in _all(root, "enum"):
        name, *members = (name_of(part) for part in node.children if isinstance(part, Token))
        if name in enums:
            raise _declared_twice(name, source, token(node, 0))
        of_set = bool(_all(node, "enum_set"))
        lows = [read_constant(child(part, 0), Scope(Names(source, {}))) for part in _all(node, "enum_from")]
        low = lows[0] if lows else 0
        enums[name] = net.Enumeration(name, tuple(members), low, of_set, span=span_of(source, node))
    functions = {name_of(token(node, 0)) for node in _all(root, "function")}
    later = {name_of(cast(Token, child(node, 0).children[0])) for node in _all(root, "var")}
    names = Names(source, enums, functions=frozenset(functions), later=frozenset(later))
    names = replace(names, constants={**around.visible, **_constants(root, names, around)})
    for node in _all(root, "struct"):
        name = name_of(token(node, 0))
        if name in names.structs or name in enums:
            raise _declared_twice(name, source, token(node, 0))
        struct = _struct(name, node, Scope(names))
        names = replace(names, structs={**names.structs, name: struct})
    return names


def _constants(root: Node, names: Names, around: _Around) -> Mapping[str, int]:
    constants: dict[str, int] = {}
    overrides = around.overrides
    for node in _all(root, "const"):
        name = name_of(token(node, 0))
        if name in constants:
            raise _declared_twice(name, names.source, token(node, 0))
        if name in overrides:
            constants[name] = overrides[name]
        else:
            scope = Scope(replace(names, constants={**around.visible, **constants}))
            constants[name] = read_constant(child(node, 1), scope)
    for name in overrides:
        if name not in constants:
            declared = ", ".join(f"`{known}`" for known in constants)
            raise ModelError(
                f"the network has no constant `{name}`",
                span_of(names.source, token(root, 0)),
                suggest(name, list(constants), f"it has {declared or 'no constants'}"),
            )
    return constants


def _struct(name: str, node: Node, scope: Scope) -> Struct:
    members: list[Member] = []
    for part in children(node):
        member = name_of(token(part, 0))
        if any(other.name == member for other in members):
            raise _declared_twice(member, scope.names.source, token(part, 0))
        shape = _shape(child(part, 1), scope)
        members.append(Member(member, shape, read_type_or_struct(child(part, 2), scope)))
    return Struct(name, tuple(members))


def _shape(node: Node, scope: Scope) -> tuple[int, ...]:
    return tuple(read_constant(part, scope) for part in children(node))


def _variables(node: Node, scope: Scope) -> Iterator[net.Variable]:
    """Yields the declared variable, or one for each member of its struct."""
    name = ".".join(name_of(cast(Token, part)) for part in child(node, 0).children)
    if scope.component is not None:
        name = f"{scope.component}.{name}"
    shape = _shape(child(node, 1), scope)
    type_ = read_type_or_struct(child(node, 2), scope)
    for variable in _unfold(name, shape, type_, optional(node, 3), scope):
        yield replace(variable, span=span_of(scope.names.source, node))


def _unfold(
    name: str, shape: tuple[int, ...], type_: Type | Struct, initial: Node | None, scope: Scope
) -> Iterator[net.Variable]:
    if isinstance(type_, Type):
        yield net.Variable(name, type_, shape, _initial(shape, type_, initial, scope))
        return
    given: dict[str, Node] = {}
    if initial is not None:
        if initial.data != "record":
            raise ModelError(
                f"`{type_.name}` is a struct",
                span_of(scope.names.source, initial),
                "give its members values: `{ a: 1, b: 2 }`",
            )
        given = {name_of(token(part, 0)): child(part, 1) for part in children(initial)}
        known = [member.name for member in type_.members]
        for part in children(initial):
            member = name_of(token(part, 0))
            if member not in known:
                raise ModelError(
                    f"`{type_.name}` has no member `{member}`",
                    span_of(scope.names.source, part),
                    suggest(member, known, f"it has {', '.join(known)}"),
                )
    for member_ in type_.members:
        yield from _unfold(
            f"{name}.{member_.name}",
            shape + member_.shape,
            member_.type,
            given.get(member_.name),
            scope,
        )


def _initial(shape: tuple[int, ...], type_: Type, node: Node | None, scope: Scope) -> tuple[int, ...]:
    """Reads the initial values; a single value fills an array, the default is 0 or the lowest value."""
    if node is None:
        return (0 if type_.low <= 0 <= type_.high else type_.low,) * prod(shape)
    if node.data == "record":
        raise ModelError("only a struct has members", span_of(scope.names.source, node), "write one value")
    if node.data != "list":
        return (read_constant(node, scope),) * prod(shape)
    return tuple(_listed(shape, node, scope))


def _listed(shape: tuple[int, ...], node: Node, scope: Scope) -> Iterator[int]:
    """Yields the values of a nested list, row by row."""
    parts = children(node)
    nested = any(part.data == "list" for part in parts)
    wanted = prod(shape) if not nested else shape[0] if shape else 0
    if not shape or len(parts) != wanted:
        raise ModelError(
            f"expected {wanted} values, found {len(parts)}" if shape else "expected a single value",
            span_of(scope.names.source, node),
            "write one value for each element, or one value for all of them",
        )
    for part in parts:
        yield from _initial(shape[1:], INT, part, scope) if nested else (read_constant(part, scope),)


def _clock(node: Node, scope: Scope) -> net.Clock:
    fields = [name_of(part) for part in node.children if isinstance(part, Token)]
    name = ".".join([read_component(child(node, 0), scope), *fields])
    return net.Clock(name, _shape(child(node, -1), scope), span=span_of(scope.names.source, node))


def _priority(node: Node | None, scope: Scope) -> int:
    return 0 if node is None else read_constant(child(node, 0), scope)


def _channel(node: Node, scope: Scope) -> net.Channel:
    name, shape, body = name_of(token(node, 1)), _shape(child(node, 2), scope), child(node, 3)
    channel = net.Channel(
        name,
        net.ChannelKind(str(token(body, 0)) if body.data == "passing" else str(body.data)),
        shape=shape,
        urgent=maybe(node, 0) is not None,
        priority=_priority(optional(node, 4), scope),
        span=span_of(scope.names.source, node),
    )
    match body.data:
        case "passing":
            return replace(channel, fields=_fields(optional(body, 1), scope))
        case "buffer":
            return replace(
                channel,
                capacity=read_constant(child(body, 0), scope),
                fields=_fields(optional(body, 1), scope),
                overflow_faults=maybe(body, 2) is not None,
            )
        case _:
            vectors = tuple(
                tuple(read_component(part, scope) for part in children(vector)) for vector in children(body)
            )
            return replace(channel, vectors=vectors)


def _fields(node: Node | None, scope: Scope) -> tuple[Type, ...]:
    return () if node is None else tuple(read_type(part, scope) for part in children(node))


def _function(node: Node, scope: Scope) -> net.Function:
    written = token(node, 0)
    if str(written) in BUILT_IN:
        raise ModelError(
            f"`{written}` is built in", span_of(scope.names.source, written), "use another name"
        )
    parameters = tuple(
        net.Parameter(
            name_of(token(part, 0)),
            read_type(child(part, 1), scope),
            span=span_of(scope.names.source, part),
        )
        for part in _all(node, "parameter")
    )
    result, body = optional(node, -2), child(node, -1)
    return net.Function(
        name_of(written),
        parameters,
        INT if result is None else read_type(result, scope),
        read_block(body, scope.declare(*(parameter.name for parameter in parameters))),
        span=span_of(scope.names.source, written),
    )


def _instances(node: Node, scope: Scope) -> Iterator[_Instance]:
    """Yields the components of a declaration, one for each combination of parameters."""
    name, header = name_of(token(node, 1)), optional(node, 2)
    if header is None:
        yield _Instance(node, name, NO_CONSTANTS)
        return
    if header.data == "arguments":
        values = [read_constant(part, scope) for part in children(header)]
        yield _Instance(node, instance_name(name, values), NO_CONSTANTS)
        return
    parameters = [name_of(token(part, 0)) for part in children(header)]
    types = [read_type(child(part, 1), scope) for part in children(header)]
    count = prod(type_.high - type_.low + 1 for type_ in types)
    if count > _INSTANCES_MAX:
        raise ModelError(
            f"`{name}` expands to {count} components",
            span_of(scope.names.source, header),
            f"the limit is {_INSTANCES_MAX}; declare smaller ranges for the parameters",
        )
    for chosen in product(*(range(type_.low, type_.high + 1) for type_ in types)):
        constants = dict(zip(parameters, chosen, strict=True))
        yield _Instance(node, instance_name(name, chosen), constants)


def _component(instance: _Instance, variables: tuple[net.Variable, ...], scope: Scope) -> net.Component:
    node, inside = instance.node, _inside(instance, scope)
    locations: list[net.Location] = []
    initial: list[str] = []
    for part in _all(node, "location"):
        location, is_initial = read_location(part, inside)
        locations.append(location)
        if is_initial:
            initial.append(location.name)
    span = span_of(scope.names.source, token(node, 1))
    if len(initial) != 1:
        raise ModelError(
            f"component `{instance.name}` has {len(initial) or 'no'} initial location"
            + ("s" if initial else ""),
            span,
            "write `initial` after one location's name",
        )
    read = (read_edge(part, inside) for part in _all(node, "edge"))
    edges: tuple[net.Edge, ...] = tuple(edge for edge in read if edge is not None)
    is_idle = maybe(node, 0) is not None
    priority = _priority(optional(node, 3), inside)
    return net.Component(
        instance.name, tuple(locations), edges, initial[0], is_idle, variables, priority, span=span
    )
