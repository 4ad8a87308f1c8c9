"""Emits LLVM code for clock constraints, which the zone search reads as words.

A bound `x_i - x_j <= c` or `< c` is one word: i from bit 48, j from bit 32, and below them the bound as in
a difference bound matrix, `2 * c + 1` or `2 * c`. In a timed kernel, each successor's row is followed by
one word per clock (the value that the step sets it to, or -1), then by the number of bounds that the step
requires, and the bounds. A failing action has the bounds that its movers had passed when it failed.

- `timing(row, out) -> flags`: writes the bounds of the clock invariants, preceded by their number; bit 0
  is set if a location lets no time pass; -1 if an invariant fails.
- `tests(row, number, out) -> count`: writes the bounds of the watched constraints, numbered as in
  `Watch.tests`; -1 if one fails.
- `places(row, out) -> 0`: writes each component's location as a number unique among all components, or -1
  for idle.
- `urgent(row, out_rows, out_actions, capacity) -> count`: writes the steps on urgent channels, ignoring
  the invariants of their targets.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from veristream.ir.actions import Action, Movement, edges_on, list_actions
from veristream.ir.clocks import NumberedClock, count_clocks, number_clocks
from veristream.ir.expr import ClockConstraint, ClockRef, Reset
from veristream.ir.network import Edge, LocationKind, Network, Receive, Send
from veristream.kernel.code import text as llvm
from veristream.kernel.values import (
    I64,
    WORDS,
    Model,
    Place,
    Value,
    at_any,
    constant,
    fault_if,
    load_slot,
    new_slot,
    truth,
    value,
)

NO_DELAY = 1
CLOCK_SHIFT, OTHER_SHIFT = 48, 32


def clock_word_count(network: Network) -> int:
    """Returns the number of words after each successor's row; 0 in an untimed network."""
    if not network.timed:
        return 0
    return count_clocks(network) + 1 + _bound_count_max(network)


def _bound_count_max(network: Network) -> int:
    return max((_bound_count(network, action) for action in list_actions(network)), default=0)


def _bound_count(network: Network, action: Action) -> int:
    """Returns the most bounds that the movers of an action can require together."""
    leader = network.components[action.leader].edges[action.edge]
    count = _bounds_of_edge(leader)
    if action.movement is Movement.PAIR:
        count += _bounds_of_edge(network.components[action.follower].edges[action.follower_edge])
    for component in action.others:
        assert isinstance(leader.sync, Send), "barriers have no part in timed networks"
        edges = network.components[component].edges
        receiving = edges_on(network, component, leader.sync.channel, Receive)
        count += max(_bounds_of_edge(edges[i]) for i in receiving)
    return count


def _bounds_of_edge(edge: Edge) -> int:
    return bound_count(edge.clock_guard)


def bound_count(constraints: Sequence[ClockConstraint]) -> int:
    """Returns the number of bounds that the constraints need."""
    return sum(2 if constraint.op == "==" else 1 for constraint in constraints)


def invariant_count_max(network: Network) -> int:
    """Returns the most bounds that all invariants of one state can need."""
    return sum(
        max((bound_count(place.clock_invariant) for place in component.locations), default=0)
        for component in network.components
    )


def bounds_of_step(model: Model, builder: Any, out: Value) -> Value:
    """Returns a pointer to a successor's bounds, which their number precedes."""
    at = model.layout.word_count + count_clocks(model.network)
    return builder.gep(out, constant(at))


def write_reset(place: Place, statement: Reset) -> None:
    """Records that the step sets a clock; faults if the value is negative."""
    builder = place.builder
    number = _clock_number(place, statement.clock)
    result = value(place, statement.value)
    fault_if(place, builder.icmp_signed("<", result, constant(0)))
    at = builder.add(number, constant(place.model.layout.word_count - 1))
    builder.store(result, builder.gep(place.state, at))


def write_bounds(place: Place, constraints: Sequence[ClockConstraint], out: Value) -> None:
    """Appends the constraints' bounds to those at `out`."""
    for constraint in constraints:
        after = place.builder.append_basic_block("bounded")
        if constraint.when is not None:
            demanded = place.builder.append_basic_block("demanded")
            place.builder.cbranch(truth(place, constraint.when), demanded, after)
            place.builder.position_at_end(demanded)
        _write_constraint(place, constraint, out)
        place.builder.branch(after)
        place.builder.position_at_end(after)


def _write_constraint(place: Place, constraint: ClockConstraint, out: Value) -> None:
    left = _clock_number(place, constraint.left)
    right = constant(0) if constraint.right is None else _clock_number(place, constraint.right)
    limit = value(place, constraint.bound)
    negated = place.builder.neg(limit)
    op = constraint.op
    if op in ("<", "<=", "=="):
        _append(place, (left, right, limit), op != "<", out)
    if op in (">", ">=", "=="):
        _append(place, (right, left, negated), op != ">", out)


def _append(place: Place, bound: tuple[Value, Value, Value], included: bool, out: Value) -> None:
    builder = place.builder
    left, right, limit = bound
    raw = builder.or_(builder.shl(limit, constant(1)), constant(int(included)))
    word = builder.and_(raw, constant(0xFFFFFFFF))
    word = builder.or_(word, builder.shl(left, constant(CLOCK_SHIFT)))
    word = builder.or_(word, builder.shl(right, constant(OTHER_SHIFT)))
    count = builder.add(builder.load(out), constant(1))
    builder.store(word, builder.gep(out, count))
    builder.store(count, out)


def _clock_number(place: Place, ref: ClockRef) -> Value:
    numbered: NumberedClock = number_clocks(place.model.network)[ref.clock]
    at = constant(0)
    for expr, size in zip(ref.indices, numbered.shape, strict=True):
        index = value(place, expr)
        fault_if(place, place.builder.icmp_unsigned(">=", index, constant(size)))
        at = place.builder.add(place.builder.mul(at, constant(size)), index)
    return place.builder.add(at, constant(numbered.first))


def emit_timing(module: Any, model: Model) -> None:
    code = llvm.Function(module, "timing", (WORDS, WORDS))
    builder, fault = _begin(code)
    row, out = code.args
    builder.store(constant(0), out)
    place = Place(model, builder, row, fault, {})
    flags = new_slot(place)
    builder.store(constant(0), flags)
    for number, component in enumerate(model.network.components):
        for at, location in enumerate(component.locations):
            still = location.kind in (LocationKind.URGENT, LocationKind.COMMITTED)
            if not still and not location.clock_invariant:
                continue
            here, after = builder.append_basic_block("here"), builder.append_basic_block("after")
            builder.cbranch(at_any(place, number, [at]), here, after)
            builder.position_at_end(here)
            if still:
                builder.store(constant(NO_DELAY), flags)
            write_bounds(place, location.clock_invariant, out)
            builder.branch(after)
            builder.position_at_end(after)
    builder.ret(builder.load(flags))


def emit_tests(module: Any, model: Model, tests: Sequence[Sequence[ClockConstraint]]) -> None:
    code = llvm.Function(module, "tests", (WORDS, I64, WORDS))
    builder, fault = _begin(code)
    row, number, out = code.args
    builder.store(constant(0), out)
    place = Place(model, builder, row, fault, {})
    last = builder.append_basic_block("last")
    switch = builder.switch(number, last)
    for position, constraints in enumerate(tests):
        block = builder.append_basic_block("test")
        switch.add_case(constant(position), block)
        builder.position_at_end(block)
        write_bounds(place, constraints, out)
        builder.branch(last)
    builder.position_at_end(last)
    builder.ret(builder.load(out))


def emit_places(module: Any, model: Model) -> None:
    code = llvm.Function(module, "places", (WORDS, WORDS))
    builder, fault = _begin(code)
    row, out = code.args
    place = Place(model, builder, row, fault, {})
    first = 0
    for number, component in enumerate(model.network.components):
        at = load_slot(place, model.layout.locations[number])
        idle = at_any(place, number, [model.layout.idle[number]])
        shown = builder.select(idle, constant(-1), builder.add(at, constant(first)))
        builder.store(shown, builder.gep(out, constant(number)))
        first += len(component.locations)
    builder.ret(constant(0))


def _begin(code: Any) -> tuple[Any, Any]:
    """Returns a builder at the function's first block of code, and a block that returns -1."""
    builder = llvm.Builder(code)
    fault, here = code.append_basic_block("fault"), code.append_basic_block("here")
    builder.branch(here)
    builder.position_at_end(fault)
    builder.ret(constant(-1))
    builder.position_at_end(here)
    return builder, fault
