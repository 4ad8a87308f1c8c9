"""Emits LLVM code for the effects of a step besides its updates: moves, queues, forks, invariants."""

from __future__ import annotations

from typing import Any

from veristream.ir.network import Component, Edge, Fork
from veristream.ir.state import start_location
from veristream.kernel.layout import QueuePart
from veristream.kernel.values import (
    Place,
    Value,
    at_any,
    constant,
    fault_if,
    load_slot,
    store_slot,
    truth,
)


def move(place: Place, component: int, edge: Edge) -> None:
    """Puts the component at the edge's target."""
    locations = place.model.network.components[component].locations
    target = next(i for i, location in enumerate(locations) if location.name == edge.target)
    store_slot(place, place.model.layout.locations[component], constant(target))


def stop_components(place: Place, names: tuple[str, ...]) -> None:
    """Makes the components idle and resets their variables."""
    for name in names:
        number = place.model.components[name]
        idle = place.model.layout.idle[number]
        store_slot(place, place.model.layout.locations[number], constant(idle))
        _reset_variables(place, place.model.network.components[number])


def start_components(place: Place, forks: tuple[Fork, ...]) -> None:
    """Starts idle components; faults if one is not idle."""
    for fork in forks:
        number = place.model.components[fork.component]
        component = place.model.network.components[number]
        idle = at_any(place, number, [place.model.layout.idle[number]])
        fault_if(place, place.builder.not_(idle))
        start = start_location(component, fork.location)
        store_slot(place, place.model.layout.locations[number], constant(start))
        _reset_variables(place, component)


def _reset_variables(place: Place, component: Component) -> None:
    for variable in component.variables:
        slot = place.model.layout.variables[variable.name]
        for index, initial in enumerate(variable.initial):
            store_slot(place, slot, constant(initial - slot.low), constant(index))


def push_message(place: Place, channel: str, index: Value | None, values: tuple[Value, ...]) -> None:
    """Appends a message to a queue that has room."""
    slots = place.model.layout.queues[channel]
    length = load_slot(place, slots.length, index)
    for part, sent in zip(slots.parts, values, strict=True):
        _push_part(place, part, index, length, sent)
    store_slot(place, slots.length, place.builder.add(length, constant(1)), index)


def _push_part(place: Place, part: QueuePart, index: Value | None, length: Value, sent: Value) -> None:
    if part.width == 0:
        return
    builder = place.builder
    stored = builder.sub(sent, constant(part.low))
    for number, chunk in enumerate(part.chunks):
        offset = builder.sub(length, constant(number * part.per_chunk))
        bit = builder.and_(builder.mul(offset, constant(part.width)), constant(63))
        added = builder.shl(stored, bit)
        if len(part.chunks) > 1:
            inside = builder.icmp_unsigned("<", offset, constant(part.per_chunk))
            added = builder.select(inside, added, constant(0))
        store_slot(place, chunk, builder.or_(load_slot(place, chunk, index), added), index)


def pop_message(place: Place, channel: str, index: Value | None) -> None:
    """Removes the oldest message from a queue that is not empty."""
    slots = place.model.layout.queues[channel]
    builder = place.builder
    length = load_slot(place, slots.length, index)
    store_slot(place, slots.length, builder.sub(length, constant(1)), index)
    for part in slots.parts:
        if part.width == 0:
            continue
        packed = [load_slot(place, chunk, index) for chunk in part.chunks]
        packed.append(constant(0))
        first_bits = constant((1 << part.width) - 1)
        for number, chunk in enumerate(part.chunks):
            rest = constant(0) if part.width == 64 else builder.lshr(packed[number], constant(part.width))
            moved_in = builder.and_(packed[number + 1], first_bits)
            top = constant((part.per_chunk - 1) * part.width)
            store_slot(place, chunk, builder.or_(rest, builder.shl(moved_in, top)), index)


def check_invariants(place: Place, stop: Any) -> None:
    """Continues only if the invariants of all current locations hold."""
    builder = place.builder
    for number, component in enumerate(place.model.network.components):
        for location_number, location in enumerate(component.locations):
            if location.invariant is None:
                continue
            here, after = builder.append_basic_block("bound"), builder.append_basic_block("free")
            builder.cbranch(at_any(place, number, [location_number]), here, after)
            builder.position_at_end(here)
            bare = Place(place.model, builder, place.state, place.fault, {})
            builder.cbranch(truth(bare, location.invariant), after, stop)
            builder.position_at_end(after)
