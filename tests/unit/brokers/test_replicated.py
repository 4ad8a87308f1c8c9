"""The configuration of a Kafka cluster, without running it."""

from __future__ import annotations

import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from veristream.brokers.kafka import LOG4J_1, LOG4J_2, Logging, Program
from veristream.brokers.replicated.cluster import ReplicatedKafka
from veristream.errors import EnvironmentFailure, ModelError


def with_java(folder: Path, script: str, **options: Any) -> ReplicatedKafka:
    """Returns a cluster whose Java is a script."""
    java = folder / "java"
    java.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    java.chmod(java.stat().st_mode | stat.S_IXUSR)
    cluster = ReplicatedKafka(folder / "data", **options)
    cluster.program = Program(java, folder)
    return cluster


def properties(cluster: ReplicatedKafka, name: str) -> dict[str, str]:
    lines = (cluster.folder / name / "server.properties").read_text(encoding="utf-8").splitlines()
    return {key: value for key, _, value in (line.partition("=") for line in lines)}


def test_a_cluster_is_a_controller_and_its_brokers(tmp_path: Path) -> None:
    cluster = with_java(tmp_path, "exit 0", settings={"broker.session.timeout.ms": "9000"})
    cluster.create(3)
    assert cluster.names() == ["controller-1", "broker-1", "broker-2", "broker-3"]
    assert cluster.entrances() == [cluster.address(f"broker-{number}") for number in (1, 2, 3)]
    assert cluster.bootstrap == ",".join(cluster.entrances())
    second = properties(cluster, "broker-2")
    assert (second["node.id"], second["process.roles"]) == ("2", "broker")
    assert second["listeners"].startswith(f"CLIENT://{cluster.address('broker-2')},INTER://127.0.0.1:")
    assert second["controller.quorum.voters"] == f"100@{cluster.address('controller-1')}"
    assert second["broker.session.timeout.ms"] == "9000"
    listeners = [properties(cluster, name)["listeners"] for name in cluster.names()]
    ports = [each.rpartition(":")[2] for line in listeners for each in line.split(",")]
    assert len(set(ports)) == len(ports) == 7


def test_it_is_created_once(tmp_path: Path) -> None:
    cluster = with_java(tmp_path, "exit 0")
    cluster.create(1)
    before = properties(cluster, "broker-1")
    cluster.create(1)
    assert properties(cluster, "broker-1") == before
    with pytest.raises(ModelError, match="has a Kafka cluster of 1 brokers, not 3"):
        cluster.create(3)


def test_a_cluster_remembers_its_version(tmp_path: Path) -> None:
    with_java(tmp_path, "exit 0", version="3.9.1").create(1)
    with_java(tmp_path, "exit 0", version="3.9.1").create(1)
    with pytest.raises(ModelError, match=r"has a cluster of Kafka 3\.9\.1, not 4\.1\.1"):
        with_java(tmp_path, "exit 0").create(1)


def test_a_cluster_without_a_note_has_the_first_version(tmp_path: Path) -> None:
    cluster = with_java(tmp_path, "exit 0")
    cluster.create(1)
    (cluster.folder / "controller-1" / "version").unlink()
    cluster.create(1)
    with pytest.raises(ModelError, match=r"has a cluster of Kafka 4\.1\.1, not 3\.5\.2"):
        with_java(tmp_path, "exit 0", version="3.5.2").create(1)


@pytest.mark.parametrize(
    ("logging", "option"),
    [(LOG4J_1, "-Dlog4j.configuration=file:"), (LOG4J_2, "-Dlog4j2.configurationFile=")],
)
def test_each_version_logs_in_its_way(tmp_path: Path, logging: Logging, option: str) -> None:
    cluster = with_java(tmp_path, "exit 0")
    cluster.program = replace(cluster.program, logging=logging)
    cluster.create(1)
    (said,) = [word for word in cluster.command("broker-1") if word.startswith("-Dlog4j")]
    assert said.startswith(option)
    assert Path(said.removeprefix(option)).read_text(encoding="utf-8") == logging.text


@pytest.mark.parametrize("count", [0, 10])
def test_there_are_limits(tmp_path: Path, count: int) -> None:
    with pytest.raises(ModelError, match=f"cannot run {count} Kafka brokers"):
        ReplicatedKafka(tmp_path).create(count)


def test_a_proxy_is_advertised_in_a_brokers_place(tmp_path: Path) -> None:
    cluster = with_java(tmp_path, "exit 0")
    cluster.create(2)
    before = properties(cluster, "broker-1")
    client, inter = before["advertised.listeners"].split(",")
    assert f"INTER://{cluster.address_between('broker-1')}" == inter
    cluster.advertise("broker-1", "127.0.0.1:1111")
    assert properties(cluster, "broker-1")["advertised.listeners"] == f"CLIENT://127.0.0.1:1111,{inter}"
    cluster.advertise("broker-1", "127.0.0.1:2222", "INTER")
    cluster.advertise("broker-1", client.removeprefix("CLIENT://"))
    after = {**before, "advertised.listeners": f"{client},INTER://127.0.0.1:2222"}
    assert properties(cluster, "broker-1") == after
    assert f"INTER://{cluster.address_between('broker-1')}" == inter
    with pytest.raises(EnvironmentFailure, match="controller-1 has no listener for other brokers"):
        cluster.address_between("controller-1")


def test_what_kafka_says_of_a_wrong_feature_is_passed_on(tmp_path: Path) -> None:
    said = "echo starting; echo 'Exception: no feature transaction.version=9'; exit 1"
    cluster = with_java(tmp_path, said, features={"transaction.version": "9"})
    with pytest.raises(EnvironmentFailure, match=r"no feature transaction\.version=9"):
        cluster.create(2)
    assert cluster.names() == []


def test_features_and_settings_reach_the_storage_tool(tmp_path: Path) -> None:
    cluster = with_java(tmp_path, 'echo "$*" >> $(dirname $0)/seen', features={"transaction.version": "1"})
    cluster.create(1)
    seen = (tmp_path / "seen").read_text(encoding="utf-8").splitlines()
    assert len(seen) == 2
    assert all(" --feature transaction.version=1 --config " in line for line in seen)


def test_a_cluster_that_is_down_says_so(tmp_path: Path) -> None:
    cluster = with_java(tmp_path, "exit 0")
    cluster.create(1)
    with pytest.raises(EnvironmentFailure, match="none of them is running"):
        cluster.look()
    with pytest.raises(EnvironmentFailure, match="is running"):
        cluster.create_topic("orders")
