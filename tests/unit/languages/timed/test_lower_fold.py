"""Folding keeps values and faults."""

from __future__ import annotations

from itertools import product

import pytest

from veristream.ir import expr as ir
from veristream.ir.network import Network, Variable
from veristream.ir.oracle.evaluate import Environment, ModelFault, evaluate
from veristream.ir.state import name_parts
from veristream.languages.timed.lower.programs.fold import condition_of, fold
from veristream.source import NOWHERE

X = ir.Load("x")
SIDES: list[ir.Expr] = [
    ir.Const(0),
    ir.Const(1),
    ir.Const(5),
    X,
    ir.Binary("<", X, ir.Const(1)),
    ir.Unary("not", X),
    ir.Load("a", (X,)),  # a fault where x is 2
    ir.Binary("==", ir.Load("a", (X,)), ir.Const(1)),
    ir.Binary("div", ir.Const(4), X),  # a fault where x is 0
]
OPS: list[ir.BinaryOp] = ["and", "or", "implies", "+", "==", "<", "div", "rem", "<<"]
MODEL = Network("m", variables=(Variable("x", ir.Type(0, 2)), Variable("a", ir.Type(0, 1), (2,), (0, 1))))


def _value(expr: ir.Expr, x: int) -> int | str:
    try:
        return evaluate(expr, Environment(name_parts(MODEL), [x, 0, 1], [], []), {})
    except ModelFault as fault:
        return fault.message


@pytest.mark.parametrize("op", OPS)
def test_folding_keeps_the_value(op: ir.BinaryOp) -> None:
    for left, right in product(SIDES, SIDES):
        folded = fold(op, left, right, NOWHERE)
        for x in (0, 1, 2):
            assert _value(folded, x) == _value(ir.Binary(op, left, right), x)


# Folded expressions, and the expected results.
SHORTER = [
    (fold("==", ir.Const(2), ir.Const(2), NOWHERE), ir.Const(1)),
    (fold("and", ir.Const(0), SIDES[-1], NOWHERE), ir.Const(0)),
    (fold("or", ir.Const(3), SIDES[-1], NOWHERE), ir.Const(1)),
    (fold("and", SIDES[4], ir.Const(1), NOWHERE), SIDES[4]),
    (fold("and", SIDES[4], ir.Const(0), NOWHERE), ir.Const(0)),
    (fold("implies", ir.Const(0), X, NOWHERE), ir.Const(1)),
    (fold("implies", X, ir.Const(1), NOWHERE), ir.Const(1)),
    (fold("implies", X, ir.Const(0), NOWHERE), ir.Unary("not", X)),
]


@pytest.mark.parametrize(("folded", "expected"), SHORTER)
def test_constants_are_folded(folded: ir.Expr, expected: ir.Expr) -> None:
    assert folded == expected


def test_conditions() -> None:
    assert condition_of([]) is None
    assert condition_of([ir.Const(1), ir.Const(4)]) is None
    assert condition_of([ir.Const(1), X]) == X
    assert condition_of([X, ir.Const(0)]) == ir.Const(0)
