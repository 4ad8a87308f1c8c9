"""The form of exported TLA+; the tests against TLC check its meaning."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.export.test_promela import DIGIT, STEP, X, below, component, network, plus
from veristream.errors import ModelError
from veristream.export.tla import to_tla
from veristream.ir.expr import Assign, Binary, Const, For, If, Load, Local, Type, While
from veristream.ir.network import (
    Bind,
    Channel,
    ChannelKind,
    Clock,
    Edge,
    LocationKind,
    Receive,
    Select,
    Send,
    Variable,
)
from veristream.ir.property import Always, DeadlockFree, Property


def test_a_plain_model_is_plain_tla() -> None:
    exported = to_tla(network(STEP), "Small")
    assert exported.module == "Small"
    assert exported.config == "INIT Init\nNEXT Next\n"
    assert exported.spec == (
        "---- MODULE Small ----\n"
        "\\* No property asks for deadlocks: run TLC with -deadlock, which ignores them.\n"
        "EXTENDS Integers, Sequences, TLC\n"
        "VARIABLES at_P, v_x\n"
        "vars == <<at_P, v_x>>\n"
        "\n"
        "Init ==\n"
        "  /\\ at_P = 0\n"
        "  /\\ v_x = 0\n"
        "\n"
        "step_1 ==  \\* go (P: a -> b)\n"
        "  /\\ at_P = 0\n"
        "  /\\ v_x < 9\n"
        "  /\\ at_P' = 1\n"
        "  /\\ v_x' = v_x + 1\n"
        "\n"
        "Next ==\n"
        "  \\/ step_1\n"
        "====\n"
    )


def spec(*edges: Edge, **parts: object) -> str:
    return to_tla(network(*edges, **parts), "Small").spec


def test_what_does_not_change_is_said() -> None:
    assert "  /\\ UNCHANGED <<v_x>>" in spec(Edge("a", "b"))


def test_a_possible_fault_is_asserted() -> None:
    assert "Assert(((v_x + 1) <= 9)," in spec(replace(STEP, guard=None))


def test_choices_are_quantified_after_the_tests_that_need_none() -> None:
    guard = Binary("and", below(7), Binary("<", X, Local("i")))
    edge = Edge("a", "b", select=(Select("i", 3, 5),), guard=below(7), update=(Assign(X, Local("i")),))
    lines = spec(edge).splitlines()
    assert lines.index("  /\\ v_x < 7") + 1 == lines.index("  /\\ \\E l_i \\in 3..5 :")
    assert "       /\\ v_x < 7" not in lines
    inner = spec(replace(edge, guard=guard)).splitlines()
    assert inner.index("  /\\ \\E l_i \\in 3..5 :") + 1 == inner.index("       /\\ v_x < 7 /\\ v_x < l_i")


def test_a_disjunction_is_one_condition_and_not_two_steps() -> None:
    guard = Binary("or", below(3), Binary(">", X, Const(5)))
    assert "  /\\ (v_x < 3 \\/ v_x > 5) = TRUE" in spec(replace(STEP, guard=guard))


def test_a_queue_is_a_sequence() -> None:
    channel = Channel("q", ChannelKind.BUFFER, (DIGIT, DIGIT), (2,), capacity=2)
    send = Edge("a", "b", sync=Send("q", (Const(1),), (Const(3), X)))
    receive = Edge(
        "b", "a", sync=Receive("q", (Const(0),), (Bind("m"), Bind("n"))), update=(Assign(X, Local("n")),)
    )
    text = spec(send, receive, channels=(channel,))
    assert "  /\\ q_q = [i0 \\in 0..1 |-> <<>>]" in text
    assert "  /\\ Len(q_q[1]) < 2" in text
    assert "  /\\ q_q' = [q_q EXCEPT ![1] = Append(q_q[1], <<3, v_x>>)]" in text
    assert "  /\\ v_x' = q_q[0][1][2]" in text
    assert "  /\\ q_q' = [q_q EXCEPT ![0] = Tail(q_q[0])]" in text


def test_a_queue_of_bare_signals_is_a_number() -> None:
    channel = Channel("q", ChannelKind.BUFFER, (), capacity=2)
    text = spec(Edge("a", "b", sync=Send("q")), channels=(channel,))
    assert "  /\\ q_q < 2" in text
    assert "  /\\ q_q' = q_q + 1" in text


def test_a_choice_of_statements_gives_the_values_of_all_it_changes() -> None:
    y = Load("y")
    update = (If(below(3), (Assign(X, Const(4)), Assign(y, X)), (Assign(y, Const(5)),)),)
    text = spec(Edge("a", "b", update=update), variables=(Variable("x", DIGIT), Variable("y", DIGIT)))
    assert "IF v_x < 3 THEN" in text
    assert "<<v_x, 5>>" in text


def test_short_loops_are_unrolled_and_others_recursive() -> None:
    short = Edge("a", "b", update=(For("i", 1, 3, (Assign(X, Local("i")),)),))
    assert "v_x' = 3" in spec(short)
    long = Edge("a", "b", update=(For("i", 0, 9, (Assign(X, Local("i")),)),))
    assert "RECURSIVE loop__1(_, _)" in spec(long)
    until = Edge("a", "b", update=(While(below(5), (Assign(X, plus(X, 1)),), 9),))
    assert "RECURSIVE loop__1(" in spec(until)


def test_arrays_are_functions_from_0() -> None:
    array = Variable("a", DIGIT, (2, 2), (1, 2, 3, 4))
    edge = Edge("a", "b", update=(Assign(Load("a", (Const(1), Const(0))), Const(7)),))
    text = spec(edge, variables=(Variable("x", DIGIT), array))
    assert "v_a = [i0 \\in 0..1 |-> [i1 \\in 0..1 |-> <<1, 2, 3, 4>>[(i0 * 2 + i1) + 1]]]" in text
    assert "  /\\ v_a' = [v_a EXCEPT ![1][0] = 7]" in text


def test_invariants_are_in_the_configuration() -> None:
    exported = to_tla(network(STEP, properties=(Property("low", Always(below(4))),)), "Small")
    assert "always_low == (v_x < 4)" in exported.spec
    assert "INVARIANT always_low\n" in exported.config


def test_a_proper_end_stays_where_deadlocks_are_asked_for() -> None:
    text = spec(STEP, properties=(Property("d", DeadlockFree()),))
    assert "Terminated ==\n  /\\ at_P = 1\n  /\\ UNCHANGED vars\n" in text
    assert "  \\/ Terminated\n" in text


def test_atomic_steps_come_first() -> None:
    atomic = component(Edge("a", "b"), kinds=(LocationKind.ATOMIC,))
    other = replace(component(Edge("a", "b")), name="Q")
    text = spec(components=(atomic, other))
    assert "Unhindered ==\n  IF at_P = 0 THEN ~ENABLED First ELSE TRUE\n" in text
    assert "Next ==\n  \\/ First\n  \\/ (Unhindered /\\ Others)\n" in text


def test_clocks_and_wide_values_are_refused() -> None:
    with pytest.raises(ModelError, match="clock"):
        spec(STEP, clocks=(Clock("c"),))
    with pytest.raises(ModelError, match="32 bits"):
        spec(STEP, variables=(Variable("x", Type(0, 2**40)),))
