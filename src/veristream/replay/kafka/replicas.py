"""The brokers of a run in which one of them fails, or the transaction log is replicated step by step.

A coordinator is the broker that leads the transaction log, of which each broker has a replica. Brokers
reach each other through proxies, where markers wait, and the fetches of the log's followers.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from veristream.brokers.proxy.kafka import Key
from veristream.brokers.proxy.script import Match, Rule
from veristream.brokers.proxy.steering import Steering, WaitedTooLong
from veristream.brokers.replicated.requests import Described, ask_producer_id, ask_transaction
from veristream.errors import EnvironmentFailure
from veristream.recording.kafka.running import RunningKafka, between_name
from veristream.recording.recording import Recording

ANSWER_S: Final = 20.0
POLL_S: Final = 0.05
ONGOING: Final = ("Ongoing",)
ENDING: Final = ("PrepareCommit", "PrepareAbort", "PrepareEpochFence")
"""The states of a transaction before and while its markers are written, as Kafka names them."""

FETCHES: Final = 3
"""After so many fetches, a follower has fetched all that was there before the first one, and said so."""


@dataclass(slots=True)
class Replicas:
    """Brokers of which one coordinates all of these transactional ids, until it is killed."""

    kafka: RunningKafka
    recording: Recording
    steering: Steering
    ids: Sequence[str]
    seconds: float
    coordinator: str = ""
    is_log_held: bool = False
    _held: list[str] = field(default_factory=list)
    _armed: int = 0
    _killed: int | None = None
    _state: str = ""

    def find(self) -> str:
        """Waits until a broker coordinates all ids and has producer ids; returns what went wrong."""
        deadline_s = time.monotonic() + self.seconds
        while True:
            for name in self._alive():
                if self._is_ready(name):
                    self.coordinator = name
                    return ""
            if time.monotonic() > deadline_s:
                return f"no broker coordinates {', '.join(self.ids)}"
            time.sleep(POLL_S)

    def _is_ready(self, broker: str) -> bool:
        told = [self.describe(each, broker) for each in self.ids]
        if not all(one is not None and one.is_coordinated for one in told):
            return False
        try:
            return ask_producer_id(self.kafka.local.address(broker)) == 0
        except OSError:
            return False

    def describe(self, transactional_id: str, broker: str = "") -> Described | None:
        """Returns what a broker, by default the coordinator, says of an id; None if it does not answer."""
        try:
            return ask_transaction(self.kafka.local.address(broker or self.coordinator), transactional_id)
        except OSError:
            return None

    def create_topic(self, name: str, partitions: int) -> None:
        """Creates a topic that the coordinator has no part in; its partitions have different leaders."""
        others = [_number(one) for one in self._alive() if one != self.coordinator]
        placed = [others[each % len(others) :] + others[: each % len(others)] for each in range(partitions)]
        admin = AdminClient(self.kafka.client_settings("administrator"))
        new = NewTopic(name, partitions, replica_assignment=placed, config=dict(self.kafka.settings.topic))
        try:
            admin.create_topics([new], operation_timeout=ANSWER_S, request_timeout=ANSWER_S)[name].result()
        except KafkaException as failure:
            raise EnvironmentFailure(
                f"cannot create the topic {name}: {failure}", "see log.txt of the brokers"
            ) from failure
        self.kafka.local.wait_in_sync(name)

    def await_end(self, transactional_id: str, states: Collection[str]) -> str:
        """Waits until a transaction is in none of these states; returns what went wrong."""
        deadline_s = time.monotonic() + self.seconds
        while (told := self.describe(transactional_id)) is None or told.state in states:
            if time.monotonic() > deadline_s:
                return f"the transaction is {'not known' if told is None else told.state}"
            time.sleep(POLL_S)
        return ""

    def kill(self) -> None:
        """Kills the coordinator for good."""
        assert self._killed is None, "of three brokers, two have to stay"
        self._killed = self.recording.begin_incident("kill", self.coordinator)
        self.kafka.local.kill(self.coordinator)

    def take_over(self) -> str:
        """Waits until another broker coordinates; returns what went wrong."""
        former = self.coordinator
        if self.is_log_held:
            for leader in self._alive():
                self._arm(leader)
        wrong = self.find() or (f"{former} still coordinates" if self.coordinator == former else "")
        told = self.describe(self.ids[0])
        self._state = "" if told is None else told.state
        return wrong

    def hold_log(self) -> str:
        """Keeps followers from fetching from the coordinator; returns what went wrong."""
        self.is_log_held = True
        return self._await(self._arm(self.coordinator))

    def replicate(self) -> str:
        """Lets followers fetch all that is in the log, and say so; returns what went wrong."""
        mark, held = self.steering.mark(), tuple(self._held)
        self._let_fetch(held)
        try:
            for name in self._followers(self.coordinator):
                match = _of(self.coordinator, name)
                self.steering.wait_passed(match, self.seconds, FETCHES, mark)
        except WaitedTooLong as failure:
            return str(failure)
        return self.hold_log()

    def fetch_once(self) -> str:
        """Lets followers fetch what is in the log, and not say that they have; returns what went wrong."""
        held = tuple(self._held)
        armed = self._arm(self.coordinator)
        self._let_fetch(held)
        return self._await(armed)

    def end(self) -> None:
        """Notes that the broker which was killed stayed down until now."""
        if self._killed is not None:
            told = {"another coordinator": self.coordinator, "transaction that it found": self._state}
            self.recording.end_incident(self._killed, told)
            self._killed = None

    def _arm(self, leader: str) -> list[str]:
        """Holds what a leader's followers fetch from now on; returns the names of the rules."""
        armed = []
        for name in self._followers(leader):
            self._armed += 1
            rule = f"fetch {self._armed} of {name} from {leader}"
            self.steering.perform(Rule(rule, "hold", _of(leader, name), times=None))
            armed.append(rule)
        self._held += armed
        return armed

    def _let_fetch(self, held: Sequence[str]) -> None:
        for rule in held:
            self.steering.release(rule)
            self._held.remove(rule)

    def _followers(self, leader: str) -> list[str]:
        return [name for name in self._alive() if name != leader]

    def _await(self, armed: Sequence[str]) -> str:
        try:
            for name in armed:
                self.steering.wait_held(name, self.seconds)
        except WaitedTooLong as failure:
            return str(failure)
        return ""

    def _alive(self) -> list[str]:
        running = self.kafka.local.find()
        return [name for name in self.kafka.nodes() if name in running]


def _number(name: str) -> int:
    return int(name.rpartition("-")[2])


def _of(leader: str, follower: str) -> Match:
    """Returns which messages are a follower's fetches from a leader."""
    client = f"broker-{_number(follower)}-fetcher-0"
    return Match(key=Key.FETCH, node=between_name(leader), client=client)
