"""`veristream check`: verdicts, exit codes, JSON."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from veristream import library
from veristream.cli.failure import Exit, exit_of
from veristream.ir.property import Fairness
from veristream.verdict import Effort, Fault, Holds, Invalid, Result, Unknown, Verdict, Violated

KEYS = {
    "property",
    "kind",
    "verdict",
    "reason",
    "vacuous",
    "states",
    "transitions",
    "depth",
    "seconds",
    "memory_mib",
    "trace",
}


def test_all_hold(run: Any, counter: Path) -> None:
    done = run("check", counter, "-p", "bounded", "-p", "no_deadlock")
    assert done.exit_code == 0
    assert done.stderr == ""
    rows = [line.split() for line in done.stdout.splitlines() if line]
    assert [row[0] for row in rows[2:4]] == ["bounded", "no_deadlock"]
    assert rows[2][2:5] == ["holds", "4", "6"]


def test_some_violated(run: Any, counter: Path) -> None:
    done = run("check", counter)
    assert done.exit_code == 1
    assert "low is violated by 3 steps (no run is shorter):" in done.stdout
    assert "n: 2 → 3" in done.stdout
    assert "top holds, for example by 3 steps" in done.stdout


def test_lasso_shows_its_loop(run: Any, counter: Path) -> None:
    done = run("check", counter, "-p", "returns")
    assert done.exit_code == 1
    assert "loop begins" in done.stdout
    assert "back to step" in done.stdout
    again = json.loads(run("check", counter, "-p", "returns", "--json").stdout)
    (result,) = again["results"]
    assert "leads back to step" in result["reason"]
    loop = int(result["reason"].rsplit(" ", 1)[1])
    assert result["trace"][-1]["state"] == result["trace"][loop]["state"]


def test_a_bound_is_unknown(run: Any, counter: Path) -> None:
    done = run("check", counter, "-p", "bounded", "-D", "LIMIT=1000", "--max-states", 10)
    assert done.exit_code == 4
    assert "unknown" in done.stdout


def test_json_is_exact_and_alone(run: Any, counter: Path) -> None:
    done = run("check", counter, "--json")
    assert done.exit_code == 1
    assert done.stderr == ""
    document = json.loads(done.stdout)
    assert set(document) == {"model", "engine", "results"}
    assert (document["model"], document["engine"]) == (str(counter), "local")
    assert all(set(result) == KEYS for result in document["results"])
    verdicts = {result["property"]: result["verdict"] for result in document["results"]}
    assert verdicts == {
        "low": "violated",
        "bounded": "holds",
        "top": "holds",
        "returns": "violated",
        "no_deadlock": "holds",
    }
    trace = document["results"][0]["trace"]
    assert trace[0] == {"action": None, "process": None, "state": {"n": 0}}
    assert trace[-1] == {"action": "up", "process": "Counter", "state": {"n": 3}}


def test_constants(run: Any, counter: Path) -> None:
    done = run("check", counter, "-p", "bounded", "-D", "LIMIT=9", "--json")
    assert json.loads(done.stdout)["results"][0]["states"] == 10


def test_workers_agree(run: Any, counter: Path) -> None:
    one, two = (
        json.loads(run("check", counter, "-D", "LIMIT=50", "--workers", n, "--json").stdout) for n in (1, 2)
    )
    for left, right in zip(one["results"], two["results"], strict=True):
        for key in ("property", "verdict", "vacuous"):
            assert left[key] == right[key]


def test_fairness_reaches_the_search(run: Any, counter: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def check(*arguments: Any, **options: Any) -> tuple[Result, ...]:
        asked.append(options["fairness"])
        return ()

    monkeypatch.setattr(library, "check", check)
    run("check", counter)
    run("check", counter, "--fairness", "none")
    run("check", counter, "--fairness", "strong-process")
    assert asked == [None, Fairness.NONE, Fairness.STRONG_PROCESS]


def result_of(verdict: Verdict) -> Result:
    return Result("p", "always", verdict, Effort(1, 1, 1, 0.1, 1.0))


@pytest.mark.parametrize(
    ("verdicts", "code"),
    [
        ([], Exit.HOLDS),
        ([Holds(), Holds()], Exit.HOLDS),
        ([Holds(), Violated(), Unknown("")], Exit.VIOLATED),
        ([Holds(), Unknown("")], Exit.UNKNOWN),
        ([Violated(), Unknown("", fault=Fault("division by zero"))], Exit.MODEL_WRONG),
        ([Holds(), Invalid("unknown name"), Violated()], Exit.MODEL_WRONG),
    ],
)
def test_exit_codes(verdicts: list[Verdict], code: Exit) -> None:
    assert exit_of([result_of(verdict) for verdict in verdicts]) is code
    assert [exit_.value for exit_ in Exit] == [0, 1, 2, 3, 4, 70]


def test_help_needs_no_numba() -> None:
    code = (
        "import sys\nsys.argv = ['veristream', 'check', '--help']\n"
        "from veristream.cli import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "assert not {'numba', 'llvmlite', 'lark', 'rich.console'} & set(sys.modules), sorted(sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "Exit code: 0 all properties hold" in done.stdout


def test_a_page_has_the_verdicts_and_the_runs(run: Any, counter: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    done = run("check", counter, "--html", page)
    assert done.exit_code == 1
    written = page.read_text(encoding="utf-8")
    assert written.count("<svg") == done.stdout.count("step   ") > 1
    assert "low is violated by 3 steps (no run is shorter):" in written


def test_a_page_that_cannot_be_written_is_told_after_the_verdicts(run: Any, counter: Path) -> None:
    done = run("check", counter, "-p", "bounded", "--html", counter / "page.html")
    assert done.exit_code == 3
    assert "bounded" in done.stdout
    assert "page.html: Not a directory" in done.stderr
