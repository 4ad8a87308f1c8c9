"""A Kafka client that speaks Kerberos: kcat, which says exactly why a broker or a KDC refuses it."""

from __future__ import annotations

import re
import subprocess
import tempfile
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from veristream.brokers.kerberos.realm import Realm
from veristream.brokers.kerberos.secured import SERVICE, Protocol
from veristream.brokers.kerberos.tool import TOOL_S

PATIENCE_S: Final = 30
"""How long a client waits for a broker that does not answer."""
_REFUSALS: Final = (
    re.compile(r"^% Delivery failed for message: (.+)$", re.MULTILINE),
    re.compile(r"^% ERROR: Topic \S+ error: (.+)$", re.MULTILINE),
    re.compile(
        r"GSSAPI Error: (?:.*?\((?=[A-Z]))?(.+?)\)?(?: \(after .*| \(default cache.*)?$", re.MULTILINE
    ),
    re.compile(r"SASL authentication error: (.+?)(?: \(after .*)?$", re.MULTILINE),
    re.compile(r"(Disconnected: .+?)(?: \(after .*)?$", re.MULTILINE),
    re.compile(r"^% ERROR: (.+)$", re.MULTILINE),
)
"""From the most exact to the least: kcat tells of one failure in several lines."""
_FINAL: Final = re.compile("GSSAPI Error: |SASL authentication error: |Disconnected: verify that ")
"""After these, kcat goes on trying, and will hear the same again."""


@dataclass(frozen=True, slots=True)
class Door:
    """Where clients connect, and how: the broker's advertised address, and whose certificate they trust."""

    address: str
    protocol: Protocol | str
    authority: Path | None = None

    def options(self) -> list[str]:
        """Returns kcat's options."""
        settings = {"security.protocol": self.protocol, "broker.address.family": "v4"}
        if self.protocol.startswith("SASL_"):
            settings |= {
                "sasl.mechanism": "GSSAPI",
                "sasl.kerberos.service.name": SERVICE,
                "sasl.kerberos.min.time.before.relogin": "0",  # whoever starts it has logged in
            }
        if self.authority is not None:
            settings["ssl.ca.location"] = str(self.authority)
        given = [word for name, value in settings.items() for word in ("-X", f"{name}={value}")]
        return ["-b", self.address, "-m", str(PATIENCE_S), *given]


@dataclass(frozen=True, slots=True)
class Spoken:
    """What came of a client: the messages that it received, and why it was refused, if it was."""

    refusal: str = ""
    received: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Client:
    """A client with the tickets in a cache, which may be empty."""

    realm: Realm
    cache: Path
    name: str = "kcat"

    def produce(self, door: Door, topic: str, messages: Sequence[str]) -> Spoken:
        """Sends messages, one in a line, and waits until all are acknowledged."""
        patience = ["-X", "acks=all", "-X", f"message.timeout.ms={PATIENCE_S * 1000}"]
        return self._run(door, ["-P", "-t", topic, *patience], "".join(f"{each}\n" for each in messages))

    def consume(self, door: Door, topic: str) -> Spoken:
        """Reads a topic's only partition from its beginning to its end."""
        return self._run(door, ["-C", "-t", topic, "-o", "beginning", "-e"], "")

    def _run(self, door: Door, options: Sequence[str], given: str) -> Spoken:
        program = self.realm.programs.client("kcat")
        command = [program, *options, *door.options(), "-X", f"client.id={self.name}"]
        with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as output:
            code, said = _run_until_refused(command, self._environment(), given, output)
            output.seek(0)
            received = tuple(output.read().splitlines())
        return Spoken(read_refusal(said) or f"exit {code}" if code else "", received)

    def _environment(self) -> Mapping[str, str]:
        return {**self.realm.environment(), "KRB5CCNAME": f"FILE:{self.cache}"}


def _run_until_refused(
    command: Sequence[str], environment: Mapping[str, str], given: str, output: IO[str]
) -> tuple[int, str]:
    """Runs kcat until it ends, or says that it was refused; returns its exit code and what it said."""
    said = []
    with subprocess.Popen(
        command,
        env=dict(environment),
        stdin=subprocess.PIPE,
        stdout=output,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
    ) as running:
        limit = threading.Timer(TOOL_S, running.kill)
        limit.start()
        try:
            assert running.stdin is not None and running.stderr is not None
            with suppress(BrokenPipeError):
                running.stdin.write(given)
                running.stdin.close()
            for line in running.stderr:
                said.append(line)
                if _FINAL.search(line):
                    running.kill()
            return running.wait(), "".join(said)
        finally:
            limit.cancel()
            running.kill()


def read_refusal(said: str) -> str:
    """Returns the reason in what kcat printed: the words of the broker or of Kerberos, if there are any."""
    for pattern in _REFUSALS:
        found = pattern.search(said)
        if found is not None:
            return found[1].strip()
    lines = said.strip().splitlines()
    return lines[-1] if lines else ""
