"""A mistake planted in any condition of the reduction is found by the comparison with the whole space."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.reduction.spaces import Spoil, difference, full_space, reduced_space
from veristream.ir.expr import Binary, Const, Expr, Load
from veristream.ir.network import Network
from veristream.ir.text.read import read_network
from veristream.search.reduction.relations import Goal, Needs, Relations
from veristream.source import Source
from veristream_testing.states import explore

RACE = """
network race
var x: 0..3 = 0
component A { location a initial location b final edge a -> b { do { x := 1 } } }
component B { location a initial location b final edge a -> b { do { x := 2 } } }
component C { location a initial location b final location c edge a -> b { when x == 1 } edge b -> c {} }
"""
"""The last to write `x` decides whether C can move; the order of the writes must be kept."""

FAILS = """
network fails
var x: 0..3 = 0
var y: 0..1 = 0
component Spin { location a initial location b edge a -> b {} edge b -> a {} }
component Step { location a initial location b edge a -> b { do { y := x + 1 } } }
component Other { location a initial location b edge a -> b { do { x := 1 } } }
"""
"""Step fails if Other comes first; Spin goes around forever, and must not put them off."""

SEEN = """
network seen
var x: 0..3 = 0
var y: 0..3 = 0
component A { location a initial location b final edge a -> b { do { x := 1 } } }
component B { location a initial location b final edge a -> b { do { y := 1 } } }
"""
"""Whether `x` can be 1 while `y` is 0 depends on the order of independent actions."""

GATE = """
network gate
var open: 0..1 = 0
component A { location a initial location b location c edge a -> b {} edge a -> c { when open == 1 } }
component B { location a initial location b edge a -> b { do { open := 1 } } }
"""
"""A can go to c only after B has moved."""


def _network(text: str) -> Network:
    return read_network(Source("test.net", text))


def _is(variable: str, value: int) -> Expr:
    return Binary("==", Load(variable), Const(value))


def _and(left: Expr, right: Expr) -> Expr:
    return Binary("and", left, right)


def no_clashes(relations: Relations) -> Relations:
    """Every two actions commute."""
    own = tuple(1 << action for action in range(len(relations.actions)))
    return replace(relations, clashes=own)


def no_necessary_sets(relations: Relations) -> Relations:
    """Nothing makes a false condition true."""
    return replace(relations, necessary=(0,) * len(relations.necessary))


def no_proviso(relations: Relations) -> Relations:
    """No action fails, so that none must be found that was put off."""
    return replace(relations, may_fault=False)


def nothing_visible(relations: Relations) -> Relations:
    """No action changes a goal."""
    goals = tuple(Goal(goal.needs, 0) for goal in relations.goals)
    return replace(relations, goals=goals)


def goals_need_nothing(relations: Relations) -> Relations:
    """No action is needed for a goal."""
    necessary = (*relations.necessary, 0)
    nothing = Needs((), len(relations.necessary))
    goals = tuple(Goal(nothing, goal.visible) for goal in relations.goals)
    return replace(relations, necessary=necessary, goals=goals)


MISTAKES: list[tuple[str, str, tuple[Expr, ...], Spoil, str]] = [
    ("a dependency", RACE, (), no_clashes, "states without steps"),
    ("a necessary set", GATE, (), no_necessary_sets, "states without steps"),
    ("the proviso", FAILS, (), no_proviso, "faults"),
    ("visibility", SEEN, (_and(_is("x", 0), _is("y", 1)), _is("x", 1)), nothing_visible, "goals"),
    ("what a goal needs", SEEN, (_and(_is("x", 0), _is("y", 1)), _is("x", 1)), goals_need_nothing, "goals"),
]


@pytest.mark.parametrize(
    ("text", "goals", "spoil", "expected"), [one[1:] for one in MISTAKES], ids=[one[0] for one in MISTAKES]
)
def test_the_mistake_is_found(text: str, goals: tuple[Expr, ...], spoil: Spoil, expected: str) -> None:
    network = _network(text)
    full = full_space(network, explore(network, 1000), goals)
    assert difference(full, reduced_space(network, goals)) is None
    assert difference(full, reduced_space(network, goals, spoil)) == expected
