"""Emits the product of a Network and a Büchi automaton as another successor function.

A product row is a row with one more word, the automaton's state. The entry of a product step has the
action's index in its low 32 bits and the acceptance mask above them. A state without a step repeats forever
by the action `STUTTER`. So the product can be searched like any network.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from veristream.kernel.code import text as llvm
from veristream.kernel.frame import FAULT
from veristream.kernel.values import I64, WORDS, Value, constant
from veristream.kernel.watch import STUTTER, WATCH_FAILED, Monitor

_STATE_BITS = 0xFFFFFFFF
_ACTION_BITS = 0x7FFFFFFF00000000


def emit_product(
    module: Any, word_count: int, monitor: Monitor, successors: Value, propositions: Value
) -> None:
    """Emits `product`, which uses the second half of the caller's buffers for the Network's own steps."""
    code = llvm.Function(module, "product", (WORDS, WORDS, WORDS, I64))
    row, out_rows, out_actions, capacity = code.args
    builder = llvm.Builder(code)
    count, step, way = (builder.alloca() for _ in range(3))
    builder.store(constant(0), count)
    full = builder.append_basic_block("full")
    half = builder.lshr(capacity, constant(1))
    _require(builder, builder.icmp_signed(">", half, constant(0)), full)
    scratch = builder.gep(out_rows, builder.mul(half, constant(word_count + 1)))
    entries = builder.gep(out_actions, half)
    bits = _state_bits(builder, propositions, row, out_actions)
    room = builder.sub(capacity, half)
    found = builder.call(successors, [row, scratch, entries, room])
    _require(builder, builder.icmp_signed(">=", found, constant(0)), full)
    steps = _stutter_where_none(builder, row, scratch, entries, (word_count, found))
    with _each(builder, step, constant(0), steps) as index:
        entry = builder.load(builder.gep(entries, index))
        letter = builder.or_(bits, builder.and_(entry, constant(_ACTION_BITS)))
        source = builder.gep(scratch, builder.mul(index, constant(word_count)))
        out = _Output(out_rows, out_actions, count, half, full, word_count)
        _pass_fault(builder, entry, out)
        state = builder.load(builder.gep(row, constant(word_count)))
        first = _table(module, builder, "first", monitor.first, state)
        last = _table(module, builder, "first", monitor.first, builder.add(state, constant(1)))
        with _each(builder, way, first, last) as transition:
            positive = _table(module, builder, "positive", monitor.positive, transition)
            negative = _table(module, builder, "negative", monitor.negative, transition)
            has = builder.icmp_unsigned("==", builder.and_(letter, positive), positive)
            lacks = builder.icmp_unsigned("==", builder.and_(letter, negative), constant(0))
            with builder.if_then(builder.and_(has, lacks)):
                target = _table(module, builder, "target", monitor.target, transition)
                marks = _table(module, builder, "acceptance", monitor.acceptance, transition)
                _emit_step(builder, out, source, target, (entry, marks))
    builder.ret(builder.load(count))
    builder.position_at_end(full)
    builder.ret(constant(-1))


@dataclass(frozen=True, slots=True)
class _Output:
    rows: Value
    actions: Value
    count: Value
    capacity: Value
    full: Any
    word_count: int


def _require(builder: Any, condition: Value, otherwise: Any) -> None:
    go_on = builder.append_basic_block("so")
    builder.cbranch(condition, go_on, otherwise)
    builder.position_at_end(go_on)


def _state_bits(builder: Any, propositions: Value, row: Value, out_actions: Value) -> Value:
    """Returns the state propositions; if one fails, returns from `product` with one failing entry."""
    bits = builder.call(propositions, [row])
    with builder.if_then(builder.icmp_signed("<", bits, constant(0))):
        builder.store(constant((FAULT | WATCH_FAILED) - (1 << 64)), out_actions)
        builder.ret(constant(1))
        builder.position_at_end(builder.append_basic_block("unreachable"))
    return builder.and_(bits, constant(_STATE_BITS))


def _stutter_where_none(
    builder: Any, row: Value, scratch: Value, entries: Value, sizes: tuple[int, Value]
) -> Value:
    """Returns the number of steps, at least 1: a state without a step gets one to itself."""
    word_count, found = sizes
    none = builder.icmp_unsigned("==", found, constant(0))
    with builder.if_then(none):
        for word in range(word_count):
            at = constant(word)
            builder.store(builder.load(builder.gep(row, at)), builder.gep(scratch, at))
        builder.store(constant(STUTTER), entries)
    return builder.select(none, constant(1), found)


@contextmanager
def _each(builder: Any, counter: Value, first: Value, last: Value) -> Iterator[Value]:
    """Emits a loop from `first` to `last` - 1, possibly empty, around the code emitted inside."""
    builder.store(first, counter)
    head, after = builder.append_basic_block("each"), builder.append_basic_block("after")
    body = builder.append_basic_block("body")
    builder.branch(head)
    builder.position_at_end(head)
    index = builder.load(counter)
    builder.cbranch(builder.icmp_signed("<", index, last), body, after)
    builder.position_at_end(body)
    yield index
    builder.store(builder.add(builder.load(counter), constant(1)), counter)
    builder.branch(head)
    builder.position_at_end(after)


def _table(module: Any, builder: Any, name: str, content: tuple[int, ...], index: Value) -> Value:
    """Loads an element of a constant table, which is emitted once."""
    table = module.table(f"monitor.{name}", content or (0,))
    return builder.load(builder.gep(table, index))


def _pass_fault(builder: Any, entry: Value, out: _Output) -> None:
    """Lets a failing action fail in the product too: appends its entry and ends the list."""
    with builder.if_then(builder.icmp_signed("<", entry, constant(0))):
        count = builder.load(out.count)
        _require(builder, builder.icmp_signed("<", count, out.capacity), out.full)
        builder.store(entry, builder.gep(out.actions, count))
        builder.ret(builder.add(count, constant(1)))
        builder.position_at_end(builder.append_basic_block("unreachable"))


def _emit_step(
    builder: Any, out: _Output, source: Value, target: Value, marked: tuple[Value, Value]
) -> None:
    entry, marks = marked
    count = builder.load(out.count)
    _require(builder, builder.icmp_signed("<", count, out.capacity), out.full)
    row = builder.gep(out.rows, builder.mul(count, constant(out.word_count + 1)))
    for word in range(out.word_count):
        at = constant(word)
        builder.store(builder.load(builder.gep(source, at)), builder.gep(row, at))
    builder.store(target, builder.gep(row, constant(out.word_count)))
    action = builder.and_(entry, constant(STUTTER))
    marked_entry = builder.or_(action, builder.shl(marks, constant(32)))
    builder.store(marked_entry, builder.gep(out.actions, count))
    builder.store(builder.add(count, constant(1)), out.count)
