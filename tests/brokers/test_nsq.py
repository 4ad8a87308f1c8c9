"""Real NSQ: what a kill leaves, and that nothing is left after a stop."""

from __future__ import annotations

import http.client
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.missing import is_missing
from veristream.brokers.nsq.build import find_programs
from veristream.brokers.nsq.nodes import NsqNodes
from veristream.cli.app import app
from veristream.errors import EnvironmentFailure, ModelError
from veristream.kabis.cluster import processes

pytestmark = [pytest.mark.brokers, pytest.mark.xdist_group("nsq")]


@pytest.fixture(autouse=True)
def programs() -> None:
    try:
        find_programs()
    except EnvironmentFailure as missing:
        is_missing(missing.render())


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[NsqNodes]:
    """Two nsqd that write everything to disk at once."""
    with NsqNodes(tmp_path, {"mem-queue-size": "0", "sync-every": "1"}) as nodes:
        nodes.create(2)
        nodes.start()
        yield nodes


def publish(nodes: NsqNodes, name: str, topic: str, count: int) -> None:
    for number in range(count):
        host, _, port = nodes.http(name).rpartition(":")
        connection = http.client.HTTPConnection(host, int(port), timeout=10)
        connection.request("POST", f"/pub?topic={topic}", body=b"%d" % number)
        assert connection.getresponse().read() == b"OK"
        connection.close()


def wait_in_channel(nodes: NsqNodes, count: int) -> None:
    """Waits until the channel has all messages: one on its way from the topic is on no disk."""
    deadline_s = time.monotonic() + 10
    while (depth := depth_of_channel(nodes)) != count and time.monotonic() < deadline_s:
        time.sleep(0.05)
    assert depth == count


def depth_of_channel(nodes: NsqNodes) -> int:
    found = nodes.depths("nsqd-1", "orders")
    return 0 if found is None else found.channels["billing"].depth


def test_what_is_on_disk_is_there_after_a_kill(nodes: NsqNodes) -> None:
    nodes.create_channel("nsqd-1", "orders", "billing")
    publish(nodes, "nsqd-1", "orders", 5)
    wait_in_channel(nodes, 5)
    nodes.kill("nsqd-1")
    assert "nsqd-1" not in nodes.find()
    assert nodes.start() == ["nsqd-1"]
    wait_in_channel(nodes, 5)
    assert nodes.depths("nsqd-2", "orders") is None


def test_what_is_in_memory_is_lost_by_a_kill(nodes: NsqNodes) -> None:
    nodes.stop()
    nodes.configure({"mem-queue-size": "1000"})
    nodes.start()
    nodes.create_channel("nsqd-1", "orders", "billing")
    publish(nodes, "nsqd-1", "orders", 5)
    nodes.kill("nsqd-1")
    nodes.start()
    found = nodes.depths("nsqd-1", "orders")
    assert found is not None
    assert (found.depth, found.channels["billing"].depth) == (0, 0)


def test_nothing_is_left_by_stopping(nodes: NsqNodes) -> None:
    before = nodes.find()
    nodes.pause("nsqd-2")
    assert not nodes.answers("nsqd-2")
    assert sorted(nodes.stop()) == ["nsqd-1", "nsqd-2", "nsqlookupd-1"]
    assert nodes.stop() == []
    assert [each for each in before.values() if processes.read_command(each.pid)] == []
    assert [name for name in nodes.names() if nodes.answers(name)] == []


def test_a_paused_node_goes_on(nodes: NsqNodes) -> None:
    nodes.pause("nsqd-2")
    assert processes.is_paused(nodes.find()["nsqd-2"])
    nodes.resume("nsqd-2")
    assert nodes.answers("nsqd-2")


def test_a_wrong_option_is_named(nodes: NsqNodes) -> None:
    nodes.stop()
    nodes.configure({"sync-evry": "1"}, ["nsqd-2"])
    with pytest.raises(EnvironmentFailure, match=r"nsqd-2 did not start: flag .*sync-evry"):
        nodes.start()
    nodes.configure({"sync-every": "often"}, ["nsqd-2"])
    with pytest.raises(EnvironmentFailure, match='nsqd-2 did not start: invalid value "often"'):
        nodes.start()
    assert nodes.find() == {}


def test_a_wrong_topic_is_refused(nodes: NsqNodes) -> None:
    with pytest.raises(ModelError, match="INVALID_TOPIC"):
        nodes.create_topic("nsqd-1", "a b")


def test_the_command_starts_and_stops_it(tmp_path: Path) -> None:
    def broker(*words: str) -> tuple[int, str]:
        done = CliRunner().invoke(app, ["broker", *words, "--data", str(tmp_path)], catch_exceptions=False)
        return done.exit_code, done.output

    nodes = NsqNodes(tmp_path)
    try:
        up = broker("up", "nsq", "--detach", "--set", "sync-every=1")
        assert up[0] == 0, up[1]
        assert up[1].splitlines()[0] == f"2 nsqd in {tmp_path}: {','.join(nodes.entrances())}"
        code, table = broker("status")
        assert code == 0
        assert [line.split()[0] for line in table.splitlines()[-3:]] == [*nodes.nodes(), "nsqlookupd-1"]
        again = broker("up", "nsq", "--nodes", "3")
        assert (again[0], "has 2 nsqd, not 3" in again[1]) == (2, True)
        wrong = broker("up", "nsq", "--set", "sync-every")
        assert (wrong[0], "write --set KEY=VALUE" in wrong[1]) == (2, True)
    finally:
        assert broker("down", "--remove") == (0, "stopped nsqd-1, nsqd-2, nsqlookupd-1\n")
    assert list(tmp_path.iterdir()) == []
