"""Runs of models, made to happen on a real nsqd with a real nsqlookupd."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.missing import is_missing
from veristream.brokers.nsq.build import find_programs
from veristream.cli.app import app
from veristream.errors import EnvironmentFailure
from veristream.history.verdicts import Judgement, Word
from veristream.known import find_shipped
from veristream.replay.outcome import Evidence, NotReproduced, Observed, Replayed, Reproduced
from veristream.replay.run import Request, replay
from veristream.replay.trace import find_run

pytestmark = [pytest.mark.brokers, pytest.mark.xdist_group("nsq")]

CHANNELS = find_shipped() / "delivery" / "nsq_channels.py"
LOOKUP = find_shipped() / "delivery" / "nsq_lookup.py"
REMOVED = "removed_stays_out"


@pytest.fixture(autouse=True)
def programs() -> None:
    try:
        find_programs()
    except EnvironmentFailure as missing:
        is_missing(missing.render())


def run(
    folder: Path,
    model: Path,
    name: str,
    constants: Mapping[str, int] | None = None,
    settings: Mapping[str, str] | None = None,
    *,
    steered: bool = True,
) -> Replayed:
    found = find_run(model, name, constants or {})
    replayed = replay(Request(found, "nsq", settings or {}, 20.0, steered), folder)
    assert replayed.audit is not None
    assert replayed.audit.manifest.complete
    return replayed


def test_a_late_channel_misses_a_message_and_an_early_one_does_not(tmp_path: Path) -> None:
    late = run(tmp_path / "late", CHANNELS, "channel_gets_everything")
    assert isinstance(late.finding, Reproduced)
    assert isinstance(late.finding.judgement, Judgement)
    assert late.finding.judgement.counts == {"lost write": 1}
    assert late.evidence == (
        Evidence("the topic got 1 message; channel-0 got 1, channel-1 got 0", shows=True),
    )
    early = run(
        tmp_path / "early",
        CHANNELS,
        "channel_gets_everything",
        settings={"client.channels-first": "true"},
    )
    assert isinstance(early.finding, NotReproduced)
    assert early.finding.step is None
    assert isinstance(early.finding.judgement, Judgement)
    assert early.finding.judgement.word is Word.HELD
    assert early.evidence == (Evidence("the topic got 1 message; channel-0 got 1, channel-1 got 1"),)


def test_what_is_given_back_comes_after_a_later_message_although_one_may_be_out(tmp_path: Path) -> None:
    found = run(tmp_path, CHANNELS, "handled_in_order", {"CHANNELS": 1, "MESSAGES": 2, "REQUEUES": 1})
    name = "Channel(0)@nsqd-1"
    assert found.finding == Reproduced(
        Observed("handled in order", Word.VIOLATED, f"{name} received message 0 after message 1")
    )
    assert found.evidence[0] == Evidence(f"{name} received messages 0, 1, 0 again", shows=True)
    assert found.course is not None
    assert [one.how.partition(": ")[2] for one in found.course.done if one.step.action == "deliver"] == [
        "message 0 came",
        "message 1 came",
        "message 0 came again",
    ]


def test_a_removed_nsqd_comes_back_when_its_tombstone_ends_and_not_before(tmp_path: Path) -> None:
    back = run(tmp_path / "back", LOOKUP, REMOVED, settings={"nsqlookupd.tombstone-lifetime": "1s"})
    assert isinstance(back.finding, Reproduced)
    assert isinstance(back.finding.judgement, Observed)
    assert back.finding.judgement.word is Word.VIOLATED
    assert [one.shows for one in back.evidence] == [True, False]
    assert back.evidence[1].told == "in the end, nsqlookupd has an entry of the topic"

    hidden = {"nsqlookupd.tombstone-lifetime": "10m"}
    out = run(tmp_path / "out", LOOKUP, REMOVED, settings=hidden, steered=False)
    assert isinstance(out.finding, NotReproduced)
    assert out.finding.judgement == Observed("removed stays out", Word.HELD, "1 lookup named nobody")
    assert out.evidence[-1].told == "in the end, nsqlookupd has an entry with a tombstone of the topic"


def test_a_removed_nsqd_comes_back_with_the_next_message(tmp_path: Path) -> None:
    found = run(tmp_path, LOOKUP, REMOVED, {"DELETES": 1, "PUBLISHES": 2})
    assert isinstance(found.finding, Reproduced)
    assert found.course is not None
    told = {one.step.number: one.how for one in found.course.done}
    assert len(told) == 8
    assert told[4].startswith("UNREGISTER 1 of Nsqd(0) waits at the proxy; ")
    assert told[5].startswith("the next REGISTER of Nsqd(0) stays behind what waits at the proxy; ")
    assert told[6] == "UNREGISTER 1 of Nsqd(0): nsqlookupd no longer has the topic"
    assert told[7] == "REGISTER 2 of Nsqd(0): nsqlookupd has the topic"


def test_replays_are_listed_with_their_evidence(tmp_path: Path) -> None:
    page = tmp_path / "replays.html"
    names = ("nsq-removal", "nsq-dead")
    trials = [word for name in names for word in ("--trial", name)]
    arguments = ["reproduce", "--real", "replay", *trials, "--json", "--html", str(page)]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)["replays"]
    assert [(one["name"], one["broker"], one["outcome"], one["as_expected"]) for one in found] == [
        ("nsq-removal", "nsq", "reproduced", True),
        ("nsq-dead", "nsq", "not executable", True),
    ]
    assert found[0]["evidence"] == ["in the end, nsqlookupd has no entry of the topic"]
    assert found[1]["taken"] == 0
    assert "in the end, nsqlookupd has no entry of the topic" in page.read_text(encoding="utf-8")
