"""How CometBFT is found, built and set up, and `veristream broker up cometbft`."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.brokers.comet import running
from veristream.brokers.cometbft import MODULE, CometNetwork, build, configure, find_program
from veristream.cli.app import app
from veristream.errors import EnvironmentFailure, ModelError

CONFIGURATION = """\
# what it is
proxy_app = "tcp://127.0.0.1:26658"
[rpc]
laddr = "tcp://127.0.0.1:26657"
# laddr is an address
[p2p]
laddr = "tcp://0.0.0.0:26656"
max-size = 7
"""


def test_settings_are_changed_in_their_section_alone() -> None:
    changed = configure(CONFIGURATION, {"proxy_app": '"x"', "p2p.laddr": '"y"', "p2p.max-size": "8"})
    assert changed == CONFIGURATION.replace('"tcp://127.0.0.1:26658"', '"x"').replace(
        '"tcp://0.0.0.0:26656"', '"y"'
    ).replace("= 7", "= 8")


def test_a_setting_that_is_not_there_is_not_passed_over() -> None:
    with pytest.raises(EnvironmentFailure, match=r"has no rpc\.proxy_app"):
        configure(CONFIGURATION, {"rpc.proxy_app": '"x"'})


def test_without_go_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("VERISTREAM_CACHE", str(tmp_path))
    with pytest.raises(EnvironmentFailure, match="`go` is not on the PATH") as caught:
        find_program()
    assert caught.value.hint.startswith("install Go")


def make_go(folder: Path, script: str) -> Path:
    path = folder / "go"
    path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    path.chmod(0o755)
    return folder


def test_go_is_asked_for_the_pinned_module_and_only_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    script = f'echo "$@" >> {tmp_path}/asked; echo built > "$GOBIN/cometbft"'
    monkeypatch.setenv("PATH", f"{make_go(tmp_path, script)}:/usr/bin:/bin")
    monkeypatch.setenv("VERISTREAM_CACHE", str(tmp_path / "cache"))
    assert find_program() == find_program()
    assert find_program().read_text() == "built\n"
    assert (tmp_path / "asked").read_text() == f"install {MODULE}\n"
    assert MODULE.endswith("/cmd/cometbft@v0.38.26")


def test_a_build_that_fails_leaves_nothing_and_says_why(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(make_go(tmp_path, "echo no such module >&2; exit 1")))
    with pytest.raises(EnvironmentFailure, match="Go cannot build CometBFT: no such module"):
        build(tmp_path / "cache")
    assert list((tmp_path / "cache").iterdir()) == []


def test_a_folder_has_as_many_validators_as_it_had(tmp_path: Path) -> None:
    (tmp_path / "cometbft-1").mkdir()
    (tmp_path / "cometbft-1" / "address").write_text("127.0.0.1:1\n")
    with pytest.raises(ModelError, match="has 1 CometBFT validators, not 4"):
        CometNetwork(tmp_path).create(4)
    with pytest.raises(ModelError, match="0 CometBFT validators"):
        CometNetwork(tmp_path / "other").create(0)


@pytest.mark.brokers
@pytest.mark.xdist_group("cometbft")
def test_what_is_set_up_listens_on_loopback_alone_and_keeps_its_keys_to_itself(tmp_path: Path) -> None:
    with running(tmp_path) as network:
        for name in network.names():
            folder = tmp_path / name
            assert stat.S_IMODE(folder.stat().st_mode) == 0o700
            text = (folder / "config" / "config.toml").read_text()
            addresses = [line for line in text.splitlines() if "laddr =" in line and "tcp://" in line]
            assert len(addresses) == 2
            assert all("tcp://127.0.0.1:" in line for line in addresses)
        genesis = {(tmp_path / name / "config" / "genesis.json").read_bytes() for name in network.names()}
        assert len(genesis) == 1
        assert len(json.loads(genesis.pop())["validators"]) == 4


@pytest.mark.brokers
@pytest.mark.xdist_group("cometbft")
def test_up_status_and_down_as_commands(tmp_path: Path) -> None:
    def run(*words: str) -> tuple[int, str]:
        done = CliRunner().invoke(app, ["broker", *words, "--data", str(tmp_path)], catch_exceptions=False)
        return done.exit_code, done.stdout

    try:
        code, said = run("up", "cometbft", "--validators", "1", "--detach")
        assert code == 0
        address = (tmp_path / "cometbft-1" / "address").read_text().strip()
        assert said.splitlines() == [
            f"1 CometBFT validators in {tmp_path}: {address}",
            "stop them with: veristream broker down",
        ]
        code, said = run("status")
        assert (code, address in said) == (0, True)
    finally:
        assert run("down") == (0, "stopped cometbft-1\n")
    code, said = run("status")
    assert (code, "down" in said) == (3, True)
