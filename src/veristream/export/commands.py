"""Flattens a Network into guarded commands, action by action; `ir.network` defines the semantics."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import prod

from veristream.errors import ModelError
from veristream.export.effects import Effects, Message, Mover
from veristream.export.flat import (
    Command,
    Demand,
    Flat,
    buffers,
    location_variables,
    settle,
    some_at,
    state_variables,
    termination,
)
from veristream.export.rewrite import any_of, binary, chain, negate, truth
from veristream.export.straight import Straightener
from veristream.ir import expr as ir
from veristream.ir import network as net
from veristream.ir.actions import Action, Movement, choices, edges_on, list_actions
from veristream.ir.property import DeadlockFree

BARRIER_COMBINATIONS_MAX = 64
"""With more combinations, a barrier becomes one command, which chooses the edges itself."""


def flatten(network: net.Network) -> Flat:
    """Returns the network as guarded commands; raises ModelError if it is timed."""
    _refuse_time(network)
    straight = Straightener(network, location_variables(network))
    builder = _Builder(network, straight)
    commands = [command for action in list_actions(network) for command in builder.commands(action)]
    return Flat(
        network.name,
        state_variables(network),
        buffers(network),
        tuple(commands),
        termination(network, straight) if _asks_for_deadlocks(network) else None,
        some_at(network, straight, builder.committed),
        some_at(network, straight, builder.atomic),
        straight,
    )


def _asks_for_deadlocks(network: net.Network) -> bool:
    return any(isinstance(property_.claim, DeadlockFree) for property_ in network.properties)


def _refuse_time(network: net.Network) -> None:
    hint = "SPIN and TLC check only untimed models"
    for clock in network.clocks:
        raise ModelError("a clock cannot be exported", clock.span, f"{hint}: remove the clocks")
    if network.timed:
        raise ModelError("a timed network cannot be exported", network.span, hint)


class _Builder:
    def __init__(self, network: net.Network, straight: Straightener) -> None:
        self.network = network
        self.straight = straight
        self.effects = Effects(network, straight)
        self.channels = {channel.name: channel for channel in network.channels}
        self.committed = _places(network, net.LocationKind.COMMITTED)
        self.atomic = _places(network, net.LocationKind.ATOMIC)
        self._count = 0

    def commands(self, action: Action) -> Iterator[Command]:
        """Yields the action's commands: one, unless it is a barrier whose components have several edges."""
        if action.movement is Movement.BARRIER:
            edges = [self._partners(action, other) for other in action.others]
            if prod(map(len, edges)) <= BARRIER_COMBINATIONS_MAX:
                for combination in product(*edges):
                    yield from self._command(action, list(zip(action.others, combination, strict=True)))
                return
        if action.movement is Movement.PAIR:
            edge = self.network.components[action.follower].edges[action.follower_edge]
            yield from self._command(action, [(action.follower, edge)])
        else:
            yield from self._command(action, [])

    def _partners(self, action: Action, component: int) -> list[net.Edge]:
        sync = self.network.components[action.leader].edges[action.edge].sync
        assert sync is not None
        kind = net.Meet if action.movement is Movement.BARRIER else net.Receive
        owner = self.network.components[component]
        return [owner.edges[i] for i in edges_on(self.network, component, sync.channel, kind)]

    def _command(
        self, action: Action, fixed: list[tuple[int, net.Edge]], first: bool | None = None
    ) -> Iterator[Command]:
        """Yields the command of the leader with fixed followers; other followers are chosen in the command.

        If it depends on those whether the step leaves an atomic location, yields one command for each case.
        """
        straight, network = self.straight, self.network
        straight.known.trusted.clear()
        straight.facts.forget_all()
        leader, selected = self._mover(network.components[action.leader], action.edge)
        movers = [leader]
        for component, edge in fixed:
            owner = network.components[component]
            follower, more = self._mover(owner, owner.edges.index(edge))
            movers.append(follower)
            selected += more
        demands = [demand for mover in movers for demand in self._place(mover)]
        message, tests = self._lead(leader)
        for follower in movers[1:]:
            tests += self._follow(follower, message)
        prelude: list[ir.Statement] = []
        loose: list[Mover] = []
        for component in action.others if not fixed else ():
            found, more = self._loose(action, component, message, tests, prelude)
            loose += found
            selected += more
        demands += self._priority(movers, loose)
        leaves = self._leaves(self.atomic, movers, loose)
        if first is not None:
            tests.append(Demand(leaves if first else negate(leaves)))
        elif leaves not in (ir.TRUE, ir.FALSE):
            yield from self._command(action, fixed, first=True)
            yield from self._command(action, fixed, first=False)
            return
        plain, ready = settle([*demands, *tests], straight)
        labelled = movers[1] if action.label_of_follower else leader
        self.effects.label(action, labelled, prelude)
        straight.known.trusted.clear()
        update = self.effects.update([*movers, *loose], leader, message, prelude)
        self._count += 1
        yield Command(
            f"step_{self._count}",
            _comment(action, [*movers, *loose]),
            tuple(selected),
            plain,
            ready,
            update,
            self.effects.kept(movers, loose),
            leaves == ir.TRUE if first is None else first,
        )

    # Who and when.

    def _mover(self, component: net.Component, position: int) -> tuple[Mover, list[net.Select]]:
        edge = component.edges[position]
        scope: dict[str, ir.Expr] = {}
        selected: list[net.Select] = []
        for select in edge.select:
            local = self.straight.fresh(select.name, ir.Type(select.low, max(select.low, select.high)))
            scope[select.name] = local
            selected.append(net.Select(local.name, select.low, select.high))
        return Mover(component, edge, scope), selected

    def _place(self, mover: Mover) -> list[Demand]:
        """Demands that the mover is at its edge's source and that the components it joins are done."""
        here = self.straight.at(mover.component.name, mover.edge.source)
        joined = [Demand(self.straight.done(name)) for name in mover.edge.join]
        return [Demand(here), *joined]

    def _lead(self, leader: Mover) -> tuple[Message, list[Demand]]:
        edge, scope = leader.edge, leader.scope
        rename = self.straight.rename
        if isinstance(edge.sync, net.Receive):
            return self._lead_receive(leader, edge.sync)
        tests = [] if edge.guard is None else [Demand(rename(edge.guard, scope))]
        if edge.sync is None:
            return Message(), tests
        channel = self.channels[edge.sync.channel]
        indices, bounds = self._indices(edge.sync.indices, channel, scope)
        tests += bounds
        if isinstance(edge.sync, net.Meet):
            return Message(indices), tests
        if channel.kind is net.ChannelKind.BUFFER:
            full = self._trusted(ir.Queue("full", channel.name, indices))
            fault = f"the queue {channel.name} is full" if channel.overflow_faults else ""
            tests.append(Demand(negate(full), (), fault, edge.sync.span))
        values = tuple(rename(value, scope) for value in edge.sync.values)
        for value, type_ in zip(values, channel.fields, strict=True):
            if not isinstance(value, ir.Const) or not type_.low <= value.value <= type_.high:
                fault = f"outside a field of {channel.name}"
                tests.append(Demand(ir.TRUE, (value,), fault, value.span, (value, type_)))
        return Message(indices, values), tests

    def _indices(
        self, exprs: tuple[ir.Expr, ...], channel: net.Channel, scope: dict[str, ir.Expr]
    ) -> tuple[tuple[ir.Expr, ...], list[Demand]]:
        indices = tuple(self.straight.rename(index, scope) for index in exprs)
        tests = []
        for index, size in zip(indices, channel.shape, strict=True):
            fault = f"outside the array {channel.name}"
            tests.append(Demand(ir.TRUE, (index,), fault, index.span, (index, ir.Type(0, size - 1))))
        return indices, tests

    def _trusted(self, expr: ir.Expr) -> ir.Expr:
        """Marks the expression as safe, since earlier tests ensure it."""
        self.straight.known.trusted.add(expr)
        return expr

    def _lead_receive(self, leader: Mover, sync: net.Receive) -> tuple[Message, list[Demand]]:
        channel = self.channels[sync.channel]
        indices, tests = self._indices(sync.indices, channel, leader.scope)
        tests.append(Demand(negate(self._trusted(ir.Queue("empty", channel.name, indices)))))
        received = [
            self._trusted(ir.Peek(channel.name, ir.Const(0), part, indices))
            for part in range(len(channel.fields))
        ]
        tests += self._receive(leader, sync, tuple(received))
        return Message(indices, tuple(received)), tests

    def _receive(self, mover: Mover, sync: net.Receive, values: tuple[ir.Expr, ...]) -> list[Demand]:
        """Returns the mover's demands on the message, and its guard; adds the bound names to its scope."""
        tests = []
        bound: dict[str, ir.Expr] = {}
        for pattern, value in zip(sync.patterns, values, strict=True):
            if isinstance(pattern, net.Bind):
                bound[pattern.name] = value
            else:
                wanted = self.straight.rename(pattern.value, mover.scope)
                tests.append(Demand(binary("==", value, wanted)))
        mover.scope |= bound
        if mover.edge.guard is not None:
            tests.append(Demand(self.straight.rename(mover.edge.guard, mover.scope)))
        return tests

    def _follow(self, follower: Mover, message: Message) -> list[Demand]:
        sync = follower.edge.sync
        assert isinstance(sync, net.Receive | net.Meet)
        tests = []
        for index, wanted in zip(sync.indices, message.indices, strict=True):
            own = self.straight.rename(index, follower.scope)
            tests.append(Demand(binary("==", own, wanted)))
        if isinstance(sync, net.Receive):
            return tests + self._receive(follower, sync, message.values)
        if follower.edge.guard is not None:
            tests.append(Demand(self.straight.rename(follower.edge.guard, follower.scope)))
        return tests

    # Followers chosen in the command: those of a broadcast and of a large barrier.

    def _loose(
        self,
        action: Action,
        component: int,
        message: Message,
        tests: list[Demand],
        prelude: list[ir.Statement],
    ) -> tuple[list[Mover], list[net.Select]]:
        """Returns the ways in which the component may follow; a number says which one it takes, if any.

        If several edges can be enabled at one location, a choice selects one of those enabled.
        """
        owner = self.network.components[component]
        ways: list[Mover] = []
        enabled: list[ir.Expr] = []
        for edge in self._partners(action, component):
            for choice in choices(edge):
                way = Mover(owner, edge, {name: ir.Const(value) for name, value in choice.items()})
                conditions = [d.condition for d in (*self._place(way), *self._follow(way, message))]
                condition = chain("and", map(truth, conditions), ir.TRUE)
                if condition != ir.FALSE:
                    way.enabled = condition
                    ways.append(way)
                    enabled.append(condition)
        if action.movement is Movement.BARRIER:
            tests.append(Demand(any_of(enabled), tuple(enabled)))
        else:
            tests.append(Demand(ir.TRUE, tuple(enabled)))
        sources = [way.edge.source for way in ways]
        rank_max = max(map(sources.count, sources), default=0)
        selected: list[net.Select] = []
        pick: ir.Expr = ir.Const(0)
        if rank_max > 1:
            local = self.straight.fresh("pick", ir.Type(0, rank_max - 1))
            selected.append(net.Select(local.name, 0, rank_max - 1))
            count = chain("+", enabled, ir.Const(0))
            tests.append(Demand(binary("or", binary("==", local, ir.Const(0)), binary(">", count, local))))
            pick = local
        number = self._choose(enabled, pick, prelude)
        for i, way in enumerate(ways, 1):
            way.taken = binary("==", number, ir.Const(i))
        return ways, selected

    def _choose(self, enabled: list[ir.Expr], pick: ir.Expr, prelude: list[ir.Statement]) -> ir.Expr:
        """Returns the number, from 1, of the enabled way with the picked rank; 0 if none is enabled."""
        straight = self.straight
        type_ = ir.Type(0, len(enabled))
        if pick == ir.Const(0):
            number: ir.Expr = ir.Const(0)
            for i in range(len(enabled), 0, -1):
                number = ir.Conditional(enabled[i - 1], ir.Const(i), number)
            return straight.keep("way", self.effects.known(number, prelude), prelude)
        way, seen = straight.fresh("way", type_), straight.fresh("seen", type_)
        prelude += [ir.Let(way.name, type_, ir.Const(0)), ir.Let(seen.name, type_, ir.Const(0))]
        for i, condition in enumerate(enabled, 1):
            holds = self.effects.known(condition, prelude)
            chosen = ir.If(binary("==", seen, pick), (ir.Assign(way, ir.Const(i)),))
            prelude.append(ir.If(holds, (chosen, ir.Assign(seen, binary("+", seen, ir.Const(1))))))
        return way

    # Priority.

    def _leaves(self, places: set[tuple[str, str]], movers: list[Mover], loose: list[Mover]) -> ir.Expr:
        """Returns the condition that one of the movers leaves one of the places."""

        def leaves(mover: Mover) -> bool:
            here = (mover.component.name, mover.edge.source) in places
            return here and not (mover.edge.late and places is self.atomic)

        if any(map(leaves, movers)):
            return ir.TRUE
        # A component that takes a way from a location has one enabled there, so this test suffices.
        return any_of([way.enabled for way in loose if leaves(way)])

    def _priority(self, movers: list[Mover], loose: list[Mover]) -> list[Demand]:
        """Demands that, while components are at committed locations, one of them moves."""
        leaves = self._leaves(self.committed, movers, loose)
        if leaves == ir.TRUE:
            return []
        moving = {mover.component.name for mover in movers}
        others = {place for place in self.committed if place[0] not in moving}
        here = some_at(self.network, self.straight, others)
        if here == ir.FALSE:
            return []
        if leaves == ir.FALSE:
            return [Demand(_none(here))]
        return [Demand(binary("or", _none(here), leaves))]


def _places(network: net.Network, kind: net.LocationKind) -> set[tuple[str, str]]:
    return {
        (component.name, place.name)
        for component in network.components
        for place in component.locations
        if place.kind is kind
    }


def _none(disjunction: ir.Expr) -> ir.Expr:
    """Negates a disjunction of comparisons, as a conjunction of their negations."""
    if isinstance(disjunction, ir.Binary) and disjunction.op == "or":
        return binary("and", _none(disjunction.left), _none(disjunction.right))
    return negate(disjunction)


def _comment(action: Action, movers: list[Mover]) -> str:
    """Says which components move where, for the reader of the exported text."""
    moves = ", ".join(f"{m.component.name}: {m.edge.source} -> {m.edge.target}" for m in movers[:4])
    more = ", ..." if len(movers) > 4 else ""
    return f"{action.label.name}  ({moves}{more})"
