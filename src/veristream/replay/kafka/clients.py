"""Kafka's clients of a replay: transactional producers that are called from outside."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final

from confluent_kafka import KafkaError, KafkaException, Message

from veristream.recording.kafka.outcomes import error_of, name_of
from veristream.recording.kafka.producer import RecordedProducer
from veristream.recording.kafka.workloads import payload
from veristream.replay.caller import Caller
from veristream.replay.course import Answer

PATIENCE_S: Final = 30.0
"""How long a call of librdkafka may take."""

CLOSE_S: Final = 2.0
POLL_S: Final = 0.05


class Client:
    """A transactional producer that is called from outside and answers later.

    One that is `prompt` waits for each message until it is delivered, since nobody holds it.
    """

    def __init__(self, producer: RecordedProducer, topic: str, *, prompt: bool) -> None:
        self.producer = producer
        self._topic = topic
        self._prompt = prompt
        self._sent = 0
        self._failed = threading.Event()
        self._in_transaction = False
        self._caller = Caller()

    def call(self, verb: str, partition: int) -> None:
        """Begins a call; the one before has to be over, or to end soon.

        One that is still being opened asks again by itself.
        """
        if verb == "open" and self._caller.is_busy:
            return
        self._caller.call(partial(_outcome, self._verb(verb, partition)))

    def wait_returned(self, seconds: float) -> Answer | None:
        """Returns how the last call ended; None if it is still running after so long."""
        return self._caller.wait_returned(seconds)

    def wait_failed(self, seconds: float) -> bool:
        """Waits until the client gives up a message or itself; returns whether it has."""
        deadline_s = time.monotonic() + seconds
        while not self._failed.is_set() and time.monotonic() < deadline_s:
            if self._caller.wait(partial(_outcome, self._poll), seconds).error:
                self._failed.set()
        return self._failed.is_set()

    def close(self) -> None:
        """Aborts what is open, and ends the client."""
        abort = [partial(_outcome, self._abort)] if self._in_transaction else []
        self._caller.close(*abort, partial(self.producer.close, CLOSE_S))

    def _verb(self, verb: str, partition: int) -> Callable[[], None]:
        match verb:
            case "open":
                return lambda: self.producer.init_transactions(PATIENCE_S)
            case "begin":
                return self._begin
            case "send":
                return lambda: self._send(partition)
            case "commit":
                return self._commit
            case "abort":
                return self._abort
            case _:
                raise AssertionError(f"a client of Kafka has no call `{verb}`")

    def _begin(self) -> None:
        self.producer.begin_transaction()
        self._in_transaction = True

    def _send(self, partition: int) -> None:
        self.producer.produce(
            self._topic, payload(self._sent), partition=partition, on_delivery=self._delivered
        )
        self._sent += 1
        self.producer.flush(PATIENCE_S) if self._prompt else self.producer.poll(0)

    def _poll(self) -> None:
        self.producer.poll(POLL_S)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._failed.set()

    def _commit(self) -> None:
        self.producer.commit_transaction(PATIENCE_S)
        self._in_transaction = False

    def _abort(self) -> None:
        self.producer.abort_transaction(PATIENCE_S)
        self._in_transaction = False


VERBS: Final = ("open", "begin", "send", "commit", "abort")
"""The calls of a client, as tables name them."""


def _outcome(work: Callable[[], None]) -> Answer:
    begin_s = time.monotonic()
    error = ""
    try:
        work()
    except KafkaException as failure:
        error = name_of(error_of(failure))
    return Answer(error, time.monotonic() - begin_s)


def end_all(clients: list[Client]) -> None:
    """Ends all clients, whatever state they are in."""
    for each in clients:
        with suppress(KafkaException):
            each.close()
