"""NSQ on this machine: several nsqd, and nsqlookupd, which knows who has which topic.

    DIR/nsqlookupd-1/           who has which topic
    DIR/nsqd-1/address          HOST:PORT for clients
    DIR/nsqd-1/http             HOST:PORT of its HTTP interface
    DIR/nsqd-1/arguments.json   its command line
    DIR/nsqd-1/data             what it has on disk
    DIR/nsqd-1/log.txt          its output
    DIR/nsqd-1/process.json     its process

Every nsqd is a broker of its own: NSQ copies no message to another one.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar
from urllib.parse import urlencode

from veristream.brokers.group import BrokerGroup
from veristream.brokers.nsq import interface
from veristream.brokers.nsq.build import find_programs
from veristream.brokers.nsq.interface import TopicDepth, read_depths
from veristream.errors import EnvironmentFailure, ModelError
from veristream.kabis.cluster import processes
from veristream.kabis.wire.ports import HOST, draw_ports

LOOKUP = "nsqlookupd-1"
NODES_MAX = 9
PATIENCE_S = 5.0
LINES = 1000
"""More than nsqd prints when an option is wrong."""


class NsqNodes(BrokerGroup):
    """One nsqlookupd and several nsqd: `nsqd-1` and so on, for `kill`, `pause`, `resume` and `start`.

        with NsqNodes(folder, {"mem-queue-size": "0", "sync-every": "1"}) as nsq:
            nsq.create(2)
            nsq.start()
            nsq.create_channel("nsqd-1", "orders", "billing")
            nsq.kill("nsqd-1")

    `options` are command-line options of nsqd, which apply when the nodes are created or `configure`d.
    """

    KIND: ClassVar[str] = "nsqd"

    def __init__(self, folder: Path, options: Mapping[str, str] | None = None) -> None:
        super().__init__(folder)
        self.options = options or {}

    def names(self) -> list[str]:
        """Returns nsqlookupd and then the nsqd."""
        there = (self.folder / LOOKUP / "address").exists()
        return [LOOKUP, *self.nodes()] if there else []

    def nodes(self) -> list[str]:
        """Returns the names of the nsqd."""
        return super().names()

    def entrances(self) -> list[str]:
        """Returns the addresses of the nsqd."""
        return [self.address(name) for name in self.nodes()]

    @property
    def lookup(self) -> str:
        """The address at which consumers ask nsqlookupd, over HTTP, who has a topic."""
        return self.http(LOOKUP)

    def create(self, nodes: int = 2) -> None:
        """Sets up nsqlookupd and the nsqd unless they exist; raises ModelError if their number differs."""
        there = len(self.nodes())
        if self.names() and there != nodes:
            raise ModelError(
                f"{self.folder} has {there} nsqd, not {nodes}",
                hint="leave out --nodes, or choose another folder with --data",
            )
        if not 1 <= nodes <= NODES_MAX:
            raise ModelError(f"cannot run {nodes} nsqd", hint=f"choose 1 to {NODES_MAX}")
        if self.names():
            return
        addresses = [f"{HOST}:{port}" for port in draw_ports(2 + 2 * nodes)]
        lookup, lookup_http = addresses[:2]
        for number in range(1, nodes + 1):
            self._write(f"{self.KIND}-{number}", *addresses[2 * number : 2 * number + 2])
        self._write(LOOKUP, lookup, lookup_http)
        self.configure_lookup({})
        self.configure(self.options)

    def configure(self, options: Mapping[str, str], names: Sequence[str] | None = None) -> None:
        """Replaces the options of all nsqd or some, from their next start on."""
        for name in self.nodes() if names is None else names:
            folder = (self.folder / name).resolve()
            own = {
                "tcp-address": self.address(name),
                "http-address": self.http(name),
                "broadcast-address": HOST,
                "lookupd-tcp-address": self.address(LOOKUP),
                "data-path": str(folder / "data"),
                "node-id": name.rpartition("-")[2],
            }
            _save(folder, {**own, **options})

    def configure_lookup(self, options: Mapping[str, str]) -> None:
        """Replaces the options of nsqlookupd, from its next start on."""
        own = {"tcp-address": self.address(LOOKUP), "http-address": self.lookup, "broadcast-address": HOST}
        _save((self.folder / LOOKUP).resolve(), {**own, **options}, LOOKUP.partition("-")[0])

    def command(self, name: str) -> Sequence[str]:
        """Returns the command line of a node."""
        program = find_programs() / name.partition("-")[0]
        arguments = json.loads((self.folder / name / "arguments.json").read_text(encoding="utf-8"))
        return (str(program), *map(str, arguments))

    def http(self, name: str) -> str:
        """Returns the address of a node's HTTP interface."""
        return (self.folder / name / "http").read_text(encoding="utf-8").strip()

    def answers(self, name: str) -> bool:
        """Whether a node is ready; its TCP interface opens before its HTTP interface."""
        try:
            return interface.ask(self.http(name), "GET", "/ping") == b"OK"
        except OSError:
            return False

    def last_words(self, name: str) -> tuple[str, str]:
        """Returns what is wrong with an option, if that is it: nsqd prints all its options after that."""
        lines = processes.last_lines(self.folder / name, LINES)
        wrong = [line for line in lines if line.startswith(("flag provided but", "invalid "))]
        return (wrong[-1], "see `nsqd --help`") if wrong else super().last_words(name)

    def create_topic(self, name: str, topic: str) -> None:
        """Creates a topic on a node unless it has it; the node then knows it after a kill, too."""
        self._do(name, "/topic/create", topic=topic)
        self._wait_for_note(name, topic, None)

    def create_channel(self, name: str, topic: str, channel: str) -> None:
        """Creates a channel on a node, and its topic, which the node then knows after a kill, too.

        A channel gets the messages that come later, and the first channel also those that came before.
        """
        self._do(name, "/topic/create", topic=topic)
        self._do(name, "/channel/create", topic=topic, channel=channel)
        self._wait_for_note(name, topic, channel)

    def depths(self, name: str, topic: str) -> TopicDepth | None:
        """Returns how many messages of a topic a node has; None if it does not have the topic."""
        try:
            return read_depths(self.http(name), topic)
        except OSError as error:
            raise self._silent(name, error) from error

    def _write(self, name: str, address: str, web: str) -> None:
        folder = self.folder / name
        (folder / "data").mkdir(parents=True, exist_ok=True)
        (folder / "http").write_text(f"{web}\n", encoding="utf-8")
        (folder / "address").write_text(f"{address}\n", encoding="utf-8")

    def _do(self, name: str, path: str, **arguments: str) -> None:
        try:
            interface.ask(self.http(name), "POST", f"{path}?{urlencode(arguments)}")
        except OSError as error:
            raise self._silent(name, error) from error

    def _wait_for_note(self, name: str, topic: str, channel: str | None) -> None:
        """Waits until a topic and a channel are in the file that nsqd reads when it starts.

        nsqd writes it soon after it has answered that it created them. Ephemeral ones are not in it.
        """
        if "#ephemeral" in (topic + (channel or "")):
            return
        deadline_s = time.monotonic() + PATIENCE_S
        while channel not in _read_note(self.folder / name / "data" / "nsqd.dat").get(topic, ()):
            if time.monotonic() > deadline_s:
                raise EnvironmentFailure(
                    f"{name} did not write down within {PATIENCE_S:.0f} s that it has {topic!r}",
                    f"see {self.folder / name / 'log.txt'}",
                )
            time.sleep(processes.POLL_S)

    def _silent(self, name: str, error: OSError) -> EnvironmentFailure:
        return EnvironmentFailure(
            f"{name} does not answer at {self.http(name)}: {error}", f"see {self.folder / name / 'log.txt'}"
        )


def _read_note(path: Path) -> dict[str, set[str | None]]:
    """Returns, for each topic that nsqd has written down, its channels, and None for the topic itself."""
    try:
        topics = json.loads(path.read_bytes())["topics"] or []
    except (OSError, ValueError):  # it is not there yet
        return {}
    return {each["name"]: {None, *(one["name"] for one in each["channels"] or [])} for each in topics}


def _save(folder: Path, options: Mapping[str, str], program: str = "nsqd") -> None:
    """Writes the command line; an option without a name would be taken for a file, so none is written."""
    wrong = [key for key in options if not key.replace("-", "").isalnum() or key.startswith("-")]
    if wrong:
        raise ModelError(
            f"{wrong[0]!r} is not an option of {program}", hint="write its name without dashes in front"
        )
    arguments = [f"--{key}={value}" for key, value in options.items()]
    (folder / "arguments.json").write_text(json.dumps(arguments) + "\n", encoding="utf-8")
