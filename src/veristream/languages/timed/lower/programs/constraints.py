"""Guards and invariants: separates conditions on variables from clock constraints.

Clock conditions must be convex: a conjunction of bounds on clocks and their differences. Each bound may
depend on a condition without clocks, so `b || x < 5` is supported, and `x < 5 || y < 5` is not.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from veristream.errors import ModelError
from veristream.ir import expr as ir
from veristream.languages.timed import syntax
from veristream.languages.timed.lower.constant import bounded, numbers
from veristream.languages.timed.lower.kinds import COMPARISONS, is_clock, mentions_clock, type_of
from veristream.languages.timed.lower.programs import access
from veristream.languages.timed.lower.programs.fold import fold, negation
from veristream.languages.timed.lower.programs.reader import Reader
from veristream.languages.timed.lower.scope import Fixed, Ref
from veristream.source import Span

_FLIPPED: dict[str, ir.ClockOp] = {"<": ">", "<=": ">=", "==": "==", ">=": "<=", ">": "<"}
_OPS: dict[str, ir.ClockOp] = {"<": "<", "<=": "<=", "==": "==", ">=": ">=", ">": ">"}
_NEGATED: dict[str, tuple[ir.ClockOp, ...]] = {
    "<": (">=",),
    "<=": (">",),
    "==": ("<", ">"),
    ">=": ("<",),
    ">": ("<=",),
}


@dataclass(slots=True)
class Conditions:
    """A conjunction of discrete conditions and clock constraints."""

    discrete: list[ir.Expr] = field(default_factory=list)
    clocks: list[ir.ClockConstraint] = field(default_factory=list)


def split(reader: Reader, expr: syntax.Expression | None) -> Conditions:
    """Splits a guard or invariant into discrete conditions and clock constraints."""
    found = Conditions()
    if expr is not None:
        _split(reader, expr, None, found)
    return found


def check_invariant(conditions: Conditions) -> None:
    """Raises ModelError for `==` on a single clock: such an invariant holds at only one instant."""
    for one in conditions.clocks:
        if one.right is None and one.op == "==":
            raise ModelError(
                "an invariant cannot compare a clock with `==`",
                one.span,
                "use `<` or `<=` as an upper bound, `>` or `>=` as a lower bound",
            )


def negate(constraint: ir.ClockConstraint) -> tuple[ir.ClockConstraint, ...]:
    """Returns the constraints whose disjunction is the negation of `constraint`, ignoring its `when`."""
    return tuple(replace(constraint, op=op, when=None) for op in _NEGATED[constraint.op])


def _split(reader: Reader, expr: syntax.Expression, when: ir.Expr | None, found: Conditions) -> None:
    if not mentions_clock(expr, reader.scope):
        value = reader.value(expr)
        found.discrete.append(value if when is None else fold("implies", when, value, expr.span))
        return
    if isinstance(when, ir.Const) and not when.value:
        return
    match expr:
        case syntax.Binary(op="and", left=left, right=right):
            _split(reader, left, when, found)
            _split(reader, right, when, found)
        case syntax.Quantified(op="forall", name=name, body=body):
            type_ = bounded(expr.type, reader.scope)
            for number in numbers(type_):
                inner = reader.within(reader.scope.bind(name, Fixed(number, type_)))
                _split(inner, body, when, found)
        case syntax.Binary(op="or" | "imply"):
            condition, rest = _choose_side(reader, expr)
            _split(reader, rest, _both(when, condition), found)
        case syntax.Ternary(condition=condition, then=then, otherwise=otherwise) if not mentions_clock(
            condition, reader.scope
        ):
            holds = reader.value(condition)
            _split(reader, then, _both(when, holds), found)
            _split(reader, otherwise, _both(when, negation(holds)), found)
        case syntax.Binary(op=op) if op in COMPARISONS:
            if op == "!=":
                raise _not_convex(expr.span, "use two edges, one with `<` and one with `>`")
            found.clocks.append(
                replace(_compare(reader, expr), when=None if isinstance(when, ir.Const) else when)
            )
        case _:
            raise _not_convex(expr.span, "compare clocks with numbers, and join the comparisons with `&&`")


def _choose_side(reader: Reader, expr: syntax.Binary) -> tuple[ir.Expr, syntax.Expression]:
    """Returns the condition under which the side with clocks must hold, and that side."""
    left_has, right_has = (mentions_clock(side, reader.scope) for side in (expr.left, expr.right))
    if (left_has and right_has) or (expr.op == "imply" and left_has):
        raise _not_convex(expr.span, "use a separate edge or location for each case")
    condition, rest = (expr.right, expr.left) if left_has else (expr.left, expr.right)
    value = reader.value(condition)
    return (value if expr.op == "imply" else negation(value)), rest


def _both(one: ir.Expr | None, other: ir.Expr) -> ir.Expr:
    return other if one is None else fold("and", one, other, other.span)


def _not_convex(span: Span, hint: str) -> ModelError:
    return ModelError("this clock condition is not convex", span, hint)


def compare_clocks(reader: Reader, expr: syntax.Binary) -> ir.Expr:
    """Lowers a clock comparison in a query, which need not be convex."""
    if expr.op == "!=":
        equal = _compare(reader, replace(expr, op="=="))
        return negation(ir.ClockTest(equal, span=expr.span))
    return ir.ClockTest(_compare(reader, expr), span=expr.span)


@dataclass(slots=True)
class _Sum:
    """A sum of clocks with positive and negative sign, and a number."""

    plus: list[ir.ClockRef] = field(default_factory=list)
    minus: list[ir.ClockRef] = field(default_factory=list)
    number: ir.Expr = ir.Const(0)  # noqa: RUF009 - it is frozen


def _compare(reader: Reader, expr: syntax.Binary) -> ir.ClockConstraint:
    """Normalises `left op right`: clocks on the left, numbers on the right."""
    total = _Sum()  # left - right, so the bound is the negated number
    _add(reader, expr.left, True, total)
    _add(reader, expr.right, False, total)
    bound = _negative(total.number)
    match total.plus, total.minus:
        case [one], []:
            return ir.ClockConstraint(one, None, _OPS[expr.op], bound, span=expr.span)
        case [one], [other]:
            return ir.ClockConstraint(one, other, _OPS[expr.op], bound, span=expr.span)
        case [], [other]:
            return ir.ClockConstraint(other, None, _FLIPPED[expr.op], total.number, span=expr.span)
        case _:
            raise ModelError(
                "a comparison may contain one clock or the difference of two clocks",
                expr.span,
                "write `x < n` or `x - y < n`",
            )


def _add(reader: Reader, expr: syntax.Expression, positive: bool, total: _Sum) -> None:
    if not mentions_clock(expr, reader.scope):
        value = reader.value(expr)
        total.number = access.add(total.number, value) if positive else _minus(total.number, value)
        return
    match expr:
        case syntax.Binary(op="+", left=left, right=right):
            _add(reader, left, positive, total)
            _add(reader, right, positive, total)
        case syntax.Binary(op="-", left=left, right=right):
            _add(reader, left, positive, total)
            _add(reader, right, not positive, total)
        case _ if is_clock(type_of(expr, reader.scope)):
            place = reader.place(expr)
            assert isinstance(place, Ref)
            (total.plus if positive else total.minus).append(access.clock(place, expr.span))
        case _:
            raise ModelError(
                "clocks can only be added and subtracted", expr.span, "write `x < n` or `x - y < n`"
            )


def _minus(left: ir.Expr, right: ir.Expr) -> ir.Expr:
    match left, right:
        case ir.Const(value=one), ir.Const(value=other, span=span):
            return ir.Const(one - other, span)
        case ir.Const(value=0), _:
            return ir.Unary("-", right, span=right.span)
        case _:
            return ir.Binary("-", left, right, span=left.span)


def _negative(value: ir.Expr) -> ir.Expr:
    match value:
        case ir.Const(value=number, span=span):
            return ir.Const(-number, span)
        case ir.Unary(op="-", operand=operand):
            return operand
        case ir.Binary(op="-", left=left, right=right, span=span):
            return ir.Binary("-", right, left, span=span)
        case _:
            return ir.Unary("-", value, span=value.span)
