"""Vacuity: properties that hold for a trivial reason.

If the left side of an implication never holds, the implication says nothing about its right side. If the
initial state already satisfies a goal, the goal says nothing about the actions (Beer, Ben-David, Eisner,
Rodeh, "Efficient detection of vacuity in temporal model checking", FMSD 2001). The conditions here are
sufficient for vacuity, not necessary. They consist of parts of the property, and can be evaluated wherever
the property can, with one exception: in a state that violates the property, a `Fold` may reach elements
after the one where the property stopped.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never

from veristream.ir import expr as ir
from veristream.ir import property as prop
from veristream.ir.walk import may_fault, mentions


def antecedents(property: prop.Property) -> tuple[ir.Expr, ...]:  # noqa: A002
    """Returns conditions; if one of them holds in no reachable state, the property is vacuously true."""
    match property.claim:
        case prop.Always(condition=condition):
            found = _premises(condition)
        case prop.Transition(condition=condition):
            found = (premise for premise in _premises(condition) if not mentions(premise, ir.Primed))
        case prop.LeadsTo(cause=cause):
            found = iter((cause,))
        case prop.Temporal(formula=formula):
            found = _premises_of_run(formula)
        case prop.DeadlockFree() | prop.DivergenceFree() | prop.NonTerminating() | prop.Reachable():
            found = iter(())
        case prop.Deterministic() | prop.Refines() | prop.Inevitable() | prop.PotentiallyAlways():
            found = iter(())
        case _:
            assert_never(property.claim)
    return tuple(dict.fromkeys(found))


def initially(property: prop.Property) -> ir.Expr | None:  # noqa: A002
    """Returns a condition that makes the property true if the initial state satisfies it, or None.

    A goal with a value to optimise has none, because the optimum may need actions.
    """
    match property.claim:
        case prop.Reachable(condition=condition, optimise=None) | prop.Inevitable(condition=condition):
            return condition
        case prop.Temporal(formula=formula) if as_condition(formula) is None:
            return _at_once(formula)
        case _:
            return None


def sentence_never(expr_text: str) -> str:
    """Reports that a condition of `antecedents` never holds."""
    return f"the left side of the implication, `{expr_text}`, never holds"


def sentence_initial(expr_text: str) -> str:
    """Reports that the condition of `initially` holds in the initial state."""
    return f"`{expr_text}` already holds in the initial state; no action is needed"


def as_condition(formula: prop.Formula) -> ir.Expr | None:
    """Returns the formula as an expression if it refers only to the present state, else None."""
    match formula:
        case prop.Holds(condition=condition):
            return condition
        case prop.Occurs() | prop.Silent():
            return None
        case prop.TemporalUnary(op="!", operand=operand, span=span):
            inner = as_condition(operand)
            return None if inner is None else ir.Unary("not", inner, span=span)
        case prop.TemporalUnary():
            return None
        case prop.TemporalBinary(op=op, left=left, right=right, span=span):
            one, other = as_condition(left), as_condition(right)
            if one is None or other is None:
                return None
            match op:
                case "&&":
                    return ir.Binary("and", one, other, span=span)
                case "||":
                    return ir.Binary("or", one, other, span=span)
                case "->":
                    return ir.Binary("implies", one, other, span=span)
                case "<->":  # any nonzero number is true, so the numbers themselves may differ
                    return ir.Binary(
                        "==", ir.Unary("not", one, span=span), ir.Unary("not", other, span=span), span=span
                    )
                case "U" | "R":
                    return None
                case _:
                    assert_never(op)
        case _:
            assert_never(formula)


def _premises(condition: ir.Expr) -> Iterator[ir.Expr]:
    """Yields the left sides of the implications in a condition."""
    implication = _as_implication(condition)
    if implication is not None:
        left, right = implication
        yield left
        for premise in _premises(right):
            yield ir.Binary("and", left, premise, span=premise.span)
        return
    match condition:
        case ir.Binary(op="and", left=left, right=right):
            yield from _premises(left)
            for premise in _premises(right):
                # if the left side is false, the right one may not be evaluated
                yield ir.Binary("and", left, premise, span=premise.span) if may_fault(premise) else premise
        case ir.Fold(op="all", name=name, low=low, high=high, body=body, span=span):
            for premise in _premises(body):
                yield ir.Fold("any", name, low, high, premise, span=span)
        case _:
            return


def _as_implication(condition: ir.Expr) -> tuple[ir.Expr, ir.Expr] | None:
    """Returns the two sides of `a implies b`, also if it is written `not a or b`."""
    match condition:
        case ir.Binary(op="implies", left=left, right=right):
            return left, right
        case ir.Binary(op="or", left=ir.Unary(op="not", operand=operand), right=right):
            return operand, right
        case ir.Binary(op="or", left=ir.Binary(op="or") as left, right=right, span=span):
            inner = _as_implication(left)
            return None if inner is None else (inner[0], ir.Binary("or", inner[1], right, span=span))
        case _:
            return None


def _premises_of_run(formula: prop.Formula) -> Iterator[ir.Expr]:
    match formula:
        case prop.TemporalUnary(op="[]", operand=operand):
            yield from _premises_at_all_times(operand, None)
        case prop.TemporalBinary(op="&&", left=left, right=right):
            yield from _premises_of_run(left)
            yield from _premises_of_run(right)
        case _:
            return


def _premises_at_all_times(formula: prop.Formula, given: ir.Expr | None) -> Iterator[ir.Expr]:
    """Yields the premises of a formula that must hold at every moment where `given` holds."""
    condition = as_condition(formula)
    if condition is not None:
        yield from (_both(given, premise) for premise in _premises(condition))
        return
    match formula:
        case prop.TemporalBinary(op="->", left=left, right=right):
            yield from _premises_of_implication(left, right, given)
        case prop.TemporalBinary(op="||", left=prop.TemporalUnary(op="!", operand=left), right=right):
            yield from _premises_of_implication(left, right, given)
        case prop.TemporalBinary(op="&&", left=left, right=right):
            yield from _premises_at_all_times(left, given)
            yield from _premises_at_all_times(right, given)
        case prop.TemporalUnary(op="[]", operand=operand):
            # also at later moments, where `given` need not hold
            yield from _premises_at_all_times(operand, None)
        case _:
            return


def _premises_of_implication(
    left: prop.Formula, right: prop.Formula, given: ir.Expr | None
) -> Iterator[ir.Expr]:
    cause = as_condition(left)
    if cause is None:
        return
    yield _both(given, cause)
    yield from _premises_at_all_times(right, _both(given, cause))


def _both(given: ir.Expr | None, premise: ir.Expr) -> ir.Expr:
    return premise if given is None else ir.Binary("and", given, premise, span=premise.span)


def _at_once(formula: prop.Formula) -> ir.Expr | None:
    """Returns a condition on the present state that makes the formula true on every run."""
    condition = as_condition(formula)
    if condition is not None:
        return condition
    match formula:
        case prop.TemporalUnary(op="<>", operand=operand):
            return _at_once(operand)
        case prop.TemporalBinary(op="U", right=right):
            return _at_once(right)
        case prop.TemporalBinary(op="&&", left=left, right=right, span=span):
            one, other = _at_once(left), _at_once(right)
            return None if one is None or other is None else ir.Binary("and", one, other, span=span)
        case _:
            return None
