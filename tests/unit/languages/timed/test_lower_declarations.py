"""Declarations and their initial values."""

from __future__ import annotations

import pytest

from tests.unit.languages.timed.lower_texts import computed, declared, fault, network, process, updated
from veristream.ir.expr import BOOL, Type
from veristream.ir.network import Channel, ChannelKind, Clock, Variable

# The declaration, and its variables.
VARIABLES = [
    ("int x;", [Variable("x", Type(-32768, 32767))]),
    ("int[2,5] x;", [Variable("x", Type(2, 5), initial=(2,))]),
    ("int[-3,5] x;", [Variable("x", Type(-3, 5))]),
    ("bool b = 7;", [Variable("b", BOOL, initial=(1,))]),
    ("scalar[3] s;", [Variable("s", Type(0, 2))]),
    ("const int N = 2 + 3 * 2; int[0,N] x = N / 3;", [Variable("x", Type(0, 8), initial=(2,))]),
    ("const int N = 3; int a[N] = {1, 2, N};", [Variable("a", Type(-32768, 32767), (3,), (1, 2, 3))]),
    (
        "int[0,9] a[2][3] = {{1,2,3},{4,5,6}};",
        [Variable("a", Type(0, 9), (2, 3), (1, 2, 3, 4, 5, 6))],
    ),
    (
        "typedef int[0,9] row[3]; row a[2] = {{1,2,3},{4,5,6}};",
        [Variable("a", Type(0, 9), (2, 3), (1, 2, 3, 4, 5, 6))],
    ),
    (
        "typedef int[2,3] id; int[0,9] a[id] = {5, 6};",  # elements keep their indices
        [Variable("a", Type(0, 9), (4,), (0, 0, 5, 6))],
    ),
    (
        "typedef int[-1,1] id; int[0,9] a[id] = {5, 6, 7};",
        [Variable("a", Type(0, 9), (3,), (5, 6, 7))],
    ),
    (
        "struct { int[0,3] a; bool b[2]; } s = {2, {true, false}};",
        [Variable("s.a", Type(0, 3), initial=(2,)), Variable("s.b", BOOL, (2,), (1, 0))],
    ),
    (
        "typedef struct { int[0,3] a; int[0,3] b; } pair; pair p[2] = {{1, 2}, {b: 3, a: 0}};",
        [Variable("p.a", Type(0, 3), (2,), (1, 0)), Variable("p.b", Type(0, 3), (2,), (2, 3))],
    ),
    (
        "typedef struct { int[0,3] a[2]; } in; typedef struct { in i[2]; } out; out o;",
        [Variable("o.i.a", Type(0, 3), (2, 2), (0, 0, 0, 0))],
    ),
    ("const int A[2][2] = {{1,2},{3,4}}; int[0,9] x = A[1][0];", [Variable("x", Type(0, 9), initial=(3,))]),
    ("const int A[2] = {8, 9}; int a[2] = A;", [Variable("a", Type(-32768, 32767), (2,), (8, 9))]),
    ("meta int[0,1] x;", [Variable("x", Type(0, 1))]),
    ("const int N = 3 + 2 ** 3; int[0,N] x = 1;", [Variable("x", Type(0, 11), initial=(1,))]),
]


@pytest.mark.parametrize(("text", "expected"), VARIABLES)
def test_variables(text: str, expected: list[Variable]) -> None:
    assert list(declared(text).variables) == expected


def test_clocks_and_channels() -> None:
    model = declared(
        "clock x, y[2]; chan a; urgent chan b[2][3]; broadcast chan c; urgent broadcast chan d;"
    )
    assert model.timed
    assert model.clocks == (Clock("x"), Clock("y", (2,)))
    assert model.channels == (
        Channel("a", ChannelKind.RENDEZVOUS),
        Channel("b", ChannelKind.RENDEZVOUS, shape=(2, 3), urgent=True),
        Channel("c", ChannelKind.BROADCAST),
        Channel("d", ChannelKind.BROADCAST, urgent=True),
    )


def test_clock_arrays_are_not_padded() -> None:
    model = declared("typedef int[2,3] id; clock x[id]; chan c[id];")
    assert model.clocks == (Clock("x", (2,)),)
    assert model.channels == (Channel("c", ChannelKind.RENDEZVOUS, shape=(4,)),)


def test_priorities_count_from_default() -> None:
    model = declared("chan a, b[2], c, d; chan priority a < b, default < c;")
    assert {one.name: one.priority for one in model.channels} == {"a": -1, "b": 0, "c": 1, "d": 0}


def test_default_is_the_lowest_priority_if_not_listed() -> None:
    model = declared("chan a, b, c; chan priority a < b;")
    assert {one.name: one.priority for one in model.channels} == {"a": 0, "b": 1, "c": 0}


@pytest.mark.parametrize(("index", "expected"), [(1, 5), (2, 7), (3, 5), (4, 9)])
def test_constants_with_unknown_indices(index: int, expected: int) -> None:
    text = "typedef int[1,4] id; const int D[id] = {5, 7, 5, 9};"
    assert computed("", "D[i]", f"{text} int i = {index};") == expected


@pytest.mark.parametrize("row", [0, 1])
@pytest.mark.parametrize("column", [0, 1, 2])
def test_constants_of_two_dimensions(row: int, column: int) -> None:
    text = f"const int D[2][3] = {{{{10, 11, 12}}, {{20, 21, 22}}}}; int i = {row}, j = {column};"
    assert computed("", "D[i][j]", text) == 10 * (row + 1) + column


def test_constants_in_structs() -> None:
    text = "const struct { int a; int b[2]; } S[2] = {{1, {2, 3}}, {4, {5, 6}}}; int i = 1;"
    assert computed("", "100 * S[i].a + 10 * S[0].b[i] + S[i].b[0]", text) == 435


def test_a_constant_has_the_range_of_its_values() -> None:
    model = network(process("assign x = D[x];", "const int D[3] = {4, 2, 4}; int[0,9] x;"))
    assert model.variables == (Variable("x", Type(0, 9)),)
    assert [(one.name, one.result) for one in model.functions] == [("D", Type(2, 4))]


@pytest.mark.parametrize("index", [0, 5])
def test_constants_out_of_bounds_fault(index: int) -> None:
    text = f"typedef int[1,4] id; const int D[id] = {{5, 7, 5, 9}}; int x, i = {index};"
    assert fault("x = D[i]", text) == "an index of D is out of bounds"


@pytest.mark.parametrize(("index", "wrong"), [(1, -1), (4, 4)])
def test_padding_cannot_be_accessed(index: int, wrong: int) -> None:
    text = f"typedef int[2,3] id; int a[id]; int i = {index};"
    assert fault("a[i] = 1", text) == f"index {wrong} is outside 0..3 of a"


def test_elements_keep_their_indices() -> None:
    text = "typedef int[2,3] id; int a[id]; typedef int[-1,0] neg; int n[neg]; int i = 3, j = -1;"
    found = updated("a[i] = 4, n[j] = 5, n[0] = 6", text)
    assert (found["a[3]"], found["n[0]"], found["n[1]"]) == (4, 5, 6)


def test_constants_are_overridden() -> None:
    text = "const int N = 2; int[0,N] x = N; process P() { state A; init A; } system P;"
    assert network(text, N=7).variables == (Variable("x", Type(0, 7), initial=(7,)),)
