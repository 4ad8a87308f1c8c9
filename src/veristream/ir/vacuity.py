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

from veristream.ir.expr import (
    Binary,
    Expr,
    Fold,
    Primed,
    Unary,
)
from veristream.ir.property import (
    Always,
    DeadlockFree,
    Deterministic,
    DivergenceFree,
    Formula,
    Holds,
    Inevitable,
    LeadsTo,
    NonTerminating,
    Occurs,
    PotentiallyAlways,
    Property,
    Reachable,
    Refines,
    Silent,
    Temporal,
    TemporalBinary,
    TemporalUnary,
    Transition,
)
from veristream.ir.walk import may_fault, mentions


def antecedents(property: Property) -> tuple[Expr, ...]:  # noqa: A002
    """Returns conditions; if one of them holds in no reachable state, the property is vacuously true."""
    match property.claim:
        case Always(condition=condition):
            found = _premises(condition)
        case Transition(condition=condition):
            found = (premise for premise in _premises(condition) if not mentions(premise, Primed))
        case LeadsTo(cause=cause):
            found = iter((cause,))
        case Temporal(formula=formula):
            found = _premises_of_run(formula)
        case DeadlockFree() | DivergenceFree() | NonTerminating() | Reachable():
            found = iter(())
        case Deterministic() | Refines() | Inevitable() | PotentiallyAlways():
            found = iter(())
        case _:
            assert_never(property.claim)
    return tuple(dict.fromkeys(found))


def initially(property: Property) -> Expr | None:  # noqa: A002
    """Returns a condition that makes the property true if the initial state satisfies it, or None.

    A goal with a value to optimise has none, because the optimum may need actions.
    """
    match property.claim:
        case Reachable(condition=condition, optimise=None) | Inevitable(condition=condition):
            return condition
        case Temporal(formula=formula) if as_condition(formula) is None:
            return _at_once(formula)
        case _:
            return None


def sentence_never(expr_text: str) -> str:
    """Reports that a condition of `antecedents` never holds."""
    return f"the left side of the implication, `{expr_text}`, never holds"


def sentence_initial(expr_text: str) -> str:
    """Reports that the condition of `initially` holds in the initial state."""
    return f"`{expr_text}` already holds in the initial state; no action is needed"


def as_condition(formula: Formula) -> Expr | None:
    """Returns the formula as an expression if it refers only to the present state, else None."""
    match formula:
        case Holds(condition=condition):
            return condition
        case Occurs() | Silent():
            return None
        case TemporalUnary(op="!", operand=operand, span=span):
            inner = as_condition(operand)
            return None if inner is None else Unary("not", inner, span)
        case TemporalUnary():
            return None
        case TemporalBinary(op=op, left=left, right=right, span=span):
            one, other = as_condition(left), as_condition(right)
            if one is None or other is None:
                return None
            match op:
                case "&&":
                    return Binary("and", one, other, span)
                case "||":
                    return Binary("or", one, other, span)
                case "->":
                    return Binary("implies", one, other, span)
                case "<->":  # any nonzero number is true, so the numbers themselves may differ
                    return Binary("==", Unary("not", one, span), Unary("not", other, span), span)
                case "U" | "R":
                    return None
                case _:
                    assert_never(op)
        case _:
            assert_never(formula)


def _premises(condition: Expr) -> Iterator[Expr]:
    """Yields the left sides of the implications in a condition."""
    implication = _as_implication(condition)
    if implication is not None:
        left, right = implication
        yield left
        for premise in _premises(right):
            yield Binary("and", left, premise, premise.span)
        return
    match condition:
        case Binary(op="and", left=left, right=right):
            yield from _premises(left)
            for premise in _premises(right):
                # if the left side is false, the right one may not be evaluated
                yield Binary("and", left, premise, premise.span) if may_fault(premise) else premise
        case Fold(op="all", name=name, low=low, high=high, body=body, span=span):
            for premise in _premises(body):
                yield Fold("any", name, low, high, premise, span)
        case _:
            return


def _as_implication(condition: Expr) -> tuple[Expr, Expr] | None:
    """Returns the two sides of `a implies b`, also if it is written `not a or b`."""
    match condition:
        case Binary(op="implies", left=left, right=right):
            return left, right
        case Binary(op="or", left=Unary(op="not", operand=operand), right=right):
            return operand, right
        case Binary(op="or", left=Binary(op="or") as left, right=right, span=span):
            inner = _as_implication(left)
            return None if inner is None else (inner[0], Binary("or", inner[1], right, span))
        case _:
            return None


def _premises_of_run(formula: Formula) -> Iterator[Expr]:
    match formula:
        case TemporalUnary(op="[]", operand=operand):
            yield from _premises_at_all_times(operand, None)
        case TemporalBinary(op="&&", left=left, right=right):
            yield from _premises_of_run(left)
            yield from _premises_of_run(right)
        case _:
            return


def _premises_at_all_times(formula: Formula, given: Expr | None) -> Iterator[Expr]:
    """Yields the premises of a formula that must hold at every moment where `given` holds."""
    condition = as_condition(formula)
    if condition is not None:
        yield from (_both(given, premise) for premise in _premises(condition))
        return
    match formula:
        case TemporalBinary(op="->", left=left, right=right):
            yield from _premises_of_implication(left, right, given)
        case TemporalBinary(op="||", left=TemporalUnary(op="!", operand=left), right=right):
            yield from _premises_of_implication(left, right, given)
        case TemporalBinary(op="&&", left=left, right=right):
            yield from _premises_at_all_times(left, given)
            yield from _premises_at_all_times(right, given)
        case TemporalUnary(op="[]", operand=operand):
            # also at later moments, where `given` need not hold
            yield from _premises_at_all_times(operand, None)
        case _:
            return


def _premises_of_implication(left: Formula, right: Formula, given: Expr | None) -> Iterator[Expr]:
    cause = as_condition(left)
    if cause is None:
        return
    yield _both(given, cause)
    yield from _premises_at_all_times(right, _both(given, cause))


def _both(given: Expr | None, premise: Expr) -> Expr:
    return premise if given is None else Binary("and", given, premise, premise.span)


def _at_once(formula: Formula) -> Expr | None:
    """Returns a condition on the present state that makes the formula true on every run."""
    condition = as_condition(formula)
    if condition is not None:
        return condition
    match formula:
        case TemporalUnary(op="<>", operand=operand):
            return _at_once(operand)
        case TemporalBinary(op="U", right=right):
            return _at_once(right)
        case TemporalBinary(op="&&", left=left, right=right, span=span):
            one, other = _at_once(left), _at_once(right)
            return None if one is None or other is None else Binary("and", one, other, span)
        case _:
            return None
