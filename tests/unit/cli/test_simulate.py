"""`simulate`: timed models, and folders that list runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import veristream as vs

LAMP = """network lamp
timed
const SLOW = 5
clock x
channel press: rendezvous
component Lamp {
  location off initial
  location low clock x <= 9
  location bright
  edge off -> low     { receive press  do { reset x := 0 } }
  edge low -> bright  { receive press  clock x < SLOW }
  edge low -> off     { action fade    clock x >= 9 }
}
component User {
  location there initial
  edge there -> there { send press }
}
component Cat {
  location asleep initial
  location awake
  edge asleep -> awake { action wake  when Lamp@low  clock x > 3 }
}
property bright: reachable Lamp@bright and Cat@awake
property dark: reachable Lamp@bright and Lamp@off
property late: always Lamp@low -> clock(x < 9)
"""
EXPECTED = """paper = "A. Author, A Paper, 2001"
[[model]]
file = "lamp.net"
"""
RUNS = """
[[simulate]]
title = "light"
model = "lamp.net"
goal = "bright"
lanes = ["User", "Lamp"]

[[simulate]]
title = "anything"
model = "lamp.net"
constants = { SLOW = 4 }
seed = 2
steps = 3
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "lamp"
    path.mkdir()
    (path / "lamp.net").write_text(LAMP, encoding="utf-8")
    (path / "expected.toml").write_text(EXPECTED + RUNS, encoding="utf-8")
    return path


def test_a_folder_draws_the_runs_that_it_names(run: Any, folder: Path) -> None:
    done = run("simulate", folder)
    assert done.exit_code == 0
    first, second = done.stdout.split("anything (lamp.net, seed 2): 2 steps, then no step is possible\n")
    title, _, header, *lines = first.rstrip().splitlines()
    assert title == "light (lamp.net, bright): 3 steps (no run is shorter)"
    assert header.split() == ["step", "User", "Lamp", "action", "changes"]
    pressing = [line for line in lines if "press" in line]
    assert [line.index("●") < line.index("▶") for line in pressing] == [True, True]
    # In between the cat wakes, at time 3.5; only the time is visible.
    assert [line.endswith("at time 3.5") for line in lines if "later" in line] == [True]
    assert not any("wake" in line for line in lines)
    assert second.splitlines()[1].split()[0] == "step"


def test_the_goal_is_reached_at_its_earliest(run: Any, folder: Path) -> None:
    document = json.loads(run("simulate", folder, "--json").stdout)
    first, second = document["runs"]
    assert [(one["title"], one["model"]) for one in (first, second)] == [
        ("light", "lamp.net"),
        ("anything", "lamp.net"),
    ]
    assert (first["goal"], second["seed"]) == ("bright", 2)
    last = first["trace"][-1]
    assert (last["state"]["Lamp"], last["state"]["Cat"]) == ("bright", "awake")
    assert sum(step["delay"] for step in first["trace"]) == 3.5
    wanted = vs.simulate(folder / "lamp.net", constants={"SLOW": 4}, seed=2, steps=3)
    assert [step["action"] for step in second["trace"]] == [step.action for step in wanted.steps]
    assert [step["delay"] for step in second["trace"]] == [step.delay for step in wanted.steps]


def test_options_count_for_random_runs_of_a_folder(run: Any, folder: Path) -> None:
    document = json.loads(
        run("simulate", folder, "--json", "--seed", 3, "--steps", 5, "-D", "SLOW=9").stdout
    )
    wanted = vs.simulate(folder / "lamp.net", constants={"SLOW": 9}, seed=3, steps=5)
    assert [step["action"] for step in document["runs"][1]["trace"]] == [one.action for one in wanted.steps]


def test_a_folder_that_names_no_runs_draws_a_random_one(run: Any, folder: Path) -> None:
    text = EXPECTED + "constants = { SLOW = 2 }\n"
    (folder / "expected.toml").write_text(text, encoding="utf-8")
    of_folder = run("simulate", folder, "--seed", 4, "--steps", 6).stdout
    assert (
        of_folder == run("simulate", folder / "lamp.net", "-D", "SLOW=2", "--seed", 4, "--steps", 6).stdout
    )
    assert of_folder.startswith(str(folder / "lamp.net"))


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ('goal = "bright"', 'goal = "dark"', "light: dark has no trace to draw: violated"),
        ('goal = "bright"', 'goal = "darker"', "no property called darker"),
        ('lanes = ["User", "Lamp"]', 'lanes = ["Owner"]', "light: Owner takes no step in the trace"),
        ('model = "lamp.net"', 'model = "lump.net"', "there is no file"),
        (RUNS, "[[simulate]]", "title is missing"),
    ],
)
def test_what_is_wrong_is_said(run: Any, folder: Path, old: str, new: str, complaint: str) -> None:
    text = (EXPECTED + RUNS).replace(old, new)
    (folder / "expected.toml").write_text(text, encoding="utf-8")
    done = run("simulate", folder)
    assert done.exit_code == 2
    assert complaint in done.stderr


def test_a_folder_that_is_no_known_model(run: Any, tmp_path: Path) -> None:
    done = run("simulate", tmp_path)
    assert done.exit_code == 2
    assert "has no expected.toml" in done.stderr


def test_a_counterexample_may_be_a_goal(run: Any, folder: Path) -> None:
    text = (EXPECTED + RUNS).replace('goal = "bright"', 'goal = "late"')
    (folder / "expected.toml").write_text(text, encoding="utf-8")
    first = run("simulate", folder).stdout.split("\n\n")
    assert first[0] == "light (lamp.net, late): 1 step and a delay (no run is shorter)"
    assert "9 later" in first[1]


def test_check_hides_clocks_unless_the_trace_is_full(run: Any, folder: Path) -> None:
    wanted = ("check", folder / "lamp.net", "-p", "bright")
    shown, full = run(*wanted).stdout, run(*wanted, "--full-trace").stdout
    assert "x: 0 →" not in shown
    assert "clocks at the end: x = 3.5" in shown
    assert "x: 0 → 3.5" in full
    assert "3.5 later" in shown


def test_help_says_what_is_counted_as_states(run: Any) -> None:
    assert "the states that are counted are zones" in " ".join(run("check", "--help").stdout.split())
