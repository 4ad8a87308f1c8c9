"""The stages: every trial has a scenario, and no scenario is without a trial."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from veristream.trials.listed import BROKERS, find_trials
from veristream.trials.stages import kafka, nsq, rabbitmq

SCENARIOS: Mapping[str, Mapping[str, object]] = {
    "kafka": kafka.SCENARIOS,
    "rabbitmq": rabbitmq.SCENARIOS,
    "nsq": nsq.SCENARIOS,
}


@pytest.mark.parametrize("broker", BROKERS)
def test_every_trial_has_a_scenario(broker: str) -> None:
    assert list(SCENARIOS[broker]) == [one.name for one in find_trials([broker])]
