"""Checks that expressions and statements are well-formed in their context.

A local name is visible from its declaration to the end of its block. An inner name never shadows an outer
one, so engines can keep locals in one table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import assert_never

from veristream.errors import ModelError, unknown
from veristream.ir import expr as ir
from veristream.ir.bounds import CLOCK_MAX
from veristream.ir.constant import constant_value
from veristream.ir.network import Channel, ChannelKind, Clock, Component, Function, Variable
from veristream.source import NOWHERE, Span

BOUND_MAX = 2**62 - 1
"""The largest magnitude of a declared value."""


@dataclass(frozen=True, slots=True)
class Declared:
    """The declarations of the network by name.

    `impure` are the functions that assign state, `stopped` the components that edges join or kill.
    """

    enums: Mapping[str, tuple[int, int]]  # their smallest and largest numbers
    variables: Mapping[str, Variable]
    channels: Mapping[str, Channel]
    clocks: Mapping[str, Clock]
    functions: Mapping[str, Function]
    components: Mapping[str, Component]
    timed: bool = False
    impure: frozenset[str] = frozenset()
    stopped: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Known:
    """A local name: its type, its size if it is an array, and whether it can be assigned."""

    type: ir.Type
    size: int | None = None
    assignable: bool = False


@dataclass(frozen=True, slots=True)
class Place:
    """The context of an expression: the visible names and the allowed constructs."""

    declared: Declared
    locals: Mapping[str, Known] = field(default_factory=dict)
    pure: bool = True  # functions that assign state cannot be called
    primes: bool = False  # `Primed` is allowed
    clocks: bool = False  # `ClockTest` and `Deadlocked` are allowed
    result: ir.Type | None = None  # of the function; None outside of functions

    def declare(self, name: str, known: Known, span: Span) -> Place:
        """Returns the place with one more local name."""
        check_name(name, "a local name", span)
        if name in self.locals:
            raise ModelError(f"`{name}` is already declared", span, "use another name")
        return replace(self, locals={**self.locals, name: known})


def check_name(name: str, what: str, span: Span) -> None:
    """Raises ModelError if the name is empty."""
    if not name:
        raise ModelError(f"{what} is empty", span, "give it a name")


def check_type(type_: ir.Type, declared: Declared, span: Span) -> None:
    """Checks that the range is not empty, not too large and within its enum."""
    if type_.low > type_.high:
        raise ModelError(
            f"the range {type_.low}..{type_.high} is empty", span, "write the lower bound first"
        )
    if type_.low < -BOUND_MAX or type_.high > BOUND_MAX:
        raise ModelError(
            f"the range {type_.low}..{type_.high} is too large", span, "keep the bounds below 2^62"
        )
    if type_.enum is None:
        return
    bounds = (0, 1) if type_.enum == "bool" else declared.enums.get(type_.enum)
    if bounds is None:
        raise unknown("enum", type_.enum, ["bool", *declared.enums], span, "declare it with `enum`")
    if type_.low < bounds[0] or type_.high > bounds[1]:
        raise ModelError(
            f"the range {type_.low}..{type_.high} is not within `{type_.enum}`",
            span,
            f"its members are {bounds[0]}..{bounds[1]}",
        )


def check_range(low: int, high: int, span: Span) -> ir.Type:
    """Checks a range and returns the type of a counter over it."""
    type_ = ir.Type(low, high)
    if low > high:
        raise ModelError(f"the range {low}..{high} is empty", span, "write the lower bound first")
    if low < -BOUND_MAX or high > BOUND_MAX:
        raise ModelError(f"the range {low}..{high} is too large", span, "keep the bounds below 2^62")
    return type_


def check_value(expr: ir.Expr, type_: ir.Type, owner: str, place: Place, span: Span | None = None) -> None:
    """Checks the expression, and that it is not a constant outside the owner's type."""
    check_expr(expr, place)
    value = constant_value(expr)
    if value is not None and not type_.low <= value <= type_.high:
        where = span if span is not None and expr.span is NOWHERE else expr.span
        raise ModelError(
            f"{value} is outside the range {type_.low}..{type_.high} of {owner}",
            where,
            "widen the type or change the value",
        )


def check_indices(
    owner: str, shape: tuple[int, ...], indices: tuple[ir.Expr, ...], place: Place, span: Span
) -> None:
    """Checks the number of indices, and that no constant index is out of bounds."""
    if len(indices) != len(shape):
        form = owner + "".join(f"[{size}]" for size in shape)
        message = f"`{owner}` has {len(shape)} dimension(s) but {len(indices)} index(es)"
        raise ModelError(
            message if shape else f"`{owner}` is not an array", span, f"it is declared as `{form}`"
        )
    for size, index in zip(shape, indices, strict=True):
        check_expr(index, place)
        value = constant_value(index)
        if value is not None and not 0 <= value < size:
            raise ModelError(
                f"index {value} is outside 0..{size - 1} of `{owner}`",
                span if index.span is NOWHERE else index.span,
                "the first element has index 0",
            )


def find_channel(name: str, indices: tuple[ir.Expr, ...], place: Place, span: Span) -> Channel:
    """Returns the channel after checking its indices."""
    channel = place.declared.channels.get(name)
    if channel is None:
        raise unknown("channel", name, place.declared.channels, span, "declare it with `channel`")
    check_indices(name, channel.shape, indices, place, span)
    return channel


def find_component(name: str, declared: Declared, span: Span) -> Component:
    """Returns the component; raises ModelError if it is unknown."""
    component = declared.components.get(name)
    if component is None:
        instance = next((known for known in declared.components if known.startswith(f"{name}(")), None)
        if instance is not None:
            raise ModelError(f"`{name}` has parameters", span, f"write `{instance}`")
        raise unknown("component", name, declared.components, span, "declare it with `component`")
    return component


def check_expr(expr: ir.Expr, place: Place) -> None:
    """Checks that all names in the expression are known and used correctly."""
    match expr:
        case ir.Const(value=value, span=span):
            check_range(value, value, span)
        case ir.Load(variable=name, indices=indices, span=span):
            check_indices(name, _find_variable(name, place, span).shape, indices, place, span)
        case ir.Local():
            _check_local(expr, place)
        case ir.Unary(operand=operand):
            check_expr(operand, place)
        case ir.Binary(left=left, right=right):
            check_expr(left, place)
            check_expr(right, place)
        case ir.Conditional(condition=condition, then=then, otherwise=otherwise):
            for part in (condition, then, otherwise):
                check_expr(part, place)
        case ir.Fold(name=name, low=low, high=high, body=body, span=span):
            known = Known(check_range(low, high, span))
            check_expr(body, place.declare(name, known, span))
        case ir.Call():
            _check_call(expr, place)
        case ir.AtLocation(component=name, location=location, span=span):
            locations = [part.name for part in find_component(name, place.declared, span).locations]
            if location not in locations:
                hint = f"`{name}` has {', '.join(locations)}"
                raise unknown("location", location, locations, span, hint)
        case ir.IsDone(component=name, span=span) | ir.IsIdle(component=name, span=span):
            find_component(name, place.declared, span)
        case ir.Queue() | ir.Peek():
            _check_queue(expr, place)
        case ir.Primed(operand=operand, span=span):
            if not place.primes:
                raise ModelError(
                    "primes are not allowed here",
                    span,
                    "use them only in `transition` properties, not nested",
                )
            check_expr(operand, replace(place, primes=False))
        case ir.ClockTest(constraint=constraint, span=span):
            _check_timed_context("clock tests are not allowed here", place, span)
            check_constraint(constraint, replace(place, clocks=False))
        case ir.Deadlocked(span=span):
            _check_timed_context("`deadlock` is not allowed here", place, span)
        case ir.ClockValue(span=span):
            raise ModelError(
                "clock values cannot be used in arithmetic",
                span,
                "compare the clock, as in `clock(x < 3)`, or optimise it: `reachable E maximise clock(x)`",
            )
        case _:
            assert_never(expr)


def _check_timed_context(message: str, place: Place, span: Span) -> None:
    if not place.clocks:
        raise ModelError(message, span, "use it in the properties of a `timed` network")


_COMPARISONS = ("<", "<=", "==", ">=", ">")


def check_constraint(constraint: ir.ClockConstraint, place: Place) -> None:
    """Checks the clocks and the bound of a constraint."""
    for clock in (constraint.left, constraint.right):
        if clock is not None:
            check_clock(clock, place, constraint.span)
    if constraint.op not in _COMPARISONS:
        raise ModelError(
            f"clocks cannot be compared with `{constraint.op}`",
            constraint.span,
            f"use one of {' '.join(_COMPARISONS)}",
        )
    for part in (constraint.bound, constraint.when):
        if part is not None:
            check_expr(part, place)


def check_clock(ref: ir.ClockRef, place: Place, around: Span) -> None:
    """Checks that the clock is known and its indices are valid."""
    span = around if ref.span is NOWHERE else ref.span
    clock = place.declared.clocks.get(ref.clock)
    if clock is None:
        raise unknown("clock", ref.clock, place.declared.clocks, span, "declare it with `clock`")
    check_indices(ref.clock, clock.shape, ref.indices, place, span)


def _find_variable(name: str, place: Place, span: Span) -> Variable:
    variable = place.declared.variables.get(name)
    if variable is None:
        raise unknown("variable", name, place.declared.variables, span, "declare it with `var`")
    return variable


def _check_local(local: ir.Local, place: Place) -> Known:
    known = place.locals.get(local.name)
    if known is None:
        raise unknown("local name", local.name, place.locals, local.span, "declare it before this place")
    shape = () if known.size is None else (known.size,)
    indices = () if local.index is None else (local.index,)
    check_indices(local.name, shape, indices, place, local.span)
    return known


def _check_call(call: ir.Call, place: Place) -> None:
    function = place.declared.functions.get(call.function)
    if function is None:
        raise unknown("function", call.function, place.declared.functions, call.span, "declare it first")
    if len(call.arguments) != len(function.parameters):
        names = ", ".join(parameter.name for parameter in function.parameters)
        raise ModelError(
            f"`{call.function}` takes {len(function.parameters)} argument(s), not {len(call.arguments)}",
            call.span,
            f"call it as `{call.function}({names})`",
        )
    if place.pure and call.function in place.declared.impure:
        raise ModelError(
            f"`{call.function}` assigns variables and cannot be called here",
            call.span,
            "only an update can change the state",
        )
    for parameter, argument in zip(function.parameters, call.arguments, strict=True):
        check_value(argument, parameter.type, f"`{parameter.name}`", place, call.span)


def _check_queue(expr: ir.Queue | ir.Peek, place: Place) -> None:
    channel = find_channel(expr.channel, expr.indices, place, expr.span)
    if channel.kind is not ChannelKind.BUFFER:
        raise ModelError(
            f"`{channel.name}` is a {channel.kind.value} channel and stores no messages",
            expr.span,
            "only a `buffer` has a length and stored messages",
        )
    if isinstance(expr, ir.Peek):
        check_expr(expr.position, place)
        if not 0 <= expr.part < len(channel.fields):
            raise ModelError(
                f"a message of `{channel.name}` has no field {expr.part}",
                expr.span,
                f"it has {len(channel.fields)}, counted from 0",
            )


def check_block(block: ir.Block, place: Place) -> None:
    for statement in block:
        place = _check_statement(statement, place)


def _check_statement(statement: ir.Statement, place: Place) -> Place:
    """Checks the statement and returns the place after it."""
    match statement:
        case ir.Assign():
            _check_assign(statement, place)
        case ir.Let():
            return _check_let(statement, place)
        case ir.If(condition=condition, then=then, otherwise=otherwise):
            check_expr(condition, place)
            check_block(then, place)
            check_block(otherwise, place)
        case ir.While(condition=condition, body=body, limit=limit, span=span):
            check_expr(condition, place)
            if not 0 <= limit <= BOUND_MAX:
                raise ModelError(f"the loop limit {limit} is too small", span, "it must be at least 1")
            check_block(body, place)
        case ir.For(name=name, low=low, high=high, body=body, span=span):
            known = Known(check_range(low, high, span))
            check_block(body, place.declare(name, known, span))
        case ir.Return(value=value, span=span):
            if place.result is None:
                raise ModelError("`return` is allowed only in functions", span, "remove it")
            check_value(value, place.result, "the result", place, span)
        case ir.Evaluate(value=value, span=span):
            if not isinstance(value, ir.Call):
                raise ModelError("the value is not used", span, "call a function, or assign it")
            check_expr(value, place)
        case ir.Check(condition=condition):
            check_expr(condition, place)
        case ir.Reset(clock=clock, value=value, span=span):
            check_clock(clock, place, span)
            check_value(value, ir.Type(0, CLOCK_MAX), f"the clock `{clock.clock}`", place, span)
        case _:
            assert_never(statement)
    return place


def _check_assign(statement: ir.Assign, place: Place) -> None:
    target = statement.target
    match target:
        case ir.Load(variable=name, indices=indices, span=span):
            variable = _find_variable(name, place, span)
            check_indices(name, variable.shape, indices, place, span)
            type_ = variable.type
        case ir.Local(name=name, span=span):
            known = _check_local(target, place)
            if not known.assignable:
                raise ModelError(
                    f"`{name}` cannot be assigned", span, "only names declared with `let` can be assigned"
                )
            type_ = known.type
        case _:
            assert_never(target)
    check_value(statement.value, type_, f"`{name}`", place, statement.span)


def _check_let(statement: ir.Let, place: Place) -> Place:
    check_type(statement.type, place.declared, statement.span)
    if statement.size is not None and statement.size < 1:
        raise ModelError(
            f"the array `{statement.name}` has no elements", statement.span, "give it at least one"
        )
    check_value(statement.value, statement.type, f"`{statement.name}`", place, statement.span)
    known = Known(statement.type, statement.size, assignable=True)
    return place.declare(statement.name, known, statement.span)
