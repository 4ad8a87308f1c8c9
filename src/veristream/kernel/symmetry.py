"""Emits LLVM code for symmetry: the canonical row of an orbit, and the orbit's size.

`permute(from, to, moves)` writes the row with its instances renamed; `moves` is a line of a constant table
with a number for each instance of each symmetry. `canonicalise(row)` replaces a row by the least of its
images; `orbit(row)` counts the distinct ones. `reduced` is `successors` with canonical rows. `ir.symmetry`
defines what a permutation means.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from math import prod
from typing import Any

from veristream.ir.network import Sorted, SymmetricValues, SymmetricVariable, Symmetry
from veristream.ir.symmetry import list_permutations
from veristream.kernel.code import text as llvm
from veristream.kernel.values import (
    I64,
    WORDS,
    Model,
    Place,
    Value,
    constant,
    counting,
    load_slot,
    new_slot,
    store_slot,
)


def emit_symmetry(module: Any, model: Model, successors: Value) -> None:
    """Emits `reduced` and `orbit`; only for networks with symmetries."""
    permute = _emit_permute(module, model)
    table, count = _emit_table(module, model)
    canonicalise = _emit_images(module, model, permute, (table, count))
    emit_reduced(module, model, successors, canonicalise)


def _emit_table(module: Any, model: Model) -> tuple[Value, int]:
    lines = [
        [move for symmetry in model.network.symmetries for move in line[symmetry.name]]
        for line in list_permutations(model.network)
    ]
    return module.table("symmetry.moves", [move for line in lines for move in line]), len(lines)


def _function(module: Any, name: str, parameters: int, exported: bool = True) -> tuple[Any, Any]:
    code = llvm.Function(module, name, (WORDS,) * parameters, internal=not exported)
    builder = llvm.Builder(code)
    body = builder.append_basic_block("body")
    builder.branch(body)
    builder.position_at_end(body)
    return code, builder


def _emit_permute(module: Any, model: Model) -> Any:
    code, builder = _function(module, "symmetry.permute", 3, exported=False)
    source = Place(model, builder, code.args[0], None, {})
    target = replace(source, state=code.args[1])
    _copy_row(model, builder, code.args[0], code.args[1])
    first = 0
    for symmetry in model.network.symmetries:
        moves = builder.gep(code.args[2], constant(first))
        # A variable may belong to several symmetries: each is applied to the result of the one before.
        for variable in symmetry.variables:
            _move_variable(source, target, symmetry, variable, moves)
        first += symmetry.size
        if symmetry is not model.network.symmetries[-1]:
            scratch = _row_slot(model, source)
            _copy_row(model, builder, code.args[1], scratch)
            source = replace(source, state=scratch)
    for bag in model.network.bags:
        _sort_bag(target, bag)
    builder.ret(constant(0))
    return code


def _row_slot(model: Model, place: Place) -> Value:
    return new_slot(place, model.layout.word_count)


def _copy_row(model: Model, builder: Any, source: Value, target: Value) -> None:
    for word in range(model.layout.word_count):
        at = constant(word)
        builder.store(builder.load(builder.gep(source, at)), builder.gep(target, at))


def _move_variable(
    source: Place, target: Place, symmetry: Symmetry, variable: SymmetricVariable, moves: Value
) -> None:
    builder = source.builder
    slot = source.model.layout.variables[variable.variable]
    shape = source.model.shapes[variable.variable]
    with ExitStack() as loops:
        from_index: Value = constant(0)
        to_index: Value = constant(0)
        for dimension, size in enumerate(shape):
            _, counter = loops.enter_context(counting(source, 0, size - 1))
            index = builder.load(counter)
            moved = index
            if dimension in variable.dimensions:
                moved = builder.load(builder.gep(moves, index))
            from_index = builder.add(builder.mul(from_index, constant(size)), index)
            to_index = builder.add(builder.mul(to_index, constant(size)), moved)
        stored = load_slot(source, slot, from_index)
        renamed = _rename(source, symmetry, variable, (slot.low, stored), moves)
        store_slot(target, slot, renamed, to_index)


def _rename(
    place: Place,
    symmetry: Symmetry,
    variable: SymmetricVariable,
    stored: tuple[int, Value],
    moves: Value,
) -> Value:
    """Returns the stored number with instances renamed."""
    builder = place.builder
    low, number = stored
    match variable.values:
        case SymmetricValues.OTHER:
            return number
        case SymmetricValues.ID:
            offset = variable.low - low  # the stored number of instance 0
            instance = builder.sub(number, constant(offset))
            none = builder.icmp_signed("<", instance, constant(0))
            safe = builder.select(none, constant(0), instance)
            moved = builder.load(builder.gep(moves, safe))
            return builder.select(none, number, builder.add(moved, constant(offset)))
        case SymmetricValues.SET:
            below = (1 << variable.low) - 1
            result = builder.and_(number, constant(below))
            for bit in range(symmetry.size):
                has = builder.lshr(number, constant(bit + variable.low))
                has = builder.and_(has, constant(1))
                moved = builder.load(builder.gep(moves, constant(bit)))
                shifted = builder.shl(has, builder.add(moved, constant(variable.low)))
                result = builder.or_(result, shifted)
            return result


def _sort_bag(place: Place, bag: Sorted) -> None:
    """Sorts the items of each bag by bubble sort; bags are short."""
    builder = place.builder
    outer = place.model.shapes[bag.length]
    bound = prod(place.model.shapes[bag.items[0]][len(outer) :])
    if bound < 2:
        return
    with ExitStack() as loops:
        _, which = loops.enter_context(counting(place, 0, prod(outer) - 1))
        _, _round = loops.enter_context(counting(place, 0, bound - 2))
        _, position = loops.enter_context(counting(place, 0, bound - 2))
        owner, k = builder.load(which), builder.load(position)
        first = builder.add(builder.mul(owner, constant(bound)), k)
        second = builder.add(first, constant(1))
        slots = [place.model.layout.variables[name] for name in bag.items]
        left = [load_slot(place, slot, first) for slot in slots]
        right = [load_slot(place, slot, second) for slot in slots]
        length = load_slot(place, place.model.layout.variables[bag.length], owner)
        inside = builder.icmp_unsigned("<", builder.add(k, constant(1)), length)
        wrong = builder.and_(inside, _less(builder, right, left))
        for slot, a, b in zip(slots, left, right, strict=True):
            store_slot(place, slot, builder.select(wrong, b, a), first)
            store_slot(place, slot, builder.select(wrong, a, b), second)


def _less(builder: Any, left: list[Value], right: list[Value]) -> Value:
    """Compares lists of stored numbers lexicographically."""
    result = llvm.FALSE
    for a, b in reversed(list(zip(left, right, strict=True))):
        same = builder.icmp_unsigned("==", a, b)
        result = builder.select(same, result, builder.icmp_unsigned("<", a, b))
    return result


def _emit_images(module: Any, model: Model, permute: Value, moves: tuple[Value, int]) -> Any:
    """Emits `orbit`, which also makes the row canonical: the least image replaces it.

    By the orbit-stabiliser theorem, the orbit's size is the number of permutations divided by the number
    of those whose image is the least one.
    """
    table, count = moves
    code, builder = _function(module, "orbit", 1)
    row = code.args[0]
    place = Place(model, builder, row, None, {})
    image, best = (_row_slot(model, place) for _ in range(2))
    equal_count = new_slot(place)
    _copy_row(model, builder, row, best)
    builder.store(constant(1), equal_count)
    width = sum(symmetry.size for symmetry in model.network.symmetries)
    if count > 1:
        with counting(place, 1, count - 1) as (_, number):
            at = builder.mul(builder.load(number), constant(width))
            builder.call(permute, [row, image, builder.gep(table, at)])
            words = range(model.layout.word_count)
            mine = [builder.load(builder.gep(image, constant(word))) for word in words]
            least = [builder.load(builder.gep(best, constant(word))) for word in words]
            same = llvm.TRUE
            for a, b in zip(mine, least, strict=True):
                same = builder.and_(same, builder.icmp_unsigned("==", a, b))
            with builder.if_then(same):
                builder.store(builder.add(builder.load(equal_count), constant(1)), equal_count)
            with builder.if_then(_less(builder, mine, least)):
                builder.store(constant(1), equal_count)
                _copy_row(model, builder, image, best)
    _copy_row(model, builder, best, row)
    builder.ret(builder.udiv(constant(count), builder.load(equal_count)))
    return code


def emit_reduced(module: Any, model: Model, successors: Value, canonicalise: Value) -> None:
    """Emits `reduced`: the successors, each replaced by the least row of its orbit."""
    code = llvm.Function(module, "reduced", (WORDS, WORDS, WORDS, I64))
    builder = llvm.Builder(code)
    counter = builder.alloca()
    builder.store(constant(0), counter)
    found = builder.call(successors, list(code.args))
    head, body = builder.append_basic_block("head"), builder.append_basic_block("body")
    done = builder.append_basic_block("done")
    builder.branch(head)
    builder.position_at_end(head)
    index = builder.load(counter)
    builder.cbranch(builder.icmp_signed("<", index, found), body, done)
    builder.position_at_end(body)
    at = builder.mul(index, constant(model.layout.word_count))
    builder.call(canonicalise, [builder.gep(code.args[1], at)])
    builder.store(builder.add(index, constant(1)), counter)
    builder.branch(head)
    builder.position_at_end(done)
    builder.ret(found)
