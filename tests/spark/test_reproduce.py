"""Known models on Spark, shared from the first level on, have the verdicts and counts of one machine.

The tests check a sample of them; with VERISTREAM_ALL_ON_SPARK=1 all, which takes long.
"""

from __future__ import annotations

import json
import os
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.parity.test_shared import told
from tests.spark.cluster import ROOT, veristream
from tests.spark.conftest import LOCAL
from veristream import library
from veristream.expected import Reproduction, find_known
from veristream.search.limits import SparkOptions
from veristream.spark import open_session
from veristream.verdict import Result, word

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

ALL = "VERISTREAM_ALL_ON_SPARK"
SAMPLE = ("alternating_bit", "message_queue", "peterson", "philosophers", "philosophers_ordered", "fischer")
MODELS = ROOT / "models"


def _chosen() -> list[str]:
    known = [model.name for model in find_known(MODELS)]
    return known if os.environ.get(ALL) else [name for name in known if name in SAMPLE]


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("name", _chosen())
def test_known_models_are_reproduced(session: SparkSession, name: str) -> None:
    options = SparkOptions(LOCAL, 2, start_states=0)
    assert open_session(LOCAL, "veristream") is session, "one session serves them all"
    there = library.reproduce([name], models=MODELS, spark=options)
    here = library.reproduce([name], models=MODELS)
    assert [outcome.differences for one in there for outcome in one.outcomes if outcome.differences] == []
    for one, other in zip(there, here, strict=True):
        assert _comparable(one) == _comparable(other)


def _comparable(reproduction: Reproduction) -> list[object]:
    """Returns what must be equal. The number of zones depends on the order in which they are found, and the
    choice among several infinite runs depends on the state that the search starts from."""
    results = [_without_lasso(outcome.result) for outcome in reproduction.outcomes]
    known = reproduction.model
    if any(network.timed for network in library.load_all(known.path, known.constants)):
        return [(one.property, word(one.verdict)) for one in results]
    return list(told(results))


def _without_lasso(result: Result) -> Result:
    trace = result.verdict.trace
    if trace is None or trace.loop is None:
        return result
    return replace(result, verdict=replace(result.verdict, trace=replace(trace, steps=())))


def test_the_sample_is_known() -> None:
    assert set(SAMPLE) <= {model.name for model in find_known(MODELS)}


@pytest.mark.usefixtures("java")
def test_the_command_reproduces() -> None:
    words = ("reproduce", "philosophers", "--json", "--engine", "spark", "--master", LOCAL, "--parts", "2")
    ended = veristream(*words)
    assert (ended.code, ended.told) == (0, "")
    results = [one for model in json.loads(ended.output)["models"] for one in model["results"]]
    assert [(one["property"], one["verdict"] == one["expected"]) for one in results] == 2 * [
        ("no_deadlock", True),
        ("neighbours_take_turns", True),
        ("two_can_eat", True),
        ("nobody_starves", True),
    ]


@pytest.mark.usefixtures("java")
def test_what_the_driver_checks_alone_is_reported_once() -> None:
    wanted = ("-p", "deadlockfree", "-p", "deterministic")
    on_spark = ("--engine", "spark", "--master", LOCAL, "--parts", "2")
    ended = veristream("check", "tests/csp/cases/internal_choice.csp", "--json", *wanted, *on_spark)
    assert (ended.code, ended.told) == (1, "checked by the driver alone: S() deterministic\n")
    document = json.loads(ended.output)
    assert document["engine"] == "spark"
    assert [one["verdict"] for one in document["results"]] == ["holds", "violated"]
