"""`veristream broker` and `veristream kabis up --storage` on the command line."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.brokers.patience import PATIENCE_S
from tests.kabis.session.console import Ended, opened
from veristream.brokers.kafka import KafkaClusters, answers
from veristream.cli.app import app
from veristream.kabis.cluster.processes import wait_until

pytestmark = [pytest.mark.brokers, pytest.mark.xdist_group("kafka")]

NOBODY = "kafka=127.0.0.1:1,127.0.0.1:2,127.0.0.1:3"


def broker(data: Path, *words: str) -> Ended:
    done = CliRunner().invoke(app, ["broker", *words, "--data", str(data)], catch_exceptions=False)
    return Ended(done.exit_code, done.stdout, done.stderr)


def test_a_cluster_is_started_shown_and_stopped(tmp_path: Path) -> None:
    empty = broker(tmp_path, "status")
    assert (empty.code, empty.output) == (3, f"{tmp_path} has no brokers\n")
    with KafkaClusters(tmp_path) as clusters:
        try:
            up = broker(tmp_path, "up", "kafka", "--clusters", "1", "--detach")
            assert up.code == 0, up.told
            address = clusters.address("kafka-1")
            assert up.lines()[0] == f"1 Kafka clusters in {tmp_path}: {address}"
            assert wait_until(lambda: [] if answers(address) else [address], PATIENCE_S) == []
            (running,) = clusters.find().values()
            status = broker(tmp_path, "status")
            assert status.code == 0
            assert status.lines()[-1].split() == ["kafka-1", str(running.pid), address]
            other = broker(tmp_path, "up", "kafka", "--clusters", "2")
            assert other.code == 2
            assert "has 1 Kafka clusters, not 2" in other.told
        finally:
            down = broker(tmp_path, "down", "--remove")
        assert (down.code, down.output) == (0, "stopped kafka-1\n")
        assert not answers(address)
        assert list(tmp_path.iterdir()) == []
        assert broker(tmp_path, "down").output == f"no broker is running in {tmp_path}\n"


@pytest.mark.parametrize(
    ("storage", "code", "said"),
    [
        (
            ("kafka=127.0.0.1:1,127.0.0.1:2",),
            2,
            "2 Kafka clusters are named, and there are 3 storage parties",
        ),
        (("paper", NOBODY), 2, "3 Kafka clusters are named, and there are 2 storage parties"),
        (("kafka=",), 2, "--storage kafka= is not valid"),
        (("redis",), 2, "--storage redis is not valid"),
        (("kafka=127.0.0.1:x,b:1,c:1",), 2, "'127.0.0.1:x' is not the address of a Kafka broker"),
        (("kafka=no-such-file,b:1,c:1",), 3, "cannot read Kafka's properties in no-such-file"),
        ((NOBODY,), 3, "did not start: cannot list topics: no Kafka answers at 127.0.0.1:"),
    ],
)
def test_what_is_wrong_with_storage_is_said(
    tmp_path: Path, storage: tuple[str, ...], code: int, said: str
) -> None:
    with opened(tmp_path / "data") as console:
        words = [word for each in storage for word in ("--storage", each)]
        ended = console("up", "--detach", *words)
        assert (ended.code, said in ended.told) == (code, True), ended.told
        assert console.cluster.find() == {} if (tmp_path / "data").exists() else True


def test_a_log_on_disk_does_not_move_to_kafka(tmp_path: Path) -> None:
    with opened(tmp_path / "data") as console:
        console.do("up", "--detach")
        running = console("up", "--storage", NOBODY)
        assert (running.code, "so their logs cannot move" in running.told) == (2, True)
        console.do("down")
        ended = console("up", "--detach", "--storage", NOBODY)
        assert ended.code == 2
        assert "storage-1 of" in ended.told and "keeps its log on disk" in ended.told
