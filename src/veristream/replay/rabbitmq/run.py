"""Executes a plan on a RabbitMQ node that is started for it, or on one that runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Final

from veristream.recording.rabbitmq.running import RunningRabbit, local_rabbit
from veristream.recording.rabbitmq.settings import read_settings
from veristream.recording.recording import Recording
from veristream.replay.course import Tell, execute
from veristream.replay.execution import Execute, Given, Seen
from veristream.replay.order import observe_order
from veristream.replay.plan import Plan
from veristream.replay.rabbitmq.stage import WORDS, Shape, on_stage

NODES: Final = 1
"""The models have one node, which does not fail."""


def execute_on_rabbitmq(
    plan: Plan, given: Given, folder: Path, tell: Tell, say: Callable[[str], None]
) -> Seen:
    """Starts a node, executes the plan, reads what came of it; the recording is in `folder/history`."""
    WORDS.check(plan, given.observes)
    settings = read_settings(given.settings)
    say("starting RabbitMQ")
    with local_rabbit(folder / "brokers", settings, NODES) as rabbit:
        seen = execute_with(rabbit)(plan, given, folder, tell, say)
        say("stopping RabbitMQ")
    return seen


def execute_with(rabbit: RunningRabbit) -> Execute:
    """Returns what executes plans on nodes that run; settings of the broker remain what they are."""

    def executed(plan: Plan, given: Given, folder: Path, tell: Tell, say: Callable[[str], None]) -> Seen:
        WORDS.check(plan, given.observes)
        rabbit.settings = read_settings(given.settings)
        shape = Shape(plan.processes, plan.held if given.steered else Counter())
        described = rabbit.describe()
        with Recording(folder / "history", "rabbitmq", given.title, described) as recording:
            with on_stage(rabbit, recording, shape, given.seconds) as stage:
                course = execute(plan, stage, tell, steered=given.steered)
                say("reading what came of it")
                left = stage.observe()
            recording.finish()
        order, evidence = observe_order(folder / "history", plan.processes)
        return Seen(course, evidence=(*evidence, left), observed=(order,))

    return executed
