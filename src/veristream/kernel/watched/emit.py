"""Emits what is watched as an LLVM module that belongs to the relation of a network.

- `propositions(row) -> mask` of the state propositions; bit 63 is set if one of them fails.
- `measure(row, number) -> value` of an expression whose minimum or maximum a property asks for.
- `tests`: see `clocks`; only for timed networks.
- `successors`, `reduced`: the relation's, with action propositions and arguments, if these are watched.
- `product(row, out_rows, out_actions, capacity) -> count`: see `product`; only with a monitor.
- `relation`: addresses of the relation's `successors` and `orbit`, which the loader writes.
"""

from __future__ import annotations

from typing import Any

from veristream.ir.bounds import names_of
from veristream.ir.expr import Call, Expr
from veristream.ir.network import Network
from veristream.ir.walk import walk
from veristream.kernel.blocks import callees_first, emit_function
from veristream.kernel.clocks import emit_tests
from veristream.kernel.code import text as llvm
from veristream.kernel.frame import FAULT
from veristream.kernel.product import emit_product
from veristream.kernel.symmetry import emit_reduced
from veristream.kernel.values import I64, WORDS, Model, Place, Value, constant, model_of, truth, value
from veristream.kernel.watch import LINKS, Inside, Watch
from veristream.kernel.watched.steps import emit_reported

MEASURE_FAULT = -(1 << 63)
"""What `measure` returns for an expression that fails; `verify` excludes it as a value."""


def emit_watched(network: Network, watch: Watch, inside: Inside) -> str:
    """Returns the module's text; `inside` is what the relation already reports."""
    plain = watch.monitor is None and not network.symmetries
    assert plain or not watch.argument_count, "products and symmetry know nothing of arguments"
    module = llvm.Module()
    model = model_of(network, names_of(network))
    watched = (watch.states, watch.premises, watch.actions, watch.measures, watch.tests)
    called = [node.function for node in walk(watched) if isinstance(node, Call)]
    for function in callees_first(network, called):
        emit_function(module, model, function)
    propositions = _emit_propositions(module, model, watch)
    _emit_measure(module, model, watch.measures)
    if network.timed:
        emit_tests(module, model, watch.tests)
    module.table(LINKS, (0, 0), variable=True)
    successors = _emit_link(module, 0, (WORDS, WORDS, WORDS, I64))
    if watch.shows_steps:
        successors = emit_reported(module, model, watch, inside, successors)
        if network.symmetries:
            emit_reduced(module, model, successors, _emit_link(module, 1, (WORDS,)))
    if watch.monitor is not None:
        emit_product(module, model.layout.word_count, watch.monitor, successors, propositions)
    return str(module)


def _emit_link(module: Any, position: int, parameters: tuple[str, ...]) -> Value:
    """Emits a function that calls the one whose address the table has."""
    code = llvm.Function(module, f"link.{position}", parameters, internal=True)
    builder = llvm.Builder(code)
    address = builder.load(builder.gep(module.table(LINKS, (0, 0), variable=True), constant(position)))
    builder.ret(builder.call(builder.inttoptr(address), code.args))
    return code


def _emit_propositions(module: Any, model: Model, watch: Watch) -> Value:
    code = llvm.Function(module, "propositions", (WORDS,))
    builder = llvm.Builder(code)
    mask = builder.alloca()
    builder.store(constant(0), mask)
    body = builder.append_basic_block("body")
    builder.branch(body)
    builder.position_at_end(body)
    for bit, expr in enumerate(watch.states + watch.premises):
        fault, after = builder.append_basic_block("fault"), builder.append_basic_block("after")
        place = Place(model, builder, code.args[0], fault, {})
        holds = builder.shl(builder.zext(truth(place, expr)), constant(bit))
        builder.store(builder.or_(builder.load(mask), holds), mask)
        builder.branch(after)
        builder.position_at_end(fault)
        if bit < len(watch.states):
            failed = constant(FAULT - (1 << 64))
            builder.store(builder.or_(builder.load(mask), failed), mask)
        builder.branch(after)
        builder.position_at_end(after)
    builder.ret(builder.load(mask))
    return code


def _emit_measure(module: Any, model: Model, measures: tuple[Expr, ...]) -> None:
    code = llvm.Function(module, "measure", (WORDS, I64))
    builder = llvm.Builder(code)
    last = builder.append_basic_block("last")
    here = builder.append_basic_block("here")
    builder.branch(here)
    builder.position_at_end(here)
    switch = builder.switch(code.args[1], last)
    for number, expr in enumerate(measures):
        block = builder.append_basic_block("measure")
        switch.add_case(constant(number), block)
        builder.position_at_end(block)
        builder.ret(value(Place(model, builder, code.args[0], last, {}), expr))
    builder.position_at_end(last)
    builder.ret(constant(MEASURE_FAULT))
