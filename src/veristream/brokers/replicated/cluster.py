"""A Kafka cluster of several brokers: each partition has replicas on different ones, and a leader.

    DIR/controller-1/                   the controller: who is alive, who leads what
    DIR/controller-1/version            the version of Kafka that created the cluster
    DIR/broker-1/address                HOST:PORT for clients
    DIR/broker-1/server.properties      its configuration
    DIR/broker-1/data                   its data
    DIR/broker-1/log.txt                its output
    DIR/broker-1/process.json           its process

Brokers talk to each other on a listener of their own, so that a proxy can stand between clients and
brokers, or between two brokers, and not in the other's way.
"""

from __future__ import annotations

import base64
import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import ClassVar, Literal, TypeVar

from veristream.brokers.group import BrokerGroup
from veristream.brokers.kafka import KAFKA_VERSION, Program, answers, find_program
from veristream.brokers.replicated.requests import Metadata, Partition, ask_metadata, ask_new_topic
from veristream.errors import EnvironmentFailure, ModelError
from veristream.kabis.cluster import processes
from veristream.kabis.wire.ports import HOST, draw_ports

CONTROLLER = "controller-1"
CONTROLLER_NUMBER = 100
BROKERS_MAX = 9
MEMORY = ("-Xmx384m", "-Xmn128m")
"""A broker then takes about 300 MB; these options override those that it shares with single nodes."""
PATIENCE_S = 60.0
Listener = Literal["CLIENT", "INTER"]
Found = TypeVar("Found")


class ReplicatedKafka(BrokerGroup):
    """One controller and several brokers, `broker-1` and so on, for `kill`, `pause`, `resume` and `start`.

        with ReplicatedKafka(folder, {"min.insync.replicas": "2"}) as kafka:
            kafka.create(3)
            kafka.start()
            kafka.create_topic("orders")
            kafka.kill(kafka.leader("orders"))

    `settings` are properties of the brokers and the controller, and `features` are levels of features such
    as transaction.version; both apply to a cluster when it is created. A cluster runs with the `version` of
    Kafka that created it. On exit, the brokers that this
    object started are stopped. Their data remain until `remove`.
    """

    KIND: ClassVar[str] = "broker"

    def __init__(
        self,
        folder: Path,
        settings: Mapping[str, str] | None = None,
        features: Mapping[str, str] | None = None,
        version: str = KAFKA_VERSION,
    ) -> None:
        super().__init__(folder)
        self.version = version
        self.settings = settings or {}
        self.features = features or {}

    @cached_property
    def program(self) -> Program:
        """Kafka and its Java; raises EnvironmentFailure."""
        return find_program(self.version)

    def names(self) -> list[str]:
        """Returns the controller and then the brokers."""
        there = (self.folder / CONTROLLER / "address").exists()
        return [CONTROLLER, *self.brokers()] if there else []

    def brokers(self) -> list[str]:
        """Returns the names of the brokers."""
        return super().names()

    def entrances(self) -> list[str]:
        """Returns the brokers' addresses."""
        return [self.address(name) for name in self.brokers()]

    @property
    def bootstrap(self) -> str:
        """The brokers' addresses, for a client's `bootstrap.servers`."""
        return ",".join(self.entrances())

    def create(self, brokers: int = 3) -> None:
        """Sets up the cluster unless it exists; raises ModelError if it has more or fewer brokers."""
        there = len(self.brokers())
        if self.names() and there != brokers:
            raise ModelError(
                f"{self.folder} has a Kafka cluster of {there} brokers, not {brokers}",
                hint="leave out --brokers, or choose another folder with --data",
            )
        if not 1 <= brokers <= BROKERS_MAX:
            raise ModelError(f"cannot run {brokers} Kafka brokers", hint=f"choose 1 to {BROKERS_MAX}")
        if self.names():
            self._require_version()
            return
        ports = draw_ports(1 + 2 * brokers)
        places = {CONTROLLER: _controller(ports[0])}
        for number in range(1, brokers + 1):
            places[f"{self.KIND}-{number}"] = _broker(
                number, ports[0], *ports[2 * number - 1 : 2 * number + 1]
            )
        common = _common(brokers)
        for name, own in places.items():
            self._write(name, {**common, **own, **self.settings})
        self._format(list(places))
        (self.folder / CONTROLLER / "version").write_text(f"{self.version}\n", encoding="utf-8")
        for name in sorted(places, reverse=True):  # the controller's address, written last, completes it
            listener = places[name]["listeners"].partition(",")[0].rpartition("/")[2]
            (self.folder / name / "address").write_text(f"{listener}\n", encoding="utf-8")

    def address_between(self, name: str) -> str:
        """Returns where other brokers reach a broker, unless it tells them a proxy's address."""
        text = (self.folder / name / "server.properties").read_text(encoding="utf-8")
        found = re.search(r"^listeners=.*INTER://([^,\n]+)", text, re.MULTILINE)
        if found is None:
            raise EnvironmentFailure(f"{name} has no listener for other brokers", "create the cluster anew")
        return found[1]

    def advertise(self, name: str, address: str, listener: Listener = "CLIENT") -> None:
        """Makes a broker tell others to reach it at `address`, a proxy's, from its next start on.

        `address()` and `bootstrap` stay what they are: the broker's own.
        """
        path = self.folder / name / "server.properties"
        text = path.read_text(encoding="utf-8")
        changed = re.sub(
            rf"^(advertised\.listeners=.*{listener}://)[^,\n]+",
            lambda found: found[1] + address,
            text,
            flags=re.MULTILINE,
        )
        path.write_text(changed, encoding="utf-8")

    def command(self, name: str) -> Sequence[str]:
        """Returns the command line of a broker or the controller."""
        folder = (self.folder / name).resolve()
        logging = self.program.logging.option_in(folder)
        properties = str(folder / "server.properties")
        return self.program.command("kafka.Kafka", properties, options=(*MEMORY, logging))

    def answers(self, name: str) -> bool:
        """Whether a controller accepts requests, or a broker is known to itself as one that is alive."""
        if name == CONTROLLER:
            return answers(self.address(name))
        try:
            return _number(name) in ask_metadata(self.address(name)).brokers
        except OSError:
            return False

    def create_topic(
        self, name: str, partitions: int = 1, replicas: int = 3, settings: Mapping[str, str] | None = None
    ) -> None:
        """Creates a topic and waits until its replicas are in sync; raises ModelError if Kafka refuses."""
        up = self._responsive()
        if not up:
            raise EnvironmentFailure(f"no broker in {self.folder} is running", "start the cluster first")
        ask_new_topic(self.address(up[0]), name, partitions, replicas, settings or {})
        self.wait_in_sync(name)

    def look(self, topic: str | None = None, *, seen_by: str | None = None) -> Metadata:
        """Returns what one broker knows; by default the first that is neither down nor paused.

        A broker that was paused knows what was so before, until it has caught up.
        """
        said = "none of them is running"
        for name in self._responsive() if seen_by is None else [seen_by]:
            try:
                return ask_metadata(self.address(name), topic)
            except OSError as error:
                said = f"{name}: {error}"
        raise EnvironmentFailure(
            f"no Kafka broker in {self.folder} answers ({said})", "see their log.txt in this folder"
        )

    def partition(self, topic: str, number: int = 0, *, seen_by: str | None = None) -> Partition | None:
        """Returns a partition's leader and replicas; None if it is not known."""
        return self.look(topic, seen_by=seen_by).topics.get(topic, {}).get(number)

    def leader(self, topic: str, number: int = 0, *, other_than: str | None = None) -> str:
        """Waits until a partition has a leader, `other_than` a former one, and returns its name."""

        def find() -> str | None:
            found = self.partition(topic, number)
            name = f"{self.KIND}-{found.leader}" if found and found.leader is not None else None
            return name if name != other_than else None

        return _wait(find, f"{topic}/{number} has no {'other ' if other_than else ''}leader")

    def wait_in_sync(self, topic: str) -> None:
        """Waits until every partition of a topic has all its replicas in sync."""

        def whole() -> bool | None:
            found = self.look(topic).topics.get(topic, {}).values()
            rest = [
                each for each in found if each.leader is None or set(each.in_sync) != set(each.replicas)
            ]
            return True if found and not rest else None

        _wait(whole, f"{topic} does not have all its replicas in sync")

    def _require_version(self) -> None:
        """Raises ModelError if another version created the cluster; without a note, it was the default."""
        path = self.folder / CONTROLLER / "version"
        made = path.read_text(encoding="utf-8").strip() if path.exists() else KAFKA_VERSION
        if made != self.version:
            raise ModelError(
                f"{self.folder} has a cluster of Kafka {made}, not {self.version}",
                hint="choose another folder",
            )

    def _responsive(self) -> list[str]:
        up = self.find()
        return [name for name in self.brokers() if name in up and not processes.is_paused(up[name])]

    def _write(self, name: str, settings: Mapping[str, str]) -> None:
        folder = self.folder / name
        folder.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(folder / "data", ignore_errors=True)
        self.program.logging.write(folder)
        own = {"log.dirs": str((folder / "data").resolve()), **settings}
        lines = "".join(f"{key}={value}\n" for key, value in own.items())
        (folder / "server.properties").write_text(lines, encoding="utf-8")

    def _format(self, names: Sequence[str]) -> None:
        """Formats the storage of all nodes at once: each takes a Java of its own."""
        id_ = base64.urlsafe_b64encode(os.urandom(16)).decode("ascii").rstrip("=").replace("-", "A")
        levels = [word for each in self.features.items() for word in ("--feature", "=".join(each))]
        started = [
            subprocess.Popen(
                self.program.command(
                    "kafka.tools.StorageTool",
                    *("format", "--cluster-id", id_, *levels),
                    *("--config", str(self.folder / name / "server.properties")),
                ),
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            for name in names
        ]
        said = [each.communicate()[0] for each in started]
        for each, words in zip(started, said, strict=True):
            if each.returncode:
                lines = [line for line in words.splitlines() if line.strip()]
                wrong = next((line for line in lines if "Exception" in line), lines[0] if lines else "")
                raise EnvironmentFailure(
                    f"Kafka cannot format its storage in {self.folder}: {wrong}",
                    "check the settings and features, and that the folder is writable",
                )


def _number(name: str) -> int:
    return int(name.rpartition("-")[2])


def _wait(find: Callable[[], Found | None], problem: str) -> Found:
    """Returns what `find` returns once it is not None; raises EnvironmentFailure if that takes too long."""
    deadline_s = time.monotonic() + PATIENCE_S
    while (found := find()) is None:
        if time.monotonic() > deadline_s:
            raise EnvironmentFailure(f"{problem} after {PATIENCE_S:.0f} s", "see log.txt of the brokers")
        time.sleep(processes.POLL_S)
    return found


def _common(brokers: int) -> dict[str, str]:
    """Returns the settings of all nodes; with them, it takes 3 s to notice that a broker is gone."""
    copies = str(min(brokers, 3))
    return {
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "CLIENT:PLAINTEXT,INTER:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "broker.session.timeout.ms": "3000",
        "broker.heartbeat.interval.ms": "500",
        "controlled.shutdown.enable": "false",  # the brokers stop together
        "auto.create.topics.enable": "false",
        "group.initial.rebalance.delay.ms": "0",
        "offsets.topic.replication.factor": copies,
        "offsets.topic.num.partitions": "1",
        "transaction.state.log.replication.factor": copies,
        "transaction.state.log.min.isr": str(min(brokers, 2)),
        "transaction.state.log.num.partitions": "1",
    }


def _controller(port: int) -> dict[str, str]:
    return {
        "process.roles": "controller",
        "node.id": str(CONTROLLER_NUMBER),
        "controller.quorum.voters": f"{CONTROLLER_NUMBER}@{HOST}:{port}",
        "listeners": f"CONTROLLER://{HOST}:{port}",
    }


def _broker(number: int, controller: int, port: int, inter: int) -> dict[str, str]:
    listeners = f"CLIENT://{HOST}:{port},INTER://{HOST}:{inter}"
    return {
        "process.roles": "broker",
        "node.id": str(number),
        "controller.quorum.voters": f"{CONTROLLER_NUMBER}@{HOST}:{controller}",
        "listeners": listeners,
        "advertised.listeners": listeners,
        "inter.broker.listener.name": "INTER",
    }
