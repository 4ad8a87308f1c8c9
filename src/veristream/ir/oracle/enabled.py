"""Which components can move in a state: the tests of an action, for the interpreter.

This module implements the items *Who* and *When* of the semantics in `network`; `interpret` implements the
others. All tests are evaluated in the state before the step.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product

from veristream.ir.actions import Action, Movement, choices, edges_on
from veristream.ir.clocks import Bound
from veristream.ir.expr import Type
from veristream.ir.network import Bind, Channel, ChannelKind, Edge, Meet, Receive, Send
from veristream.ir.oracle.evaluate import (
    Cell,
    Environment,
    ModelFault,
    Scope,
    check_range,
    evaluate,
    evaluate_constraint,
    evaluate_indices,
    flatten,
    is_done,
    show_element,
)
from veristream.ir.state import Message


@dataclass(frozen=True, slots=True)
class Mover:
    """A component on an edge, with its selected and received values and the bounds of its clock guard."""

    component: int
    position: int
    edge: Edge
    scope: Scope
    bounds: tuple[Bound, ...] = ()


@dataclass(frozen=True, slots=True)
class Lead:
    """The leader, the evaluated indices of its channel and the message it sends."""

    mover: Mover
    indices: tuple[int, ...] = ()
    message: Message = ()


@dataclass(frozen=True, slots=True)
class Enabled:
    """Movers that pass all tests; the followers are in the order of their updates."""

    lead: Lead
    followers: tuple[Mover, ...]

    @property
    def movers(self) -> tuple[Mover, ...]:
        """Returns all movers, the leader first."""
        return (self.lead.mover, *self.followers)


@dataclass(frozen=True, slots=True)
class Faulted:
    """A choice of the leader's values for which a test of the leader or a follower faults."""

    choice: Scope
    fault: ModelFault


def list_enabled(action: Action, before: Environment) -> Iterator[Enabled | Faulted]:
    """Yields every set of movers that can take the action, and every choice that faults."""
    edge = _edge(action.leader, action.edge, before)
    followers = _ready_followers(action, before)
    if not _is_ready(action.leader, action.edge, before) or followers is None:
        return
    for choice in choices(edge):
        scope = _select(edge, choice)
        try:
            lead = _lead(action, edge, scope, before)
            options = None if lead is None else _options(action, lead, followers, before)
        except ModelFault as fault:
            yield Faulted(scope, fault)
            continue
        if lead is not None and options is not None:
            for combination in product(*options):
                yield Enabled(lead, combination)


def list_possible(action: Action, before: Environment) -> tuple[int, ...]:
    """Returns the components that might move in the action, judged by their locations, the leader first."""
    if action.movement is Movement.ALONE:
        return (action.leader,)
    if action.movement is Movement.PAIR:
        return (action.leader, action.follower)
    here = (
        other
        for other in action.others
        if any(_is_at(other, position, before) for position in _partners(action, other, before))
    )
    return (action.leader, *here)


def _edge(component: int, position: int, env: Environment) -> Edge:
    return env.names.network.components[component].edges[position]


def _partners(action: Action, component: int, env: Environment) -> tuple[int, ...]:
    """Returns the component's edges that can follow the leader of a broadcast or barrier."""
    sync = _edge(action.leader, action.edge, env).sync
    assert sync is not None
    kind = Meet if action.movement is Movement.BARRIER else Receive
    return edges_on(env.names.network, component, sync.channel, kind)


def _is_at(component: int, position: int, env: Environment) -> bool:
    source = _edge(component, position, env).source
    return env.locations[component] == env.names.locations[component][source]


def _is_ready(component: int, position: int, env: Environment) -> bool:
    """Returns whether the component is at the edge's source and the edge's join components are done."""
    joined = (env.names.components[name] for name in _edge(component, position, env).join)
    return _is_at(component, position, env) and all(is_done(env, other) for other in joined)


def _ready_followers(action: Action, before: Environment) -> dict[int, list[int]] | None:
    """Returns the ready edges of each follower; None if a component that must follow has none."""
    if action.movement is Movement.ALONE:
        return {}
    if action.movement is Movement.PAIR:
        ready = _is_ready(action.follower, action.follower_edge, before)
        return {action.follower: [action.follower_edge]} if ready else None
    followers: dict[int, list[int]] = {}
    for component in action.others:
        edges = [i for i in _partners(action, component, before) if _is_ready(component, i, before)]
        if edges:
            followers[component] = edges
        elif action.movement is Movement.BARRIER:
            return None
    return followers


def _select(edge: Edge, choice: Mapping[str, int]) -> Scope:
    return {
        select.name: Cell(Type(select.low, select.high), [choice[select.name]]) for select in edge.select
    }


def _lead(action: Action, edge: Edge, scope: Scope, before: Environment) -> Lead | None:
    """Returns the leader if it is enabled with the selected values in the scope."""
    if isinstance(edge.sync, Receive):
        return _lead_receive(action, edge, edge.sync, scope, before)
    bounds = _guard(edge, scope, before)
    if bounds is None:
        return None
    mover = Mover(action.leader, action.edge, edge, scope, bounds)
    if edge.sync is None:
        return Lead(mover)
    position, channel = before.names.channels[edge.sync.channel]
    indices = evaluate_indices(channel.name, channel.shape, edge.sync.indices, before, scope)
    if isinstance(edge.sync, Meet):
        return Lead(mover, indices)
    if channel.kind is ChannelKind.BUFFER:
        contents = before.queues[position + flatten(channel.shape, indices)]
        if len(contents) >= channel.capacity:
            if not channel.overflow_faults:
                return None
            name = show_element(channel.name, indices)
            raise ModelFault(f"the queue {name} is full (capacity {channel.capacity})", edge.sync.span)
    return Lead(mover, indices, _sent(edge.sync, channel, before, scope))


def _guard(edge: Edge, scope: Scope, before: Environment) -> tuple[Bound, ...] | None:
    """Returns the bounds of the clock guard, or None if the guard is false."""
    if edge.guard is not None and not evaluate(edge.guard, before, scope):
        return None
    demands = (evaluate_constraint(constraint, before, scope) for constraint in edge.clock_guard)
    return tuple(bound for bounds in demands for bound in bounds)


def _sent(sync: Send, channel: Channel, before: Environment, scope: Scope) -> Message:
    message = []
    for part, (type_, expr) in enumerate(zip(channel.fields, sync.values, strict=True)):
        value = evaluate(expr, before, scope)
        message.append(check_range(value, type_, f"part {part} of {channel.name}", expr.span))
    return tuple(message)


def _lead_receive(
    action: Action, edge: Edge, sync: Receive, scope: Scope, before: Environment
) -> Lead | None:
    """Returns the leader that receives the oldest message of a buffer, if it is enabled."""
    position, channel = before.names.channels[sync.channel]
    indices = evaluate_indices(channel.name, channel.shape, sync.indices, before, scope)
    contents = before.queues[position + flatten(channel.shape, indices)]
    received = _receive(sync, contents[0], scope, before) if contents else None
    bounds = None if received is None else _guard(edge, received, before)
    if received is None or bounds is None:
        return None
    return Lead(Mover(action.leader, action.edge, edge, received, bounds), indices)


def _receive(sync: Receive, message: Message, scope: Scope, before: Environment) -> Scope | None:
    """Adds the received fields to the scope; returns None if the message does not match."""
    _, channel = before.names.channels[sync.channel]
    received = dict(scope)
    for type_, pattern, value in zip(channel.fields, sync.patterns, message, strict=True):
        if isinstance(pattern, Bind):
            received[pattern.name] = Cell(type_, [value])
        elif evaluate(pattern.value, before, scope) != value:
            return None
    return received


def _options(
    action: Action, lead: Lead, followers: Mapping[int, list[int]], before: Environment
) -> list[list[Mover]] | None:
    """Returns the moves of each follower; stops with None at one that must move but cannot."""
    options: list[list[Mover]] = []
    for component, edges in followers.items():
        enabled = [mover for position in edges for mover in _follow(lead, component, position, before)]
        if enabled:
            options.append(enabled)
        elif action.movement is not Movement.BROADCAST:
            return None
    return options


def _follow(lead: Lead, component: int, position: int, before: Environment) -> Iterator[Mover]:
    """Yields the follower's move along an edge for each choice of values that passes its tests."""
    edge = _edge(component, position, before)
    assert isinstance(edge.sync, Receive | Meet)
    for choice in choices(edge):
        scope: Scope | None = _select(edge, choice)
        assert scope is not None
        if any(
            evaluate(index, before, scope) != wanted
            for index, wanted in zip(edge.sync.indices, lead.indices, strict=True)
        ):
            continue
        if isinstance(edge.sync, Receive):
            scope = _receive(edge.sync, lead.message, scope, before)
        bounds = None if scope is None else _guard(edge, scope, before)
        if scope is not None and bounds is not None:
            yield Mover(component, position, edge, scope, bounds)
