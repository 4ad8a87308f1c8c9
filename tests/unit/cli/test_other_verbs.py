"""`simulate`, `reproduce`, `export`, and the library behind them."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import veristream as vs

EXPECTED = """
paper = "A. Author, A Paper, 2001"
[[model]]
file = "counter.net"
constants = { LIMIT = 4 }
[[model.property]]
name = "bounded"
verdict = "holds"
states = 5
transitions = 8
source = "table 1"
[[model.property]]
name = "low"
verdict = "violated"
source = "table 2"
"""


def test_version_and_help(run: Any) -> None:
    assert run("--version").stdout == f"veristream {vs.__version__}\n"
    for verb in ("check", "simulate", "models", "reproduce", "export"):
        assert f"veristream {verb}" in run(verb, "--help").stdout
        assert verb in run("--help").stdout


def test_simulate_is_reproducible(run: Any, counter: Path) -> None:
    first = run("simulate", counter, "--seed", 7, "--steps", 9)
    assert first.exit_code == 0
    assert "9 steps (seed 7)" in first.stdout
    assert first.stdout == run("simulate", counter, "--seed", 7, "--steps", 9).stdout
    assert len({run("simulate", counter, "--seed", n, "--steps", 9).stdout[20:] for n in range(9)}) > 1


def test_simulate_json(run: Any, counter: Path) -> None:
    document = json.loads(run("simulate", counter, "--steps", 5, "--json").stdout)
    assert set(document) == {"model", "seed", "trace"}
    values = [step["state"]["n"] for step in document["trace"]]
    assert len(values) == 6
    assert all(abs(a - b) == 1 for a, b in pairwise(values))


def test_simulate_says_where_it_ends(run: Any, tmp_path: Path) -> None:
    text = (
        "network ends component A { location here initial location there final "
        "edge here -> there { action go } }"
    )
    path = tmp_path / "ends.net"
    path.write_text(text, encoding="utf-8")
    assert "1 step, then no step is possible" in run("simulate", path).stdout


@pytest.fixture
def models(counter: Path) -> Path:
    folder = counter.parent / "models" / "counter"
    folder.mkdir(parents=True)
    (folder / "counter.net").write_text(counter.read_text(encoding="utf-8"), encoding="utf-8")
    (folder / "expected.toml").write_text(EXPECTED, encoding="utf-8")
    return folder.parent


def test_reproduce(run: Any, models: Path) -> None:
    done = run("reproduce", "--models", models)
    assert done.exit_code == 0, done.stdout
    assert "counter with LIMIT = 4: A. Author, A Paper, 2001" in done.stdout
    assert "1 model: 2 of 2 verdicts as expected" in done.stdout


def test_reproduce_finds_models_here(run: Any, models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(models.parent)
    assert "1 model:" in run("reproduce", "counter").stdout
    assert run("reproduce", "nothing").exit_code == 2


@pytest.mark.parametrize(
    ("old", "new", "difference"),
    [
        ('"violated"', '"holds"', "low differs: holds expected, violated found (table 2)"),
        ("states = 5", "states = 6", "bounded differs: 6 states expected, 5 found (table 1)"),
    ],
)
def test_reproduce_fails_where_it_differs(
    run: Any, models: Path, old: str, new: str, difference: str
) -> None:
    path = models / "counter" / "expected.toml"
    path.write_text(EXPECTED.replace(old, new), encoding="utf-8")
    done = run("reproduce", "--models", models)
    assert done.exit_code == 1
    assert difference in done.stdout
    assert "1 of 2 verdicts as expected" in done.stdout


def test_reproduce_json(run: Any, models: Path) -> None:
    document = json.loads(run("reproduce", "--models", models, "--json").stdout)
    (entry,) = document["models"]
    assert (entry["model"], entry["paper"]) == ("counter", "A. Author, A Paper, 2001")
    assert [(one["expected"], one["verdict"]) for one in entry["results"]] == [
        ("holds", "holds"),
        ("violated", "violated"),
    ]


def test_export(run: Any, counter: Path, tmp_path: Path) -> None:
    printed = run("export", counter, "--to", "promela")
    assert printed.exit_code == 0
    assert "proctype" in printed.stdout
    written = run("export", counter, "--to", "promela", "-o", tmp_path / "counter.pml")
    assert (written.exit_code, written.stdout) == (0, "")
    assert (tmp_path / "counter.pml").read_text(encoding="utf-8") == printed.stdout


def test_export_tla_writes_the_configuration_too(run: Any, counter: Path, tmp_path: Path) -> None:
    assert run("export", counter, "--to", "tla", "-o", tmp_path / "Counter.tla").exit_code == 0
    assert "MODULE Counter" in (tmp_path / "Counter.tla").read_text(encoding="utf-8")
    assert (tmp_path / "Counter.cfg").read_text(encoding="utf-8").strip()
    wrong = run("export", counter, "--to", "tla", "-o", tmp_path / "no-name.tla")
    assert wrong.exit_code == 2
    assert "not a valid TLA+ module name" in wrong.stderr
    nowhere = run("export", counter, "--to", "tla", "-o", tmp_path / "none" / "Counter.tla")
    assert nowhere.exit_code == 3


def test_library(counter: Path) -> None:
    results = vs.check(str(counter), ["bounded", "low"], constants={"LIMIT": 5})
    assert [(one.property, type(one.verdict)) for one in results] == [
        ("bounded", vs.Holds),
        ("low", vs.Violated),
    ]
    network = vs.load(counter)
    assert vs.check(network, limits=vs.Limits(states_max=2), properties=["bounded"])[0].verdict == (
        vs.check(counter, limits=vs.Limits(states_max=2), properties=["bounded"])[0].verdict
    )
    assert len(vs.simulate(network, seed=1, steps=3).steps) == 4
    with pytest.raises(vs.ModelError):
        vs.check(network, constants={"LIMIT": 5})
    with pytest.raises(AttributeError):
        vs.nothing  # noqa: B018


def test_a_model_without_properties_is_asked_for_deadlocks(run: Any, tmp_path: Path) -> None:
    path = tmp_path / "stuck.net"
    path.write_text("network stuck component A { location here initial }", encoding="utf-8")
    done = run("check", path)
    assert done.exit_code == 1
    assert "deadlockfree" in done.stdout
