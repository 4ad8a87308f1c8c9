"""Lowers expressions with side effects to statements."""

from __future__ import annotations

from dataclasses import replace

from veristream.errors import ModelError
from veristream.ir import expr as ir
from veristream.ir.bounds import CLOCK_MAX
from veristream.languages.timed import syntax
from veristream.languages.timed.lower.builtin import ASSERT
from veristream.languages.timed.lower.constant import OPERATORS
from veristream.languages.timed.lower.kinds import mentions_clock, no_number, type_of, written
from veristream.languages.timed.lower.programs import access
from veristream.languages.timed.lower.programs.calls import find_function, is_builtin, lower_call
from veristream.languages.timed.lower.programs.fold import has_call
from veristream.languages.timed.lower.programs.reader import Reader
from veristream.languages.timed.lower.programs.results import store_result
from veristream.languages.timed.lower.scope import Fixed, Home, Ref
from veristream.languages.timed.lower.types import Array, Clock, Range, Record, describe, same_layout
from veristream.source import Span


def perform(reader: Reader, expr: syntax.Expression) -> None:
    """Lowers an expression for its side effects; its value is discarded."""
    match expr:
        case syntax.Assignment():
            assign(reader, expr)
        case syntax.Increment(op=op, target=target, span=span):
            assign(reader, _as_assignment(op, target, span))
        case syntax.Call(arguments=arguments, span=span) if is_builtin(expr, ASSERT, reader.scope):
            reader.emit(ir.Check(reader.value(arguments[0]), f"`{written(span)}` does not hold", span=span))
        case syntax.Call(span=span):
            call = lower_call(reader, expr)
            if isinstance(call, ir.Call):
                reader.emit(ir.Evaluate(call, span=span))
        case syntax.Ternary(condition=condition, then=then, otherwise=otherwise, span=span):
            chosen = reader.value(condition)
            reader.emit(ir.If(chosen, _block(reader, then), _block(reader, otherwise), span=span))
        case _:
            value = reader.value(expr)
            if has_call(value):
                reader.emit(ir.Let(reader.names.fresh("unused"), ir.INT, value, span=expr.span))


def _block(reader: Reader, expr: syntax.Expression) -> ir.Block:
    inner = replace(reader, effects=None if reader.effects is None else [])
    perform(inner, expr)
    return tuple(inner.effects or ())


def _as_assignment(op: str, target: syntax.Expression, span: Span) -> syntax.Assignment:
    return syntax.Assignment("+=" if op == "++" else "-=", target, syntax.Number(1, span=span), span=span)


def increment(reader: Reader, expr: syntax.Increment) -> ir.Expr:
    """Lowers `x++` or `++x`, and returns its value."""
    if expr.prefix:
        assign(reader, _as_assignment(expr.op, expr.target, expr.span))
        return reader.value(expr.target)
    before = reader.value(expr.target)
    if reader.effects is not None:
        before = reader.keep([before], reader.mark())[0]
    assign(reader, _as_assignment(expr.op, expr.target, expr.span))
    return before


def assign(reader: Reader, expr: syntax.Assignment) -> None:
    """Lowers an assignment; side effects of its operands come first."""
    type_ = type_of(expr.target, reader.scope)
    if isinstance(type_, Record | Array) and not _sets_clocks(reader, expr):
        _copy(reader, expr, expr.value)
        return
    if mentions_clock(expr.value, reader.scope):
        raise ModelError(
            "clock values cannot be assigned", expr.value.span, "assign a number, as in `x = 0`"
        )
    value = reader.value(expr.value)
    place = _writable(reader, expr.target)
    if expr.op != "=":
        if not isinstance(place.type, Range):
            raise ModelError(
                f"{describe(place.type)} can only be assigned with `=`", expr.span, "write `= ...`"
            )
        old = access.read(place, reader.model, expr.target.span)
        value = ir.Binary(OPERATORS[expr.op[:-1]], old, value, span=expr.span)
    for _, one in access.elements(place):
        store(reader, one, value, _is_truth(reader, expr), expr)


def _sets_clocks(reader: Reader, expr: syntax.Assignment) -> bool:
    """Returns whether a number is assigned to all clocks of an array."""
    whole = mentions_clock(expr.target, reader.scope)
    return whole and not mentions_clock(expr.value, reader.scope)


def _is_truth(reader: Reader, expr: syntax.Assignment) -> bool:
    return expr.op == "=" and type_of(expr.value, reader.scope) == ir.BOOL


def _writable(reader: Reader, target: syntax.Expression) -> Ref:
    place = reader.place(target)
    if isinstance(place, Fixed) or place.home is Home.FIXED:
        raise ModelError("constants cannot be assigned", target.span, "declare it without `const`")
    if not place.writable:
        raise ModelError(f"`{place.name}` cannot be assigned", target.span, "use a variable")
    return place


def store(reader: Reader, place: Ref, value: ir.Expr, truth: bool, expr: syntax.Assignment) -> None:
    """Stores one number; unless `truth` says that it is boolean, a boolean target gets `value != 0`."""
    match place.type:
        case Clock():
            value = reader.at_run_time(value, Range(0, CLOCK_MAX))
            reader.emit(ir.Reset(access.clock(place, expr.target.span), value, span=expr.span))
        case Range() as type_:
            converted = reader.at_run_time(as_type(value, type_, truth), type_)
            reader.emit(ir.Assign(access.target(place, expr.target.span), converted, span=expr.span))
        case type_:
            raise no_number(expr.target, describe(type_))


def as_type(value: ir.Expr, type_: Range, truth: bool) -> ir.Expr:
    """Converts a number to the type: every number except 0 is true."""
    if type_ != ir.BOOL or truth:
        return value
    if isinstance(value, ir.Const):
        return ir.Const(int(value.value != 0), value.span)
    return ir.Binary("!=", value, ir.Const(0), span=value.span)


def _copy_result(reader: Reader, expr: syntax.Assignment, call: syntax.Call) -> None:
    """Assigns the struct or array that a function returns; the function itself stores it."""
    function = find_function(reader, call)
    scope = reader.scope.bind(f"{call.name}=", store_result(function))
    stored = replace(call, name=f"{call.name}=", arguments=(*call.arguments, expr.target))
    perform(reader.within(scope), stored)


def _copy(reader: Reader, expr: syntax.Assignment, source: syntax.Expression) -> None:
    """Assigns a struct or array element by element."""
    if isinstance(source, syntax.Ternary):
        chosen = reader.value(source.condition)
        then, otherwise = (
            _block(reader, syntax.Assignment(expr.op, expr.target, side, span=expr.span))
            for side in (source.then, source.otherwise)
        )
        reader.emit(ir.If(chosen, then, otherwise, span=expr.span))
        return
    if isinstance(source, syntax.Call):
        _copy_result(reader, expr, source)
        return
    place, other = _writable(reader, expr.target), reader.place(source)
    if isinstance(other, Fixed) or expr.op != "=" or not same_layout(place.type, other.type):
        raise ModelError(
            f"cannot assign {describe(other.type)} to {describe(place.type)} here",
            expr.span,
            "both sides of `=` must have the same type",
        )
    for (_, one), (leaf, part) in zip(access.elements(place), access.elements(other), strict=True):
        if not isinstance(leaf.type, Range):
            raise no_number(source, describe(leaf.type))
        store(reader, one, access.read(part, reader.model, source.span), leaf.type == ir.BOOL, expr)
