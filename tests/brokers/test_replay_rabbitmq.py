"""Runs of a model, made to happen on a real RabbitMQ."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from typer.testing import CliRunner

from veristream.brokers.proxy.pieces import Bytes, let_pass
from veristream.cli.app import app
from veristream.history.verdicts import Judgement, Word
from veristream.known import find_shipped
from veristream.recording.rabbitmq.running import RunningRabbit
from veristream.replay.outcome import Evidence, NotReproduced, Observed, Replayed, Reproduced
from veristream.replay.rabbitmq.run import execute_with
from veristream.replay.run import Request, replay
from veristream.replay.trace import find_run

pytestmark = [pytest.mark.brokers, pytest.mark.xdist_group("rabbitmq")]

MODEL = find_shipped() / "delivery" / "rabbitmq_clients.py"
CUT = {"CUTS": 1}
REQUEUE = {"REQUEUES": 1}


def run(
    rabbit: RunningRabbit,
    folder: Path,
    name: str,
    constants: Mapping[str, int],
    settings: Mapping[str, str] | None = None,
    *,
    steered: bool = True,
) -> Replayed:
    found = find_run(MODEL, name, constants)
    request = Request(found, "rabbitmq", settings or {}, 5.0, steered)
    replayed = replay(request, folder, execute=execute_with(rabbit))
    assert (rabbit.proxies.framing, rabbit.proxies.decide) == (Bytes, let_pass)
    assert replayed.audit is not None
    assert replayed.audit.manifest.complete
    return replayed


def counts(replayed: Replayed) -> tuple[Word, Mapping[str, int]]:
    """Returns what the audit says of the property."""
    assert isinstance(replayed.finding, Reproduced | NotReproduced)
    assert isinstance(replayed.finding.judgement, Judgement)
    return replayed.finding.judgement.word, replayed.finding.judgement.counts


def test_a_message_on_its_way_is_lost_with_its_connection_unless_it_is_confirmed(
    rabbit: RunningRabbit, tmp_path: Path
) -> None:
    lost = run(rabbit, tmp_path / "lost", "acknowledged_is_delivered", CUT)
    assert isinstance(lost.finding, Reproduced)
    assert counts(lost) == (Word.VIOLATED, {"lost write": 1})
    assert lost.evidence == (Evidence("in the end, the queue had 0 messages"),)

    free = run(rabbit, tmp_path / "free", "acknowledged_is_delivered", CUT, steered=False)
    assert isinstance(free.finding, NotReproduced)
    assert (free.finding.step, counts(free)) == (None, (Word.HELD, {}))

    confirmed = run(
        rabbit, tmp_path / "confirmed", "acknowledged_is_delivered", CUT, {"client.confirms": "true"}
    )
    assert isinstance(confirmed.finding, NotReproduced)
    assert (confirmed.finding.step, counts(confirmed)) == (None, (Word.HELD, {}))
    assert confirmed.evidence == (Evidence("in the end, the queue had 1 message"),)


def test_what_is_published_again_because_its_confirm_was_cut_off_comes_twice(
    rabbit: RunningRabbit, tmp_path: Path
) -> None:
    found = run(rabbit, tmp_path, "stored_once", {**CUT, "CONFIRMS": 1})
    assert isinstance(found.finding, Reproduced)
    assert counts(found) == (Word.VIOLATED, {"duplicate": 1})
    assert found.course is not None
    assert [one.how for one in found.course.done] == [
        "Publish 1 of Publisher(0) waits at the proxy",
        "Publish 1 of Publisher(0): it is in the queue; Confirm 1 to Publisher(0) waits at the proxy",
        "cut",
        "Publish 2 of Publisher(0) waits at the proxy",
        "Publish 2 of Publisher(0): it is in the queue; Confirm 2 to Publisher(0) waits at the proxy",
    ]
    assert found.evidence == (Evidence("in the end, the queue had 2 messages"),)


def test_what_is_given_back_comes_after_a_later_message_if_two_may_be_out(
    rabbit: RunningRabbit, tmp_path: Path
) -> None:
    two = run(rabbit, tmp_path / "two", "handled_in_order", REQUEUE)
    seen = Observed("handled in order", Word.VIOLATED, "Consumer(0) received message 0 after message 1")
    assert two.finding == Reproduced(seen)
    assert Evidence("Consumer(0) received messages 0, 1, 0 again", shows=True) in two.evidence

    one = run(rabbit, tmp_path / "one", "handled_in_order", REQUEUE, {"client.prefetch": "1"})
    assert isinstance(one.finding, NotReproduced)
    assert one.finding.step is not None
    assert (one.finding.step.number, one.finding.step.action) == (6, "deliver")
    assert one.finding.instead.startswith("the call of Consumer(0) ended: nothing came for 5 s")
    assert one.finding.instead.endswith("RabbitMQ delivered: 1 to Consumer(0)")


def test_what_one_of_two_consumers_gives_back_goes_to_it_again(
    rabbit: RunningRabbit, tmp_path: Path
) -> None:
    found = run(rabbit, tmp_path, "handled_in_order", {**REQUEUE, "PREFETCH": 1, "CONSUMERS": 2})
    assert isinstance(found.finding, NotReproduced)
    assert found.finding.step is not None
    assert (found.finding.step.number, found.finding.step.process) == (9, "Consumer(1)")
    assert found.finding.instead.endswith("RabbitMQ delivered: 2 to Consumer(0), 1 to Consumer(1)")


def test_the_command_starts_a_rabbitmq_of_its_own(rabbitmq: None, tmp_path: Path) -> None:
    page = tmp_path / "replay.html"
    arguments = ["-p", "acknowledged_is_delivered", "-D", "CUTS=1", "--on", "rabbitmq", "--json"]
    result = CliRunner().invoke(app, ["replay", str(MODEL), *arguments, "--html", str(page)])
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert (document["outcome"], document["property"]) == ("reproduced", "acknowledged means delivered")
    assert (document["taken"], document["evidence"]) == (2, ["in the end, the queue had 0 messages"])
    assert "in the end, the queue had 0 messages" in page.read_text(encoding="utf-8")
