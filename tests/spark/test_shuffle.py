"""Exploration by shuffles finds what the local engine finds, even if tasks are killed, and replaces sockets
if they are unavailable."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.parity.test_shared import safety_of, told
from tests.spark import elastic, lossy
from tests.spark.cluster import ROOT, Standalone, run, veristream
from veristream.errors import EnvironmentFailure
from veristream.ir.network import Network
from veristream.ir.text.read import read_network
from veristream.library import load
from veristream.search import engine as local
from veristream.search.limits import Limits, SparkOptions, silent
from veristream.search.shared.crew import Crew
from veristream.search.shared.messages import Address, Start
from veristream.search.shared.worker import Meeting, MessageKind
from veristream.search.spark import shuffle
from veristream.search.spark.engine import engine
from veristream.search.spark.level_task import Addressed, LevelTask
from veristream.source import Source
from veristream.verdict import Unknown

if TYPE_CHECKING:
    from _typeshed import DataclassInstance
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark"), pytest.mark.usefixtures("at_once")]

PHILOSOPHERS = "models/philosophers/philosophers.net"
SHUFFLES = SparkOptions(parts=2, start_states=0, exchange="shuffle")

COUNTERS = """
network counters
var a: 0..9
var b: 0..9
component A {
  location here initial
  edge here -> here { when a < 9 do { a := a + 1 } }
}
component B {
  location here initial
  edge here -> here { when b < 9 do { b := b + 1 } }
}
property top: reachable a + b < 12 maximise 2 * a - b
property low: reachable a > 3 minimise a + b
property far: reachable a == 9 and b == 9
property never: always a + b < 11
"""

FAILING = COUNTERS.replace("b := b + 1", "b := b + 1 + 0 * (9 div (4 - b))")


def _read(text: str) -> Network:
    return read_network(Source("counters.net", text), {})


@pytest.mark.parametrize(
    ("file", "constants"),
    [
        (PHILOSOPHERS, {}),
        (PHILOSOPHERS, {"N": 6, "ORDERED": 1}),
        ("models/message_queue/message_queue.net", {}),
        ("tests/actions/symmetric/lock.py", {}),
    ],
)
def test_models_agree(session: SparkSession, file: str, constants: dict[str, int]) -> None:
    network = load(ROOT / file, constants)
    wanted = safety_of(network)
    found = engine(lambda: session, SHUFFLES)(network, wanted, Limits(), silent)
    here = local.check(network, wanted, Limits())
    assert told(found) == told(here)
    for one, other in zip(found, here, strict=True):
        if one.verdict.trace is None:
            assert one.effort.depth == other.effort.depth
            assert one.effort.unreduced_states == other.effort.unreduced_states


def test_best_values_and_their_runs_agree(session: SparkSession) -> None:
    network = _read(COUNTERS)
    found = engine(lambda: session, SHUFFLES)(network, network.properties, Limits(), silent)
    here = local.check(network, network.properties, Limits())
    assert told(found) == told(here)
    assert [one.verdict.reason for one in found] == [one.verdict.reason for one in here]
    assert found[0].verdict.reason == "max 2 * a - b = 18"


def test_a_fault_of_the_model_is_reported(session: SparkSession) -> None:
    network = _read(FAILING)
    found = engine(lambda: session, SHUFFLES)(network, network.properties, Limits(), silent)
    here = local.check(network, network.properties, Limits())
    for one, other in zip(found, here, strict=True):
        assert isinstance(one.verdict, Unknown) and isinstance(other.verdict, Unknown)
        assert one.verdict.fault is not None and one.verdict.fault == other.verdict.fault
        assert one.verdict.trace is not None and other.verdict.trace is not None
        assert len(one.verdict.trace.steps) == len(other.verdict.trace.steps)


def test_more_parts_than_cores_take_turns(session: SparkSession) -> None:
    network = _read(COUNTERS)
    options = SparkOptions(parts=5, start_states=20, exchange="shuffle")
    found = engine(lambda: session, options)(network, network.properties, Limits(), silent)
    assert told(found) == told(local.check(network, network.properties, Limits()))


@pytest.mark.parametrize("level", [2, 9])
def test_a_worker_is_killed_within_a_level(
    session: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, level: int
) -> None:
    killed, run_task = tmp_path / "killed", shuffle._run_task

    def run_task_once_killed(
        task: LevelTask, number: int, pairs: Iterable[Addressed]
    ) -> Iterator[Addressed]:
        for place, sent in enumerate(run_task(task, number, pairs)):
            if (task.level, number, place) == (level, 1, 1) and not killed.exists():
                killed.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            yield sent

    monkeypatch.setattr(shuffle, "_run_task", run_task_once_killed)
    network = load(ROOT / PHILOSOPHERS, {"N": 6, "ORDERED": 1})
    wanted = safety_of(network)
    found = engine(lambda: session, SHUFFLES)(network, wanted, Limits(), silent)
    assert killed.exists()
    assert told(found) == told(local.check(network, wanted, Limits()))


def test_a_search_continues_from_its_checkpoint(session: SparkSession, tmp_path: Path) -> None:
    network = load(ROOT / PHILOSOPHERS, {"N": 6, "ORDERED": 1})
    wanted = [one for one in safety_of(network) if one.name == "no_deadlock"]
    options = SparkOptions(None, 2, str(tmp_path), 0.0, start_states=0, exchange="shuffle")
    check = engine(lambda: session, options)
    (interrupted,) = check(network, wanted, Limits(states_max=300), silent)
    assert isinstance(interrupted.verdict, Unknown) and interrupted.effort.states < 3**6
    deepest: list[int] = []
    found = check(network, wanted, Limits(), lambda progress: deepest.append(progress.depth))
    assert told(found) == told(local.check(network, wanted, Limits()))
    assert deepest[0] >= interrupted.effort.depth


def _fallen_back(session: SparkSession) -> list[tuple[str, str]]:
    """Returns the remarks of a search without sockets, which must find what the local engine finds."""
    said: list[tuple[str, str]] = []
    network = _read(COUNTERS)
    options = SparkOptions(parts=2, start_states=20, tell=lambda *words: said.append(words))
    found = engine(lambda: session, options)(network, network.properties, Limits(), silent)
    assert told(found) == told(local.check(network, network.properties, Limits()))
    return said


def test_workers_that_cannot_reach_the_driver_fall_back_to_shuffles(
    session: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Crew, "meeting", property(lambda crew: Meeting("127.0.0.1", 1, crew.secret)))
    ((heading, reason),) = _fallen_back(session)
    assert heading == "explored by shuffles, which takes longer, because"
    assert reason.startswith("they cannot reach the driver (ConnectionRefusedError: [Errno 111]")
    sockets = SparkOptions(parts=2, start_states=20, exchange="sockets")
    network = _read(COUNTERS)
    with pytest.raises(EnvironmentFailure, match="workers did not connect: they cannot reach the driver"):
        engine(lambda: session, sockets)(network, network.properties, Limits(), silent)


def test_workers_that_cannot_reach_each_other_fall_back_to_shuffles(
    session: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    tell_all = Crew.tell_all

    def tell_wrong_places(
        crew: Crew, kind: MessageKind, number: int = 0, content: DataclassInstance | None = None
    ) -> None:
        if isinstance(content, Start):
            content = replace(content, addresses=(Address("127.0.0.1", 1),) * crew.part_count)
        tell_all(crew, kind, number, content)

    monkeypatch.setattr(Crew, "tell_all", tell_wrong_places)
    ((_, reason),) = _fallen_back(session)
    assert reason.startswith("workers cannot reach each other (ConnectionRefusedError: [Errno 111]")


def _with_source(cluster: Standalone) -> dict[str, str]:
    return {
        **cluster.environment,
        "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]),
        "PYSPARK_PYTHON": sys.executable,
    }


def test_an_executor_is_killed(cluster: Standalone) -> None:
    environment = {**_with_source(cluster), "EXCHANGE": "shuffle"}
    command = [sys.executable, str(ROOT / "tests/spark/lossy.py"), cluster.master, "executor", "9"]
    ended = run(command, environment, seconds=500)
    assert (ended.code, ended.told) == (0, "")
    network = load(lossy.MODEL, lossy.CONSTANTS)
    wanted = [one for one in network.properties if one.name == lossy.PROPERTY]
    expected = json.loads(json.dumps(told(local.check(network, wanted, Limits()))))
    assert json.loads(ended.output) == [{"ended": 1, "found": expected}]


def test_dynamic_allocation_falls_back_to_shuffles(cluster: Standalone) -> None:
    command = [sys.executable, str(ROOT / "tests/spark/elastic.py"), cluster.master]
    ended = run(command, _with_source(cluster), seconds=400)
    assert ended.code == 0, ended.told
    network = load(elastic.MODEL, elastic.CONSTANTS)
    wanted = [one for one in network.properties if one.name == elastic.PROPERTY]
    expected = json.loads(json.dumps(told(local.check(network, wanted, Limits()))))
    reason = "Spark refuses barrier stages with dynamic allocation"
    said = [f"explored by shuffles, which takes longer, because: {reason}"]
    assert json.loads(ended.output) == {"said": said, "found": expected}


def test_an_elastic_cluster_explores(cluster: Standalone) -> None:
    settings = "--conf spark.dynamicAllocation.enabled=true pyspark-shell"
    words = ("check", PHILOSOPHERS, "-D", "ORDERED=1", "-D", "N=12", "-p", "no_deadlock", "--json")
    there = ("--engine", "spark", "--master", cluster.master, "--parts", "2", "--exchange", "shuffle")
    environment = {**cluster.environment, "PYSPARK_SUBMIT_ARGS": settings}
    ended = veristream(*words, *there, environment=environment, seconds=400)
    assert (ended.code, ended.told) == (0, "")
    (found,) = json.loads(ended.output)["results"]
    assert (found["verdict"], found["states"], found["depth"]) == ("holds", 3**12, 34)
