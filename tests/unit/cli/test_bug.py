"""An internal error: whatever the command, its exit code is no verdict, and it asks for a report."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from veristream import cli, library
from veristream.cli import verbs
from veristream.cli.failure import Exit
from veristream.cli.verbs import VERBS

MESSAGE = "internal error: ZeroDivisionError: of all things"


def fail(*_: Any, **__: Any) -> None:
    raise ZeroDivisionError("of all things")


def run_main(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> int:
    """Returns the exit code of the command with the arguments."""
    monkeypatch.setattr(sys, "argv", ["veristream", *map(str, arguments)])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert isinstance(ended.value.code, int)
    return ended.value.code


def check_report(capsys: Any, as_json: bool) -> None:
    told = capsys.readouterr()
    assert "Traceback (most recent call last)" in told.err
    assert f"error: {MESSAGE}\nhint: this is a bug of Veristream " in told.err
    assert "please report it" in told.err
    if as_json:
        error = json.loads(told.out)["error"]
        assert error["message"] == MESSAGE
        assert "no verdict" in error["hint"]
    else:
        assert told.out == ""


@pytest.mark.parametrize("as_json", [True, False])
@pytest.mark.parametrize("verb", VERBS)
def test_every_verb(verb: str, as_json: bool, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setattr(verbs, "_load", fail)
    arguments = [verb, *(["model.net", "--max-states", "1"] if verb == "check" else [])]
    assert run_main(monkeypatch, *arguments, *(["--json"] if as_json else [])) == Exit.BUG == 70
    check_report(capsys, as_json)


@pytest.mark.parametrize("as_json", [True, False])
@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        ("check", ("check", "{}")),
        ("check", ("check", "{}", "--no-reduction")),
        ("load_all", ("check", "{}")),
        ("simulate", ("simulate", "{}")),
        ("audit", ("audit", "{}")),
        ("reproduce", ("reproduce", "philosophers")),
    ],
)
def test_a_failing_search(
    function: str,
    arguments: tuple[str, ...],
    as_json: bool,
    counter: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Any,
) -> None:
    monkeypatch.setattr(library, function, fail)
    line = [one.format(counter) for one in arguments]
    assert run_main(monkeypatch, *line, *(["--json"] if as_json else [])) == 70
    check_report(capsys, as_json)


def test_a_page_that_cannot_be_drawn(
    counter: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setattr("veristream.report.html.render_results", fail)
    line = ("check", counter, "-p", "low", "--json", "--html", tmp_path / "page.html")
    assert run_main(monkeypatch, *line) == 70
    check_report(capsys, as_json=True)  # one document, not verdicts and then an error


def test_other_ends_are_no_bugs(counter: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    assert run_main(monkeypatch, "check", counter, "-p", "low") == 1
    assert run_main(monkeypatch, "check", counter, "-p", "none") == 2
    assert run_main(monkeypatch, "check", counter, "--no-such-option") == 2
    assert run_main(monkeypatch, "--version") == 0
    assert "internal error" not in capsys.readouterr().err
