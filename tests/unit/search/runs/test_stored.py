"""Several properties of runs of one network: they store its steps once, and find what each finds alone."""

from __future__ import annotations

from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.ltl.oracle import breaks
from tests.ltl.test_random import compare, dense_networks, looks, patient, properties
from veristream.ir.network import Network
from veristream.ir.property import Property
from veristream.ir.text.read import read_network
from veristream.search.engine import check
from veristream.search.limits import Limits, silent
from veristream.search.runs import liveness, paired
from veristream.search.runs.liveness import check_liveness
from veristream.search.runs.pairs import POSSIBLE, STEPS
from veristream.search.runs.stored import Sharing
from veristream.source import Source
from veristream.verdict import Result, Unknown, Violated, word

COUNTERS = """
network counters
const TOP = 4
var n[3]: 0..TOP
component Counter(i: 0..2) {
  location here initial
  edge here -> here { action up(i) when n[i] < TOP do { n[i] := n[i] + 1 } }
  edge here -> here { action reset(i) when n[i] == TOP do { n[i] := 0 } }
}
component Bell { location here initial edge here -> here { action ring when n[0] == n[1] and n[1] == 2 } }
property rises: ltl [] ({n[0] == 1} -> ({n[0] <= 1} U {n[0] == 2} || [] {n[0] <= 1}))
property resets: ltl [] (reset(1) -> X {n[1] == 0})
property rings: ltl [] (ring -> {n[0] == 2})
property never_rings: ltl [] !ring
property comes_back: ltl [] <> {n[2] == 0}
property ups: ltl ([] <> up(0)) -> [] <> reset(0)
"""
"""125 states, each with the steps of three counters and in 5 of them one of the bell."""

VERDICTS = {
    "rises": "holds",
    "resets": "holds",
    "rings": "holds",
    "never_rings": "violated",
    "comes_back": "violated",
    "ups": "holds",
}


@pytest.fixture(autouse=True)
def from_the_first_state(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps are stored from the first state on, where they are stored at all."""
    monkeypatch.setattr(liveness, "FIRST_LOOK", 1)


def read(text: str) -> Network:
    return read_network(Source("test.net", text))


def check_sharing(network: Network, limits: Limits) -> tuple[dict[str, Result], Sharing]:
    sharing = Sharing(network.properties)
    given_limits = (limits, silent, sharing)
    return {one.name: check_liveness(network, one, *given_limits) for one in network.properties}, sharing


def test_properties_together_find_what_each_finds_alone() -> None:
    network = read(COUNTERS)
    together, _ = check_sharing(network, Limits(workers=1))
    assert {name: word(result.verdict) for name, result in together.items()} == VERDICTS
    for one in network.properties:
        (alone,) = check(network, [one], Limits(workers=1))
        shared = together[one.name]
        assert word(shared.verdict) == word(alone.verdict)
        if isinstance(shared.verdict, Violated):
            assert shared.verdict.trace is not None and breaks(network, one, shared.verdict.trace)
        else:
            efforts = [(e.states, e.transitions, e.depth) for e in (shared.effort, alone.effort)]
            assert efforts[0] == efforts[1]


def test_every_step_is_computed_once() -> None:
    _, sharing = check_sharing(read(COUNTERS), Limits(workers=1))
    assert sharing.stored is not None
    assert sharing.stored.system.state_count == 125
    assert sharing.stored.steps.tally[POSSIBLE] == sharing.stored.steps.tally[STEPS] == 3 * 125 + 5


def test_a_proposition_at_a_wrong_place_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paired, "_moved", lambda letter, _: letter)
    with pytest.raises(AssertionError, match="no such step"):
        check_sharing(read(COUNTERS), Limits(workers=1))


def test_one_property_stores_nothing() -> None:
    network = read(COUNTERS)
    sharing = Sharing(network.properties[:1])
    check_liveness(network, network.properties[0], Limits(workers=1), silent, sharing)
    assert sharing.stored is None


def test_several_workers_store_nothing() -> None:
    _, sharing = check_sharing(read(COUNTERS), Limits(workers=2))
    assert sharing.stored is None


def test_properties_under_fairness_search_by_themselves() -> None:
    fair = COUNTERS.replace("[] <> {n[2] == 0}", "[] <> {n[2] == 0} under strong-process")
    found, sharing = check_sharing(read(fair), Limits(workers=1))
    assert {name: word(one.verdict) for name, one in found.items()} == VERDICTS | {"comes_back": "holds"}
    assert sharing.stored is not None


def test_an_action_whose_arguments_the_step_does_not_show() -> None:
    text = """
    network chosen
    var x: 0..1
    component A { location a initial edge a -> a { select i: 0..1 action pick(i) do { x := 1 - x } } }
    property one: ltl [] !pick(1)
    property two: ltl <> pick(0) || [] !pick(0)
    property three: ltl [] <> {x == 0}
    """
    found, sharing = check_sharing(read(text), Limits(workers=1))
    assert [word(found[name].verdict) for name in ("one", "two", "three")] == ["violated", "holds", "holds"]
    assert sharing.stored is None, "two of the three cannot share, and a third has nobody to share with"


def test_after_a_failure_each_property_searches_by_itself() -> None:
    failing = COUNTERS.replace(
        "{ action ring when n[0]", "{ action ring do { n[2] := TOP + n[0] } when n[0]"
    )
    network = read(failing)
    together, sharing = check_sharing(network, Limits(workers=1))
    assert sharing.stored is None and sharing.failed
    for one in network.properties:
        (alone,) = check(network, [one], Limits(workers=1))
        assert together[one.name].verdict == alone.verdict
    assert any(isinstance(result.verdict, Unknown) for result in together.values())


def test_limits_hold() -> None:
    found, _ = check_sharing(read(COUNTERS), Limits(workers=1, states_max=20))
    assert all(
        "20 states" in one.verdict.reason for one in found.values() if isinstance(one.verdict, Unknown)
    )
    assert isinstance(found["rises"].verdict, Unknown)
    found, sharing = check_sharing(read(COUNTERS), Limits(workers=1, memory_max_mib=0))
    assert "memory" in found["rises"].verdict.reason and sharing.stored is None


@settings(patient, max_examples=80)
@given(data=st.data())
def test_properties_that_share_steps_agree_with_the_oracle(data: st.DataObject) -> None:
    network = data.draw(dense_networks())
    others = [data.draw(properties(network)) for _ in range(2)]

    def search(network: Network, property_: Property) -> Result:
        sharing = Sharing([*others, property_])
        limits = Limits(workers=1)
        for other in others:
            check_liveness(network, other, limits, silent, sharing)
        return check_liveness(network, property_, limits, silent, sharing)

    with mock.patch.object(liveness, "FIRST_LOOK", 1):
        compare(network, data.draw(properties(network)), data.draw(looks), search)
