"""Function calls at compile time."""

from __future__ import annotations

import pytest

from tests.unit.languages.timed.lower_texts import declared, error, marked, network
from veristream.ir.network import Network

SUM = "int sum_to(int n) { int i; int s = 0; for (i = 1; i <= n; i++) s += i; return s; }"


def _first(model: Network) -> tuple[tuple[int, ...], tuple[int, ...]]:
    return model.variables[0].shape, model.variables[0].initial


def test_constants_sizes_and_initial_values() -> None:
    text = f"{SUM} const int N = sum_to(2); int a[N] = {{sum_to(3), N, abs(-4)}};"
    assert _first(declared(text)) == ((3,), (6, 3, 4))


def test_functions_use_constants_and_other_functions() -> None:
    text = """
    const int A[3] = {5, 9, 7};
    int larger(int a, int b) { return a > b ? a : b; }
    int largest() { int m = 0; for (i : int[0,2]) m = larger(m, A[i]); return m; }
    int[0, largest()] x = largest() - 1;
    """
    (variable,) = declared(text).variables
    assert (variable.type.high, variable.initial) == (9, (8,))


def test_functions_of_a_template_see_its_parameters() -> None:
    text = """
    process P(const int n) { int twice() { return 2 * n; } int x = twice(); state A; init A; }
    Q = P(4); system Q;
    """
    assert network(text).components[0].variables[0].initial == (8,)


def test_arguments_of_processes() -> None:
    text = f"{SUM} process P(const int n) {{ int x = n; state A; init A; }} Q = P(sum_to(4)); system Q;"
    assert network(text).components[0].variables[0].initial == (10,)


WRONG = [
    ("int v; int f() { return v; } int x = f();", "f()", "`f` uses variables", "constants, its parameters"),
    ("int v; int f() { v = 1; return 1; } int x = f();", "f()", "`f` uses variables", "constants"),
    ("int f(int a) { return 6 / a; } int x = f(0);", "6 / a", "division by zero", "`f` fails"),
    ("int f(int a) { return a; } int x = f(1, 2);", "f(1, 2)", "`f` takes 1 argument(s), not 2", "f(a)"),
    ("int[0,3] x = g(1);", "g(1)", "unknown function `g`", "declare it first"),
]


@pytest.mark.parametrize(("text", "place", "message", "hint"), WRONG)
def test_calls_that_are_not_constant(text: str, place: str, message: str, hint: str) -> None:
    wrong = error(f"{text} process P() {{ state A; init A; }} system P;")
    assert message in wrong.message
    assert hint in wrong.hint
    assert marked(wrong) == place
