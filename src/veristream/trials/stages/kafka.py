"""The scenarios of Kafka, on one cluster of three brokers whose topics and clients differ by trial."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from veristream.recording.kafka.running import RunningKafka, local_kafka
from veristream.recording.kafka.scenarios.elections import (
    leader_is_killed,
    only_replica_in_sync_is_killed,
)
from veristream.recording.kafka.scenarios.groups import member_dies
from veristream.recording.kafka.scenarios.late import write_is_late
from veristream.recording.kafka.scenarios.retries import answers_are_cut, request_is_lost
from veristream.recording.kafka.scenarios.transactions import producer_is_fenced, some_are_aborted
from veristream.recording.kafka.settings import Settings
from veristream.recording.recording import Recording
from veristream.trials.run import Stage
from veristream.trials.trial import Trial

Run = Callable[[RunningKafka, Recording], None]


@dataclass(frozen=True, slots=True)
class Scenario:
    """What is run, and with which settings of the topic, the producers and the consumers.

    With settings of `broker`, a cluster of one broker is started for it alone.
    """

    run: Run
    topic: Mapping[str, str] = field(default_factory=dict)
    producer: Mapping[str, str] = field(default_factory=dict)
    consumer: Mapping[str, str] = field(default_factory=dict)
    broker: Mapping[str, str] = field(default_factory=dict)


_TWO = {"min.insync.replicas": "2"}
_ONE = {"min.insync.replicas": "1", "unclean.leader.election.enable": "false"}
_IDEMPOTENT = {"enable.idempotence": "true"}
_COMMITTED = {"isolation.level": "read_committed"}
_TRUSTING = {"transaction.partition.verification.enable": "false"}
_NOT_IDEMPOTENT = {"acks": "all", "enable.idempotence": "false"}

SCENARIOS: Final[Mapping[str, Scenario]] = {
    "acks-all": Scenario(leader_is_killed, _TWO, _IDEMPOTENT),
    "acks-1": Scenario(leader_is_killed, _TWO, {"acks": "1"}),
    "acks-0": Scenario(leader_is_killed, _TWO, {"acks": "0"}),
    "one-in-sync": Scenario(only_replica_in_sync_is_killed, _ONE, _IDEMPOTENT),
    "unclean": Scenario(
        only_replica_in_sync_is_killed, {**_ONE, "unclean.leader.election.enable": "true"}, _IDEMPOTENT
    ),
    "retries": Scenario(answers_are_cut, _TWO, _NOT_IDEMPOTENT),
    "reordering": Scenario(request_is_lost, _TWO, _NOT_IDEMPOTENT),
    "one-in-flight": Scenario(answers_are_cut, _TWO, {**_NOT_IDEMPOTENT, "max.in.flight": "1"}),
    "idempotent": Scenario(answers_are_cut, _TWO, _IDEMPOTENT),
    "idempotent-reordering": Scenario(request_is_lost, _TWO, _IDEMPOTENT),
    "read-uncommitted": Scenario(some_are_aborted, _TWO, {}, {"isolation.level": "read_uncommitted"}),
    "read-committed": Scenario(some_are_aborted, _TWO, {}, _COMMITTED),
    "late-write": Scenario(write_is_late, consumer=_COMMITTED, broker=_TRUSTING),
    "late-write-verified": Scenario(write_is_late, _TWO, {}, _COMMITTED),
    "fenced": Scenario(producer_is_fenced, _TWO, {}, _COMMITTED),
    "auto-commit": Scenario(member_dies, _TWO, {}, {"enable.auto.commit": "true"}),
    "manual-commit": Scenario(member_dies, _TWO, {}, {"enable.auto.commit": "false"}),
}
"""What records each trial, by its name."""


class _Kafka:
    def __init__(self, kafka: RunningKafka, folder: Path) -> None:
        self._kafka = kafka
        self._folder = folder

    def record(self, trial: Trial, history: Path) -> None:
        scenario = SCENARIOS[trial.name]
        settings = Settings(scenario.broker, scenario.topic, scenario.producer, scenario.consumer)
        if scenario.broker:
            with local_kafka(self._folder / trial.name, settings, 1) as alone:
                _record(alone, trial, history)
        else:
            self._kafka.settings = settings
            _record(self._kafka, trial, history)


def _record(kafka: RunningKafka, trial: Trial, history: Path) -> None:
    with Recording(history, "kafka", trial.name, kafka.settings.flat()) as recording:
        SCENARIOS[trial.name].run(kafka, recording)


@contextmanager
def open_kafka(folder: Path) -> Iterator[Stage]:
    """Runs the cluster until the block is left."""
    with local_kafka(folder / "shared", Settings()) as kafka:
        yield _Kafka(kafka, folder)
