"""The JSON documents: their keys are part of the public interface."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from veristream.expected import Expectation, KnownModel, KnownRun, Reproduction, compare
from veristream.report.json import (
    full_reason,
    render_check,
    render_known_runs,
    render_reproductions,
    render_run,
)
from veristream.verdict import Effort, Holds, Result, Spread, Step, Trace, Unknown, Violated

RESULT_KEYS = [
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
]
EFFORT = Effort(5, 9, 2, 0.25, 0.5)
TRACE = Trace((Step(None, None, {"n": 0}), Step("go", "A", {"n": 1})), loop=0)


def test_check_has_these_keys_and_no_others() -> None:
    results = (
        Result("a", "always", Holds(vacuous="true at once"), EFFORT),
        Result("b", "ltl", Violated("", TRACE), EFFORT),
        Result("c", "always", Unknown("time is up"), EFFORT),
    )
    document = json.loads(render_check("m.net", "local", results))
    assert list(document) == ["model", "engine", "results"]
    assert [list(one) for one in document["results"]] == [RESULT_KEYS] * 3
    first, second, third = document["results"]
    assert (first["verdict"], first["vacuous"], first["trace"]) == ("holds", "true at once", None)
    assert second["trace"] == [
        {"action": None, "process": None, "state": {"n": 0}},
        {"action": "go", "process": "A", "state": {"n": 1}},
    ]
    assert second["reason"] == "the last step leads back to step 0"
    assert (third["verdict"], third["reason"]) == ("unknown", "time is up")
    assert (first["states"], first["seconds"], first["memory_mib"]) == (5, 0.25, 0.5)


def test_a_reduced_search_says_so() -> None:
    effort = replace(EFFORT, reduced=True)
    document = json.loads(render_check("m.net", "local", (Result("a", "always", Holds(), effort),)))
    (found,) = document["results"]
    assert list(found) == [*RESULT_KEYS, "reduced"]
    assert found["reduced"] is True


def test_a_shared_search_tells_how_it_was_spread() -> None:
    effort = replace(EFFORT, spread=Spread(4, 1.23456, 1000, 0))
    document = json.loads(render_check("m.net", "spark", (Result("a", "always", Holds(), effort),)))
    (found,) = document["results"]
    assert list(found) == [*RESULT_KEYS, "spread"]
    assert found["spread"] == {"parts": 4, "skew": 1.235, "exchanged_bytes": 1000, "spilled_bytes": 0}


def test_reason_of_a_lasso_says_it_once() -> None:
    assert full_reason(Violated("no progress", TRACE)) == "no progress; the last step leads back to step 0"
    said = "the last step leads back to step 0"
    assert full_reason(Violated(said, TRACE)) == said


def test_reproduce_adds_what_was_expected() -> None:
    expectations = (
        Expectation("a", "holds", "table 1", states=6),
        Expectation("b", "holds", "table 2", meant_by="a"),
    )
    results = (Result("a", "always", Holds(), EFFORT), Result("b", "always", Holds(), EFFORT))
    model = KnownModel("queue", "A. Author", Path("q.net"), {}, expectations)
    reproduction = Reproduction(model, tuple(map(compare, expectations, results)))
    document = json.loads(render_reproductions([reproduction]))
    assert list(document) == ["models"]
    (entry,) = document["models"]
    assert list(entry) == ["model", "paper", "results"]
    assert list(entry["results"][0]) == [*RESULT_KEYS, "expected", "source"]
    assert list(entry["results"][1]) == [*RESULT_KEYS, "expected", "source", "meant_by"]
    assert not reproduction.as_expected


def test_run() -> None:
    document = json.loads(render_run("m.net", 7, TRACE))
    assert list(document) == ["model", "seed", "trace"]
    assert document["seed"] == 7
    assert len(document["trace"]) == 2


def test_a_step_stands_on_one_line() -> None:
    steps = (Step(None, None, {"n": 0, "q": [[1], []]}), Step("gö", "A", {"n": 1, "q": [[], []]}))
    results = (
        Result("a", "always", Holds(), EFFORT),
        Result("b", "ltl", Violated("", Trace(steps)), EFFORT),
    )
    document = json.loads(render_check("m.net", "local", results))
    lines = [
        '{"action": null, "process": null, "state": {"n": 0, "q": [[1], []]}}',
        '{"action": "gö", "process": "A", "state": {"n": 1, "q": [[], []]}}',
    ]
    indented = json.dumps(document, indent=2, ensure_ascii=False)
    for line in lines:
        whole = json.dumps(json.loads(line), indent=2, ensure_ascii=False)
        indented = indented.replace(whole.replace("\n", "\n" + " " * 8), line)
    assert render_check("m.net", "local", results) == indented
    assert all(f"\n        {line}" in indented for line in lines)


def test_what_is_empty_stands_on_one_line() -> None:
    empty = render_run("m.net", 7, Trace(()))
    assert empty == '{\n  "model": "m.net",\n  "seed": 7,\n  "trace": []\n}'


def test_delays_stand_where_time_passes() -> None:
    steps = (
        Step(None, None, {"x": 0}, 0.0),
        Step("go", "A", {"x": 2.5}, 2.5),
        Step(None, None, {"x": 5}, 2.5),
        Step(None, None, {"x": 12}, 7.0),
    )
    text = render_run("m.net", 7, Trace(steps))
    document = json.loads(text, parse_float=str)  # so that 7.0 and 7 are not the same
    assert [list(step) for step in document["trace"]] == [["action", "process", "delay", "state"]] * 4
    assert [step["delay"] for step in document["trace"]] == [0, "2.5", "2.5", 7]
    assert [step["state"]["x"] for step in document["trace"]] == [0, "2.5", 5, 12]


def test_known_runs() -> None:
    folder = Path("models") / "m"
    runs = [
        (KnownRun("to the goal", folder / "m.net", goal="top", lanes=("A",)), TRACE),
        (KnownRun("somewhere", folder / "other.net", {"N": 2}, seed=4), TRACE),
    ]
    document = json.loads(render_known_runs("models/m", runs))
    assert list(document) == ["model", "runs"]
    first, second = document["runs"]
    assert list(first) == ["title", "model", "goal", "trace"]
    assert list(second) == ["title", "model", "seed", "trace"]
    assert (first["title"], first["model"], first["goal"]) == ("to the goal", "m.net", "top")
    assert (second["model"], second["seed"], len(second["trace"])) == ("other.net", 4, 2)
