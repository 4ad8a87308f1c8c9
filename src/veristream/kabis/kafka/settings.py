"""The settings of a Kafka cluster: its brokers and the properties of its client."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from veristream.errors import EnvironmentFailure, ModelError
from veristream.kabis.wire.endpoints import Address

BOOTSTRAP = "bootstrap.servers"
OURS = ("enable.idempotence", "acks", "group.id", "enable.auto.commit", "transactional.id")
"""The guarantees depend on these; users cannot set them."""


@dataclass(frozen=True, slots=True)
class KafkaSettings:
    """The bootstrap brokers, and properties of librdkafka, such as those of SASL and TLS."""

    bootstrap: str
    properties: Mapping[str, str] = field(default_factory=dict)

    def encode(self) -> str:
        """Returns the settings as a properties file."""
        lines = {BOOTSTRAP: self.bootstrap, **self.properties}
        return "".join(f"{key}={value}\n" for key, value in lines.items())


def read_settings(text: str) -> KafkaSettings:
    """Returns the settings for HOST:PORT[,HOST:PORT] or for the name of a properties file."""
    return parse_bootstrap(text) if ":" in text else load_settings(Path(text))


def parse_bootstrap(text: str) -> KafkaSettings:
    """Returns settings without further properties."""
    for each in text.split(","):
        try:
            Address.parse(each)
        except ValueError as error:
            raise ModelError(
                f"{each!r} is not the address of a Kafka broker", hint="write HOST:PORT, or name a file"
            ) from error
    return KafkaSettings(text)


def load_settings(path: Path, bootstrap: str | None = None) -> KafkaSettings:
    """Reads a properties file; `bootstrap` is used if the file names no brokers."""
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
            raise ModelError(f"{path} sets {name}", hint="leave it out: the guarantees depend on it")
    found = properties.pop(BOOTSTRAP, None) or bootstrap
    if found is None:
        raise ModelError(f"{path} does not set {BOOTSTRAP}", hint=f"add {BOOTSTRAP}=HOST:PORT")
    return KafkaSettings(parse_bootstrap(bootstrap or found).bootstrap, properties)


def _parse_line(path: Path, line: str) -> tuple[str, str]:
    key, equals, value = line.partition("=")
    if not equals or not key.strip():
        raise ModelError(f"{path}: {line!r} is not a property", hint="a line is KEY=VALUE")
    return key.strip(), value.strip()
