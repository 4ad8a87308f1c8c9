"""The errors of `verify` in timed networks, and for timed constructs in untimed ones, with their places."""

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
    """Returns the error's message and the text it marks; requires a hint."""
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
            "`inevitable` applies only to timed networks",
            "property p: inevitable 1",
        ),
        (
            "property p: potentially 1",
            "`potentially` applies only to timed networks",
            "property p: potentially 1",
        ),
        ("property p: always deadlock", "`deadlock` is not allowed here", "deadlock"),
        ("property p: always clock(x < 1)", "clock tests are not allowed here", "clock(x < 1)"),
        ("property p: reachable 1 maximise clock(x)", "unknown clock `x`", "x"),
        (
            "property p: refines { network s timed }",
            "a specification cannot be timed",
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
            "`a` is atomic, which a timed network does not support",
            "atomic location a initial",
        ),
        ("idle component P { location a initial }", "`P` is idle, but a timed network", "P"),
        (
            "channel c: barrier { }",
            "`c` is a barrier, which a timed network cannot have",
            "channel c: barrier { }",
        ),
        (
            "channel c: broadcast component P priority 1 { location a initial }",
            "`P` has a priority, but the network has a broadcast channel",
            "P",
        ),
        ("property p: ltl [] {1}", "timed networks do not support linear", "property p: ltl [] {1}"),
        (
            "property p: deterministic",
            "timed networks do not support determinism",
            "property p: deterministic",
        ),
        (
            "property p: divergencefree",
            "timed networks do not support divergence",
            "property p: divergencefree",
        ),
        (
            "property p: nonterminating",
            "timed networks do not support termination",
            "property p: nonterminating",
        ),
        (
            "property p: transition 1",
            "timed networks do not support transition",
            "property p: transition 1",
        ),
        (
            "property p: refines { network s }",
            "timed networks do not support refinement",
            "property p: refines { network s }",
        ),
        (
            "property p: 1 leadsto 1 under weak-process",
            "timed networks do not support fairness",
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
        ("clock y < 3", "`y` has 1 dimension(s) but 0 index(es)", "y"),
        ("clock y[2] < 3", "index 2 is outside 0..1 of `y`", "2"),
        ("clock y[m] < 3", "unknown name `m`", "m"),
        ("clock x < huge", "this may reach 2147483648, which is too large for a clock", "huge"),
        ("do { reset x := huge }", "this may reach 2147483648, which is too large for a clock", "huge"),
        ("do { reset x := 0 - 1 }", "-1 is outside the range 0..268435456 of the clock `x`", "0 - 1"),
        ("when clock(x < 3)", "clock tests are not allowed here", "clock(x < 3)"),
        ("when deadlock", "`deadlock` is not allowed here", "deadlock"),
        ("do { n := clock(x) }", "clock values cannot be used in arithmetic", "clock(x)"),
        ("clock x < 3 if clock(x < 2)", "clock tests are not allowed here", "clock(x < 2)"),
        ("send now clock x < 3", "`now` is urgent, so its edges cannot have clock guards", "x < 3"),
        ("receive now clock x < 3", "`now` is urgent, so its edges cannot have clock guards", "x < 3"),
        ("kill P", "a timed network cannot start or end components", "edge a -> a { kill P }"),
        ("fair weak", "timed networks do not support fairness", "edge a -> a { fair weak }"),
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
        ("reachable 1 maximise clock(x) + 1", "clock values cannot be used in arithmetic"),
        ("reachable 1 maximise clock(y)", "`y` has 1 dimension(s) but 0 index(es)"),
        ("always clock(y[n] < huge)", "this may reach 2147483648, which is too large for a clock"),
        ("always clock(x < 3 if deadlock)", "`deadlock` is not allowed here"),
    ],
)
def test_properties(claim: str, message: str | None) -> None:
    text = WORLD.format("") + f"property p: {claim}"
    if message is None:
        assert read_network(Source("m.net", text)).properties[0].name == "p"
    else:
        assert fail(text)[0] == message


# Networks that only a program can build, not the text form.

LESS = ClockConstraint(ClockRef("x"), None, "<", Const(1))
TIMED = Network("m", clocks=(Clock("x"),), timed=True)


@pytest.mark.parametrize(
    ("network", "message"),
    [
        (
            replace(TIMED, properties=(Property("p", Always(ClockTest(replace(LESS, op="!=")))),)),  # type: ignore[arg-type]
            "clocks cannot be compared with `!=`",
        ),
        (replace(TIMED, terminal=ClockTest(LESS)), "clock tests are not allowed here"),
        (
            replace(TIMED, symmetries=(Symmetry("s", 1, ()),)),
            "a timed network cannot have symmetries or bags",
        ),
        (replace(TIMED, bags=(Sorted("n", ()),)), "a timed network cannot have symmetries or bags"),
        (Network("m", properties=(Property("p", Refines(TIMED)),)), "a specification cannot be timed"),
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
