"""`kabis doctor` finds planted faults, each with its place and what to do, and nothing else."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.kabis.session.console import Console, Ended, opened
from veristream.kabis.cluster.folder import ClusterFolder
from veristream.kabis.operations.cluster_check import check_clock, check_heights
from veristream.kabis.operations.folder_check import check_folder
from veristream.kabis.ordering.requests import Status
from veristream.kabis.protocol.keys import make_key, save_key
from veristream.kabis.wire.endpoints import Address

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def used(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of a cluster that has ordered some events and is down."""
    with opened(tmp_path_factory.mktemp("used") / "cluster") as console:
        console.do("up", "--detach", "--parties", "1")
        console.do("topic", "create", "orders")
        console.do("produce", "orders", given="one\ntwo\n")
        assert found(console("doctor", "--json")) == []
        console.do("down")
        yield console.data


@pytest.fixture
def console(used: Path, tmp_path: Path) -> Console:
    """A copy of it to damage."""
    shutil.copytree(used, tmp_path / "cluster")
    (tmp_path / "cluster").chmod(0o700)
    return Console(tmp_path / "cluster")


def found(ended: Ended) -> list[tuple[str, str]]:
    """What and where of each error."""
    findings = json.loads(ended.output)["findings"]
    assert all(each["do"] for each in findings)
    errors = [(each["what"], each["where"]) for each in findings if each["severity"] == "error"]
    assert ended.code == (1 if errors else 0)
    return errors


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 10)


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-20] ^= 1
    path.write_bytes(data)


def replace_key(path: Path) -> None:
    path.unlink()
    save_key(path, make_key(bytes(32)))


PLANTED: dict[str, tuple[str, Callable[[Path], object], str]] = {
    "a truncated segment": ("storage-1/log/*.segment", cut, "damaged at byte"),
    "a flipped bit of a block": ("validator-1/blocks/*.segment", flip, "damaged at byte"),
    "deleted votes": (
        "validator-1/records",
        shutil.rmtree,
        "the records of this validator's votes are missing",
    ),
    "a key that others may read": ("storage-1/key", lambda path: path.chmod(0o644), "others may read"),
    "a client's key that others may read": (
        "keys/producer",
        lambda path: path.chmod(0o640),
        "others may read",
    ),
    "a missing key": ("validator-1/key", Path.unlink, "cannot read"),
    "another key": ("storage-1/key", replace_key, "the key is not that of storage-1"),
    "a missing folder": ("storage-1", shutil.rmtree, "storage-1 has no folder"),
    "a broken list of clients": (
        "clients.json",
        lambda path: path.write_text("{"),
        "is not a list of clients",
    ),
}


@pytest.mark.parametrize("fault", PLANTED)
def test_a_planted_fault_is_the_only_finding(console: Console, fault: str) -> None:
    assert found(console("doctor", "--json")) == []
    pattern, plant, message = PLANTED[fault]
    (path,) = console.data.glob(pattern)
    plant(path)
    ((what, where),) = found(console("doctor", "--json"))
    assert message in what
    assert where == str(path)
    shown = console("doctor").output
    assert f"  at: {path}\n  do: " in shown
    assert shown.endswith("the cluster is down, so only its folder was checked\n")


def test_a_wrong_setting_is_found(console: Console) -> None:
    (console.data / "kabis.toml").write_text("[log]\nfiles = 1\n", encoding="utf-8")
    assert found(console("doctor", "--json")) == [("unknown key `files`", str(console.data / "kabis.toml"))]


def test_an_open_folder_is_a_warning(console: Console) -> None:
    console.data.chmod(0o755)
    assert found(console("doctor", "--json")) == []
    assert "warning: others may enter the folder (mode 755)" in console("doctor").output


def test_a_port_in_use_is_found(console: Console) -> None:
    address = console.cluster.genesis.storage[0].address
    with socket.create_server((Address.parse(address).host, Address.parse(address).port)):
        ((what, where),) = found(console("doctor", "--json"))
    assert (where, "storage-1 is down and cannot listen" in what) == (address, True)


def test_a_broken_genesis_or_none(console: Console, tmp_path: Path) -> None:
    ClusterFolder(console.data).genesis_path.write_text("{}", encoding="utf-8")
    assert console("doctor").code == 2
    assert Console(tmp_path / "nowhere")("doctor").code == 2


def test_a_full_disk_and_few_files(console: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    from veristream.kabis.operations import folder_check

    monkeypatch.setattr(folder_check, "DISK_FREE_MIN_BYTES", 1 << 60)
    monkeypatch.setattr(folder_check, "DISK_FREE_WARNED_BYTES", 1 << 60)
    (console.data / "kabis.toml").write_text("[quotas]\nfiles_reserved = 1_000_000_000\n", encoding="utf-8")
    told = [finding.what for finding in check_folder(console.cluster)]
    assert ["MiB are free" in told[0], "a process may open" in told[1], len(told)] == [True, True, 2]


def test_a_dead_and_a_silent_party_are_found(console: Console) -> None:
    with opened(console.data):
        console.do("up", "--detach", "--port", "0")
        assert found(console("doctor", "--json")) == []
        console.cluster.find()["validator-1"].signal(signal.SIGSTOP)
        silent = found(console("doctor", "--json"))
        console.cluster.find()["validator-1"].signal(signal.SIGCONT)
        assert silent == [("validator-1 runs but does not answer", "validator-1")]
        console.cluster.kill("storage-1")
        assert found(console("doctor", "--json")) == [("storage-1 is down", "storage-1")]


def status(height: int, block: int = 0, time_ms: int = 0) -> Status:
    return Status(height, bytes([block]) * 32, bytes(32), time_ms, 0, 0, 0, 0, 0)


def test_heights_blocks_and_clocks() -> None:
    assert list(check_heights({"a": status(5), "b": status(5), "c": status(4, 9)})) == []
    (forked,) = check_heights({"a": status(5), "b": status(5, 1)})
    assert forked.what == "b and a have different blocks or states at height 5"
    (behind,) = check_heights({"a": status(50), "b": status(5)})
    assert behind.what == "b lacks 45 blocks"
    assert list(check_clock({"a": status(1, time_ms=100_000)}, 99.0)) == []
    (ahead,) = check_clock({"a": status(1, time_ms=100_000)}, 40.0)
    assert ahead.what == "the last block is 60 s ahead of this machine's clock"
