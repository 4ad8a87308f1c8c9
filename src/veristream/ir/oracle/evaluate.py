"""Evaluates expressions and runs statements, in the simplest way.

The semantics is that of `expr`. This module fixes the order of evaluation: indices from left to right,
each checked against its bounds before the next is evaluated; the arguments of a call likewise; in an
assignment and a `Reset`, the value, then the target's indices, then the range check; in a clock constraint,
`when`, then the indices of both clocks, then the bound.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import assert_never

from veristream.ir.clocks import Bound, bounds_of
from veristream.ir.expr import (
    Assign,
    AtLocation,
    Binary,
    Block,
    Call,
    Check,
    ClockConstraint,
    ClockRef,
    ClockTest,
    ClockValue,
    Conditional,
    Const,
    Deadlocked,
    Evaluate,
    Expr,
    Fold,
    For,
    If,
    IsDone,
    IsIdle,
    Let,
    Load,
    Local,
    Peek,
    Primed,
    Queue,
    Reset,
    Return,
    Statement,
    Type,
    Unary,
    While,
)
from veristream.ir.state import IDLE, Contents, Names, State
from veristream.source import Span

SHIFT_MAX = 62


class ModelFault(Exception):  # noqa: N818 - an error of the model, not of the program
    """A run-time error of the model; callers turn it into a `Fault`."""

    def __init__(self, message: str, span: Span) -> None:
        super().__init__(message)
        self.message = message
        self.span = span


@dataclass(slots=True)
class Cell:
    """The storage of a local name; `size` is set for an array."""

    type: Type
    values: list[int]
    size: int | None = None


Scope = Mapping[str, Cell]
"""The visible local names; an inner block copies the mapping and shares the cells."""


@dataclass(frozen=True, slots=True)
class Moment:
    """What properties of a timed network see besides the state: the clock values by number (clock 0 is
    always 0), and whether the state is a deadlock."""

    clocks: tuple[Fraction, ...]
    is_deadlocked: Callable[[], bool]


@dataclass(slots=True)
class Environment:
    """A mutable state; `after` is the state that `Primed` refers to, if there is one.

    `resets` are the values that statements have assigned to clocks, by number.
    """

    names: Names
    values: list[int]
    queues: list[Contents]
    locations: list[int]
    after: Environment | None = None
    moment: Moment | None = None
    resets: dict[int, int] = field(default_factory=dict)


def thaw(names: Names, state: State) -> Environment:
    """Returns a mutable copy of the state."""
    return Environment(names, list(state.values), list(state.queues), list(state.locations))


def freeze(env: Environment) -> State:
    """Returns the current state of the environment."""
    return State(tuple(env.values), tuple(env.queues), tuple(env.locations))


def copy_scope(scope: Scope) -> dict[str, Cell]:
    """Copies the scope with its cells, so that assignments do not affect the original."""
    return {name: Cell(cell.type, list(cell.values), cell.size) for name, cell in scope.items()}


def check_range(value: int, type_: Type, owner: str, span: Span) -> int:
    """Returns the value if it is within the type; otherwise raises ModelFault with the owner's name."""
    if not type_.low <= value <= type_.high:
        raise ModelFault(f"{value} is outside the range {type_.low}..{type_.high} of {owner}", span)
    return value


def evaluate_indices(
    owner: str, shape: tuple[int, ...], indices: tuple[Expr, ...], env: Environment, scope: Scope
) -> tuple[int, ...]:
    """Evaluates the indices; raises ModelFault if one is out of bounds."""
    values = []
    for size, index in zip(shape, indices, strict=True):
        value = evaluate(index, env, scope)
        if not 0 <= value < size:
            raise ModelFault(f"index {value} is outside 0..{size - 1} of {owner}", index.span)
        values.append(value)
    return tuple(values)


def flatten(shape: tuple[int, ...], indices: tuple[int, ...]) -> int:
    """Returns the position of an element in its array, row by row."""
    position = 0
    for size, index in zip(shape, indices, strict=True):
        position = position * size + index
    return position


def show_element(owner: str, indices: tuple[int, ...]) -> str:
    """Formats an element as `a[1][2]`."""
    return owner + "".join(f"[{index}]" for index in indices)


def evaluate(expr: Expr, env: Environment, scope: Scope) -> int:
    """Evaluates the expression; raises ModelFault."""
    match expr:
        case Const(value=value):
            return value
        case Load(variable=name, indices=indices):
            position, variable = env.names.variables[name]
            place = evaluate_indices(name, variable.shape, indices, env, scope)
            return env.values[position + flatten(variable.shape, place)]
        case Local():
            return scope[expr.name].values[_local_position(expr, env, scope)]
        case Unary():
            return _unary(expr, env, scope)
        case Binary():
            return _binary(expr, env, scope)
        case Conditional(condition=condition, then=then, otherwise=otherwise):
            return evaluate(then if evaluate(condition, env, scope) else otherwise, env, scope)
        case Fold():
            return _fold(expr, env, scope)
        case Call():
            return _call(expr, env, scope)
        case AtLocation(component=component, location=location):
            position = env.names.components[component]
            return int(env.locations[position] == env.names.locations[position][location])
        case IsDone(component=component):
            return int(is_done(env, env.names.components[component]))
        case IsIdle(component=component):
            return int(env.locations[env.names.components[component]] == IDLE)
        case Queue():
            return _queue(expr, env, scope)
        case Peek():
            return _peek(expr, env, scope)
        case Primed(operand=operand):
            assert env.after is not None, "Primed outside of a Transition property"
            return evaluate(operand, env.after, scope)
        case ClockTest(constraint=constraint):
            assert env.moment is not None, "a clock outside of a timed network's property"
            return int(satisfies(env.moment.clocks, evaluate_constraint(constraint, env, scope)))
        case Deadlocked():
            assert env.moment is not None, "deadlock outside of a timed network's property"
            return int(env.moment.is_deadlocked())
        case ClockValue():
            raise AssertionError("clock values are not integers")
        case _:
            assert_never(expr)


def evaluate_constraint(constraint: ClockConstraint, env: Environment, scope: Scope) -> tuple[Bound, ...]:
    """Evaluates the constraint to bounds on clocks; raises ModelFault."""
    if constraint.when is not None and not evaluate(constraint.when, env, scope):
        return ()
    left = evaluate_clock(constraint.left, env, scope)
    right = 0 if constraint.right is None else evaluate_clock(constraint.right, env, scope)
    return bounds_of(constraint.op, left, right, evaluate(constraint.bound, env, scope))


def evaluate_clock(ref: ClockRef, env: Environment, scope: Scope) -> int:
    """Returns the number of the clock; raises ModelFault."""
    clock = env.names.clocks[ref.clock]
    place = evaluate_indices(ref.clock, clock.shape, ref.indices, env, scope)
    return clock.first + flatten(clock.shape, place)


def satisfies(clocks: tuple[Fraction, ...], bounds: Iterable[Bound]) -> bool:
    """Returns whether the clock values satisfy the bounds."""
    differences = ((clocks[bound.left] - clocks[bound.right], bound) for bound in bounds)
    return all(d < bound.limit or (d == bound.limit and not bound.strict) for d, bound in differences)


def is_done(env: Environment, component: int) -> bool:
    """Returns whether the component is at a final location; an idle one is not."""
    location = env.locations[component]
    return location != IDLE and env.names.network.components[component].locations[location].final


def _local_position(local: Local, env: Environment, scope: Scope) -> int:
    cell = scope[local.name]
    if local.index is None:
        assert cell.size is None, f"{local.name} is an array"
        return 0
    assert cell.size is not None, f"{local.name} is not an array"
    return evaluate_indices(local.name, (cell.size,), (local.index,), env, scope)[0]


def _unary(expr: Unary, env: Environment, scope: Scope) -> int:
    value = evaluate(expr.operand, env, scope)
    match expr.op:
        case "-":
            return -value
        case "not":
            return int(not value)
        case "~":
            return ~value
        case _:
            assert_never(expr.op)


def _binary(expr: Binary, env: Environment, scope: Scope) -> int:
    left = evaluate(expr.left, env, scope)
    match expr.op:
        case "and":
            return int(left != 0 and evaluate(expr.right, env, scope) != 0)
        case "or":
            return int(left != 0 or evaluate(expr.right, env, scope) != 0)
        case "implies":
            return int(left == 0 or evaluate(expr.right, env, scope) != 0)
        case "==" | "!=" | "<" | "<=" | ">" | ">=":
            return int(_compare(expr, left, evaluate(expr.right, env, scope)))
        case "div" | "rem" | "mod" | "<<" | ">>":
            return _partial(expr, left, evaluate(expr.right, env, scope))
        case _:
            return _total(expr, left, evaluate(expr.right, env, scope))


def _compare(expr: Binary, left: int, right: int) -> bool:
    match expr.op:
        case "==":
            return left == right
        case "!=":
            return left != right
        case "<":
            return left < right
        case "<=":
            return left <= right
        case ">":
            return left > right
        case ">=":
            return left >= right
        case _:
            raise AssertionError(expr.op)


def _total(expr: Binary, left: int, right: int) -> int:
    match expr.op:
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return left * right
        case "min":
            return min(left, right)
        case "max":
            return max(left, right)
        case "&":
            return left & right
        case "|":
            return left | right
        case "^":
            return left ^ right
        case _:
            raise AssertionError(expr.op)


def _partial(expr: Binary, left: int, right: int) -> int:
    """Evaluates the operators that fault for some right operands."""
    if expr.op in ("<<", ">>"):
        if not 0 <= right <= SHIFT_MAX:
            raise ModelFault(f"a shift by {right} is outside 0..{SHIFT_MAX}", expr.span)
        return left << right if expr.op == "<<" else left >> right
    if right == 0:
        raise ModelFault("division by zero", expr.span)
    if expr.op == "mod":
        if right < 0:
            raise ModelFault(f"mod by {right}, which is not positive", expr.span)
        return left % right
    # Python rounds down and C truncates, so divide the magnitudes.
    quotient = abs(left) // abs(right)
    if (left < 0) != (right < 0):
        quotient = -quotient
    return quotient if expr.op == "div" else left - quotient * right


def _fold(expr: Fold, env: Environment, scope: Scope) -> int:
    counter = Type(expr.low, expr.high)
    total = 0
    for number in range(expr.low, expr.high + 1):
        value = evaluate(expr.body, env, {**scope, expr.name: Cell(counter, [number])})
        match expr.op:
            case "all":
                if not value:
                    return 0
            case "any":
                if value:
                    return 1
            case "sum":
                total += value
            case _:
                assert_never(expr.op)
    return 1 if expr.op == "all" else total


def _call(expr: Call, env: Environment, scope: Scope) -> int:
    function = env.names.functions[expr.function]
    inner: dict[str, Cell] = {}
    for parameter, argument in zip(function.parameters, expr.arguments, strict=True):
        value = evaluate(argument, env, scope)
        check_range(value, parameter.type, f"{parameter.name} of {function.name}", argument.span)
        inner[parameter.name] = Cell(parameter.type, [value])
    returned = run(function.body, env, inner)
    result = 0 if returned is None else returned
    return check_range(result, function.result, f"the result of {function.name}", expr.span)


def _queue_at(
    channel: str, indices: tuple[Expr, ...], env: Environment, scope: Scope
) -> tuple[str, Contents, int]:
    """Returns the name of one queue, its messages and its capacity."""
    position, declared = env.names.channels[channel]
    place = evaluate_indices(channel, declared.shape, indices, env, scope)
    contents = env.queues[position + flatten(declared.shape, place)]
    return show_element(channel, place), contents, declared.capacity


def _queue(expr: Queue, env: Environment, scope: Scope) -> int:
    _, contents, capacity = _queue_at(expr.channel, expr.indices, env, scope)
    match expr.op:
        case "len":
            return len(contents)
        case "empty":
            return int(not contents)
        case "full":
            return int(len(contents) >= capacity)
        case _:
            assert_never(expr.op)


def _peek(expr: Peek, env: Environment, scope: Scope) -> int:
    name, contents, _ = _queue_at(expr.channel, expr.indices, env, scope)
    position = evaluate(expr.position, env, scope)
    if not 0 <= position < len(contents):
        raise ModelFault(
            f"the queue {name} has no message at position {position} (its length is {len(contents)})",
            expr.span,
        )
    return contents[position][expr.part]


def run(block: Block, env: Environment, scope: Scope) -> int | None:
    """Runs the statements; returns the value of a `Return`, or None at their end. Raises ModelFault."""
    inner = dict(scope)  # declarations of the block are not visible outside of it
    for statement in block:
        returned = _run_statement(statement, env, inner)
        if returned is not None:
            return returned
    return None


def _run_statement(statement: Statement, env: Environment, scope: dict[str, Cell]) -> int | None:
    match statement:
        case Assign():
            _assign(statement, env, scope)
        case Let(name=name, type=type_, value=value, size=size, span=span):
            initial = check_range(evaluate(value, env, scope), type_, name, span)
            scope[name] = Cell(type_, [initial] * (1 if size is None else size), size)
        case If(condition=condition, then=then, otherwise=otherwise):
            return run(then if evaluate(condition, env, scope) else otherwise, env, scope)
        case While():
            return _while(statement, env, scope)
        case For(name=name, low=low, high=high, body=body):
            for number in range(low, high + 1):
                returned = run(body, env, {**scope, name: Cell(Type(low, high), [number])})
                if returned is not None:
                    return returned
        case Return(value=value):
            return evaluate(value, env, scope)
        case Evaluate(value=value):
            evaluate(value, env, scope)
        case Check(condition=condition, message=message, span=span):
            if not evaluate(condition, env, scope):
                raise ModelFault(message, span)
        case Reset(clock=clock, value=value, span=span):
            shown = evaluate(value, env, scope)
            number = evaluate_clock(clock, env, scope)
            if shown < 0:
                raise ModelFault(f"the clock {clock.clock} cannot be set to {shown}", span)
            env.resets[number] = shown
        case _:
            assert_never(statement)
    return None


def _assign(statement: Assign, env: Environment, scope: Scope) -> None:
    value = evaluate(statement.value, env, scope)
    target = statement.target
    match target:
        case Load(variable=name, indices=indices):
            position, variable = env.names.variables[name]
            place = evaluate_indices(name, variable.shape, indices, env, scope)
            check_range(value, variable.type, show_element(name, place), statement.span)
            env.values[position + flatten(variable.shape, place)] = value
        case Local(name=name):
            cell = scope[name]
            position = _local_position(target, env, scope)
            owner = name if cell.size is None else show_element(name, (position,))
            check_range(value, cell.type, owner, statement.span)
            cell.values[position] = value
        case _:
            assert_never(target)


def _while(loop: While, env: Environment, scope: Scope) -> int | None:
    rounds = 0
    while evaluate(loop.condition, env, scope):
        if rounds == loop.limit:
            raise ModelFault(f"the loop ran more than {loop.limit} times", loop.span)
        rounds += 1
        returned = run(loop.body, env, scope)
        if returned is not None:
            return returned
    return None
