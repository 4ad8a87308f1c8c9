"""Real brokers for the tests, started once; tests are skipped with a reason if they cannot start."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from tests.kabis.session.console import Console, opened
from tests.missing import is_missing
from veristream.brokers.kafka import KafkaClusters, find_program
from veristream.brokers.rabbitmq.build import find_programs as find_rabbitmq
from veristream.errors import EnvironmentFailure
from veristream.kabis.cluster.access import Access
from veristream.kabis.cluster.cluster import StartOptions
from veristream.kabis.cluster.folder import ClusterFolder
from veristream.kabis.kafka.settings import KafkaSettings
from veristream.recording.rabbitmq.running import RunningRabbit, local_rabbit
from veristream.recording.rabbitmq.settings import Settings

GIVEN = "VERISTREAM_KAFKAS"
"""A folder of three clusters to reuse, for running these tests repeatedly."""


@pytest.fixture(scope="session")
def kafkas(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaClusters]:
    """Three single-node clusters; a test that stops one starts it again."""
    try:
        find_program()
    except EnvironmentFailure as missing:
        is_missing(missing.render())
    given = os.environ.get(GIVEN)
    folder = Path(given) if given else tmp_path_factory.mktemp("kafkas")
    with KafkaClusters(folder) as clusters:
        clusters.create(3)
        clusters.start()
        yield clusters


@pytest.fixture
def kafka(kafkas: KafkaClusters) -> KafkaSettings:
    """The first cluster, which is running."""
    kafkas.start(["kafka-1"])
    return KafkaSettings(kafkas.address("kafka-1"))


@pytest.fixture
def topic() -> str:
    """A new topic name."""
    return f"t-{uuid4().hex[:12]}"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A storage party's own folder."""
    return tmp_path / "log"


@pytest.fixture(scope="module")
def console(kafkas: KafkaClusters, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Console]:
    """A Kabis cluster whose storage parties keep their logs in Kafka."""
    addresses = ",".join(kafkas.address(name) for name in kafkas.names())
    with opened(tmp_path_factory.mktemp("kabis") / "data") as console:
        console.do("up", "--detach", "--storage", f"kafka={addresses}")
        yield console


@pytest.fixture
def access(console: Console, kafkas: KafkaClusters) -> Access:
    """Clients of the cluster, with all parties and Kafka clusters running."""
    kafkas.start()
    running = console.cluster.find()
    console.cluster.start(
        StartOptions(attended=False), [each for each in console.cluster.names() if each not in running]
    )
    return Access(ClusterFolder(console.data))


@pytest.fixture(scope="session")
def rabbitmq() -> None:
    """Skips tests where RabbitMQ cannot run."""
    try:
        find_rabbitmq()
    except EnvironmentFailure as missing:
        is_missing(missing.render())


@pytest.fixture(scope="session")
def rabbit(rabbitmq: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningRabbit]:
    """A single RabbitMQ node."""
    with local_rabbit(tmp_path_factory.mktemp("rabbit"), Settings(), 1) as running:
        yield running


@pytest.fixture(scope="session")
def rabbits(rabbitmq: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningRabbit]:
    """A cluster of three RabbitMQ nodes; a test that kills one starts it again."""
    with local_rabbit(tmp_path_factory.mktemp("rabbits"), Settings(), 3) as running:
        yield running
