"""What an error of Kafka's client says of a call: that it had no effect, or that nobody knows.

A client that tries again reports only its last error. So an error says for certain that nothing was stored
only if every attempt would have got it, or if there was no other attempt.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException

from veristream.history.events import Outcome

_REFUSED: Final = frozenset(
    {
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.RECORD_LIST_TOO_LARGE,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        KafkaError.INVALID_REQUIRED_ACKS,
        KafkaError.INVALID_RECORD,
        KafkaError.POLICY_VIOLATION,
        KafkaError.TOPIC_EXCEPTION,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError._UNKNOWN_PARTITION,
        KafkaError._INVALID_ARG,
        KafkaError._QUEUE_FULL,
    }
)
"""Every attempt gets these, or none was made."""

_REFUSED_NOW: Final = frozenset(
    {
        KafkaError.NOT_ENOUGH_REPLICAS,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
    }
)
"""This attempt stored nothing; an earlier one may have."""

_NOT_COMMITTED: Final = frozenset(
    {
        KafkaError.ILLEGAL_GENERATION,
        KafkaError.UNKNOWN_MEMBER_ID,
        KafkaError.FENCED_INSTANCE_ID,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.OFFSET_METADATA_TOO_LARGE,
        KafkaError._NO_OFFSET,
        KafkaError._ASSIGNMENT_LOST,
    }
)
"""A group does not take offsets from a member that it does not have."""


def error_of(failure: KafkaException) -> KafkaError | None:
    """Returns the error in an exception of the client."""
    found = failure.args[0] if failure.args else None
    return found if isinstance(found, KafkaError) else None


def name_of(error: KafkaError | None) -> str:
    """Returns an error's name, such as `_MSG_TIMED_OUT`."""
    return "" if error is None else str(error.name())


def tries_once(settings: Mapping[str, Any]) -> bool:
    """Whether a producer with these settings never sends a message again."""
    given = [settings[name] for name in ("retries", "message.send.max.retries") if name in settings]
    return bool(given) and all(str(each) == "0" for each in given)


def of_send(error: KafkaError, *, once: bool) -> Outcome:
    """Returns the outcome of sending a message, of which `once` says that only one attempt was made."""
    code = error.code()
    certain = code in _REFUSED or (once and code in _REFUSED_NOW)
    return Outcome.FAIL if certain else Outcome.INDEFINITE


def of_commit(error: KafkaError | None) -> Outcome:
    """Returns the outcome of committing offsets of a group."""
    certain = error is not None and error.code() in _NOT_COMMITTED
    return Outcome.FAIL if certain else Outcome.INDEFINITE


def of_transaction(error: KafkaError | None) -> Outcome:
    """Returns the outcome of ending a transaction; one that has to be aborted was not ended."""
    certain = error is not None and error.txn_requires_abort()
    return Outcome.FAIL if certain else Outcome.INDEFINITE
