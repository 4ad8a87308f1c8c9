"""A CometBFT chain on this machine: validators that run the Kabis ledger as their application.

    DIR/cometbft-1/address         HOST:PORT of its RPC
    DIR/cometbft-1/config          the node's configuration and key, and CometBFT's genesis
    DIR/cometbft-1/data            its data
    DIR/cometbft-1/log.txt         its output
    DIR/cometbft-1/process.json    its process

Go builds the program from the published module, pinned by version, and verifies the sources against the
public checksum database. Nodes listen only on loopback and keep their addresses across restarts.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from veristream.brokers.group import BrokerGroup
from veristream.cache import cache_directory
from veristream.errors import EnvironmentFailure, ModelError
from veristream.kabis.wire.ports import HOST, draw_ports

VERSION = "v0.38.26"
MODULE = f"github.com/cometbft/cometbft/cmd/cometbft@{VERSION}"
VALIDATORS_MAX = 31
BUILD_PATIENCE_S = 900.0


def find_program() -> Path:
    """Returns the pinned CometBFT program, building it the first time; raises EnvironmentFailure."""
    folder = cache_directory(f"cometbft-{VERSION}")
    program = folder / "cometbft"
    return program if program.is_file() else build(folder)


def build(folder: Path) -> Path:
    """Builds CometBFT with Go into a folder; raises EnvironmentFailure."""
    go = shutil.which("go")
    if go is None:
        raise EnvironmentFailure(
            f"building CometBFT {VERSION} needs Go, and `go` is not on the PATH",
            "install Go 1.22 or newer",
        )
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as made:
        try:
            done = subprocess.run(
                [go, "install", MODULE],
                env={**os.environ, "GOBIN": made},
                capture_output=True,
                text=True,
                check=False,
                timeout=BUILD_PATIENCE_S,
            )
        except subprocess.TimeoutExpired as error:
            raise EnvironmentFailure(
                f"Go did not build CometBFT within {BUILD_PATIENCE_S:.0f} s",
                f"run it by hand: go install {MODULE}",
            ) from error
        if done.returncode != 0:
            said = done.stderr.strip().rpartition("\n")[2]
            raise EnvironmentFailure(
                f"Go cannot build CometBFT: {said}", f"run it by hand: go install {MODULE}"
            )
        os.replace(Path(made) / "cometbft", folder / "cometbft")  # atomic
    return folder / "cometbft"


@dataclass(frozen=True, slots=True)
class _Ports:
    rpc: int
    peers: int
    application: int


class CometNetwork(BrokerGroup):
    """The validators of one chain."""

    KIND: ClassVar[str] = "cometbft"

    def create(self, count: int) -> None:
        """Sets up `count` validators unless they exist; raises ModelError if there are more or fewer."""
        there = len(self.names())
        if there not in (0, count):
            raise ModelError(
                f"{self.folder} has {there} CometBFT validators, not {count}",
                hint="leave out --validators, or choose another folder with --data",
            )
        if not 1 <= count <= VALIDATORS_MAX:
            raise ModelError(
                f"cannot run {count} CometBFT validators", hint=f"choose 1 to {VALIDATORS_MAX}"
            )
        if there:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=self.folder) as made:
            _run(find_program(), "testnet", "--v", str(count), "--o", made, "--node-dir-prefix", "node")
            homes = [Path(made) / f"node{number}" for number in range(count)]
            ports = draw_ports(3 * count)
            self._place(homes, [_Ports(*ports[number::count]) for number in range(count)])

    def _place(self, homes: Sequence[Path], ports: Sequence[_Ports]) -> None:
        """Configures the nodes and moves them into place; the address files, written last, complete it."""
        ids = [_run(find_program(), "show-node-id", "--home", str(home)) for home in homes]
        peers = [f"{id_}@{HOST}:{each.peers}" for id_, each in zip(ids, ports, strict=True)]
        for number, (home, each) in enumerate(zip(homes, ports, strict=True)):
            others = [peer for peer in peers if peer != peers[number]]
            configuration = home / "config" / "config.toml"
            text = configure(configuration.read_text(encoding="utf-8"), _settings(each, others))
            configuration.write_text(text, encoding="utf-8")
            folder = self.folder / f"{self.KIND}-{number + 1}"
            shutil.rmtree(folder, ignore_errors=True)
            os.replace(home, folder)
            folder.chmod(0o700)  # the validator's key is in it
            (folder / "application").write_text(f"{HOST}:{each.application}\n", encoding="utf-8")
        for number, each in enumerate(ports):
            path = self.folder / f"{self.KIND}-{number + 1}" / "address"
            path.write_text(f"{HOST}:{each.rpc}\n", encoding="utf-8")

    def command(self, name: str) -> Sequence[str]:
        """Returns the command of the application, which in turn runs its node."""
        folder = (self.folder / name).resolve()
        listen = (folder / "application").read_text(encoding="utf-8").strip()
        node = (str(find_program()), "start", "--home", str(folder))
        return (sys.executable, "-m", "veristream.kabis.cometbft.process", "--listen", listen, "--", *node)

    def kill(self, name: str) -> None:
        """Kills application and node: one process group, led by the application."""
        running = self.find_one(name)
        if running is not None:
            with suppress(ProcessLookupError):
                os.killpg(running.pid, signal.SIGKILL)
        super().kill(name)

    def answers(self, name: str) -> bool:
        """Whether the node's RPC answers: its application has then replayed all blocks that the node has.

        This does not wait for blocks that only other nodes have: they may not be running.
        """
        try:
            with urllib.request.urlopen(f"http://{self.address(name)}/status", timeout=1.0) as reply:
                return "result" in json.loads(reply.read())
        except (OSError, ValueError):
            return False


def _run(program: Path, *arguments: str) -> str:
    done = subprocess.run([str(program), *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        said = (done.stderr.strip() or done.stdout.strip()).partition("\n")[0]
        raise EnvironmentFailure(f"cometbft {arguments[0]} failed: {said}")
    return done.stdout.strip()


def _settings(ports: _Ports, peers: Sequence[str]) -> dict[str, str]:
    """Returns the settings that differ from CometBFT's defaults: loopback only, and short timeouts."""
    return {
        "proxy_app": f'"tcp://{HOST}:{ports.application}"',
        "log_level": '"error"',
        "rpc.laddr": f'"tcp://{HOST}:{ports.rpc}"',
        "p2p.laddr": f'"tcp://{HOST}:{ports.peers}"',
        "p2p.persistent_peers": f'"{",".join(peers)}"',
        "p2p.persistent_peers_max_dial_period": '"1s"',
        "p2p.addr_book_strict": "false",
        "p2p.allow_duplicate_ip": "true",
        "p2p.pex": "false",
        "p2p.flush_throttle_timeout": '"5ms"',
        "mempool.max_txs_bytes": str(64 << 20),
        "mempool.max_tx_bytes": str(1 << 20),
        "consensus.timeout_propose": '"1s"',
        "consensus.timeout_prevote": '"300ms"',
        "consensus.timeout_precommit": '"300ms"',
        "consensus.timeout_commit": '"20ms"',
        "consensus.skip_timeout_commit": "true",
        "consensus.create_empty_blocks": "false",
        "consensus.peer_gossip_sleep_duration": '"20ms"',
        "tx_index.indexer": '"null"',
    }


def configure(text: str, settings: Mapping[str, str]) -> str:
    """Replaces values in a configuration; raises EnvironmentFailure if a setting is missing."""
    left, section, lines = dict(settings), "", []
    for line in text.splitlines():
        header = re.fullmatch(r"\[(\w+)\]", line.strip())
        setting = re.match(r"([\w-]+)\s*=", line)
        if header:
            section = header[1] + "."
        if setting and section + setting[1] in left:
            line = f"{setting[1]} = {left.pop(section + setting[1])}"
        lines.append(line)
    if left:
        raise EnvironmentFailure(
            f"CometBFT's configuration has no {', '.join(left)}", f"install CometBFT {VERSION}"
        )
    return "\n".join(lines) + "\n"
