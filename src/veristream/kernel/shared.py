"""Emits functions shared by all steps of a kernel: repeating their code in every step compiles slowly.

- `fresh(row, out)`: copies the row to a successor's place; in a timed network, it also clears the clock
  values and the number of bounds.
- `fail(out_rows, out_actions, count, capacity, entry, keeps) -> count`: appends a failing action, keeping
  the bounds already written if `keeps` is set; -1 if there is no room.
"""

from __future__ import annotations

from typing import Any

from veristream.ir.clocks import count_clocks
from veristream.kernel.code import text as llvm
from veristream.kernel.values import I64, WORDS, Model, Value, constant

FEW = 4
"""Rows of at most this many words are copied inline."""


def emit_shared(module: Any, model: Model, stride: int) -> None:
    """Emits the functions; `stride` is the number of words from one successor to the next."""
    model.functions[FRESH] = _emit_fresh(module, model)
    model.functions[FAIL] = _emit_fail(module, model, stride)


FRESH, FAIL = "<fresh>", "<fail>"


def copy_row(model: Model, builder: Any, row: Value, out: Value) -> None:
    """Starts a successor as a copy of the row."""
    if model.network.timed or model.layout.word_count > FEW:
        builder.call(model.functions[FRESH], [row, out])
    else:
        _copy_words(model, builder, row, out)


def _copy_words(model: Model, builder: Any, row: Value, out: Value) -> None:
    for word in range(model.layout.word_count):
        at = constant(word)
        builder.store(builder.load(builder.gep(row, at)), builder.gep(out, at))


def _emit_fresh(module: Any, model: Model) -> Value:
    code = llvm.Function(
        module, "fresh", (WORDS, WORDS), internal=True, result=llvm.VOID, apart=2, inline=False
    )
    builder = llvm.Builder(code)
    row, out = code.args
    _copy_words(model, builder, row, out)
    if model.network.timed:
        _begin_clocks(model, builder, out)
    builder.ret_void()
    return code


def _begin_clocks(model: Model, builder: Any, out: Value) -> None:
    first = model.layout.word_count
    clocks = count_clocks(model.network)
    for offset in range(clocks):
        builder.store(constant(-1), builder.gep(out, constant(first + offset)))
    builder.store(constant(0), builder.gep(out, constant(first + clocks)))


def _emit_fail(module: Any, model: Model, stride: int) -> Value:
    parameters = (WORDS, WORDS, I64, I64, I64, I64)
    code = llvm.Function(module, "fail", parameters, internal=True, inline=False)
    out_rows, out_actions, count, capacity, entry, keeps = code.args
    builder = llvm.Builder(code)
    room, full = code.append_basic_block("room"), code.append_basic_block("full")
    builder.cbranch(builder.icmp_signed("<", count, capacity), room, full)
    builder.position_at_end(room)
    if model.network.timed:
        out = builder.gep(out_rows, builder.mul(count, constant(stride)))
        with builder.if_then(builder.icmp_unsigned("==", keeps, constant(0))):
            _begin_clocks(model, builder, out)
    builder.store(entry, builder.gep(out_actions, count))
    builder.ret(builder.add(count, constant(1)))
    builder.position_at_end(full)
    builder.ret(constant(-1))
    return code
