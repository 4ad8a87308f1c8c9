"""A write that is late by a transaction: the run of the models before KIP-890, on a real broker."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Final

from confluent_kafka import KafkaException

from veristream.brokers.proxy.kafka import HoldOn, Key
from veristream.brokers.proxy.pieces import let_pass
from veristream.errors import EnvironmentFailure
from veristream.recording.kafka.late_write.observing import Observer
from veristream.recording.kafka.reading import read_to_end
from veristream.recording.kafka.running import RunningKafka
from veristream.recording.kafka.workloads import new_topic, payload, produce
from veristream.recording.recording import Recording

CLIENT: Final = "producer-0"
PATIENCE_S: Final = 30.0
GIVEN_UP_MS: Final = "1500"
"""After so long the client gives its message up, and can abort."""

ARRIVAL_S: Final = 1.5
"""How long the late write takes to arrive once nobody holds it back."""


def write_is_late(kafka: RunningKafka, recording: Recording) -> None:
    """Holds a write back until its transaction is aborted; then its producer commits another transaction.

    With transaction.partition.verification.enable=false, a broker trusts producers and takes the late write
    as the beginning of a transaction that its coordinator does not know, and the next commit commits it.
    One that verifies refuses it.
    """
    topic, proxies = new_topic("write-is-late"), kafka.proxies
    kafka.create_topic(topic)
    own = {"transactional_id": topic, "message_timeout_ms": GIVEN_UP_MS, "transaction_timeout_ms": "60000"}
    client = kafka.producer(recording, CLIENT, **own)
    client.init_transactions(PATIENCE_S)
    hold, observer = HoldOn(Key.PRODUCE, client=CLIENT), Observer(kafka, topic)
    proxies.decide = hold
    try:
        with recording.incident("delay", kafka.local.leader(topic)):
            client.begin_transaction()
            produce(client, topic, payload(0), 0)
            client.poll(0)
            if not hold.gate.wait_reached(PATIENCE_S):
                raise EnvironmentFailure("the producer sent nothing", "see log.txt of the brokers")
            client.abort_transaction(PATIENCE_S)
            observer.wait_beyond(0, PATIENCE_S)  # an abort returns before its marker is written
            hold.gate.open()
    finally:
        hold.gate.open()
        proxies.decide = let_pass
    time.sleep(ARRIVAL_S)
    client.begin_transaction()
    produce(client, topic, payload(1), 0)
    with suppress(KafkaException):  # the recording has it
        client.commit_transaction(PATIENCE_S)
    client.close(PATIENCE_S)
    observer.wait_stable(ARRIVAL_S)
    reader = kafka.reader(recording, "reader-0", "read_committed")
    read_to_end(recording, reader, topic, [0])
    reader.close()
    recording.finish()
