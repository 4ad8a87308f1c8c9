"""Checks that a Network is well-formed, so that engines need not check again.

The networks of all languages pass these checks. A mistake that depends on the run (an index out of bounds,
a value outside its range) is a fault at run time; a mistake in every run is an error here.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise
from math import factorial, prod
from typing import assert_never

from veristream.errors import ModelError, unknown
from veristream.ir import network as net
from veristream.ir import property as prop
from veristream.ir.actions import count_ways
from veristream.ir.bounds import check_overflow
from veristream.ir.expr import Assign, Block, Call, ClockValue, Expr, Load, Reset
from veristream.ir.verify_scope import (
    Declared,
    Known,
    Place,
    check_block,
    check_clock,
    check_constraint,
    check_expr,
    check_name,
    check_range,
    check_type,
    check_value,
    find_channel,
    find_component,
)
from veristream.ir.verify_timed import check_timed
from veristream.ir.walk import walk
from veristream.source import NOWHERE, Span

ACTION_PROPOSITIONS_MAX = 31
STATE_PROPOSITIONS_MAX = 60
ELEMENTS_MAX = 2**20
PERMUTATIONS_MAX = 5040
WAYS_MAX = 4096
"""In how many ways a component can take part in one broadcast or barrier: each takes code of its own."""


def verify(network: net.Network) -> None:
    """Raises ModelError at the first error."""
    _check_names(network)
    check_timed(network)
    declared = Declared(
        {enum.name: net.enum_range(enum) for enum in network.enums},
        {variable.name: variable for variable in net.all_variables(network)},
        {channel.name: channel for channel in network.channels},
        {clock.name: clock for clock in network.clocks},
        {function.name: function for function in network.functions},
        {component.name: component for component in network.components},
        network.timed,
        stopped=_stopped(network),
    )
    for variable in net.all_variables(network):
        _check_variable(variable, declared)
    for channel in network.channels:
        _check_channel(channel, declared)
    for clock in network.clocks:
        _check_shape(f"clock `{clock.name}`", clock.shape, clock.span)
    _check_recursion(declared)
    declared = replace(declared, impure=_impure(declared))
    for function in network.functions:
        _check_function(function, declared)
    for component in network.components:
        _check_component(component, declared)
    _check_symmetries(network, declared)
    if network.terminal is not None:
        check_expr(network.terminal, Place(declared))
    for property_ in network.properties:
        _check_property(property_, declared)
    check_overflow(network)


def _check_symmetries(network: net.Network, declared: Declared) -> None:
    shapes = {name: variable.shape for name, variable in declared.variables.items()}
    count = prod(factorial(symmetry.size) for symmetry in network.symmetries)
    if count > PERMUTATIONS_MAX:
        raise ModelError(
            f"the symmetric instances have {count} permutations",
            network.symmetries[0].span,
            f"the limit is {PERMUTATIONS_MAX}; use fewer symmetric instances",
        )
    for symmetry in network.symmetries:
        for part in symmetry.variables:
            if part.variable not in shapes:
                raise unknown(
                    "variable", part.variable, list(shapes), symmetry.span, "declare it with `var`"
                )
            for dimension in part.dimensions:
                if shapes[part.variable][dimension : dimension + 1] != (symmetry.size,):
                    raise ModelError(
                        f"dimension {dimension} of `{part.variable}` must have {symmetry.size} elements",
                        symmetry.span,
                        "a symmetric dimension needs one element per instance",
                    )
    for bag in network.bags:
        for name in (bag.length, *bag.items):
            if name not in shapes:
                raise unknown("variable", name, list(shapes), bag.span, "declare it with `var`")


def _check_unique(what: str, names: Iterable[tuple[str, Span]]) -> None:
    seen = set()
    for name, span in names:
        check_name(name, f"the name of {what}", span)
        if name in seen:
            raise ModelError(f"{what} `{name}` is declared twice", span, "give one of them another name")
        seen.add(name)


def _check_names(network: net.Network) -> None:
    check_name(network.name, "the network's name", network.span)
    _check_unique("enum", ((enum.name, enum.span) for enum in network.enums))
    for enum in network.enums:
        _check_enum(enum)
    _check_unique("variable", ((part.name, part.span) for part in net.all_variables(network)))
    _check_unique("channel", ((part.name, part.span) for part in network.channels))
    _check_unique("clock", ((part.name, part.span) for part in network.clocks))
    _check_unique("function", ((part.name, part.span) for part in network.functions))
    _check_unique("component", ((part.name, part.span) for part in network.components))
    _check_unique("property", ((part.name, part.span) for part in network.properties))


def _check_enum(enum: net.Enumeration) -> None:
    if enum.name == "bool":
        raise ModelError("`bool` is built in", enum.span, "give the enum another name")
    if not enum.members:
        raise ModelError(f"enum `{enum.name}` has no members", enum.span, "give it at least one")
    _check_unique(f"member of `{enum.name}`", ((member, enum.span) for member in enum.members))


def _check_shape(what: str, shape: tuple[int, ...], span: Span) -> None:
    if any(size < 1 for size in shape):
        raise ModelError(f"{what} has no elements", span, "every dimension must be at least 1")
    if prod(shape) > ELEMENTS_MAX:
        raise ModelError(f"{what} has {prod(shape)} elements", span, f"the limit is {ELEMENTS_MAX}")


def _check_variable(variable: net.Variable, declared: Declared) -> None:
    check_type(variable.type, declared, variable.span)
    _check_shape(f"variable `{variable.name}`", variable.shape, variable.span)
    count = prod(variable.shape)
    if len(variable.initial) != count:
        raise ModelError(
            f"`{variable.name}` has {count} element(s) but {len(variable.initial)} initial value(s)",
            variable.span,
            "give one value for each element",
        )
    for value in variable.initial:
        if not variable.type.low <= value <= variable.type.high:
            raise ModelError(
                f"the initial value {value} is outside the range "
                f"{variable.type.low}..{variable.type.high} of `{variable.name}`",
                variable.span,
                "widen the type or change the value",
            )


def _check_channel(channel: net.Channel, declared: Declared) -> None:
    for field in channel.fields:
        check_type(field, declared, channel.span)
    _check_shape(f"channel `{channel.name}`", channel.shape, channel.span)
    is_buffer = channel.kind is net.ChannelKind.BUFFER
    if is_buffer and channel.capacity < 1:
        raise ModelError(
            f"buffer `{channel.name}` has no capacity",
            channel.span,
            "give it a capacity of at least 1, or make it `rendezvous`",
        )
    if not is_buffer and (channel.capacity or channel.overflow_faults):
        raise ModelError(f"only a buffer has a capacity, not `{channel.name}`", channel.span)
    if channel.kind is net.ChannelKind.BARRIER:
        _check_vectors(channel, declared)
    elif channel.vectors:
        raise ModelError(f"only a barrier has vectors, not `{channel.name}`", channel.span)


def _check_vectors(channel: net.Channel, declared: Declared) -> None:
    if channel.fields:
        raise ModelError(f"barrier `{channel.name}` cannot pass values", channel.span)
    for vector in channel.vectors:
        if not vector:
            raise ModelError(f"a vector of `{channel.name}` is empty", channel.span)
        for name in vector:
            find_component(name, declared, channel.span)
        if len(set(vector)) < len(vector):
            raise ModelError(
                f"a vector of `{channel.name}` names a component twice",
                channel.span,
                "a component cannot meet itself",
            )


def _calls_and_effects(block: Block) -> tuple[set[str], bool]:
    """Returns the functions that the block calls, and whether the block itself assigns state."""
    called: set[str] = set()
    assigns = False
    for node in walk(block):
        match node:
            case Call(function=name):
                called.add(name)
            case Reset() | Assign(target=Load()):
                assigns = True
    return called, assigns


def _check_recursion(declared: Declared) -> None:
    calls = {name: _calls_and_effects(part.body)[0] for name, part in declared.functions.items()}
    finished: set[str] = set()

    def visit(name: str, path: list[str]) -> None:
        if name in path:
            circle = [*path[path.index(name) :], name]
            raise ModelError(
                f"function `{name}` calls itself"
                if len(circle) == 2
                else "functions call each other: " + " -> ".join(circle),
                declared.functions[name].span,
                "use a loop",
            )
        if name in finished:
            return
        for other in sorted(calls.get(name, ())):
            visit(other, [*path, name])
        finished.add(name)

    for name in declared.functions:
        visit(name, [])


def _impure(declared: Declared) -> frozenset[str]:
    """Returns the functions that assign state, directly or through calls."""
    found = {name: _calls_and_effects(part.body) for name, part in declared.functions.items()}
    impure = {name for name, (_, assigns) in found.items() if assigns}
    while True:
        more = {name for name, (called, _) in found.items() if called & impure} - impure
        if not more:
            return frozenset(impure)
        impure |= more


def _check_function(function: net.Function, declared: Declared) -> None:
    check_type(function.result, declared, function.span)
    place = Place(declared, pure=False, result=function.result)
    for parameter in function.parameters:
        check_type(parameter.type, declared, parameter.span)
        known = Known(parameter.type, assignable=True)
        place = place.declare(parameter.name, known, parameter.span)
    check_block(function.body, place)


def _check_component(component: net.Component, declared: Declared) -> None:
    for variable in component.variables:
        prefix = f"{component.name}."
        if not variable.name.startswith(prefix) or variable.name == prefix:
            raise ModelError(
                f"`{variable.name}` does not begin with its component's name",
                variable.span,
                f"rename it to `{prefix}{variable.name}`",
            )
    _check_unique(
        f"location of `{component.name}`", ((part.name, part.span) for part in component.locations)
    )
    locations = [location.name for location in component.locations]
    if component.initial not in locations:
        raise unknown("initial location", component.initial, locations, component.span)
    for location in component.locations:
        if location.invariant is not None:
            check_expr(location.invariant, Place(declared))
        for constraint in location.clock_invariant:
            check_constraint(constraint, Place(declared))
    for edge in component.edges:
        for end in (edge.source, edge.target):
            if end not in locations:
                hint = f"`{component.name}` has {', '.join(locations)}"
                raise unknown("location", end, locations, edge.span, hint)
        _check_edge(edge, component, declared)
    _check_ways(component, declared)


def _check_ways(component: net.Component, declared: Declared) -> None:
    counts: dict[str, int] = {}
    for edge in component.edges:
        match edge.sync:
            case net.Receive(channel=name) if declared.channels[name].kind is net.ChannelKind.BROADCAST:
                pass
            case net.Meet(channel=name):
                pass
            case _:
                continue
        counts[name] = counts.get(name, 0) + count_ways(edge)
        if counts[name] > WAYS_MAX:
            raise ModelError(
                f"`{component.name}` has {counts[name]} ways to take part in `{name}`",
                edge.span,
                f"the limit is {WAYS_MAX}; select fewer values, or let them be indices of the channel",
            )


def _check_edge(edge: net.Edge, component: net.Component, declared: Declared) -> None:
    place = Place(declared)
    for select in edge.select:
        known = Known(check_range(select.low, select.high, select.span))
        place = place.declare(select.name, known, select.span)
    place = _check_sync(edge, component, place)
    if edge.guard is not None:
        check_expr(edge.guard, place)
    for constraint in edge.clock_guard:
        check_constraint(constraint, place)
    if edge.label is not None:
        check_name(edge.label.name, "the action's name", edge.label.span)
        for argument in edge.label.arguments:
            check_expr(argument, place)
    check_block(edge.update, replace(place, pure=False))
    for slots in (tuple(fork.component for fork in edge.fork), edge.join, edge.kill, edge.actors):
        _check_slots(slots, edge, declared)
    for fork in edge.fork:
        _check_fork(fork, declared, edge)


def _stopped(network: net.Network) -> frozenset[str]:
    """Returns the components that an edge joins or kills, so that another may fork them again."""
    edges = [edge for component in network.components for edge in component.edges]
    return frozenset(name for edge in edges for name in edge.join + edge.kill)


def _check_fork(fork: net.Fork, declared: Declared, edge: net.Edge) -> None:
    component = declared.components[fork.component]
    span = edge.span if fork.span is NOWHERE else fork.span
    if not component.idle and component.name not in declared.stopped:
        raise ModelError(
            f"`{component.name}` cannot be forked: it is already running at the start",
            span,
            "declare it with `idle component`",
        )
    places = [location.name for location in component.locations]
    if fork.location is not None and fork.location not in places:
        raise unknown("location", fork.location, places, span, f"{component.name} has no such location")


def _check_slots(names: tuple[str, ...], edge: net.Edge, declared: Declared) -> None:
    for name in names:
        find_component(name, declared, edge.span)
    for first, second in pairwise(sorted(names)):
        if first == second:
            raise ModelError(f"`{first}` is named twice", edge.span, "name it once")


def _check_sync(edge: net.Edge, component: net.Component, place: Place) -> Place:
    """Checks the synchronisation and returns the place with the received fields."""
    sync = edge.sync
    if sync is None:
        return place
    channel = find_channel(sync.channel, sync.indices, place, sync.span)
    is_barrier = channel.kind is net.ChannelKind.BARRIER
    match sync:
        case net.Meet(span=span):
            if not is_barrier:
                raise ModelError(
                    f"`{channel.name}` is not a barrier", span, "use `send` and `receive` on it"
                )
            if not any(component.name in vector for vector in channel.vectors):
                raise ModelError(
                    f"no vector of `{channel.name}` names `{component.name}`",
                    span,
                    "add the component to a vector, or remove the edge",
                )
            return place
        case net.Send() | net.Receive() if is_barrier:
            raise ModelError(f"`{channel.name}` is a barrier", sync.span, "synchronise on it with `meet`")
        case net.Send(values=values, span=span):
            _check_count(channel, len(values), span)
            for field, value in zip(channel.fields, values, strict=True):
                check_value(value, field, f"a field of `{channel.name}`", place, span)
            return place
        case net.Receive():
            return _check_receive(sync, channel, place)
        case _:
            assert_never(sync)


def _check_count(channel: net.Channel, count: int, span: Span) -> None:
    if count != len(channel.fields):
        raise ModelError(
            f"a message of `{channel.name}` has {len(channel.fields)} field(s), not {count}",
            span,
            "give one value or pattern for each field",
        )


def _check_receive(receive: net.Receive, channel: net.Channel, place: Place) -> Place:
    _check_count(channel, len(receive.patterns), receive.span)
    after = place
    for field, pattern in zip(channel.fields, receive.patterns, strict=True):
        if isinstance(pattern, net.Bind):
            after = after.declare(pattern.name, Known(field), pattern.span)
        else:
            check_expr(pattern.value, place)
    return after


def _check_property(property_: prop.Property, declared: Declared) -> None:
    place = Place(declared, clocks=declared.timed)
    match property_.claim:
        case prop.DeadlockFree() | prop.DivergenceFree() | prop.NonTerminating() | prop.Deterministic():
            pass
        case prop.Refines(specification=specification):
            verify(specification)
        case prop.Always(condition=condition) | prop.Inevitable(condition=condition):
            check_expr(condition, place)
        case prop.PotentiallyAlways(condition=condition):
            check_expr(condition, place)
        case prop.Transition(condition=condition):
            check_expr(condition, replace(place, primes=True))
        case prop.Reachable(condition=condition, optimise=optimise):
            check_expr(condition, place)
            if optimise is not None:
                _check_extreme(optimise.value, property_, place)
        case prop.LeadsTo(cause=cause, effect=effect):
            check_expr(cause, place)
            check_expr(effect, place)
        case prop.Temporal(formula=formula):
            _check_formula(formula, property_, place)
        case _:
            assert_never(property_.claim)


def _check_extreme(value: Expr, property_: prop.Property, place: Place) -> None:
    if isinstance(value, ClockValue):
        check_clock(value.clock, place, property_.span)
    else:
        check_expr(value, place)


def _check_formula(formula: prop.Formula, property_: prop.Property, place: Place) -> None:
    states: set[Expr] = set()
    actions: set[prop.Occurs | prop.Silent] = set()
    for proposition in prop.propositions_of(formula):
        match proposition:
            case prop.Holds(condition=condition):
                check_expr(condition, place)
                states.add(condition)
            case prop.Occurs(name=name, span=span):
                check_name(name, "the action's name", span)
                actions.add(proposition)
            case prop.Silent():
                actions.add(proposition)
    for kind, count, most in (
        ("action", len(actions), ACTION_PROPOSITIONS_MAX),
        ("state", len(states), STATE_PROPOSITIONS_MAX),
    ):
        if count > most:
            raise ModelError(
                f"property `{property_.name}` has {count} {kind} propositions",
                property_.span,
                f"the limit is {most}; split the property",
            )
