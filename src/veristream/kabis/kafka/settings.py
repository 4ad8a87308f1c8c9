"""How a Kafka cluster is reached: its brokers, and whatever its client must be told besides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from veristream.errors import EnvironmentFailure, ModelError
from veristream.kabis.wire.endpoints import Address

BOOTSTRAP = "bootstrap.servers"
OURS = ("enable.idempotence", "acks", "group.id", "enable.auto.commit", "transactional.id")
"""What the guarantees rest on; nobody may set it otherwise."""


@dataclass(frozen=True, slots=True)
class KafkaSettings:
    """Brokers to begin with, and properties for librdkafka, such as those of SASL and TLS."""

    bootstrap: str
    properties: Mapping[str, str] = field(default_factory=dict)

    def encode(self) -> str:
        """The settings as a file of properties."""
        lines = {BOOTSTRAP: self.bootstrap, **self.properties}
        return "".join(f"{key}={value}\n" for key, value in lines.items())


def read_settings(text: str) -> KafkaSettings:
    """The settings that HOST:PORT[,HOST:PORT] or the name of a file of properties stands for."""
    return parse_bootstrap(text) if ":" in text else load_settings(Path(text))


def parse_bootstrap(text: str) -> KafkaSettings:
    """Settings without anything special."""
    for each in text.split(","):
        try:
            Address.parse(each)
        except ValueError as error:
            raise ModelError(
                f"{each!r} is no address of a Kafka broker", hint="write HOST:PORT, or name a file"
            ) from error
    return KafkaSettings(text)


def load_settings(path: Path, bootstrap: str | None = None) -> KafkaSettings:
    """The settings in a file of properties; `bootstrap` stands in for what the file may lack."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError as error:
        raise EnvironmentFailure(
            f"cannot read Kafka's properties in {path}: {error.strerror}",
            "give HOST:PORT, or a file of librdkafka's properties",
        ) from error
    properties = dict(_parse_line(path, line) for line in lines if line.strip() and line.strip()[0] != "#")
    for name in OURS:
        if name in properties:
            raise ModelError(f"{path} sets {name}", hint="leave it out: the guarantees rest on it")
    found = properties.pop(BOOTSTRAP, None) or bootstrap
    if found is None:
        raise ModelError(f"{path} says nothing of {BOOTSTRAP}", hint=f"add {BOOTSTRAP}=HOST:PORT")
    return KafkaSettings(parse_bootstrap(bootstrap or found).bootstrap, properties)


def _parse_line(path: Path, line: str) -> tuple[str, str]:
    key, equals, value = line.partition("=")
    if not equals or not key.strip():
        raise ModelError(f"{path}: {line!r} is no property", hint="a line is KEY=VALUE")
    return key.strip(), value.strip()
