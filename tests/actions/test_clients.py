"""RabbitMQ and NSQ as clients see them: the runs that a replay executes, step by step."""

from __future__ import annotations

from pathlib import Path

import pytest

import veristream as vs
from veristream.expected import read_known
from veristream.library import load
from veristream.verdict import Holds, Violated

FOLDER = Path(__file__).resolve().parents[2] / "models" / "delivery"
FILES = ("rabbitmq_clients.py", "nsq_channels.py", "nsq_lookup.py")
KNOWN = {model.name: model for model in read_known(FOLDER) if model.path.name in FILES}

RUNS = {
    ("rabbitmq_cut", "acknowledged_is_delivered"): "publish cut",
    ("rabbitmq_requeue_prefetch", "handled_in_order"): (
        "publish publish enqueue enqueue deliver deliver requeue deliver"
    ),
    ("nsq_late_channel", "channel_gets_everything"): "subscribe publish copy subscribe",
    ("nsq_tombstone", "removed_stays_out"): "publish register tombstone expire lookup",
    ("nsq_tombstone_published", "removed_stays_out"): (
        "publish register tombstone delete_topic publish unregister register lookup"
    ),
    ("nsq_dead", "announced_is_alive"): "publish kill register",
}
"""The shortest run against a property of a known model, by its actions."""

REPAIRED = {
    ("rabbitmq_cut_confirmed", "acknowledged_is_delivered"),
    ("rabbitmq_requeue_single", "handled_in_order"),
    ("nsq_early_channels", "channel_gets_everything"),
    ("nsq_no_requeue", "handled_in_order"),
    ("nsq_tombstone_deleted", "removed_stays_out"),
    ("nsq_half_open", "dead_is_forgotten"),
}


@pytest.mark.models
@pytest.mark.parametrize("name", sorted(KNOWN))
def test_is_as_expected(name: str) -> None:
    """Verdicts, counts and vacuity are those of expected.toml."""
    (reproduction,) = vs.reproduce([name], models=FOLDER.parent)
    assert reproduction.outcomes
    assert [
        (one.expectation.property, one.differences) for one in reproduction.outcomes if one.differences
    ] == []


@pytest.mark.parametrize("file", FILES)
def test_no_property_is_forgotten(file: str) -> None:
    """Each property of a model has an expected verdict in some run of it."""
    listed = {
        one.property.split("(")[0]
        for model in KNOWN.values()
        if model.path.name == file
        for one in model.expectations
    }
    assert listed == {one.name.split("(")[0] for one in load(FOLDER / file).properties}


@pytest.mark.parametrize(("name", "property_name"), RUNS)
def test_the_shortest_run(name: str, property_name: str) -> None:
    """A replay maps these actions to calls and messages, so that they and their order matter."""
    model = KNOWN[name]
    (result,) = vs.check(model.path, [property_name], constants=model.constants)
    assert isinstance(result.verdict, Violated) and result.verdict.trace is not None
    steps = result.verdict.trace.steps
    assert [step.action.split("(")[0] for step in steps if step.action is not None] == RUNS[
        name, property_name
    ].split()


@pytest.mark.parametrize(("name", "property_name"), sorted(REPAIRED))
def test_the_repaired_variant_holds(name: str, property_name: str) -> None:
    model = KNOWN[name]
    (result,) = vs.check(model.path, [property_name], constants=model.constants)
    assert isinstance(result.verdict, Holds) and result.verdict.vacuous is None


def test_confirms_may_double() -> None:
    """The price of publishing again: a message whose confirm was cut off is stored twice."""
    model = KNOWN["rabbitmq_cut_confirmed"]
    (result,) = vs.check(model.path, ["stored_once"], constants=model.constants)
    assert isinstance(result.verdict, Violated) and result.verdict.trace is not None
    assert result.verdict.trace.steps[-1].state["ready"] == [0, 0]
