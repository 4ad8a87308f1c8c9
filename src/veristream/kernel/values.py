"""Emits LLVM code for expressions and blocks.

A `Place` says where code goes and what it can access: the builder, the state that loads read and
assignments write, the locals, and the block to branch to on a fault. Locals are stack slots; LLVM
turns them into registers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from veristream.ir import expr as ir
from veristream.ir.bounds import SHIFT_MAX, Names, interval
from veristream.ir.network import Network, all_variables
from veristream.kernel.code import text as llvm
from veristream.kernel.layout import Layout, QueuePart, Slot, lay_out

I1, I64, WORDS = llvm.I1, llvm.I64, llvm.POINTER
Value = Any  # a `text.Value`, or a function
constant = llvm.constant


@dataclass(frozen=True, slots=True)
class Model:
    """What all code of one kernel shares."""

    network: Network
    layout: Layout
    names: Names
    shapes: Mapping[str, tuple[int, ...]]  # of variables and channels
    components: Mapping[str, int]
    functions: dict[str, Value]  # filled as functions are emitted


def model_of(network: Network, names: Names) -> Model:
    shapes = {variable.name: variable.shape for variable in all_variables(network)}
    shapes |= {channel.name: channel.shape for channel in network.channels}
    components = {component.name: i for i, component in enumerate(network.components)}
    return Model(network, lay_out(network), names, shapes, components, {})


@dataclass(frozen=True, slots=True)
class Stored:
    """A local: its stack slot, its type, and its size if it is an array."""

    pointer: Value
    type: ir.Type
    size: int | None = None


@dataclass(frozen=True, slots=True)
class Place:
    """Where code is emitted; see the module docstring."""

    model: Model
    builder: Any
    state: Value  # pointer to the row that is read and written
    fault: Any  # the block that ends a failing evaluation
    locals: Mapping[str, Stored]
    primed: Value | None = None  # the row after the step, for expressions that may refer to it

    def names(self) -> Names:
        """The types of all names here."""
        return replace(self.model.names, locals={n: s.type for n, s in self.locals.items()})

    def with_local(self, name: str, stored: Stored) -> Place:
        """This place with one more local."""
        return replace(self, locals={**self.locals, name: stored})


def new_slot(place: Place, size: int | None = None) -> Value:
    """Allocates a stack slot in the function's first block, so that loops do not grow the stack."""
    return place.builder.alloca(size or 1)


def fault_if(place: Place, bad: Value) -> None:
    """Branches to the fault block if the bit is set."""
    go_on = place.builder.append_basic_block("fine")
    place.builder.cbranch(bad, place.fault, go_on, rarely=True)
    place.builder.position_at_end(go_on)


def require_range(place: Place, value: Value, expr: ir.Expr, low: int, high: int) -> None:
    """Faults unless low <= value <= high; emits no code if that is certain."""
    if not interval(expr, place.names()).within(low, high):
        outside(place, value, low, high)


def outside(place: Place, value: Value, low: int, high: int) -> None:
    """Faults unless low <= value <= high, with one unsigned comparison."""
    distance = place.builder.sub(value, constant(low))
    fault_if(place, place.builder.icmp_unsigned(">", distance, constant(high - low)))


@contextmanager
def counting(place: Place, low: int, high: int) -> Iterator[tuple[Place, Value]]:
    """Emits a loop from low to high around the code emitted inside; yields the counter's stack slot."""
    builder = place.builder
    counter = new_slot(place)
    builder.store(constant(low), counter)
    body, after = builder.append_basic_block("loop"), builder.append_basic_block("after")
    builder.branch(body)
    builder.position_at_end(body)
    yield place, counter
    now = builder.add(builder.load(counter), constant(1))
    builder.store(now, counter)
    builder.cbranch(builder.icmp_signed("<=", now, constant(high)), body, after)
    builder.position_at_end(after)


def word_pointer(place: Place, word: Value) -> Value:
    """Returns a pointer to a word of the row."""
    return place.builder.gep(place.state, word)


def load_slot(place: Place, slot: Slot, index: Value | None = None) -> Value:
    """Loads the stored number of an element."""
    if slot.width == 0:
        return constant(0)
    pointer, shift = _element(place, slot, index)
    stored = place.builder.lshr(place.builder.load(pointer), shift)
    return place.builder.and_(stored, constant((1 << slot.width) - 1))


def store_slot(place: Place, slot: Slot, stored: Value, index: Value | None = None) -> None:
    """Stores the number, which must fit."""
    if slot.width == 0:
        return
    builder = place.builder
    pointer, shift = _element(place, slot, index)
    mask = builder.not_(builder.shl(constant((1 << slot.width) - 1), shift))
    rest = builder.and_(builder.load(pointer), mask)
    builder.store(builder.or_(rest, builder.shl(stored, shift)), pointer)


def _element(place: Place, slot: Slot, index: Value | None) -> tuple[Value, Value]:
    """Returns a pointer to the element's word and the element's shift within it."""
    builder = place.builder
    if index is None or slot.count == 1:
        word, shift = slot.place(0)
        return word_pointer(place, constant(word)), constant(shift)
    bit = builder.mul(index, constant(slot.width))
    if slot.count * slot.width <= 64:
        return word_pointer(place, constant(slot.word)), builder.add(bit, constant(slot.shift))
    word = builder.add(constant(slot.word), builder.lshr(bit, constant(6)))
    return word_pointer(place, word), builder.and_(bit, constant(63))


def flat_index(place: Place, name: str, indices: tuple[ir.Expr, ...]) -> Value | None:
    """Returns the element's number in an array of variables or channels; None for a scalar."""
    return flatten(place, name, checked_indices(place, name, indices))


def checked_indices(place: Place, name: str, indices: tuple[ir.Expr, ...]) -> tuple[Value, ...]:
    """Evaluates the indices; faults if one is out of bounds."""
    values = []
    for expr, size in zip(indices, place.model.shapes[name], strict=True):
        index = value(place, expr)
        require_range(place, index, expr, 0, size - 1)
        values.append(index)
    return tuple(values)


def flatten(place: Place, name: str, indices: tuple[Value, ...]) -> Value | None:
    """Returns the row-major number of the element with these indices; None for a scalar."""
    flat = None
    for index, size in zip(indices, place.model.shapes[name], strict=True):
        flat = index if flat is None else _row_major(place, flat, size, index)
    return flat


def _row_major(place: Place, flat: Value, size: int, index: Value) -> Value:
    return place.builder.add(place.builder.mul(flat, constant(size)), index)


def truth(place: Place, expr: ir.Expr) -> Value:
    """Evaluates the expression as one bit."""
    builder = place.builder
    match expr:
        case ir.Binary(op="and" | "or" | "implies"):
            return _connective(place, expr)
        case ir.Binary(op="==" | "!=" | "<" | "<=" | ">" | ">=", left=left, right=right):
            a = value(place, left)
            return builder.icmp_signed(expr.op, a, value(place, right))
        case ir.Unary(op="not", operand=operand):
            return builder.not_(truth(place, operand))
        case ir.Const(value=number):
            return llvm.bit(number != 0)
        case ir.AtLocation(component=name, location=location):
            component = place.model.components[name]
            places = place.model.network.components[component].locations
            numbers = [i for i, where in enumerate(places) if where.name == location]
            return at_any(place, component, numbers)
        case ir.IsDone(component=name):
            component = place.model.components[name]
            places = place.model.network.components[component].locations
            return at_any(place, component, [i for i, where in enumerate(places) if where.final])
        case ir.IsIdle(component=name):
            component = place.model.components[name]
            return at_any(place, component, [place.model.layout.idle[component]])
        case ir.Queue(op="empty" | "full"):
            slots = place.model.layout.queues[expr.channel]
            index = flat_index(place, expr.channel, expr.indices)
            length = load_slot(place, slots.length, index)
            limit = 0 if expr.op == "empty" else slots.capacity
            return builder.icmp_unsigned("==", length, constant(limit))
        case ir.Fold(op="all" | "any"):
            return _quantifier(place, expr)
        case ir.Primed(operand=operand):
            return truth(_primed(place), operand)
        case _:
            return builder.icmp_signed("!=", value(place, expr), constant(0))


def at_any(place: Place, component: int, numbers: list[int]) -> Value:
    """Whether the component is at one of the numbered locations."""
    slot = place.model.layout.locations[component]
    if slot.width == 0:
        return llvm.bit(0 in numbers)
    here = load_slot(place, slot)
    found = llvm.FALSE
    for number in numbers:
        same = place.builder.icmp_unsigned("==", here, constant(number))
        found = place.builder.or_(found, same)
    return found


def _primed(place: Place) -> Place:
    assert place.primed is not None, "verify lets no primed expression through elsewhere"
    return replace(place, state=place.primed)


def _connective(place: Place, expr: ir.Binary) -> Value:
    builder = place.builder
    left = truth(place, expr.left)
    if expr.op == "implies":
        left = builder.not_(left)
    if not may_fault(expr.right):
        right = truth(place, expr.right)
        return builder.and_(left, right) if expr.op == "and" else builder.or_(left, right)
    before = builder.block
    right_block, after = builder.append_basic_block("right"), builder.append_basic_block("both")
    if expr.op == "and":
        builder.cbranch(left, right_block, after)
    else:
        builder.cbranch(left, after, right_block)
    builder.position_at_end(right_block)
    right = truth(place, expr.right)
    end = builder.block
    builder.branch(after)
    builder.position_at_end(after)
    result = builder.phi(I1)
    result.add_incoming(llvm.bit(expr.op != "and"), before)
    result.add_incoming(right, end)
    return result


def _quantifier(place: Place, expr: ir.Fold) -> Value:
    builder = place.builder
    result = new_slot(place)
    stop = expr.op == "any"
    builder.store(constant(int(stop)), result)
    done = builder.append_basic_block("decided")
    with counting(place, expr.low, expr.high) as (inside, counter):
        bound = inside.with_local(expr.name, Stored(counter, ir.Type(expr.low, expr.high)))
        holds = truth(bound, expr.body)
        more = builder.append_basic_block("more")
        if stop:
            builder.cbranch(holds, done, more)
        else:
            builder.cbranch(holds, more, done)
        builder.position_at_end(more)
    builder.store(constant(int(not stop)), result)
    end = builder.append_basic_block("folded")
    builder.branch(end)
    builder.position_at_end(done)  # left early: the result still has its value for that
    builder.branch(end)
    builder.position_at_end(end)
    return builder.icmp_unsigned("!=", builder.load(result), constant(0))


def value(place: Place, expr: ir.Expr) -> Value:
    """Evaluates the expression as a 64-bit number."""
    builder = place.builder
    match expr:
        case ir.Const(value=number):
            return constant(number)
        case ir.Load(variable=name, indices=indices):
            slot = place.model.layout.variables[name]
            stored = load_slot(place, slot, flat_index(place, name, indices))
            return builder.add(stored, constant(slot.low)) if slot.low else stored
        case ir.Local():
            return builder.load(local_pointer(place, expr))
        case ir.Unary(op="-", operand=operand):
            return builder.neg(value(place, operand))
        case ir.Unary(op="~", operand=operand):
            return builder.not_(value(place, operand))
        case ir.Binary(op="+" | "-" | "*" | "&" | "|" | "^" | "min" | "max"):
            return _arithmetic(place, expr)
        case ir.Binary(op="div" | "rem" | "mod"):
            return _division(place, expr)
        case ir.Binary(op="<<" | ">>", left=left, right=right):
            a, b = value(place, left), value(place, right)
            require_range(place, b, right, 0, SHIFT_MAX)
            return builder.shl(a, b) if expr.op == "<<" else builder.ashr(a, b)
        case ir.Conditional():
            return _conditional(place, expr)
        case ir.Fold(op="sum"):
            return _sum(place, expr)
        case ir.Call():
            return call(place, expr)
        case ir.Queue(op="len", channel=name, indices=indices):
            slot = place.model.layout.queues[name].length
            return load_slot(place, slot, flat_index(place, name, indices))
        case ir.Peek():
            return _peek(place, expr)
        case ir.Primed(operand=operand):
            return value(_primed(place), operand)
        case _:
            return builder.zext(truth(place, expr))


def local_pointer(place: Place, local: ir.Local) -> Value:
    """Returns the stack slot of a local, or of an element of a local array."""
    stored = place.locals[local.name]
    if local.index is None:
        return stored.pointer
    assert stored.size is not None
    index = value(place, local.index)
    require_range(place, index, local.index, 0, stored.size - 1)
    return place.builder.gep(stored.pointer, index)


def _arithmetic(place: Place, expr: ir.Binary) -> Value:
    builder = place.builder
    a, b = value(place, expr.left), value(place, expr.right)
    match expr.op:
        case "+":
            return builder.add(a, b)
        case "-":
            return builder.sub(a, b)
        case "*":
            return builder.mul(a, b)
        case "&":
            return builder.and_(a, b)
        case "|":
            return builder.or_(a, b)
        case "^":
            return builder.xor(a, b)
        case "min":
            return builder.select(builder.icmp_signed("<", a, b), a, b)
        case _:
            return builder.select(builder.icmp_signed(">", a, b), a, b)


def _division(place: Place, expr: ir.Binary) -> Value:
    builder = place.builder
    a, b = value(place, expr.left), value(place, expr.right)
    divisor = interval(expr.right, place.names())
    if expr.op == "mod":
        if divisor.low < 1:
            fault_if(place, builder.icmp_signed("<", b, constant(1)))
        rest = builder.srem(a, b)
        if interval(expr.left, place.names()).low >= 0:
            return rest
        negative = builder.icmp_signed("<", rest, constant(0))
        return builder.select(negative, builder.add(rest, b), rest)
    if divisor.low <= 0 <= divisor.high:
        fault_if(place, builder.icmp_signed("==", b, constant(0)))
    return builder.sdiv(a, b) if expr.op == "div" else builder.srem(a, b)


def _conditional(place: Place, expr: ir.Conditional) -> Value:
    builder = place.builder
    condition = truth(place, expr.condition)
    then, otherwise = builder.append_basic_block("then"), builder.append_basic_block("else")
    after = builder.append_basic_block("chosen")
    builder.cbranch(condition, then, otherwise)
    ends = []
    for block, side in ((then, expr.then), (otherwise, expr.otherwise)):
        builder.position_at_end(block)
        result = value(place, side)
        ends.append((result, builder.block))
        builder.branch(after)
    builder.position_at_end(after)
    phi = builder.phi(I64)
    for result, end in ends:
        phi.add_incoming(result, end)
    return phi


def _sum(place: Place, expr: ir.Fold) -> Value:
    builder = place.builder
    total = new_slot(place)
    builder.store(constant(0), total)
    with counting(place, expr.low, expr.high) as (inside, counter):
        bound = inside.with_local(expr.name, Stored(counter, ir.Type(expr.low, expr.high)))
        part = value(bound, expr.body)
        builder.store(builder.add(builder.load(total), part), total)
    return builder.load(total)


def call(place: Place, expr: ir.Call) -> Value:
    """Calls an emitted function; faults if it does."""
    builder = place.builder
    failed = new_slot(place)
    builder.store(constant(0), failed)
    function = place.model.network.functions
    parameters = next(f.parameters for f in function if f.name == expr.function)
    arguments = []
    for argument, parameter in zip(expr.arguments, parameters, strict=True):
        given = value(place, argument)
        require_range(place, given, argument, parameter.type.low, parameter.type.high)
        arguments.append(given)
    result = builder.call(place.model.functions[expr.function], [place.state, failed, *arguments])
    fault_if(place, builder.icmp_unsigned("!=", builder.load(failed), constant(0)))
    return result


def _peek(place: Place, expr: ir.Peek) -> Value:
    slots = place.model.layout.queues[expr.channel]
    index = flat_index(place, expr.channel, expr.indices)
    position = value(place, expr.position)
    length = load_slot(place, slots.length, index)
    fault_if(place, place.builder.icmp_unsigned(">=", position, length))
    return message_part(place, slots.parts[expr.part], index, position)


def message_part(place: Place, part: QueuePart, index: Value | None, position: Value) -> Value:
    """Loads a part of the message at the position, which must be within the queue."""
    builder = place.builder
    if part.width == 0:
        return constant(part.low)
    found = constant(0)
    for number, chunk in enumerate(part.chunks):
        packed = load_slot(place, chunk, index)
        first = constant(number * part.per_chunk)
        offset = builder.mul(builder.sub(position, first), constant(part.width))
        here = builder.lshr(packed, builder.and_(offset, constant(63)))
        if len(part.chunks) == 1:
            found = here
        else:
            inside = builder.icmp_unsigned("<", builder.sub(position, first), constant(part.per_chunk))
            found = builder.select(inside, here, found)
    stored = builder.and_(found, constant((1 << part.width) - 1))
    return builder.add(stored, constant(part.low)) if part.low else stored


def may_fault(expr: ir.Expr) -> bool:
    """Whether evaluating the expression may fault or run long, so that it must not be speculated."""
    match expr:
        case ir.Const() | ir.AtLocation() | ir.IsDone() | ir.IsIdle():
            return False
        case ir.Load(indices=indices) | ir.Queue(indices=indices):
            return bool(indices) and not all(isinstance(index, ir.Const) for index in indices)
        case ir.Local(index=index):
            return index is not None
        case ir.Unary(operand=operand) | ir.Primed(operand=operand):
            return may_fault(operand)
        case ir.Binary(op="div" | "rem" | "mod" | "<<" | ">>"):
            return True
        case ir.Binary(left=left, right=right):
            return may_fault(left) or may_fault(right)
        case (
            ir.Conditional()
            | ir.Fold()
            | ir.Call()
            | ir.Peek()
            | ir.ClockTest()
            | ir.ClockValue()
            | ir.Deadlocked()
        ):
            return True
