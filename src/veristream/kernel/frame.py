"""State shared while the code of one component's steps is emitted."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any

from veristream.ir.actions import leaves_priority
from veristream.ir.expr import Type
from veristream.ir.network import Edge, LocationKind
from veristream.kernel.code import text as llvm
from veristream.kernel.shared import FAIL
from veristream.kernel.values import Model, Place, Stored, Value, at_any, constant, counting
from veristream.kernel.watch import ActionTest as ActionTest

FAULT = 1 << 63
COMMITTED_BIT, ATOMIC_BIT = 1, 2


@dataclass(frozen=True, slots=True)
class Frame:
    """The function of one component while it is emitted."""

    model: Model
    tests: tuple[ActionTest, ...]
    builder: Any
    row: Value
    out_rows: Value
    out_actions: Value
    capacity: Value
    priority: Value
    count: Value  # stack slot
    full: Any  # block that returns -1
    argument_count: int = 0  # words after a successor's row for the arguments of its label
    clock_words: int = 0  # words after a successor's row for its clocks
    tests_invariants: bool = True

    @property
    def stride(self) -> int:
        """The number of words from one successor to the next."""
        return self.model.layout.word_count + self.argument_count + self.clock_words


@dataclass(frozen=True, slots=True)
class Mover:
    """A component that moves along an edge, with the scope of that edge."""

    component: int
    edge: Edge
    place: Place


@dataclass(frozen=True, slots=True)
class Offer:
    """What the leader offers to its followers."""

    indices: tuple[Value, ...]
    values: tuple[Value, ...]


@contextmanager
def choosing(
    frame: Frame, index: int, edge: Edge, locals_: dict[str, Stored]
) -> Iterator[tuple[Place, Any]]:
    """Loops over the edge's selected values; yields the place inside and the block to continue at."""
    place = Place(frame.model, frame.builder, frame.row, frame.full, locals_)
    with ExitStack() as loops:
        for select in edge.select:
            _, counter = loops.enter_context(counting(place, select.low, select.high))
            place = place.with_local(select.name, Stored(counter, Type(select.low, select.high)))
        stop = frame.builder.append_basic_block("next")
        yield replace(place, fault=fault_block(frame, index, stop)), stop
        frame.builder.branch(stop)
        frame.builder.position_at_end(stop)


def fault_block(frame: Frame, index: int, stop: Any, keeps_bounds: bool = False) -> Any:
    """Returns a block that appends the failing action and continues; `keeps_bounds` says that its clock
    bounds have already been written."""
    builder = frame.builder
    block = builder.append_basic_block("fault")
    with builder.goto_block(block):
        entry, keeps = constant((FAULT | index) - (1 << 64)), constant(int(keeps_bounds))
        buffers = [frame.out_rows, frame.out_actions, builder.load(frame.count), frame.capacity]
        count = builder.call(frame.model.functions[FAIL], [*buffers, entry, keeps])
        builder.store(count, frame.count)
        builder.cbranch(builder.icmp_signed("<", count, constant(0)), frame.full, stop)
    return block


def next_row(frame: Frame) -> Value:
    """Returns a pointer to the next successor's row; branches to `full` if there is no room."""
    builder = frame.builder
    count = builder.load(frame.count)
    room = builder.append_basic_block("room")
    builder.cbranch(builder.icmp_signed("<", count, frame.capacity), room, frame.full)
    builder.position_at_end(room)
    return builder.gep(frame.out_rows, builder.mul(count, constant(frame.stride)))


def append_entry(frame: Frame, entry: Value) -> None:
    """Appends the next row, already written, as the successor or failure that the entry describes."""
    builder = frame.builder
    count = builder.load(frame.count)
    builder.store(entry, builder.gep(frame.out_actions, count))
    builder.store(builder.add(count, constant(1)), frame.count)


def unless(frame: Frame, condition: Value, skip: Any) -> None:
    """Continues only if the bit is set; otherwise branches to `skip`."""
    go_on = frame.builder.append_basic_block("so")
    frame.builder.cbranch(condition, go_on, skip)
    frame.builder.position_at_end(go_on)


def priority_of(frame: Frame, component: int, edge: int) -> int:
    network = frame.model.network
    committed = leaves_priority(network, component, edge, LocationKind.COMMITTED)
    atomic = leaves_priority(network, component, edge, LocationKind.ATOMIC)
    return COMMITTED_BIT * committed | ATOMIC_BIT * atomic


def require_priority(frame: Frame, bits: Value, static: int, skip: Any) -> None:
    """Continues only for a step that leaves a location of the kind that has priority now."""
    if static == COMMITTED_BIT | ATOMIC_BIT or not has_priorities(frame.model):
        return
    builder = frame.builder
    same = builder.and_(frame.priority, bits)
    unless(frame, builder.icmp_unsigned("==", same, frame.priority), skip)


def has_priorities(model: Model) -> bool:
    """Whether some location is committed or atomic."""
    special = (LocationKind.COMMITTED, LocationKind.ATOMIC)
    places = [place for c in model.network.components for place in c.locations]
    return any(place.kind in special for place in places)


def at_source(frame: Frame, component: int, edge: Edge) -> Value:
    place = Place(frame.model, frame.builder, frame.row, frame.full, {})
    locations = frame.model.network.components[component].locations
    numbers = [i for i, location in enumerate(locations) if location.name == edge.source]
    return at_any(place, component, numbers)


def joined(frame: Frame, edge: Edge) -> Value:
    """Whether every component that the edge joins is done."""
    place = Place(frame.model, frame.builder, frame.row, frame.full, {})
    done = llvm.TRUE
    for name in edge.join:
        component = frame.model.components[name]
        locations = frame.model.network.components[component].locations
        final = [i for i, location in enumerate(locations) if location.final]
        done = frame.builder.and_(done, at_any(place, component, final))
    return done
