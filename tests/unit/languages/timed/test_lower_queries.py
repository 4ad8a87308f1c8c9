"""Queries and their claims."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.languages.timed.lower_texts import asked
from veristream.ir import expr as ir
from veristream.ir.property import (
    Always,
    Claim,
    Inevitable,
    LeadsTo,
    Optimise,
    PotentiallyAlways,
    Reachable,
)

TEXT = """
typedef int[1,2] id; int x, a[2]; clock c, d[2]; const int N = 3;
bool small() { return x < N; }
process P(const id i) {
  int v; clock y; bool more(int n) { return v > n; }
  state A, B; init A; trans A -> B { assign v = i; }; }
process Q() { int v; state A, B; init A; }
system P, Q;
"""
X = ir.Load("x")


def _at(component: str, location: str = "B") -> ir.Expr:
    return ir.AtLocation(component, location)


def _test(clock: str, op: ir.ClockOp, limit: int, *indices: int) -> ir.Expr:
    ref = ir.ClockRef(clock, tuple(map(ir.Const, indices)))
    return ir.ClockTest(ir.ClockConstraint(ref, None, op, ir.Const(limit)))


def _and(left: ir.Expr, right: ir.Expr) -> ir.Expr:
    return ir.Binary("and", left, right)


# The query and its claim.
QUERIES: list[tuple[str, Claim]] = [
    ("A[] Q.A", Always(_at("Q", "A"))),
    ("E<> P(2).B and x == N", Reachable(_and(_at("P(2)"), ir.Binary("==", X, ir.Const(3))))),
    ("E[] not Q.A", PotentiallyAlways(ir.Unary("not", _at("Q", "A")))),
    ("A<> Q.v > P(1).v", Inevitable(ir.Binary(">", ir.Load("Q.v"), ir.Load("P(1).v")))),
    ("Q.A --> Q.B", LeadsTo(_at("Q", "A"), _at("Q"))),
    ("A[] not deadlock", Always(ir.Unary("not", ir.Deadlocked()))),
    ("E<> small()", Reachable(ir.Call("small", ()))),
    ("E<> P(2).more(x + 1)", Reachable(ir.Call("P(2).more", (ir.Binary("+", X, ir.Const(1)),)))),
    (
        "E<> exists (i : id) P(i).more(i)",
        Reachable(
            ir.Binary("or", ir.Call("P(1).more", (ir.Const(1),)), ir.Call("P(2).more", (ir.Const(2),))),
        ),
    ),
    ("A[] P(1).i == 1", Always(ir.Const(1))),
    ("E<> forall (i : id) P(i).B", Reachable(_and(_at("P(1)"), _at("P(2)")))),
    ("E<> exists (i : id) P(i).B", Reachable(ir.Binary("or", _at("P(1)"), _at("P(2)")))),
    (
        "E<> (sum (i : id) P(i).v) > 2",
        Reachable(ir.Binary(">", ir.Binary("+", ir.Load("P(1).v"), ir.Load("P(2).v")), ir.Const(2))),
    ),
    (
        "A[] forall (i : id) forall (j : id) P(i).B && P(j).B imply i == j",
        Always(
            _and(
                ir.Unary("not", _and(_at("P(1)"), _at("P(2)"))),
                ir.Unary("not", _and(_at("P(2)"), _at("P(1)"))),
            )
        ),
    ),
    (
        "A[] forall (i : int[0,1]) a[i] == 0",
        Always(ir.Fold("all", "i", 0, 1, ir.Binary("==", ir.Load("a", (ir.Local("i"),)), ir.Const(0)))),
    ),
    ("E<> c > 3 or Q.B", Reachable(ir.Binary("or", _test("c", ">", 3), _at("Q")))),
    ("E<> c != 3", Reachable(ir.Unary("not", _test("c", "==", 3)))),
    ("E<> P(1).y <= 3", Reachable(_test("P(1).y", "<=", 3))),
    (
        "E<> exists (i : int[0,1]) d[i] < 3",
        Reachable(ir.Binary("or", _test("d", "<", 3, 0), _test("d", "<", 3, 1))),
    ),
    (
        "E<> c - d[1] < x",
        Reachable(
            ir.ClockTest(ir.ClockConstraint(ir.ClockRef("c"), ir.ClockRef("d", (ir.Const(1),)), "<", X))
        ),
    ),
    ("sup: x", Reachable(ir.TRUE, Optimise("max", X))),
    ("inf{Q.B}: c", Reachable(_at("Q"), Optimise("min", ir.ClockValue(ir.ClockRef("c"))))),
]


@pytest.mark.parametrize(("query", "claim"), QUERIES)
def test_queries(tmp_path: Path, query: str, claim: Claim) -> None:
    (found,) = asked(tmp_path, TEXT, query)
    assert (found.name, found.claim) == (query, claim)


def test_each_value_is_a_separate_property(tmp_path: Path) -> None:
    found = asked(tmp_path, TEXT, "sup{Q.B && x < 2}: x, P(1).v", "bounds: c")
    clock = ir.ClockValue(ir.ClockRef("c"))
    assert [(one.name, one.claim) for one in found[2:]] == [
        ("inf: c", Reachable(ir.TRUE, Optimise("min", clock))),
        ("sup: c", Reachable(ir.TRUE, Optimise("max", clock))),
    ]
    assert [one.name for one in found[:2]] == ["sup{Q.B && x < 2}: x", "sup{Q.B && x < 2}: P(1).v"]


def test_property_names_are_unique(tmp_path: Path) -> None:
    found = asked(tmp_path, TEXT, "A[] Q.A", "A[] Q.A", "sup: x, c", "sup: x")
    assert [one.name for one in found] == ["A[] Q.A", "A[] Q.A (2)", "sup: x", "sup: c", "sup: x (2)"]
