"""Broadcast receivers with clock guards: which receive, and which stay."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.languages.timed.lower_texts import component, network
from veristream.ir import expr as ir
from veristream.ir.network import Edge, Receive
from veristream.ir.oracle.evaluate import satisfies
from veristream.ir.oracle.interpret import Interpreter

SENDER = "process S() { state A; init A; trans A -> A { sync go!; }; }"


def _receiver(*guards: str, select: str = "", world: str = "", channel: str = "go") -> str:
    names = ", ".join(f"R{number}" for number in range(len(guards)))
    edges = ", ".join(
        f"I -> R{number} {{ {select} {f'guard {guard};' if guard else ''} sync {channel}?; }}"
        for number, guard in enumerate(guards)
    )
    return (
        f"broadcast chan go, many[3]; clock x, y; {world} {SENDER} "
        f"process R() {{ state I, {names}; init I; trans {edges}; }} system S, R;"
    )


def _bound(clock: str, op: ir.ClockOp, limit: int) -> ir.ClockConstraint:
    return ir.ClockConstraint(ir.ClockRef(clock), None, op, ir.Const(limit))


def _stay(*clocks: ir.ClockConstraint, guard: ir.Expr | None = None) -> Edge:
    return Edge("I", "I", guard=guard, clock_guard=clocks, sync=Receive("go"))


def _added(text: str) -> list[Edge]:
    return [edge for edge in component(text, "R").edges if edge.target == "I"]


def test_no_loops_without_clock_guards() -> None:
    assert _added(_receiver("b", "", world="bool b;")) == []


def test_a_conjunction_fails_in_each_conjunct() -> None:
    assert _added(_receiver("x >= 3 && x <= 5")) == [_stay(_bound("x", "<", 3)), _stay(_bound("x", ">", 5))]


def test_an_equality_fails_on_both_sides() -> None:
    assert _added(_receiver("x == 3")) == [_stay(_bound("x", "<", 3)), _stay(_bound("x", ">", 3))]


def test_an_edge_that_is_always_enabled_leaves_no_choice() -> None:
    assert _added(_receiver("x >= 3", "")) == []


def test_edges_on_other_channels_do_not_matter() -> None:
    text = _receiver("x >= 3", channel="many[1]").replace(
        "trans I", "trans I -> I { sync many[2]?; }, I -> I { sync go?; }, I"
    )
    assert [edge for edge in _added(text) if edge.clock_guard] == [
        Edge("I", "I", clock_guard=(_bound("x", "<", 3),), sync=Receive("many", (ir.Const(1),)))
    ]


def test_selections_become_separate_edges() -> None:
    found = component(_receiver("x >= i", select="select i : int[1,2];"), "R").edges
    assert [edge.clock_guard for edge in found] == [
        (_bound("x", ">=", 1),),
        (_bound("x", ">=", 2),),
        (_bound("x", "<", 1), _bound("x", "<", 2)),
    ]
    assert all(edge.select == () for edge in found)


def test_selected_channels_are_distinguished() -> None:
    found = component(_receiver("x >= i", select="select i : int[1,2];", channel="many[i]"), "R").edges
    assert [(edge.sync, edge.clock_guard) for edge in found[2:]] == [
        (Receive("many", (ir.Const(1),)), (_bound("x", "<", 1),)),
        (Receive("many", (ir.Const(2),)), (_bound("x", "<", 2),)),
    ]


_GUARD = st.sampled_from(
    ["b", "!b && c", "x < 2", "x >= 1 && b", "x == 1", "y > 1 && x <= 2", "c imply x < 1", "b || y <= 1"]
)


@settings(max_examples=25, deadline=None)
@given(st.lists(_GUARD, min_size=1, max_size=3), st.booleans(), st.booleans())
def test_receivers(guards: list[str], b: bool, c: bool) -> None:
    """A component takes an edge with satisfied guards, clock guards included; without one it stays."""
    model = network(_receiver(*guards, world=f"bool b = {int(b)}, c = {int(c)};"))
    interpreter = Interpreter(model)
    steps = interpreter.steps(interpreter.initial())
    edges = model.components[1].edges
    for x, y in product([Fraction(one, 2) for one in range(6)], repeat=2):
        possible = [taken for taken in steps if satisfies((Fraction(0), x, y), taken.clocks.bounds)]
        followed = {edges[edge].target for taken in possible for mover, edge in taken.movers if mover == 1}
        alone = any(len(taken.movers) == 1 for taken in possible)
        expected = {f"R{number}" for number, guard in enumerate(guards) if _holds(guard, b, c, x, y)}
        assert followed - {"I"} == expected
        assert ("I" in followed or alone) == (not expected)


@pytest.mark.parametrize("ok", [*product([0, 1], repeat=2)])
@pytest.mark.parametrize(("sent", "heard"), [*product([0, 1], repeat=2)])
def test_receivers_by_channel(ok: tuple[int, int], sent: int, heard: int) -> None:
    """One edge selects its channel by a variable; the other has a clock guard."""
    text = f"""
    broadcast chan go[2]; clock x; bool ok[2] = {{{ok[0]}, {ok[1]}}};
    int[0,1] sent = {sent}, heard = {heard};
    process S() {{ state A; init A; trans A -> A {{ sync go[sent]!; }}; }}
    process R() {{ state I, Plain, Timed; init I; trans
        I -> Plain {{ select i : int[0,1]; guard ok[i]; sync go[i]?; }},
        I -> Timed {{ guard x >= 1; sync go[heard]?; }}; }}
    system S, R;
    """
    model = network(text)
    interpreter = Interpreter(model)
    steps = interpreter.steps(interpreter.initial())
    edges = model.components[1].edges
    for x in (Fraction(0), Fraction(1)):
        possible = [taken for taken in steps if satisfies((Fraction(0), x), taken.clocks.bounds)]
        followed = {edges[edge].target for taken in possible for mover, edge in taken.movers if mover == 1}
        expected = {"Plain"} if ok[sent] else set()
        expected |= {"Timed"} if heard == sent and x >= 1 else set()
        assert followed - {"I"} == expected
        assert len(possible) == max(1, len(expected))


def _holds(guard: str, b: bool, c: bool, x: Fraction, y: Fraction) -> bool:
    return {
        "b": b,
        "!b && c": not b and c,
        "x < 2": x < 2,
        "x >= 1 && b": x >= 1 and b,
        "x == 1": x == 1,
        "y > 1 && x <= 2": y > 1 and x <= 2,
        "c imply x < 1": not c or x < 1,
        "b || y <= 1": b or y <= 1,
    }[guard]


@pytest.mark.parametrize("guard", ["x >= 3", "b && x >= 3"])
def test_a_loop_has_the_guard_of_its_edge(guard: str) -> None:
    (loop,) = _added(_receiver(guard, world="bool b;"))
    assert loop.guard == (ir.Load("b") if "b" in guard else None)
