"""What is combined, and what was observed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from veristream.brokers.kafka import KAFKA_VERSION, KAFKAS
from veristream.errors import ModelError
from veristream.recording.kafka.settings import Settings

Client = Literal["librdkafka", "java"]
CLIENTS: tuple[Client, ...] = get_args(Client)
VERSIONS = (0, 1, 2)
"""Levels of Kafka's feature transaction.version; 2 is KIP-890's new protocol."""

VERIFICATION = "transaction.partition.verification.enable"


@dataclass(frozen=True, slots=True)
class Cell:
    """A client, a broker, and when the write arrives.

    It arrives between two transactions of the producer, or `in_next`, when the next one has the partition
    and has not written to it. The producer may have `written_before` to the partition, in an earlier
    transaction, and may abort `in_callback`: while the Java client still runs the callback that says that
    the write failed, after which it would take a new epoch. `client_version` is that of the Java client.
    """

    client: Client
    transaction_version: int
    verification: bool
    broker: str = KAFKA_VERSION
    written_before: bool = False
    client_version: str = KAFKA_VERSION
    in_next: bool = False
    in_callback: bool = False

    def check(self) -> None:
        """Raises ModelError if there is no such client or broker."""
        if self.client not in CLIENTS:
            raise ModelError(f"no client is called {self.client}", hint=f"choose {' or '.join(CLIENTS)}")
        if self.in_callback and self.client != "java":
            raise ModelError(f"{self.client} runs callbacks when it polls", hint="only java aborts in one")
        if self.transaction_version not in VERSIONS:
            raise ModelError(
                f"no transaction.version is {self.transaction_version}", hint="choose 0, 1 or 2"
            )
        for version in (self.broker, self.client_version):
            if version not in KAFKAS:
                raise ModelError(f"no Kafka {version} is pinned", hint=f"choose {', '.join(KAFKAS)}")
        if self.transaction_version and self.broker != KAFKA_VERSION:
            raise ModelError(
                f"Kafka {self.broker} has only transaction.version 0",
                hint=f"or choose Kafka {KAFKA_VERSION}",
            )
        if self.verification and self.broker.startswith("3.5."):
            raise ModelError(
                f"Kafka {self.broker} does not verify partitions", hint="Kafka 3.6 and newer do"
            )

    @property
    def broker_settings(self) -> Settings:
        """The settings of the broker, which cells with the same ones share."""
        verifies = {} if self.broker.startswith("3.5.") else {VERIFICATION: str(self.verification).lower()}
        has_levels = self.broker == KAFKA_VERSION
        return Settings(
            broker=verifies,
            feature={"transaction.version": str(self.transaction_version)} if has_levels else {},
        )

    @property
    def name(self) -> str:
        """All that differs, in a few words."""
        client = self.client if self.client == "librdkafka" else f"{self.client} {self.client_version}"
        words = [
            f"{client}, Kafka {self.broker}, transaction.version {self.transaction_version}",
            "verified" if self.verification else "not verified",
            *(["written before"] if self.written_before else []),
            *(["aborted in the callback"] if self.in_callback else []),
            "in the next transaction" if self.in_next else "between transactions",
        ]
        return ", ".join(words)


@dataclass(frozen=True, slots=True)
class LateWrite:
    """What became of a write that was given up, whose transaction was aborted, and that then arrived.

    `error` is what the broker answered, empty if it accepted. The partition is `hanging` if its last stable
    offset then stays at the late write while the log grows. Readers of committed records are `starved` if
    they do not get what others committed later. Of a write that arrives in the next transaction, both are
    seen after the end of that one.

    The producer's next transaction has a `new_epoch` or the old one. `aborted_read` says that readers of
    committed records get the late write once it is committed, `healed` that the partition hangs no more.
    """

    error: str
    hanging: bool
    starved: bool
    new_epoch: bool
    aborted_read: bool
    healed: bool


@dataclass(frozen=True, slots=True)
class Evidence:
    """How it was seen: the version of Produce, epochs, offsets, errors of the client's calls, values read.

    `gave_up`, `aborted` and `committed` are names of errors, empty if there was none. The offsets are those
    before and after the log grew once more.
    """

    produce_version: int
    late_epoch: int
    next_epoch: int
    gave_up: str
    aborted: str
    committed: str
    late_offset: int
    stable: tuple[int, int]
    high: tuple[int, int]
    read: tuple[str, ...]
    read_next: tuple[str, ...]
