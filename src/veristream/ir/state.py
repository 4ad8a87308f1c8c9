"""States of a Network as plain values, and how a person reads them.

A State is flat so that it hashes fast and maps one to one onto the kernel's rows: the elements of
all variables, one queue for each buffered channel, one location for each component.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from veristream.ir.expr import Type
from veristream.ir.network import (
    Channel,
    ChannelKind,
    Component,
    Function,
    Network,
    Variable,
    all_variables,
)
from veristream.verdict import Shown

IDLE = -1
"""The location of a component slot that is not running."""

Message = tuple[int, ...]
Contents = tuple[Message, ...]


@dataclass(frozen=True, slots=True)
class State:
    """One state: every variable's elements, every queue's messages, every component's location.

    `values` follows `all_variables`, arrays row by row. `queues` has one entry for each element of
    each buffered channel, in the same manner, the oldest message first. A location is its position
    in its component, or `IDLE`.
    """

    values: tuple[int, ...]
    queues: tuple[Contents, ...]
    locations: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Names:
    """Where each name of a network lives in its states: the position of its first element.

    The position of a channel that holds no messages means nothing.
    """

    network: Network
    variables: Mapping[str, tuple[int, Variable]]
    channels: Mapping[str, tuple[int, Channel]]
    components: Mapping[str, int]
    locations: tuple[Mapping[str, int], ...]
    functions: Mapping[str, Function]


def name_parts(network: Network) -> Names:
    """The positions of all names, looked up once for a network."""
    variables: dict[str, tuple[int, Variable]] = {}
    position = 0
    for variable in all_variables(network):
        variables[variable.name] = (position, variable)
        position += prod(variable.shape)
    channels: dict[str, tuple[int, Channel]] = {}
    position = 0
    for channel in network.channels:
        channels[channel.name] = (position, channel)
        position += prod(channel.shape) if channel.kind is ChannelKind.BUFFER else 0
    return Names(
        network,
        variables,
        channels,
        {component.name: i for i, component in enumerate(network.components)},
        tuple(
            {location.name: i for i, location in enumerate(component.locations)}
            for component in network.components
        ),
        {function.name: function for function in network.functions},
    )


def initial_state(network: Network) -> State:
    """The state that every run begins in."""
    values: list[int] = []
    for variable in all_variables(network):
        assert len(variable.initial) == prod(variable.shape), variable.name
        values.extend(variable.initial)
    queues = sum(prod(c.shape) for c in network.channels if c.kind is ChannelKind.BUFFER)
    locations = tuple(
        IDLE if component.idle else initial_location(component) for component in network.components
    )
    return State(tuple(values), ((),) * queues, locations)


def initial_location(component: Component) -> int:
    """The position of the location that the component starts at."""
    return [location.name for location in component.locations].index(component.initial)


def show_state(network: Network, state: State) -> dict[str, Shown]:
    """The state by name, for people; a component that can only be at one place is left out."""
    members = {enum.name: enum.members for enum in network.enums}
    shown: dict[str, Shown] = {}
    values = iter(state.values)
    for variable in all_variables(network):
        elements = [_show(next(values), variable.type, members) for _ in _elements(variable.shape)]
        shown[variable.name] = _nest(elements, variable.shape)
    queues = iter(state.queues)
    for channel in network.channels:
        if channel.kind is ChannelKind.BUFFER:
            contents = [_show_queue(next(queues), channel, members) for _ in _elements(channel.shape)]
            shown[channel.name] = _nest(contents, channel.shape)
    for component, location in zip(network.components, state.locations, strict=True):
        if len(component.locations) > 1 or component.idle:
            idle = location == IDLE
            shown[component.name] = "idle" if idle else component.locations[location].name
    return shown


def _elements(shape: tuple[int, ...]) -> range:
    return range(prod(shape))


def _show_queue(contents: Contents, channel: Channel, members: Mapping[str, tuple[str, ...]]) -> Shown:
    shown: list[Shown] = []
    for message in contents:
        parts = [_show(value, type_, members) for value, type_ in zip(message, channel.fields, strict=True)]
        shown.append(parts[0] if len(parts) == 1 else parts)
    return shown


def _show(value: int, type_: Type, members: Mapping[str, tuple[str, ...]]) -> Shown:
    if type_.enum == "bool":
        return bool(value)
    if type_.enum is not None:
        names = members.get(type_.enum, ())
        if 0 <= value < len(names):
            return names[value]
    return value


def _nest(elements: Sequence[Shown], shape: tuple[int, ...]) -> Shown:
    if not shape:
        return elements[0]
    size = prod(shape[1:])
    return [_nest(elements[i * size : (i + 1) * size], shape[1:]) for i in range(shape[0])]
