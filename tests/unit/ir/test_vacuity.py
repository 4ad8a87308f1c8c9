"""The forms of vacuous properties."""

from __future__ import annotations

import pytest

from tests.strategies_ltl import read_formula
from veristream.ir.expr import (
    AtLocation,
    Binary,
    BinaryOp,
    ClockConstraint,
    ClockRef,
    ClockTest,
    Const,
    Deadlocked,
    Expr,
    Fold,
    Load,
    Local,
    Primed,
    Unary,
)
from veristream.ir.property import (
    Always,
    Claim,
    DeadlockFree,
    DivergenceFree,
    Holds,
    Inevitable,
    LeadsTo,
    NonTerminating,
    Occurs,
    Optimise,
    PotentiallyAlways,
    Property,
    Reachable,
    Temporal,
    TemporalBinary,
    TemporalUnary,
    Transition,
)
from veristream.ir.vacuity import (
    antecedents,
    as_condition,
    initially,
    sentence_initial,
    sentence_never,
)

A, B, C, D = (Load(name) for name in "abcd")
P, Q = Load("p"), Load("q")


def both(op: BinaryOp, left: Expr, right: Expr) -> Binary:
    return Binary(op, left, right)


def implies(left: Expr, right: Expr) -> Binary:
    return Binary("implies", left, right)


def of(claim: Claim) -> tuple[Expr, ...]:
    return antecedents(Property("it", claim))


def at_first(claim: Claim) -> Expr | None:
    return initially(Property("it", claim))


# --- left sides of invariants ---

INDEX = Local("i")
BUSY, READY = Load("busy", (INDEX,)), Load("ready", (INDEX,))
QUOTIENT = both("div", Const(10), B)


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (A, ()),
        (both("or", A, B), ()),
        (Unary("not", A), ()),
        (implies(A, B), (A,)),
        (both("or", Unary("not", A), B), (A,)),
        (both("or", both("or", Unary("not", A), B), C), (A,)),
        (both("or", both("or", Unary("not", A), Unary("not", B)), C), (A, both("and", A, B))),
        (both("or", both("or", A, B), C), ()),
        (implies(A, implies(B, C)), (A, both("and", A, B))),
        (implies(implies(A, B), C), (implies(A, B),)),
        (implies(A, both("and", B, implies(C, D))), (A, both("and", A, C))),
        (both("and", implies(A, B), implies(C, D)), (A, C)),
        (both("and", implies(A, B), implies(A, D)), (A,)),
        (both("and", A, both("and", B, implies(C, D))), (C,)),
        (both("or", A, implies(B, C)), ()),
        (Fold("all", "i", 0, 3, implies(BUSY, READY)), (Fold("any", "i", 0, 3, BUSY),)),
        (Fold("all", "i", 0, 3, READY), ()),
        (Fold("any", "i", 0, 3, implies(BUSY, READY)), ()),
        (
            Fold("all", "i", 0, 1, Fold("all", "j", 0, 2, implies(Local("j"), A))),
            (Fold("any", "i", 0, 1, Fold("any", "j", 0, 2, Local("j"))),),
        ),
        (
            both("and", implies(C, D), Fold("all", "i", 0, 3, implies(INDEX, READY))),
            (C, Fold("any", "i", 0, 3, INDEX)),
        ),
    ],
)
def test_always(condition: Expr, expected: tuple[Expr, ...]) -> None:
    assert of(Always(condition)) == expected


def test_what_may_fault_stays_behind_what_guards_it() -> None:
    assert of(Always(both("and", B, implies(QUOTIENT, A)))) == (both("and", B, QUOTIENT),)
    array = Fold("all", "i", 0, 3, implies(BUSY, READY))
    assert of(Always(both("and", B, array))) == (both("and", B, Fold("any", "i", 0, 3, BUSY)),)


def test_clocks() -> None:
    early = ClockTest(ClockConstraint(ClockRef("x"), None, "<", Const(3)))
    assert of(Always(implies(early, Deadlocked()))) == (early,)
    assert of(Always(both("and", B, implies(early, A)))) == (early,)
    indexed = ClockTest(ClockConstraint(ClockRef("x"), ClockRef("y", (B,)), "<", Const(3)))
    assert of(Always(both("and", B, implies(indexed, A)))) == (both("and", B, indexed),)
    divided = ClockTest(ClockConstraint(ClockRef("x"), None, "<", Const(3), QUOTIENT))
    assert of(Always(both("and", B, implies(divided, A)))) == (both("and", B, divided),)
    assert of(Inevitable(implies(A, B))) == of(PotentiallyAlways(implies(A, B))) == ()


def test_steps() -> None:
    grows = both(">=", Primed(A), A)
    assert of(Transition(implies(B, grows))) == (B,)
    assert of(Transition(implies(Primed(B), grows))) == ()
    assert of(Transition(implies(B, implies(Primed(C), grows)))) == (B,)
    assert of(Transition(both("and", grows, implies(C, grows)))) == (C,)


def test_leads_to() -> None:
    assert of(LeadsTo(A, B)) == (A,)


@pytest.mark.parametrize(
    "claim", [DeadlockFree(), DivergenceFree(), NonTerminating(), Reachable(implies(A, B))]
)
def test_claims_without_a_left_side(claim: Claim) -> None:
    assert of(claim) == ()


# --- left sides of temporal formulas ---


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[]p", ()),
        ("<>p", ()),
        ("[](p -> <>q)", (P,)),
        ("[](p -> q)", (P,)),
        ("[](!p || <>q)", (P,)),
        ("[](!p || q)", (P,)),
        ("[]((p && !q) -> X a)", (both("and", P, Unary("not", Q)),)),
        ("[]((p || q) -> <>a)", (both("or", P, Q),)),
        ("[](a -> <>q)", ()),
        ("[]((p && a) -> <>q)", ()),
        ("[](<>p -> q)", ()),
        ("p -> <>q", ()),
        ("[](p -> <>q) && [](q -> <>p)", (P, Q)),
        ("[]((p -> <>q) && (q -> <>p))", (P, Q)),
        ("[](p -> <>q) && <>a", (P,)),
        ("[](p -> <>q) || <>a", ()),
        ("[][](p -> <>q)", (P,)),
        ("[](p -> (q -> <>a))", (P, both("and", P, Q))),
        ("[](p -> (q -> q))", (P, both("and", P, Q))),
        ("[](p -> ((q -> q) && <>a))", (P, both("and", P, Q))),
        ("[](p -> [](q -> <>a))", (P, Q)),
        ("<>(p -> q)", ()),
    ],
)
def test_temporal(text: str, expected: tuple[Expr, ...]) -> None:
    assert of(Temporal(read_formula(text))) == expected


def test_implication_inside_a_proposition() -> None:
    assert of(Temporal(TemporalUnary("[]", Holds(implies(A, B))))) == (A,)
    nested = TemporalBinary("->", Holds(C), Holds(implies(A, B)))
    assert of(Temporal(TemporalUnary("[]", nested))) == (C, both("and", C, A))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("p", P),
        ("!p", Unary("not", P)),
        ("p && q", both("and", P, Q)),
        ("p || q", both("or", P, Q)),
        ("p -> q", implies(P, Q)),
        ("p <-> q", both("==", Unary("not", P), Unary("not", Q))),
        ("a", None),
        ("tau", None),
        ("p && a", None),
        ("!a", None),
        ("X p", None),
        ("p U q", None),
        ("p R q", None),
    ],
)
def test_as_condition(text: str, expected: Expr | None) -> None:
    assert as_condition(read_formula(text)) == expected


# --- goals that need no action ---


def test_reachable_goal() -> None:
    goal = both("and", AtLocation("Producer", "Publish"), A)
    assert at_first(Reachable(goal)) == goal
    assert at_first(Reachable(goal, Optimise("max", A))) is None
    assert at_first(Inevitable(goal)) == goal
    assert at_first(PotentiallyAlways(goal)) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<>p", P),
        ("<>(p -> q)", implies(P, Q)),
        ("<><>p", P),
        ("p U q", Q),
        ("a U q", Q),
        ("p U (a U q)", Q),
        ("<>p && <>q", both("and", P, Q)),
        ("<>p && (a U q)", both("and", P, Q)),
        ("<>(p && <>q)", both("and", P, Q)),
        ("<>a", None),
        ("p U a", None),
        ("<>p && []q", None),
        ("<>p && <>a", None),
        ("<>[]p", None),
        ("[]<>p", None),
        ("[]p", None),
        ("X p", None),
        ("p", None),
        ("p && q", None),
    ],
)
def test_temporal_goal(text: str, expected: Expr | None) -> None:
    assert at_first(Temporal(read_formula(text))) == expected


@pytest.mark.parametrize("claim", [Always(A), LeadsTo(A, B), Transition(A), DeadlockFree()])
def test_claims_that_are_no_goal(claim: Claim) -> None:
    assert at_first(claim) is None


def test_a_goal_of_actions_has_no_condition() -> None:
    assert at_first(Temporal(TemporalUnary("<>", Occurs("send", (1, None))))) is None


# --- sentences ---


def test_sentences() -> None:
    assert sentence_never("x > 0") == "the left side of the implication, `x > 0`, never holds"
    initial = "`x == 0` already holds in the initial state; no action is needed"
    assert sentence_initial("x == 0") == initial
