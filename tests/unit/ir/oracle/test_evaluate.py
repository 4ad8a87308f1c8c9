"""Expressions and statements, one construct at a time."""

from __future__ import annotations

import pytest

from veristream.ir.expr import (
    FALSE,
    TRUE,
    Assign,
    AtLocation,
    Binary,
    BinaryOp,
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
    IsDone,
    IsIdle,
    Let,
    Load,
    Local,
    Peek,
    Primed,
    Queue,
    Return,
    Type,
    Unary,
    While,
)
from veristream.ir.network import (
    Channel,
    ChannelKind,
    Component,
    Function,
    Location,
    Network,
    Parameter,
    Variable,
)
from veristream.ir.oracle.evaluate import Cell, Environment, ModelFault, evaluate, freeze, run, thaw
from veristream.ir.state import State, name_parts
from veristream.source import Source, Span

SMALL = Type(0, 3)
WIDE = Type(-100, 100)
BAD = Binary("div", Const(1), Const(0))
N = Load("n")


def add(left: Expr, right: Expr) -> Binary:
    return Binary("+", left, right)


NETWORK = Network(
    "sample",
    variables=(
        Variable("n", SMALL, initial=(2,)),
        Variable("a", WIDE, (3,), (10, 20, 30)),
        Variable("m", WIDE, (2, 3), (0, 1, 2, 3, 4, 5)),
    ),
    channels=(
        Channel("r", ChannelKind.RENDEZVOUS),
        Channel("q", ChannelKind.BUFFER, (WIDE, WIDE), (2,), capacity=2),
    ),
    functions=(
        Function(
            "double", (Parameter("x", SMALL),), Type(0, 4), (Return(Binary("*", Local("x"), Const(2))),)
        ),
        Function("bump", (), Type(0, 0), (Assign(N, add(N, Const(1))),)),
        Function("next", (), SMALL, (Assign(N, add(N, Const(1))), Return(N))),
        Function("forgets", (), Type(1, 2), ()),
        Function(
            "early",
            (),
            SMALL,
            (For("i", 0, 9, (If(Binary("==", Local("i"), N), (Return(Local("i")),)),)), Return(BAD)),
        ),
    ),
    components=(
        Component("P", (Location("x"), Location("y", final=True)), (), "x"),
        Component("S", (Location("z", final=True),), (), "z", idle=True),
    ),
)
STATE = State((2, 10, 20, 30, 0, 1, 2, 3, 4, 5), ((), ((7, 8), (9, -1))), (1, -1))


@pytest.fixture
def env() -> Environment:
    return thaw(name_parts(NETWORK), STATE)


@pytest.mark.parametrize(
    ("op", "left", "right", "expected"),
    [
        ("+", 2, 3, 5),
        ("-", 2, 3, -1),
        ("*", -2, 3, -6),
        ("div", 7, 2, 3),
        ("div", -7, 2, -3),
        ("div", 7, -2, -3),
        ("div", -7, -2, 3),
        ("rem", 7, 2, 1),
        ("rem", -7, 2, -1),
        ("rem", 7, -2, 1),
        ("rem", -7, -2, -1),
        ("mod", -1, 3, 2),
        ("mod", 4, 3, 1),
        ("min", 2, -3, -3),
        ("max", 2, -3, 2),
        ("&", 6, 3, 2),
        ("|", 6, 3, 7),
        ("^", 6, 3, 5),
        ("&", -1, 5, 5),
        ("<<", 3, 2, 12),
        ("<<", -1, 62, -(2**62)),
        (">>", 12, 2, 3),
        (">>", -1, 1, -1),
        ("==", 2, 2, 1),
        ("!=", 2, 2, 0),
        ("<", 1, 2, 1),
        ("<=", 2, 2, 1),
        (">", 1, 2, 0),
        (">=", 1, 2, 0),
        ("and", 2, 4, 1),
        ("and", 2, 0, 0),
        ("or", 0, 4, 1),
        ("or", 0, 0, 0),
        ("implies", 3, 0, 0),
        ("implies", 3, 4, 1),
    ],
)
def test_binary(env: Environment, op: BinaryOp, left: int, right: int, expected: int) -> None:
    assert evaluate(Binary(op, Const(left), Const(right)), env, {}) == expected


@pytest.mark.parametrize(
    ("expr", "expected"),
    [
        (Const(-5), -5),
        (N, 2),
        (Load("a", (N,)), 30),
        (Load("m", (Const(1), Const(2))), 5),
        (Load("m", (Const(1), Const(0))), 3),
        (Unary("-", N), -2),
        (Unary("not", N), 0),
        (Unary("not", Const(0)), 1),
        (Unary("~", N), -3),
        (Binary("and", FALSE, BAD), 0),
        (Binary("or", TRUE, BAD), 1),
        (Binary("implies", FALSE, BAD), 1),
        (Conditional(TRUE, Const(4), BAD), 4),
        (Conditional(FALSE, BAD, Const(5)), 5),
        (Fold("sum", "i", 0, 2, Load("a", (Local("i"),))), 60),
        (Fold("all", "i", 0, 2, Load("a", (Local("i"),))), 1),
        (Fold("all", "i", 0, 5, Binary("<", Load("a", (Local("i"),)), Const(20))), 0),
        (Fold("any", "i", 0, 5, Binary(">", Load("a", (Local("i"),)), Const(10))), 1),
        (Fold("any", "i", 0, 2, Binary(">", Load("a", (Local("i"),)), Const(30))), 0),
        (Fold("all", "i", 1, 0, FALSE), 1),
        (Fold("any", "i", 1, 0, TRUE), 0),
        (Fold("sum", "i", 1, 0, TRUE), 0),
        (Call("double", (N,)), 4),
        (Call("early", ()), 2),
        (AtLocation("P", "y"), 1),
        (AtLocation("P", "x"), 0),
        (AtLocation("S", "z"), 0),
        (IsDone("P"), 1),
        (IsDone("S"), 0),
        (IsIdle("P"), 0),
        (IsIdle("S"), 1),
        (Queue("len", "q", (Const(0),)), 0),
        (Queue("len", "q", (Const(1),)), 2),
        (Queue("empty", "q", (Const(0),)), 1),
        (Queue("empty", "q", (Const(1),)), 0),
        (Queue("full", "q", (Const(0),)), 0),
        (Queue("full", "q", (Const(1),)), 1),
        (Peek("q", Const(0), 1, (Const(1),)), 8),
        (Peek("q", Const(1), 0, (Const(1),)), 9),
    ],
)
def test_value(env: Environment, expr: Expr, expected: int) -> None:
    assert evaluate(expr, env, {}) == expected


def test_locals(env: Environment) -> None:
    scope = {"s": Cell(SMALL, [3]), "t": Cell(SMALL, [1, 2], 2)}
    assert evaluate(Local("s"), env, scope) == 3
    assert evaluate(Local("t", Const(1)), env, scope) == 2
    with pytest.raises(ModelFault, match=r"^index 2 is outside 0\.\.1 of t$"):
        evaluate(Local("t", Const(2)), env, scope)


@pytest.mark.parametrize(
    ("expr", "message"),
    [
        (BAD, "division by zero"),
        (Binary("rem", Const(1), Const(0)), "division by zero"),
        (Binary("mod", Const(1), Const(0)), "division by zero"),
        (Binary("mod", Const(1), Const(-2)), "mod by -2, which is not positive"),
        (Binary("<<", Const(1), Const(63)), "a shift by 63 is outside 0..62"),
        (Binary(">>", Const(1), Const(-1)), "a shift by -1 is outside 0..62"),
        (Load("a", (Const(3),)), "index 3 is outside 0..2 of a"),
        (Load("a", (Const(-1),)), "index -1 is outside 0..2 of a"),
        (Load("m", (Const(2), BAD)), "index 2 is outside 0..1 of m"),
        (Queue("len", "q", (Const(2),)), "index 2 is outside 0..1 of q"),
        (
            Peek("q", Const(2), 0, (Const(1),)),
            "the queue q[1] has no message at position 2 (its length is 2)",
        ),
        (
            Peek("q", Const(-1), 0, (Const(1),)),
            "the queue q[1] has no message at position -1 (its length is 2)",
        ),
        (Call("double", (Const(5),)), "5 is outside the range 0..3 of x of double"),
        (Call("double", (Const(3),)), "6 is outside the range 0..4 of the result of double"),
        (Call("forgets", ()), "0 is outside the range 1..2 of the result of forgets"),
        (Binary("and", TRUE, BAD), "division by zero"),
        (Binary("==", BAD, Load("a", (Const(9),))), "division by zero"),
        (Fold("sum", "i", 0, 3, Load("a", (Local("i"),))), "index 3 is outside 0..2 of a"),
    ],
)
def test_fault(env: Environment, expr: Expr, message: str) -> None:
    with pytest.raises(ModelFault) as caught:
        evaluate(expr, env, {})
    assert caught.value.message == message


def test_fault_says_where(env: Environment) -> None:
    span = Span(Source("m", "x = 1 / 0"), 4, 9)
    with pytest.raises(ModelFault) as caught:
        evaluate(Binary("div", Const(1), Const(0), span=span), env, {})
    assert caught.value.span is span


def test_operands_are_evaluated_from_the_left(env: Environment) -> None:
    assert evaluate(Binary("-", N, Call("next", ())), env, {}) == 2 - 3


def test_primed_speaks_of_the_state_after(env: Environment) -> None:
    env.after = thaw(name_parts(NETWORK), State((3, *STATE.values[1:]), STATE.queues, (0, -1)))
    assert evaluate(Binary("-", Primed(N), N), env, {}) == 1
    assert evaluate(Primed(AtLocation("P", "x")), env, {}) == 1


def run_and_show(env: Environment, block: Block) -> tuple[int, ...]:
    """Returns n and the elements of a after the block."""
    assert run(block, env, {}) is None
    return freeze(env).values[:4]


def set_n(value: Expr) -> Assign:
    return Assign(N, value)


COUNT = (
    Let("i", SMALL, Const(0)),
    While(Binary("<", Local("i"), N), (Assign(Local("i"), add(Local("i"), Const(1))),), limit=2),
    Assign(Load("a", (Const(0),)), Local("i")),
)


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        ((), (2, 10, 20, 30)),
        ((set_n(Const(3)),), (3, 10, 20, 30)),
        ((Assign(Load("a", (N,)), Const(7)),), (2, 10, 20, 7)),
        # The value is evaluated before the index: the call raises n to 3, which is then out of bounds.
        ((Assign(Load("a", (Binary("-", N, Const(1)),)), Call("next", ())),), (3, 10, 20, 3)),
        ((If(N, (set_n(Const(0)),), (set_n(Const(1)),)),), (0, 10, 20, 30)),
        ((If(FALSE, (set_n(Const(0)),), (set_n(Const(1)),)),), (1, 10, 20, 30)),
        ((If(FALSE, (set_n(Const(0)),)),), (2, 10, 20, 30)),
        ((For("i", 0, 2, (Assign(Load("a", (Local("i"),)), Local("i")),)),), (2, 0, 1, 2)),
        ((For("i", 1, 0, (set_n(Const(0)),)),), (2, 10, 20, 30)),
        (COUNT, (2, 2, 20, 30)),
        (
            (
                Let("t", SMALL, Const(1), size=2),
                Assign(Local("t", Const(1)), Const(3)),
                Assign(Load("a", (Const(0),)), Local("t", Const(0))),
                Assign(Load("a", (Const(1),)), Local("t", Const(1))),
            ),
            (2, 1, 3, 30),
        ),
        ((Evaluate(Call("bump", ())), Check(Binary("==", N, Const(3)), "no")), (3, 10, 20, 30)),
        # A name declared in a block is local to it, and new in each iteration.
        (
            (
                Let("t", WIDE, Const(1)),
                For("i", 0, 1, (Let("u", WIDE, Const(5)), Assign(Local("u"), add(Local("u"), Const(1))))),
                If(TRUE, (Let("v", WIDE, Local("t")), Assign(Local("t"), add(Local("v"), Const(1))))),
                Assign(Load("a", (Const(0),)), Local("t")),
            ),
            (2, 2, 20, 30),
        ),
    ],
)
def test_block(env: Environment, block: Block, expected: tuple[int, ...]) -> None:
    assert run_and_show(env, block) == expected


@pytest.mark.parametrize(
    ("block", "message"),
    [
        ((set_n(Const(4)),), "4 is outside the range 0..3 of n"),
        ((Assign(Load("a", (Const(1),)), Const(101)),), "101 is outside the range -100..100 of a[1]"),
        (
            (Assign(Load("m", (Const(1), Const(2))), Const(101)),),
            "101 is outside the range -100..100 of m[1][2]",
        ),
        ((Assign(Load("a", (Const(3),)), Const(101)),), "index 3 is outside 0..2 of a"),
        ((Assign(Load("a", (Const(3),)), BAD),), "division by zero"),
        ((Let("t", SMALL, Const(-1)),), "-1 is outside the range 0..3 of t"),
        ((Let("t", SMALL, Const(0)), Assign(Local("t"), Const(4))), "4 is outside the range 0..3 of t"),
        (
            (Let("t", SMALL, Const(0), size=2), Assign(Local("t", Const(1)), Const(4))),
            "4 is outside the range 0..3 of t[1]",
        ),
        ((While(TRUE, (), limit=10),), "the loop ran more than 10 times"),
        ((set_n(Const(3)), *COUNT), "the loop ran more than 2 times"),
        ((Check(FALSE, "stock went missing"),), "stock went missing"),
    ],
)
def test_faulting_block(env: Environment, block: Block, message: str) -> None:
    with pytest.raises(ModelFault) as caught:
        run(block, env, {})
    assert caught.value.message == message


def test_return_ends_every_loop(env: Environment) -> None:
    block: Block = (
        While(TRUE, (For("i", 0, 3, (If(TRUE, (Return(Const(7)),)),)),), limit=1),
        Return(Const(8)),
    )
    assert run(block, env, {}) == 7
