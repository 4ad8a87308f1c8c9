"""Charts: columns, arrows, changes, loops, and what is omitted from a long trace."""

from __future__ import annotations

from typing import Any

import pytest

from veristream.report.chart import ASCII, render_chart
from veristream.report.scene import show
from veristream.verdict import Shown, Step, Trace


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


def message(kind: str, number: int) -> Shown:
    return {"kind": kind, "number": number}


def protocol(*moves: tuple[str, str, dict[str, Shown]], loop: int | None = None) -> Trace:
    """A run of a client, a broker and the network between them; each move lists what it changes."""
    state: dict[str, Shown] = {
        "net": [],
        "lost": 0,
        "Client(0).last": "None",
        "Client(1).last": "None",
        "Broker(0).seen": [],
    }
    steps = [Step(None, None, state)]
    for process, action, changed in moves:
        state = state | changed
        steps.append(Step(action, process, state))
    return Trace(tuple(steps), loop)


# The clients act in another order than the model declares them, and both requests are in flight at once.
PROTOCOL = protocol(
    ("Client(1)", "ask", {"net": [message("ASK", 1)]}),
    ("Client(0)", "ask", {"net": [message("ASK", 0), message("ASK", 1)]}),
    ("Broker(0)", "answer", {"net": [message("ASK", 0), message("OK", 1)], "Broker(0).seen": [1]}),
    ("Client(1)", "receive", {"net": [message("ASK", 0)], "Client(1).last": "OK"}),
    ("Broker(0)", "answer", {"net": [message("OK", 0)], "Broker(0).seen": [0, 1]}),
    ("network", "lose", {"net": [], "lost": 1}),
)
PROTOCOL_LASSO = protocol(
    ("Client(0)", "ask", {"net": [message("ASK", 0)]}),
    ("Broker(0)", "answer", {"net": [message("NO", 0)]}),
    ("Client(0)", "retry", {"net": [message("ASK", 0)]}),
    loop=1,
)


def timed(*moves: tuple[str | None, str | None, float, dict[str, Shown]], loop: int | None = None) -> Trace:
    """A run with delays of a lamp, its user and its meter; each move lists what it changes."""
    state: dict[str, Shown] = {"n": 0, "Lamp": "off", "User": "idle", "Meter": "idle", "x": 0, "y": 0}
    steps = [Step(None, None, state, 0.0)]
    for action, process, delay, changed in moves:
        state = state | changed
        steps.append(Step(action, process, state, delay))
    return Trace(tuple(steps), loop)


CLOCKS = frozenset({"x", "y"})
PRESS = ("press", "User, Lamp", 2.5, {"Lamp": "low", "x": 0, "y": 2.5})
TIMED = timed(
    PRESS,
    ("press", "User, Lamp", 0.0, {"Lamp": "bright", "n": 1, "x": 0}),
    ("off", "Lamp", 10.0, {"Lamp": "off", "x": 10, "y": 12.5}),
    ("all", "Lamp, User, Meter", 0.25, {"Meter": "on", "x": 10.25, "y": 12.75}),
    (None, None, 3.0, {"x": 13.25, "y": 15.75}),
)
TIMED_LASSO = timed(PRESS, ("off", "Lamp", 4.0, {"Lamp": "off", "x": 4}), PRESS, loop=1)
GATHERING = protocol(
    ("Client(0)", "ask", {"net": [message("ASK", 0)]}),
    ("Broker(0)", "answer", {"net": [message("ASK", 0), message("OK", 7)]}),
    ("Client(1)", "drain", {"net": []}),
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
        ("protocol", PROTOCOL, {}),
        ("protocol_ascii", PROTOCOL, {"marks": ASCII}),
        ("protocol_narrow", PROTOCOL, {"width": 80}),
        ("protocol_lasso", PROTOCOL_LASSO, {}),
        ("gathering", GATHERING, {}),
        ("timed", TIMED, {"clocks": CLOCKS}),
        ("timed_ascii", TIMED, {"clocks": CLOCKS, "marks": ASCII}),
        ("timed_full", TIMED, {"clocks": CLOCKS, "full": True}),
        ("timed_lasso", TIMED_LASSO, {"clocks": CLOCKS}),
        ("timed_lanes", TIMED, {"clocks": CLOCKS, "lanes": ["User", "Meter"]}),
        ("timed_waiting", timed((None, None, 0.5, {"x": 0.5, "y": 0.5})), {"clocks": CLOCKS}),
        ("protocol_lanes", PROTOCOL, {"lanes": ["Broker(0)", "Client(1)"]}),
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


def test_no_line_is_wider_than_the_terminal() -> None:
    for width in (80, 90, 100, 120):
        assert max(map(len, render_chart(PROTOCOL, width=width).splitlines())) <= width


def test_a_whole_chart_is_never_cut() -> None:
    whole = render_chart(PROTOCOL)
    assert max(map(len, whole.splitlines())) > 80
    assert render_chart(PROTOCOL, full=True, width=80) == whole


@pytest.mark.parametrize(
    ("value", "shown", "brief"),
    [
        (True, "true", "true"),
        (-3, "-3", "-3"),
        ("None", "none", "none"),
        ([1, "ACK"], "[1, ACK]", "[1, ACK]"),
        ({"kind": "ACK", "of": ["None"]}, "{kind: ACK, of: [none]}", "{ACK, [none]}"),
    ],
)
def test_values(value: Shown, shown: str, brief: str) -> None:
    assert show(value) == shown
    assert show(value, brief=True) == brief


def visits(names: list[str]) -> Trace:
    return Trace((Step(None, None, {}), *(Step("go", name, {}) for name in names)))


def test_titles_are_stairs_where_they_would_be_too_wide(golden: Any) -> None:
    golden(
        "chart/stairs.txt", render_chart(visits([f"a_component_with_a_long_name_{i}" for i in range(5)]))
    )


def test_each_stair_begins_above_its_lane() -> None:
    names = ["Producer(0)", "Coordinator(0)", "Coordinator(1)", "TransactionLog(0)", "Consumer(0)"]
    lines = render_chart(visits(names), width=100).splitlines()
    for position, name in enumerate(names):
        step = lines[len(names) + 2 + position]
        assert lines[position].index(name) == step.index("■")


def test_columns_are_numbered_where_they_are_too_many() -> None:
    names = [f"Component({i})" for i in range(13)]
    lines = render_chart(visits(names)).splitlines()
    assert lines[0].strip().startswith("columns: 1 Component(0), 2 Component(1), ")
    assert lines[1].split() == ["step", *map(str, range(1, 14)), "action", "changes"]


def test_a_name_with_arguments_is_one_column() -> None:
    steps = (Step(None, None, {}), Step("put", "P(0, 1), B(2, 3)", {}))
    header = render_chart(Trace(steps)).splitlines()[0]
    assert "P(0, 1)" in header
    assert "B(2, 3)" in header
    assert "●" in render_chart(Trace(steps))


def lines_with(text: str, chart: str) -> list[str]:
    return [line for line in chart.splitlines() if text in line]


def test_time_is_told_where_it_passes() -> None:
    told = [line.strip(" ~") for line in lines_with("later", render_chart(TIMED, marks=ASCII))]
    assert [" ".join(line.replace("~", "").split()) for line in told] == [
        "2.5 later at time 2.5",
        "10 later at time 12.5",
        "0.25 later at time 12.75",
        "3 later at time 15.75",
    ]
    assert not lines_with("later", render_chart(PROTOCOL))


def test_time_passes_in_steps_that_are_not_shown_too() -> None:
    steps = [Step("go", "A", {"n": i}, 0.5) for i in range(1, 101)]
    lines = render_chart(Trace((Step(None, None, {"n": 0}, 0.0), *steps))).splitlines()
    gap = next(i for i, line in enumerate(lines) if "steps not shown" in line)
    hidden = int(lines[gap].split("⋮")[-1].split()[0])
    after = int(lines[gap + 2].split()[0])
    assert f" {(hidden + 1) / 2:g} later " in lines[gap + 1]
    assert lines[gap + 1].endswith(f"at time {after / 2:g}")


def test_clocks_are_told_at_the_end_but_step_by_step_only_in_full() -> None:
    short, full = render_chart(TIMED, clocks=CLOCKS), render_chart(TIMED, full=True, clocks=CLOCKS)
    assert lines_with("x", short) == ["        clocks at the end: x = 13.25, y = 15.75"]
    assert len(lines_with("y: 2.5 → 12.5", full)) == 1
    assert not lines_with("clocks at the end", render_chart(timed(), clocks=CLOCKS))


def test_a_broadcast_goes_from_its_sender_to_all_who_receive() -> None:
    titles, *_ = lines = render_chart(TIMED, marks=ASCII).splitlines()
    (drawn,) = [line for line in lines if "  all  " in line]
    marks = {name: drawn[titles.index(name) + (len(name) - 1) // 2] for name in ("Lamp", "User", "Meter")}
    assert marks == {"Lamp": "o", "User": "+", "Meter": "+"}


def test_chosen_lanes_stand_in_their_order_with_what_happens_between_them() -> None:
    lines = render_chart(TIMED, lanes=["Lamp", "User"]).splitlines()
    assert lines[0].split() == ["step", "Lamp", "User", "action", "changes"]
    assert [line.split()[0] for line in lines if line.split()[0].isdigit()] == ["0", "1", "2", "4"]
    # The step in between and its delay are not drawn; the time that passed is.
    assert [line.endswith("at time 12.75") for line in lines if "10.25 later" in line] == [True]
