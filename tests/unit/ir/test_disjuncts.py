"""Conditions as convex parts: the parts, and their equivalence to the condition."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from veristream.errors import ModelError
from veristream.ir.disjuncts import DISJUNCTS_MAX, Disjunct, mentions_clocks, negate, split
from veristream.ir.expr import (
    TRUE,
    Binary,
    BinaryOp,
    ClockConstraint,
    ClockOp,
    ClockRef,
    ClockTest,
    Conditional,
    Const,
    Deadlocked,
    Expr,
    Fold,
    Load,
    Local,
    Unary,
)

N = Load("n")
DEADLOCK = Deadlocked()


def clock(op: ClockOp, bound: int | Expr, name: str = "x", when: Expr | None = None) -> ClockConstraint:
    return ClockConstraint(
        ClockRef(name), None, op, Const(bound) if isinstance(bound, int) else bound, when
    )


def compare(op: ClockOp, bound: int | Expr, name: str = "x", when: Expr | None = None) -> ClockTest:
    return ClockTest(clock(op, bound, name, when))


def is_at(value: int) -> Expr:
    return Binary("==", N, Const(value))


def no(expr: Expr) -> Expr:
    return Unary("not", expr)


def timed(*constraints: ClockConstraint, condition: Expr = TRUE) -> Disjunct:
    return Disjunct(condition, constraints)


def test_what_speaks_of_no_clock_is_one_part() -> None:
    mixed = Binary("or", is_at(1), no(Binary("and", is_at(0), is_at(2))))
    assert split(mixed) == (Disjunct(mixed),)
    assert negate(mixed) == (Disjunct(no(mixed)),)


@pytest.mark.parametrize(
    ("op", "others"), [("<", [">="]), ("<=", [">"]), (">", ["<="]), (">=", ["<"]), ("==", ["<", ">"])]
)
def test_a_comparison_and_its_negation(op: ClockOp, others: list[ClockOp]) -> None:
    assert split(compare(op, 3)) == (timed(clock(op, 3)),)
    assert negate(compare(op, 3)) == tuple(timed(clock(other, 3)) for other in others)
    assert split(no(compare(op, 3))) == negate(compare(op, 3))
    assert negate(no(compare(op, 3))) == split(compare(op, 3))


def test_a_comparison_with_a_condition_is_an_implication() -> None:
    conditional = compare("<=", 3, when=is_at(1))
    assert split(conditional) == (Disjunct(no(is_at(1))), timed(clock("<=", 3)))
    assert negate(conditional) == (timed(clock(">", 3), condition=is_at(1)),)


def test_a_conjunction_is_one_part_and_its_negation_two() -> None:
    both = Binary("and", is_at(1), compare("<", 2))
    assert split(both) == (timed(clock("<", 2), condition=is_at(1)),)
    assert negate(both) == (Disjunct(no(is_at(1))), timed(clock(">=", 2)))


def test_an_implication() -> None:
    premise, conclusion = Binary("and", is_at(1), compare(">", 4)), compare("<", 2, "y")
    claim = Binary("implies", premise, conclusion)
    assert split(claim) == (Disjunct(no(is_at(1))), timed(clock("<=", 4)), timed(clock("<", 2, "y")))
    assert negate(claim) == (timed(clock(">", 4), clock(">=", 2, "y"), condition=is_at(1)),)


def test_deadlocks_and_parts_that_contradict_each_other() -> None:
    assert split(DEADLOCK) == (Disjunct(deadlock=True),)
    assert negate(DEADLOCK) == (Disjunct(deadlock=False),)
    assert split(Binary("and", DEADLOCK, no(DEADLOCK))) == ()
    assert split(Binary("and", is_at(1), DEADLOCK)) == (Disjunct(is_at(1), deadlock=True),)
    assert negate(Binary("implies", DEADLOCK, is_at(1))) == (Disjunct(no(is_at(1)), deadlock=True),)


def test_equality_of_conditions() -> None:
    same = Binary("==", is_at(1), compare("<", 2))
    assert split(same) == (
        timed(clock("<", 2), condition=is_at(1)),
        timed(clock(">=", 2), condition=no(is_at(1))),
    )
    assert negate(same) == split(Binary("!=", is_at(1), compare("<", 2)))


def test_a_choice_between_conditions() -> None:
    choice = Conditional(is_at(1), compare("<", 2), compare(">", 5))
    assert split(choice) == (
        timed(clock("<", 2), condition=is_at(1)),
        timed(clock(">", 5), condition=no(is_at(1))),
    )


def test_folds_are_written_out_and_inner_names_hide_outer_ones() -> None:
    some = Fold("any", "k", 1, 3, compare("==", Local("k")))
    assert split(some) == tuple(timed(clock("==", k)) for k in (1, 2, 3))
    every = Fold("all", "k", 1, 2, compare(">=", Local("k")))
    assert split(every) == (timed(clock(">=", 1), clock(">=", 2)),)
    assert negate(every) == (timed(clock("<", 1)), timed(clock("<", 2)))
    inner = Fold("any", "k", 7, 7, compare("<", Local("k")))
    nested = Fold("all", "k", 1, 2, Binary("and", compare(">=", Local("k")), inner))
    assert split(nested) == (timed(clock(">=", 1), clock("<", 7), clock(">=", 2), clock("<", 7)),)


def test_too_many_parts_are_an_error_with_a_hint() -> None:
    either = Binary("or", compare("<", 1), compare(">", 2))

    def conjunction(count: int) -> Expr:
        whole: Expr = either
        for _ in range(count - 1):
            whole = Binary("and", whole, either)
        return whole

    assert len(split(conjunction(9))) == DISJUNCTS_MAX == 2**9
    with pytest.raises(ModelError) as caught:
        split(conjunction(10))
    assert caught.value.message == "the condition has more than 512 convex parts"
    assert caught.value.hint
    assert len(negate(conjunction(10))) == 10


def test_a_clock_within_a_term_is_an_error_with_a_hint() -> None:
    with pytest.raises(ModelError) as caught:
        split(Binary("<", Binary("+", compare("<", 1), Const(1)), Const(2)))
    assert caught.value.message == "clock comparison inside a term that is not a condition"
    assert caught.value.hint


def test_where_clocks_are_mentioned() -> None:
    assert mentions_clocks(Fold("any", "k", 0, 1, no(compare("<", 1))))
    assert mentions_clocks(DEADLOCK)
    assert not mentions_clocks(Fold("any", "k", 0, 1, no(is_at(1))))


def test_what_the_left_side_keeps_from_being_looked_at_is_not_looked_at() -> None:
    safe, partial = Binary("!=", N, Const(0)), Binary(">", Binary("div", Const(4), N), Const(1))
    chain = Binary("and", Binary("and", safe, compare(">", 1)), partial)
    assert negate(chain) == (
        Disjunct(no(safe)),
        timed(clock("<=", 1)),
        Disjunct(Binary("and", safe, no(partial))),
    )
    assert split(Binary("or", no(safe), compare("<", Binary("div", Const(4), N)))) == (
        Disjunct(no(safe)),
        timed(clock("<", Binary("div", Const(4), N)), condition=no(no(safe))),
    )


# Random conditions: the parts are equivalent to the condition, in every state and at every moment.

LEAVES: tuple[Expr, ...] = (
    is_at(0),
    is_at(1),
    DEADLOCK,
    compare("<", 1),
    compare("==", 1, "y"),
    compare(">=", 2),
    compare("<=", 1, when=is_at(1)),
)
BINARY: tuple[BinaryOp, ...] = ("and", "or", "implies", "==", "!=")
CONDITIONS = st.recursive(
    st.sampled_from(LEAVES),
    lambda inner: st.one_of(
        inner.map(no),
        st.builds(Binary, st.sampled_from(BINARY), inner, inner),
        st.builds(Conditional, inner, inner, inner),
    ),
    max_leaves=5,
)
Moment = tuple[int, float, float, bool]  # n, x, y, deadlock


@settings(max_examples=80, deadline=None, derandomize=True)
@given(CONDITIONS)
def test_parts_mean_what_the_condition_means(condition: Expr) -> None:
    for moment in product((0, 1, 2), (0, 0.5, 1, 2, 2.5), (0.5, 1, 1.5), (False, True)):
        meant = _truth(condition, moment)
        assert any(_holds(part, moment) for part in split(condition)) == meant
        assert any(_holds(part, moment) for part in negate(condition)) != meant


def _holds(part: Disjunct, moment: Moment) -> bool:
    return (
        bool(_truth(part.condition, moment))
        and all(_within(one, moment) for one in part.clocks)
        and part.deadlock in (None, moment[3])
    )


def _truth(expr: Expr, moment: Moment) -> bool:
    match expr:
        case Const(value=value):
            return bool(value)
        case Binary(op="==", left=Load(), right=Const(value=value)):
            return moment[0] == value
        case Deadlocked():
            return moment[3]
        case ClockTest(constraint=constraint):
            return _within(constraint, moment)
        case Unary(operand=operand):
            return not _truth(operand, moment)
        case Conditional(condition=condition, then=then, otherwise=otherwise):
            return _truth(then if _truth(condition, moment) else otherwise, moment)
        case Binary(op=op, left=left, right=right):
            one, other = _truth(left, moment), _truth(right, moment)
            table = {
                "and": one and other,
                "or": one or other,
                "implies": not one or other,
                "==": one == other,
                "!=": one != other,
            }
            return table[op]
        case _:
            raise AssertionError(expr)


def _within(constraint: ClockConstraint, moment: Moment) -> bool:
    if constraint.when is not None and not _truth(constraint.when, moment):
        return True
    assert isinstance(constraint.bound, Const)
    shown, bound = moment[1 if constraint.left.clock == "x" else 2], constraint.bound.value
    return {
        "<": shown < bound,
        "<=": shown <= bound,
        ">": shown > bound,
        ">=": shown >= bound,
        "==": shown == bound,
    }[constraint.op]
