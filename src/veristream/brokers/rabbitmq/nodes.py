"""RabbitMQ on this machine: one node, or several in a cluster, and Erlang's port mapper, epmd.

    DIR/epmd-1/                     tells nodes and tools at which port a node is
    DIR/rabbit-1/address            HOST:PORT for clients
    DIR/rabbit-1/ports.json         its port for other nodes
    DIR/rabbit-1/rabbitmq.conf      its configuration
    DIR/rabbit-1/home               has the secret that nodes and tools share
    DIR/rabbit-1/data               what it has on disk
    DIR/rabbit-1/log.txt            its output
    DIR/rabbit-1/process.json       its process

All of them listen on loopback only. Clients log in as `guest` with the password `guest`.
"""

from __future__ import annotations

import csv
import json
import os
import re
import secrets
import socket
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import ClassVar, TypeVar

from veristream.brokers.group import BrokerGroup
from veristream.brokers.rabbitmq.build import RabbitPrograms, find_programs
from veristream.errors import EnvironmentFailure, ModelError
from veristream.kabis.cluster import processes
from veristream.kabis.wire.ports import HOST, draw_ports

EPMD = "epmd-1"
NODES_MAX = 9
PATIENCE_S = 120.0
TOOL_S = 60.0
ASK_S = 0.25
"""How often to ask for what the nodes must still agree on: each question starts an Erlang of its own."""
COLUMNS = ("name", "type", "messages", "pid", "slave_pids", "synchronised_slave_pids", "online")
GREETING = b"AMQP\x00\x00\x09\x01"
Found = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class QueueState:
    """A queue as one node sees it: what is in it, which node leads it, and which others have a copy.

    `synchronised` are the copies that have every message; a quorum queue does not tell them apart.
    """

    kind: str
    messages: int
    leader: str
    copies: frozenset[str]
    synchronised: frozenset[str]


class RabbitNodes(BrokerGroup):
    """A cluster of nodes, `rabbit-1` and so on, for `kill`, `pause`, `resume` and `start`.

        with RabbitNodes(folder) as rabbit:
            rabbit.create(3)
            rabbit.start()
            rabbit.set_policy("copies", "^orders$", {"ha-mode": "all"})
            rabbit.kill(rabbit.leader("orders"))

    `settings` are lines of rabbitmq.conf, which apply to nodes when they are created.
    """

    KIND: ClassVar[str] = "rabbit"

    def __init__(self, folder: Path, settings: Mapping[str, str] | None = None) -> None:
        super().__init__(folder)
        self.settings = settings or {}

    @cached_property
    def programs(self) -> RabbitPrograms:
        """RabbitMQ and its Erlang; raises EnvironmentFailure."""
        return find_programs()

    def names(self) -> list[str]:
        """Returns epmd and then the nodes."""
        there = (self.folder / EPMD / "address").exists()
        return [EPMD, *self.nodes()] if there else []

    def nodes(self) -> list[str]:
        """Returns the names of the nodes."""
        return super().names()

    def entrances(self) -> list[str]:
        """Returns the addresses of the nodes."""
        return [self.address(name) for name in self.nodes()]

    def url(self, name: str) -> str:
        """Returns the URL that a client of a node connects to."""
        return f"amqp://guest:guest@{self.address(name)}/%2F"

    def create(self, nodes: int = 3) -> None:
        """Sets up the nodes unless they exist; raises ModelError if their number differs."""
        there = len(self.nodes())
        if self.names() and there != nodes:
            raise ModelError(
                f"{self.folder} has {there} RabbitMQ nodes, not {nodes}",
                hint="leave out --nodes, or choose another folder with --data",
            )
        if not 1 <= nodes <= NODES_MAX:
            raise ModelError(f"cannot run {nodes} RabbitMQ nodes", hint=f"choose 1 to {NODES_MAX}")
        if self.names():
            return
        epmd, *ports = draw_ports(1 + 2 * nodes)
        secret = secrets.token_hex(16)
        names = [f"{self.KIND}-{number}" for number in range(1, nodes + 1)]
        settings = {**_settings(names), **self.settings}
        for number, name in enumerate(names):
            self._write(name, settings, (ports[2 * number], ports[2 * number + 1]), secret)
        (self.folder / EPMD).mkdir(parents=True, exist_ok=True)
        (self.folder / EPMD / "address").write_text(f"{HOST}:{epmd}\n", encoding="utf-8")  # completes it

    def command(self, name: str) -> Sequence[str]:
        """Returns the command line of epmd, or the one that becomes a node."""
        if name == EPMD:
            _, _, port = self.address(EPMD).rpartition(":")
            return (str(self.programs.epmd), "-address", HOST, "-port", port)
        variables = [f"{key}={value}" for key, value in self.environment(name).items()]
        return ("env", "-i", *variables, str(self.programs.script("rabbitmq-server")))

    def environment(self, name: str) -> dict[str, str]:
        """Returns the variables with which a node runs."""
        folder = (self.folder / name).resolve()
        host, _, port = self.address(name).rpartition(":")
        distribution = json.loads((folder / "ports.json").read_text(encoding="utf-8"))["distribution"]
        return {
            **self._shared(name),
            "RUNNING_UNDER_SYSTEMD": "true",  # the script then becomes the node, with the same process id
            "RABBITMQ_NODE_IP_ADDRESS": host,
            "RABBITMQ_NODE_PORT": port,
            "RABBITMQ_DIST_PORT": str(distribution),
            "RABBITMQ_MNESIA_BASE": str(folder / "data"),
            "RABBITMQ_LOG_BASE": str(folder),
            "RABBITMQ_LOGS": "-",
            "RABBITMQ_CONFIG_FILE": str(folder / "rabbitmq.conf"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "enabled_plugins"),
            "RABBITMQ_PID_FILE": str(folder / "pid"),
            # One thread: several nodes share a small machine.
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "+S 1:1 +A 8",
        }

    def answers(self, name: str) -> bool:
        """Whether a node greets clients, which it does once it has joined its cluster; or epmd listens."""
        host, _, port = self.address(name).rpartition(":")
        try:
            with socket.create_connection((host, int(port)), timeout=1.0) as connection:
                if name == EPMD:
                    return True
                connection.sendall(GREETING)
                return connection.recv(11)[:1] == b"\x01"  # a frame that calls a method: start
        except OSError:
            return False

    def start(self, names: Iterable[str] | None = None) -> list[str]:
        """Starts what is not running, epmd first, and waits until all nodes are ready."""
        wanted = self.names() if names is None else list(names)
        started = super().start([EPMD]) if EPMD in self.names() else []
        nodes = super().start([name for name in wanted if name != EPMD])
        for name in nodes:
            self.note(name)
        return [*started, *nodes] if EPMD in wanted else nodes

    def restart(self, names: Iterable[str] | None = None) -> list[str]:
        """Stops nodes, by default all, and starts them again; returns the names of those it started."""
        return self.start(self.stop(self.nodes() if names is None else names))

    def last_words(self, name: str) -> tuple[str, str]:
        """Returns the first error that a node logged: what follows are its consequences."""
        lines = processes.last_lines(self.folder / name, 200)
        wrong = [line for line in lines if "[error]" in line or "BOOT FAILED" in line]
        told = [line.partition("> ")[2].strip() for line in wrong]
        said = [words for words in told if words.strip("= ")]
        return (said[0], "") if said else super().last_words(name)

    def control(self, name: str, *words: str) -> str:
        """Runs rabbitmqctl with a node and returns its output; raises EnvironmentFailure if it fails."""
        return self._run(name, "rabbitmqctl", *words)

    def set_policy(
        self, policy: str, pattern: str, definition: Mapping[str, str | int], *, name: str | None = None
    ) -> None:
        """Sets a policy for the queues whose names match, such as `{"ha-mode": "all"}`."""
        node = self._one() if name is None else name
        self.control(node, "set_policy", "--apply-to", "queues", policy, pattern, json.dumps(definition))

    def members(self, name: str) -> list[str]:
        """Returns the nodes that a node knows as running, itself included."""
        found = json.loads(self.control(name, "cluster_status", "--formatter", "json"))
        return sorted(_name(each) for each in found["running_nodes"])

    def wait_for_cluster(self, names: Iterable[str] | None = None) -> None:
        """Waits until these nodes, by default all, know each other and no other one as running."""
        wanted = sorted(self.nodes() if names is None else names)

        def agreed() -> bool | None:
            return True if all(self.members(name) == wanted for name in wanted) else None

        _wait(agreed, f"{', '.join(wanted)} are not one cluster")

    def queues(self, name: str | None = None) -> dict[str, QueueState]:
        """Returns the queues that a node knows, by default the first that runs."""
        said = self.control(name or self._one(), "list_queues", "--formatter", "csv", *COLUMNS)
        return {each["name"]: read_queue(each) for each in csv.DictReader(said.splitlines())}

    def leader(self, queue: str, *, other_than: str | None = None, seen_by: str | None = None) -> str:
        """Waits until a queue has a leader, `other_than` a former one, and returns its name."""

        def find() -> str | None:
            found = self.queues(seen_by).get(queue)
            return found.leader if found and found.leader not in ("", other_than) else None

        return _wait(find, f"{queue} has no {'other ' if other_than else ''}leader")

    def _one(self) -> str:
        """Returns the first node that runs and is not paused."""
        up = self.find()
        for name in self.nodes():
            if name in up and not processes.is_paused(up[name]):
                return name
        raise EnvironmentFailure(f"no RabbitMQ node in {self.folder} is running", "start one first")

    def _shared(self, name: str) -> dict[str, str]:
        """Returns the variables that a node and its tools have in common."""
        folder = (self.folder / name).resolve()
        _, _, port = self.address(EPMD).rpartition(":")
        return {
            **self.programs.environment(),
            "HOME": str(folder / "home"),
            "ERL_EPMD_ADDRESS": HOST,
            "ERL_EPMD_PORT": port,
            # No Erlang listens elsewhere, none starts an epmd that would outlive it, none dumps its memory.
            "ERL_FLAGS": "-kernel inet_dist_use_interface {127,0,0,1} -start_epmd false",
            "ERL_CRASH_DUMP_BYTES": "0",
            "RABBITMQ_NODENAME": f"{name}@localhost",
            "RABBITMQ_CONF_ENV_FILE": str(folder / "none"),
            "RABBITMQ_CTL_DIST_PORT_MIN": "0",
            "RABBITMQ_CTL_DIST_PORT_MAX": "0",
        }

    def _run(self, name: str, script: str, *words: str) -> str:
        command = [str(self.programs.script(script)), "-q", "-n", f"{name}@localhost", *words]
        try:
            done = subprocess.run(
                command,
                env=self._shared(name),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=False,
                timeout=TOOL_S,
            )
        except subprocess.TimeoutExpired as late:
            raise EnvironmentFailure(
                f"{name} did not answer {script} within {TOOL_S:.0f} s",
                f"see {self.folder / name / 'log.txt'}",
            ) from late
        if done.returncode != 0:
            text = (done.stderr or done.stdout).partition("Arguments given:")[0].removeprefix("Error:")
            said = " ".join(text.split()) or f"exit {done.returncode}"
            raise EnvironmentFailure(
                f"{name} refuses {script} {words[0]}: {said}",
                f"see {self.folder / name / 'log.txt'}",
            )
        return done.stdout

    def _write(self, name: str, settings: Mapping[str, str], ports: tuple[int, int], secret: str) -> None:
        folder = self.folder / name
        (folder / "home").mkdir(parents=True, exist_ok=True)
        cookie = folder / "home" / ".erlang.cookie"
        cookie.unlink(missing_ok=True)
        with open(
            os.open(cookie, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o400), "w", encoding="utf-8"
        ) as file:
            file.write(secret)
        lines = "".join(f"{key} = {value}\n" for key, value in settings.items())
        (folder / "rabbitmq.conf").write_text(lines, encoding="utf-8")
        (folder / "enabled_plugins").write_text("[].\n", encoding="utf-8")
        (folder / "ports.json").write_text(json.dumps({"distribution": ports[1]}) + "\n", encoding="utf-8")
        (folder / "address").write_text(f"{HOST}:{ports[0]}\n", encoding="utf-8")


def _settings(names: Sequence[str]) -> dict[str, str]:
    """Returns the configuration of a node; with it, others notice in 6 to 10 s that one hangs."""
    members = {
        f"cluster_formation.classic_config.nodes.{number}": f"{name}@localhost"
        for number, name in enumerate(names, 1)
    }
    return {
        "loopback_users.guest": "true",
        "vm_memory_high_watermark.absolute": "512MB",
        "disk_free_limit.absolute": "50MB",
        "cluster_formation.peer_discovery_backend": "classic_config",
        **members,
        "cluster_partition_handling": "pause_minority",
        "net_ticktime": "8",
    }


def _name(node: str) -> str:
    """Returns our name of an Erlang node."""
    return node.partition("@")[0]


def read_queue(row: Mapping[str, str]) -> QueueState:
    """Reads a row of `rabbitmqctl list_queues`, in which a process is `<node@host.1.2.3>`."""
    leader = "".join(_nodes(row["pid"]))
    return QueueState(
        kind=row["type"].removeprefix("rabbit_").removesuffix("_queue"),  # so if its node is down
        messages=int(row["messages"] or 0),
        leader=leader,
        copies=_nodes(row["slave_pids"] or row["online"]) - {leader},
        synchronised=_nodes(row["synchronised_slave_pids"]),
    )


def _nodes(words: str) -> frozenset[str]:
    return frozenset(_name(word) for word in re.findall(r"[^\[\]<>, ]+", words))


def _wait(find: Callable[[], Found | None], problem: str) -> Found:
    """Returns what `find` returns once it is not None; raises EnvironmentFailure if that takes too long."""
    deadline_s = time.monotonic() + PATIENCE_S
    said = ""
    while True:
        try:
            if (found := find()) is not None:
                return found
        except EnvironmentFailure as failure:  # a node may be refusing questions for a moment
            said = f": {failure.message}"
        if time.monotonic() > deadline_s:
            raise EnvironmentFailure(
                f"{problem} after {PATIENCE_S:.0f} s{said}", "see log.txt of the nodes"
            )
        time.sleep(ASK_S)
