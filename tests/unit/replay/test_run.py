"""From a request to a finding: which stage, what it is given, what it is asked, and what is told."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from veristream.errors import ModelError
from veristream.history.events import Operation
from veristream.history.manifest import Stream
from veristream.history.verdicts import Word
from veristream.known import find_shipped
from veristream.recording.recording import Recording
from veristream.replay.course import Course, Done, Tell
from veristream.replay.execution import Given, Seen
from veristream.replay.listed import Compared, find_replays
from veristream.replay.outcome import Evidence, NotExecutable, Observed, Outcome, Replayed, outcome
from veristream.replay.plan import Plan
from veristream.replay.report import html, text
from veristream.replay.report import json as as_json
from veristream.replay.run import Request, replay
from veristream.replay.trace import Run, find_run

DELIVERY = find_shipped() / "delivery"
TOLD = Evidence("/lookup named 127.0.0.1:4150", shows=True)
QUIET = Evidence("in the end, there is an entry")


class Fake:
    """Takes all steps, and records a message that is lost or not."""

    def __init__(self, observed: Observed | None = None, *, loses: bool = False) -> None:
        self.given: Given | None = None
        self._observed = (observed,) if observed is not None else ()
        self._loses = loses

    def __call__(
        self, plan: Plan, given: Given, folder: Path, tell: Tell, say: Callable[[str], None]
    ) -> Seen:
        self.given = given
        with Recording(folder / "history", "fake") as recording:
            stream = recording.stream("q", Stream("q", offsets=False))
            journal = recording.journal("P")
            sent = {"stream": stream, "partition": 0, "producer": 0, "number": 0, "digest": 1}
            journal.ok(journal.invoke(Operation.SEND, **sent))
            if not self._loses:
                journal.note(Operation.RECEIVE, attempt=1, **sent)
            journal.ok(journal.invoke(Operation.READ_TO_END, stream=stream, partition=0))
            recording.finish()
        done = tuple(Done(step, "done") for step in plan.steps)
        return Seen(Course(done), evidence=(TOLD, QUIET), observed=self._observed)


@pytest.fixture(scope="module")
def tombstone() -> Run:
    return find_run(DELIVERY / "nsq_lookup.py", "removed_stays_out", {})


def test_a_stage_is_given_what_the_run_needs(tmp_path: Path, tombstone: Run) -> None:
    fake = Fake(Observed("removed stays out", Word.VIOLATED, "it came back"))
    request = Request(tombstone, "nsq", {"nsqd.msg-timeout": "1s"}, 5.0, steered=False)
    found = replay(request, tmp_path, execute=fake)
    assert fake.given == Given(
        {"nsqlookupd.tombstone-lifetime": "5s", "nsqd.msg-timeout": "1s"},
        {},
        5.0,
        "nsq_lookup.py removed_stays_out",
        steered=False,
        observes="removed stays out",
    )
    assert outcome(found.finding) is Outcome.REPRODUCED
    assert found.property == "removed stays out"


def test_what_a_history_shows_is_not_asked_of_the_stage(tmp_path: Path) -> None:
    run = find_run(DELIVERY / "rabbitmq_clients.py", "acknowledged_is_delivered", {"CUTS": 1})
    lost, kept = Fake(loses=True), Fake()
    found = replay(Request(run, "rabbitmq"), tmp_path / "lost", execute=lost)
    assert outcome(found.finding) is Outcome.REPRODUCED
    assert lost.given is not None
    assert (lost.given.observes, lost.given.constants) == ("", {"CONFIRMS": 0, "PREFETCH": 2, "CUTS": 1})
    assert lost.given.settings == {"client.confirms": "false", "client.prefetch": "2"}
    found = replay(Request(run, "rabbitmq"), tmp_path / "kept", execute=kept)
    assert outcome(found.finding) is Outcome.NOT_REPRODUCED


def test_a_run_without_a_counterpart_starts_nothing(tmp_path: Path) -> None:
    run = find_run(DELIVERY / "nsq_lookup.py", "announced_is_alive", {"KILLS": 1})
    fake = Fake()
    found = replay(Request(run, "nsq"), tmp_path, execute=fake)
    assert isinstance(found.finding, NotExecutable)
    assert found.finding.step.action == "kill"
    assert (fake.given, found.property) == (None, None)


def test_what_nothing_shows_and_where_nothing_runs_are_errors(tmp_path: Path, tombstone: Run) -> None:
    with pytest.raises(ModelError, match="nothing is replayed on redis") as caught:
        replay(Request(tombstone, "redis"), tmp_path)
    assert caught.value.hint == "one of kafka, rabbitmq, nsq"
    other = replace(tombstone, model_property="announced_is_alive")
    with pytest.raises(
        ModelError, match="no property of a history stands for announced_is_alive"
    ) as caught:
        replay(Request(other, "nsq"), tmp_path, execute=Fake())
    assert caught.value.hint == "the table has removed_stays_out"


@pytest.fixture
def replayed(tmp_path: Path, tombstone: Run) -> Replayed:
    fake = Fake(Observed("removed stays out", Word.VIOLATED, "it came back"))
    return replay(Request(tombstone, "nsq"), tmp_path, execute=fake)


def test_reports_have_the_evidence(replayed: Replayed, tombstone: Run) -> None:
    shown = text.render_replay(replayed)
    assert f"\n\n{TOLD.told}\n{QUIET.told}\n\nreproduced: removed stays out: it came back" in shown
    document = json.loads(as_json.render_replay(replayed))
    assert document["evidence"] == [TOLD.told, QUIET.told]
    assert (document["property"], document["reason"], document["offsets"]) == (
        "removed stays out",
        "removed stays out: it came back",
        [],
    )
    page = html.render_replay("nsq", tombstone.trace, replayed)
    assert page.count(f"<p>{TOLD.told}.</p>") == page.count(f"<p>{QUIET.told}.</p>") == 1


def test_a_list_has_the_broker_and_the_evidence_that_shows_something(
    replayed: Replayed, tombstone: Run
) -> None:
    (one,) = find_replays(find_shipped(), ["nsq-tombstone"])
    compared = Compared(one, tombstone, replayed, ())
    shown = text.render_listed([compared])
    assert "  nsq-tombstone (nsq): " in shown
    assert TOLD.told in shown
    assert QUIET.told not in shown
    assert shown.endswith("1 of 1 replays are as expected")
    document = as_json.show_listed(compared)
    assert (document["broker"], document["evidence"]) == ("nsq", [TOLD.told, QUIET.told])
    assert '<td data-title="on">nsq</td>' in "".join(map(str, html.show_listed([compared])))
