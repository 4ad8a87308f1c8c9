"""Constants that the builder folds have the values that LLVM computes, and dead blocks are left out."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

from veristream.kernel.code.objects import Object, compile_text
from veristream.kernel.code.text import I64, POINTER, Builder, Function, Module, Value, constant

NUMBERS = (0, 1, -1, 63, -(1 << 63), (1 << 64) - 6, 0x123456789ABCDEF)
ORDERS = ("==", "!=", "<", "<=", ">", ">=")
Operation = Callable[[Builder, Value, Value], Value]


def _signed(op: str) -> Operation:
    return lambda b, x, y: b.zext(b.icmp_signed(op, x, y))


def _unsigned(op: str) -> Operation:
    return lambda b, x, y: b.zext(b.icmp_unsigned(op, x, y))


def _by_bit(b: Builder, x: Value, y: Value) -> Value:
    less, same = b.icmp_signed("<", x, y), b.icmp_unsigned("==", x, y)
    some = b.or_(b.and_(less, b.not_(same)), b.xor(less, same))
    return b.select(some, b.neg(x), b.not_(y))


OPERATIONS: list[Operation] = [
    *(Builder.add, Builder.sub, Builder.mul, Builder.and_, Builder.or_, Builder.xor),
    lambda b, x, y: b.shl(x, b.and_(y, constant(63))),
    lambda b, x, y: b.lshr(x, b.and_(y, constant(63))),
    lambda b, x, y: b.ashr(x, b.and_(y, constant(63))),
    *map(_signed, ORDERS),
    *map(_unsigned, ORDERS),
    _by_bit,
]


def test_folded_constants_are_what_the_processor_computes() -> None:
    pairs = [(x, y) for x in NUMBERS for y in NUMBERS]
    module = Module()
    function = Function(module, "compare", (POINTER, POINTER))
    builder = Builder(function)
    given, wrong = function.args
    difference = constant(0)
    for number, (x, y) in enumerate(pairs):
        a = builder.load(builder.gep(given, constant(2 * number)))
        b = builder.load(builder.gep(given, constant(2 * number + 1)))
        for operation in OPERATIONS:
            folded = operation(builder, constant(x), constant(y))
            for computed in (operation(builder, a, constant(y)), operation(builder, constant(x), b)):
                difference = builder.or_(difference, builder.xor(folded, computed))
            difference = builder.or_(difference, builder.xor(folded, operation(builder, a, b)))
    builder.store(difference, wrong)
    builder.ret(constant(len(pairs)))
    code = Object(compile_text(str(module)))
    words = [number % (1 << 64) for pair in pairs for number in pair]
    inputs, output = (ctypes.c_uint64 * len(words))(*words), ctypes.c_uint64(1)
    call = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p)(code.address("compare"))
    assert call(ctypes.addressof(inputs), ctypes.addressof(output)) == len(pairs)
    assert output.value == 0


def test_a_jump_that_is_certain_leaves_out_the_other_way() -> None:
    module = Module()
    function = Function(module, "chosen", (I64,))
    builder = Builder(function)
    then, otherwise = builder.append_basic_block("then"), builder.append_basic_block("else")
    after = builder.append_basic_block("after")
    builder.cbranch(builder.icmp_signed("<", constant(1), constant(2)), then, otherwise)
    for block in (then, otherwise):
        builder.position_at_end(block)
        builder.branch(after)
    builder.position_at_end(after)
    result = builder.phi(I64)
    result.add_incoming(constant(7), then)
    result.add_incoming(function.args[0], otherwise)
    builder.ret(result)
    text = str(module)
    assert "else" not in text and "br i1" not in text
    code = Object(compile_text(text))
    assert ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(code.address("chosen"))(3) == 7
