"""Values, expressions and programs of CSP# in the oracle, evaluated directly on the syntax.

It shares no code with the compiler of CSP#. A run-time error of the model is an OracleFault.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from math import prod

from veristream.languages.csp import syntax as csp

WHILE_ROUNDS_MAX = 100_000

Values = tuple[tuple[int, ...], ...]
"""The values of each global variable, in the order of declaration; a scalar has one."""

Message = tuple[int, ...]
Buffers = tuple[tuple[Message, ...], ...]
"""The contents of each buffered channel, oldest message first; an array of channels is flattened."""

Locals = dict[str, list[int]]


class OracleFault(Exception):  # noqa: N818 - the model is at fault, not the program
    """A run-time error of the model, or a construct without meaning."""


@dataclass(frozen=True)
class Tables:
    """A specification with lookup tables."""

    specification: csp.Specification

    @cached_property
    def definitions(self) -> Mapping[str, csp.Definition]:
        return {definition.name: definition for definition in self.specification.definitions}

    @cached_property
    def variables(self) -> Mapping[str, tuple[int, csp.Variable]]:
        return {variable.name: (i, variable) for i, variable in enumerate(self.specification.variables)}

    @cached_property
    def channels(self) -> Mapping[str, tuple[int, csp.Channel]]:
        """Maps each channel to the position of its first element in the buffers."""
        places, at = {}, 0
        for channel in self.specification.channels:
            places[channel.name] = (at, channel)
            at += prod(channel.shape)
        return places

    def initial_values(self) -> Values:
        return tuple(variable.initial for variable in self.specification.variables)

    def initial_buffers(self) -> Buffers:
        return ((),) * sum(prod(channel.shape) for channel in self.specification.channels)


@dataclass(frozen=True)
class Memory:
    """The state that an expression reads: globals, channels, and a program's local variables."""

    tables: Tables
    values: Values
    buffers: Buffers


# --- Expressions ------------------------------------------------------------------------------------


def divide(left: int, right: int) -> int:
    """Divides with truncation towards zero."""
    if right == 0:
        raise OracleFault("division by zero")
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


def modulo(left: int, right: int) -> int:
    """Returns the remainder, which is never negative."""
    if right == 0:
        raise OracleFault("division by zero")
    return left % abs(right)


STRICT: dict[str, Callable[[int, int], int]] = {
    "+": lambda x, y: x + y,
    "-": lambda x, y: x - y,
    "*": lambda x, y: x * y,
    "/": divide,
    "%": modulo,
    "&": lambda x, y: x & y,
    "|": lambda x, y: x | y,
    "^": lambda x, y: x ^ y,
    "==": lambda x, y: int(x == y),
    "!=": lambda x, y: int(x != y),
    "<": lambda x, y: int(x < y),
    "<=": lambda x, y: int(x <= y),
    ">": lambda x, y: int(x > y),
    ">=": lambda x, y: int(x >= y),
    "xor": lambda x, y: int(bool(x) != bool(y)),
}


def evaluate(expr: csp.Expr, memory: Memory | None, local: Locals | None = None) -> int:
    """Evaluates an expression; without a memory it must not depend on the state."""
    match expr:
        case csp.Number(value):
            return value
        case csp.Bound(name):
            if local is None or name not in local:
                raise OracleFault(f"{name} has no value")
            return element(name, local[name], (len(local[name]),), ())
        case csp.Global(name, indices):
            return read_variable(name, indices, memory, local)
        case csp.Unary(op, operand):
            value = evaluate(operand, memory, local)
            return {"-": -value, "!": int(not value), "~": ~value}[op]
        case csp.Binary("&&", left, right):
            return int(bool(evaluate(left, memory, local)) and bool(evaluate(right, memory, local)))
        case csp.Binary("||", left, right):
            return int(bool(evaluate(left, memory, local)) or bool(evaluate(right, memory, local)))
        case csp.Binary(op, left, right):
            return STRICT[op](evaluate(left, memory, local), evaluate(right, memory, local))
        case csp.Query(op, channel, indices):
            return query(op, channel, indices, memory, local)
        case csp.Pick(values, index):
            at = evaluate(index, memory, local)
            if not 0 <= at < len(values):
                raise OracleFault(f"index {at} is outside of an array that was passed")
            return evaluate(values[at], memory, local)
    raise TypeError(expr)


def read_variable(
    name: str, indices: tuple[csp.Expr, ...], memory: Memory | None, local: Locals | None
) -> int:
    """Reads a global, or an element of a program's local array."""
    places = tuple(evaluate(index, memory, local) for index in indices)
    if local is not None and name in local:
        return element(name, local[name], (len(local[name]),), places)
    if memory is None:
        raise OracleFault(f"{name} has no value here")
    position, variable = memory.tables.variables[name]
    return element(name, memory.values[position], variable.shape, places)


def element(
    name: str, cells: tuple[int, ...] | list[int], shape: tuple[int, ...], at: tuple[int, ...]
) -> int:
    """Reads one cell of an array; a scalar has one cell."""
    return cells[flat(name, shape, at)] if shape and at else single(name, cells)


def single(name: str, cells: tuple[int, ...] | list[int]) -> int:
    """Returns the value of a scalar."""
    if len(cells) != 1:
        raise OracleFault(f"the array {name} is not a number")
    return cells[0]


def flat(name: str, shape: tuple[int, ...], at: tuple[int, ...]) -> int:
    """Returns the position in a flattened array; a single index addresses it directly."""
    if len(at) == 1:
        shape = (prod(shape),)
    if len(at) != len(shape):
        raise OracleFault(f"{name} has {len(shape)} indices, not {len(at)}")
    position = 0
    for size, index in zip(shape, at, strict=True):
        if not 0 <= index < size:
            raise OracleFault(f"index {index} is outside of {name}")
        position = position * size + index
    return position


def channel_slot(
    tables: Tables, name: str, indices: tuple[csp.Expr, ...], memory: Memory
) -> tuple[int, csp.Channel, str]:
    """Returns the position of a channel's messages, the channel, and its name in events."""
    first, channel = tables.channels[name]
    at = tuple(evaluate(index, memory) for index in indices)
    offset = flat(name, channel.shape, at) if at else 0
    return first + offset, channel, name + "".join(f"[{index}]" for index in at)


def query(
    op: str, name: str, indices: tuple[csp.Expr, ...], memory: Memory | None, local: Locals | None
) -> int:
    """Evaluates a query on a buffered channel."""
    if memory is None:
        raise OracleFault(f"{name} has no messages here")
    first, channel = memory.tables.channels[name]
    at = tuple(evaluate(index, memory, local) for index in indices)
    messages = memory.buffers[first + (flat(name, channel.shape, at) if at else 0)]
    match op:
        case "count":
            return len(messages)
        case "empty":
            return int(not messages)
        case "full":
            return int(len(messages) >= channel.capacity)
        case "size":
            return channel.capacity
    if not messages:
        raise OracleFault(f"the channel {name} is empty")
    return single(name, messages[0])


def is_constant(expr: csp.Expr) -> bool:
    """Whether the value depends on neither the state nor a bound name."""
    match expr:
        case csp.Number():
            return True
        case csp.Unary(_, operand):
            return is_constant(operand)
        case csp.Binary(_, left, right):
            return is_constant(left) and is_constant(right)
        case csp.Pick(values, index):
            return all(map(is_constant, (index, *values)))
    return False


def substitute_expr(expr: csp.Expr, names: Mapping[str, int]) -> csp.Expr:
    """Substitutes numbers for bound names and evaluates as far as possible."""
    again = partial(substitute_expr, names=names)
    match expr:
        case csp.Bound(name):
            return csp.Number(names[name]) if name in names else expr
        case csp.Global(name, indices):
            return csp.Global(name, tuple(map(again, indices)))
        case csp.Query(op, channel, indices):
            return csp.Query(op, channel, tuple(map(again, indices)))
        case csp.Unary(op, operand):
            expr = csp.Unary(op, again(operand))
        case csp.Binary(op, left, right):
            expr = csp.Binary(op, again(left), again(right))
        case csp.Pick(values, index):
            expr = csp.Pick(tuple(map(again, values)), again(index))
    if not is_constant(expr):
        return expr
    try:
        return csp.Number(evaluate(expr, None))
    except OracleFault:
        return expr  # a division by zero is an error only when it is evaluated


# --- Programs ---------------------------------------------------------------------------------------


def substitute_program(program: csp.Program, names: Mapping[str, int]) -> csp.Program:
    """Substitutes numbers for bound names, except for names that the program declares."""
    known = dict(names)
    statements: list[csp.Statement] = []
    for statement in program:
        match statement:
            case csp.Declare(name, value, size):
                statements.append(csp.Declare(name, substitute_expr(value, known), size))
                known.pop(name, None)
            case csp.Assign(csp.Global(name, indices), value, index):
                target = csp.Global(name, tuple(substitute_expr(part, known) for part in indices))
                statements.append(csp.Assign(target, substitute_expr(value, known), index))
            case csp.Assign(target, value, index):
                place = None if index is None else substitute_expr(index, known)
                statements.append(csp.Assign(target, substitute_expr(value, known), place))
            case csp.If(condition, then, otherwise):
                parts = substitute_program(then, known), substitute_program(otherwise, known)
                statements.append(csp.If(substitute_expr(condition, known), *parts))
            case csp.While(condition, body):
                again = substitute_program(body, known)
                statements.append(csp.While(substitute_expr(condition, known), again))
    return tuple(statements)


def run(program: csp.Program | None, memory: Memory) -> Values:
    """Returns the values of the globals after the program."""
    cells = [list(variable) for variable in memory.values]
    Machine(memory, cells).block(program or (), {})
    return tuple(map(tuple, cells))


@dataclass(frozen=True)
class Machine:
    """A running program; it modifies its own copy of the globals."""

    start: Memory
    cells: list[list[int]]

    def value(self, expr: csp.Expr, local: Locals) -> int:
        now = tuple(map(tuple, self.cells))
        return evaluate(expr, Memory(self.start.tables, now, self.start.buffers), local)

    def block(self, program: csp.Program, outer: Locals) -> None:
        """Runs the statements; their declarations are visible only in the rest of the block."""
        local = dict(outer)
        for statement in program:
            match statement:
                case csp.Declare(name, value, size):
                    start = self.value(value, local)
                    local[name] = [start] * (1 if size is None else size)
                case csp.Assign():
                    self.assign(statement, local)
                case csp.If(condition, then, otherwise):
                    self.block(then if self.value(condition, local) else otherwise, local)
                case csp.While(condition, body):
                    self.repeat(condition, body, local)

    def repeat(self, condition: csp.Expr, body: csp.Program, local: Locals) -> None:
        for _ in range(WHILE_ROUNDS_MAX):
            if not self.value(condition, local):
                return
            self.block(body, local)
        raise OracleFault("a while loop does not terminate")

    def assign(self, statement: csp.Assign, local: Locals) -> None:
        """Stores a value; a global must stay in its range."""
        value, target = self.value(statement.value, local), statement.target
        if target.name in local:
            at = (statement.index,) if statement.index is not None else getattr(target, "indices", ())
            place = flat(target.name, (len(local[target.name]),), self.places(at, local)) if at else 0
            local[target.name][place] = value
            return
        position, variable = self.start.tables.variables[target.name]
        at = target.indices if isinstance(target, csp.Global) else ()
        if not at and variable.shape:
            raise OracleFault(f"the array {target.name} cannot be assigned as a whole")
        place = flat(target.name, variable.shape, self.places(at, local)) if at else 0
        below = variable.low is not None and value < variable.low
        above = variable.high is not None and value > variable.high
        if below or above:
            raise OracleFault(f"{target.name} leaves its range with {value}")
        self.cells[position][place] = value

    def places(self, indices: tuple[csp.Expr, ...], local: Locals) -> tuple[int, ...]:
        return tuple(self.value(index, local) for index in indices)
