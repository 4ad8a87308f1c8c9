"""Emits `successors` for those who watch actions: the relation's steps, with more about each of them.

The relation writes its steps into the caller's buffers. A second pass, from the last step to the first,
adds the mask of action propositions to each entry, and moves rows apart if arguments follow them. A
proposition that fails makes its step a failing action.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from veristream.ir.actions import Action, list_actions
from veristream.ir.property import Occurs, Silent
from veristream.kernel.code import text as llvm
from veristream.kernel.frame import FAULT
from veristream.kernel.steps import ACTION_BITS
from veristream.kernel.values import (
    I64,
    WORDS,
    Model,
    Place,
    Value,
    constant,
    counting,
    new_slot,
    truth,
)
from veristream.kernel.watch import Inside, Watch
from veristream.kernel.watched.inside import decide
from veristream.kernel.watched.labels import arguments_of

_INDEX = (1 << ACTION_BITS) - 1


@dataclass(frozen=True, slots=True)
class _Pass:
    """The second pass over the steps while it is emitted."""

    model: Model
    watch: Watch
    inside: Inside
    actions: tuple[Action, ...]
    builder: Any
    row: Value
    fault: Any  # the block that makes the current step fail

    @property
    def spread(self) -> int:
        """The number of words that are added after each row."""
        return self.watch.argument_count - self.inside.argument_count


def emit_reported(module: Any, model: Model, watch: Watch, inside: Inside, relation: Value) -> Value:
    """Emits the function around the relation's."""
    code = llvm.Function(module, "successors", (WORDS, WORDS, WORDS, I64))
    builder = llvm.Builder(code)
    row, out_rows, out_actions, _ = code.args
    counter = builder.alloca()
    begin = builder.append_basic_block("begin")
    builder.branch(begin)
    builder.position_at_end(begin)
    found = builder.call(relation, list(code.args))
    builder.store(found, counter)
    head, body = builder.append_basic_block("head"), builder.append_basic_block("body")
    done, fault = builder.append_basic_block("done"), builder.append_basic_block("fault")
    builder.branch(head)
    builder.position_at_end(head)
    left = builder.load(counter)
    builder.cbranch(builder.icmp_signed(">", left, constant(0)), body, done)
    builder.position_at_end(done)
    builder.ret(found)
    builder.position_at_end(body)
    index = builder.sub(left, constant(1))
    builder.store(index, counter)
    at = builder.gep(out_actions, index)
    entry = builder.load(at)
    step = builder.append_basic_block("step")
    builder.cbranch(builder.icmp_signed("<", entry, constant(0)), head, step)
    builder.position_at_end(step)
    pass_ = _Pass(model, watch, inside, list_actions(model.network), builder, row, fault)
    number = builder.and_(entry, constant(_INDEX))
    out = _place_row(pass_, out_rows, index)
    shifted = builder.shl(_emit_tests(pass_, entry, number, out), constant(ACTION_BITS))
    builder.store(builder.or_(number, shifted), at)
    builder.branch(head)
    builder.position_at_end(fault)
    builder.store(builder.or_(number, constant(FAULT - (1 << 64))), at)
    builder.branch(head)
    return code


def _place_row(pass_: _Pass, out_rows: Value, index: Value) -> Value:
    """Returns a pointer to the step's row, after moving it to where its arguments have room."""
    builder, words = pass_.builder, pass_.model.layout.word_count
    narrow = words + pass_.inside.argument_count
    source = builder.gep(out_rows, builder.mul(index, constant(narrow)))
    if not pass_.spread:
        return source
    out = builder.gep(out_rows, builder.mul(index, constant(narrow + pass_.spread)))
    place = Place(pass_.model, builder, pass_.row, pass_.fault, {})
    with counting(place, 0, narrow - 1) as (_, counter):  # from the last word: the places overlap
        word = builder.sub(constant(narrow - 1), builder.load(counter))
        builder.store(builder.load(builder.gep(source, word)), builder.gep(out, word))
    return out


def _emit_tests(pass_: _Pass, entry: Value, number: Value, out: Value) -> Value:
    """Writes the arguments of the step's label; returns the mask of the action propositions."""
    builder, watch = pass_.builder, pass_.watch
    before = Place(pass_.model, builder, pass_.row, pass_.fault, {})
    mask = new_slot(before)
    builder.store(_known(pass_, number), mask)
    for bit, test in enumerate(watch.actions):
        if test in pass_.inside.tests:
            position = ACTION_BITS + pass_.inside.tests.index(test)
            holds = builder.and_(builder.lshr(entry, constant(position)), constant(1))
        elif isinstance(test, Occurs | Silent):
            continue
        else:
            holds = builder.zext(truth(replace(before, primed=out), test))
        _set_bit(builder, mask, bit, holds)
    _emit_arguments(pass_, before, (number, out, mask))
    return builder.load(mask)


def _set_bit(builder: Any, mask: Value, bit: int, holds: Value) -> None:
    builder.store(builder.or_(builder.load(mask), builder.shl(holds, constant(bit))), mask)


def _known(pass_: _Pass, number: Value) -> Value:
    """The bits of the tests that hold of every step of the action: a table has them."""
    lines = [
        sum(1 << bit for bit, test in enumerate(pass_.watch.actions) if decide(test, action))
        for action in pass_.actions
    ]
    if not any(lines):
        return constant(0)
    table = pass_.builder.module.table("known", lines)
    return pass_.builder.load(pass_.builder.gep(table, number))


def _emit_arguments(pass_: _Pass, before: Place, step: tuple[Value, Value, Value]) -> None:
    """Emits a case for each action whose arguments are stored or compared."""
    builder, (number, out, mask) = pass_.builder, step
    last = builder.append_basic_block("last")
    switch = builder.switch(number, last)
    for index, action in enumerate(pass_.actions):
        open_ = [
            (bit, test)
            for bit, test in enumerate(pass_.watch.actions)
            if isinstance(test, Occurs) and test not in pass_.inside.tests and decide(test, action) is None
        ]
        if not open_ and not (pass_.spread and action.label.arguments):
            continue
        block = builder.append_basic_block("action")
        switch.add_case(constant(index), block)
        builder.position_at_end(block)
        arguments = arguments_of(before, action)
        for position, argument in enumerate(arguments[: pass_.spread]):
            at = constant(pass_.model.layout.word_count + position)
            builder.store(argument, builder.gep(out, at))
        for bit, test in open_:
            _set_bit(builder, mask, bit, builder.zext(_equal(builder, test, arguments)))
        builder.branch(last)
    builder.position_at_end(last)


def _equal(builder: Any, test: Occurs, arguments: list[Value]) -> Value:
    """Whether the arguments are those that the test asks for."""
    holds = llvm.TRUE
    for wanted, argument in zip(test.arguments or (), arguments, strict=True):
        if wanted is not None:
            holds = builder.and_(holds, builder.icmp_signed("==", argument, constant(wanted)))
    return holds
