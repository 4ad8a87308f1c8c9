"""RabbitMQ's packages, configuration and state, without running it."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from veristream.brokers import debian
from veristream.brokers.debian import Package, plan, upstream
from veristream.brokers.rabbitmq.build import RABBITMQ, RabbitPrograms, find_programs
from veristream.brokers.rabbitmq.nodes import QueueState, RabbitNodes, read_queue
from veristream.errors import EnvironmentFailure, ModelError

SIMULATED = """\
NOTE: This is only a simulation!
Inst libc6 (2.36-9 Debian:12/oldstable [amd64])
Inst libpopt0 (1.19+dfsg-1 Debian:12/oldstable [amd64]) []
Inst cron (3.0pl1-162 Debian:12/oldstable [amd64])
Inst erlang-base (1:25.2.3+dfsg-1+deb12u4 Debian:12/oldstable [amd64])
Inst rabbitmq-server (3.10.8-1.1+deb12u1 Debian:12/oldstable [all])
Conf libc6 (2.36-9 Debian:12/oldstable [amd64])
"""


@pytest.fixture
def nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RabbitNodes:
    """Three nodes that are set up, of programs that are not there."""
    found = RabbitNodes(tmp_path / "data", {"net_ticktime": "60", "heartbeat": "5"})
    monkeypatch.setattr(
        "veristream.brokers.rabbitmq.nodes.find_programs",
        lambda: RabbitPrograms(Path("/opt/r"), "3.10.8"),
    )
    found.create(3)
    return found


def configuration(nodes: RabbitNodes, name: str) -> dict[str, str]:
    text = (nodes.folder / name / "rabbitmq.conf").read_text(encoding="utf-8")
    return {key: value for key, _, value in (line.partition(" = ") for line in text.splitlines())}


def test_what_is_fetched() -> None:
    """Libraries that are installed are left out, Erlang and RabbitMQ never: ours is in another place."""
    installed = ["libc6 installed", "libpopt0 config-files", "erlang-base installed"]
    assert plan(RABBITMQ, SIMULATED.splitlines(), installed) == [
        Package("erlang-base", "1:25.2.3+dfsg-1+deb12u4"),
        Package("libpopt0", "1.19+dfsg-1"),
        Package("rabbitmq-server", "3.10.8-1.1+deb12u1"),
    ]


def test_no_plan_without_rabbitmq() -> None:
    with pytest.raises(EnvironmentFailure, match="does not say what rabbitmq-server needs"):
        plan(RABBITMQ, ["Inst libc6 (2.36-9 Debian:12 [amd64])"], [])


def test_versions() -> None:
    assert upstream("3.10.8-1.1+deb12u1") == "3.10.8"
    assert upstream("1:25.2.3+dfsg-1") == "25.2.3+dfsg"


def fake(folder: Path, monkeypatch: pytest.MonkeyPatch, **scripts: str) -> None:
    """Puts tools of these names on the path, with `_` for `-`, and an empty cache next to them."""
    place = folder / "bin"
    place.mkdir()
    for name, script in scripts.items():
        tool = place / name.replace("_", "-")
        tool.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        tool.chmod(tool.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("VERISTREAM_CACHE", str(folder / "cache"))
    monkeypatch.setenv("PATH", f"{place}:/usr/bin:/bin")


def apt(folder: Path, version: str = "3.10.8-1") -> str:
    """A fake apt-get that notes what it was asked for, and knows RabbitMQ once its lists are updated."""
    return f"""
    echo "$*" >> {folder}/asked
    case "$*" in
    *update) touch {folder}/updated ;;
    *install*) test -e {folder}/updated || {{ echo 'E: Unable to locate package' >&2; exit 100; }}
        echo 'Inst erlang-base (1:25 Debian:12 [amd64])'
        echo 'Inst rabbitmq-server ({version} Debian:12 [all])' ;;
    *download*) touch erlang-base.deb rabbitmq-server.deb ;;
    esac"""


UNPACK = """
mkdir -p $3/usr/lib/erlang/bin
printf 'if\\n    ROOTDIR=/usr/lib/erlang\\nfi\\n' > $3/usr/lib/erlang/bin/erl"""


def test_packages_are_fetched_once_and_scripts_find_erlang(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system's lists lack RabbitMQ, so that fresh ones are fetched into a folder of ours."""
    fake(tmp_path, monkeypatch, apt_get=apt(tmp_path), dpkg_query="true", dpkg_deb=UNPACK)
    found = find_programs()
    assert find_programs() == found == RabbitPrograms(tmp_path / "cache" / "rabbitmq-3", "3.10.8")
    asked = (tmp_path / "asked").read_text(encoding="utf-8").splitlines()
    assert [line.split()[-1] for line in asked] == [
        "rabbitmq-server", "update", "rabbitmq-server", "rabbitmq-server=3.10.8-1"
    ]  # fmt: skip
    assert all("APT::Get::AllowUnauthenticated=false" in line for line in asked)
    assert ["Dir::State=" in line for line in asked] == [False, True, True, True]
    script = (found.erlang / "bin" / "erl").read_text(encoding="utf-8")
    assert script == f"if\n    ROOTDIR={found.erlang}\nfi\n"
    assert [path.name for path in (tmp_path / "cache").iterdir()] == ["rabbitmq-3"]


def test_another_release_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake(tmp_path, monkeypatch, apt_get=apt(tmp_path, "4.0.5-8"), dpkg_query="true", dpkg_deb=UNPACK)
    with pytest.raises(EnvironmentFailure, match=r"have RabbitMQ 4\.0\.5, and 3\.8 to 3\.13 is needed"):
        find_programs()
    assert list((tmp_path / "cache").iterdir()) == []


def test_what_apt_says_is_passed_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = "echo 'E: The repository is not signed.' >&2; echo 'W: old' >&2; exit 100"
    fake(tmp_path, monkeypatch, apt_get=wrong, dpkg_query="true", dpkg_deb="true")
    with pytest.raises(EnvironmentFailure, match=r"apt-get cannot fetch RabbitMQ: The repository is not"):
        find_programs()


def test_a_package_that_did_not_come_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    short = apt(tmp_path).replace("touch erlang-base.deb", "touch")
    fake(tmp_path, monkeypatch, apt_get=short, dpkg_query="true", dpkg_deb=UNPACK)
    with pytest.raises(EnvironmentFailure, match="downloaded 1 of 2 packages"):
        find_programs()


def test_without_apt_it_says_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VERISTREAM_CACHE", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EnvironmentFailure, match="`apt-get` is not on the PATH") as caught:
        find_programs()
    assert "--url" in caught.value.hint


def test_a_cache_with_a_space_in_its_name_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake(tmp_path, monkeypatch, apt_get="true", dpkg_query="true", dpkg_deb="true")
    monkeypatch.setenv("VERISTREAM_CACHE", str(tmp_path / "a b"))
    with pytest.raises(EnvironmentFailure, match="do not support spaces"):
        find_programs()


def test_a_tool_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(debian, "PATIENCE_S", 0.05)
    with pytest.raises(EnvironmentFailure, match="sleep did not end"):
        debian.run("RabbitMQ", ["sleep", "60"], tmp_path)


def test_the_nodes_know_each_other(nodes: RabbitNodes) -> None:
    assert nodes.names() == ["epmd-1", "rabbit-1", "rabbit-2", "rabbit-3"]
    assert nodes.entrances() == [nodes.address(name) for name in nodes.nodes()]
    assert nodes.url("rabbit-2") == f"amqp://guest:guest@{nodes.address('rabbit-2')}/%2F"
    one, two = configuration(nodes, "rabbit-1"), configuration(nodes, "rabbit-2")
    assert one == two
    assert one["cluster_formation.classic_config.nodes.3"] == "rabbit-3@localhost"
    assert one["cluster_partition_handling"] == "pause_minority"
    assert (one["net_ticktime"], one["heartbeat"]) == ("60", "5")
    ports = [nodes.address(name).rpartition(":")[2] for name in nodes.names()]
    ports += [nodes.environment(name)["RABBITMQ_DIST_PORT"] for name in nodes.nodes()]
    assert len(set(ports)) == 7


def test_a_node_runs_in_an_environment_of_its_own(nodes: RabbitNodes) -> None:
    """Nothing of the caller's: a RABBITMQ_ or ERL_ variable of theirs would apply to our nodes."""
    env, clean, *rest = nodes.command("rabbit-2")
    assert (env, clean, rest[-1]) == ("env", "-i", "/opt/r/usr/lib/rabbitmq/bin/rabbitmq-server")
    given = dict(word.split("=", 1) for word in rest[:-1])
    home = nodes.folder.resolve() / "rabbit-2" / "home"
    assert given["HOME"] == str(home)
    assert given["RABBITMQ_NODENAME"] == "rabbit-2@localhost"
    assert f"{given['RABBITMQ_NODE_IP_ADDRESS']}:{given['RABBITMQ_NODE_PORT']}" == nodes.address("rabbit-2")
    assert given["ERL_EPMD_ADDRESS"] == "127.0.0.1"
    assert "inet_dist_use_interface {127,0,0,1} -start_epmd false" in given["ERL_FLAGS"]
    assert nodes.command("epmd-1") == (
        "/opt/r/usr/lib/erlang/bin/epmd", "-address", "127.0.0.1", "-port", given["ERL_EPMD_PORT"]
    )  # fmt: skip


def test_they_share_a_secret_that_only_their_owner_reads(nodes: RabbitNodes) -> None:
    paths = [nodes.folder / name / "home" / ".erlang.cookie" for name in nodes.nodes()]
    assert len({path.read_text(encoding="utf-8") for path in paths}) == 1
    assert {stat.S_IMODE(path.stat().st_mode) for path in paths} == {0o400}


def test_they_are_created_once(nodes: RabbitNodes) -> None:
    before = [nodes.environment(name) for name in nodes.nodes()]
    nodes.create(3)
    assert [nodes.environment(name) for name in nodes.nodes()] == before
    with pytest.raises(ModelError, match="has 3 RabbitMQ nodes, not 1"):
        nodes.create(1)


@pytest.mark.parametrize("count", [0, 10])
def test_there_are_limits(tmp_path: Path, count: int) -> None:
    with pytest.raises(ModelError, match=f"cannot run {count} RabbitMQ nodes"):
        RabbitNodes(tmp_path).create(count)


def test_a_node_that_is_down_says_so(nodes: RabbitNodes) -> None:
    assert not nodes.answers("rabbit-1")
    with pytest.raises(EnvironmentFailure, match=r"no RabbitMQ node in .* is running"):
        nodes.queues()


def row(**given: str) -> dict[str, str]:
    absent = ("messages", "pid", "slave_pids", "synchronised_slave_pids", "online")
    return {**dict.fromkeys(absent, ""), **given}


def test_queues_are_read() -> None:
    mirrored = row(
        type="classic",
        messages="3",
        pid="<rabbit-1@localhost.1795102273.1120.0>",
        slave_pids="[<rabbit-2@localhost.17.6.0>, <rabbit-3@localhost.18.8.0>]",
        synchronised_slave_pids="[<rabbit-3@localhost.18.8.0>]",
    )
    copies = frozenset({"rabbit-2", "rabbit-3"})
    assert read_queue(mirrored) == QueueState("classic", 3, "rabbit-1", copies, frozenset({"rabbit-3"}))
    quorum = row(
        type="quorum",
        messages="0",
        pid="<rabbit-1@localhost.1.2.0>",
        online="[rabbit-1@localhost, rabbit-2@localhost]",
    )
    assert read_queue(quorum) == QueueState("quorum", 0, "rabbit-1", frozenset({"rabbit-2"}), frozenset())
    down = row(type="rabbit_classic_queue")
    assert read_queue(down) == QueueState("classic", 0, "", frozenset(), frozenset())


def test_the_ports_are_written_down(nodes: RabbitNodes) -> None:
    ports = json.loads((nodes.folder / "rabbit-1" / "ports.json").read_text(encoding="utf-8"))
    assert nodes.environment("rabbit-1")["RABBITMQ_DIST_PORT"] == str(ports["distribution"])
