"""Charts: columns, arrows, changes, loops, and what a long trace leaves out."""

from __future__ import annotations

from typing import Any

import pytest

from veristream.report.chart import ASCII, render_chart
from veristream.verdict import Step, Trace


def run_of(count: int, loop: int | None = None) -> Trace:
    steps = [Step(None, None, {"n": 0})]
    steps += [Step(f"step({i})", "A", {"n": i}) for i in range(1, count + 1)]
    return Trace(tuple(steps), loop)


MESSAGES = Trace(
    (
        Step(None, None, {"sent": 0, "queue": [], "slots": [0, 0], "P": "idle", "B": "wait", "C": "wait"}),
        Step("make", "P", {"sent": 1, "queue": [], "slots": [0, 0], "P": "full", "B": "wait", "C": "wait"}),
        Step(
            "put(1)", "P, B", {"sent": 1, "queue": [1], "slots": [0, 0], "P": "idle", "B": "w", "C": "wait"}
        ),
        Step("ack", "B, P", {"sent": 1, "queue": [1], "slots": [0, 7], "P": "idle", "B": "w", "C": "wait"}),
        Step("stop", "B, P, C", {"sent": 1, "queue": [1], "slots": [0, 7], "P": "x", "B": "x", "C": "x"}),
    )
)


@pytest.mark.parametrize(
    ("name", "trace", "options"),
    [
        ("messages", MESSAGES, {}),
        ("messages_ascii", MESSAGES, {"marks": ASCII}),
        ("lasso", run_of(4, loop=2), {}),
        ("initial_only", run_of(0), {}),
        ("initial_loop", run_of(0, loop=0), {}),
        ("long", run_of(100, loop=50), {}),
    ],
)
def test_chart(golden: Any, name: str, trace: Trace, options: dict[str, Any]) -> None:
    golden(f"chart/{name}.txt", render_chart(trace, **options))


def test_full_chart_has_every_step() -> None:
    lines = render_chart(run_of(100), full=True).splitlines()
    assert [line.split()[0] for line in lines[1:]] == [str(i) for i in range(101)]


def test_arrow_points_at_the_follower() -> None:
    lines = render_chart(MESSAGES).splitlines()
    right, left = lines[3], lines[4]
    assert right.index("●") < right.index("▶")
    assert left.index("◀") < left.index("●")


def test_columns_are_numbered_where_names_would_be_too_wide() -> None:
    names = [f"a_component_with_a_long_name_{i}" for i in range(5)]
    steps = (Step(None, None, {}), *(Step("go", name, {}) for name in names))
    lines = render_chart(Trace(steps)).splitlines()
    assert lines[0].startswith("columns: 1 a_component_with_a_long_name_0, 2 ")
    assert lines[1].split() == ["step", "1", "2", "3", "4", "5", "action", "changes"]
    assert max(map(len, lines[1:])) < 80


def test_a_name_with_arguments_is_one_column() -> None:
    steps = (Step(None, None, {}), Step("put", "P(0, 1), B(2, 3)", {}))
    header = render_chart(Trace(steps)).splitlines()[0]
    assert "P(0, 1)" in header
    assert "B(2, 3)" in header
    assert "●" in render_chart(Trace(steps))
