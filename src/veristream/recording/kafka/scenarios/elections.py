"""Leaders that are killed: what was acknowledged may be lost with them, or not, by `acks` and the topic."""

from __future__ import annotations

import time
from typing import Final

from confluent_kafka import KafkaException

from veristream.errors import EnvironmentFailure
from veristream.recording.kafka.producer import RecordedProducer
from veristream.recording.kafka.reading import read_to_end
from veristream.recording.kafka.running import RunningKafka
from veristream.recording.kafka.workloads import FLUSH_S, new_topic, payload, produce
from veristream.recording.recording import Recording

BEFORE: Final = 5
"""Messages that all replicas have."""

DURING: Final = 10
"""Messages that are sent while the followers stand still."""

FETCH_S: Final = 0.8
"""Longer than a fetch of a follower waits: it then carries nothing of what is sent next."""

HEARD_S: Final = 0.7
OUT_OF_SYNC_S: Final = 45.0
ELECTION_S: Final = 10.0


def leader_is_killed(kafka: RunningKafka, recording: Recording) -> None:
    """Kills the leader after its followers stood still for a moment; they stay in sync, and one takes over.

    With acks=1, the leader has acknowledged what only it has. With acks=all and min.insync.replicas=2, it
    has acknowledged nothing meanwhile.
    """
    brokers, topic = kafka.local, new_topic("leader-is-killed")
    kafka.create_topic(topic)
    client = kafka.producer(recording, "producer-0")
    _send(client, topic, 0, BEFORE)
    client.flush(FLUSH_S)
    leader = brokers.leader(topic)
    followers = [each for each in brokers.brokers() if each != leader]
    time.sleep(FETCH_S)  # with acks=1, the followers do not have them yet
    paused = [recording.begin_incident("pause", each) for each in followers]
    for each in followers:
        brokers.pause(each)
    time.sleep(FETCH_S)
    _send(client, topic, BEFORE, DURING)
    client.flush(HEARD_S)
    with recording.incident("kill", leader):
        brokers.kill(leader)
        for number, each in zip(paused, followers, strict=True):
            brokers.resume(each)
            recording.end_incident(number)
        brokers.leader(topic, other_than=leader)
        client.close(FLUSH_S)
        brokers.start([leader])
    _read(kafka, recording, topic)


def only_replica_in_sync_is_killed(kafka: RunningKafka, recording: Recording) -> None:
    """Kills the leader once its followers are out of sync.

    With unclean.leader.election.enable, one of them takes over all the same, and loses what it lacks.
    Without it, the partition waits until its leader is back.
    """
    brokers, topic = kafka.local, new_topic("only-replica-in-sync")
    kafka.create_topic(topic)
    client = kafka.producer(recording, "producer-0")
    _send(client, topic, 0, BEFORE)
    client.flush(FLUSH_S)
    leader = brokers.leader(topic)
    followers = [each for each in brokers.brokers() if each != leader]
    paused = [recording.begin_incident("pause", each) for each in followers]
    for each in followers:
        brokers.pause(each)
    _wait_alone(kafka, topic, leader)
    _send(client, topic, BEFORE, DURING)
    client.flush(HEARD_S)
    with recording.incident("kill", leader):
        brokers.kill(leader)
        for number, each in zip(paused, followers, strict=True):
            brokers.resume(each)
            recording.end_incident(number)
        _wait_for_other(kafka, topic, leader)
        brokers.start([leader])
    client.close(FLUSH_S)
    _read(kafka, recording, topic)


def _send(client: RecordedProducer, topic: str, first: int, count: int) -> None:
    for number in range(first, first + count):
        try:
            produce(client, topic, payload(number), 0)
        except KafkaException:
            return  # the recording has it
        client.poll(0)


def _wait_alone(kafka: RunningKafka, topic: str, leader: str) -> None:
    """Waits until a leader knows that no follower is in sync with it."""
    deadline_s = time.monotonic() + OUT_OF_SYNC_S
    while True:
        found = kafka.local.partition(topic, seen_by=leader)
        if found is not None and len(found.in_sync) == 1:
            return
        if time.monotonic() > deadline_s:
            raise EnvironmentFailure(
                f"the followers of {topic} are still in sync after {OUT_OF_SYNC_S:.0f} s"
            )
        time.sleep(0.1)


def _wait_for_other(kafka: RunningKafka, topic: str, leader: str) -> bool:
    """Waits for a while whether another broker takes over."""
    deadline_s = time.monotonic() + ELECTION_S
    while time.monotonic() < deadline_s:
        try:
            found = kafka.local.partition(topic)
        except EnvironmentFailure:
            found = None  # those that were paused do not answer yet
        if found is not None and found.leader not in (None, int(leader.rpartition("-")[2])):
            return True
        time.sleep(0.1)
    return False


def _read(kafka: RunningKafka, recording: Recording, topic: str) -> None:
    kafka.wait_healed([topic])
    reader = kafka.reader(recording, "reader-0")
    read_to_end(recording, reader, topic, [0])
    reader.close()
    recording.finish()
