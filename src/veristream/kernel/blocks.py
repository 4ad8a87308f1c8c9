"""Emits LLVM code for statements and for the model's functions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from veristream.ir import expr as ir
from veristream.ir.network import Function, Network
from veristream.ir.walk import walk
from veristream.kernel.clocks import write_reset
from veristream.kernel.code import text as llvm
from veristream.kernel.values import (
    I64,
    WORDS,
    Model,
    Place,
    Stored,
    Value,
    constant,
    counting,
    fault_if,
    flat_index,
    local_pointer,
    new_slot,
    require_range,
    store_slot,
    truth,
    value,
)


@dataclass(frozen=True, slots=True)
class Exit:
    """Where `return` leads in a function: the result slot, its type and the last block."""

    result: Value
    type: ir.Type
    block: Any


def run_block(place: Place, block: ir.Block, leave: Exit | None = None) -> Place:
    """Emits the statements in order; returns the place with the locals that they declare."""
    for statement in block:
        place = _statement(place, statement, leave)
    return place


def _statement(place: Place, statement: ir.Statement, leave: Exit | None) -> Place:
    match statement:
        case ir.Assign(target=target):
            _assign(place, target, statement)
        case ir.Let(name=name):
            return place.with_local(name, _declare(place, statement))
        case ir.If():
            _if(place, statement, leave)
        case ir.While():
            _while(place, statement, leave)
        case ir.For(name=name, low=low, high=high, body=body):
            with counting(place, low, high) as (inside, counter):
                run_block(inside.with_local(name, Stored(counter, ir.Type(low, high))), body, leave)
        case ir.Return(value=expr):
            assert leave is not None, "verify lets no return through outside functions"
            result = value(place, expr)
            require_range(place, result, expr, leave.type.low, leave.type.high)
            place.builder.store(result, leave.result)
            place.builder.branch(leave.block)
            place.builder.position_at_end(place.builder.append_basic_block("unreachable"))
        case ir.Evaluate(value=expr):
            value(place, expr)
        case ir.Check(condition=condition):
            fault_if(place, place.builder.not_(truth(place, condition)))
        case ir.Reset():
            write_reset(place, statement)
    return place


def _assign(place: Place, target: ir.Load | ir.Local, statement: ir.Assign) -> None:
    result = value(place, statement.value)
    if isinstance(target, ir.Local):
        pointer = local_pointer(place, target)
        type_ = place.locals[target.name].type
        require_range(place, result, statement.value, type_.low, type_.high)
        place.builder.store(result, pointer)
        return
    index = flat_index(place, target.variable, target.indices)
    type_ = place.model.names.variables[target.variable]
    require_range(place, result, statement.value, type_.low, type_.high)
    slot = place.model.layout.variables[target.variable]
    store_slot(place, slot, place.builder.sub(result, constant(slot.low)), index)


def _declare(place: Place, statement: ir.Let) -> Stored:
    result = value(place, statement.value)
    require_range(place, result, statement.value, statement.type.low, statement.type.high)
    pointer = new_slot(place, statement.size)
    if statement.size is None:
        place.builder.store(result, pointer)
    else:
        with counting(place, 0, statement.size - 1) as (inside, counter):
            index = inside.builder.load(counter)
            inside.builder.store(result, inside.builder.gep(pointer, index))
    return Stored(pointer, statement.type, statement.size)


def _if(place: Place, statement: ir.If, leave: Exit | None) -> None:
    builder = place.builder
    then, otherwise = builder.append_basic_block("then"), builder.append_basic_block("else")
    after = builder.append_basic_block("endif")
    builder.cbranch(truth(place, statement.condition), then, otherwise)
    for block, body in ((then, statement.then), (otherwise, statement.otherwise)):
        builder.position_at_end(block)
        run_block(place, body, leave)
        builder.branch(after)
    builder.position_at_end(after)


def _while(place: Place, statement: ir.While, leave: Exit | None) -> None:
    builder = place.builder
    rounds = new_slot(place)
    builder.store(constant(0), rounds)
    head, body = builder.append_basic_block("while"), builder.append_basic_block("body")
    after = builder.append_basic_block("endwhile")
    builder.branch(head)
    builder.position_at_end(head)
    builder.cbranch(truth(place, statement.condition), body, after)
    builder.position_at_end(body)
    count = builder.load(rounds)
    fault_if(place, builder.icmp_unsigned(">=", count, constant(statement.limit)))
    builder.store(builder.add(count, constant(1)), rounds)
    run_block(place, statement.body, leave)
    builder.branch(head)
    builder.position_at_end(after)


def callees_first(network: Network, names: Iterable[str]) -> list[Function]:
    """Returns the named functions and all that they call, each after those that it calls."""
    functions = {function.name: function for function in network.functions}
    ordered: dict[str, Function] = {}

    def visit(name: str) -> None:
        if name not in ordered:
            for node in walk(functions[name].body):
                if isinstance(node, ir.Call):
                    visit(node.function)
            ordered[name] = functions[name]

    for name in names:
        visit(name)
    return list(ordered.values())


def emit_function(module: Any, model: Model, function: Function) -> None:
    """Emits a function of the model: (state, fault flag, arguments...) -> result."""
    parameters = (WORDS, WORDS, *[I64] * len(function.parameters))
    code = llvm.Function(module, f"model.{function.name}", parameters, internal=True)
    builder = llvm.Builder(code)
    fault, last = code.append_basic_block("fault"), code.append_basic_block("last")
    place = Place(model, builder, code.args[0], fault, {})
    result = new_slot(place)
    builder.store(constant(0), result)
    for parameter, argument in zip(function.parameters, code.args[2:], strict=True):
        pointer = new_slot(place)
        builder.store(argument, pointer)
        place = place.with_local(parameter.name, Stored(pointer, parameter.type))
    run_block(place, function.body, Exit(result, function.result, last))
    builder.branch(last if function.result.low <= 0 <= function.result.high else fault)
    builder.position_at_end(fault)
    builder.store(constant(1), code.args[1])
    builder.branch(last)
    builder.position_at_end(last)
    builder.ret(builder.load(result))
    model.functions[function.name] = code
