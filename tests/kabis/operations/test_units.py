"""Units of systemd: what they run and forbid, as a parser and as systemd read them."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
import time
from configparser import ConfigParser
from pathlib import Path

import pytest

from tests.kabis.session.console import Console
from veristream.kabis.cluster.processes import read_ready
from veristream.kabis.operations.units import quote


@pytest.fixture
def console(tmp_path: Path) -> Console:
    console = Console(tmp_path / "a cluster of 100%")
    console.cluster.create(1)
    return console


def read(path: Path) -> ConfigParser:
    parser = ConfigParser(interpolation=None, strict=True)
    parser.optionxform = str  # type: ignore[assignment, method-assign] # names keep their case
    parser.read_string(path.read_text(encoding="utf-8"))
    return parser


def test_a_service_for_each_party_and_a_target(console: Console, tmp_path: Path) -> None:
    (console.data / "kabis.toml").write_text("[quotas]\nconnections_max = 500\n", encoding="utf-8")
    chain, out = console.cluster.genesis.chain_id, tmp_path / "units"
    shown = console.do("units", out, "--user", "streams").output.splitlines()
    assert [Path(line).name for line in shown] == [
        f"{chain}.target",
        f"{chain}-validator-1.service",
        f"{chain}-storage-1.service",
    ]
    target = read(out / f"{chain}.target")
    assert target["Unit"]["Wants"].split() == [f"{chain}-validator-1.service", f"{chain}-storage-1.service"]
    service = read(out / f"{chain}-validator-1.service")
    run = service["Service"]
    assert (run["User"], run["Restart"], run["LimitNOFILE"]) == ("streams", "on-failure", "756")
    assert (run["RestartPreventExitStatus"], run["NoNewPrivileges"]) == ("2", "yes")
    assert run["ProtectSystem"] == "strict"
    folder = (console.data / "validator-1").resolve()
    assert shlex.split(run["ReadWritePaths"].replace("%%", "%")) == [str(folder)]
    command = shlex.split(run["ExecStart"].replace("%%", "%"))
    assert command[:3] == [sys.executable, "-m", "veristream.kabis.cluster.party"]
    assert command[command.index("--folder") + 1] == str(folder)
    assert "--attended" not in command


def test_what_is_run_starts_the_party(console: Console, tmp_path: Path) -> None:
    """The command of the unit, run by hand, refuses what the party refuses: it is complete."""
    chain = console.cluster.genesis.chain_id
    console.do("units", tmp_path / "units")
    command = shlex.split(
        read(tmp_path / "units" / f"{chain}-storage-1.service")["Service"]["ExecStart"].replace("%%", "%")
    )
    (console.data / "storage-1" / "key").chmod(0o644)
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (ended.returncode, "others may read" in ended.stderr) == (2, True)


def test_a_party_of_systemd_is_found_by_the_other_commands(console: Console, tmp_path: Path) -> None:
    chain = console.cluster.genesis.chain_id
    console.do("units", tmp_path / "units")
    service = read(tmp_path / "units" / f"{chain}-storage-1.service")["Service"]
    with subprocess.Popen(shlex.split(service["ExecStart"].replace("%%", "%"))) as party:
        deadline_s = time.monotonic() + 60
        while read_ready(console.data / "storage-1") != party.pid:
            assert time.monotonic() < deadline_s, "it does not answer"
            time.sleep(0.05)
        assert {name: each.pid for name, each in console.cluster.find().items()} == {"storage-1": party.pid}
        assert console.do("down").output == "stopped storage-1\n"
    assert party.returncode == 0


def test_words_are_quoted() -> None:
    assert quote("/usr/bin/python3") == "/usr/bin/python3"
    assert quote("a b") == '"a b"'
    assert quote('a"b\\c') == '"a\\"b\\\\c"'
    assert quote("100%$HOME") == '"100%%$$HOME"'


def test_what_units_refuses(console: Console, tmp_path: Path) -> None:
    assert console("units", tmp_path / "units", "--user", "a\nUser=root").code == 2
    (tmp_path / "file").write_text("", encoding="utf-8")
    assert console("units", tmp_path / "file").code == 3
    assert Console(tmp_path / "nowhere")("units", tmp_path / "units").code == 2
    assert not (tmp_path / "units").exists()


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd-analyze")
def test_systemd_accepts_them(console: Console, tmp_path: Path) -> None:
    console.do("units", tmp_path / "units", "--user", "root")
    files = sorted(map(str, (tmp_path / "units").iterdir()))
    checked = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *files], capture_output=True, text=True, check=False
    )
    assert checked.returncode == 0, checked.stderr
