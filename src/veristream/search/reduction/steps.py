"""What each action of a network requires, reads, writes and leads to."""

from __future__ import annotations

from dataclasses import dataclass

from veristream.ir import network as net
from veristream.ir.actions import Action, Movement, edges_on
from veristream.ir.bounds import Names
from veristream.search.reduction.conditions import Condition, Conditions, Of
from veristream.search.reduction.faults import Faults
from veristream.search.reduction.fold import Folding
from veristream.search.reduction.places import Footprint, Places, with_locals


@dataclass(frozen=True, slots=True)
class Step:
    """An action as the reduction sees it; `rest` are the places that undescribed tests read, if there are
    any such tests."""

    known: tuple[Condition, ...]
    rest: frozenset[int] | None
    footprint: Footprint
    reaches: frozenset[tuple[int, int]]  # components and the locations that it may put them at
    may_fault: bool


@dataclass(frozen=True, slots=True)
class Mover:
    """A component that may move along an edge, whose constants are folded."""

    component: int
    edge: net.Edge
    names: Names


class Steps:
    """Describes the actions of one network."""

    def __init__(self, network: net.Network) -> None:
        self.network = network
        self.places, self.faults = Places(network), Faults(network)
        self.folding = Folding(network)
        self._channels = {channel.name: channel for channel in network.channels}
        self._movers: dict[tuple[int, int], Mover] = {}

    def describe(self, action: Action) -> Step:
        """The action's conditions and footprint; those of all ways to follow it together."""
        leader = self._mover(action.leader, action.edge)
        followers = self._followers(action)
        movers = [leader, *(mover for ways in followers for mover in ways)]
        found = Conditions(self.places, self.faults)
        self._stand(found, leader)
        if action.movement is Movement.PAIR:
            self._stand(found, followers[0][0])
        self._lead(found, leader)
        for ways in followers:
            if action.movement is Movement.PAIR:
                self._follow(found, ways[0])
            elif action.movement is Movement.BARRIER:
                self._join_in(found, ways)
        if found.never:
            return Step(tuple(found.known), frozenset(), Footprint(), frozenset(), False)
        label = self.folding.fold(action.label.arguments)
        scope = movers[1] if action.label_of_follower else leader
        footprint = self.places.footprint(label, scope.names)
        for mover in movers:
            footprint |= self._footprint(mover)
        return Step(
            tuple(found.known),
            frozenset(found.rest) if found.has_rest else None,
            footprint,
            frozenset(place for mover in movers for place in self._reaches(mover)),
            self.faults.may_fault(label, scope.names) or any(self._may_fault(one) for one in movers),
        )

    def _mover(self, component: int, edge: int) -> Mover:
        if (component, edge) not in self._movers:
            folded = self.folding.fold(self.network.components[component].edges[edge])
            names = with_locals(self.places.names, folded)
            self._movers[component, edge] = Mover(component, folded, names)
        return self._movers[component, edge]

    def _followers(self, action: Action) -> list[list[Mover]]:
        """The edges by which each other component can take part."""
        if action.movement is Movement.PAIR:
            return [[self._mover(action.follower, action.follower_edge)]]
        sync = self.network.components[action.leader].edges[action.edge].sync
        if sync is None or action.movement is Movement.ALONE:
            return []
        kind = net.Receive if action.movement is Movement.BROADCAST else net.Meet
        return [
            [self._mover(other, edge) for edge in edges_on(self.network, other, sync.channel, kind)]
            for other in action.others
        ]

    def _stand(self, found: Conditions, mover: Mover) -> None:
        """Requires that the mover is at its source, and what it joins is done."""
        source = self.places.location(mover.component, mover.edge.source)
        self._require_at(found, mover.component, [source])
        for name in mover.edge.join:
            component = self.places.component(name)
            locations = self.network.components[component].locations
            self._require_at(found, component, [i for i, one in enumerate(locations) if one.final])

    def _require_at(self, found: Conditions, component: int, locations: list[int]) -> None:
        place = frozenset({self.places.at(component)})
        if len(locations) == 1:
            found.require(Condition(Of.LOCATION, component, "==", locations[0]), place)
        else:
            found.depend(place, False)

    def _lead(self, found: Conditions, leader: Mover) -> None:
        """Adds the leader's own tests in the order of their evaluation."""
        edge, names = leader.edge, leader.names
        match edge.sync:
            case net.Receive():
                self._receive_from_buffer(found, leader, edge.sync)
            case net.Send(channel=name, indices=indices, values=values):
                self._guard(found, leader)
                found.depend(
                    self.places.footprint(indices, names).reads, self._index_fault(edge.sync, names)
                )
                if self._channels[name].kind is net.ChannelKind.BUFFER:
                    self._require_room(found, leader, edge.sync)
                reads = self.places.footprint(values, names).reads
                found.depend(reads, self._value_fault(edge.sync, names))
            case net.Meet(indices=indices):
                self._guard(found, leader)
                found.depend(
                    self.places.footprint(indices, names).reads, self._index_fault(edge.sync, names)
                )
            case None:
                self._guard(found, leader)

    def _require_room(self, found: Conditions, leader: Mover, sync: net.Send) -> None:
        channel = self._channels[sync.channel]
        queues = self.places.queues(sync.channel, sync.indices, leader.names)
        heads = frozenset(map(self.places.head, queues))
        if channel.overflow_faults:
            found.depend(heads, True)
        elif len(queues) == 1:
            found.require(Condition(Of.LENGTH, queues[0], "<", channel.capacity), heads)
        else:
            found.depend(heads, False)

    def _receive_from_buffer(self, found: Conditions, leader: Mover, sync: net.Receive) -> None:
        names = leader.names
        found.depend(self.places.footprint(sync.indices, names).reads, self._index_fault(sync, names))
        queues = self.places.queues(sync.channel, sync.indices, names)
        tails = frozenset(map(self.places.tail, queues))
        if len(queues) == 1:
            found.require(Condition(Of.LENGTH, queues[0], ">", 0), tails)
        else:
            found.depend(tails, False)
        found.depend(frozenset(map(self.places.head, queues)), False)
        reads = self.places.footprint(sync.patterns, names).reads
        found.depend(reads, self.faults.may_fault(sync.patterns, names))
        self._guard(found, leader)

    def _guard(self, found: Conditions, mover: Mover) -> None:
        if mover.edge.guard is not None:
            found.evaluate(mover.edge.guard, mover.names)

    def _follow(self, found: Conditions, mover: Mover) -> None:
        """Adds the tests of a follower, other than where it stands."""
        sync = mover.edge.sync
        assert isinstance(sync, net.Receive | net.Meet)
        reads = self.places.footprint(sync, mover.names).reads
        found.depend(reads, self.faults.may_fault(sync, mover.names))
        self._guard(found, mover)

    def _join_in(self, found: Conditions, ways: list[Mover]) -> None:
        """Adds the test that the component can follow by one of its edges."""
        sources = {self.places.location(mover.component, mover.edge.source) for mover in ways}
        self._require_at(found, ways[0].component, sorted(sources))
        if len(ways) == 1 and not ways[0].edge.join:
            self._follow(found, ways[0])
            return
        inner = Conditions(self.places, self.faults, may_fault=True)
        for mover in ways:
            self._stand(inner, mover)
            self._follow(inner, mover)
        fails = any(self.faults.may_fault((one.edge.guard, one.edge.sync), one.names) for one in ways)
        found.depend(frozenset(inner.rest), fails)

    def _index_fault(self, sync: net.Sync, names: Names) -> bool:
        return self.faults.may_fault(sync.indices, names) or self.faults.indices_may_fault(
            sync.channel, sync.indices, names
        )

    def _value_fault(self, sync: net.Send, names: Names) -> bool:
        fields = self._channels[sync.channel].fields
        outside = (
            self.faults.may_leave(value, type_, names)
            for value, type_ in zip(sync.values, fields, strict=True)
        )
        return self.faults.may_fault(sync.values, names) or any(outside)

    def _may_fault(self, mover: Mover) -> bool:
        """Whether a test or an effect of the mover may fail."""
        edge, names = mover.edge, mover.names
        overflows = False
        match edge.sync:
            case net.Send(channel=name):
                overflows = self._channels[name].overflow_faults or self._value_fault(edge.sync, names)
                overflows |= self._index_fault(edge.sync, names)
            case net.Receive() | net.Meet():
                overflows = self._index_fault(edge.sync, names)
        tests = (edge.guard, edge.sync, edge.update)
        return overflows or self.faults.may_fault(tests, names) or not self.faults.starts_safely(edge)

    def _footprint(self, mover: Mover) -> Footprint:
        """What the mover may read and write, in its tests and in its effects."""
        edge, at = mover.edge, self.places.at
        found = self.places.footprint((edge.guard, edge.sync, edge.update), mover.names)
        moved = {at(mover.component)}
        found |= Footprint(frozenset(moved), frozenset(moved if edge.source != edge.target else ()))
        for name in (*edge.join, *edge.kill, *(fork.component for fork in edge.fork)):
            component = self.places.component(name)
            changed = self.places.own(self.network.components[component]) | {at(component)}
            found |= Footprint(changed, changed)
        return found | self._queue_footprint(mover)

    def _queue_footprint(self, mover: Mover) -> Footprint:
        sync = mover.edge.sync
        if sync is None or self._channels[sync.channel].kind is not net.ChannelKind.BUFFER:
            return Footprint()
        queues = self.places.queues(sync.channel, sync.indices, mover.names)
        heads, tails = (frozenset(map(end, queues)) for end in (self.places.head, self.places.tail))
        if isinstance(sync, net.Receive):
            return Footprint(heads, heads)
        # Where a full buffer is a fault, a receiver in between changes whether the send fails.
        faults = self._channels[sync.channel].overflow_faults
        return Footprint(heads if faults else frozenset(), tails)

    def _reaches(self, mover: Mover) -> list[tuple[int, int]]:
        """Where the mover puts components."""
        edge = mover.edge
        found = [(mover.component, self.places.location(mover.component, edge.target))]
        for fork in edge.fork:
            component = self.places.component(fork.component)
            start = fork.location or self.network.components[component].initial
            found.append((component, self.places.location(component, start)))
        for name in (*edge.join, *edge.kill):
            component = self.places.component(name)
            found.append((component, IDLE))
        return found


IDLE = -1
"""The number of the location of a component that is idle."""
