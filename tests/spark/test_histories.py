"""200 random histories of a simulated broker: Spark says of each of them what the plain checker says.

Each history goes the whole way: it is written in buckets and audited by the job of `veristream audit`, on
one session of two cores. `VERISTREAM_SEEDS` says how many histories there are.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.strategies import SearchStrategy, integers

from tests.unit.history.job.recorded import record
from veristream.history.job.run import Options, audit_folder
from veristream.history.oracle.judge import judge
from veristream.history.properties import Property
from veristream.history.verdicts import Judgement, Word
from veristream.history.witnesses import KINDS
from veristream_testing.histories.history import History
from veristream_testing.histories.plants.catalogue import PLANTS, kind_of
from veristream_testing.histories.strategies import clean_histories, planted_histories

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

HISTORIES = int(os.environ.get("VERISTREAM_SEEDS", "200"))
OF_PLANT = max(HISTORIES * 5 // 6 // len(PLANTS), 1)
"""How many histories have a plant at least; those that remain are clean."""
CLEAN = max(HISTORIES - OF_PLANT * len(PLANTS), 1)

ON_SPARK = Options("local[2]")
BUCKETS = integers(1, 5)


def audit_on_spark(of: History, buckets: int) -> Sequence[Judgement]:
    """Asserts that Spark says of a history what the plain checker says, and both what is known of it."""
    with TemporaryDirectory() as place:
        found = audit_folder(record(Path(place) / "history", of, buckets), options=ON_SPARK)
    assert (found.events, found.judgements) == (len(of.events), judge(of.manifest, of.events))
    assert of.anomalies is not None
    counts = Counter(kind for each in found.judgements for kind in Counter(each.counts).elements())
    assert counts == Counter(each.kind for each in of.anomalies)
    assert {one.anomaly for each in found.judgements for one in each.witnesses} <= of.anomalies
    return found.judgements


def run_examples(
    count: int, number: int, of: SearchStrategy[History], each: Callable[[History, int], None]
) -> None:
    """Draws histories, for each number always the same ones; a failure tells a small one that fails."""
    limits = settings(
        max_examples=count,
        database=None,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
    )
    seed(number)(limits(given(of, BUCKETS)(each)))()


@pytest.mark.usefixtures("session")
@pytest.mark.parametrize("plant", PLANTS)
def test_planted(plant: str) -> None:
    seen: list[str] = []

    def agree(of: History, buckets: int) -> None:
        seen.extend(kind for each in audit_on_spark(of, buckets) for kind in each.counts)

    run_examples(OF_PLANT, list(PLANTS).index(plant), planted_histories(3, plant), agree)
    assert seen.count(kind_of(plant)) >= OF_PLANT
    assert set(seen) <= set(KINDS)


@pytest.mark.usefixtures("session")
def test_clean() -> None:
    words: Counter[tuple[Property, Word]] = Counter()

    def agree(of: History, buckets: int) -> None:
        for asked, each in zip(Property, audit_on_spark(of, buckets), strict=True):
            assert of.anomalies == frozenset()
            words[asked, each.word] += 1

    run_examples(CLEAN, len(PLANTS), clean_histories(), agree)
    assert words.total() == CLEAN * len(Property)
    assert {word for _, word in words} == {Word.HELD, Word.NOT_OBSERVABLE}
    assert all(words[asked, Word.HELD] for asked in Property)
