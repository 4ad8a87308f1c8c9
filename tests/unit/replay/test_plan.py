"""Plans: what has to be done for each step of a run."""

from __future__ import annotations

import pytest

from tests.unit.replay.test_table import PLAIN, SMALL, STEPWISE
from veristream.errors import ModelError
from veristream.replay.counterparts import Call, Deliver, Do, Itself, Missing, Return, Sent
from veristream.replay.plan import plan, split_label
from veristream.replay.table import read_tables
from veristream.verdict import Shown, Step, Trace

(TABLE,) = read_tables(SMALL, "replay.toml")


def state(phase: str, *numbers: int) -> dict[str, Shown]:
    return {"P(0).phase": phase, "wire": [{"from": "P(0)", "number": each} for each in numbers]}


RUN = Trace(
    (
        Step(None, None, state("NEW")),
        Step("open", "P(0)", state("OPENING", 0)),
        Step("take", "Broker(0)", state("ADDING")),
        Step("hear", "P(0)", state("READY")),
        Step("produce(1)", "P(0)", state("READY", 1)),
        Step("produce(2)", "P(0)", state("READY", 1, 2)),
        Step("take", "Broker(0)", state("READY", 1)),
        Step("hear", "P(0)", state("READY", 1)),
    )
)


def test_each_step_has_its_counterpart_and_its_message() -> None:
    found = plan(RUN, TABLE)
    assert [(one.number, one.action, one.arguments) for one in found.steps] == [
        (1, "open", ()),
        (2, "take", ()),
        (3, "hear", ()),
        (4, "produce", ("1",)),
        (5, "produce", ("2",)),
        (6, "take", ()),
        (7, "hear", ()),
    ]
    assert [(one.counterpart, one.takes or one.adds) for one in found.steps] == [
        (Call("open", "InitProducerId", "wire"), ("wire", "P(0)", "0")),
        (Deliver("wire", "refused"), ("wire", "P(0)", "0")),
        (Itself("hidden"), None),
        (Sent("Produce", "wire"), ("wire", "P(0)", "1")),
        (Sent("Produce", "wire"), ("wire", "P(0)", "2")),
        (Deliver("wire", "refused"), ("wire", "P(0)", "2")),
        (Return("any"), None),
    ]
    assert found.missing is None
    assert found.processes == ("P(0)",)
    assert found.held == {("P(0)", "InitProducerId"): 1, ("P(0)", "Produce"): 2}


def test_a_step_without_a_counterpart_is_told() -> None:
    found = plan(Trace((*RUN.steps, Step("fail(1, True)", "Broker(0)", state("READY", 1)))), TABLE)
    assert found.missing is found.steps[-1]
    assert found.steps[-1].counterpart == Missing("nobody fails")
    assert found.steps[-1].title == "step 8, fail(1, True) of Broker(0)"


def test_a_table_that_does_not_fit_the_run_is_an_error() -> None:
    first = Step(None, None, state("NEW"))
    for steps, message in [
        ([Step("explode", "P(0)", state("NEW"))], "says nothing of its action explode"),
        ([Step("produce(1)", "P(0)", state("NEW"))], "step 1 adds no messages"),
        ([Step("produce(1)", "P(0)", state("NEW", 1, 2))], "step 1 adds 2 messages"),
        ([Step("take", "P(0)", {"P(0).phase": "NEW"})], "`wire` is no collection of messages"),
        ([Step("produce(1)", "P(0)", {"wire": [{"number": 1}]})], "lacks a field that the table names"),
    ]:
        with pytest.raises(ModelError) as caught:
            plan(Trace((first, *steps)), TABLE)
        assert message in caught.value.message


def test_a_run_without_an_end_cannot_be_replayed() -> None:
    with pytest.raises(ModelError, match="the run goes on for ever"):
        plan(Trace(RUN.steps, loop=2), TABLE)


def test_labels_are_split_into_names_and_arguments() -> None:
    assert split_label("commit") == ("commit", ())
    assert split_label("produce(1)") == ("produce", ("1",))
    assert split_label("fail_over(1, True)") == ("fail_over", ("1", "True"))


def test_what_a_step_adds_chooses_the_case() -> None:
    asked, busy = {"from": "P(0)", "number": 1}, {"from": "P(0)", "number": 1, "code": "BUSY"}
    (table,) = read_tables(STEPWISE, "replay.toml")
    steps = [
        Step(None, None, {"wire": [asked]}),
        Step("take", "B(0)", {"wire": []}),
        Step(None, None, {"wire": [asked]}),
        Step("take", "B(0)", {"wire": [busy | {"number": 2}]}),
    ]
    later, refused = (plan(Trace(tuple(steps[at : at + 2])), table).steps[0] for at in (0, 2))
    assert later.counterpart == Deliver("wire", None)
    assert refused.counterpart == Deliver("wire", "CONCURRENT_TRANSACTIONS")
    assert later.takes == refused.takes == ("wire", "P(0)", "1")


def test_a_step_knows_the_epoch_that_the_run_has() -> None:
    (table,) = read_tables(STEPWISE, "replay.toml")
    before = Step(None, None, {"P(0).epoch": -1})
    found = plan(Trace((before, Step("hear", "P(0)", {"P(0).epoch": 3}))), table)
    assert found.steps[0].epoch == 3
    with pytest.raises(ModelError, match=r"`P\(0\).epoch` is no number in the model"):
        plan(Trace((before, Step("hear", "P(0)", {}))), table)


(PLAIN_TABLE,) = read_tables(PLAIN, "replay.toml")


def values(wire: list[int], queue: list[int], confirms: list[str]) -> dict[str, Shown]:
    """A state in which the queue is a variable of the consumer, and confirms are a set."""
    return {"wire": [*wire], "C(0).queue": [*queue], "confirms": [*confirms]}


PLAIN_RUN = Trace(
    (
        Step(None, None, values([], [], [])),
        Step("publish", "P(0)", values([0], [], [])),
        Step("publish", "P(0)", values([0, 0], [], [])),
        Step("enqueue", "B(0)", values([0], [0], ["0"])),
        Step("receive", "C(0)", values([0], [], ["0"])),
        Step("cut", "P(0)", values([], [], ["0"])),
    )
)


def test_messages_that_are_no_records_have_one_sender() -> None:
    confirmed = plan(PLAIN_RUN, PLAIN_TABLE, {"CONFIRMS": 1})
    assert [(one.counterpart, one.takes, one.adds, one.client) for one in confirmed.steps] == [
        (Call("publish", "Publish", "wire", behind=True), None, ("wire", "P(0)", "0"), "P(0)"),
        (Call("publish", "Publish", "wire", behind=True), None, ("wire", "P(0)", "0"), "P(0)"),
        (
            Deliver("wire", "ok", "Confirm", "confirms"),
            ("wire", "P(0)", "0"),
            ("confirms", "P(0)", "0"),
            "P(0)",
        ),
        (Call("receive", returns="ok", takes="queue"), ("queue", "P(0)", "0"), None, "C(0)"),
        (Do("cut", ("wire",)), None, None, "P(0)"),
    ]
    assert confirmed.held == {("P(0)", "Publish"): 2, ("P(0)", "Confirm"): 1}
    assert confirmed.processes == ("P(0)", "C(0)")


def test_a_case_may_be_for_a_constant_of_the_run() -> None:
    without = plan(PLAIN_RUN, PLAIN_TABLE)
    assert without.steps[2].counterpart == Deliver("wire")
    assert without.steps[2].adds is None
    assert without.held == {("P(0)", "Publish"): 2}
