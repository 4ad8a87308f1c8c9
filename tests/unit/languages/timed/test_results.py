"""Functions that return a struct or an array."""

from __future__ import annotations

import pytest

from tests.unit.languages.timed.lower_texts import error, process, updated

PAIR = "typedef struct { int a; int b[2]; } pair; pair p, q[2] = {{1, {2, 3}}, {4, {5, 6}}}; int n = 1;"
MAKE = "pair make(int a) { pair x = {a, {a + 1, a + 2}}; return x; }"
FIRST = "pair first(int a) { if (a > 5) return q[0]; else { n++; return q[1]; } }"

# Functions, an update, and the resulting p.a, p.b[0], p.b[1] and n.
UPDATES = [
    (MAKE, "p = make(7)", (7, 8, 9, 1)),
    (FIRST, "p = first(6)", (1, 2, 3, 1)),
    (FIRST, "p = first(5)", (4, 5, 6, 2)),
    (f"{MAKE} pair again(int a) {{ return make(2 * a); }}", "p = again(2)", (4, 5, 6, 1)),
    (f"{MAKE} void f() {{ pair l = make(3); pair m; m = make(l.b[1]); p = m; }}", "f()", (5, 6, 7, 1)),
    (f"{MAKE} void f() {{ q[n] = make(n + 1); }}", "f(), p = q[1]", (2, 3, 4, 1)),
    ("pair pop() { pair l = q[0]; q[0] = q[1]; n--; return l; }", "p = pop(), p = pop()", (4, 5, 6, -1)),
    (f"{MAKE} {FIRST}", "p = n > 5 ? make(1) : first(9)", (1, 2, 3, 1)),
]


@pytest.mark.parametrize(("functions", "update", "expected"), UPDATES)
def test_results_are_stored(functions: str, update: str, expected: tuple[int, ...]) -> None:
    found = updated(update, f"{PAIR} {functions}")
    assert (found["p.a"], found["p.b[0]"], found["p.b[1]"], found["n"]) == expected


def test_array_results() -> None:
    text = (
        "typedef int row[3]; row r; row count(int n) { row l; for (i : int[0,2]) l[i] = n + i; return l; }"
    )
    found = updated("r = count(4)", text)
    assert [found[f"r[{place}]"] for place in range(3)] == [4, 5, 6]


WRONG = [
    ("p = make(1, 2)", "`make` takes 1 argument(s), not 2", "make(a)"),
    ("make(1)", "`make` returns a struct", "return a number"),
    ("n = make(1)", "`make` returns a struct", "return a number"),
    ("w = make(1)", "of a different type than the parameter", "pass a struct"),
]


@pytest.mark.parametrize(("update", "message", "hint"), WRONG)
def test_wrong_uses(update: str, message: str, hint: str) -> None:
    wrong = error(process(f"assign {update};", f"{PAIR} {MAKE} struct {{ int a; }} w;"))
    assert message in wrong.message
    assert hint in wrong.hint
