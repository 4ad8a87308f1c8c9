"""The `primitives` as Numba compiles them: intrinsics, which are inlined into the loop that uses them.

Only `build` imports this module: a process whose loops are all compiled does without Numba.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir as llvm
from numba import extending, types

I8, I16, I32, I64 = llvm.IntType(8), llvm.IntType(16), llvm.IntType(32), llvm.IntType(64)

intrinsic: Any = extending.intrinsic  # a type checker sees no signature on what it makes

Build = Callable[[Any, list[Any]], Any]


def _signature(count: int) -> Any:
    return types.int64(*[types.int64] * count)


def _code(build: Build) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: list[Any]) -> Any:
        return build(builder, args)

    return codegen


def _call(builder: Any, args: list[Any]) -> Any:
    address, *rest = args
    function = llvm.FunctionType(I64, [I64] * len(rest))
    return builder.call(builder.inttoptr(address, function.as_pointer()), rest)


def _cell(builder: Any, address: Any, kind: Any = I64) -> Any:
    return builder.inttoptr(address, kind.as_pointer())


@intrinsic
def call_1(typing: Any, address: Any, a: Any) -> Any:
    """Calls a native function of one argument."""
    return _signature(2), _code(_call)


@intrinsic
def call_2(typing: Any, address: Any, a: Any, b: Any) -> Any:
    """Calls a native function of two arguments."""
    return _signature(3), _code(_call)


@intrinsic
def call_3(typing: Any, address: Any, a: Any, b: Any, c: Any) -> Any:
    """Calls a native function of three arguments."""
    return _signature(4), _code(_call)


@intrinsic
def call_4(typing: Any, address: Any, a: Any, b: Any, c: Any, d: Any) -> Any:
    """Calls a native function of four arguments."""
    return _signature(5), _code(_call)


@intrinsic
def load_word(typing: Any, address: Any) -> Any:
    """Loads the 64-bit word at the address."""
    return _signature(1), _code(lambda builder, args: builder.load(_cell(builder, args[0])))


@intrinsic
def store_word(typing: Any, address: Any, value: Any) -> Any:
    """Stores a 64-bit word and returns it."""

    def build(builder: Any, args: list[Any]) -> Any:
        builder.store(args[1], _cell(builder, args[0]))
        return args[1]

    return _signature(2), _code(build)


@intrinsic
def load_loose(typing: Any, address: Any) -> Any:
    """Loads the 64-bit word at an address that need not be a multiple of 8."""
    return _signature(1), _code(lambda builder, args: builder.load(_cell(builder, args[0]), align=1))


@intrinsic
def store_loose(typing: Any, address: Any, value: Any) -> Any:
    """Stores a 64-bit word at an address that need not be a multiple of 8; returns it."""

    def build(builder: Any, args: list[Any]) -> Any:
        builder.store(args[1], _cell(builder, args[0]), align=1)
        return args[1]

    return _signature(2), _code(build)


@intrinsic
def load_half(typing: Any, address: Any) -> Any:
    """Loads the unsigned 32-bit number at the address."""

    def build(builder: Any, args: list[Any]) -> Any:
        return builder.zext(builder.load(_cell(builder, args[0], I32)), I64)

    return _signature(1), _code(build)


@intrinsic
def store_half(typing: Any, address: Any, value: Any) -> Any:
    """Stores the low 32 bits; returns the value."""

    def build(builder: Any, args: list[Any]) -> Any:
        builder.store(builder.trunc(args[1], I32), _cell(builder, args[0], I32))
        return args[1]

    return _signature(2), _code(build)


@intrinsic
def load_short(typing: Any, address: Any) -> Any:
    """Loads the unsigned 16-bit number at the address."""

    def build(builder: Any, args: list[Any]) -> Any:
        return builder.zext(builder.load(_cell(builder, args[0], I16)), I64)

    return _signature(1), _code(build)


@intrinsic
def store_short(typing: Any, address: Any, value: Any) -> Any:
    """Stores the low 16 bits; returns the value."""

    def build(builder: Any, args: list[Any]) -> Any:
        builder.store(builder.trunc(args[1], I16), _cell(builder, args[0], I16))
        return args[1]

    return _signature(2), _code(build)


def _item(builder: Any, args: list[Any], kind: Any) -> Any:
    return builder.gep(_cell(builder, args[0], kind), [args[1]])


@intrinsic
def word_at(typing: Any, address: Any, index: Any) -> Any:
    """Loads an item of an array of 64-bit words."""
    return _signature(2), _code(lambda builder, args: builder.load(_item(builder, args, I64)))


@intrinsic
def set_word(typing: Any, address: Any, index: Any, value: Any) -> Any:
    """Stores an item of an array of 64-bit words and returns it."""

    def build(builder: Any, args: list[Any]) -> Any:
        builder.store(args[2], _item(builder, args, I64))
        return args[2]

    return _signature(3), _code(build)


@intrinsic
def half_at(typing: Any, address: Any, index: Any) -> Any:
    """Loads an item of an array of unsigned 32-bit numbers."""

    def build(builder: Any, args: list[Any]) -> Any:
        return builder.zext(builder.load(_item(builder, args, I32)), I64)

    return _signature(2), _code(build)


@intrinsic
def set_half(typing: Any, address: Any, index: Any, value: Any) -> Any:
    """Stores the low 32 bits as an item of an array; returns the value."""

    def build(builder: Any, args: list[Any]) -> Any:
        builder.store(builder.trunc(args[2], I32), _item(builder, args, I32))
        return args[2]

    return _signature(3), _code(build)


@intrinsic
def claim(typing: Any, address: Any, value: Any) -> Any:
    """Stores the value if the word is 0, after all earlier writes; returns the previous word."""

    def build(builder: Any, args: list[Any]) -> Any:
        zero = llvm.Constant(I64, 0)
        pair = builder.cmpxchg(_cell(builder, args[0]), zero, args[1], "acq_rel", "acquire")
        return builder.extract_value(pair, 0)

    return _signature(2), _code(build)


@intrinsic
def load_shared_half(typing: Any, address: Any) -> Any:
    """Loads an unsigned 32-bit number and makes visible what was written before it was stored (acquire)."""

    def build(builder: Any, args: list[Any]) -> Any:
        return builder.zext(builder.load_atomic(_cell(builder, args[0], I32), "acquire", 4), I64)

    return _signature(1), _code(build)


@intrinsic
def claim_half(typing: Any, address: Any, value: Any) -> Any:
    """Stores the low 32 bits as `claim` stores a word; returns the previous number, unsigned."""

    def build(builder: Any, args: list[Any]) -> Any:
        zero, value = llvm.Constant(I32, 0), builder.trunc(args[1], I32)
        pair = builder.cmpxchg(_cell(builder, args[0], I32), zero, value, "acq_rel", "acquire")
        return builder.zext(builder.extract_value(pair, 0), I64)

    return _signature(2), _code(build)


@intrinsic
def fetch_add(typing: Any, address: Any, value: Any) -> Any:
    """Atomically adds to the word; returns the previous word."""

    def build(builder: Any, args: list[Any]) -> Any:
        return builder.atomic_rmw("add", _cell(builder, args[0]), args[1], "monotonic")

    return _signature(2), _code(build)


@intrinsic
def prefetch(typing: Any, address: Any) -> Any:
    """Prefetches the cache line at the address; returns the address."""

    def build(builder: Any, args: list[Any]) -> Any:
        pointer = _cell(builder, args[0], I8)
        kind = llvm.FunctionType(llvm.VoidType(), [I8.as_pointer(), I32, I32, I32])
        function = builder.module.declare_intrinsic("llvm.prefetch", [I8.as_pointer()], kind)
        builder.call(function, [pointer] + [llvm.Constant(I32, n) for n in (1, 3, 1)])
        return args[0]

    return _signature(1), _code(build)


@intrinsic
def lowest_bit(typing: Any, word: Any) -> Any:
    """The position of the lowest bit that is set; 64 if none is."""

    def build(builder: Any, args: list[Any]) -> Any:
        return builder.cttz(args[0], llvm.Constant(llvm.IntType(1), 0))

    return _signature(1), _code(build)


@intrinsic
def count_bits(typing: Any, word: Any) -> Any:
    """How many bits are set."""
    return _signature(1), _code(lambda builder, args: builder.ctpop(args[0]))
