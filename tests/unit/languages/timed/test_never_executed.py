"""What is wrong only when it is executed: no error of a model that never executes it."""

from __future__ import annotations

import re

import pytest

from tests.unit.languages.timed.lower_texts import error, fault, marked, network, process
from veristream.ir.expr import TRUE
from veristream.ir.oracle.interpret import Interpreter
from veristream.ir.property import Always, Property
from veristream.search.engine import check
from veristream.search.limits import Limits
from veristream.verdict import Unknown

WORLD = (
    "const int N = 3; typedef int[0,N-1] id_t; int a[N]; const int t[N] = {1, 2, 3}; clock x[N], y;"
    "chan c[N]; broadcast chan b[N]; int[1,3] p[int[1,3]]; int[0,2] small; int grid[N][2];"
    "struct { int v[N]; } r; int get(const id_t k) { return a[k]; }"
    "int[0,2] pass(int k) { return k; } void put(int &k) { k = 1; }"
)
EDGES = [
    "guard i < N - 1 && a[i + 1] == 0; assign a[i + 1] = 1;",
    "guard i < N - 1; assign a[0] = t[i + 1];",
    "guard i < N - 1 && x[i + 1] >= 0;",
    "guard i < N - 1; assign x[i + 1] = 0;",
    "guard i > 0; assign y = i - 1;",
    "guard i < N - 1; sync c[i + 1]!;",
    "guard i < N - 1; sync c[i + 1]?;",
    "guard i < N - 1; sync b[i + 1]!;",
    "guard i < N - 1; sync b[i + 1]?;",
    "guard i > 0; assign p[i] = 2;",
    "guard i < N - 1; assign small = i + 1;",
    "guard i < N - 1; assign small = get(i + 1);",
    "guard i < N - 1; assign small = pass(i + 1);",
    "guard i < N - 1; assign put(a[i + 1]);",
    "guard i < N - 1; assign grid[i + 1][1] = 1;",
    "guard i < N - 1; assign r.v[i + 1] = 1;",
    "guard i < N - 1 ? a[i + 1] == 0 : true;",
    "guard i < N - 1 imply a[i + 1] == 0;",
    "assign small = i < N - 1 ? a[i + 1] : 0;",
    "select e : id_t; guard e + i < N - 1 && a[e + i + 1] == 0;",
]


def family(labels: str) -> str:
    """Returns a model of three processes `P(i)` with an edge from A to B."""
    return (
        f"{WORLD} process P(const id_t i) {{ state A, B; init A; trans A -> B {{ {labels} }}; }} system P;"
    )


@pytest.mark.parametrize("labels", EDGES)
def test_it_never_fires(labels: str) -> None:
    model = network(family(labels))
    (result,) = check(model, [Property("all", Always(TRUE))], Limits())
    assert not isinstance(result.verdict, Unknown), result.verdict.reason
    interpreter = Interpreter(model)
    seen, waiting = {interpreter.initial()}, [interpreter.initial()]
    while waiting:
        state = waiting.pop()
        assert list(interpreter.failures(state)) == []
        new = {step.state for step in interpreter.steps(state)} - seen
        seen |= new
        waiting += new
    assert len(seen) >= 1


@pytest.mark.parametrize("labels", [one for one in EDGES if re.match(r"guard i [^;?]*;( assign|$)", one)])
def test_it_fires(labels: str) -> None:
    """Without its condition, the same edge fails in the run."""
    bare = re.sub(r"guard i (< N - 1|> 0)(;| && | imply )", r"guard true\2", labels)
    (result,) = check(network(family(bare)), [Property("all", Always(TRUE))], Limits())
    assert isinstance(result.verdict, Unknown), bare
    assert result.verdict.fault is not None
    assert re.search("is outside|out of bounds|cannot be set to -1", result.verdict.fault.message)


@pytest.mark.parametrize(
    ("update", "message"),
    [
        ("x = a[2]", "index 2 is outside 0..1 of a"),
        ("a[-1] = 1", "index -1 is outside 0..1 of a"),
        ("z = p[0]", "index -1 is outside 0..3 of p"),
        ("y = 6", "6 is outside the range 0..5 of y"),
        ("x = f(4)", "4 is outside the range 0..3 of the result of f"),
        ("x = t[2]", "an index of t is out of bounds"),
    ],
)
def test_messages(update: str, message: str) -> None:
    declared = (
        "int x, z, a[2]; int[1,3] p[int[1,3]]; int[0,5] y; const int t[2] = {1, 2};"
        "int[0,3] f(int k) { return k; }"
    )
    assert fault(update, declared) == message


def test_arguments_of_templates_are_checked_at_load() -> None:
    text = "int a[2]; process P(int &k) { state A; init A; } Q = P(a[2]); system Q;"
    wrong = error(text)
    assert (wrong.message, marked(wrong)) == ("an index of `a` is outside 0..1", "a[2]")


def test_it_is_still_an_error_where_a_constant_is_needed() -> None:
    wrong = error("const int t[2] = {1, 2}; const int k = t[2]; process P() { state A; init A; } system P;")
    assert wrong.message == "`t[2]` is out of bounds"
    assert network(process("assign x = 1;", "int x;"))
