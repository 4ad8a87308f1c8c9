"""The trials: each names models and properties that exist, and compares what the catalogue joins."""

from __future__ import annotations

import pytest

from veristream.catalogue.catalogue import ENTRIES
from veristream.errors import ModelError
from veristream.trials.comparison import verdict_of
from veristream.trials.listed import BROKERS, TRIALS, find_trials
from veristream.trials.run import find_models
from veristream.trials.trial import Trial

KNOWN = find_models()
SYSTEMS = {"kafka": "Kafka", "rabbitmq": "RabbitMQ", "nsq": "NSQ"}


def test_every_broker_has_at_least_six_configurations() -> None:
    assert BROKERS == ("kafka", "rabbitmq", "nsq")
    for broker in BROKERS:
        assert len(find_trials([broker])) >= 6, broker
    assert len({one.title for one in TRIALS}) == len(TRIALS)


@pytest.mark.parametrize("trial", TRIALS, ids=lambda one: one.title)
def test_a_trial_names_what_exists(trial: Trial) -> None:
    assert trial.about.endswith(".") and trial.settings and trial.workload and trial.pairs
    assert len({one.property for one in trial.pairs}) == len(trial.pairs)
    for pair in trial.pairs:
        assert pair.model in KNOWN
        assert verdict_of(KNOWN[pair.model], pair.model_property) in ("holds", "violated")


@pytest.mark.parametrize("trial", TRIALS, ids=lambda one: one.title)
def test_a_pair_is_one_that_the_catalogue_joins(trial: Trial) -> None:
    """So the two verdicts are of one property, and `holds` proves it."""
    joined = {
        (entry.name, evidence.property, model)
        for entry in ENTRIES
        for evidence in entry.evidence
        for model in evidence.models
        if evidence.system == SYSTEMS[trial.broker] and not evidence.bad
    }
    assert [one for one in trial.pairs if (one.property, one.model_property, one.model) not in joined] == []


@pytest.mark.parametrize("trial", TRIALS, ids=lambda one: one.title)
def test_a_difference_is_one_from_the_model(trial: Trial) -> None:
    models = {one.property: verdict_of(KNOWN[one.model], one.model_property) for one in trial.pairs}
    for property_, expected in trial.differences.items():
        assert expected.verdict != {"holds": "held"}.get(models[property_], "violated"), property_
        assert expected.why and not expected.why.endswith(".")


def test_trials_are_found_by_broker_and_name() -> None:
    assert [one.title for one in find_trials(["nsq"], ["memory", "disk"])] == ["nsq memory", "nsq disk"]
    assert find_trials() == TRIALS


def test_unknown_names_get_a_suggestion() -> None:
    with pytest.raises(ModelError, match="there are no trials of `kafak`") as raised:
        find_trials(["kafak"])
    assert raised.value.hint == "did you mean `kafka`?"
    with pytest.raises(ModelError, match="no trial of nsq is called `acks-1`") as raised:
        find_trials(["nsq"], ["acks-1"])
    assert raised.value.hint.startswith("choose from memory, stopped, overflow, disk")
