"""A mistake planted in any condition of the reduction of runs changes a verdict, and is found so."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.reduction.runs import Spoil, check_in_full, check_reduced
from tests.reduction.test_mistakes import no_clashes, no_necessary_sets
from veristream.ir.network import Network
from veristream.ir.text.read import read_network
from veristream.search.reduction.relations import Goal, Relations
from veristream.source import Source
from veristream.verdict import word

RACE = """
network race
var x: 0..3 = 0
component A { location a initial location b edge a -> b { do { x := 1 } } }
component B { location a initial location b edge a -> b { do { x := 2 } } }
component C { location a initial location b edge a -> b { when x == 1 } }
property p: ltl [] !{C@b}
"""
"""C can move while the last to write `x` was A: in the order A, C, B it does."""

GATE = """
network gate
var open: 0..1 = 0
var y: 0..1 = 0
component A { location a initial location b edge a -> b {} edge a -> b { when open == 1 do { y := 1 } } }
component B { location a initial location b edge a -> b { do { open := 1 } } }
property p: ltl [] {y == 0}
"""
"""A can write `y` only after B has moved."""

SEEN = """
network seen
component A { location a initial location b edge a -> b {} }
component B { location a initial location b edge a -> b {} }
property p: ltl [] ({B@b} -> {A@b})
"""
"""B moves before A in one of the two orders of independent actions."""

HEARD = """
network heard
component A { location a initial location b edge a -> b { action one } }
component B { location a initial location b edge a -> b { action two } }
property p: ltl !(!one U two)
"""
"""The same for actions: `two` occurs before `one`."""

SPIN = """
network spin
component Spin { location a initial location b edge a -> b {} edge b -> a {} }
component Step { location a initial location b edge a -> b {} }
property p: ltl [] !{Step@b}
"""
"""Spin goes around forever, and must not put Step off."""


FAILS = """
network fails
var x: 0..3 = 0
var y: 0..1 = 0
component Spin { location a initial location b edge a -> b {} edge b -> a {} }
component Step { location a initial location b edge a -> b { do { y := x + 1 } } }
component Other { location a initial location b edge a -> b { do { x := 1 } } }
component Still { location a initial }
property p: ltl [] {Still@a}
"""
"""Step fails if Other comes first; Spin must not put them off, although the property sees none of them."""


STOPS = """
network stops
var x: 0..1 = 0
component Spin { location a initial location b edge a -> b {} edge b -> a {} }
component C { location a initial location b edge a -> b {} }
component D { location a initial location b edge a -> b {} edge b -> a { when C@b do { x := 2 - x } } }
property p: ltl <> {C@b} || [] {C@a}
"""
"""D fails after C has moved. The automaton has no move then, and D may not have come so far yet."""


def network_of(text: str) -> Network:
    return read_network(Source("test.net", text))


def nothing_visible(relations: Relations) -> Relations:
    """The property sees no action."""
    return replace(relations, goals=(Goal(relations.goals[0].needs, 0),))


def no_proviso(relations: Relations) -> Relations:
    """No action is on a cycle of states."""
    return replace(relations, returning=0)


def nothing_watched(relations: Relations) -> Relations:
    """A cycle of states may put off every action."""
    return replace(relations, watched=0)


def nothing_fails(relations: Relations) -> Relations:
    """No action may fail, so that states need not be expanded where the automaton has stopped."""
    return replace(relations, may_fault=False)


MISTAKES: list[tuple[str, str, Spoil]] = [
    ("a dependency", RACE, no_clashes),
    ("a necessary set", GATE, no_necessary_sets),
    ("the proviso", SPIN, no_proviso),
    ("what a cycle may not put off", SPIN, nothing_watched),
    ("failures that a cycle may not put off", FAILS, nothing_watched),
    ("failures where the automaton stops", STOPS, nothing_fails),
    ("visibility to conditions", SEEN, nothing_visible),
    ("visibility to actions", HEARD, nothing_visible),
]


@pytest.mark.parametrize(("text", "spoil"), [one[1:] for one in MISTAKES], ids=[one[0] for one in MISTAKES])
def test_the_mistake_is_found(text: str, spoil: Spoil) -> None:
    network = network_of(text)
    (property_,) = network.properties
    full = word(check_in_full(network, property_).verdict)
    assert full == ("unknown" if text in (FAILS, STOPS) else "violated")
    assert word(check_reduced(network, property_).verdict) == full
    assert word(check_reduced(network, property_, spoil).verdict) == "holds"


CHOICES = """
network choices
component A { location a initial location b edge a -> b {} edge b -> a {} }
component B { location a initial location b edge a -> b {} edge b -> a {} }
component C { location a initial location b edge a -> b {} }
property stays: ltl [] {C@a}
property moves: ltl <> {C@b}
property both: ltl [] <> {C@a} || [] <> {C@b}
"""
"""The shape of Siegel's counterexamples ("What's wrong with on-the-fly partial order reduction", CAV 2019):
two independent actions that the property does not see, each of which may stand for both, and a third that
it sees. If nodes of the product with the same state may choose differently, then every cycle of the product
may have a node with all steps, and yet C never moves together with the automaton."""


@pytest.mark.parametrize(
    ("name", "expected"), [("stays", "violated"), ("moves", "violated"), ("both", "holds")]
)
def test_nodes_of_one_state_have_the_same_steps(name: str, expected: str) -> None:
    network = network_of(CHOICES)
    (property_,) = (one for one in network.properties if one.name == name)
    assert word(check_in_full(network, property_).verdict) == expected
    assert word(check_reduced(network, property_).verdict) == expected
