"""The form of exported Promela; the tests against SPIN check its meaning."""

from __future__ import annotations

from dataclasses import replace

import pytest

from veristream.errors import ModelError
from veristream.export.promela import to_promela
from veristream.ir.expr import (
    BOOL,
    Assign,
    AtLocation,
    Binary,
    Call,
    Const,
    Expr,
    If,
    Let,
    Load,
    Local,
    Return,
    Type,
)
from veristream.ir.network import (
    Bind,
    Channel,
    ChannelKind,
    Clock,
    Component,
    Edge,
    FairnessMark,
    Function,
    Label,
    Location,
    LocationKind,
    Network,
    Parameter,
    Receive,
    Select,
    Send,
    Variable,
)
from veristream.ir.property import (
    Always,
    DeadlockFree,
    Fairness,
    Holds,
    LeadsTo,
    Occurs,
    Property,
    Reachable,
    Temporal,
    TemporalBinary,
    TemporalUnary,
)

X = Load("x")
DIGIT = Type(0, 9)


def plus(value: Expr, number: int) -> Binary:
    return Binary("+", value, Const(number))


def below(number: int) -> Binary:
    return Binary("<", X, Const(number))


def component(*edges: Edge, kinds: tuple[LocationKind, ...] = ()) -> Component:
    places = [Location("a"), Location("b", final=True)]
    for i, kind in enumerate(kinds):
        places[i] = replace(places[i], kind=kind)
    return Component("P", tuple(places), edges, "a")


def network(*edges: Edge, **parts: object) -> Network:
    found = Network("n", variables=(Variable("x", DIGIT),), components=(component(*edges),))
    return replace(found, **parts)  # type: ignore[arg-type]


STEP = Edge("a", "b", Label("go"), guard=below(9), update=(Assign(X, plus(X, 1)),))


def test_a_plain_model_is_plain_promela() -> None:
    assert to_promela(network(STEP)) == (
        "/* n */\n"
        "bit at_P;\n"
        "byte v_x;\n"
        "\n"
        "active proctype network() {\n"
        "end:\n"
        "  do\n"
        "  /* go  (P: a -> b) */\n"
        "  :: d_step { at_P == 0 && v_x < 9 -> at_P = 1; v_x = v_x + 1; }\n"
        "  od\n"
        "}\n"
    )


def test_a_possible_fault_is_an_assertion() -> None:
    assert "assert(v_x + 1 <= 9);" in to_promela(network(replace(STEP, guard=None)))


def test_a_guard_that_may_fault_gets_an_option_of_its_own() -> None:
    text = to_promela(network(replace(STEP, guard=Binary("==", Binary("div", Const(8), X), Const(2)))))
    assert "d_step { at_P == 0 && v_x != 0 && 8 / v_x == 2 ->" in text
    assert "d_step { at_P == 0 && v_x == 0 -> assert(false); }" in text


def test_each_choice_is_an_option() -> None:
    edge = Edge("a", "b", select=(Select("i", 3, 5),), update=(Assign(X, Local("i")),))
    text = to_promela(network(edge))
    assert [f"v_x = {i};" in text for i in range(2, 7)] == [False, True, True, True, False]


def test_a_variable_that_nobody_reads_is_kept() -> None:
    edge = Edge("a", "b", update=(Assign(X, Const(1)),))
    assert ":: false && (v_x)" in to_promela(network(edge))


def test_types_fit() -> None:
    types = {"b": BOOL, "u": Type(0, 255), "s": Type(-1, 255), "i": Type(0, 40_000)}
    variables = tuple(Variable(name, type_, (), (1,)) for name, type_ in types.items())
    text = to_promela(network(STEP, variables=(Variable("x", DIGIT), *variables)))
    for line in ("bit v_b = 1;", "byte v_u = 1;", "short v_s = 1;", "int v_i = 1;"):
        assert line in text


def test_an_array_begins_with_the_bits_of_its_negative_numbers() -> None:
    array = Variable("a", Type(-2, 5), (2, 2), (-2, 0, 1, 5))
    text = to_promela(network(STEP, variables=(Variable("x", DIGIT), array)))
    assert "short v_a[4] = { 65534, 0, 1, 5 };" in text


def test_a_value_beyond_32_bits_is_refused() -> None:
    with pytest.raises(ModelError, match="32 bits"):
        to_promela(network(STEP, variables=(Variable("x", Type(0, 2**40)),)))


def test_a_queue_is_an_array_whose_free_cells_are_0() -> None:
    channel = Channel("q", ChannelKind.BUFFER, (Type(1, 3),), capacity=2)
    send = Edge("a", "b", sync=Send("q", (), (Const(3),)))
    receive = Edge("b", "a", sync=Receive("q", (), (Bind("m"),)), update=(Assign(X, Local("m")),))
    text = to_promela(network(send, receive, channels=(channel,)))
    assert "byte q_q_0[2];" in text
    assert ":: d_step { at_P == 0 && len_q < 2 ->" in text
    taken = ["v_x = q_q_0[0];", "q_q_0[0] = q_q_0[1];", "q_q_0[1] = 0;", "len_q = len_q - 1;"]
    lines = [line.strip() for line in text.splitlines()]
    assert lines[lines.index(taken[0]) :][:4] == taken


def test_a_long_function_in_a_guard_becomes_c() -> None:
    body = (
        Let("n", DIGIT, Const(0)),
        If(below(4), (Assign(Local("n"), Const(1)),)),
        Return(Local("n")),
    )
    function = Function("f", (), DIGIT, body)
    text = to_promela(network(replace(STEP, guard=Call("f", ())), functions=(function,)))
    assert "int possible_step_1(void)" in text
    assert "d_step { at_P == 0 && c_expr { (possible_step_1)() } ->" in text


def test_a_short_function_in_a_guard_is_written_out() -> None:
    function = Function("f", (Parameter("n", DIGIT),), BOOL, (Return(Binary("<", Local("n"), X)),))
    text = to_promela(network(replace(STEP, guard=Call("f", (Const(4),))), functions=(function,)))
    assert "at_P == 0 && 4 < v_x" in text
    assert "c_code" not in text


def test_an_invariant_is_asked_before_the_step() -> None:
    places = (Location("a"), Location("b", invariant=below(5)))
    owner = Component("P", places, (STEP,), "a")
    text = to_promela(network(components=(owner,)))
    assert "l_kept = v_x < 5;" in text
    assert "(possible_step_1)()" in text


def test_while_one_is_committed_the_others_wait() -> None:
    committed = component(Edge("a", "b"), kinds=(LocationKind.COMMITTED,))
    other = replace(component(Edge("a", "b")), name="Q")
    text = to_promela(network(components=(committed, other)))
    assert "d_step { at_P == 0 -> at_P = 1; }" in text
    assert "d_step { at_Q == 0 && at_P != 0 -> at_Q = 1; }" in text


def test_only_a_model_that_asks_for_deadlocks_tells_ends_apart() -> None:
    asked = to_promela(network(STEP, properties=(Property("d", DeadlockFree()),)))
    assert "  :: at_P == 1\n" in asked
    assert "end:" not in asked


@pytest.mark.parametrize(
    ("claim", "formula"),
    [
        (Always(below(4)), "[] (v_x < 4)"),
        (Reachable(below(4)), "[] !(v_x < 4)"),
        (LeadsTo(below(4), AtLocation("P", "b")), "[] ((v_x < 4) -> <> (at_P == 1))"),
        (
            Temporal(TemporalUnary("[]", TemporalBinary("R", Holds(below(4)), Holds(below(5))))),
            "([] ((v_x < 4) V (v_x < 5)))",
        ),
    ],
)
def test_formulas(claim: Always | Reachable | LeadsTo | Temporal, formula: str) -> None:
    text = to_promela(network(STEP), Property("my claim", claim))
    assert f"ltl p_my_claim {{ {formula} }}" in text
    assert "end:" in text


@pytest.mark.parametrize(
    ("claim", "message"),
    [
        (Temporal(TemporalUnary("X", Holds(below(4)))), "`X`"),
        (Temporal(Occurs("go")), "action"),
        (DeadlockFree(), "not a formula"),
    ],
)
def test_what_spin_has_no_formula_for_is_refused(claim: Temporal | DeadlockFree, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        to_promela(network(STEP), Property("p", claim))


def test_fairness_is_refused() -> None:
    claim = Property("p", LeadsTo(below(4), below(3)), Fairness.WEAK_ACTION)
    with pytest.raises(ModelError, match="fairness"):
        to_promela(network(STEP), claim)
    marked = replace(STEP, fairness=FairnessMark.WEAK)
    with pytest.raises(ModelError, match="fair edge"):
        to_promela(network(marked), replace(claim, fairness=Fairness.NONE))
    assert "ltl" in to_promela(network(marked), Property("p", Always(below(4))))


def test_clocks_are_refused() -> None:
    with pytest.raises(ModelError, match="clock"):
        to_promela(network(STEP, clocks=(Clock("c"),)))
    with pytest.raises(ModelError, match="a timed network cannot be exported"):
        to_promela(network(STEP, timed=True))
