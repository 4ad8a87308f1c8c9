"""Updates and functions, run by the interpreter."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.languages.timed.lower_texts import computed, edge, fault, network, process, updated
from veristream.ir import expr as ir

# The update, and the values of x, y and z after it; initially 1, 2 and 3, and a is {10, 20, 30}.
UPDATES = [
    ("x = 5, y = x", (5, 5, 3)),
    ("x = y = z = 7", (7, 7, 7)),
    ("x += y, y -= 5, z *= 4", (3, -3, 12)),
    ("x = -7, y = x / 2, z = x % 2", (-7, -3, -1)),
    ("x = 6 & 3, y = 6 | 3, z = 6 ^ 3", (2, 7, 5)),
    ("x <<= 3, z >>= 1", (8, 2, 1)),
    ("x = y <? z, y = y >? z", (2, 3, 3)),
    ("x++, --y", (2, 1, 3)),
    ("x = y++, z = ++y", (2, 4, 4)),
    ("x = y++ + y", (5, 3, 3)),
    ("x = y + y++", (4, 3, 3)),
    ("x = (y = 5) + y", (10, 5, 3)),
    ("x = y + (y = 5)", (7, 5, 3)),
    ("x = a[x++], y = x", (20, 20, 3)),
    ("x = a[y] + a[--y]", (50, 1, 3)),
    ("x = z > 2 ? y : 9", (2, 2, 3)),
    ("z > 2 ? x = 8 : y = 9", (8, 2, 3)),
    ("z > 3 ? x = 8 : y++", (1, 3, 3)),
    ("x = y > 1 && z > 1, y = !x, z = x imply y", (1, 0, 0)),
    ("x = sum (i : int[0,2]) a[i]", (60, 2, 3)),
    ("x = forall (i : int[0,2]) a[i] > 10, y = exists (i : int[0,2]) a[i] > 10", (0, 1, 3)),
    ("x = sum (i : int[0,2]) sum (i : int[1,2]) i", (9, 2, 3)),
    ("x = +y", (2, 2, 3)),
    ("x = z ** 4, y = y ** 0, z = 2 ** 3", (81, 1, 8)),
    ("x = (y = 5) ** 2", (25, 5, 3)),
]


@pytest.mark.parametrize(("update", "expected"), UPDATES)
def test_updates(update: str, expected: tuple[int, int, int]) -> None:
    found = updated(update, "int x = 1, y = 2, z = 3; int a[3] = {10, 20, 30};")
    assert (found["x"], found["y"], found["z"]) == expected


Tree = tuple[str, "Tree", "Tree"] | tuple[str, str] | int
_NAMES = st.sampled_from(["x", "y", "z"])
_LEAVES = st.one_of(
    st.integers(0, 5),
    st.tuples(st.sampled_from(["name", "x++", "++x", "x--", "--x"]), _NAMES),
)
_TREES = st.recursive(
    _LEAVES,
    lambda inner: st.one_of(
        st.tuples(st.sampled_from(["+", "-", "<", "=="]), inner, inner),
        st.tuples(st.sampled_from(["=", "+="]), _NAMES.map(lambda name: ("name", name)), inner),
    ),
    max_leaves=6,
)


def _spell(tree: Tree) -> str:
    match tree:
        case int():
            return str(tree)
        case ("name", name):
            return str(name)
        case (str() as op, str() as name):
            return f"({op.replace('x', name)})"
        case (op, left, right):
            return f"({_spell(left)} {op} {_spell(right)})"
    raise AssertionError(tree)


def _run(tree: Tree, state: dict[str, int]) -> int:
    """Evaluates the tree from left to right; in an assignment, the value first."""
    match tree:
        case int():
            return tree
        case ("name", str() as name):
            return state[name]
        case (str() as op, str() as name):
            before = state[name]
            state[name] += 1 if "++" in op else -1
            return before if op.startswith("x") else state[name]
        case ("=" | "+=" as op, ("name", str() as name), value):
            given_ = _run(value, state)
            state[name] = given_ + (state[name] if op == "+=" else 0)
            return state[name]
        case (op, left, right):
            first = _run(left, state)
            second = _run(right, state)
            return {"+": first + second, "-": first - second, "<": first < second, "==": first == second}[
                op
            ]
    raise AssertionError(tree)


@settings(max_examples=40, deadline=None)
@given(_TREES)
def test_side_effects_happen_in_order(tree: Tree) -> None:
    state = {"x": 1, "y": 2, "z": 3, "result": 0}
    state["result"] = int(_run(tree, state))
    assert updated(f"result = {_spell(tree)}", "int x = 1, y = 2, z = 3, result;") == state


# The order of side effects in arguments and calls; initially x is 1, and a is {10, 20, 30}.
CALLS = [
    ("f(a[x], x++)", [10, 21, 30], 2),
    ("f(a[x++], x)", [10, 22, 30], 2),
    ("f(a[x], f(x, 1))", [10, 22, 30], 2),
    ("x > 5 && f(a[0], 1) > 0", [10, 20, 30], 1),
    ("x > 0 && f(a[0], 1) > 0", [11, 20, 30], 1),
    ("f(a[0], 1) + f(a[1], 1)", [11, 21, 30], 1),
    ("x > 0 ? f(a[0], 1) : f(a[1], 1)", [11, 20, 30], 1),
    ("a[f(x, 1)] = x", [10, 20, 1], 2),  # of an assignment the value comes first
]


@pytest.mark.parametrize(("update", "expected", "x"), CALLS)
def test_side_effects_of_calls_happen_once_and_in_order(update: str, expected: list[int], x: int) -> None:
    text = "int x = 1, a[3] = {10, 20, 30}; int f(int &r, int n) { r += n; return r; }"
    found = updated(update, text)
    assert ([found[f"a[{i}]"] for i in range(3)], found["x"]) == (expected, x)


def test_a_short_circuit_guards_an_index() -> None:
    text = "int a[int[1,3]] = {4, 5, 6}; int f(int i) { while (i <= 3 && a[i] < 9) i++; return i; }"
    assert computed(text, "f(2)") == 4


def test_an_index_is_evaluated_once() -> None:
    text = "int a[int[1,3]] = {4, 5, 6}, n; int next() { n++; return n; } int f() { return a[next()]; }"
    assert computed(text, "f() + 10 * n") == 14


def test_expressions_without_side_effects_are_dropped() -> None:
    assert edge("assign x + 1, true;", "int x;").update == ()


def test_numbers_become_booleans() -> None:
    found = updated("b = x, c = x > 3, d = b", "int x = 5; bool b, c, d;")
    assert (found["b"], found["c"], found["d"]) == (1, 1, 1)
    assert edge("assign b = x;", "int x; bool b;").update == (
        ir.Assign(ir.Load("b"), ir.Binary("!=", ir.Load("x"), ir.Const(0))),
    )


def test_structs_and_arrays_are_copied() -> None:
    text = "typedef struct { int a; bool b[2]; } rec; rec r = {4, {0, 1}}, s, t[2];"
    text += "int m[2][2], n[2] = {5, 6};"
    found = updated("s = r, t[1] = s, m[1] = n, r.a = 9, t[0].b = s.b", text)
    assert (found["s.a"], found["s.b[0]"], found["s.b[1]"]) == (4, 0, 1)
    assert (found["t.a[0]"], found["t.a[1]"], found["t.b[1][1]"], found["t.b[0][1]"]) == (0, 4, 1, 1)
    assert [found[f"m[{i}][{j}]"] for i in (0, 1) for j in (0, 1)] == [0, 0, 5, 6]


def test_structs_are_compared_by_field() -> None:
    text = "struct { int a; int b[2]; } r = {1, {2, 3}}, s = {1, {2, 4}}; int x, y;"
    found = updated("x = r == s, y = r != s, s.b[1] = 3, x += 2 * (r == s)", text)
    assert (found["x"], found["y"]) == (2, 1)


def test_conditional_structs() -> None:
    text = "struct { int a; } r = {1}, s = {2}, t; int x = 5;"
    assert updated("t = x > 5 ? r : s", text)["t.a"] == 2


def test_clocks_are_reset() -> None:
    text = "clock x, y[2]; int i = 1;"
    assert edge("assign x = 0, y[i] = i + 2, y = 3;", text).update == (
        ir.Reset(ir.ClockRef("x"), ir.Const(0)),
        ir.Reset(ir.ClockRef("y", (ir.Load("i"),)), ir.Binary("+", ir.Load("i"), ir.Const(2))),
        ir.Reset(ir.ClockRef("y", (ir.Const(0),)), ir.Const(3)),
        ir.Reset(ir.ClockRef("y", (ir.Const(1),)), ir.Const(3)),
    )


# The function, a call of it, and its result.
FUNCTIONS = [
    ("int f(int a, int b) { return a - b; }", "f(7, 2)", 5),
    ("int f() { int i, s = 0; for (i = 1; i <= 4; i++) s += i; return s; }", "f()", 10),
    ("int f() { int s = 0; for (i : int[2,4]) s += i; return s; }", "f()", 9),
    ("int f(int n) { int s = 0; while (n > 0) { s += n; n--; } return s; }", "f(4)", 10),
    ("int f(int n) { int s = 0; while (n-- > 0) s++; return 10 * s + n; }", "f(4)", 39),
    ("int f(int n) { int s = 0; do { s++; n--; } while (n > 0); return s; }", "f(0)", 1),
    ("int f(int n) { if (n > 2) return 1; else return 2; }", "f(3) + 10 * f(2)", 21),
    ("int f(int n) { if (n > 2) { n = 5; } return n; }", "f(3) + 10 * f(2)", 25),
    ("int f() { int a[2][2] = {{1, 2}, {3, 4}}; int i = 1; return a[i][0] * 10 + a[0][i]; }", "f()", 32),
    ("int f() { struct { int a; int b[2]; } s = {1, {2, 3}}; s.b[1] += s.a; return s.b[1]; }", "f()", 4),
    ("int f() { const int k = 3; const int t[2] = {k, k + 1}; int i = 1; return t[i]; }", "f()", 4),
    ("int f(int n) { const int k = n + 1; return k * k; }", "f(2)", 9),
    ("int f() { int x = 1; { int x = 2; { int x = 3; x++; } x++; } return x; }", "f()", 1),
    ("int f(int a[2]) { a[0] = a[0] + a[1]; return a[0]; }", "10 * f(g) + g[0]", 31),
    ("int f(int &a[2]) { a[0] = a[0] + a[1]; return a[0]; }", "f(g) + 10 * g[0]", 33),
    ("int f(int &a) { a = a + 5; return a; }", "f(g[0]) + g[0]", 12),
    ("int f(int &a) { a = a + 5; return a; } int h(int i) { return f(g[i]); }", "h(1) + g[1]", 14),
    ("int f(const int &a, int b) { return a * b; }", "f(3, 4) + f(g[1], 5)", 22),
    (
        "int f(const int &a[2]) { return a[0] - a[1]; } int h() { int l[2] = {8, 5}; return f(l); }",
        "h()",
        3,
    ),
    ("int f(const int &a, const int &b) { g[0] = 7; return 10 * a + b; }", "f(g[0], 2) + f(1, g[0])", 89),
    (
        "typedef struct { int a; int b; } p; p q = {3, 4}; int f(p r) { r.a++; return r.a * r.b; }",
        "f(q)",
        16,
    ),
    ("int f(bool b) { return b; }", "f(7)", 1),
    ("int f() { bool b = 2; ; return b; }", "f()", 1),
    ("int f(int n) { typedef int[0,9] small; small s = n; return -s; }", "f(4)", -4),
    ("int f() { int l[2] = g; l[0] = 5; return 10 * l[0] + l[1] + 100 * g[0]; }", "f()", 152),
    ("void h(int n) { if (n > 1) return; g[0] = n; } int f() { h(2); h(0); return g[0]; }", "f()", 0),
    ("int f(int &a[2]) { return a[0] - a[1]; } int h() { int l[2] = {8, 5}; return f(l); }", "h()", 3),
    ("bool f(int n) { return n; }", "f(7)", 1),
    ("int f() { return g[1]; } int g2() { return f() + f(); }", "g2()", 4),
    ("int f() { int i; for (i = 0; true; i++) if (i == 6) return i; return 0; }", "f()", 6),
]


@pytest.mark.parametrize(("function", "call", "expected"), FUNCTIONS)
def test_functions(function: str, call: str, expected: int) -> None:
    assert computed(function, call, "int g[2] = {1, 2};") == expected


def test_functions_change_reference_arguments() -> None:
    text = "void swap(int &a, int &b) { int t = a; a = b; b = t; }"
    text += "int x = 1, y = 2, a[3] = {5, 6, 7}, i = 2;"
    found = updated("swap(x, y), swap(a[0], a[i])", text)
    assert (found["x"], found["y"], [found[f"a[{j}]"] for j in range(3)]) == (2, 1, [7, 6, 5])


# Functions that change a local variable of their caller `f`, and the result of `f`.
WRITTEN_OUT = [
    ("void g(int &n) { n += 3; } int f() { int l = 1; g(l); g(l); return l; }", 7),
    (
        "int g(int &n, int k) { n += k; k = 9; return 2 * n; } int f() { int l = 1; return g(l, 4) + l; }",
        15,
    ),
    ("void g(int &n[2]) { n[0] = 6; } int f() { int m[2][2], i = 1; g(m[i]); return m[1][0]; }", 6),
    ("void g(int &n) { int t = 2; n = t; } int f() { int l, t = 5; g(l); return 10 * l + t; }", 25),
    ("void h(int &n) { n++; } void g(int &n) { h(n); h(n); } int f() { int l; g(l); return l; }", 2),
    (
        "int x = 4; void g(int &a, int &b) { a += b; b = a; } int f() { int l = 1; g(l, x); return x; }",
        5,
    ),
    ("void g(int &n) { n = 7; } int f() { int l[2], i; g(l[i++]); g(l[i]); return l[0] + l[1]; }", 14),
    ("int g(int &n) { n++; return n; } int f() { int l; while (g(l) < 5) l++; return l; }", 5),
    ("typedef int[0,9] t; void g(t &n, t m) { n = m; m = 9; } int f() { t l; g(l, 3); return l; }", 3),
]


@pytest.mark.parametrize(("function", "expected"), WRITTEN_OUT)
def test_functions_that_change_locals(function: str, expected: int) -> None:
    assert computed(function, "f()") == expected


QUEUE = """
typedef struct { int[0,3] length; int items[int[1,3]]; } queue; queue q[2]; int x, y;
void put(queue &to, int item) { to.items[++to.length] = item; }
int take(queue &from) { int i, first = from.items[1];
    for (i = 1; i < from.length; i++) from.items[i] = from.items[i + 1];
    from.items[from.length--] = 0; return first; }
void move(queue &from, queue &to) { put(to, take(from)); }
"""


def test_queues_in_structs() -> None:
    found = updated("put(q[0], 7), put(q[x], 8), put(q[x], 9), move(q[x], q[1 - x]), y = take(q[0])", QUEUE)
    assert (found["q.length[0]"], found["q.length[1]"], found["y"]) == (1, 1, 8)
    assert [found[f"q.items[0][{i}]"] for i in (1, 2, 3)] == [9, 0, 0]
    assert [found[f"q.items[1][{i}]"] for i in (1, 2, 3)] == [7, 0, 0]


def test_clocks_are_passed_by_reference() -> None:
    text = "clock c[2]; void again(clock &x) { x = 0; }"
    model = network(process("assign again(c[1]);", text))
    assert [(one.name, one.body) for one in model.functions] == [
        ("again<c[1]>", (ir.Reset(ir.ClockRef("c", (ir.Const(1),)), ir.Const(0)),))
    ]


def test_functions_of_a_template_see_its_names() -> None:
    found = updated("f(2)", "int x = 1;", "int x = 10; void f(int n) { x += n; }")
    assert (found["x"], found["P.x"]) == (1, 12)


# The update, and its fault; x has the range 0..5.
FAULTS = [
    ("x = x + 6", "6 is outside the range 0..5 of x"),
    ("x = 3 / y", "division by zero"),
    ("a[y + 2] = 1", "index 2 is outside 0..1 of a"),
    ("y = f(y + 2)", "index 2 is outside 0..1 of b"),
    ("y = g(y + 1, 3)", "index 6 is outside 0..3 of c"),
    ("y = g(2, y)", "index 8 is outside 0..3 of c"),
]


@pytest.mark.parametrize(("update", "expected"), FAULTS)
def test_faults(update: str, expected: str) -> None:
    text = (
        "int[0,5] x; int y; int a[2]; int f(int i) { int b[2]; return b[i]; } "
        "int g(int i, int j) { int c[2][2]; return c[i][j]; }"
    )
    assert fault(update, text) == expected
