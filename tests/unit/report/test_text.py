"""The tables of results and of reproductions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from veristream.expected import Expectation, KnownModel, KnownRun, Reproduction, compare
from veristream.report.text import (
    Look,
    render_known_run,
    render_reproductions,
    render_results,
)
from veristream.report.words import show_memory, show_seconds
from veristream.verdict import Effort, Fault, Holds, Result, Step, Trace, Unknown, Violated

TRACE = Trace(
    (
        Step(None, None, {"n": 0, "A": "rest"}),
        Step("go", "A", {"n": 1, "A": "work"}),
        Step("stop", "A", {"n": 1, "A": "rest"}),
    ),
    shortest=True,
)
LASSO = Trace(TRACE.steps, loop=1)
EFFORT = Effort(1234567, 7654321, 42, 3.21, 250.0)
SMALL = Effort(5, 9, 2, 0.0042, 0.5)

RESULTS = (
    Result("safe", "always", Holds(), EFFORT),
    Result("idle", "always", Holds(vacuous="the left side of the implication never holds"), EFFORT),
    Result("goal", "reachable", Holds("max n = 5", TRACE), SMALL),
    Result("live", "ltl", Violated("", LASSO), SMALL),
    Result("bounded", "always", Unknown("the limit of 5 states was hit"), SMALL),
    Result("failing", "always", Unknown("the model fails", TRACE, Fault("division by zero")), SMALL),
    Result("first", "always", Violated("", Trace(TRACE.steps[:1], shortest=True)), SMALL),
)


def test_results(golden: Any) -> None:
    golden("report/results.txt", render_results(RESULTS))


def test_colour_changes_nothing_but_the_verdict() -> None:
    plain, coloured = render_results(RESULTS), render_results(RESULTS, Look(colour=True))
    assert "\x1b[31mviolated\x1b[0m" in coloured
    for code in ("31", "32", "33", "0"):
        coloured = coloured.replace(f"\x1b[{code}m", "")
    assert coloured == plain


def test_reproductions(golden: Any) -> None:
    expectations = (
        Expectation("safe", "holds", "table 1", states=1234567),
        Expectation("idle", "holds", "figure 2", vacuous=True),
        Expectation("live", "violated", "section 3", meant_by="idle"),
        Expectation("bounded", "holds", "section 4"),
    )
    results = (RESULTS[0], RESULTS[1], RESULTS[3], RESULTS[4])
    outcomes = tuple(map(compare, expectations, results))
    model = KnownModel("queue", "A. Author, A Paper, 2001", Path("queue.net"), {"N": 3}, expectations)
    golden("report/reproductions.txt", render_reproductions([Reproduction(model, outcomes)]))


@pytest.mark.parametrize(
    ("actions", "length"),
    [
        ([None], "a delay"),
        (["go", None], "1 step and a delay (no run is shorter)"),
        (["go", "go"], "2 steps (no run is shorter)"),
    ],
)
def test_waiting_is_no_step(actions: list[str | None], length: str) -> None:
    moves = tuple(Step(action, action and "A", {}, 1.0) for action in actions)
    trace = Trace((Step(None, None, {}, 0.0), *moves), shortest=True)
    result = Result("goal", "reachable", Holds("", trace), SMALL)
    assert f"goal holds, for example by {length}:" in render_results([result]).splitlines()


def test_the_clocks_of_a_look_are_no_changes() -> None:
    trace = Trace((Step(None, None, {"x": 0}, 0.0), Step("go", "A", {"x": 2}, 2.0)))
    result = Result("goal", "reachable", Holds("", trace), SMALL)
    assert "x: 0 → 2" in render_results([result])
    assert "x: 0 → 2" not in render_results([result], Look(clocks=frozenset({"x"})))


def test_a_known_run_says_what_it_is_and_draws_its_lanes() -> None:
    steps = (Step(None, None, {}), Step("ask", "A, B", {}), Step("work", "B", {}), Step("tell", "B, C", {}))
    run = KnownRun("asking", Path("m") / "m.net", goal="asked", lanes=("B", "A"))
    title, _, header, *lines = render_known_run(run, Trace(steps, shortest=True)).splitlines()
    assert title == "asking (m.net, asked): 3 steps (no run is shorter)"
    assert header.split() == ["step", "B", "A", "action", "changes"]
    assert [line.split()[0] for line in lines] == ["0", "1"]
    for count, length in ((3, "3 steps"), (4, "3 steps, then no step is possible")):
        random = render_known_run(KnownRun("any", Path("m.net"), seed=5, steps=count), Trace(steps))
        assert random.splitlines()[0] == f"any (m.net, seed 5): {length}"


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0.0, "0 ms"),
        (0.0127, "13 ms"),
        (0.9999, "1.0 s"),
        (59.0, "59.0 s"),
        (150, "2.5 min"),
        (7200, "2.0 h"),
    ],
)
def test_seconds(seconds: float, shown: str) -> None:
    assert show_seconds(seconds) == shown


@pytest.mark.parametrize(("mib", "shown"), [(0.25, "0.2 MiB"), (99.6, "100 MiB"), (2048, "2.0 GiB")])
def test_memory(mib: float, shown: str) -> None:
    assert show_memory(mib) == shown
