"""`veristream reproduce --real`: what it prints, writes and exits with, without brokers."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.unit.replay.test_course import PLAN, Scripted
from tests.unit.replay.test_plan import RUN
from tests.unit.trials.intruders.sample import surprising, well
from tests.unit.trials.sample import tried_acks_1, tried_acks_all, tried_in_flight
from veristream.cli.history import real
from veristream.errors import EnvironmentFailure
from veristream.known import find_shipped
from veristream.replay.course import execute
from veristream.replay.listed import Compared, Listed, find_replays
from veristream.replay.outcome import Replayed, conclude
from veristream.replay.trace import Run
from veristream.trials.comparison import Tried
from veristream.trials.intruders.comparison import Attacked
from veristream.trials.listed import Chosen, choose


def titles(chosen: Chosen) -> list[str]:
    return [*(one.title for one in chosen.trials), *(one.title for one in chosen.configurations)]


class Runs:
    """Stands for the brokers: yields what was tried, and notes which trials were asked for."""

    def __init__(self, *tried: Tried | Attacked, failing: bool = False) -> None:
        self.tried = tried
        self.failing = failing
        self.asked: list[str] = []
        self.replays: list[str] = []
        self.replayed: list[Compared] = []
        self.folder = Path()

    def __call__(self, chosen: Chosen, folder: Path, models: Path | None) -> Iterator[Tried | Attacked]:
        self.asked = titles(chosen)
        self.folder = folder
        yield from self.tried
        if self.failing:
            raise EnvironmentFailure("broker-1 did not start", hint="see log.txt")

    def replay(self, listed: Sequence[Listed], folder: Path) -> Iterator[Compared]:
        """Stands for a steered broker."""
        self.replays = [one.name for one in listed]
        yield from self.replayed


@pytest.fixture
def stand(monkeypatch: pytest.MonkeyPatch) -> Any:
    def stand(*tried: Tried | Attacked, failing: bool = False) -> Runs:
        runs = Runs(*tried, failing=failing)
        monkeypatch.setattr(real, "_run", runs)
        monkeypatch.setattr(real, "_replay", runs.replay)
        return runs

    return stand


def test_explained_differences_are_well(run: Any, stand: Any) -> None:
    runs = stand(tried_acks_1(), tried_in_flight())
    done = run("reproduce", "--real")
    assert done.exit_code == 0
    assert runs.asked == titles(choose())
    assert runs.replays == [one.name for one in find_replays(find_shipped())]
    assert done.stdout.splitlines()[0] == "kafka"
    assert done.stdout.splitlines()[-1] == (
        "2 configurations: 2 of 4 verdicts agree, 1 differs (explained), 1 not observable"
    )
    assert not runs.folder.exists(), "nobody asked to keep it"


def test_an_unexplained_difference_is_a_finding(run: Any, stand: Any) -> None:
    stand(tried_acks_all())
    done = run("reproduce", "--real", "kafka")
    assert done.exit_code == 1
    assert "nothing explains the difference" in done.stdout


def test_json_and_page(run: Any, stand: Any, tmp_path: Path) -> None:
    runs = stand(tried_in_flight())
    page = tmp_path / "page.html"
    done = run("reproduce", "--real", "nsq", "--trial", "in-flight", "--json", "--html", page)
    assert done.exit_code == 0
    assert [one["trial"] for one in json.loads(done.stdout)["trials"]] == ["in-flight"]
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert runs.asked == ["nsq in-flight"]


def test_attacks_are_shown_after_the_trials(run: Any, stand: Any, tmp_path: Path) -> None:
    runs = stand(tried_in_flight(), well())
    page = tmp_path / "page.html"
    done = run("reproduce", "--real", "nsq", "kerberos", "--html", page)
    assert done.exit_code == 0
    assert [one for one in runs.asked if one.startswith("kerberos")] == runs.asked[-5:]
    shown = done.stdout.splitlines()
    assert shown[0] == "nsq"
    assert shown[-1].startswith("1 configuration: 2 of 4 outcomes agree with the models")
    assert 'id="kerberos-sasl-plaintext"' in page.read_text(encoding="utf-8")


def test_an_attack_with_another_outcome_is_a_finding(run: Any, stand: Any) -> None:
    runs = stand(surprising())
    done = run("reproduce", "--real", "kerberos", "--trial", "sasl-plaintext", "--json")
    assert done.exit_code == 1
    assert runs.asked == ["kerberos sasl-plaintext"]
    (trial,) = json.loads(done.stdout)["trials"]
    assert (trial["broker"], trial["results"][0]["expected"]) == ("kerberos", False)


def replayed(*differences: str) -> Compared:
    """A replay that was taken to its end."""
    (one,) = find_replays(find_shipped(), ["fenced"])
    course = execute(PLAN, Scripted())
    run = Run(one.model, "zombie_is_fenced(0)", RUN, one.constants, witness=True)
    return Compared(one, run, Replayed(PLAN, None, conclude(course, None), course), differences)


def test_replays_alone(run: Any, stand: Any, tmp_path: Path) -> None:
    runs = stand()
    runs.replayed = [replayed()]
    page = tmp_path / "page.html"
    done = run("reproduce", "--real", "replay", "--html", page)
    assert done.exit_code == 0
    assert runs.asked == []
    assert "hanging-v0" in runs.replays
    assert done.stdout.splitlines()[0] == "replays"
    assert done.stdout.splitlines()[-1] == "1 of 1 replays are as expected"
    assert 'id="replay-fenced"' in page.read_text(encoding="utf-8")


def test_a_replay_with_another_outcome_is_a_finding(run: Any, stand: Any) -> None:
    runs = stand()
    runs.replayed = [replayed("reproduced, not not reproduced")]
    done = run("reproduce", "--real", "replay", "--trial", "fenced", "--json")
    assert done.exit_code == 1
    assert runs.replays == ["fenced"]
    (one,) = json.loads(done.stdout)["replays"]
    assert (one["name"], one["outcome"], one["as_expected"]) == ("fenced", "reproduced", False)


def test_a_replay_by_name_among_all_brokers(run: Any, stand: Any) -> None:
    runs = stand()
    assert run("reproduce", "--real", "--trial", "fenced").exit_code == 0
    assert (runs.asked, runs.replays) == ([], ["fenced"])
    assert run("reproduce", "--real", "--trial", "fenced", "--trial", "acks-1").exit_code == 0
    assert (runs.asked, runs.replays) == (["kafka acks-1"], ["fenced"])
    wrong = run("reproduce", "--real", "nsq", "--trial", "fenced")
    assert wrong.exit_code == 2
    assert "no trial of nsq is called `fenced`" in wrong.stderr


def test_recordings_are_kept_on_request(run: Any, stand: Any, tmp_path: Path) -> None:
    runs = stand(tried_in_flight())
    assert run("reproduce", "--real", "--keep", tmp_path / "kept").exit_code == 0
    assert runs.folder == tmp_path / "kept"


def test_what_was_tried_before_a_failure_is_shown(run: Any, stand: Any) -> None:
    stand(tried_in_flight(), failing=True)
    done = run("reproduce", "--real")
    assert done.exit_code == 3
    assert "1 configuration: 1 of 1 verdict agree" in done.stdout
    assert done.stderr == "error: broker-1 did not start\nhint: see log.txt\n"


def test_what_is_missing_is_named(run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing was attacked, so that there is nothing to show."""
    monkeypatch.setenv("VERISTREAM_CACHE", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    done = run("reproduce", "--real", "kerberos")
    assert (done.exit_code, done.stdout) == (3, "")
    assert (
        "error: Kerberos runs from Debian's packages here, and `apt-get` is not on the PATH" in done.stderr
    )
    assert "hint: use Debian 12" in done.stderr


def test_wrong_requests(run: Any, stand: Any, tmp_path: Path) -> None:
    runs = stand()
    (tmp_path / "file").write_text("", encoding="utf-8")
    for arguments, told in (
        (("--trial", "acks-1"), "add --real"),
        (("--real", "kafak"), "did you mean `kafka`?"),
        (("--real", "kerberso"), "did you mean `kerberos`?"),
        (("--real", "kerberos", "--trial", "ssl"), "no trial of kerberos is called `ssl`"),
        (("--real", "nsq", "--trial", "acks-1"), "no trial of nsq is called `acks-1`"),
        (("--real", "--keep", tmp_path), "name a new folder"),
        (("--real", "--workers", 1), "--workers belongs to searches"),
        (("--real", "--engine", "local"), "--engine belongs to searches"),
    ):
        done = run("reproduce", *arguments)
        assert (done.exit_code, done.stdout) == (2, "")
        assert told in done.stderr
    assert runs.asked == []
