"""Producers that send again what was stored, or that send it after what came later."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from veristream.brokers.proxy.kafka import CutOn, Key, is_of
from veristream.brokers.proxy.pieces import DROP, PASS, Decide, Decision, Piece, let_pass
from veristream.recording.kafka.reading import read_to_end
from veristream.recording.kafka.running import RunningKafka
from veristream.recording.kafka.workloads import FLUSH_S, new_topic, payload, produce
from veristream.recording.recording import Recording

MESSAGES: Final = 10
CLIENT: Final = "producer-0"


def answers_are_cut(kafka: RunningKafka, recording: Recording) -> None:
    """Stores produce requests and cuts the connection instead of the first answer; one message a request.

    A producer that is not idempotent sends again what is stored: each such message is then there twice.
    """
    _run(kafka, recording, "answers-are-cut", lambda: CutOn(Key.PRODUCE, client=CLIENT))


def request_is_lost(kafka: RunningKafka, recording: Recording) -> None:
    """Loses the first produce request of several under way; one message a request.

    A producer that is not idempotent sends it again after the later ones were stored. The broker tells an
    idempotent one that something is missing, and stores nothing out of order.
    """
    _run(kafka, recording, "request-is-lost", _LoseOne)


class _LoseOne:
    """Drops the first produce request, and nothing else."""

    def __init__(self) -> None:
        self.done = 0

    def __call__(self, piece: Piece) -> Decision:
        if self.done or not is_of(piece, Key.PRODUCE, "to broker", CLIENT):
            return PASS
        self.done = 1
        return DROP


def _run(kafka: RunningKafka, recording: Recording, name: str, make: Callable[[], Decide]) -> None:
    topic, proxies = new_topic(name), kafka.proxies
    kafka.create_topic(topic)
    own = {"batch_num_messages": "1", "retry_backoff_ms": "50", "socket_timeout_ms": "3000"}
    client = kafka.producer(recording, CLIENT, **own)
    produce(client, topic, payload(0), 0)
    client.flush(FLUSH_S)  # it is connected, and knows the leader
    leader = kafka.local.leader(topic)
    proxies.decide = make()
    try:
        with recording.incident("cut" if name == "answers-are-cut" else "drop", leader):
            for number in range(1, MESSAGES):
                produce(client, topic, payload(number), 0)
            client.close(FLUSH_S)
    finally:
        proxies.decide = let_pass
    reader = kafka.reader(recording, "reader-0")
    read_to_end(recording, reader, topic, [0])
    reader.close()
    recording.finish()
