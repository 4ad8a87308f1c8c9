"""The actions of a Network: a fixed list that assigns a number to every kind of step.

The interpreter and the kernel enumerate steps in the order of this list, so an action's index means the
same in a kernel's output, a trace and a report. A rendezvous has one action for each pair of edges that
can synchronise, a broadcast one for each sending edge, a barrier one for each vector and leading edge.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum as PythonEnum
from itertools import product
from math import prod

from veristream.ir import network as net
from veristream.ir.expr import Binary, Const, Expr, Local
from veristream.ir.remembered import remembered


class Movement(PythonEnum):
    """The components that move together in an action."""

    ALONE = "alone"  # no synchronisation, or a buffered channel
    PAIR = "pair"  # rendezvous: the leader sends, the one follower receives
    BROADCAST = "broadcast"  # the leader sends, each component in `others` receives if it can
    BARRIER = "barrier"  # the leader moves with all components in `others`


DOTTED = (".", "!", "?")
"""The suffix of a label whose arguments are shown in the notation of CSP."""


@dataclass(frozen=True, slots=True)
class Action:
    """One entry of the list; identifies components and edges by their positions in the Network."""

    movement: Movement
    leader: int
    edge: int
    follower: int = -1  # of a pair: the receiving component
    follower_edge: int = -1  # of a pair: its edge
    others: tuple[int, ...] = ()  # of a broadcast or barrier, in the order of their updates
    label: net.Label = net.Label("")
    label_of_follower: bool = False  # the label's arguments are in the follower's scope
    visible: bool = True
    fairness: net.FairnessMark = net.FairnessMark.NONE

    @property
    def processes(self) -> tuple[int, ...]:
        """The components that count as taking the step under process fairness."""
        match self.movement:
            case Movement.ALONE | Movement.BROADCAST:
                return (self.leader,)
            case Movement.PAIR:
                return (self.leader, self.follower)
            case Movement.BARRIER:
                return (self.leader, *self.others)


@remembered
def list_actions(network: net.Network) -> tuple[Action, ...]:
    """Lists all actions in the order of the leaders' edges; omits pairs with different constant indices."""
    channels = {channel.name: channel for channel in network.channels}
    receivers = _receivers(network)
    return tuple(
        action
        for leader, component in enumerate(network.components)
        for position, edge in enumerate(component.edges)
        for action in _actions_of_edge(network, channels, receivers, leader, position)
    )


def edges_on(
    network: net.Network, component: int, channel: str, kind: type[net.Send | net.Receive | net.Meet]
) -> tuple[int, ...]:
    """Returns the positions of the component's edges that send, receive or meet (`kind`) on the channel."""
    edges = network.components[component].edges
    return tuple(
        i for i, edge in enumerate(edges) if isinstance(edge.sync, kind) and edge.sync.channel == channel
    )


def leaves_priority(network: net.Network, component: int, edge: int, kind: net.LocationKind) -> bool:
    """Returns whether the edge leaves a location of the kind and therefore has priority."""
    owner = network.components[component]
    source = owner.edges[edge].source
    if kind is net.LocationKind.ATOMIC and owner.edges[edge].late:
        return False
    return any(place.name == source and place.kind is kind for place in owner.locations)


Receivers = Mapping[str, Sequence[tuple[int, int, net.Edge]]]
"""The receiving edges of each channel in order: component, position and edge."""


def _receivers(network: net.Network) -> Receivers:
    found: dict[str, list[tuple[int, int, net.Edge]]] = {}
    for follower, component in enumerate(network.components):
        for position, edge in enumerate(component.edges):
            if isinstance(edge.sync, net.Receive):
                found.setdefault(edge.sync.channel, []).append((follower, position, edge))
    return found


def _actions_of_edge(
    network: net.Network,
    channels: Mapping[str, net.Channel],
    receivers: Receivers,
    leader: int,
    position: int,
) -> Iterator[Action]:
    edge = network.components[leader].edges[position]
    match edge.sync:
        case None:
            yield _action(Movement.ALONE, leader, position, edge)
        case net.Send(channel=name) | net.Receive(channel=name) if (
            channels[name].kind is net.ChannelKind.BUFFER
        ):
            yield _action(Movement.ALONE, leader, position, edge)
        case net.Send(channel=name) if channels[name].kind is net.ChannelKind.RENDEZVOUS:
            yield from _pairs(receivers.get(name, ()), leader, position, edge, edge.sync)
        case net.Send(channel=name):
            others = tuple(sorted({follower for follower, _, _ in receivers.get(name, ())} - {leader}))
            yield _action(Movement.BROADCAST, leader, position, edge, others=others)
        case net.Meet(channel=name):
            me = network.components[leader].name
            places = {component.name: i for i, component in enumerate(network.components)}
            for vector in channels[name].vectors:
                if vector[0] == me:
                    others = tuple(sorted(places[other] for other in vector[1:]))
                    yield _action(Movement.BARRIER, leader, position, edge, others=others)
        case net.Receive():
            return


def _pairs(
    receivers: Sequence[tuple[int, int, net.Edge]],
    leader: int,
    position: int,
    edge: net.Edge,
    send: net.Send,
) -> Iterator[Action]:
    for receiver in receivers:
        follower, _, other = receiver
        assert isinstance(other.sync, net.Receive)
        if (
            follower != leader
            and can_agree(send.indices, other.sync.indices)
            and _can_match(send, other.sync)
        ):
            yield _action(Movement.PAIR, leader, position, edge, follower=receiver)


def _action(
    movement: Movement,
    leader: int,
    position: int,
    edge: net.Edge,
    follower: tuple[int, int, net.Edge] | None = None,
    others: tuple[int, ...] = (),
) -> Action:
    label, of_follower = edge.label, False
    visible, fairness = edge.visible, edge.fairness
    if follower is not None:
        receiver = follower[2]
        if label is None and receiver.label is not None:
            label, of_follower = receiver.label, True
        visible = visible and receiver.visible
        marks = (fairness, receiver.fairness)
        fairness = max(marks, key=list(net.FairnessMark).index)
    return Action(
        movement,
        leader,
        position,
        follower=-1 if follower is None else follower[0],
        follower_edge=-1 if follower is None else follower[1],
        others=others,
        label=_default_label(edge, movement) if label is None else label,
        label_of_follower=of_follower,
        visible=visible,
        fairness=fairness,
    )


def _default_label(edge: net.Edge, movement: Movement) -> net.Label:
    match edge.sync:
        case None:
            return net.Label(f"{edge.source}->{edge.target}")
        case net.Send(channel=name, indices=indices, values=values):
            mark = "!" if movement is Movement.ALONE else ""
            return net.Label(name + mark, indices + values)
        case net.Receive(channel=name, indices=indices, patterns=patterns):
            received: tuple[Expr, ...] = tuple(
                Local(pattern.name) if isinstance(pattern, net.Bind) else pattern.value
                for pattern in patterns
            )
            return net.Label(name + "?", indices + received)
        case net.Meet(channel=name, indices=indices):
            return net.Label(name, indices)


def can_agree(left: tuple[Expr, ...], right: tuple[Expr, ...]) -> bool:
    """Returns whether no two constants of the indices differ."""
    return not any(
        isinstance(a, Const) and isinstance(b, Const) and a.value != b.value
        for a, b in zip(left, right, strict=True)
    )


def _can_match(send: net.Send, receive: net.Receive) -> bool:
    demanded = tuple(p.value if isinstance(p, net.Match) else None for p in receive.patterns)
    return not any(
        isinstance(a, Const) and isinstance(b, Const) and a.value != b.value
        for a, b in zip(send.values, demanded, strict=True)
    )


def choices(edge: net.Edge) -> Iterator[dict[str, int]]:
    """Yields every combination of the edge's selected values; the last one changes fastest."""
    names = [select.name for select in edge.select]
    ranges = [range(select.low, select.high + 1) for select in edge.select]
    for values in product(*ranges):
        yield dict(zip(names, values, strict=True))


def given_selects(edge: net.Edge) -> dict[str, tuple[int, int]]:
    """Returns the selected values that a follower's channel indices determine, as `e` in `receive a[e]`.

    Each is the index at the given position plus a number.
    """
    found: dict[str, tuple[int, int]] = {}
    for position, index in enumerate(() if edge.sync is None else edge.sync.indices):
        match index:
            case Local(name=name, index=None):
                found.setdefault(name, (position, 0))
            case Binary(op="-", left=Local(name=name, index=None), right=Const(value=number)):
                found.setdefault(name, (position, number))
            case Const():
                pass
            case _:  # it may fail for values that a later index rules out
                break
    return {one.name: found[one.name] for one in edge.select if one.name in found}


def ways(edge: net.Edge) -> Iterator[dict[str, int]]:
    """Yields every combination of those selected values that its channel indices do not determine."""
    yield from choices(replace(edge, select=_free_selects(edge)))


def count_ways(edge: net.Edge) -> int:
    """Returns the number of combinations that `ways` yields."""
    return prod(one.high - one.low + 1 for one in _free_selects(edge))


def _free_selects(edge: net.Edge) -> tuple[net.Select, ...]:
    given = given_selects(edge)
    return tuple(one for one in edge.select if one.name not in given)


def render_label(name: str, arguments: tuple[int, ...]) -> str:
    """Formats a label as `name(1, 2)`, or as `get.1.2` if its name has the suffix of CSP events."""
    if name.endswith(DOTTED):
        return name + ".".join(map(str, arguments))
    return f"{name}({', '.join(map(str, arguments))})" if arguments else name
