"""Emits the relation of a Network, which is everything that no property changes, as an LLVM module.

- `successors(row, out_rows, out_actions, capacity) -> count`: writes the steps of a state. An entry of
  `out_actions` has the action's index in its low 32 bits and the mask of action propositions above them;
  bit 63 marks an action that fails instead of stepping. Returns -1 if `capacity` does not suffice. If
  arguments are watched, each row is followed by those of its label, in the same number of words.
- `reduced`, `orbit`: see `symmetry`; only for networks with symmetries.
- `terminated(row) -> 0 or 1`: every component is idle or at a final location, or `terminal` holds.
- `timing`, `places`, `urgent`: see `clocks`; only for timed networks, whose successors also have words for
  their clocks.

`watched.emit` has the functions that depend on properties.
"""

from __future__ import annotations

from typing import Any

from veristream.errors import ModelError
from veristream.ir.actions import Action, count_ways, edges_on, list_actions
from veristream.ir.bounds import names_of
from veristream.ir.network import LocationKind, Meet, Network, Receive, Send
from veristream.kernel.blocks import callees_first, emit_function
from veristream.kernel.clocks import clock_word_count, emit_places, emit_timing
from veristream.kernel.code import text as llvm
from veristream.kernel.frame import ATOMIC_BIT, COMMITTED_BIT
from veristream.kernel.shared import emit_shared
from veristream.kernel.steps import STEP, Shape, emit_component
from veristream.kernel.symmetry import emit_symmetry
from veristream.kernel.values import (
    I64,
    WORDS,
    Model,
    Place,
    Value,
    at_any,
    constant,
    model_of,
    truth,
)
from veristream.kernel.watch import Inside

MOVES_MAX = 50_000
"""So many combinations of an action and an edge of one of its processes have code of their own."""


def emit(network: Network, inside: Inside) -> str:
    """Returns the module's text; `inside` is what its steps have to report about themselves."""
    assert not (network.timed and inside.argument_count), "clocks stand where arguments would"
    actions = list(enumerate(list_actions(network)))
    _check_size(network, actions)
    module = llvm.Module()
    model = model_of(network, names_of(network))
    clock_words = clock_word_count(network)
    emit_shared(module, model, model.layout.word_count + inside.argument_count + clock_words)
    for function in callees_first(network, (function.name for function in network.functions)):
        emit_function(module, model, function)
    shape = Shape(tests=inside.tests, argument_count=inside.argument_count, clock_words=clock_words)
    successors = _emit_successors(module, model, _emit_components(module, model, actions, shape))
    if network.symmetries:
        emit_symmetry(module, model, successors)
    _emit_terminated(module, model)
    if network.timed:
        emit_timing(module, model)
        emit_places(module, model)
        _emit_urgent(module, model, actions, clock_words)
    return str(module)


def _check_size(network: Network, actions: list[tuple[int, Action]]) -> None:
    """Raises ModelError if the code would take hours and all memory to compile."""
    followers: dict[tuple[str, int], int] = {}
    count = 0
    for _, action in actions:
        count += 1
        sync = network.components[action.leader].edges[action.edge].sync
        for component in action.others:
            assert sync is not None
            at = (sync.channel, component)
            if at not in followers:
                kind = Receive if isinstance(sync, Send) else Meet
                edges = network.components[component].edges
                mine = edges_on(network, component, sync.channel, kind)
                followers[at] = sum(count_ways(edges[i]) for i in mine)
            count += followers[at]
    if count > MOVES_MAX:
        raise ModelError(
            f"the model has {count:,} ways for its processes to move, which is too much code",
            network.span,
            f"the limit is {MOVES_MAX:,}; use fewer processes, or let fewer synchronise with each other",
        )


def _emit_components(
    module: Any, model: Model, actions: list[tuple[int, Action]], shape: Shape
) -> list[Value]:
    """Emits a function for each component that leads one of the actions."""
    codes = []
    for component in range(len(model.network.components)):
        mine = [(i, action) for i, action in actions if action.leader == component]
        if mine:
            codes.append(emit_component(module, model, component, mine, shape))
    return codes


def _emit_urgent(module: Any, model: Model, actions: list[tuple[int, Action]], clock_words: int) -> None:
    network = model.network
    urgent = {channel.name for channel in network.channels if channel.urgent}

    def is_urgent(action: Action) -> bool:
        sync = network.components[action.leader].edges[action.edge].sync
        return sync is not None and sync.channel in urgent

    chosen = [(i, action) for i, action in actions if is_urgent(action)]
    shape = Shape(name="urgent", clock_words=clock_words, tests_invariants=False)
    steps = _emit_components(module, model, chosen, shape)
    code = llvm.Function(module, "urgent", (WORDS, WORDS, WORDS, I64))
    builder = llvm.Builder(code)
    builder.ret(_run_all(builder, code, steps, constant(0)))


def _emit_successors(module: Any, model: Model, steps: list[Value]) -> Value:
    code = llvm.Function(module, "successors", (WORDS, WORDS, WORDS, I64))
    builder = llvm.Builder(code)
    row = code.args[0]
    committed = _any_at(model, builder, row, LocationKind.COMMITTED)
    first = builder.select(committed, constant(COMMITTED_BIT), constant(0))
    atomic = _any_at(model, builder, row, LocationKind.ATOMIC)
    urgent = builder.and_(atomic, builder.not_(committed))
    first = builder.select(urgent, constant(ATOMIC_BIT), first)
    count = _run_all(builder, code, steps, first)
    none = builder.icmp_unsigned("==", count, constant(0))
    again = builder.append_basic_block("again")
    done = builder.append_basic_block("done")
    builder.cbranch(builder.and_(urgent, none), again, done)
    builder.position_at_end(done)
    builder.ret(count)
    builder.position_at_end(again)
    builder.ret(_run_all(builder, code, steps, constant(0)))
    return code


def _any_at(model: Model, builder: Any, row: Value, kind: LocationKind) -> Value:
    place = Place(model, builder, row, None, {})
    found = llvm.FALSE
    for number, component in enumerate(model.network.components):
        numbers = [i for i, location in enumerate(component.locations) if location.kind is kind]
        if numbers:
            found = builder.or_(found, at_any(place, number, numbers))
    return found


def _run_all(builder: Any, code: Any, steps: list[Value], priority: Value) -> Value:
    """Calls every component's function in turn; returns from `code` when the buffers are full."""
    row, out_rows, out_actions, capacity = code.args
    count = constant(0)
    for step in steps:
        assert step.parameters == STEP
        count = builder.call(step, [row, out_rows, out_actions, count, capacity, priority])
        full, room = builder.append_basic_block("full"), builder.append_basic_block("room")
        builder.cbranch(builder.icmp_signed("<", count, constant(0)), full, room)
        builder.position_at_end(full)
        builder.ret(count)
        builder.position_at_end(room)
    return count


def _emit_terminated(module: Any, model: Model) -> None:
    code = llvm.Function(module, "terminated", (WORDS,))
    builder = llvm.Builder(code)
    place = Place(model, builder, code.args[0], None, {})
    all_done = llvm.TRUE
    for number, component in enumerate(model.network.components):
        final = [i for i, location in enumerate(component.locations) if location.final]
        idle = [model.layout.idle[number]]
        all_done = builder.and_(all_done, at_any(place, number, final + idle))
    if model.network.terminal is None:
        builder.ret(builder.zext(all_done))
        return
    fault = builder.append_basic_block("fault")
    terminal = truth(Place(model, builder, code.args[0], fault, {}), model.network.terminal)
    builder.ret(builder.zext(builder.or_(all_done, terminal)))
    builder.position_at_end(fault)  # a failing condition counts as false
    builder.ret(builder.zext(all_done))
