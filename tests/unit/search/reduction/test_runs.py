"""Which actions a property of runs sees, and which may be on a cycle of states."""

from __future__ import annotations

import pytest

from veristream.ir.actions import list_actions
from veristream.ir.expr import AtLocation
from veristream.ir.network import Network
from veristream.ir.property import Occurs, Silent
from veristream.ir.text.read import read_network
from veristream.search.reduction.cycles import returning_actions
from veristream.search.reduction.relations import relate_runs
from veristream.source import Source


def network(text: str) -> Network:
    return read_network(Source("test.net", "network test\n" + text))


LABELS = """
var x: 0..3 = 0
component A { location a initial location b edge a -> b { action get(0) } edge b -> a { action get(x) } }
component B { location a initial location b edge a -> b { action put } edge b -> a { tau } }
"""


@pytest.mark.parametrize(
    ("proposition", "visible"),
    [
        (Occurs("get"), 0b0011),
        (Occurs("get", (None,)), 0b0011),
        (Occurs("get", (0,)), 0b0011),
        (Occurs("get", (1,)), 0b0010),  # `x` may be 1
        (Occurs("get", ()), 0),
        (Occurs("put", ()), 0b0100),
        (Silent(), 0b1000),
    ],
)
def test_actions_that_a_proposition_sees(proposition: Occurs | Silent, visible: int) -> None:
    found = relate_runs(network(LABELS), (), (proposition,))
    assert found.goals[0].visible == found.watched == visible


def test_conditions_see_what_writes_to_what_they_read() -> None:
    found = relate_runs(network(LABELS), (AtLocation("B", "a"),), ())
    assert found.goals[0].visible == 0b1100


def test_what_may_fail_is_watched_but_not_visible() -> None:
    text = "var x: 0..3 = 0\ncomponent A { location a initial edge a -> a { do { x := x + 1 } } }"
    found = relate_runs(network(text), (), ())
    assert (found.goals[0].visible, found.watched) == (0, 1)


def test_a_component_that_cannot_return_keeps_its_action_off_cycles() -> None:
    text = """
    channel c: rendezvous
    component A { location a initial location b edge a -> b {} edge b -> a { send c } edge b -> b {} }
    component B { location a initial location b edge a -> b { receive c } edge b -> b { receive c } }
    """
    made = network(text)
    names = [(action.leader, action.edge, action.follower_edge) for action in list_actions(made)]
    assert names == [(0, 0, -1), (0, 1, 0), (0, 1, 1), (0, 2, -1)]
    assert returning_actions(made, list_actions(made)) == 0b1101


def test_a_component_that_is_started_again_can_return() -> None:
    text = """
    component A { location a initial edge a -> a { fork B } }
    idle component B { location a initial location b final edge a -> b {} }
    """
    made = network(text)
    assert returning_actions(made, list_actions(made)) == 0b11
