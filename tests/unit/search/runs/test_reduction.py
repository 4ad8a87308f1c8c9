"""Where the reduction of runs applies, and when the full search decides after all."""

from __future__ import annotations

from dataclasses import replace
from unittest import mock

import pytest

from veristream.ir.network import FairnessMark, Network
from veristream.ir.property import Fairness
from veristream.ir.text.read import read_network
from veristream.search.engine import check
from veristream.search.limits import Limits
from veristream.search.runs import liveness
from veristream.search.runs.product import Product
from veristream.search.runs.reduction import allows_reduction
from veristream.source import Source
from veristream.verdict import Result, Unknown, Violated, word

FREE = """
network free
component A { location a initial location b edge a -> b {} edge b -> a {} }
component B { location a initial location b location c edge a -> b {} edge b -> c {} }
component C { location a initial location b edge a -> b { action go } }
"""


def network(property_: str, text: str = FREE) -> Network:
    return read_network(Source("test.net", f"{text}\nproperty p: {property_}\n"))


def check_now(made: Network, limits: Limits) -> Result:
    """The result; the reduced search begins after the first state."""
    with mock.patch.object(liveness, "FIRST_LOOK", 1):
        (result,) = check(made, made.properties, limits)
    return result


def _allowed(made: Network) -> bool:
    return allows_reduction(made, Product(made, made.properties[0]))


@pytest.mark.parametrize(
    ("property_", "allowed"),
    [
        ("ltl <> {C@b}", True),
        ("ltl [] <> go", True),
        ("C@a leadsto C@b", True),
        ("ltl <> X {C@b} || X go", False),
        ("ltl {C@a} U go", False),
        ("divergencefree", False),
        ("ltl <> {C@b} under weak-process", False),
    ],
)
def test_which_properties_are_reduced(property_: str, allowed: bool) -> None:
    assert _allowed(network(property_)) == allowed


def test_marked_edges_are_fairness_too() -> None:
    made = network("ltl <> {C@b}")
    first, *others = made.components
    edges = (replace(first.edges[0], fairness=FairnessMark.WEAK), *first.edges[1:])
    marked = replace(made, components=(replace(first, edges=edges), *others))
    assert made.properties[0].fairness is Fairness.NONE
    assert _allowed(made) and not _allowed(marked)


def test_priorities_are_not_reduced() -> None:
    assert not _allowed(
        network("ltl <> {C@b}", FREE.replace("location b edge", "committed location b edge"))
    )


def test_the_reduced_search_leaves_nodes_out() -> None:
    made = network("ltl [] !{C@b and A@b and C@a}")
    result, full = check_now(made, Limits(reduction=True)), check_now(made, Limits())
    assert word(result.verdict) == word(full.verdict) == "holds"
    assert result.effort.reduced and not full.effort.reduced
    assert (result.effort.states, full.effort.states) == (6, 12)


def test_a_lasso_that_is_to_be_short_comes_from_the_full_search() -> None:
    made = network("ltl [] !{C@b and B@c}")
    reduced = check_now(made, Limits(reduction=True))
    short = check_now(made, Limits(reduction=True, shortest=True))
    assert isinstance(reduced.verdict, Violated) and reduced.effort.reduced
    assert isinstance(short.verdict, Violated) and not short.effort.reduced


def test_after_a_failure_the_full_search_decides() -> None:
    text = FREE.replace("network free", "network free\nvar x: 0..1 = 0").replace(
        "{ action go }", "{ do { x := 2 - x } }"
    )
    made = network("ltl [] {B@a or B@b or B@c}", text)
    reduced, full = check_now(made, Limits(reduction=True)), check_now(made, Limits())
    assert isinstance(reduced.verdict, Unknown) and reduced.verdict.fault is not None
    assert reduced.verdict == full.verdict
    assert not reduced.effort.reduced


def test_limits_hold_in_the_reduced_search() -> None:
    made = network("ltl [] !{C@b and A@b and C@a}")
    result = check_now(made, Limits(reduction=True, states_max=3))
    assert isinstance(result.verdict, Unknown) and "3 states" in result.verdict.reason
    result = check_now(made, Limits(reduction=True, memory_max_mib=0))
    assert isinstance(result.verdict, Unknown) and "memory" in result.verdict.reason
