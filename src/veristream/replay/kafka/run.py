"""Executes a plan on a Kafka cluster that is started for it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Final

from veristream.recording.kafka.running import local_kafka
from veristream.recording.kafka.settings import read_settings
from veristream.recording.recording import Recording
from veristream.replay.course import Tell, execute
from veristream.replay.execution import Given, Seen
from veristream.replay.kafka.stage import WORDS, Shape, on_stage
from veristream.replay.outcome import Evidence, Offsets
from veristream.replay.plan import Plan

BROKERS: Final = 1
"""The models have one leader of each partition, which does not change."""

PARTITIONS: Final = "PARTITIONS"
"""The constant of a model that says how many partitions there are."""


def execute_on_kafka(
    plan: Plan, given: Given, folder: Path, tell: Tell, say: Callable[[str], None]
) -> Seen:
    """Starts a broker, executes the plan, reads what came of it; the recording is in `folder/history`."""
    WORDS.check(plan, given.observes)
    settings = read_settings(given.settings)
    shape = Shape(
        plan.processes, plan.held if given.steered else Counter(), given.constants.get(PARTITIONS, 1)
    )
    say("starting Kafka")
    with (
        local_kafka(folder / "brokers", settings, BROKERS) as kafka,
        Recording(folder / "history", "kafka", given.title, settings.flat()) as recording,
    ):
        with on_stage(kafka, recording, shape, given.seconds) as stage:
            course = execute(plan, stage, tell, steered=given.steered)
            say("reading what came of it")
            offsets = stage.observe()
        recording.finish()
        say("stopping Kafka")
    return Seen(course, offsets, tuple(map(_evidence, offsets)))


def _evidence(offsets: Offsets) -> Evidence:
    """Says where readers of committed messages stop, and where the log ends."""
    if offsets.last_stable < offsets.end:
        told = (
            f"partition {offsets.partition}: the last stable offset stands at {offsets.last_stable},"
            f" while the log ends at {offsets.end}"
        )
        return Evidence(told, shows=True)
    return Evidence(f"partition {offsets.partition}: committed up to the end of the log, {offsets.end}")
