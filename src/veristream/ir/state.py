"""States of a Network.

A State is flat, so that it hashes fast and maps one to one to the kernel's rows: the elements of all
variables, one queue for each buffered channel, one location for each component.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from veristream.ir import network as net
from veristream.ir.clocks import NumberedClock, number_clocks

IDLE = -1
"""The location of a component slot that is not running."""

Message = tuple[int, ...]
Contents = tuple[Message, ...]


@dataclass(frozen=True, slots=True)
class State:
    """The elements of all variables, the messages of all queues and the locations of all components.

    `values` follows `all_variables`, arrays row by row. `queues` has one entry for each element of each
    buffered channel, in the same order; the oldest message is first. A location is its position in its
    component, or `IDLE`.
    """

    values: tuple[int, ...]
    queues: tuple[Contents, ...]
    locations: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Names:
    """The position of each name's first element in the states of a network.

    The position of an unbuffered channel is meaningless.
    """

    network: net.Network
    variables: Mapping[str, tuple[int, net.Variable]]
    channels: Mapping[str, tuple[int, net.Channel]]
    components: Mapping[str, int]
    locations: tuple[Mapping[str, int], ...]
    functions: Mapping[str, net.Function]
    clocks: Mapping[str, NumberedClock]


def name_parts(network: net.Network) -> Names:
    """Computes the positions of all names."""
    variables: dict[str, tuple[int, net.Variable]] = {}
    position = 0
    for variable in net.all_variables(network):
        variables[variable.name] = (position, variable)
        position += prod(variable.shape)
    channels: dict[str, tuple[int, net.Channel]] = {}
    position = 0
    for channel in network.channels:
        channels[channel.name] = (position, channel)
        position += prod(channel.shape) if channel.kind is net.ChannelKind.BUFFER else 0
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
        number_clocks(network),
    )


def initial_state(network: net.Network) -> State:
    """Returns the initial state."""
    values: list[int] = []
    for variable in net.all_variables(network):
        assert len(variable.initial) == prod(variable.shape), variable.name
        values.extend(variable.initial)
    queues = sum(prod(c.shape) for c in network.channels if c.kind is net.ChannelKind.BUFFER)
    locations = tuple(
        IDLE if component.idle else start_location(component) for component in network.components
    )
    return State(tuple(values), ((),) * queues, locations)


def start_location(component: net.Component, location: str | None = None) -> int:
    """Returns the position of the named location, or of the initial one."""
    return [place.name for place in component.locations].index(location or component.initial)
