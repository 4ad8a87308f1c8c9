"""Walks through trees of nodes."""

from __future__ import annotations

import pytest

from veristream.ir.expr import Binary, Call, ClockTest, Const, Expr, Fold, Load, Local, Peek, Primed, Unary
from veristream.ir.walk import may_fault, mentions, walk

X, ONE = Load("x"), Const(1)


def test_a_node_comes_before_its_parts() -> None:
    index = Binary("+", Local("i"), ONE)
    tree = Unary("not", Binary("<", Load("a", (index,)), X))
    assert isinstance(tree.operand, Binary)
    assert list(walk(tree)) == [tree, tree.operand, tree.operand.left, index, Local("i"), ONE, X]


def test_tuples_are_walked_through() -> None:
    assert list(walk((X, (ONE, ()), "text", 3))) == [X, ONE]


def test_mentions() -> None:
    tree = Fold("all", "i", 0, 3, Binary("==", Primed(X), ONE))
    assert mentions(tree, Primed)
    assert mentions(tree, ClockTest | Load)
    assert not mentions(tree, ClockTest | Local)


@pytest.mark.parametrize(
    ("expr", "expected"),
    [
        (X, False),
        (Load("a", (ONE,)), True),
        (Local("i"), False),
        (Local("i", ONE), True),
        (Binary("+", X, ONE), False),
        (Binary("div", X, ONE), True),
        (Unary("-", Binary("<<", X, ONE)), True),
        (Call("f", ()), True),
        (Peek("c", (), ONE), True),
    ],
)
def test_may_fault(expr: Expr, expected: bool) -> None:
    assert may_fault(expr) == expected
