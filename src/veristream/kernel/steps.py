"""Emits LLVM code for the actions that one component leads.

Each component becomes a function that appends the successors of a row to the caller's buffers:
`(row, out_rows, out_actions, count, capacity, priority) -> count`, or -1 if the buffers are full.
It evaluates the tests in the order that `ir.network` defines.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from veristream.ir.actions import Action, Movement
from veristream.ir.network import ChannelKind, Receive, Send
from veristream.ir.property import Occurs, Silent
from veristream.kernel.blocks import run_block
from veristream.kernel.chorus import (
    Chorus,
    alternatives,
    any_of,
    chorus_priority,
    each_singer,
    enabled_masks,
    has_choice,
    next_turn,
    possible_priority,
)
from veristream.kernel.clocks import bounds_of_step, write_bounds
from veristream.kernel.code import text as llvm
from veristream.kernel.effects import (
    check_invariants,
    move,
    pop_message,
    push_message,
    start_components,
    stop_components,
)
from veristream.kernel.frame import (
    ActionTest,
    Frame,
    Mover,
    Offer,
    append_entry,
    at_source,
    choosing,
    fault_block,
    joined,
    next_row,
    priority_of,
    require_priority,
    unless,
)
from veristream.kernel.shared import copy_row
from veristream.kernel.sync import accept, channel_of, follow, lead, sent, test_guard
from veristream.kernel.values import (
    I64,
    WORDS,
    Model,
    Place,
    Value,
    checked_indices,
    constant,
    fault_if,
    flatten,
    load_slot,
    message_part,
    new_slot,
    truth,
    value,
)

ACTION_BITS = 32
STEP = (WORDS, WORDS, WORDS, I64, I64, I64)


@dataclass(frozen=True, slots=True)
class Shape:
    """A variant of the component functions: the prefix of their names, and what they report per step."""

    name: str = "step"
    tests: tuple[ActionTest, ...] = ()
    argument_count: int = 0
    clock_words: int = 0
    tests_invariants: bool = True


def emit_component(
    module: Any,
    model: Model,
    component: int,
    actions: list[tuple[int, Action]],
    shape: Shape,
) -> Value:
    """Emits a function for the actions that the component leads, with a branch for each location."""
    code = llvm.Function(module, f"{shape.name}.{component}", STEP, internal=True, apart=3)
    builder = llvm.Builder(code)
    full, done = code.append_basic_block("full"), code.append_basic_block("done")
    count = builder.alloca()
    builder.store(code.args[3], count)
    row, out_rows, out_actions, _, capacity, priority = code.args
    frame = Frame(
        *(model, shape.tests, builder, row, out_rows, out_actions, capacity, priority, count, full),
        argument_count=shape.argument_count,
        clock_words=shape.clock_words,
        tests_invariants=shape.tests_invariants,
    )
    here = builder.append_basic_block("here")
    builder.branch(here)
    builder.position_at_end(here)
    place = Place(model, builder, row, full, {})
    switch = builder.switch(load_slot(place, model.layout.locations[component]), done)
    edges = model.network.components[component].edges
    for number, location in enumerate(model.network.components[component].locations):
        leaving = [(i, a) for i, a in actions if edges[a.edge].source == location.name]
        if leaving:
            block = builder.append_basic_block(f"at.{number}")
            switch.add_case(constant(number), block)
            builder.position_at_end(block)
            for index, action in leaving:
                _emit_action(frame, index, action)
            builder.branch(done)
    builder.position_at_end(full)
    builder.ret(constant(-1))
    builder.position_at_end(done)
    builder.ret(builder.load(count))
    return code


def _emit_action(frame: Frame, index: int, action: Action) -> None:
    edge = frame.model.network.components[action.leader].edges[action.edge]
    skip = frame.builder.append_basic_block("skip")
    priority = priority_of(frame, action.leader, action.edge)
    if action.movement is Movement.PAIR:
        priority |= priority_of(frame, action.follower, action.follower_edge)
    bits = constant(priority)
    if action.movement in (Movement.BROADCAST, Movement.BARRIER):
        bits = possible_priority(frame, action, priority)
    require_priority(frame, bits, priority, skip)
    unless(frame, joined(frame, edge), skip)
    if action.movement is Movement.PAIR:
        _require_follower(frame, action, skip)
    with choosing(frame, index, edge, {}) as (place, stop):
        leader = Mover(action.leader, edge, place)
        match action.movement:
            case Movement.ALONE:
                _alone(frame, index, action, leader, stop)
            case Movement.PAIR:
                _pair(frame, index, action, leader, stop)
            case Movement.BROADCAST | Movement.BARRIER:
                _together(frame, index, action, leader, (priority, stop))
    frame.builder.branch(skip)
    frame.builder.position_at_end(skip)


def _require_follower(frame: Frame, action: Action, skip: Any) -> None:
    edge = frame.model.network.components[action.follower].edges[action.follower_edge]
    unless(frame, at_source(frame, action.follower, edge), skip)
    unless(frame, joined(frame, edge), skip)


def _alone(frame: Frame, index: int, action: Action, leader: Mover, stop: Any) -> None:
    match leader.edge.sync:
        case Send(channel=name):
            test_guard(frame, leader.place, leader.edge, stop)
            indices = checked_indices(leader.place, name, leader.edge.sync.indices)
            at = flatten(leader.place, name, indices)
            slots = frame.model.layout.queues[name]
            length = load_slot(leader.place, slots.length, at)
            full = frame.builder.icmp_unsigned("==", length, constant(slots.capacity))
            if channel_of(frame, name).overflow_faults:
                fault_if(leader.place, full)
            else:
                unless(frame, frame.builder.not_(full), stop)
            offer = Offer(indices, sent(leader.place, channel_of(frame, name), leader.edge.sync))
            _produce(frame, index, action, [leader], stop, offer=offer)
        case Receive(channel=name):
            indices = checked_indices(leader.place, name, leader.edge.sync.indices)
            at = flatten(leader.place, name, indices)
            slots = frame.model.layout.queues[name]
            length = load_slot(leader.place, slots.length, at)
            unless(frame, frame.builder.icmp_unsigned("!=", length, constant(0)), stop)
            message = tuple(message_part(leader.place, part, at, constant(0)) for part in slots.parts)
            place = accept(frame, leader.place, leader.edge, message, stop)
            mover = replace(leader, place=place)
            _produce(frame, index, action, [mover], stop, offer=Offer(indices, ()))
        case _:
            test_guard(frame, leader.place, leader.edge, stop)
            _produce(frame, index, action, [leader], stop)


def _pair(frame: Frame, index: int, action: Action, leader: Mover, stop: Any) -> None:
    offer = lead(frame, leader, stop)
    edge = frame.model.network.components[action.follower].edges[action.follower_edge]
    with choosing(frame, index, edge, {}) as (place, inner):
        place = follow(frame, place, edge, offer, inner)
        _produce(frame, index, action, [leader, Mover(action.follower, edge, place)], inner)


def _together(frame: Frame, index: int, action: Action, leader: Mover, rest: tuple[int, Any]) -> None:
    """Emits a broadcast or barrier: visits every combination of one alternative per follower."""
    priority, stop = rest
    builder = frame.builder
    offer = lead(frame, leader, stop)
    ways = tuple(alternatives(frame, action, c) for c in action.others)
    masks = []
    for component, mine in zip(action.others, ways, strict=True):
        mask = enabled_masks(frame, leader.place, component, mine, offer)
        if action.movement is Movement.BARRIER:
            unless(frame, any_of(frame, mask), stop)
        masks.append(mask)
    turns = tuple(
        tuple(new_slot(leader.place) for _ in mask) if has_choice(mine) else mask
        for mine, mask in zip(ways, masks, strict=True)
    )
    wheels = [(turn, mask) for turn, mask in zip(turns, masks, strict=True) if turn is not mask]
    for turn, mask in wheels:
        for word, full in zip(turn, mask, strict=True):
            builder.store(builder.load(full), word)
    again, advance = builder.append_basic_block("again"), builder.append_basic_block("advance")
    builder.branch(again)
    builder.position_at_end(again)
    chorus = Chorus(action.others, ways, turns, offer)
    bits = chorus_priority(frame, chorus, priority)
    require_priority(frame, bits, priority, advance)
    inner = replace(leader, place=replace(leader.place, fault=fault_block(frame, index, advance)))
    _produce(frame, index, action, [inner], advance, chorus=chorus)
    builder.branch(advance)
    builder.position_at_end(advance)
    for turn, mask in reversed(wheels):
        carry = builder.append_basic_block("carry")
        builder.cbranch(next_turn(frame, turn), again, carry)
        builder.position_at_end(carry)
        for word, full in zip(turn, mask, strict=True):
            builder.store(builder.load(full), word)


def _produce(
    frame: Frame,
    index: int,
    action: Action,
    movers: list[Mover],
    stop: Any,
    offer: Offer | None = None,
    chorus: Chorus | None = None,
) -> None:
    """Appends the successor or the failing action; nothing if an invariant does not hold."""
    builder = frame.builder
    out = next_row(frame)
    copy_row(frame.model, builder, frame.row, out)
    fault = movers[0].place.fault
    if frame.clock_words:
        _demand(frame, movers, chorus, out)
        fault = fault_block(frame, index, stop, keeps_bounds=True)
    after = [replace(m, place=replace(m.place, state=out, fault=fault)) for m in movers]
    for phase in (_move, _stop, _start, _update):
        for mover in after:
            phase(mover)
        if chorus is not None:
            for position in range(len(chorus.components)):
                each_singer(frame, chorus, position, after[0].place, phase)
        if phase is _move and offer is not None:
            _buffer(frame, after[0], offer)
    if frame.tests_invariants:
        check_invariants(after[0].place, stop)
    mask = _action_mask(frame, action, movers, out)
    append_entry(frame, builder.or_(builder.shl(mask, constant(ACTION_BITS)), constant(index)))


def _demand(frame: Frame, movers: list[Mover], chorus: Chorus | None, out: Value) -> None:
    """Writes the bounds of all movers' clock guards, evaluated in the state before the step."""
    bounds = bounds_of_step(frame.model, frame.builder, out)

    def demand(mover: Mover) -> None:
        write_bounds(mover.place, mover.edge.clock_guard, bounds)

    for mover in movers:
        demand(mover)
    for position in range(len(chorus.components) if chorus is not None else 0):
        assert chorus is not None
        each_singer(frame, chorus, position, movers[0].place, demand)


def _move(mover: Mover) -> None:
    move(mover.place, mover.component, mover.edge)


def _stop(mover: Mover) -> None:
    stop_components(mover.place, mover.edge.join + mover.edge.kill)


def _start(mover: Mover) -> None:
    start_components(mover.place, mover.edge.fork)


def _update(mover: Mover) -> None:
    run_block(mover.place, mover.edge.update)


def _buffer(frame: Frame, mover: Mover, offer: Offer) -> None:
    match mover.edge.sync:
        case Send(channel=name) if channel_of(frame, name).kind is ChannelKind.BUFFER:
            at = flatten(mover.place, name, offer.indices)
            push_message(mover.place, name, at, offer.values)
        case Receive(channel=name):
            pop_message(mover.place, name, flatten(mover.place, name, offer.indices))
        case _:
            pass


def _action_mask(frame: Frame, action: Action, movers: list[Mover], out: Value) -> Value:
    """The bits of the action propositions that are true of this step."""
    builder = frame.builder
    scope = movers[1 if action.label_of_follower else 0].place
    place = replace(scope, state=frame.row, fault=movers[0].place.fault)
    arguments = [value(place, argument) for argument in action.label.arguments]
    for position, argument in enumerate(arguments[: frame.argument_count]):
        at = constant(frame.model.layout.word_count + position)
        builder.store(argument, builder.gep(out, at))
    mask = constant(0)
    for bit, test in enumerate(frame.tests):
        match test:
            case Silent():
                holds = llvm.bit(not action.visible)
            case Occurs():
                holds = _occurs(frame, test, action, arguments)
            case _:
                bare = replace(place, locals={}, primed=out)
                holds = truth(bare, test)
        mask = builder.or_(mask, builder.shl(builder.zext(holds), constant(bit)))
    return mask


def _occurs(frame: Frame, test: Occurs, action: Action, arguments: list[Value]) -> Value:
    if test.name != action.label.name:
        return llvm.FALSE
    if test.arguments is None:
        return llvm.TRUE
    if len(test.arguments) != len(arguments):
        return llvm.FALSE
    holds = llvm.TRUE
    for wanted, argument in zip(test.arguments, arguments, strict=True):
        if wanted is not None:
            same = frame.builder.icmp_signed("==", argument, constant(wanted))
            holds = frame.builder.and_(holds, same)
    return holds
