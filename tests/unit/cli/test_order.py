"""`veristream check --order depth`: what is searched for depth-first, what is not, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import veristream as vs
from veristream.search.reach import safety

TIMED = """
network clocked
timed
clock x
component C { location a initial  location b  edge a -> b { clock x >= 1 } }
property moves: reachable C@b
"""


def test_verdicts_are_the_same(run: Any, counter: Path) -> None:
    names = [one for name in ("low", "bounded", "top", "no_deadlock") for one in ("-p", name)]
    deep = json.loads(run("check", counter, *names, "--order", "depth", "--json").stdout)["results"]
    wide = json.loads(run("check", counter, *names, "--order", "breadth", "--json").stdout)["results"]
    assert [one["verdict"] for one in deep] == ["violated", "holds", "holds", "holds"]
    assert [one["verdict"] for one in wide] == [one["verdict"] for one in deep]
    assert [one["trace"] for one in wide] == [one["trace"] for one in deep]
    assert {one["order"] for one in deep} == {"depth"}
    assert not any("order" in one for one in wide)
    assert (deep[1]["states"], deep[1]["transitions"], deep[1]["depth"]) == (4, 6, 3)


def test_python_asks_for_it_too(counter: Path) -> None:
    limits = vs.Limits(order=vs.Order.DEPTH)
    (top,) = vs.check(counter, ["top"], limits=limits)
    assert isinstance(top.verdict, vs.Holds) and top.effort.depth_first
    with pytest.raises(vs.ModelError, match="--order depth does not apply to returns"):
        vs.check(counter, ["returns"], limits=limits)


def test_nothing_is_reduced(run: Any, counter: Path) -> None:
    assert "reduced" not in run("check", counter, "--order", "depth", "--reduction").stdout


def test_what_is_searched_for_otherwise_is_told(run: Any, counter: Path, tmp_path: Path) -> None:
    told = "not searched for depth-first: returns (--order depth is for safety properties)"
    page = tmp_path / "page.html"
    done = run("check", counter, "--order", "depth", "--html", page)
    assert f"  {told}" in done.stdout.splitlines()
    assert told in page.read_text(encoding="utf-8")
    assert done.exit_code == 1
    assert "depth-first" not in run("check", counter, "-p", "low", "--order", "depth").stdout
    assert "depth-first" not in run("check", counter).stdout


def test_a_longer_trace_is_told(run: Any, counter: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = "  traces found depth-first may not be the shortest (--shortest)"
    command = ("check", counter, "-p", "low", "--order", "depth")
    assert "low is violated by 3 steps (no run is shorter):" in run(*command).stdout
    monkeypatch.setattr(safety, "SHORTEST_WITHIN", 1)
    longer = run(*command).stdout
    assert told in longer.splitlines() and "low is violated by 3 steps:" in longer
    shortest = run(*command, "--shortest").stdout
    assert told not in shortest and "low is violated by 3 steps (no run is shorter):" in shortest


def test_another_order_is_refused(run: Any, counter: Path) -> None:
    done = run("check", counter, "--order", "sideways")
    assert done.exit_code == 2
    words = " ".join(done.stderr.replace("│", " ").split())
    assert "Invalid value for '--order'" in words
    assert "'sideways' is not one of 'breadth', 'depth'." in words


def _refused(done: Any) -> str:
    assert done.exit_code == 2 and done.stdout == ""
    return str(done.stderr)


def test_it_is_refused_where_nothing_can_use_it(run: Any, counter: Path, tmp_path: Path) -> None:
    told = _refused(run("check", counter, "-p", "returns", "--order", "depth"))
    assert "error: --order depth does not apply to returns" in told
    assert "only safety properties of models without clocks are searched for depth-first" in told
    timed = tmp_path / "clocked.net"
    timed.write_text(TIMED, encoding="utf-8")
    assert "--order depth does not apply to moves" in _refused(run("check", timed, "--order", "depth"))


def test_several_workers_and_spark_are_refused(run: Any, counter: Path) -> None:
    told = _refused(run("check", counter, "--order", "depth", "--workers", 2))
    assert "error: a depth-first search has one worker, not 2" in told
    told = _refused(run("check", counter, "--order", "depth", "--engine", "spark"))
    assert "error: a depth-first search runs on this machine only" in told
    assert run("check", counter, "-p", "top", "--order", "depth", "--workers", 1).exit_code == 0


def test_a_limit_gives_unknown(run: Any, counter: Path) -> None:
    done = run("check", counter, "-p", "bounded", "--order", "depth", "--max-states", 2)
    assert done.exit_code == 4
    assert "bounded: the limit of 2 states was reached (--max-states)" in done.stdout


WIDE = """var a[12]; var n = 0;
P(i) = [a[i] < 9] up.i{a[i] = a[i] + 1; n = n + 1;} -> P(i);
S() = |||i:{0..11}@P(i);
#define all n == 108;
#assert S() reaches all;
"""
"""Twelve counters: the number of states at a depth grows and grows, and the goal is 108 steps deep."""


def test_a_frontier_that_explodes_is_worth_a_hint(run: Any, tmp_path: Path) -> None:
    path = tmp_path / "wide.csp"
    path.write_text(WIDE, encoding="utf-8")
    done = run("check", path, "--max-states", 50_000, "--workers", 1, "--json")
    (found,) = json.loads(done.stdout)["results"]
    begins, hint = found["reason"].split("; ")
    assert begins == "the limit of 50000 states was reached (--max-states)"
    frontier = int(hint.split()[0].replace(",", ""))
    assert hint == (
        f"{frontier:,} of {found['states']:,} states were still to be explored at depth {found['depth']}:"
        " --order depth may find what lies deeper"
    )
    assert found["states"] / 4 <= frontier < found["states"]
    assert done.exit_code == 4
    deep = run("check", path, "--max-states", 50_000, "--order", "depth", "--json")
    (found,) = json.loads(deep.stdout)["results"]
    assert found["verdict"] == "holds"


def test_the_memory_brings_the_hint_too(run: Any, tmp_path: Path) -> None:
    path = tmp_path / "wide.csp"
    path.write_text(WIDE, encoding="utf-8")
    (found,) = json.loads(run("check", path, "--max-memory-mib", 8, "--json").stdout)["results"]
    assert found["reason"].startswith("the memory budget of 8 MiB is used up")
    assert found["reason"].endswith("--order depth may find what lies deeper")


@pytest.mark.parametrize("options", [("--order", "depth"), ("--hash-compact", 40), ()])
def test_a_search_that_is_deep_hashed_or_narrow_has_no_hint(
    run: Any, tmp_path: Path, options: tuple[Any, ...]
) -> None:
    path = tmp_path / "model.csp"
    narrow = (
        "var n = 0; P() = [n < 90000] up{n = n + 1;} -> P(); #define all n < 0; #assert P() reaches all;"
    )
    path.write_text(WIDE.replace("n == 108", "n == 109") if options else narrow, encoding="utf-8")
    done = run("check", path, "--max-states", 50_000, *options, "--json")
    (found,) = json.loads(done.stdout)["results"]
    assert found["reason"] == "the limit of 50000 states was reached (--max-states)"
