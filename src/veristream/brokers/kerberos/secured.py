"""A Kafka of one node whose clients may have to show a Kerberos ticket.

    DIR/kafka-1/address       HOST:PORT of its listener for clients, behind whatever it advertises
    DIR/kafka-1/...           as every other Kafka on this machine

It has three listeners. CLIENT is the one that experiments are about. INTER and CONTROLLER are for itself
and its administrator, and demand a password in every configuration, so that nobody else gets in there.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import ClassVar, Final, Literal

from veristream.brokers.group import BrokerGroup
from veristream.brokers.kafka import Program, answers, find_program, set_up, single_node
from veristream.brokers.kerberos.certificates import Certified, certify
from veristream.brokers.kerberos.realm import NAME
from veristream.kabis.wire.ports import HOST, draw_ports

KAFKA: Final = "kafka-1"
SERVICE: Final = "kafka"
PRINCIPAL: Final = f"{SERVICE}/localhost"
ADMINISTRATOR: Final = "admin"
Protocol = Literal["PLAINTEXT", "SASL_PLAINTEXT", "SASL_SSL"]


@dataclass(frozen=True, slots=True)
class Security:
    """What the listener for clients demands, whether they need rights (ACLs), and whether the broker
    remembers the tickets that it has seen with their authenticators, as Java does by default."""

    protocol: Protocol = "PLAINTEXT"
    acls: bool = False
    replay_cache: bool = True

    @property
    def kerberos(self) -> bool:
        """Whether clients need a ticket."""
        return self.protocol != "PLAINTEXT"

    @property
    def tls(self) -> bool:
        """Whether connections are encrypted."""
        return self.protocol == "SASL_SSL"


@dataclass(frozen=True, slots=True)
class Identity:
    """The broker's own place in a realm: the realm's configuration and the broker's keytab."""

    configuration: Path
    keytab: Path


class SecuredKafka(BrokerGroup):
    """One Kafka, `kafka-1`, whose clients are told to connect to `advertised`."""

    KIND: ClassVar[str] = "kafka"

    def __init__(self, folder: Path, security: Security, identity: Identity) -> None:
        super().__init__(folder)
        self.security = security
        self._identity = identity
        self._password = secrets.token_hex(16)
        self._inter = ""
        self.certified: Certified | None = None

    @cached_property
    def program(self) -> Program:
        """Kafka and its Java; raises EnvironmentFailure."""
        return find_program()

    def create(self, advertised: str) -> None:
        """Sets up the node, in an empty folder."""
        client, controller, inter = draw_ports(3)
        self._inter = f"{HOST}:{inter}"
        folder = self.folder / KAFKA
        if self.security.tls:
            self.certified = certify(self.program, self.folder / "tls")
        settings = {
            **single_node(folder, client, controller),
            **self._listeners(client, controller, inter, advertised),
            **self._client_listener(),
            **(ACLS if self.security.acls else {}),
        }
        set_up(self.program, folder, f"{HOST}:{client}", settings)

    def command(self, name: str) -> Sequence[str]:
        """Returns the command line of the node."""
        folder = (self.folder / name).resolve()
        options = [
            f"-Dlog4j2.configurationFile={folder / 'log4j2.properties'}",
            f"-Djava.security.krb5.conf={self._identity.configuration}",
        ]
        if not self.security.replay_cache:
            options.append(NO_REPLAY_CACHE)
        return self.program.command("kafka.Kafka", str(folder / "server.properties"), options=options)

    def answers(self, name: str) -> bool:
        """Whether the node accepts requests of its administrator."""
        return answers(self._inter)

    def administrator(self) -> dict[str, str]:
        """Returns the settings of a confluent-kafka client that may do everything."""
        return {
            "bootstrap.servers": self._inter,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": ADMINISTRATOR,
            "sasl.password": self._password,
        }

    def _listeners(self, client: int, controller: int, inter: int, advertised: str) -> dict[str, str]:
        mapping = {
            "CLIENT": self.security.protocol,
            "INTER": "SASL_PLAINTEXT",
            "CONTROLLER": "SASL_PLAINTEXT",
        }
        jaas = _jaas(
            "org.apache.kafka.common.security.plain.PlainLoginModule",
            {
                "username": ADMINISTRATOR,
                "password": self._password,
                f"user_{ADMINISTRATOR}": self._password,
            },
        )
        own = {}
        for name in ("inter", "controller"):
            own[f"listener.name.{name}.sasl.enabled.mechanisms"] = "PLAIN"
            own[f"listener.name.{name}.plain.sasl.jaas.config"] = jaas
        places = {"CLIENT": client, "CONTROLLER": controller, "INTER": inter}
        return {
            "listeners": ",".join(f"{name}://{HOST}:{port}" for name, port in places.items()),
            "advertised.listeners": f"CLIENT://{advertised},INTER://{self._inter}",
            "listener.security.protocol.map": ",".join(f"{name}:{how}" for name, how in mapping.items()),
            "inter.broker.listener.name": "INTER",
            "sasl.mechanism.inter.broker.protocol": "PLAIN",
            "sasl.mechanism.controller.protocol": "PLAIN",
            **own,
        }

    def _client_listener(self) -> dict[str, str]:
        settings: dict[str, str] = {}
        if self.security.kerberos:
            jaas: dict[str, str | bool] = {
                "useKeyTab": True,
                "storeKey": True,
                "keyTab": str(self._identity.keytab),
                "principal": f"{PRINCIPAL}@{NAME}",
            }
            settings |= {
                "listener.name.client.sasl.enabled.mechanisms": "GSSAPI",
                "sasl.kerberos.service.name": SERVICE,
                "listener.name.client.gssapi.sasl.jaas.config": _jaas(
                    "com.sun.security.auth.module.Krb5LoginModule", jaas
                ),
            }
        if self.certified is not None:
            settings |= {
                "listener.name.client.ssl.keystore.location": str(self.certified.store.resolve()),
                "listener.name.client.ssl.keystore.type": "PKCS12",
                "listener.name.client.ssl.keystore.password": self.certified.password,
                "listener.name.client.ssl.key.password": self.certified.password,
            }
        return settings


NO_REPLAY_CACHE: Final = "-Dsun.security.krb5.rcache=none"
ACLS: Final[Mapping[str, str]] = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": f"User:{ADMINISTRATOR}",
    "allow.everyone.if.no.acl.found": "false",
}
"""With these settings, a client may do only what a rule allows it."""


def _jaas(module: str, options: Mapping[str, str | bool]) -> str:
    words = (
        f"{name}={str(value).lower()}" if isinstance(value, bool) else f'{name}="{value}"'
        for name, value in options.items()
    )
    return f"{module} required {' '.join(words)};"
