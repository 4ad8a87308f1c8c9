"""The tour: what counts as going as it should, and what it says of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.kabis.audit.test_page import make_report
from veristream.expected import Expectation, KnownModel, Reproduction, compare
from veristream.kabis.audit.report import Accused
from veristream.kabis.demonstration import LIARS, Demonstration
from veristream.tour import PROVED, Tour, render_tour, summarise, take_tour
from veristream.verdict import Effort, Holds, Result

RECEIPT = SimpleNamespace(topic="orders", partition=1, sequence=7, height=3, validators=("validator-1",))
RAN = Demonstration(
    7, 400, 400, ("storage-1: 3 bad answers",), ("validator-2 in block 2",), RECEIPT, (), 2.0
)  # type: ignore[arg-type]
BOTH = tuple(Accused("altered", "storage", name, "orders", 0, "producer", 1) for name in LIARS)
EFFORT = Effort(10, 20, 3, 0.1, 1.0)


def proved(expected: str = "holds") -> tuple[Reproduction, ...]:
    expectation = Expectation("fine", expected, "table 1")  # type: ignore[arg-type]
    model = KnownModel("queue", "a paper", Path("queue.net"), {}, (expectation,))
    return (Reproduction(model, (compare(expectation, Result("fine", "always", Holds(), EFFORT)),)),)


GOOD = Tour(proved(), RAN, replace(make_report(), accused=BOTH))


def test_it_goes_as_told() -> None:
    assert GOOD.is_as_told
    told = "\n".join(summarise(GOOD))
    assert "1 of 1 verdicts on 1 models as expected" in told
    assert "400 events acknowledged, 400 delivered, none lost" in told
    assert "accused: storage-1, validator-2" in told
    page = render_tour(GOOD)
    assert page.count("<h2>") == 3
    assert "orders-1, sequence 7, block 3, by validator-1" in page


@pytest.mark.parametrize(
    "tour",
    [
        replace(GOOD, proved=proved("violated")),
        replace(GOOD, ran=replace(RAN, problems=("an event was delivered twice",))),
        replace(GOOD, audited=replace(GOOD.audited, accused=BOTH[:1])),
        replace(
            GOOD, audited=replace(GOOD.audited, accused=(*BOTH, replace(BOTH[0], accused="storage-2")))
        ),
    ],
    ids=["another verdict", "an event twice", "a liar not named", "an honest party named"],
)
def test_it_does_not(tour: Tour) -> None:
    assert not tour.is_as_told


@pytest.mark.spark
def test_the_whole_tour() -> None:
    told: list[str] = []
    tour = take_tour(PROVED[-1:], events=800, tell=told.append)
    assert tour.is_as_told
    assert tour.ran.delivered == tour.audited.checked.events == 800
    assert told[:2] == ["prove: the papers' models", "run: a cluster with two liars"]
