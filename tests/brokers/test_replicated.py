"""A real Kafka cluster of three brokers: leaders that fail, pauses, restarts, and what is left."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.missing import is_missing
from veristream.brokers.kafka import find_program
from veristream.brokers.replicated.cluster import ReplicatedKafka
from veristream.cli.app import app
from veristream.errors import EnvironmentFailure, ModelError
from veristream.kabis.cluster import processes

pytestmark = [pytest.mark.brokers, pytest.mark.xdist_group("replicated")]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReplicatedKafka]:
    """Three brokers that share the work of a topic."""
    try:
        find_program()
    except EnvironmentFailure as missing:
        is_missing(missing.render())
    settings = {"min.insync.replicas": "2"}
    features = {"transaction.version": "1"}
    with ReplicatedKafka(tmp_path_factory.mktemp("replicated"), settings, features) as cluster:
        cluster.create(3)
        cluster.start()
        yield cluster


def test_another_broker_leads_after_a_kill(cluster: ReplicatedKafka) -> None:
    cluster.create_topic("killed")
    first = cluster.leader("killed")
    cluster.kill(first)
    assert cluster.leader("killed", other_than=first) != first
    assert cluster.start() == [first]
    cluster.wait_in_sync("killed")
    found = cluster.partition("killed")
    assert found is not None
    assert (sorted(found.replicas), sorted(found.in_sync)) == ([1, 2, 3], [1, 2, 3])


def test_a_paused_leader_loses_its_place(cluster: ReplicatedKafka) -> None:
    cluster.create_topic("paused")
    first = cluster.leader("paused")
    cluster.pause(first)
    assert cluster.leader("paused", other_than=first) != first
    assert first in cluster.find()
    cluster.resume(first)
    cluster.wait_in_sync("paused")


def test_kafka_refuses_what_it_cannot_place(cluster: ReplicatedKafka) -> None:
    with pytest.raises(ModelError, match="only 3 broker"):
        cluster.create_topic("wide", replicas=5)


def test_the_features_are_those_asked_for(cluster: ReplicatedKafka) -> None:
    """Also holds that Kafka's tools run with the pinned jars."""
    command = cluster.program.tool(
        "org.apache.kafka.tools.FeatureCommand", "--bootstrap-server", cluster.bootstrap, "describe"
    )
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (line,) = [line for line in done.stdout.splitlines() if "transaction.version" in line]
    assert "FinalizedVersionLevel: 1" in line


def test_nothing_is_left_by_stopping(cluster: ReplicatedKafka) -> None:
    """Also if a broker is paused; the last test, since it stops the cluster."""
    cluster.start()
    before = cluster.find()
    cluster.pause("broker-2")
    assert sorted(cluster.stop()) == sorted(cluster.names())
    assert cluster.stop() == []
    assert [each for each in before.values() if processes.read_command(each.pid)] == []
    assert [name for name in cluster.names() if cluster.answers(name)] == []


def test_a_wrong_setting_is_named(tmp_path: Path) -> None:
    try:
        find_program()
    except EnvironmentFailure as missing:
        is_missing(missing.render())
    with ReplicatedKafka(tmp_path, {"transaction.max.timeout.ms": "soon"}) as cluster:
        with pytest.raises(EnvironmentFailure, match=r"transaction\.max\.timeout\.ms"):
            cluster.create(1)
        assert cluster.find() == {}


def test_the_command_starts_one_cluster(tmp_path: Path) -> None:
    def broker(*words: str) -> tuple[int, str]:
        done = CliRunner().invoke(app, ["broker", *words, "--data", str(tmp_path)], catch_exceptions=False)
        return done.exit_code, done.output

    wrong = broker("up", "kafka", "--brokers", "1", "--clusters", "1")
    assert (wrong[0], "exclude each other" in wrong[1]) == (2, True)
    cluster = ReplicatedKafka(tmp_path)
    try:
        up = broker("up", "kafka", "--brokers", "1", "--detach", "--set", "min.insync.replicas=1")
        assert up[0] == 0, up[1]
        assert up[1].splitlines()[0] == f"1 Kafka brokers in {tmp_path}: {cluster.bootstrap}"
        written = (tmp_path / "broker-1" / "server.properties").read_text(encoding="utf-8")
        assert "min.insync.replicas=1" in written.splitlines()
    finally:
        assert broker("down", "--remove") == (0, "stopped broker-1, controller-1\n")
    assert list(tmp_path.iterdir()) == []
