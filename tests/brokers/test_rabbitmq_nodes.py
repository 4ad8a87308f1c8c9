"""Real RabbitMQ: it forms a cluster, what a kill leaves, and that nothing is left after a stop."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pika
import pytest
from typer.testing import CliRunner

from veristream.brokers.rabbitmq.nodes import RabbitNodes
from veristream.cli.app import app
from veristream.errors import EnvironmentFailure
from veristream.kabis.cluster import processes
from veristream.recording.rabbitmq.running import RunningRabbit

pytestmark = [pytest.mark.brokers, pytest.mark.xdist_group("rabbitmq")]


@pytest.fixture
def node(rabbitmq: None, tmp_path: Path) -> Iterator[RabbitNodes]:
    """A single node, which is not started."""
    with RabbitNodes(tmp_path) as nodes:
        nodes.create(1)
        yield nodes


def publish(nodes: RabbitNodes, queue: str, count: int, arguments: dict[str, str] | None = None) -> None:
    with pika.BlockingConnection(pika.URLParameters(nodes.url("rabbit-1"))) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare(queue, durable=True, arguments=arguments)
        for _ in range(count):
            channel.basic_publish("", queue, b"x", pika.BasicProperties(delivery_mode=2))


def test_three_nodes_are_one_cluster_and_survive_a_kill(rabbits: RunningRabbit) -> None:
    nodes = rabbits.local
    assert nodes.members("rabbit-2") == ["rabbit-1", "rabbit-2", "rabbit-3"]
    nodes.set_policy("copies", "^a-mirrored$", {"ha-mode": "all"})
    publish(nodes, "a-mirrored", 2)
    publish(nodes, "a-quorum", 3, {"x-queue-type": "quorum"})
    publish(nodes, "a-classic", 1)
    found = {name: each for name, each in nodes.queues().items() if name.startswith("a-")}
    others = {"rabbit-2", "rabbit-3"}
    assert {name: each.kind for name, each in found.items()} == {
        "a-mirrored": "classic", "a-quorum": "quorum", "a-classic": "classic"
    }  # fmt: skip
    assert {name: each.leader for name, each in found.items()} == dict.fromkeys(found, "rabbit-1")
    assert (found["a-mirrored"].copies, found["a-quorum"].copies) == (others, others)
    assert found["a-classic"].copies == set()
    nodes.kill("rabbit-1")
    for name in ("a-mirrored", "a-quorum"):
        assert nodes.leader(name, other_than="rabbit-1") in others
    nodes.wait_for_cluster(sorted(others))
    assert nodes.queues()["a-classic"].leader in ("", "rabbit-1")
    assert nodes.start(["rabbit-1"]) == ["rabbit-1"]
    nodes.wait_for_cluster()


def test_nothing_is_left_by_stopping(node: RabbitNodes) -> None:
    """Somebody else finds the processes by the command lines that they have become, and stops them."""
    node.start()
    before = node.find()
    other = RabbitNodes(node.folder)
    found = other.find()
    assert {name: each.pid for name, each in found.items()} == {
        name: each.pid for name, each in before.items()
    }
    assert found["rabbit-1"].command[0].endswith("beam.smp")
    node.pause("rabbit-1")
    assert not node.answers("rabbit-1")
    assert sorted(other.stop()) == ["epmd-1", "rabbit-1"]
    assert [each for each in before.values() if processes.read_command(each.pid)] == []
    assert not any(map(node.answers, node.names()))


def test_a_paused_node_goes_on_and_a_restart_keeps_what_is_durable(node: RabbitNodes) -> None:
    node.start()
    publish(node, "orders", 5)
    node.pause("rabbit-1")
    assert processes.is_paused(node.find()["rabbit-1"])
    node.resume("rabbit-1")
    assert node.restart() == ["rabbit-1"]
    assert node.queues()["orders"].messages == 5
    with pytest.raises(EnvironmentFailure, match=r"rabbit-1 refuses rabbitmqctl set_policy: .*ha-mod"):
        node.set_policy("copies", "^a", {"ha-mod": "all"})


def test_a_wrong_setting_is_named(rabbitmq: None, tmp_path: Path) -> None:
    with RabbitNodes(tmp_path, {"net_tick": "8"}) as nodes:
        nodes.create(1)
        with pytest.raises(EnvironmentFailure, match=r"rabbit-1 did not start: .*net_tick"):
            nodes.start(["rabbit-1"])
        assert list(nodes.find()) == ["epmd-1"]


def test_the_command_starts_and_stops_it(rabbitmq: None, tmp_path: Path) -> None:
    def broker(*words: str) -> tuple[int, str]:
        done = CliRunner().invoke(app, ["broker", *words, "--data", str(tmp_path)], catch_exceptions=False)
        return done.exit_code, done.output

    nodes = RabbitNodes(tmp_path)
    try:
        up = broker("up", "rabbitmq", "--detach", "--nodes", "1", "--set", "heartbeat=5")
        assert up[0] == 0, up[1]
        assert up[1].splitlines()[0] == f"1 RabbitMQ nodes in {tmp_path}: {nodes.address('rabbit-1')}"
        code, table = broker("status")
        assert code == 0
        assert [line.split()[0] for line in table.splitlines()[-2:]] == ["epmd-1", "rabbit-1"]
        again = broker("up", "rabbitmq", "--nodes", "3")
        assert (again[0], "has 1 RabbitMQ nodes, not 3" in again[1]) == (2, True)
    finally:
        assert broker("down", "--remove") == (0, "stopped epmd-1, rabbit-1\n")
    assert list(tmp_path.iterdir()) == []
