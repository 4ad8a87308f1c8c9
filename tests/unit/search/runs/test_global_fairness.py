"""Strong global fairness: every step of a state visited infinitely often is taken infinitely often."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.ltl.oracle import breaks, oracle_verdict
from tests.ltl.test_random import compare, dense_networks, looks, properties
from veristream.cli.check import FairnessOption
from veristream.ir.network import Network
from veristream.ir.property import Fairness, Property
from veristream.ir.text.read import read_network
from veristream.search.engine import check
from veristream.search.limits import Limits
from veristream.search.runs import found, lasso, product
from veristream.source import Source
from veristream.verdict import Holds, Violated

# Two cycles, through b or through c. Both are one edge, so only single steps distinguish them.
CHOICE = """
network choice
var way: 0..1
component P {
  location here initial
  location there
  edge here -> there { select k: 0..1  action choose  do { way := k } }
  edge there -> here { action back }
}
"""

# The start leads to a component with an exit, to one without, and to an end.
PARTS = """
network parts
component P {
  location start initial
  location first
  location second
  location last
  location loop
  edge start -> first { action in }
  edge first -> second { action on }
  edge second -> first { action off }
  edge second -> start { action out }
  edge first -> last { action end }
  edge start -> loop { action fall }
  edge loop -> loop { action spin }
}
"""

SAME = """
network same
component P { location l initial  edge l -> l { select k: 0..2  action say(k) } }
"""


def read(text: str, claim: str, fairness: str = "strong-global") -> tuple[Network, Property]:
    network = read_network(Source("model.net", f"{text}\nproperty p: {claim} under {fairness}\n"))
    return network, network.properties[0]


@pytest.mark.parametrize(
    ("text", "claim", "holds", "strong_action"),
    [
        (CHOICE, "ltl [] <> {way == 1 && P@there}", True, False),
        (CHOICE, "ltl [] <> {way == 0 && P@there} && [] <> {way == 1 && P@there}", True, False),
        (CHOICE, "ltl <> [] {way == 0}", False, False),
        (PARTS, "ltl <> [] {P@last || P@loop}", True, True),
        (PARTS, "ltl <> {P@last}", False, False),
        (PARTS, "ltl [] <> in", False, False),
        (PARTS, "P@first leadsto P@last", False, False),
        (PARTS, "P@loop leadsto P@start", False, False),
        (SAME, "ltl [] <> say(2)", True, False),
        (SAME, "ltl <> (say(0) && X say(1) && X X say(2))", False, False),
        (SAME, "ltl <> [] say(0)", False, False),
    ],
)
def test_small(text: str, claim: str, holds: bool, strong_action: bool) -> None:
    network, property_ = read(text, claim)
    assert oracle_verdict(network, property_) == holds
    (result,) = check(network, [property_], Limits())
    assert isinstance(result.verdict, Holds if holds else Violated)
    if isinstance(result.verdict, Violated):
        assert result.verdict.trace is not None
        assert breaks(network, property_, result.verdict.trace)
    (other,) = check(*_with(network, replace(property_, fairness=Fairness.STRONG_ACTION)))
    assert isinstance(other.verdict, Holds) == strong_action


def _with(network: Network, property_: Property) -> tuple[Network, list[Property], Limits]:
    return network, [property_], Limits()


def test_the_command_line_knows_every_fairness() -> None:
    assert get_args(FairnessOption)[0] == Fairness | None


def test_every_single_step_is_shown() -> None:
    """Steps that differ only in their labels count as different steps."""
    network, property_ = read(SAME, "ltl <> [] say(0)")
    (result,) = check(network, [property_], Limits())
    assert isinstance(result.verdict, Violated) and result.verdict.trace is not None
    loop = result.verdict.trace.steps[(result.verdict.trace.loop or 0) + 1 :]
    assert {step.action for step in loop} == {"say(0)", "say(1)", "say(2)"}


def test_an_edge_mark_asks_nothing_more() -> None:
    marked = PARTS.replace("action off }", "action off fair strong }")
    network, property_ = read(marked, "ltl <> [] {P@last || P@loop}")
    (result,) = check(network, [property_], Limits())
    assert isinstance(result.verdict, Holds)


def test_a_large_component_is_not_shown_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lasso, "STEPS_SHOWN", 3)
    monkeypatch.setattr(found, "STEPS_SHOWN", 3)
    monkeypatch.setattr(product, "STEPS_SHOWN", 3)
    network, property_ = read(CHOICE, "ltl <> [] {way == 0}")
    (result,) = check(network, [property_], Limits())
    assert isinstance(result.verdict, Violated) and result.verdict.trace is not None
    assert "a fair run also takes infinitely often all 6 steps" in result.verdict.reason


def test_a_ring_of_many_states() -> None:
    text = """
    network walk
    var n: 0..4999
    component P {
      location l initial
      edge l -> l { action up do { n := (n + 1) mod 5000 } }
      edge l -> l { action down do { n := (n + 4999) mod 5000 } }
    }
    """
    network, property_ = read(text, "ltl [] <> {n == 2500}")
    assert isinstance(check(network, [property_], Limits())[0].verdict, Holds)
    (unfair,) = check(*_with(network, replace(property_, fairness=Fairness.STRONG_ACTION)))
    assert isinstance(unfair.verdict, Violated)
    network, property_ = read(text, "ltl <> [] {n < 4000}")
    (result,) = check(network, [property_], Limits())
    assert isinstance(result.verdict, Violated) and "all 10000 steps" in result.verdict.reason


@settings(deadline=None, max_examples=40, suppress_health_check=list(HealthCheck), derandomize=True)
@given(st.data())
def test_search_and_oracle_agree(data: st.DataObject) -> None:
    network = data.draw(dense_networks())
    property_ = replace(data.draw(properties(network)), fairness=Fairness.STRONG_GLOBAL)
    compare(network, property_, data.draw(looks))
