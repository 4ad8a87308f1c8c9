"""Predefined types, their bounds, `abs` and `assert`."""

from __future__ import annotations

import pytest

from tests.unit.languages.timed.lower_texts import computed, declared, error, fault, process, updated
from veristream.ir.expr import Type
from veristream.ir.network import Variable

TYPES = [
    ("int8_t", Type(-128, 127)),
    ("uint8_t", Type(0, 255)),
    ("int16_t", Type(-32768, 32767)),
    ("uint16_t", Type(0, 65535)),
    ("int32_t", Type(-2147483648, 2147483647)),
]
BOUNDS = [
    *[("INT8_MIN", -128), ("INT8_MAX", 127), ("UINT8_MAX", 255), ("INT16_MIN", -32768)],
    *[("INT16_MAX", 32767), ("UINT16_MAX", 65535), ("INT32_MIN", -(2**31)), ("INT32_MAX", 2**31 - 1)],
]


@pytest.mark.parametrize(("name", "type_"), TYPES)
def test_types(name: str, type_: Type) -> None:
    assert list(declared(f"{name} x = 1;").variables) == [Variable("x", type_, initial=(1,))]


@pytest.mark.parametrize(("name", "value"), BOUNDS)
def test_bounds_of_types(name: str, value: int) -> None:
    (variable,) = declared(f"int32_t x = {name};").variables
    assert variable.initial == (value,)


def test_a_model_may_redefine_the_names() -> None:
    assert list(declared("typedef int[0,3] int8_t; int8_t INT8_MAX = 2;").variables) == [
        Variable("INT8_MAX", Type(0, 3), initial=(2,))
    ]
    assert computed("int abs(int a) { return a + 100; }", "abs(-3)") == 97


@pytest.mark.parametrize("number", [-3, 0, 3])
def test_the_absolute_value(number: int) -> None:
    text = "int f(int n) { return abs(n); }"
    assert computed(text, f"f({number})") == abs(number)
    assert computed(text, f"abs({number})") == abs(number)


def test_the_argument_of_abs_is_evaluated_once() -> None:
    found = updated("r = abs(f())", "int r, n; int f() { n++; return -n; }")
    assert (found["r"], found["n"]) == (1, 1)


def test_a_function_that_calls_a_builtin_leaves_its_caller_alone() -> None:
    function = "int g(int &n) { if (n > 9) return 1; return abs(n); } int f() { int l = -4; return g(l); }"
    assert computed(function, "f()") == 4


def test_assertions() -> None:
    text = "int n = 1; void f(int a) { assert(a  < 3); n = a; }"
    assert updated("f(2)", text)["n"] == 2
    assert fault("f(3)", text) == "`assert(a < 3)` does not hold"
    assert fault("assert(n == 2)", text) == "`assert(n == 2)` does not hold"


WRONG = [
    ("x = abs(1, 2)", "`abs` takes 1 argument, not 2", "pass one value"),
    (
        "x = pow(2, 3)",
        "`pow` computes with real numbers, which only statistical and hybrid models support",
        "integers",
    ),
    ("x = floor(2)", "`floor` computes with real numbers", "integers"),
]


@pytest.mark.parametrize(("update", "message", "hint"), WRONG)
def test_wrong_calls(update: str, message: str, hint: str) -> None:
    wrong = error(process(f"assign {update};", "int x;"))
    assert message in wrong.message
    assert hint in wrong.hint
