"""The reader of timed networks: clocks, constraints, and the example of the reference page."""

from __future__ import annotations

import re
from pathlib import Path

from veristream.ir.expr import Binary, ClockConstraint, ClockRef, ClockTest, Const, Load, Reset
from veristream.ir.network import Clock
from veristream.ir.property import Always
from veristream.ir.text.read import read_network
from veristream.source import Source
from veristream_testing.timed import explore_timed


def test_clock_constraints() -> None:
    network = read_network(
        Source(
            "m.net",
            """network m
        timed
        clock x clock y clock P(1).z[2]
        var n: 0..3
        component P(i: 1..1) priority i + 1 {
          location l initial clock x <= 5
          edge l -> l {
            clock x - y < n + 1, x >= -2 if n > 1, y == n, P(i).z[n - i] > 0 do { reset P(1).z[1] := n }
          }
        }
        property p: always forall k in 1..1: clock(P(k).z[0] - x < 3)""",
        )
    )
    location, edge = network.components[0].locations[0], network.components[0].edges[0]
    x, y = ClockRef("x"), ClockRef("y")
    element = ClockRef("P(1).z", (Binary("-", Load("n"), Const(1)),))
    assert network.timed and network.components[0].priority == 2
    assert network.clocks == (Clock("x"), Clock("y"), Clock("P(1).z", (2,)))
    assert location.clock_invariant == (ClockConstraint(x, None, "<=", Const(5)),)
    assert edge.clock_guard == (
        ClockConstraint(x, y, "<", Binary("+", Load("n"), Const(1))),
        ClockConstraint(x, None, ">=", Const(-2), Binary(">", Load("n"), Const(1))),
        ClockConstraint(y, None, "==", Load("n")),
        ClockConstraint(element, None, ">", Const(0)),
    )
    assert edge.update == (Reset(ClockRef("P(1).z", (Const(1),)), Load("n")),)
    test = ClockTest(ClockConstraint(ClockRef("P(1).z", (Const(0),)), x, "<", Const(3)))
    assert network.properties[0].claim == Always(Binary("and", Const(1), test))


def test_the_reference_of_timed_networks_is_read() -> None:
    text = (Path(__file__).parents[4] / "docs/network.md").read_text(encoding="utf-8")
    (snippet,) = re.findall(r"^```timed\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    network = read_network(Source("gate.net", snippet))
    assert [clock.name for clock in network.clocks] == ["x", "y", "Train.z"]
    assert [property_.name for property_ in network.properties] == [
        "soon",
        "waits",
        "answered",
        "close",
        "apart",
        "longest",
        "no_deadlock",
    ]
    assert explore_timed(network, 5000).decide(network.properties[3].claim)
