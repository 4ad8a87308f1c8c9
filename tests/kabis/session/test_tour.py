"""The tour: what counts as going as it should, and what it says of it."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.kabis.audit.test_page import make_report
from tests.unit.replay.test_course import PLAN, Scripted
from tests.unit.replay.test_plan import RUN
from veristream.errors import ModelError
from veristream.expected import Expectation, KnownModel, Reproduction, compare
from veristream.kabis.audit.report import Accused
from veristream.kabis.cluster.demonstration import LIARS, Demonstration
from veristream.known import find_models
from veristream.replay.course import execute
from veristream.replay.listed import Compared, find_replays
from veristream.replay.outcome import Replayed, conclude
from veristream.replay.trace import Run
from veristream.tour import PROVED, REPLAYED, Tour, prove, render_tour, summarise, take_tour
from veristream.verdict import Effort, Holds, Result, Step, Trace, Violated

RECEIPT = SimpleNamespace(topic="orders", partition=1, sequence=7, height=3, validators=("validator-1",))
RAN = Demonstration(
    7, 400, 400, ("storage-1: 3 bad answers",), ("validator-2 in block 2",), RECEIPT, (), 2.0
)  # type: ignore[arg-type]
BOTH = tuple(Accused("altered", "storage", name, "orders", 0, "producer", 1) for name in LIARS)
WRONG = """
paper = "none"
[[model]]
file = "wrong.net"
[[model.property]]
name = "deadlockfree"
verdict = "holds"
source = "none"
"""
EFFORT = Effort(10, 20, 3, 0.1, 1.0)


def proved(expected: str = "holds") -> tuple[Reproduction, ...]:
    expectation = Expectation("fine", expected, "table 1")  # type: ignore[arg-type]
    model = KnownModel("queue", "a paper", Path("queue.net"), {}, (expectation,))
    return (Reproduction(model, (compare(expectation, Result("fine", "always", Holds(), EFFORT)),)),)


GOOD = Tour(proved(), RAN, replace(make_report(), accused=BOTH))


def test_it_goes_as_told() -> None:
    assert GOOD.is_as_told
    told = dict(summarise(GOOD))
    assert told == {
        "proved": "1 of 1 verdict on 1 model as expected; 0 violations, 0 with a trace",
        "ran": "400 events acknowledged, 400 delivered, none lost, duplicated, altered or out of order",
        "lied": "storage-1 and validator-2; caught on the ledger: validator-2 in block 2",
        "audited": "40 copies of 30 events, 60 signatures; accused: storage-1, validator-2",
    }
    page = render_tour(GOOD)
    assert page.count("<h2>") == 3
    assert (
        re.findall('href="#(.+?)"', page) == re.findall('id="(.+?)"', page) == ["proved", "run", "audited"]
    )
    assert "orders-1, sequence 7, block 3, by validator-1" in page


def replayed(*differences: str) -> Compared:
    """A replay that was taken to its end."""
    (one,) = find_replays(find_models(), [REPLAYED])
    course = execute(PLAN, Scripted())
    run = Run(one.model, "no_hanging_transaction", RUN, one.constants)
    return Compared(one, run, Replayed(PLAN, None, conclude(course, None), course), differences)


def test_what_was_replayed_is_told_too() -> None:
    tour = replace(GOOD, replayed=replayed())
    assert tour.is_as_told
    assert dict(summarise(tour))["replayed"] == (
        "no_hanging_transaction on a real Kafka: reproduced, the broker took all steps, and so it is"
        " where the run leads"
    )
    assert 'id="replay-hanging-v0"' in render_tour(tour)


@pytest.mark.parametrize(
    "tour",
    [
        replace(GOOD, proved=proved("violated")),
        replace(GOOD, ran=replace(RAN, problems=("an event was delivered twice",))),
        replace(GOOD, audited=replace(GOOD.audited, accused=BOTH[:1])),
        replace(
            GOOD, audited=replace(GOOD.audited, accused=(*BOTH, replace(BOTH[0], accused="storage-2")))
        ),
        replace(GOOD, replayed=replayed("not reproduced, not reproduced")),
    ],
    ids=["another verdict", "an event twice", "a liar not named", "an honest party named", "no replay"],
)
def test_it_does_not(tour: Tour) -> None:
    assert not tour.is_as_told


def test_violations_are_counted_and_those_with_a_run() -> None:
    trace = Trace((Step(None, None, {}), Step("go", "a", {})))
    found = [Violated("", trace), Violated("no reachable state satisfies it")]
    expectation = Expectation("fine", "violated", "table 1")
    outcomes = tuple(compare(expectation, Result("fine", "always", one, EFFORT)) for one in found)
    tour = replace(GOOD, proved=(replace(GOOD.proved[0], outcomes=outcomes),))
    told = "2 of 2 verdicts on 1 model as expected; 2 violations, 1 with a trace"
    assert dict(summarise(tour))["proved"] == told


def test_models_are_proved_in_processes_and_told_when_they_are() -> None:
    told: list[str] = []
    papers = (("kabis_tendermint_unlocked",), ("kabis_validate_printed",))
    proved = prove(papers, find_models(), told.append)
    assert [one.model.name for one in proved] == ["kabis_tendermint_unlocked", "kabis_validate_printed"]
    assert sorted(told) == [
        "  kabis_tendermint_unlocked: 2 of 2 verdicts as expected",
        "  kabis_validate_printed: 5 of 5 verdicts as expected",
    ]


def test_a_name_that_no_model_has_is_told_before_any_work() -> None:
    with pytest.raises(ModelError, match="no known model is called nobody"):
        prove((("nobody",),), find_models(), lambda _: pytest.fail("nothing was proved"))


def test_what_a_process_raises_is_told_whole(tmp_path: Path) -> None:
    folder = tmp_path / "wrong"
    folder.mkdir()
    (folder / "wrong.net").write_text("network wrong\nnonsense\n")
    (folder / "expected.toml").write_text(WRONG)
    with pytest.raises(ModelError) as raised:
        prove((("wrong",),), tmp_path, lambda _: None)
    assert "wrong.net:2" in raised.value.render()


@pytest.mark.spark
def test_the_whole_tour() -> None:
    told: list[str] = []
    tour = take_tour(PROVED[-1:], events=800, tell=told.append)
    assert tour.is_as_told
    assert tour.ran.delivered == tour.audited.checked.events == 800
    (models, *proved, run, audit) = told[:7]
    assert (models, run) == ("prove: checking models from papers", "run: starting a cluster with two liars")
    assert len(proved) == len(PROVED[-1])
    assert audit == "audit: checking every copy of every event on Spark"
