"""Semantic errors: message, hint and position."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.languages.timed.lower_texts import error, marked, process, rejected
from tests.unit.languages.timed.parse_texts import label, nta
from veristream.errors import ModelError

BODY = "{ state A; init A; }"


def declared(text: str) -> str:
    return f"{text} process P() {BODY} system P;"


def update(text: str) -> str:
    return process(
        f"assign {text};",
        "typedef struct { int a; bool b; } rec; int x, a[2], m[2][2]; bool t; clock c, d[2]; chan s; rec r;"
        "const int N = 3; int[0,5] y; int f(int n) { return n; } void g() { x = 1; }"
        "void h(int &n) { n = 1; } void k(int &n[2]) { n[0] = 1; }"
        "int sum2(int n[2]) { return n[0] + n[1]; }",
    )


def guard(text: str) -> str:
    world = "clock c, d, e[2]; bool b; int x; int bad() { x = 1; return x; }"
    return process(f"guard {text};", world)


def invariant(text: str) -> str:
    return process("", "clock c, d; bool b;", invariant=text)


CONVEX = "this clock condition is not convex"
CASES = "use a separate edge or location for each case"
DECLARATIONS = [
    ("int x = y;", "y", "unknown name `y`", "declare it first"),
    ("const int size = 3; int x = sise;", "sise", "unknown name `sise`", "did you mean `size`?"),
    ("int x; int y = x;", "x", "`x` is not a constant", "declare it with `const`"),
    ("const int N;", "N", "the constant `N` has no value", "write `= value` after it"),
    ("int x; bool x;", "x", "`x` is declared twice", "rename one of them"),
    ("int x = 2 ** 32;", "32", "the exponent 32 is outside 0..31", "numbers have 32 bits"),
    ("const int N = 2 ** (1 - 2);", "(1 - 2)", "the exponent -1 is outside 0..31", "32 bits"),
    ("int[5,2] x;", "int[5,2]", "the range 5..2 is empty", "write the lower bound first"),
    ("int[0,3] x = 4;", "4", "4 is outside the range 0..3", "widen the type or change the value"),
    ("int a[0];", "0", "the array has 0 elements", "every dimension must be at least 1"),
    ("int a[2147483647];", "2147483647", "an array cannot have 2147483647 elements", "1000000"),
    ("struct { int m[1000]; } s[1001];", "1001", "an array cannot have 1001000 elements", "1000000"),
    ("clock c[2][501];", "2", "an array cannot have 1002 clocks", "the maximum is 1000"),
    ("typedef scalar[2000000000] id; int a[id];", "id", "cannot have 2000000000 elements", "1000000"),
    ("int a[2] = {1};", "{1}", "expected 2 value(s) for the array, found 1", "write one value per element"),
    ("int a[2] = 1;", "1", "expected a list, found a single value", "write `{ ... }`"),
    ("int x = {1};", "{1}", "expected a number, found a list", "remove the braces"),
    ("const int A[2] = {1, 2}; int a[3] = A;", "A", "this constant has a different type", "use an array"),
    ("struct { int a; } s = 1;", "1", "expected a list, found a single value", "write `{ ... }`"),
    ("clock x = 3;", "3", "a clock cannot have an initial value", "remove it"),
    ("const int N = 1 / 0;", "1 / 0", "`1 / 0` is undefined", "change the right operand"),
    (
        "const int A[2] = {1, 2}; int x = A[2];",
        "A[2]",
        "`A[2]` is out of bounds",
        "the bounds are `A[0..1]`",
    ),
    ("struct { int a; int a; } s;", "a", "the field `a` is declared twice", "rename one of them"),
    (
        "struct { int a; } s = {1, 2};",
        "{1, 2}",
        "expected 1 value(s) for the struct, found 2",
        "the fields are a",
    ),
    ("struct { int a; } s = {b: 1};", "1", "unknown field `b`", "the fields are a"),
    ("int a[int];", "int", "`int` has too many values to enumerate", "use `int[low, high]`"),
    ("chan c[2]; chan priority c[0] < default;", "c[0]", "a single element of a channel array", "whole"),
    ("int c; chan priority c < default;", "c", "`c` is not a channel", "declare it with `chan`"),
    ("chan c; chan priority e < c;", "e", "unknown channel `e`", "declare it before its priority"),
    ("void __ON_BEGIN__() { }", None, "the callback `__ON_BEGIN__` is not supported", "updates"),
]
UPDATES = [
    ("z = 1", "z", "unknown name `z`", "declare it first"),
    ("N = 4", "N", "constants cannot be assigned", "declare it without `const`"),
    ("x = c", "c", "clock values cannot be assigned", "assign a number, as in `x = 0`"),
    ("c = d[0]", "d[0]", "clock values cannot be assigned", "assign a number, as in `x = 0`"),
    ("c += 1", "c += 1", "a clock can only be assigned with `=`", "write `= ...`"),
    ("x = s", "s", "expected a number, found a channel", "use a channel in a synchronisation"),
    ("x = a", "a", "expected a number, found an array", "select an element with `[index]`"),
    ("x = r", "r", "expected a number, found a struct", "select a field with `.name`"),
    ("x = a[0][1]", "a[0][1]", "a number cannot be indexed", "remove the index"),
    ("x = m[0]", "m[0]", "expected a number, found an array", "select an element with `[index]`"),
    ("x = r.c", "r.c", "unknown field `c`", "the fields are a, b"),
    ("x = a.b", "a.b", "an array has no fields", "remove `.b`"),
    ("a = m", "a = m", "cannot assign an array to an array here", "both sides of `=` must have the"),
    ("r = 1", "1", "expected a variable", "use a variable"),
    ("x = ff(1)", "ff(1)", "unknown function `ff`", "did you mean `f`?"),
    ("x = other(1)", "other(1)", "unknown function `other`", "declare it first"),
    ("x = f(1, 2)", "f(1, 2)", "`f` takes 1 argument(s), not 2", "call it as `f(n)`"),
    ("x = x(1)", "x(1)", "`x` is not a function", "only functions can be called"),
    ("x = g()", "g()", "`g` returns no value", "call it as a statement"),
    ("h(N)", "N", "a constant cannot be passed by reference", "declare the parameter `const`"),
    ("h(1)", "1", "expected a variable", "use a variable"),
    ("k(x)", "x", "the argument is a number of a different type than the parameter", "pass an array"),
    (
        "x = sum2(m)",
        "m",
        "the argument is an array of a different type than the parameter",
        "pass an array",
    ),
    ("t && x++", "x++", "this has side effects, but may not be evaluated", "use an `if`"),
    ("x = t ? y++ : 1", "t ? y++ : 1", "this has side effects, but may not be evaluated", "use an `if`"),
    ("x = sum (i : int[0,1]) a[i]++", "a[i]++", "side effects are not allowed here", "only"),
    ("f = 1", "f", "`f` has no value", "use a variable or a constant"),
    ("x = sum (i : rec) 1", "rec", "the values of a struct cannot be enumerated", "use `int[low, high]`"),
]
GUARDS = [
    ("c != 3", "c != 3", CONVEX, "use two edges, one with `<` and one with `>`"),
    ("c < 3 || d < 4", "c < 3 || d < 4", CONVEX, CASES),
    ("c < 3 imply b", "c < 3 imply b", CONVEX, CASES),
    ("!(c < 3)", "!(c < 3)", CONVEX, "compare clocks with numbers, and join the comparisons with `&&`"),
    (
        "exists (i : int[0,1]) e[i] < 3",
        "exists (i : int[0,1]) e[i] < 3",
        CONVEX,
        "join the comparisons with `&&`",
    ),
    ("c + d < 3", "c + d < 3", "a comparison may contain one clock or the difference", "write `x < n` or"),
    ("2 * c < 3", "2 * c", "clocks can only be added and subtracted", "write `x < n` or `x - y < n`"),
    ("c", "c", CONVEX, "compare clocks with numbers, and join the comparisons with `&&`"),
    ("x++ > 1", "x++", "side effects are not allowed here", "only updates and functions"),
    ("bad() > 1", "bad()", "`bad` assigns variables and cannot be called here", "only an update can"),
]
INVARIANTS = [
    ("c == 3", "c == 3", "an invariant cannot compare a clock with `==`", "use `<` or `<=`"),
    ("c < 3 || d < 4", "c < 3 || d < 4", CONVEX, CASES),
]
FUNCTIONS = [
    ("int f() { return f(); }", "function `f` calls itself", "use a loop"),
    ("void f() { return 1; }", "a `void` function cannot return a value", "write `return;`"),
    ("int f() { return; }", "this `return` needs a value", "write `return value;`"),
    ("void f() { clock x; }", "a clock cannot be local to a function", "declare it outside"),
    ("void f() { const int k = 1; k = 2; }", "constants cannot be assigned", "without"),
    ("void f() { for (i : int[0,1]) i = 2; }", "`i` cannot be assigned", "use a variable"),
    (
        "void g(int &n) { if (n > 1) return; n = 1; } void f() { int l; g(l); }",
        "returns early",
        "at its end",
    ),
    (
        "void g(int &n) { int l; n++; g(l); } void f() { int l; g(l); }",
        "function `g` calls itself",
        "a loop",
    ),
    ("void g(int &n) { n++; } void f() { for (i : int[0,1]) g(i); }", "`i` cannot be assigned", "variable"),
    ("typedef struct { int a; } r; r f() { r x; return x; }", "`f` returns a struct", "return a number"),
    ("int f() { int x = {1}; return x; }", "expected a number, found a list", "remove the braces"),
    (
        "int f() { int a[2] = {1}; return 1; }",
        "expected 2 value(s) for the array, found 1",
        "one value per element",
    ),
    ("int f() { int a[1] = {{1}}; return 1; }", "expected a number, found a list", "remove the braces"),
    ("int f() { int a[2]; int b[3]; return a == b; }", "the operands have different types", "fields"),
    (
        "int f() { int a[2]; int b[2]; return a < b; }",
        "an array cannot be ordered",
        "compare elements or fields",
    ),
    (
        "void g(chan c) { } chan s; void f() { g(s); }",
        "expected a number, found a channel",
        "synchronisation",
    ),
]
SYSTEMS = [
    (f"process P() {BODY} system Q;", "Q", "unknown template `Q`", "the templates are: P"),
    (f"process Prod() {BODY} system Prid;", "Prid", "unknown template `Prid`", "did you mean `Prod`?"),
    (f"process P() {BODY} system P, P;", "P", "`P` appears twice on the system line", "remove one"),
    (f"process P(int &x) {BODY} system P;", "P", "`P` needs an argument for `x`", "write `Name = P(...);`"),
    (f"process P(int x) {BODY} system P;", "int", "`int` has too many values", "use `int[low, high]`"),
    (f"process P(const int a) {BODY} Q = P(); system Q;", None, "`P` takes 1 argument(s), not 0", "P(a)"),
    (f"int v; process P(const int a) {BODY} Q = P(v); system Q;", "v", "`v` is not a constant", "`const`"),
    (f"process P(int[0,3] a) {BODY} Q = P(4); system Q;", "4", "4 is outside the range 0..3", "widen"),
    (
        f"chan c; process P(clock &a) {BODY} Q = P(c); system Q;",
        "c",
        "expected a clock for `a`, found a channel",
        "pass an argument of the parameter's type",
    ),
    (
        f"chan c[3]; process P(chan &a[2]) {BODY} Q = P(c); system Q;",
        "c",
        "the argument for `a` is an array of a different type",
        "pass an argument of the parameter's type",
    ),
    (
        f"int v, a[2]; process P(int &x) {BODY} Q = P(a[v]); system Q;",
        "a[v]",
        "this index is not constant",
        "use a number",
    ),
    (
        f"process P(const int[0,10000] i) {BODY} system P;",
        "P",
        "`P` has 10001 processes for the values of `i`",
        "the maximum is 10000",
    ),
    (f"process P() {BODY} Q = Q(); system Q;", None, "`Q` instantiates itself", "write a template"),
    (f"process P() {BODY} P = P(); system P;", None, "`P` is declared twice", "rename one of them"),
    (
        f"broadcast chan c; process P() {BODY} process Q() {BODY} system P < Q;",
        "c",
        "process priorities are not supported together with broadcast channels",
        "with commas",
    ),
    (process("sync x!;", "int x;"), "x", "expected a channel, found a number", "with `chan`"),
    (process("sync c!;", "chan c[2];"), "c", "expected a channel, found an array", "an element"),
    (process("sync e!;", "chan c;"), "e", "unknown name `e`", "declare it first"),
    (
        process("guard x < 3; sync c!;", "clock x; urgent chan c;"),
        "x < 3",
        "an edge on the urgent channel `c` cannot have a clock guard",
        "test clocks on another edge",
    ),
    ("process P() { int A; state A; init A; } system P;", "A", "`A` is declared twice", "the location"),
    (
        process("guard x > 1; sync c?;", "clock x; broadcast chan c;").replace("init", "commit A; init"),
        None,
        "a clock guard on a broadcast receiver at a committed location is not supported",
        "make the location urgent",
    ),
]


def _check(wrong: ModelError, place: str | None, message: str, hint: str) -> None:
    assert message in wrong.message
    assert hint in wrong.hint
    assert place is None or marked(wrong) == place
    assert wrong.span.place.startswith("model:1:")


@pytest.mark.parametrize(("text", "place", "message", "hint"), DECLARATIONS)
def test_declarations(text: str, place: str | None, message: str, hint: str) -> None:
    _check(error(declared(text)), place, message, hint)


@pytest.mark.parametrize(("text", "place", "message", "hint"), UPDATES)
def test_updates(text: str, place: str, message: str, hint: str) -> None:
    _check(error(update(text)), place, message, hint)


@pytest.mark.parametrize(("text", "place", "message", "hint"), GUARDS)
def test_guards(text: str, place: str, message: str, hint: str) -> None:
    _check(error(guard(text)), place, message, hint)


@pytest.mark.parametrize(("text", "place", "message", "hint"), INVARIANTS)
def test_invariants(text: str, place: str, message: str, hint: str) -> None:
    _check(error(invariant(text)), place, message, hint)


@pytest.mark.parametrize(("text", "message", "hint"), FUNCTIONS)
def test_functions(text: str, message: str, hint: str) -> None:
    _check(error(process("assign f();", text)), None, message, hint)


@pytest.mark.parametrize(("text", "place", "message", "hint"), SYSTEMS)
def test_systems(text: str, place: str | None, message: str, hint: str) -> None:
    _check(error(text), place, message, hint)


def _arrow(source: str, target: str, labels: str = "") -> str:
    return f'<transition><source ref="{source}"/><target ref="{target}"/>{labels}</transition>'


POINTS = '<location id="l"/><branchpoint id="b"/><branchpoint id="c"/><init ref="l"/>'
BRANCHES = [
    (_arrow("l", "b") + _arrow("b", "c"), "a branch cannot lead to another branchpoint", "a location"),
    (
        _arrow("l", "b") + _arrow("b", "l", label("guard", "true")),
        "a branch can only have a selection and an update",
        "guard",
    ),
]


@pytest.mark.parametrize(("arrows", "message", "hint"), BRANCHES)
def test_branchpoints(arrows: str, message: str, hint: str) -> None:
    _check(error(nta(POINTS + arrows)), None, message, hint)


def test_too_many_guarded_receivers() -> None:
    edges = ", ".join(f"A -> A {{ guard x > {number}; sync c?; }}" for number in range(7))
    text = f"clock x; broadcast chan c; process P() {{ state A; init A; trans {edges}; }} system P;"
    _check(error(text), None, "this location has 7 receiving edges with clock guards", "at most 6")


WORLD = """
int x; clock c; process P(const int[1,2] i) { int v; bool g() { return v > 1; } state A, Busy; init A; }
process Q() { state A; init A; } system P, Q;
"""
QUERIES = [
    ("E<> P.A", "P", "`P` has parameters", "write `P(1)`"),
    ("E<> Q(1).A", "Q(1)", "`Q` has no parameters", "write `Q`"),
    ("E<> P(3).A", "P(3)", "there is no process `P(3)`", "the processes are P(1), P(2)"),
    ("E<> P(1).Bussy", "P(1).Bussy", "unknown location or variable `Bussy`", "did you mean `Busy`?"),
    ("E<> P(x).A", "x", "`x` is not a constant", "declare it with `const`"),
    ("E<> P(1).A[0]", "P(1).A", "`A` is a location, not a variable", "use a variable"),
    ("E<> R.A", "R", "unknown name `R`", "declare it first"),
    ("E<> P(1).f()", "P(1).f()", "unknown function `P(1).f`", "its functions are g"),
    ("E<> Q.g()", "Q.g()", "unknown function `Q.g`", "the process has no functions"),
    ("E<> P(1).g(2)", "P(1).g(2)", "takes 0 argument(s), not 1", "call it as"),
    ("E<> c", "c", "expected a number, found a clock", "clocks can be compared"),
    ("E<> x++ > 1", "x++", "side effects are not allowed here", "only updates"),
    ("sup: x + c", "c", "expected a number, found a clock", "clocks can be compared"),
]


@pytest.mark.parametrize(("query", "place", "message", "hint"), QUERIES)
def test_queries(tmp_path: Path, query: str, place: str, message: str, hint: str) -> None:
    wrong = rejected(tmp_path, WORLD, query)
    assert message in wrong.message
    assert hint in wrong.hint
    assert wrong.span.source.text[wrong.span.start : wrong.span.end] == place
