"""`before_update` and `after_update`: once for each step, before its first and after its last update."""

from __future__ import annotations

from pathlib import Path

import pytest

import veristream as vs
from tests.unit.languages.timed.lower_texts import error, marked, network
from veristream.verdict import word

HOOKS = "before_update { n = n + 1, order = 0 } after_update { last = order, steps = n }"
MODEL = f"""
int n, steps; int[0,1000000] order, last; chan c; broadcast chan b[2], d; clock x;
{HOOKS}
process S() {{
  state A, B, C, D, E; init A;
  trans A -> B {{ assign order = 10 * order + 1; }},
        B -> C {{ sync c!; assign order = 10 * order + 2; }},
        C -> D {{ sync b[1]!; assign order = 10 * order + 3; }},
        D -> E {{ sync d!; assign order = 10 * order + 6; }};
}}
process R() {{
  state A, B, C; init A;
  trans A -> B {{ sync c?; assign order = 10 * order + 4; }},
        B -> C {{ sync b[1]?; assign order = 10 * order + 5; }};
}}
system R, S;
"""
QUERIES = {
    "sup: n": "holds",  # four steps, each counts once
    "A[] steps == n": "holds",
    "A[] S.B imply last == 1": "holds",  # a step of one process
    "A[] S.C imply last == 24": "holds",  # a rendezvous: the sender, then the receiver
    "A[] S.D imply last == 35": "holds",  # a broadcast with a receiver
    "A[] S.E imply last == 6": "holds",  # a broadcast without one
    "A[] order == last": "holds",
    "E<> S.E and n == 4": "holds",
    "E<> n == 5": "violated",
}


def ask(folder: Path, text: str, *queries: str) -> list[str]:
    path = folder / "m.xta"
    path.write_text(text, encoding="utf-8")
    path.with_suffix(".q").write_text("\n".join(queries), encoding="utf-8")
    return [word(one.verdict) for one in vs.check(path)]


def test_once_for_each_step(tmp_path: Path) -> None:
    assert ask(tmp_path, MODEL, *QUERIES) == list(QUERIES.values())


def test_only_one_of_them(tmp_path: Path) -> None:
    before = MODEL.replace(HOOKS, "before_update { n = n + 1 }")
    assert ask(tmp_path, before, "E<> n == 4", "E<> steps == 1", "A[] S.C imply order == 124") == [
        "holds",
        "violated",
        "holds",
    ]
    after = MODEL.replace(HOOKS, "after_update { n = 2 * n + 1 }")
    assert ask(tmp_path, after, "E<> S.E and n == 15", "E<> n > 15") == ["holds", "violated"]


def test_functions_and_several_sections(tmp_path: Path) -> None:
    text = MODEL.replace(
        HOOKS, "void count() { n++; } before_update { count() } before_update { count(), steps++ }"
    )
    assert ask(tmp_path, text, "E<> S.E and n == 8 and steps == 4") == ["holds"]


def test_clocks_and_invariants(tmp_path: Path) -> None:
    """The invariant of the target is tested after the last update, which resets the clock."""
    text = (
        "clock x; int n; after_update { x = 0 }"
        "process P() { state A { x <= 2 }, B { x <= 0 }; init A; trans A -> B { guard x >= 2; }; }"
        "system P;"
    )
    assert ask(tmp_path, text, "E<> P.B", "A[] P.B imply x == 0") == ["holds", "holds"]
    assert ask(tmp_path, text.replace("after_update { x = 0 }", ""), "E<> P.B") == ["violated"]


def test_an_edge_hides_no_names(tmp_path: Path) -> None:
    """What the sections use is global, whatever an edge selects."""
    text = (
        "int i, n; before_update { i = i + 1 } after_update { n = i }"
        "process P() { state A, B; init A; trans A -> B { select i : int[5,6]; assign n = i; }; } system P;"
    )
    assert ask(tmp_path, text, "A[] P.B imply i == 1 and n == 1") == ["holds"]


def test_broadcasts_without_sections_have_no_more_components() -> None:
    names = [one.name for one in network(MODEL).components]
    assert names == ["R", "S", "after_update"]
    assert [one.name for one in network(MODEL.replace(HOOKS, "")).components] == ["R", "S"]
    before = MODEL.replace(HOOKS, "before_update { n = 1 }")
    assert [one.name for one in network(before).components] == ["R", "S"]


@pytest.mark.parametrize(
    ("text", "message", "place"),
    [
        (
            "process P() { before_update { } state A; init A; } system P;",
            "`before_update` belongs to no template",
            "before_update",
        ),
        (
            "after_update { k = 1 } process P() { state A; init A; trans A -> A { }; } system P;",
            "unknown name `k`",
            "k",
        ),
    ],
)
def test_wrong(text: str, message: str, place: str) -> None:
    wrong = error(text)
    assert (wrong.message, marked(wrong)) == (message, place)
