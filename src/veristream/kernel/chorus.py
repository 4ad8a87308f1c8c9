"""Emits LLVM code for the followers of a broadcast or barrier, each of which may have several alternatives.

The code first computes a bit mask of enabled alternatives for each follower. An odometer over the masks
then visits every combination. A selected value that is an index of the follower's channel is no choice: the
leader says it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from veristream.ir.actions import Action, Movement, can_agree, edges_on, given_selects, ways
from veristream.ir.expr import Type
from veristream.ir.network import Bind, Edge, Meet, Receive
from veristream.kernel.code import text as llvm
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

WORD = 64
"""So many alternatives share a word of a mask."""


@dataclass(frozen=True, slots=True)
class Alternative:
    """An edge by which a component can follow a broadcast or barrier, with those of its selected values
    that its channel does not determine."""

    edge: Edge
    chosen: dict[str, int]
    priority: int


Ways = tuple[Alternative, ...]
Words = tuple[Value, ...]
"""Stack slots with one bit for each alternative of a component."""


@dataclass(frozen=True, slots=True)
class Chorus:
    """The followers of a broadcast or barrier: the alternatives of each, and words whose first set bit is
    the current one (no bit set: the component does not follow)."""

    components: tuple[int, ...]
    alternatives: tuple[Ways, ...]
    turns: tuple[Words, ...]
    offer: Offer


def alternatives(frame: Frame, action: Action, component: int) -> Ways:
    """Returns the alternatives of a component, without those whose channel is another one in any case."""
    kind = Receive if action.movement is Movement.BROADCAST else Meet
    leader = frame.model.network.components[action.leader].edges[action.edge]
    assert leader.sync is not None
    edges = frame.model.network.components[component].edges
    return tuple(
        Alternative(edges[i], chosen, priority_of(frame, component, i))
        for i in edges_on(frame.model.network, component, leader.sync.channel, kind)
        if _can_follow(leader, edges[i])
        for chosen in ways(edges[i])
    )


def has_choice(mine: Ways) -> bool:
    """Returns whether several alternatives of a component may be enabled at once."""
    return len({way.edge.source for way in mine}) < len(mine)


def _can_follow(leader: Edge, follower: Edge) -> bool:
    assert leader.sync is not None and follower.sync is not None
    return can_agree(leader.sync.indices, follower.sync.indices)


def _scope(frame: Frame, place: Place, way: Alternative, offer: Offer) -> Place:
    """Returns the follower's scope with its selected values: constants, or what the channel says."""
    place, given = replace(place, locals={}), given_selects(way.edge)
    for select in way.edge.select:
        pointer = new_slot(place)
        if select.name in given:
            frame.builder.store(_given_value(frame, offer, *given[select.name]), pointer)
        else:
            frame.builder.store(constant(way.chosen[select.name]), pointer)
        type_ = Type(select.low, select.high)
        place = place.with_local(select.name, Stored(pointer, type_))
    return place


def _given_value(frame: Frame, offer: Offer, position: int, more: int) -> Value:
    return frame.builder.add(offer.indices[position], constant(more))


def _require_given(frame: Frame, way: Alternative, offer: Offer, stop: Any) -> None:
    """Continues only if the leader's channel gives every selected value within its range."""
    given = given_selects(way.edge)
    for select in way.edge.select:
        if select.name in given:
            chosen = _given_value(frame, offer, *given[select.name])
            unless(frame, frame.builder.icmp_signed(">=", chosen, constant(select.low)), stop)
            unless(frame, frame.builder.icmp_signed("<=", chosen, constant(select.high)), stop)


def enabled_masks(frame: Frame, place: Place, component: int, mine: Ways, offer: Offer) -> Words:
    """Returns words with a bit for each alternative that is enabled before the step."""
    builder = frame.builder
    masks = tuple(new_slot(place) for _ in _chunks(mine))
    for mask, chunk in zip(masks, _chunks(mine), strict=True):
        builder.store(constant(0), mask)
        for bit, way in enumerate(chunk):
            stop = builder.append_basic_block("not")
            unless(frame, at_source(frame, component, way.edge), stop)
            unless(frame, joined(frame, way.edge), stop)
            _require_given(frame, way, offer, stop)
            follow(frame, _scope(frame, place, way, offer), way.edge, offer, stop)
            builder.store(builder.or_(builder.load(mask), _bit(bit)), mask)
            builder.branch(stop)
            builder.position_at_end(stop)
    return masks


def _chunks(mine: Ways) -> list[Ways]:
    """Splits the alternatives into those of each word; there is always a first word."""
    return [mine[i : i + WORD] for i in range(0, max(len(mine), 1), WORD)]


def _bit(number: int) -> Value:
    return constant((1 << number) - (1 << 64) if number == 63 else 1 << number)


def any_of(frame: Frame, words: Words) -> Value:
    """Returns whether any bit of the words is set."""
    together = frame.builder.load(words[0])
    for word in words[1:]:
        together = frame.builder.or_(together, frame.builder.load(word))
    return frame.builder.icmp_unsigned("!=", together, constant(0))


def next_turn(frame: Frame, turns: Words) -> Value:
    """Clears the first set bit of the words; returns whether one is left."""
    builder = frame.builder
    if len(turns) == 1:
        now = builder.load(turns[0])
        left = builder.and_(now, builder.sub(now, constant(1)))
        builder.store(left, turns[0])
        return builder.icmp_unsigned("!=", left, constant(0))
    for turn, is_first in zip(turns, _none_before(frame, turns), strict=True):
        now = builder.load(turn)
        left = builder.and_(now, builder.sub(now, constant(1)))
        builder.store(builder.select(is_first, left, now), turn)
    return any_of(frame, turns)


def _none_before(frame: Frame, turns: Words) -> list[Value]:
    """Returns for each word whether all words before it are empty."""
    found, none = [], llvm.TRUE
    for turn in turns:
        found.append(none)
        empty = frame.builder.icmp_unsigned("==", frame.builder.load(turn), constant(0))
        none = frame.builder.and_(none, empty)
    return found


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
    builder = frame.builder
    bits = new_slot(Place(frame.model, builder, frame.row, frame.full, {}))
    builder.store(constant(static), bits)
    for mine, turns in zip(chorus.alternatives, chorus.turns, strict=True):
        first = _none_before(frame, turns) if len(turns) > 1 else [llvm.TRUE]
        for chunk, turn, is_first in zip(_chunks(mine), turns, first, strict=True):
            lowest = _lowest(frame, turn)
            for bit, way in enumerate(chunk):
                is_now = builder.and_(is_first, builder.icmp_unsigned("==", lowest, _bit(bit)))
                more = builder.select(is_now, constant(way.priority), constant(0))
                builder.store(builder.or_(builder.load(bits), more), bits)
    return builder.load(bits)


def _lowest(frame: Frame, turn: Value) -> Value:
    now = frame.builder.load(turn)
    return frame.builder.and_(now, frame.builder.neg(now))


def each_singer(
    frame: Frame, chorus: Chorus, position: int, place: Place, run: Callable[[Mover], None]
) -> None:
    """Emits code that runs `run` with the follower's current alternative, if it has one."""
    builder = frame.builder
    after = builder.append_basic_block("sung")
    turns, chunks = chorus.turns[position], _chunks(chorus.alternatives[position])
    for number, (turn, chunk) in enumerate(zip(turns, chunks, strict=True), start=1):
        beyond = after if number == len(turns) else builder.append_basic_block("beyond")
        switch = builder.switch(_lowest(frame, turn), beyond)
        for bit, way in enumerate(chunk):
            block = builder.append_basic_block("voice")
            switch.add_case(_bit(bit), block)
            builder.position_at_end(block)
            scope = _scope(frame, place, way, chorus.offer)
            scope = _receive_again(frame, scope, way.edge, chorus.offer)
            run(Mover(chorus.components[position], way.edge, scope))
            builder.branch(after)
        builder.position_at_end(beyond)


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
