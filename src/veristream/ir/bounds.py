"""Interval arithmetic: the range of values that an expression can have.

`verify` rejects expressions that might exceed 64 bits, so that native code and Python's integers agree.
The kernel omits range checks that cannot fail.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import assert_never

from veristream.errors import ModelError
from veristream.ir import expr as ir
from veristream.ir import network as net
from veristream.ir import property as prop

WORD_LOW, WORD_HIGH = -(2**63), 2**63 - 1
SHIFT_MAX = 62
CLOCK_MAX = 2**28
"""The largest magnitude of a number that a clock is compared with or set to."""


@dataclass(frozen=True, slots=True)
class Interval:
    """The numbers from `low` to `high`, both included."""

    low: int
    high: int

    def within(self, low: int, high: int) -> bool:
        """Returns whether the interval lies in low..high."""
        return low <= self.low and self.high <= high


BIT = Interval(0, 1)


@dataclass(frozen=True, slots=True)
class Names:
    """The types of all names that an expression can use."""

    variables: Mapping[str, ir.Type]
    channels: Mapping[str, net.Channel]
    functions: Mapping[str, net.Function]
    locals: Mapping[str, ir.Type]

    def add(self, name: str, type_: ir.Type) -> Names:
        """Returns these names and one more local."""
        return Names(self.variables, self.channels, self.functions, {**self.locals, name: type_})

    def narrow(self, name: str, type_: ir.Type) -> Names:
        """Returns these names with another type for a variable."""
        if self.variables[name] == type_:
            return self
        return Names({**self.variables, name: type_}, self.channels, self.functions, self.locals)


def names_of(network: net.Network) -> Names:
    """Returns the names that are visible in every scope of the network."""
    return Names(
        {variable.name: variable.type for variable in net.all_variables(network)},
        {channel.name: channel for channel in network.channels},
        {function.name: function for function in network.functions},
        {},
    )


def edge_names(names: Names, edge: net.Edge) -> Names:
    """Adds the names that an edge selects and receives."""
    for select in edge.select:
        names = names.add(select.name, ir.Type(select.low, select.high))
    if isinstance(edge.sync, net.Receive):
        fields = names.channels[edge.sync.channel].fields
        for pattern, type_ in zip(edge.sync.patterns, fields, strict=True):
            if isinstance(pattern, net.Bind):
                names = names.add(pattern.name, type_)
    return names


def interval(expr: ir.Expr, names: Names) -> Interval:
    """Returns an interval that contains every value of the expression; raises ModelError past 64 bits."""
    match expr:
        case ir.Const(value=value):
            return Interval(value, value)
        case ir.Load(variable=name):
            return _of_type(names.variables[name])
        case ir.Local(name=name):
            return _of_type(names.locals[name])
        case ir.Unary():
            return _fits(_unary(expr, names), expr)
        case ir.Binary():
            return _fits(_binary(expr, names), expr)
        case ir.Conditional(then=then, otherwise=otherwise):
            return _join(interval(then, names), interval(otherwise, names))
        case ir.Fold(op="sum", name=name, low=low, high=high, body=body):
            part = interval(body, names.add(name, ir.Type(low, high)))
            count = high - low + 1
            return _fits(Interval(min(0, count * part.low), max(0, count * part.high)), expr)
        case ir.Call(function=name):
            return _of_type(names.functions[name].result)
        case ir.Queue(op="len", channel=name):
            return Interval(0, names.channels[name].capacity)
        case ir.Peek(channel=name, part=part_index):
            return _of_type(names.channels[name].fields[part_index])
        case ir.Primed(operand=operand):
            return interval(operand, names)
        case ir.ClockValue():
            return Interval(0, WORD_HIGH)
        case (
            ir.Fold()
            | ir.Queue()
            | ir.AtLocation()
            | ir.IsDone()
            | ir.IsIdle()
            | ir.ClockTest()
            | ir.Deadlocked()
        ):
            return BIT


def _of_type(type_: ir.Type) -> Interval:
    return Interval(type_.low, type_.high)


def _join(left: Interval, right: Interval) -> Interval:
    return Interval(min(left.low, right.low), max(left.high, right.high))


def _fits(result: Interval, expr: ir.Expr) -> Interval:
    if not result.within(WORD_LOW, WORD_HIGH):
        raise ModelError(
            f"this may reach {max(abs(result.low), abs(result.high))}, which exceeds 64 bits",
            expr.span,
            "declare smaller ranges for the operands",
        )
    return result


def _unary(expr: ir.Unary, names: Names) -> Interval:
    operand = interval(expr.operand, names)
    match expr.op:
        case "-":
            return Interval(-operand.high, -operand.low)
        case "~":
            return Interval(-operand.high - 1, -operand.low - 1)
        case "not":
            return BIT


def _corners(left: Interval, right: Interval, op: Callable[[int, int], int]) -> Interval:
    values = [op(a, b) for a in (left.low, left.high) for b in (right.low, right.high)]
    return Interval(min(values), max(values))


def _binary(expr: ir.Binary, names: Names) -> Interval:
    left, right = interval(expr.left, names), interval(expr.right, names)
    match expr.op:
        case "+":
            return Interval(left.low + right.low, left.high + right.high)
        case "-":
            return Interval(left.low - right.high, left.high - right.low)
        case "*":
            return _corners(left, right, lambda a, b: a * b)
        case "div":
            reach = max(abs(left.low), abs(left.high))
            signed = left.low < 0 or right.low < 0
            return Interval(-reach if signed else 0, reach)
        case "rem":
            reach = max(abs(right.low), abs(right.high), 1) - 1
            return Interval(
                -min(reach, -left.low) if left.low < 0 else 0,
                min(reach, left.high) if left.high > 0 else 0,
            )
        case "mod":
            return Interval(0, max(right.high - 1, 0))
        case "min":
            return Interval(min(left.low, right.low), min(left.high, right.high))
        case "max":
            return Interval(max(left.low, right.low), max(left.high, right.high))
        case "&" | "|" | "^":
            return _bits(expr.op, left, right)
        case "<<":
            return _corners(left, _shift(right), lambda a, b: a << b)
        case ">>":
            return _corners(left, _shift(right), lambda a, b: a >> b)
        case _:
            return BIT


def _shift(amount: Interval) -> Interval:
    low = min(max(amount.low, 0), SHIFT_MAX)
    return Interval(low, max(low, min(amount.high, SHIFT_MAX)))


def _bits(op: str, left: Interval, right: Interval) -> Interval:
    if left.low >= 0 and right.low >= 0:
        if op == "&":
            return Interval(0, min(left.high, right.high))
        return Interval(0, (1 << max(left.high, right.high).bit_length()) - 1)
    if op == "&" and (left.low >= 0 or right.low >= 0):
        return Interval(0, left.high if left.low >= 0 else right.high)
    ends = (left.low, left.high, right.low, right.high)
    width = max((end if end >= 0 else ~end).bit_length() for end in ends)
    return Interval(-(1 << width), (1 << width) - 1)


def check_overflow(network: net.Network) -> None:
    """Raises ModelError at the first expression that might exceed 64 bits."""
    names = names_of(network)
    for function in network.functions:
        scope = names
        for parameter in function.parameters:
            scope = scope.add(parameter.name, parameter.type)
        _check_block(function.body, scope)
    for component in network.components:
        for location in component.locations:
            _check(location.invariant, names)
            for constraint in location.clock_invariant:
                _check_constraint(constraint, names)
        for edge in component.edges:
            _check_edge(edge, edge_names(names, edge))
    for property_ in network.properties:
        for expr in _property_expressions(property_):
            _check(expr, names)


def _check(expr: ir.Expr | None, names: Names) -> None:
    """Checks every subexpression, including those that do not affect the interval of the whole."""
    if expr is None:
        return
    interval(expr, names)
    match expr:
        case ir.Load(indices=parts) | ir.Queue(indices=parts):
            for part in parts:
                _check(part, names)
        case ir.Local(index=index):
            _check(index, names)
        case ir.Unary(operand=operand) | ir.Primed(operand=operand):
            _check(operand, names)
        case ir.Binary(left=left, right=right):
            _check(left, names)
            _check(right, names)
        case ir.Conditional(condition=condition, then=then, otherwise=otherwise):
            for part in (condition, then, otherwise):
                _check(part, names)
        case ir.Fold(name=name, low=low, high=high, body=body):
            _check(body, names.add(name, ir.Type(low, high)))
        case ir.Call(arguments=arguments):
            for part in arguments:
                _check(part, names)
        case ir.Peek(position=position, indices=parts):
            for part in (position, *parts):
                _check(part, names)
        case ir.ClockTest(constraint=constraint):
            _check_constraint(constraint, names)
        case ir.ClockValue(clock=clock):
            _check_clock(clock, names)
        case ir.Const() | ir.AtLocation() | ir.IsDone() | ir.IsIdle() | ir.Deadlocked():
            pass


def _check_constraint(constraint: ir.ClockConstraint, names: Names) -> None:
    _check(constraint.when, names)
    for clock in (constraint.left, constraint.right):
        _check_clock(clock, names)
    _check_clock_limit(constraint.bound, names)


def _check_clock(clock: ir.ClockRef | None, names: Names) -> None:
    for index in () if clock is None else clock.indices:
        _check(index, names)


def _check_clock_limit(value: ir.Expr, names: Names) -> None:
    """Limits the value so that sums of a few such numbers fit into the cells of a zone."""
    _check(value, names)
    found = interval(value, names)
    if not found.within(-CLOCK_MAX, CLOCK_MAX):
        raise ModelError(
            f"this may reach {max(abs(found.low), abs(found.high))}, which is too large for a clock",
            value.span,
            f"keep it within {-CLOCK_MAX}..{CLOCK_MAX}: declare smaller ranges for the operands",
        )


def _check_edge(edge: net.Edge, names: Names) -> None:
    _check(edge.guard, names)
    for constraint in edge.clock_guard:
        _check_constraint(constraint, names)
    if edge.label is not None:
        for argument in edge.label.arguments:
            _check(argument, names)
    match edge.sync:
        case net.Send(indices=indices, values=values):
            for part in indices + values:
                _check(part, names)
        case net.Receive(indices=indices, patterns=patterns):
            for part in indices:
                _check(part, names)
            for pattern in patterns:
                if isinstance(pattern, net.Match):
                    _check(pattern.value, names)
        case net.Meet(indices=indices):
            for part in indices:
                _check(part, names)
        case None:
            pass
    _check_block(edge.update, names)


def _check_block(block: ir.Block, names: Names) -> None:
    for statement in block:
        names = _check_statement(statement, names)


def _check_statement(statement: ir.Statement, names: Names) -> Names:
    """Checks the statement and returns the names visible after it."""
    match statement:
        case ir.Assign(target=target, value=value):
            _check(target, names)
            _check(value, names)
        case ir.Let(name=name, type=type_, value=value):
            _check(value, names)
            return names.add(name, type_)
        case ir.If(condition=condition, then=then, otherwise=otherwise):
            _check(condition, names)
            _check_block(then, names)
            _check_block(otherwise, names)
        case ir.While(condition=condition, body=body):
            _check(condition, names)
            _check_block(body, names)
        case ir.For(name=name, low=low, high=high, body=body):
            _check_block(body, names.add(name, ir.Type(low, high)))
        case ir.Return(value=value) | ir.Evaluate(value=value):
            _check(value, names)
        case ir.Reset(clock=clock, value=value):
            _check_clock_limit(value, names)
            _check_clock(clock, names)
        case ir.Check(condition=condition):
            _check(condition, names)
    return names


def _property_expressions(property_: prop.Property) -> list[ir.Expr]:
    match property_.claim:
        case prop.Always(condition=condition) | prop.Transition(condition=condition):
            return [condition]
        case prop.Inevitable(condition=condition) | prop.PotentiallyAlways(condition=condition):
            return [condition]
        case prop.Reachable(condition=condition, optimise=optimise):
            return [condition] + ([] if optimise is None else [optimise.value])
        case prop.LeadsTo(cause=cause, effect=effect):
            return [cause, effect]
        case prop.Temporal(formula=formula):
            return [
                part.condition for part in prop.propositions_of(formula) if isinstance(part, prop.Holds)
            ]
        case (
            prop.DeadlockFree()
            | prop.DivergenceFree()
            | prop.NonTerminating()
            | prop.Deterministic()
            | prop.Refines()
        ):
            return []
        case _:
            assert_never(property_.claim)
