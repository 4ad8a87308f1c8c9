"""Executing a plan: in the run's order, until its end or until reality leaves it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from tests.unit.replay.test_plan import PLAIN_RUN, PLAIN_TABLE, RUN, state, values
from tests.unit.replay.test_table import SMALL, STEPWISE
from veristream.history.properties import Property
from veristream.history.verdicts import Judgement, Word
from veristream.replay.course import Answer, Course, Held, execute
from veristream.replay.outcome import (
    NotReproduced,
    Observed,
    Outcome,
    Reproduced,
    conclude,
    explain,
    outcome,
)
from veristream.replay.plan import Plan, plan
from veristream.replay.table import read_tables
from veristream.verdict import Step, Trace

(TABLE,) = read_tables(SMALL, "replay.toml")
PLAN = plan(RUN, TABLE)
REFUSED = Answer("INVALID_TXN_STATE")


@dataclass
class Scripted:
    """A stage that answers as it is told, and notes what it is asked to do."""

    held: bool = True
    answer: Answer | None = REFUSED
    returned: Answer | None = field(default_factory=lambda: Answer("", 0.25))
    did: list[str] = field(default_factory=list)

    def call(self, process: str, verb: str, arguments: Sequence[str]) -> None:
        self.did.append(f"{process} {verb}{list(arguments)}")

    def take_held(self, process: str, kind: str) -> Held | None:
        self.did.append(f"{process} sends {kind}")
        return Held(len(self.did), kind, f"{kind} {len(self.did)}") if self.held else None

    def deliver(self, held: Held) -> Answer | None:
        self.did.append(f"deliver {held.title}")
        return self.answer

    def wait_returned(self, process: str) -> Answer | None:
        self.did.append(f"{process} returns")
        return self.returned

    def do(self, what: str, process: str, arguments: Sequence[str]) -> str:
        self.did.append(what)
        return ""

    def explain(self) -> str:
        return "nothing waits"


def left(course: Course) -> tuple[int, str]:
    assert course.left is not None
    return course.left.step.number, course.left.instead


def test_messages_are_delivered_as_the_run_says_and_not_as_they_came() -> None:
    stage = Scripted()
    course = execute(PLAN, stage)
    assert stage.did == [
        "P(0) open[]",
        "P(0) sends InitProducerId",
        "deliver InitProducerId 2",
        "P(0) sends Produce",
        "P(0) sends Produce",
        "deliver Produce 5",
        "P(0) returns",
    ]
    assert course.left is None
    assert [one.how for one in course.done] == [
        "InitProducerId 2 waits at the proxy",
        "InitProducerId 2: refused with INVALID_TXN_STATE",
        "hidden",
        "Produce 4 waits at the proxy",
        "Produce 5 waits at the proxy",
        "Produce 5: refused with INVALID_TXN_STATE",
        "the call returned after 0.2 s: ok",
    ]


def test_reality_leaves_the_run_where_something_else_happens() -> None:
    assert left(execute(PLAN, Scripted(held=False))) == (
        1,
        "the client of P(0) sent no InitProducerId; nothing waits",
    )
    assert left(execute(PLAN, Scripted(answer=Answer("")))) == (
        2,
        "InitProducerId 2: ok, where the run has refused",
    )
    assert left(execute(PLAN, Scripted(answer=Answer(None)))) == (
        2,
        "InitProducerId 2: its outcome is not known, where the run has refused",
    )
    assert left(execute(PLAN, Scripted(answer=None))) == (
        2,
        "InitProducerId 2 had no answer; nothing waits",
    )
    assert left(execute(PLAN, Scripted(returned=None))) == (
        7,
        "the call of P(0) does not return; nothing waits",
    )
    course = execute(PLAN, Scripted(returned=None))
    assert [one.step.number for one in course.done] == [1, 2, 3, 4, 5, 6]


def test_a_message_that_no_client_sent_cannot_be_delivered() -> None:
    run = Trace((Step(None, None, state("NEW", 7)), Step("take", "Broker(0)", state("NEW"))))
    assert left(execute(plan(run, TABLE), Scripted())) == (
        1,
        "the message P(0) 7 was never sent; nothing waits",
    )


def test_without_steering_only_clients_do_what_the_run_says() -> None:
    stage = Scripted(held=False, returned=REFUSED)
    course = execute(PLAN, stage, steered=False)
    assert stage.did == ["P(0) open[]", "P(0) returns"]
    assert course.left is None
    assert [one.how for one in course.done] == [
        "open is called",
        *["not steered"] * 5,
        "the call returned after 0.0 s: refused with INVALID_TXN_STATE",
    ]


def test_an_answer_that_comes_later_is_not_looked_at() -> None:
    (table,) = read_tables(STEPWISE, "replay.toml")
    wire = {"wire": [{"from": "P(0)", "number": 0}]}
    given = {"P(0).epoch": 1}
    run = Trace((Step(None, None, {}), Step("take", "B(0)", {}), Step("hear", "P(0)", given)))
    sent = plan(Trace((Step(None, None, {"wire": []}), Step("open", "P(0)", wire))), TABLE)
    taken = plan(Trace((Step(None, None, wire), Step("take", "B(0)", {"wire": []}))), table)
    heard = plan(Trace(run.steps[1:]), table)
    todo = Plan((*sent.steps, *taken.steps, *heard.steps))
    right = execute(todo, Scripted(answer=Answer(None), returned=Answer("", 0.5, epoch=1)))
    assert [one.how for one in right.done] == [
        "InitProducerId 2 waits at the proxy",
        "InitProducerId 2 goes on",
        "the call returned after 0.5 s: ok, with the epoch 1",
    ]
    wrong = execute(todo, Scripted(answer=Answer(None), returned=Answer("", 0.5, epoch=2)))
    assert left(wrong)[1] == "P(0) has the epoch 2, where the run has 1"
    assert execute(todo, Scripted(returned=Answer("", 0.5, epoch=2)), steered=False).left is None


@pytest.mark.parametrize(("first", "delivered"), [("oldest", (1, 2)), ("newest", (2, 1))])
def test_the_table_says_which_of_messages_with_the_same_name_goes_on_first(
    first: str, delivered: tuple[int, int]
) -> None:
    states = [state("NEW"), state("NEW", 1), state("NEW", 1, 1), state("NEW", 1), state("NEW")]
    names = ["produce(1)", "produce(1)", "take", "take"]
    steps = [Step(name, "P(0)", each) for name, each in zip(names, states[1:], strict=True)]
    (table,) = read_tables(SMALL.replace('["number"]', f'["number"], first = "{first}"'), "replay.toml")
    stage = Scripted()
    execute(plan(Trace((Step(None, None, states[0]), *steps)), table), stage)
    assert stage.did == [
        "P(0) sends Produce",
        "P(0) sends Produce",
        *(f"deliver Produce {number}" for number in delivered),
    ]


def test_an_answer_may_have_to_be_a_certain_error() -> None:
    assert REFUSED.fits("INVALID_TXN_STATE")
    assert not REFUSED.fits("CONCURRENT_TRANSACTIONS")
    assert not Answer("").fits("INVALID_TXN_STATE")


def test_what_stays_behind_is_waited_for_when_it_is_delivered() -> None:
    run = Trace(
        (
            *PLAIN_RUN.steps[:4],
            Step("enqueue", "B(0)", values([], [0, 0], ["0"])),
            Step("receive", "C(0)", values([], [0], ["0"])),
        )
    )
    stage = Scripted(answer=Answer(""), returned=Answer("", 0.5, "message 0 came"))
    course = execute(plan(run, PLAIN_TABLE), stage)
    assert stage.did == [
        "P(0) publish[]",
        "P(0) sends Publish",
        "P(0) publish[]",
        "deliver Publish 2",
        "P(0) sends Publish",
        "deliver Publish 5",
        "C(0) receive['0']",
        "C(0) returns",
    ]
    assert [one.how for one in course.done] == [
        "Publish 2 waits at the proxy",
        "the next Publish of P(0) stays behind what waits at the proxy",
        "Publish 2: ok",
        "Publish 5: ok",
        "the call returned after 0.5 s: message 0 came",
    ]


def test_an_answer_may_wait_too_and_a_cut_loses_what_waits() -> None:
    again = (
        *PLAIN_RUN.steps,
        Step("publish", "P(0)", values([0], [], ["0"])),
        Step("enqueue", "B(0)", values([], [0], ["0", "1"])),
    )
    stage = Scripted(answer=Answer(""))
    course = execute(plan(Trace(again), PLAIN_TABLE, {"CONFIRMS": 1}), stage)
    assert course.left is None
    assert stage.did[2:] == [
        "P(0) publish[]",
        "deliver Publish 2",
        "P(0) sends Confirm",
        "C(0) receive['0']",
        "C(0) returns",
        "cut",
        "P(0) publish[]",
        "P(0) sends Publish",  # at once: what was before it is lost
        "deliver Publish 10",
        "P(0) sends Confirm",
    ]
    assert course.done[2].how == "Publish 2: ok; Confirm 5 waits at the proxy"
    lost = Trace((*PLAIN_RUN.steps[:3], Step("cut", "P(0)", values([], [], [])), *again[-2:]))
    assert execute(plan(lost, PLAIN_TABLE, {"CONFIRMS": 1}), Scripted(answer=Answer(""))).left is None


def test_a_call_that_returns_otherwise_leaves_the_run_with_what_is_told() -> None:
    run = Trace((PLAIN_RUN.steps[3], PLAIN_RUN.steps[4]))
    stage = Scripted(returned=Answer("another message", 0.0, "message 1 came"))
    assert left(execute(plan(run, PLAIN_TABLE), stage)) == (
        1,
        "the call of C(0) ended: message 1 came, where the run has ok; nothing waits",
    )
    free = execute(plan(run, PLAIN_TABLE), stage, steered=False)
    assert free.left is None
    assert [one.how for one in free.done] == ["the call returned after 0.0 s: message 1 came"]


def test_what_a_stage_observed_concludes_as_an_audit_does() -> None:
    whole = execute(PLAN, Scripted())
    seen = Observed("handled in order", Word.VIOLATED, "C(0) received message 0 after message 1")
    assert conclude(whole, seen) == Reproduced(seen)
    assert explain(conclude(whole, seen)) == "handled in order: C(0) received message 0 after message 1"
    unseen = Observed("handled in order", Word.NOT_OBSERVABLE, "nothing was received")
    assert explain(conclude(whole, unseen)) == (
        "the broker took all steps, but handled in order is not observable: nothing was received"
    )


def test_only_a_run_that_was_taken_reproduces_what_the_audit_finds() -> None:
    violated = Judgement(Property.ABORTED, Word.VIOLATED, "1 message was read", 9)
    held = Judgement(Property.ABORTED, Word.HELD, "over 9 messages", 9)
    whole, torn = execute(PLAN, Scripted()), execute(PLAN, Scripted(returned=None))
    assert conclude(whole, violated) == Reproduced(violated)
    assert explain(conclude(whole, violated)) == "aborted is never read: 1 message was read"
    assert conclude(torn, violated) == NotReproduced(
        PLAN.steps[-1], "the call of P(0) does not return; nothing waits", violated
    )
    assert explain(conclude(whole, held)) == (
        "the broker took all steps, but aborted is never read is held: over 9 messages"
    )
    assert outcome(conclude(whole, held)) is Outcome.NOT_REPRODUCED
    assert execute(Plan(()), Scripted()) == Course(())
