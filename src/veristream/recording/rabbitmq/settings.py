"""The settings of what is recorded: those of the nodes, of the queue and its policy, and of the clients."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final, Literal, get_args

import pika

from veristream.errors import ModelError, suggest
from veristream.recording.settings import split_settings

Kind = Literal["classic", "quorum", "mirrored"]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
PARTS: Final = ("broker", "queue", "policy", "client")
MIRRORING: Final = {"ha-mode": "all", "ha-sync-mode": "manual", "ha-promote-on-failure": "always"}
"""The policy of mirrored queues; the last two are RabbitMQ's defaults."""
DELIVERY_LIMIT: Final = "x-delivery-limit"
PERSISTENT, TRANSIENT = 2, 1


@dataclass(frozen=True, slots=True)
class Clients:
    """How clients use a queue.

    Without `confirms`, a producer takes a message for sent once it is written, as fire and forget does.
    Every `requeue_every`-th delivery is given back once (0: none is).
    """

    producers: int = 2
    consumers: int = 2
    persistent: bool = True
    confirms: bool = True
    prefetch: int = 10
    size: int = 100
    requeue_every: int = 0


@dataclass(frozen=True, slots=True)
class Settings:
    """`broker` are lines of rabbitmq.conf, `arguments` those of the queue, such as x-max-length.

    `policy` is added to the policy of mirrored queues.
    """

    kind: Kind = "classic"
    clients: Clients = Clients()
    broker: Mapping[str, str] = field(default_factory=dict)
    arguments: Mapping[str, str] = field(default_factory=dict)
    policy: Mapping[str, str] = field(default_factory=dict)

    def flat(self) -> dict[str, str]:
        """Returns all of them with names such as `client.prefetch`, as the manifest has them."""
        found = {
            "queue.kind": self.kind,
            **_named("queue", self.arguments),
            **_named("broker", self.broker),
        }
        if self.kind == "mirrored":
            found |= _named("policy", {**MIRRORING, **self.policy})
        own = {each.name.replace("_", "-"): getattr(self.clients, each.name) for each in fields(Clients)}
        return found | _named("client", {key: str(value).lower() for key, value in own.items()})

    @property
    def declared(self) -> dict[str, Any]:
        """The arguments with which the queue is declared."""
        own = {"x-queue-type": "quorum"} if self.kind == "quorum" else {}
        return {**own, **{key: _value(word) for key, word in self.arguments.items()}}

    @property
    def attempts_max(self) -> int | None:
        """How often a message is delivered at most; only quorum queues count."""
        limit = self.declared.get(DELIVERY_LIMIT) if self.kind == "quorum" else None
        return limit + 1 if isinstance(limit, int) else None

    @property
    def properties(self) -> pika.BasicProperties:
        """The properties of messages."""
        return pika.BasicProperties(delivery_mode=PERSISTENT if self.clients.persistent else TRANSIENT)


def read_settings(flat: Mapping[str, str]) -> Settings:
    """Reads settings with names such as `client.prefetch`; raises ModelError for others."""
    parts = split_settings(flat, PARTS, "nothing that is recorded", "client.prefetch=1")
    kind = read_kind(parts["queue"].pop("kind", "classic"))
    return Settings(kind, _read_clients(parts["client"]), parts["broker"], parts["queue"], parts["policy"])


def read_kind(word: str) -> Kind:
    """Returns the kind of queue of this name; raises ModelError."""
    for kind in KINDS:
        if kind == word:
            return kind
    raise ModelError(f"there are no {word} queues", hint=f"choose from {', '.join(KINDS)}")


def _read_clients(given: Mapping[str, str]) -> Clients:
    known = {each.name.replace("_", "-"): each.name for each in fields(Clients)}
    found: dict[str, Any] = {}
    for key, word in given.items():
        if key not in known:
            raise ModelError(
                f"clients have no setting `{key}`",
                hint=suggest(key, known, f"choose from {', '.join(known)}"),
            )
        value = _value(word)
        wanted = type(getattr(Clients(), known[key]))
        if type(value) is not wanted or (wanted is int and value < 0):
            words = "true or false" if wanted is bool else "a number from 0"
            raise ModelError(f"`client.{key}={word}` is not valid", hint=f"give {words}")
        found[known[key]] = value
    return Clients(**found)


def _value(word: str) -> Any:
    """Returns what a word stands for: AMQP has types."""
    if word in ("true", "false"):
        return word == "true"
    return int(word) if word.removeprefix("-").isdecimal() else word


def _named(part: str, of: Mapping[str, str]) -> dict[str, str]:
    return {f"{part}.{key}": value for key, value in of.items()}
