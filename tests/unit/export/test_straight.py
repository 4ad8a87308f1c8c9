"""Straight statements have the same effect as the original ones."""

from __future__ import annotations

import pytest

from veristream.export.flat import Put, Take
from veristream.export.forward import forward
from veristream.export.straight import Straightener
from veristream.ir.expr import (
    INT,
    Assign,
    Binary,
    Block,
    Call,
    Check,
    Conditional,
    Const,
    Evaluate,
    Expr,
    Fold,
    For,
    If,
    Let,
    Load,
    Local,
    Return,
    Statement,
    Type,
    While,
)
from veristream.ir.network import Function, Network, Parameter, Variable
from veristream.ir.oracle.evaluate import ModelFault, run, thaw
from veristream.ir.state import initial_state, name_parts
from veristream.ir.walk import walk

DIGIT = Type(0, 9)
X, Y = Load("x"), Load("y")
N = Local("n")


def plus(left: Expr, right: Expr) -> Expr:
    return Binary("+", left, right)


def less(left: Expr, number: int) -> Expr:
    return Binary("<", left, Const(number))


BUMP = Function("bump", (), DIGIT, (Assign(X, plus(X, Const(1))), Return(X)))
FIND = Function(
    "find",
    (Parameter("n", DIGIT),),
    DIGIT,
    (
        For("i", 0, 3, (If(Binary("==", Load("a", (Local("i"),)), N), (Return(Local("i")),)),)),
        Return(Const(9)),
    ),
)
CLIMB = Function(
    "climb",
    (Parameter("n", DIGIT),),
    DIGIT,
    (
        Let("k", INT, N),
        While(
            less(Local("k"), 8),
            (
                Assign(Local("k"), plus(Local("k"), Const(2))),
                If(Binary("==", Local("k"), Const(6)), (Return(Const(6)),)),
            ),
            5,
        ),
        Return(Local("k")),
    ),
)
GRADE = Function(
    "grade",
    (Parameter("n", DIGIT),),
    DIGIT,
    (If(less(N, 3), (Return(Const(1)),)), If(less(N, 6), (Return(Const(2)),)), Return(Const(3))),
)
NOTHING = Function("nothing", (), DIGIT, (Assign(Y, Const(3)),))
NETWORK = Network(
    "n",
    variables=(
        Variable("x", DIGIT, (), (2,)),
        Variable("y", DIGIT),
        Variable("a", DIGIT, (4,), (7, 3, 5, 1)),
    ),
    functions=(BUMP, FIND, CLIMB, GRADE, NOTHING),
)


def call(name: str, *arguments: Expr) -> Call:
    return Call(name, arguments)


BLOCKS: dict[str, Block] = {
    "the left side is read before the right side's call": (Assign(Y, plus(X, call("bump"))),),
    "calls happen in their order": (Assign(Y, Binary("-", call("bump"), plus(call("bump"), Const(-3)))),),
    "and stops early": (If(Binary("and", less(X, 2), less(call("bump"), 9)), (Assign(Y, Const(1)),)),),
    "or goes on": (If(Binary("or", less(X, 2), less(call("bump"), 9)), (Assign(Y, Const(1)),)),),
    "implies stops early": (
        If(Binary("implies", less(X, 2), less(call("bump"), 9)), (Assign(Y, Const(1)),)),
    ),
    "only one side is chosen": (Assign(Y, Conditional(less(X, 9), Const(4), call("bump"))),),
    "a return leaves a loop": (Assign(Y, call("find", Const(5))),),
    "a return after a loop": (Assign(Y, call("find", Const(8))),),
    "a return leaves a loop with a condition": (Assign(Y, call("climb", X)),),
    "a loop ends by itself": (Assign(Y, call("climb", Const(7))),),
    "a chain of returns": (Assign(Y, plus(call("grade", Const(4)), call("grade", Const(8)))),),
    "a fold stops early": (Assign(Y, Fold("any", "i", 0, 3, Binary("==", call("bump"), Const(4)))),),
    "a sum of calls": (Assign(Y, Fold("sum", "i", 0, 1, call("grade", Local("i")))),),
    "a function without a result gives 0": (Assign(X, call("nothing")),),
    "a call for its effect": (Evaluate(call("bump")),),
    "a condition with a call, round after round": (
        While(less(call("bump"), 6), (Assign(Y, plus(Y, Const(2))),), 9),
    ),
    "the value comes before the index": (Assign(Load("a", (call("bump"),)), X),),
    "a local array": (
        Let("t", DIGIT, X, 3),
        Assign(Local("t", Const(1)), Const(6)),
        Assign(Y, plus(Local("t", Const(0)), Local("t", Const(1)))),
    ),
    "a division by zero": (Assign(Y, Binary("div", Const(4), Y)),),
    "an index out of bounds": (Assign(Y, Load("a", (plus(X, Const(2)),))),),
    "a value out of range": (Assign(Y, plus(X, Const(8))),),
    "an argument out of range": (Assign(Y, call("grade", plus(X, Const(8)))),),
    "a result out of range": (Assign(X, Const(9)), Evaluate(call("bump"))),
    "a loop without end": (While(less(X, 9), (Assign(Y, Const(1)),), 3),),
    "a failed check": (Check(less(X, 2), "too much"),),
}


def outcome(block: tuple[Statement, ...]) -> tuple[int, ...] | None:
    """Returns the values after the block; None if it faults."""
    env = thaw(name_parts(NETWORK), initial_state(NETWORK))
    try:
        run(block, env, {})
    except ModelFault:
        return None
    return tuple(env.values)


@pytest.mark.parametrize("name", BLOCKS)
def test_the_same_happens(name: str) -> None:
    straight = tuple(Straightener(NETWORK, ()).block(BLOCKS[name], {}))
    assert not any(isinstance(part, Call) for s in straight for e in exprs(s) for part in walk(e))
    assert outcome(straight) == outcome(BLOCKS[name])
    written = [statement for statement in forward(straight) if not isinstance(statement, Put | Take)]
    assert outcome(tuple(written)) == outcome(BLOCKS[name])


def exprs(statement: Statement) -> list[Expr]:
    match statement:
        case Assign(target=target, value=value):
            return [target, value]
        case Let(value=value):
            return [value]
        case Check(condition=condition):
            return [condition]
        case If(condition=condition, then=then, otherwise=otherwise):
            return [condition, *(e for s in then + otherwise for e in exprs(s))]
        case While(condition=condition, body=body):
            return [condition, *(e for s in body for e in exprs(s))]
        case For(body=body):
            return [e for s in body for e in exprs(s)]
        case _:
            raise AssertionError(f"not straight: {statement}")


def test_some_of_the_blocks_fault() -> None:
    faults = [name for name in BLOCKS if outcome(BLOCKS[name]) is None]
    assert len(faults) == 7


def test_no_check_where_the_range_says_enough() -> None:
    straight = Straightener(NETWORK, ())
    straight.learn(less(X, 9))
    (first, second) = straight.block((Assign(X, plus(X, Const(1))), Assign(Y, X)), {})
    assert isinstance(first, Assign)
    assert isinstance(second, Assign)


def test_what_was_known_of_a_variable_ends_with_its_assignment() -> None:
    straight = Straightener(NETWORK, ())
    straight.learn(less(X, 9))
    more = Assign(X, plus(X, Const(1)))
    found = straight.block((more, more), {})
    assert [type(statement) for statement in found] == [Assign, Check, Assign]


def test_what_was_known_is_not_believed_in_a_loop() -> None:
    straight = Straightener(NETWORK, ())
    straight.learn(less(X, 9))
    (loop,) = straight.block((For("i", 0, 2, (Assign(X, plus(X, Const(1))),)),), {})
    assert isinstance(loop, For)
    assert [type(statement) for statement in loop.body] == [Check, Assign]


def test_a_value_used_once_needs_no_local() -> None:
    block = (Let("n$1", DIGIT, X), Assign(Y, plus(Local("n$1"), Const(1))))
    assert forward(block) == (Assign(Y, plus(X, Const(1))),)


def test_a_value_whose_source_changes_keeps_its_local() -> None:
    block = (Let("n$1", DIGIT, X), Assign(X, Const(1)), Assign(Y, Local("n$1")))
    assert forward(block) == block
