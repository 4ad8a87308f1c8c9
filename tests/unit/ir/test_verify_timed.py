"""What `verify` refuses in timed networks, and of time in untimed ones; where it points."""

from __future__ import annotations

from dataclasses import replace

import pytest

from veristream.errors import ModelError
from veristream.ir.expr import BOOL, ClockConstraint, ClockRef, ClockTest, Const, Load, Reset
from veristream.ir.network import Clock, Component, Edge, Location, Network, Sorted, Symmetry, Variable
from veristream.ir.property import Always, Property, Refines
from veristream.ir.text.read import read_network
from veristream.ir.verify import verify
from veristream.source import Source


def fail(text: str) -> tuple[str, str]:
    """The error's message, and the text it marks; an error always has a hint."""
    with pytest.raises(ModelError) as caught:
        read_network(Source("m.net", text))
    assert caught.value.hint
    return caught.value.message, text[caught.value.span.start : caught.value.span.end]


def message_of(network: Network) -> str:
    with pytest.raises(ModelError) as caught:
        verify(network)
    return caught.value.message


@pytest.mark.parametrize(
    ("text", "message", "marked"),
    [
        ("clock x", "`x` is a clock, but the network is not timed", "clock x"),
        (
            "channel c: rendezvous priority 1",
            "`c` has a priority, but the network is not timed",
            "channel c: rendezvous priority 1",
        ),
        (
            "component P priority 2 { location a initial }",
            "`P` has a priority, but the network is not timed",
            "P",
        ),
        (
            "property p: inevitable 1",
            "`inevitable` speaks of timed networks",
            "property p: inevitable 1",
        ),
        (
            "property p: potentially 1",
            "`potentially` speaks of timed networks",
            "property p: potentially 1",
        ),
        ("property p: always deadlock", "whether there is a deadlock is not asked here", "deadlock"),
        ("property p: always clock(x < 1)", "a clock is not looked at here", "clock(x < 1)"),
        ("property p: reachable 1 maximise clock(x)", "unknown clock `x`", "x"),
        (
            "property p: refines { network s timed }",
            "a specification is not timed",
            "property p: refines { network s timed }",
        ),
    ],
)
def test_what_only_timed_networks_have(text: str, message: str, marked: str) -> None:
    assert fail(f"network m {text}") == (message, marked)


@pytest.mark.parametrize(
    ("text", "message", "marked"),
    [
        ("clock x clock x[2]", "clock `x` is declared twice", "clock x[2]"),
        ("clock x[0]", "clock `x` has no elements", "clock x[0]"),
        (
            "component P { atomic location a initial }",
            "`a` is atomic, which has no meaning",
            "atomic location a initial",
        ),
        ("idle component P { location a initial }", "`P` is idle, and a timed network", "P"),
        (
            "channel c: barrier { }",
            "`c` is a barrier, and a timed network has none",
            "channel c: barrier { }",
        ),
        (
            "channel c: broadcast component P priority 1 { location a initial }",
            "`P` has a priority, and there is a broadcast channel",
            "P",
        ),
        ("property p: ltl [] {1}", "a formula of linear temporal logic is not", "property p: ltl [] {1}"),
        ("property p: deterministic", "determinism is not asked", "property p: deterministic"),
        ("property p: divergencefree", "freedom from divergence is not", "property p: divergencefree"),
        ("property p: nonterminating", "freedom from termination is not", "property p: nonterminating"),
        ("property p: transition 1", "a condition of steps is not asked", "property p: transition 1"),
        (
            "property p: refines { network s }",
            "a refinement is not asked",
            "property p: refines { network s }",
        ),
        (
            "property p: 1 leadsto 1 under weak-process",
            "the runs of a timed network are not fair",
            "property p: 1 leadsto 1 under weak-process",
        ),
    ],
)
def test_what_timed_networks_do_not_have(text: str, message: str, marked: str) -> None:
    found, where = fail(f"network m timed {text}")
    assert found.startswith(message)
    assert where == marked


WORLD = """network m
timed
var n: 0..9
var huge: int
clock x
clock y[2]
urgent channel now: rendezvous
channel later: rendezvous
component P {{
  location a initial
  edge a -> a {{ {} }}
}}
"""


@pytest.mark.parametrize(
    ("clauses", "message", "marked"),
    [
        ("clock z < 3", "unknown clock `z`", "z"),
        ("clock x - z < 3", "unknown clock `z`", "z"),
        ("do { reset z := 0 }", "unknown clock `z`", "z"),
        ("clock x[0] < 3", "`x` is not an array", "x[0]"),
        ("clock y < 3", "`y` has 1 dimension(s), and 0 index(es) are given", "y"),
        ("clock y[2] < 3", "index 2 is outside 0..1 of `y`", "2"),
        ("clock y[m] < 3", "unknown name `m`", "m"),
        ("clock x < huge", "this may reach 2147483648, too much for a clock", "huge"),
        ("do { reset x := huge }", "this may reach 2147483648, too much for a clock", "huge"),
        ("do { reset x := 0 - 1 }", "-1 is outside the range 0..268435456 of the clock `x`", "0 - 1"),
        ("when clock(x < 3)", "a clock is not looked at here", "clock(x < 3)"),
        ("when deadlock", "whether there is a deadlock is not asked here", "deadlock"),
        ("do { n := clock(x) }", "what a clock shows is no number to reckon with", "clock(x)"),
        ("clock x < 3 if clock(x < 2)", "a clock is not looked at here", "clock(x < 2)"),
        ("send now clock x < 3", "`now` is urgent, so its edges cannot wait for clocks", "x < 3"),
        ("receive now clock x < 3", "`now` is urgent, so its edges cannot wait for clocks", "x < 3"),
        ("kill P", "a timed network neither starts nor ends components", "edge a -> a { kill P }"),
        ("fair weak", "the runs of a timed network are not fair", "edge a -> a { fair weak }"),
    ],
)
def test_edges(clauses: str, message: str, marked: str) -> None:
    assert fail(WORLD.format(clauses)) == (message, marked)


@pytest.mark.parametrize(
    "clauses",
    [
        "send later clock x - y[n mod 2] < n, x == 3 if n > 2 do { reset y[1] := n; reset x := 0 }",
        "send now do { reset x := n - 5 }",
        "clock x < -268435456, x < 268435456",
    ],
)
def test_edges_that_make_sense(clauses: str) -> None:
    network = read_network(Source("m.net", WORLD.format(clauses)))
    assert network.timed


@pytest.mark.parametrize(
    ("claim", "message"),
    [
        ("always clock(x < 3) or deadlock", None),
        ("inevitable forall i in 0..1: clock(y[i] - x < 3 if n > i)", None),
        ("potentially not deadlock", None),
        ("clock(x < 3) leadsto deadlock", None),
        ("reachable n > 1 maximise clock(y[n mod 2])", None),
        ("deadlockfree", None),
        ("reachable 1 maximise clock(x) + 1", "what a clock shows is no number to reckon with"),
        ("reachable 1 maximise clock(y)", "`y` has 1 dimension(s), and 0 index(es) are given"),
        ("always clock(y[n] < huge)", "this may reach 2147483648, too much for a clock"),
        ("always clock(x < 3 if deadlock)", "whether there is a deadlock is not asked here"),
    ],
)
def test_properties(claim: str, message: str | None) -> None:
    text = WORLD.format("") + f"property p: {claim}"
    if message is None:
        assert read_network(Source("m.net", text)).properties[0].name == "p"
    else:
        assert fail(text)[0] == message


# What no text can say, but a program that builds networks can.

LESS = ClockConstraint(ClockRef("x"), None, "<", Const(1))
TIMED = Network("m", clocks=(Clock("x"),), timed=True)


@pytest.mark.parametrize(
    ("network", "message"),
    [
        (
            replace(TIMED, properties=(Property("p", Always(ClockTest(replace(LESS, op="!=")))),)),  # type: ignore[arg-type]
            "a clock cannot be compared by `!=`",
        ),
        (replace(TIMED, terminal=ClockTest(LESS)), "a clock is not looked at here"),
        (
            replace(TIMED, symmetries=(Symmetry("s", 1, ()),)),
            "a timed network has no symmetries and no bags",
        ),
        (replace(TIMED, bags=(Sorted("n", ()),)), "a timed network has no symmetries and no bags"),
        (Network("m", properties=(Property("p", Refines(TIMED)),)), "a specification is not timed"),
    ],
)
def test_networks_that_programs_build(network: Network, message: str) -> None:
    assert message_of(network) == message


def test_only_updates_call_functions_that_set_clocks() -> None:
    text = """network m timed clock x
        function f(): bool {{ reset x := 0; return 1 }}
        component P {{ location a initial edge a -> a {{ {} }} }}"""
    read_network(Source("m.net", text.format("do { f() }")))
    assert fail(text.format("when f()")) == (
        "`f` assigns variables and cannot be called here",
        "f()",
    )


def test_clock_invariants_are_checked() -> None:
    here = Location("a", clock_invariant=(replace(LESS, bound=Load("n")),))
    there = Edge("a", "a", update=(Reset(ClockRef("x"), Load("n")),))
    network = replace(TIMED, components=(Component("P", (here,), (there,), "a"),))
    assert message_of(network) == "unknown variable `n`"
    verify(replace(network, variables=(Variable("n", BOOL),)))
