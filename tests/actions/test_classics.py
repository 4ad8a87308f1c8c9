"""Every engine finds the known verdicts and sizes of the classic models."""

from __future__ import annotations

import ast
from itertools import pairwise

import pytest

from tests.actions.known import FOLDER, INTERPRETED_MAX, NAMES, RUNS, Known, Run
from veristream.library import check
from veristream.search.limits import Limits
from veristream.search.reach import explore as driver
from veristream.verdict import Result, Trace, Violated, word
from veristream_testing.states import explore

SMALL = [run for run in RUNS if run.states <= INTERPRETED_MAX]
EXPLORING = ("always", "transition", "deadlockfree")
"""Claims that require a full exploration, each once."""


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("run", RUNS, ids=NAMES)
def test_answers_and_counts(run: Run, workers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "WIDE", 16)  # share even small levels
    results = check(run.load(), limits=Limits(workers=workers))
    assert {result.property: known(result) for result in results} == dict(run.properties)
    counts = {
        (result.effort.states, result.effort.transitions)
        for result in results
        if result.kind in EXPLORING and word(result.verdict) == "holds"
    }
    assert counts == {(run.states, run.transitions)}


def known(result: Result) -> Known:
    trace = result.verdict.trace
    if trace is None or not trace.shortest or trace.loop is not None:
        return Known(word(result.verdict))
    return Known(word(result.verdict), len(trace.steps) - 1)


@pytest.mark.parametrize("run", SMALL, ids=[run.name for run in SMALL])
def test_the_interpreter_counts_the_same(run: Run) -> None:
    found = explore(run.load(), 2 * INTERPRETED_MAX)
    assert found.complete and found.failures == []
    assert (len(found.states), found.transitions) == (run.states, run.transitions)


def test_every_classic_is_known_and_explained() -> None:
    paths = sorted(FOLDER.glob("*.py"))
    assert {path.stem for path in paths} == {run.model for run in RUNS}
    assert len(paths) >= 12
    for path in paths:
        assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))), path.name


def test_die_hard_measures_four_gallons() -> None:
    steps = counterexample("die_hard", "never_the_goal").steps
    assert [(step.state["small"], step.state["big"]) for step in steps] == [
        (0, 0),
        (0, 5),
        (3, 2),
        (0, 2),
        (2, 0),
        (2, 5),
        (3, 4),
    ]


def test_the_goat_crosses_three_times() -> None:
    """Every solution crosses with the goat, brings it back, and crosses with it again."""
    banks = [step.state["bank"] for step in counterexample("river_crossing", "never_across").steps]
    goat = [bank[1] if isinstance(bank, list) else None for bank in banks]
    assert set(goat) == {"LEFT", "RIGHT"}
    assert sum(before != after for before, after in pairwise(goat)) == 3


def counterexample(model: str, name: str) -> Trace:
    """Returns the counterexample of the property with the default constants."""
    run = next(run for run in RUNS if run.model == model and not run.constants)
    (result,) = check(run.load(), [name])
    assert isinstance(result.verdict, Violated) and result.verdict.trace is not None
    return result.verdict.trace
