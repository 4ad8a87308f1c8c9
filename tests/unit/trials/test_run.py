"""Running trials: brokers are opened once for their trials, closed whatever happens, and told of."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.history.report.sample import AUDIT
from tests.unit.trials.sample import ACKS_1, ACKS_ALL, IN_FLIGHT, KNOWN, LOSES, NO_ORDER, ONCE
from veristream.errors import EnvironmentFailure
from veristream.history.audited import Audit
from veristream.history.properties import Property
from veristream.trials.run import Stage, run
from veristream.trials.trial import Trial


class Stages:
    """Stages that write down what happens to them, and histories of one file."""

    def __init__(self, failing: str = "") -> None:
        self.log: list[str] = []
        self.failing = failing

    @contextmanager
    def open(self, broker: str, folder: Path) -> Iterator[Stage]:
        self.log.append(f"open {broker} in {folder.parent.name}/{folder.name}")
        try:
            yield self
        finally:
            self.log.append(f"close {broker}")

    def record(self, trial: Trial, history: Path) -> None:
        if trial.name == self.failing:
            raise EnvironmentFailure(f"{trial.broker} does not start")
        self.log.append(f"record {trial.title}")
        history.mkdir(parents=True)

    def audit(self, history: Path, properties: Sequence[Property]) -> Audit:
        assert history.is_dir()
        assert list(properties) == list(Property)
        self.log.append(f"audit {history.parent.name}/{history.name}")
        return replace(AUDIT, history=str(history), judgements=(LOSES, ONCE, NO_ORDER))


def test_trials_of_a_broker_share_it(tmp_path: Path) -> None:
    stages = Stages()
    told: list[str] = []
    found = run(
        (ACKS_1, ACKS_ALL, IN_FLIGHT),
        tmp_path,
        KNOWN,
        stages.open,
        stages.audit,
        lambda trial, what: told.append(f"{trial.title}: {what}"),
    )
    assert [each.trial.title for each in found] == ["kafka acks-1", "kafka acks-all", "nsq in-flight"]
    assert stages.log == [
        "open kafka in brokers/kafka",
        "record kafka acks-1",
        "audit histories/kafka-acks-1",
        "record kafka acks-all",
        "audit histories/kafka-acks-all",
        "close kafka",
        "open nsq in brokers/nsq",
        "record nsq in-flight",
        "audit histories/nsq-in-flight",
        "close nsq",
    ]
    assert told[:3] == ["kafka acks-1: recording", "kafka acks-1: auditing", "kafka acks-all: recording"]


def test_the_first_result_comes_before_the_second_trial(tmp_path: Path) -> None:
    stages = Stages(failing="acks-all")
    found = run((ACKS_1, ACKS_ALL), tmp_path, KNOWN, stages.open, stages.audit)
    assert next(found).trial is ACKS_1
    with pytest.raises(EnvironmentFailure, match="kafka does not start"):
        next(found)
    assert stages.log[-1] == "close kafka"


def test_brokers_are_closed_if_nobody_wants_the_rest(tmp_path: Path) -> None:
    stages = Stages()
    found = run((ACKS_1, ACKS_ALL), tmp_path, KNOWN, stages.open, stages.audit)
    next(found)
    found.close()
    assert stages.log[-1] == "close kafka"
