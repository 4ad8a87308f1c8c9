"""Emits LLVM code for the followers of a broadcast or barrier, each of which may have several alternatives.

The code first computes a bit mask of enabled alternatives for each follower. An odometer over the masks
then visits every combination.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from veristream.ir.actions import Action, Movement, choices, edges_on
from veristream.ir.expr import Type
from veristream.ir.network import Bind, Edge, Meet, Receive
from veristream.kernel.frame import (
    Frame,
    Mover,
    Offer,
    at_source,
    has_priorities,
    joined,
    priority_of,
    unless,
)
from veristream.kernel.sync import channel_of, follow
from veristream.kernel.values import Place, Stored, Value, constant, new_slot


@dataclass(frozen=True, slots=True)
class Alternative:
    """An edge, with selected values, by which a component can follow a broadcast or barrier."""

    edge: Edge
    chosen: dict[str, int]
    priority: int


@dataclass(frozen=True, slots=True)
class Chorus:
    """The followers of a broadcast or barrier: the alternatives of each, and a stack slot whose lowest set
    bit is the current one (no bit set: the component does not follow)."""

    components: tuple[int, ...]
    alternatives: tuple[tuple[Alternative, ...], ...]
    turns: tuple[Value, ...]
    offer: Offer


def alternatives(frame: Frame, action: Action, component: int) -> tuple[Alternative, ...]:
    kind = Receive if action.movement is Movement.BROADCAST else Meet
    leader = frame.model.network.components[action.leader].edges[action.edge]
    assert leader.sync is not None
    edges = frame.model.network.components[component].edges
    found = tuple(
        Alternative(edges[i], chosen, priority_of(frame, component, i))
        for i in edges_on(frame.model.network, component, leader.sync.channel, kind)
        for chosen in choices(edges[i])
    )
    assert len(found) <= 64, "verify bounds the ways to receive a broadcast"
    return found


def _scope(frame: Frame, place: Place, way: Alternative) -> Place:
    """Returns the follower's scope with its selected values, which are constants here."""
    place = replace(place, locals={})
    for select in way.edge.select:
        pointer = new_slot(place)
        frame.builder.store(constant(way.chosen[select.name]), pointer)
        type_ = Type(select.low, select.high)
        place = place.with_local(select.name, Stored(pointer, type_))
    return place


def enabled_mask(
    frame: Frame, place: Place, component: int, ways: tuple[Alternative, ...], offer: Offer
) -> Value:
    """Returns a stack slot with the bit mask of the alternatives that are enabled before the step."""
    builder = frame.builder
    mask = new_slot(place)
    builder.store(constant(0), mask)
    for bit, way in enumerate(ways):
        stop = builder.append_basic_block("not")
        unless(frame, at_source(frame, component, way.edge), stop)
        unless(frame, joined(frame, way.edge), stop)
        follow(frame, _scope(frame, place, way), way.edge, offer, stop)
        builder.store(builder.or_(builder.load(mask), _bit(bit)), mask)
        builder.branch(stop)
        builder.position_at_end(stop)
    return mask


def _bit(number: int) -> Value:
    return constant((1 << number) - (1 << 64) if number == 63 else 1 << number)


def possible_priority(frame: Frame, action: Action, static: int) -> Value:
    """Returns the priorities that the step can have, given the locations of possible followers."""
    bits = constant(static)
    if not has_priorities(frame.model):
        return bits
    for component in action.others:
        for way in alternatives(frame, action, component):
            if way.priority:
                here = at_source(frame, component, way.edge)
                more = frame.builder.select(here, constant(way.priority), constant(0))
                bits = frame.builder.or_(bits, more)
    return bits


def chorus_priority(frame: Frame, chorus: Chorus, static: int) -> Value:
    if not has_priorities(frame.model):
        return constant(static)
    bits = new_slot(Place(frame.model, frame.builder, frame.row, frame.full, {}))
    frame.builder.store(constant(static), bits)
    for ways, turn in zip(chorus.alternatives, chorus.turns, strict=True):
        lowest = _lowest(frame, turn)
        for bit, way in enumerate(ways):
            mine = frame.builder.icmp_unsigned("==", lowest, _bit(bit))
            more = frame.builder.select(mine, constant(way.priority), constant(0))
            frame.builder.store(frame.builder.or_(frame.builder.load(bits), more), bits)
    return frame.builder.load(bits)


def _lowest(frame: Frame, turn: Value) -> Value:
    now = frame.builder.load(turn)
    return frame.builder.and_(now, frame.builder.neg(now))


@contextmanager
def each_singer(frame: Frame, chorus: Chorus, position: int, place: Place) -> Iterator[Any]:
    """Yields a function that emits code for the follower's current alternative."""
    builder = frame.builder
    lowest = _lowest(frame, chorus.turns[position])
    after = builder.append_basic_block("sung")
    switch = builder.switch(lowest, after)

    def each(run: Any) -> None:
        for bit, way in enumerate(chorus.alternatives[position]):
            block = builder.append_basic_block("voice")
            switch.add_case(_bit(bit), block)
            builder.position_at_end(block)
            scope = _receive_again(frame, _scope(frame, place, way), way.edge, chorus.offer)
            run(Mover(chorus.components[position], way.edge, scope))
            builder.branch(after)

    yield each
    builder.position_at_end(after)


def _receive_again(frame: Frame, place: Place, edge: Edge, offer: Offer) -> Place:
    """Returns the place with the received names, for a follower that has passed its tests."""
    if not isinstance(edge.sync, Receive):
        return place
    fields = channel_of(frame, edge.sync.channel).fields
    for pattern, type_, part in zip(edge.sync.patterns, fields, offer.values, strict=True):
        if isinstance(pattern, Bind):
            pointer = new_slot(place)
            frame.builder.store(part, pointer)
            place = place.with_local(pattern.name, Stored(pointer, type_))
    return place
