"""Constants have no default range: only variables do."""

from __future__ import annotations

import pytest

from tests.unit.languages.timed.lower_texts import (
    component,
    computed,
    declared,
    error,
    fault,
    marked,
    network,
    process,
    updated,
)
from veristream.ir.expr import Const, Type

BIG = "const int BIG = 1000000;"


@pytest.mark.parametrize(
    ("declarations", "value", "expected"),
    [
        (BIG, "BIG", 1_000_000),
        ("const int LOW = -2147483648;", "LOW", -(2**31)),
        ("const int HIGH = 2147483647;", "HIGH", 2**31 - 1),
        ("const BIG 70000, LOW -70000;", "BIG + LOW + 70000", 70_000),
        ("const int A[2] = {70000, -70000};", "A[0] - A[1]", 140_000),
        ("const int A[2] = {70000, -70000}; int i = 1;", "A[i]", -70_000),
        ("typedef struct { int a; bool b; } rec; const rec R = {99999, true};", "R.a", 99_999),
        ("typedef int number; const number N = 40000;", "N", 40_000),
        ("const int N = 40000; const int M = N * 50;", "M / 2", 1_000_000),
        (f"{BIG} typedef int[0,BIG] all; const all N = BIG;", "N", 1_000_000),
        ("const meta int N = 40000;", "N", 40_000),
    ],
)
def test_constants(declarations: str, value: str, expected: int) -> None:
    found = updated(f"result = {value}", f"{declarations} int[-2147483647 - 1, 2147483647] result;")
    assert found["result"] == expected


def test_bounds_of_variables_and_clocks() -> None:
    text = process(
        "guard c >= BIG; assign x = BIG;", f"{BIG} int[0,BIG] x; clock c;", invariant="c <= 2 * BIG"
    )
    found = network(text)
    assert found.variables[0].type == Type(0, 1_000_000)
    assert found.components[0].edges[0].clock_guard[0].bound == Const(1_000_000)
    assert found.components[0].locations[0].clock_invariant[0].bound == Const(2_000_000)


def test_parameters_of_templates() -> None:
    text = (
        "int[0,200000] x; process P(const int k) { state A; init A; trans A -> A { assign x = k; }; } "
        "Q = P(100000); R(const int k) = P(2 * k); S = R(50000); system Q, S;"
    )
    assert [one.name for one in network(text).components] == ["Q", "S"]
    assert "Const(value=100000)" in repr(component(text, "S").edges[0].update)


HALF = "int half(const int k) { return k / 100; }"


def test_parameters_of_functions() -> None:
    assert computed(HALF, "half(1000000)") == 10_000
    assert computed(HALF, "half(big)", "int[0,1000000] big = 999900;") == 9_999
    nested = f"{HALF} int both(const int k) {{ return half(k + 100) + half(k); }}"
    assert computed(nested, "both(1000000)") == 20_001
    assert computed("int f() { const int K = 50000; return K / 5000; }", "f()") == 10
    assert computed("int f(int i) { const int K = i * 100000; return K / 50000; }", "f(3)") == 6


def test_parameters_get_no_more_than_is_passed() -> None:
    """Three factors of 32 bits would be too many, and a clock cannot be set to so much."""
    cube = "int cube(const int k) { return k * k * k; } int deep(const int k) { return cube(k); }"
    assert computed(cube, "deep(30)") == 27_000
    (function,) = (one for one in declared_functions(f"{cube} int x;", "x = deep(30)") if one[0] == "cube")
    assert function == ("cube", [Type(-32768, 32767)])
    (function,) = declared_functions(f"{HALF} int[0,1000000] big; int x;", "x = half(big)")
    assert function == ("half", [Type(-32768, 1_000_000)])
    reset = "clock c; void set(const int k) { c = k; }"
    assert declared_functions(reset, "set(7)") == [("set", [Type(-32768, 32767)])]


def declared_functions(declarations: str, update: str) -> list[tuple[str, list[Type]]]:
    """Returns the functions with the ranges of their parameters."""
    functions = network(process(f"assign {update};", declarations)).functions
    return [(one.name, [parameter.type for parameter in one.parameters]) for one in functions]


def test_variables_have_the_default_range() -> None:
    wrong = error(f"{BIG} int x = BIG; process P() {{ state A; init A; }} system P;")
    assert (wrong.message, marked(wrong)) == ("1000000 is outside the range -32768..32767", "BIG")
    assert fault("x = BIG + x", f"{BIG} int x;") == "1000000 is outside the range -32768..32767 of x"
    passed = "int x; void f(int k) { x = k / 1000; }"
    assert fault("f(BIG + x)", f"{BIG} {passed}").startswith("1000000 is outside the range -32768..32767")
    assert declared("int x = 32767;").variables[0].type == Type(-32768, 32767)


def test_other_ranges_of_constants_are_checked() -> None:
    wrong = error("const int[0,5] N = 7; process P() { state A; init A; } system P;")
    assert wrong.message == "7 is outside the range 0..5"
    wrong = error("const int N = 2147483647 * 2; process P() { state A; init A; } system P;")
    assert wrong.message == "4294967294 is outside the range -2147483648..2147483647"
