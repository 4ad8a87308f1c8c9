"""Conditions on states and clocks as disjunctions of convex parts.

A zone is convex, so a condition that mixes variables and clocks is tested on a zone part by part: an
expression over variables, a conjunction of clock constraints, and a test for deadlock.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass, replace
from itertools import product
from typing import Any

from veristream.errors import ModelError
from veristream.ir import expr as ir
from veristream.ir.walk import may_fault, mentions

DISJUNCTS_MAX = 512
_NEGATED: dict[str, ir.ClockOp] = {"<": ">=", "<=": ">", ">": "<=", ">=": "<"}


@dataclass(frozen=True, slots=True)
class Disjunct:
    """A convex part of a condition, a conjunction; `deadlock` is None if it does not test for deadlock."""

    condition: ir.Expr = ir.TRUE
    clocks: tuple[ir.ClockConstraint, ...] = ()
    deadlock: bool | None = None


def split(condition: ir.Expr) -> tuple[Disjunct, ...]:
    """Splits the condition into a disjunction; raises ModelError if it has too many parts."""
    return _split(condition, True)


def negate(condition: ir.Expr) -> tuple[Disjunct, ...]:
    """Splits the negation of the condition into a disjunction."""
    return _split(condition, False)


def mentions_clocks(expr: ir.Expr) -> bool:
    """Returns whether the expression contains a clock test or a test for deadlock."""
    return mentions(expr, ir.ClockTest | ir.Deadlocked)


def _split(expr: ir.Expr, wanted: bool) -> tuple[Disjunct, ...]:
    if not mentions_clocks(expr):
        return (Disjunct(expr if wanted else ir.Unary("not", expr)),)
    match expr:
        case ir.ClockTest(constraint=constraint):
            return _of_test(constraint, wanted)
        case ir.Deadlocked():
            return (Disjunct(deadlock=wanted),)
        case ir.Unary(op="not", operand=operand):
            return _split(operand, not wanted)
        case ir.Binary(op="and" | "or" as op, left=left, right=right):
            parts = (_split(left, wanted), _split(right, wanted))
            if (op == "and") == wanted:
                return _both(expr, *parts)
            return parts[0] + _after(left, op == "and", right, parts[1])
        case ir.Binary(op="implies", left=left, right=right):
            return _split(ir.Binary("or", ir.Unary("not", left), right, span=expr.span), wanted)
        case ir.Binary(op="==" | "!=" as op, left=left, right=right):
            same = (op == "==") == wanted
            alike = _both(expr, _split(left, True), _split(right, same))
            return alike + _both(expr, _split(left, False), _split(right, not same))
        case ir.Conditional(condition=condition, then=then, otherwise=otherwise):
            yes = _both(expr, _split(condition, True), _split(then, wanted))
            return yes + _both(expr, _split(condition, False), _split(otherwise, wanted))
        case ir.Fold(op="all" | "any" as op, name=name, low=low, high=high, body=body):
            cases = [_substitute(body, name, value) for value in range(low, high + 1)]
            join = "and" if op == "all" else "or"
            whole = cases[0]
            for case in cases[1:]:
                whole = ir.Binary(join, whole, case, span=expr.span)  # type: ignore[arg-type]
            return _split(whole, wanted)
        case _:
            raise ModelError(
                "clock comparison inside a term that is not a condition",
                expr.span,
                "combine clock comparisons only with and, or, not, imply, forall and exists",
            )


def _after(left: ir.Expr, truth: bool, right: ir.Expr, parts: tuple[Disjunct, ...]) -> tuple[Disjunct, ...]:
    """Guards the parts of the right side, which is evaluated only if the left side has the value `truth`.

    The guard is needed only if the right side may fault.
    """
    known = _known(left, truth) if may_fault(right) else ir.TRUE
    return tuple(replace(part, condition=_conjunction(known, part.condition)) for part in parts)


def _known(expr: ir.Expr, wanted: bool) -> ir.Expr:
    """Returns a condition on variables that is true whenever the expression has the value `wanted`."""
    if not mentions_clocks(expr):
        return expr if wanted else ir.Unary("not", expr)
    match expr:
        case ir.Unary(op="not", operand=operand):
            return _known(operand, not wanted)
        case ir.Binary(op="and" | "or" as op, left=left, right=right) if (op == "and") == wanted:
            return _conjunction(_known(left, wanted), _known(right, wanted))
        case ir.Binary(op="implies", left=left, right=right) if not wanted:
            return _conjunction(_known(left, True), _known(right, False))
        case _:
            return ir.TRUE


def _of_test(constraint: ir.ClockConstraint, wanted: bool) -> tuple[Disjunct, ...]:
    bare = replace(constraint, when=None)
    if constraint.when is not None:
        # A constraint with a condition is an implication.
        if wanted:
            return (Disjunct(ir.Unary("not", constraint.when)), Disjunct(clocks=(bare,)))
        return tuple(replace(part, condition=constraint.when) for part in _of_test(bare, False))
    if wanted:
        return (Disjunct(clocks=(bare,)),)
    if bare.op == "==":
        return (Disjunct(clocks=(replace(bare, op="<"),)), Disjunct(clocks=(replace(bare, op=">"),)))
    return (Disjunct(clocks=(replace(bare, op=_NEGATED[bare.op]),)),)


def _both(expr: ir.Expr, left: tuple[Disjunct, ...], right: tuple[Disjunct, ...]) -> tuple[Disjunct, ...]:
    if len(left) * len(right) > DISJUNCTS_MAX:
        raise ModelError(
            f"the condition has more than {DISJUNCTS_MAX} convex parts",
            expr.span,
            "use fewer clocks in one condition",
        )
    joined = (_join(one, other) for one, other in product(left, right))
    return tuple(part for part in joined if part is not None)


def _join(one: Disjunct, other: Disjunct) -> Disjunct | None:
    """Returns the conjunction of both parts; None if their tests for deadlock contradict each other."""
    if None not in (one.deadlock, other.deadlock) and one.deadlock != other.deadlock:
        return None
    condition = _conjunction(one.condition, other.condition)
    deadlock = other.deadlock if one.deadlock is None else one.deadlock
    return Disjunct(condition, one.clocks + other.clocks, deadlock)


def _conjunction(one: ir.Expr, other: ir.Expr) -> ir.Expr:
    if ir.TRUE in (one, other):
        return other if one == ir.TRUE else one
    return ir.Binary("and", one, other)


def _substitute(node: Any, name: str, value: int) -> Any:
    """Replaces the name by a number."""
    if isinstance(node, ir.Local) and node.name == name:
        return ir.Const(value, node.span)
    if isinstance(node, ir.Fold) and node.name == name:
        return node
    if isinstance(node, tuple):
        return tuple(_substitute(part, name, value) for part in node)
    if is_dataclass(node) and not isinstance(node, type):
        changed = {part.name: _substitute(getattr(node, part.name), name, value) for part in fields(node)}
        return replace(node, **{key: new for key, new in changed.items() if new is not getattr(node, key)})
    return node
