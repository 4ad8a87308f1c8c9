"""NSQ's configuration and build, without running it."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from veristream.brokers.nsq.build import find_programs
from veristream.brokers.nsq.nodes import NsqNodes
from veristream.errors import EnvironmentFailure, ModelError


def arguments(nodes: NsqNodes, name: str) -> dict[str, str]:
    words = json.loads((nodes.folder / name / "arguments.json").read_text(encoding="utf-8"))
    return {key: value for key, _, value in (word.removeprefix("--").partition("=") for word in words)}


def test_every_nsqd_registers_with_nsqlookupd(tmp_path: Path) -> None:
    nodes = NsqNodes(tmp_path, {"mem-queue-size": "0"})
    nodes.create(2)
    assert nodes.names() == ["nsqlookupd-1", "nsqd-1", "nsqd-2"]
    assert nodes.entrances() == [nodes.address("nsqd-1"), nodes.address("nsqd-2")]
    assert nodes.lookup == nodes.http("nsqlookupd-1")
    second = arguments(nodes, "nsqd-2")
    assert second["lookupd-tcp-address"] == nodes.address("nsqlookupd-1")
    assert second["tcp-address"] == nodes.address("nsqd-2")
    assert (second["node-id"], second["mem-queue-size"]) == ("2", "0")
    assert "mem-queue-size" not in arguments(nodes, "nsqlookupd-1")
    assert len({nodes.address(name) for name in nodes.names()} | set(map(nodes.http, nodes.names()))) == 6


def test_options_are_replaced(tmp_path: Path) -> None:
    nodes = NsqNodes(tmp_path, {"mem-queue-size": "0"})
    nodes.create(2)
    nodes.configure({"sync-every": "1"}, ["nsqd-2"])
    assert arguments(nodes, "nsqd-1")["mem-queue-size"] == "0"
    second = arguments(nodes, "nsqd-2")
    assert second["sync-every"] == "1"
    assert "mem-queue-size" not in second
    assert second["tcp-address"] == nodes.address("nsqd-2")


def test_options_of_nsqlookupd_are_its_own(tmp_path: Path) -> None:
    nodes = NsqNodes(tmp_path, {"mem-queue-size": "0"})
    nodes.create(1)
    nodes.configure_lookup({"tombstone-lifetime": "3s"})
    assert arguments(nodes, "nsqlookupd-1") == {
        "tcp-address": nodes.address("nsqlookupd-1"),
        "http-address": nodes.lookup,
        "broadcast-address": "127.0.0.1",
        "tombstone-lifetime": "3s",
    }
    assert "tombstone-lifetime" not in arguments(nodes, "nsqd-1")
    with pytest.raises(ModelError, match="is not an option of nsqlookupd"):
        nodes.configure_lookup({"--x": "1"})


def test_it_is_created_once(tmp_path: Path) -> None:
    nodes = NsqNodes(tmp_path)
    nodes.create(1)
    before = nodes.entrances()
    nodes.create(1)
    assert nodes.entrances() == before
    with pytest.raises(ModelError, match="has 1 nsqd, not 2"):
        nodes.create(2)


@pytest.mark.parametrize("count", [0, 10])
def test_there_are_limits(tmp_path: Path, count: int) -> None:
    with pytest.raises(ModelError, match=f"cannot run {count} nsqd"):
        NsqNodes(tmp_path).create(count)


@pytest.mark.parametrize("option", ["--sync-every", "", "sync every", "-v"])
def test_what_cannot_be_an_option_is_refused(tmp_path: Path, option: str) -> None:
    with pytest.raises(ModelError, match="is not an option of nsqd"):
        NsqNodes(tmp_path, {option: "1"}).create(1)


def test_a_node_that_is_down_says_so(tmp_path: Path) -> None:
    nodes = NsqNodes(tmp_path)
    nodes.create(1)
    with pytest.raises(EnvironmentFailure, match="nsqd-1 does not answer"):
        nodes.depths("nsqd-1", "orders")
    with pytest.raises(EnvironmentFailure, match="nsqd-1 does not answer"):
        nodes.create_topic("nsqd-1", "orders")


def test_without_go_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VERISTREAM_CACHE", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EnvironmentFailure, match="`go` is not on the PATH") as caught:
        find_programs()
    assert "golang-go" in caught.value.hint


def fake_go(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    go = folder / "go"
    go.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    go.chmod(go.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("VERISTREAM_CACHE", str(folder / "cache"))
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


def test_what_go_says_is_passed_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong checksum, for example. Nothing is left, so that the next attempt starts from scratch."""
    fake_go(tmp_path, "echo downloading >&2; echo 'SECURITY ERROR' >&2; exit 1", monkeypatch)
    with pytest.raises(EnvironmentFailure, match=r"cannot build NSQ 1\.3\.0: SECURITY ERROR"):
        find_programs()
    assert list((tmp_path / "cache" / "nsq-1.3.0").iterdir()) == []


def test_go_sees_the_pins_and_may_not_change_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second call finds what the first has built."""
    monkeypatch.setenv("GOFLAGS", "-mod=mod")
    script = f"""
    cat go.mod go.sum > {tmp_path}/seen
    echo "$GOFLAGS|$2" >> {tmp_path}/runs
    mkdir bin && touch bin/nsqd bin/nsqlookupd"""
    fake_go(tmp_path, script, monkeypatch)
    folder = find_programs()
    assert find_programs() == folder
    assert sorted(path.name for path in folder.iterdir()) == ["nsqd", "nsqlookupd"]
    assert (tmp_path / "runs").read_text(encoding="utf-8") == "|-mod=readonly\n"
    seen = (tmp_path / "seen").read_text(encoding="utf-8")
    assert "github.com/nsqio/nsq v1.3.0\n" in seen
    assert "github.com/nsqio/nsq v1.3.0 h1:" in seen
