"""Executes a plan on a Kafka cluster that is started for it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from veristream.recording.kafka.running import RunningKafka, local_kafka
from veristream.recording.kafka.settings import read_settings
from veristream.recording.recording import Recording
from veristream.replay.counterparts import Call, Sent
from veristream.replay.course import Course, Tell, execute
from veristream.replay.kafka.stage import KafkaStage, Shape, check_plan, on_stage
from veristream.replay.outcome import Offsets
from veristream.replay.plan import Plan

BROKERS: Final = 1
"""The models have one leader of each partition, which does not change."""


@dataclass(frozen=True, slots=True)
class Given:
    """Where a plan is executed: settings as `veristream record` has them, how long a step may wait."""

    settings: Mapping[str, str]
    partitions: int
    seconds: float
    title: str
    steered: bool = True


@dataclass(frozen=True, slots=True)
class Seen:
    """What happened: how far reality took the run, and where readers stop in the end."""

    course: Course
    offsets: tuple[Offsets, ...]


def execute_on_kafka(
    plan: Plan, given: Given, folder: Path, tell: Tell, say: Callable[[str], None]
) -> Seen:
    """Starts a broker, executes the plan, reads what came of it; the recording is in `folder/history`."""
    check_plan(plan)
    settings = read_settings(given.settings)
    say("starting Kafka")
    with (
        local_kafka(folder / "brokers", settings, BROKERS) as kafka,
        Recording(folder / "history", "kafka", given.title, settings.flat()) as recording,
    ):
        with _stage(kafka, recording, plan, given) as stage:
            course = execute(plan, stage, tell, steered=given.steered)
            say("reading what came of it")
            offsets = stage.observe()
        recording.finish()
        say("stopping Kafka")
    return Seen(course, offsets)


def _stage(
    kafka: RunningKafka, recording: Recording, plan: Plan, given: Given
) -> AbstractContextManager[KafkaStage]:
    shape = Shape(plan.processes, _counts(plan, given), given.partitions)
    return on_stage(kafka, recording, shape, given.seconds)


def _counts(plan: Plan, given: Given) -> Counter[tuple[str, str]]:
    """Returns how many messages of each kind the run has of each client; what is beyond is not held."""
    return Counter(
        (step.process, step.counterpart.sends)
        for step in plan.steps
        if isinstance(step.counterpart, Call | Sent) and step.counterpart.sends and given.steered
    )
