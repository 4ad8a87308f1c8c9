"""Apache Kafka on this machine: independent single-node clusters, each node broker and controller.

    DIR/kafka-1/address              HOST:PORT for its clients
    DIR/kafka-1/server.properties    its configuration
    DIR/kafka-1/data                 its data
    DIR/kafka-1/log.txt              its output
    DIR/kafka-1/process.json         its process

A cluster keeps its addresses across restarts, so clients need not change.
"""

from __future__ import annotations

import base64
import os
import shutil
import socket
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from veristream.brokers.group import BrokerGroup
from veristream.brokers.maven import Artifact, Bundle, is_there, resolve
from veristream.errors import EnvironmentFailure, ModelError
from veristream.kabis.wire.ports import HOST, draw_ports
from veristream.spark import find_java

KAFKA = Bundle(
    "kafka-4.1.1",
    (
        Artifact("org.apache.kafka", "kafka_2.13", "4.1.1"),
        Artifact("org.apache.logging.log4j", "log4j-slf4j-impl", "2.24.3"),
    ),
    "kafka.sha256",
)
KAFKA_VERSION = "4.1.1"
"""The version that runs unless somebody asks for another."""
KAFKAS: Mapping[str, Bundle] = {
    KAFKA_VERSION: KAFKA,
    **{
        version: Bundle(
            f"kafka-{version}",
            (
                Artifact("org.apache.kafka", "kafka_2.13", version),
                Artifact("org.slf4j", "slf4j-reload4j", "1.7.36"),
            ),
            f"kafka-{version}.sha256",
        )
        for version in ("3.9.1", "3.5.2")
    },
}
"""The versions that run here: 3.5 is the last that does not verify partitions of transactions, and 3.9 is
the last before version 2 of transactions."""
KAFKA_TOOLS = Bundle(
    "kafka-tools-4.1.1",
    (Artifact("org.apache.kafka", "kafka-tools", "4.1.1"),),
    "kafka-tools.sha256",
    alone=True,
)
"""The command-line tools, without the many dependencies that only Kafka Connect needs."""
CLUSTERS_MAX = 31
JAVA = ("-Xms64m", "-Xmx512m", "-Xmn192m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""Java options for short-lived brokers that share a small machine with their clients.

With the default collector (G1) and a small heap, a batch of one megabyte is larger than half a region and
so becomes a humongous object: writing batches of 1 KB events took three times the CPU time. Full
optimisation by the JIT costs more than it saves in the first 700 MB: without it, a broker starts in half
the time and writes a megabyte in two thirds of the time.
"""


@dataclass(frozen=True, slots=True)
class Logging:
    """How a version of Kafka is told to log: the name of a file, its text, and the option that names it."""

    file: str
    text: str
    option: str

    def write(self, folder: Path) -> None:
        """Writes the file."""
        (folder / self.file).write_text(self.text, encoding="utf-8")

    def option_in(self, folder: Path) -> str:
        """Returns the Java option that names the file in a folder."""
        return f"{self.option}{folder.resolve() / self.file}"


LOG4J_2 = Logging(
    "log4j2.properties",
    """\
appender.console.type=Console
appender.console.name=console
appender.console.layout.type=PatternLayout
appender.console.layout.pattern=%d %p %m%n
rootLogger.level=WARN
rootLogger.appenderRef.console.ref=console
""",
    "-Dlog4j2.configurationFile=",
)
LOG4J_1 = Logging(
    "log4j.properties",
    """\
log4j.rootLogger=WARN, console
log4j.appender.console=org.apache.log4j.ConsoleAppender
log4j.appender.console.layout=org.apache.log4j.PatternLayout
log4j.appender.console.layout.ConversionPattern=%d %p %m%n
""",
    "-Dlog4j.configuration=file:",
)
"""For Kafka 3, which logs with Log4j 1."""


@dataclass(frozen=True, slots=True)
class Program:
    """A Java and the jars to run with it."""

    java: Path
    jars: Path
    logging: Logging = LOG4J_2

    def command(self, main: str, *arguments: str, options: Iterable[str] = ()) -> list[str]:
        """Returns the command line that runs the class `main`."""
        return [str(self.java), *JAVA, *options, "-cp", f"{self.jars}/*", main, *arguments]

    def tool(self, main: str, *arguments: str) -> list[str]:
        """Returns the command line that runs a tool, such as org.apache.kafka.tools.TransactionsCommand.

        Tools are clients; those of the newest version serve brokers of all.
        """
        places = f"{resolve(KAFKA)}/*:{resolve(KAFKA_TOOLS)}/*"
        return [str(self.java), *JAVA, "-cp", places, main, *arguments]


def find_program(version: str = KAFKA_VERSION) -> Program:
    """Finds a version of Kafka and a Java to run it; raises EnvironmentFailure, or ModelError."""
    if version not in KAFKAS:
        raise ModelError(f"no Kafka {version} is pinned", hint=f"choose {', '.join(KAFKAS)}")
    try:
        java = find_java() / "bin" / "java"
    except EnvironmentFailure as missing:
        raise EnvironmentFailure(
            "Kafka needs Java 17 or newer, and none was found", "install a JDK and set JAVA_HOME"
        ) from missing
    logging = LOG4J_1 if version.startswith("3.") else LOG4J_2
    return Program(java, resolve(KAFKAS[version]), logging)


def is_at_hand(version: str = KAFKA_VERSION) -> bool:
    """Whether a Kafka can be started without a download."""
    try:
        find_java()
    except EnvironmentFailure:
        return False
    return is_there(KAFKAS[version])


class KafkaClusters(BrokerGroup):
    """The clusters in a folder; `properties` are added to the configuration of new ones."""

    KIND: ClassVar[str] = "kafka"

    def __init__(self, folder: Path, properties: Mapping[str, str] | None = None) -> None:
        super().__init__(folder)
        self.properties = properties or {}

    def create(self, count: int) -> None:
        """Sets up `count` clusters unless they exist; raises ModelError if there are more or fewer."""
        there = len(self.names())
        if there not in (0, count):
            raise ModelError(
                f"{self.folder} has {there} Kafka clusters, not {count}",
                hint="leave out --clusters, or choose another folder with --data",
            )
        if not 1 <= count <= CLUSTERS_MAX:
            raise ModelError(f"cannot run {count} Kafka clusters", hint=f"choose 1 to {CLUSTERS_MAX}")
        if there:
            return
        program, ports = find_program(), draw_ports(2 * count)
        for number in range(count):
            name = f"kafka-{number + 1}"
            folder, port, controller = self.folder / name, ports[2 * number], ports[2 * number + 1]
            settings = {**single_node(folder, port, controller), **self.properties}
            set_up(program, folder, f"{HOST}:{port}", settings)

    def command(self, name: str) -> Sequence[str]:
        """Returns the command line of a cluster's only node."""
        folder = (self.folder / name).resolve()
        program = find_program()
        properties = str(folder / "server.properties")
        return program.command("kafka.Kafka", properties, options=(program.logging.option_in(folder),))

    def answers(self, name: str) -> bool:
        """Whether the cluster accepts requests."""
        return answers(self.address(name))


def set_up(program: Program, folder: Path, address: str, settings: Mapping[str, str]) -> None:
    """Writes a node's files and formats its storage; the address file, written last, marks it ready."""
    folder.mkdir(parents=True, exist_ok=True)
    program.logging.write(folder)
    lines = "".join(f"{key}={value}\n" for key, value in settings.items())
    (folder / "server.properties").write_text(lines, encoding="utf-8")
    shutil.rmtree(folder / "data", ignore_errors=True)
    name = base64.urlsafe_b64encode(os.urandom(16)).decode("ascii").rstrip("=")
    command = program.command(
        "kafka.tools.StorageTool",
        *("format", "--cluster-id", name.replace("-", "A"), "--config", str(folder / "server.properties")),
    )
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        said = (done.stderr.strip() or done.stdout.strip()).partition("\n")[0]
        raise EnvironmentFailure(
            f"Kafka cannot format {folder / 'data'}: {said}", "check that the folder is writable"
        )
    (folder / "address").write_text(f"{address}\n", encoding="utf-8")


def single_node(folder: Path, port: int, controller_port: int) -> dict[str, str]:
    """Returns the settings of a node that is its own controller; internal topics have one replica."""
    return {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@{HOST}:{controller_port}",
        "listeners": f"CLIENT://{HOST}:{port},CONTROLLER://{HOST}:{controller_port}",
        "advertised.listeners": f"CLIENT://{HOST}:{port}",
        "listener.security.protocol.map": "CLIENT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "CLIENT",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": str((folder / "data").resolve()),
        "auto.create.topics.enable": "false",
        "socket.receive.buffer.bytes": "-1",  # the system's default: Kafka's own is a tenth of a batch
        "socket.send.buffer.bytes": "-1",
        "offsets.topic.replication.factor": "1",
        "offsets.topic.num.partitions": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "transaction.state.log.num.partitions": "1",
        "group.initial.rebalance.delay.ms": "0",
    }


def answers(address: str) -> bool:
    """Whether a Kafka at this address answers an ApiVersions request, which needs no authentication."""
    host, _, port = address.rpartition(":")
    request = bytes.fromhex(
        "00120000 00000001 ffff"
    )  # ApiVersions version 0, correlation id 1, no client id
    try:
        with socket.create_connection((host, int(port)), timeout=1.0) as connection:
            connection.sendall(len(request).to_bytes(4, "big") + request)
            reply = connection.recv(10)
    except OSError:
        return False
    return reply[4:10] == bytes.fromhex("00000001 0000")  # our correlation id, and no error
