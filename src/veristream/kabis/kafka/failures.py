"""The errors of Kafka, each with a place and a hint."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from confluent_kafka import KafkaError, KafkaException

from veristream.errors import EnvironmentFailure
from veristream.kabis.kafka.settings import KafkaSettings

RETRY_S = 0.05

Value = TypeVar("Value")


class KafkaFailure(EnvironmentFailure):
    """Kafka failed to do what was asked."""


class DamagedRecord(EnvironmentFailure):
    """A message of a party's log is not what the party wrote."""

    def __init__(self, where: str, position: int, reason: str) -> None:
        super().__init__(
            f"{where} is damaged at offset {position}: {reason}",
            "the records after it are untouched; start the party with --repair, which marks it as lost",
        )
        self.position = position
        self.reason = reason


class Troubles:
    """The last error that Kafka's client reported, to explain a later timeout."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        self.last: KafkaError | None = None

    def note(self, error: KafkaError) -> None:
        """Notes an error; keeps wrong credentials, and why a broker is down, over the errors they cause."""
        if self.last is not None and (
            _is_about_credentials(self.last) or error.code() == KafkaError._ALL_BROKERS_DOWN
        ):
            return
        self.last = error

    def explain(self, doing: str, error: KafkaError | None = None) -> KafkaFailure:
        """Returns why something failed."""
        where, last = self._settings.bootstrap, self.last
        if last is not None and _is_about_credentials(last):
            return KafkaFailure(
                f"cannot {doing}: Kafka at {where} refuses the credentials: {last.str()}",
                "check the SASL and TLS settings in the properties file",
            )
        if (
            last is not None
            and last.code() in UNREACHABLE
            and (error is None or error.code() in UNREACHABLE)
        ):
            return KafkaFailure(
                f"cannot {doing}: no Kafka answers at {where}: {last.str()}",
                "check that it runs and that the address is right",
            )
        worst = error or last
        detail = "no answer" if worst is None else worst.str()
        return KafkaFailure(f"cannot {doing}: Kafka at {where}: {detail}", "look at the broker's log")


UNREACHABLE = frozenset(
    {
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._RESOLVE,
        KafkaError._TIMED_OUT,
        KafkaError._MSG_TIMED_OUT,
    }
)


def error_of(exception: KafkaException) -> KafkaError | None:
    """Returns the error in an exception of the client."""
    found = exception.args[0] if exception.args else None
    return found if isinstance(found, KafkaError) else None


def patiently(call: Callable[[], Value], patience_s: float) -> Value:
    """Returns the result of a call; retries while the cluster is still creating what was asked for."""
    deadline_s = time.monotonic() + patience_s
    while True:
        try:
            return call()
        except KafkaException as exception:
            error = error_of(exception)
            if error is None or error.code() not in NOT_YET or time.monotonic() > deadline_s:
                raise
        time.sleep(RETRY_S)


NOT_YET = frozenset(
    {
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._UNKNOWN_PARTITION,
        KafkaError._UNKNOWN_TOPIC,
    }
)


def is_for_good(error: KafkaError) -> bool:
    """Whether a retry cannot help."""
    return _is_about_credentials(error) or error.fatal()


def _is_about_credentials(error: KafkaError) -> bool:
    return error.code() in (
        KafkaError._AUTHENTICATION,
        KafkaError.SASL_AUTHENTICATION_FAILED,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError._SSL,
    )
