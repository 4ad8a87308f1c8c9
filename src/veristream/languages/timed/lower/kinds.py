"""Types of expressions, computed before lowering."""

from __future__ import annotations

from html import unescape

from veristream.errors import ModelError
from veristream.ir import expr as ir
from veristream.languages.timed import syntax
from veristream.languages.timed.lower.constant import bounded, resolve_type
from veristream.languages.timed.lower.scope import Family, Fixed, FunctionName, Process, Ref, Scope
from veristream.languages.timed.lower.types import Array, Clock, Range, Record, Type, has_clocks
from veristream.source import Span

COMPARISONS = frozenset({"==", "!=", "<", "<=", ">", ">="})
CONNECTIVES = frozenset({"and", "or", "imply"})


def type_of(expr: syntax.Expression, scope: Scope) -> Type | None:
    """Returns the type of the expression; None means some number, or an unknown type."""
    match expr:
        case syntax.Number(value=value):
            return ir.BOOL if value in (0, 1) else Range(value, value)
        case syntax.Name(name=name):
            entity = scope.look_up(name)
            return entity.type if isinstance(entity, Fixed | Ref) else None
        case syntax.Index(base=base):
            array = type_of(base, scope)
            return array.element if isinstance(array, Array) else None
        case syntax.Member():
            return _member(expr, scope)
        case syntax.Call(name=name):
            entity = scope.look_up(name)
            if not isinstance(entity, FunctionName):
                return None
            return resolve_type(entity.declaration.result, (), entity.scope)
        case syntax.ProcessCall():
            function = find_function(expr, scope)
            return (
                None if function is None else resolve_type(function.declaration.result, (), function.scope)
            )
        case syntax.Ternary(then=then, otherwise=otherwise):
            type_ = type_of(then, scope)
            return type_ if type_ == type_of(otherwise, scope) else None
        case syntax.Assignment(target=target) | syntax.Increment(target=target):
            return type_of(target, scope)
        case syntax.Unary(op="not") | syntax.Deadlock() | syntax.Quantified(op="forall" | "exists"):
            return ir.BOOL
        case syntax.Binary(op=op) if op in COMPARISONS or op in CONNECTIVES:
            return ir.BOOL
        case _:
            return None


def _member(expr: syntax.Member, scope: Scope) -> Type | None:
    process = find_process(expr.base, scope)
    if process is not None:
        if expr.name in process.locations:
            return ir.BOOL
        entity = process.scope.names.get(expr.name)
        return entity.type if isinstance(entity, Fixed | Ref) else None
    record = type_of(expr.base, scope)
    return dict(record.fields).get(expr.name) if isinstance(record, Record) else None


def find_process(expr: syntax.Expression, scope: Scope) -> Process | None:
    """Returns the process that the expression denotes, for a family any member; otherwise None."""
    match expr:
        case syntax.Name(name=name) | syntax.Call(name=name):
            entity = scope.look_up(name)
            if isinstance(entity, Family):
                return next(iter(entity.members.values()))
            return entity if isinstance(entity, Process) else None
        case _:
            return None


def find_function(expr: syntax.ProcessCall, scope: Scope) -> FunctionName | None:
    """Returns the called function of a process, for a family of any member; None if there is none."""
    process = find_process(expr.process, scope)
    entity = None if process is None else process.scope.names.get(expr.call.name)
    return entity if isinstance(entity, FunctionName) else None


def parts(expr: syntax.Expression) -> tuple[syntax.Expression, ...]:
    """Returns the subexpressions, without the body of a quantifier."""
    match expr:
        case syntax.Index(base=base, index=index):
            return (base, index)
        case syntax.Member(base=base):
            return (base,)
        case syntax.Unary(operand=operand):
            return (operand,)
        case syntax.Binary(left=left, right=right):
            return (left, right)
        case syntax.Ternary(condition=condition, then=then, otherwise=otherwise):
            return (condition, then, otherwise)
        case syntax.Call(arguments=arguments):
            return arguments
        case syntax.ProcessCall(process=process, call=call):
            return (process, *call.arguments)
        case syntax.Assignment(target=target, value=value):
            return (target, value)
        case syntax.Increment(target=target):
            return (target,)
        case _:
            return ()


def mentions_clock(expr: syntax.Expression, scope: Scope) -> bool:
    """Returns whether the expression contains a clock."""
    if isinstance(expr, syntax.Quantified):
        return mentions_clock(expr.body, bind_example(expr, scope))
    type_ = type_of(expr, scope)
    if type_ is not None and has_clocks(type_):
        return True
    return any(mentions_clock(part, scope) for part in parts(expr))


def mentions_process_of(expr: syntax.Expression, name: str) -> bool:
    """Returns whether the expression contains a process selected by `name`, as in `P(name).x`."""
    if isinstance(expr, syntax.Quantified):
        return expr.name != name and mentions_process_of(expr.body, name)
    if isinstance(expr, syntax.Member) and isinstance(expr.base, syntax.Call):
        return mentions_name(expr.base, name)
    if isinstance(expr, syntax.ProcessCall) and mentions_name(expr.process, name):
        return True
    return any(mentions_process_of(part, name) for part in parts(expr))


def mentions_name(expr: syntax.Expression, name: str) -> bool:
    """Returns whether the name occurs in the expression outside quantifiers."""
    if isinstance(expr, syntax.Name):
        return expr.name == name
    return any(mentions_name(part, name) for part in parts(expr))


def bind_example(expr: syntax.Quantified, scope: Scope) -> Scope:
    """Returns the scope of a quantifier's body, with an arbitrary value for the bound name."""
    type_ = bounded(expr.type, scope)
    return scope.bind(expr.name, Fixed(type_.low, type_))


def range_of(expr: syntax.Expression, scope: Scope) -> Range:
    """Returns a range that contains all possible values."""
    type_ = type_of(expr, scope)
    if isinstance(type_, Range):
        return Range(expr.value, expr.value) if isinstance(expr, syntax.Number) else type_
    return ir.INT


def is_clock(type_: Type | None) -> bool:
    """Returns whether this is the type of a single clock."""
    return isinstance(type_, Clock)


def written(span: Span) -> str:
    """Returns the source text at `span`, with whitespace collapsed."""
    return " ".join(unescape(span.source.text[span.start : span.end]).split())


def no_number(expr: syntax.Expression, what: str) -> ModelError:
    """Returns the error for a clock, channel, struct or array in place of a number."""
    hints = {
        "a clock": "clocks can be compared in guards, invariants and queries, and set in updates",
        "a channel": "use a channel in a synchronisation, with `!` or `?`",
        "an array": "select an element with `[index]`",
        "a struct": "select a field with `.name`",
    }
    return ModelError(f"expected a number, found {what}", expr.span, hints.get(what, ""))
