"""Guards and invariants: discrete conditions and clock constraints."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.languages.timed.lower_texts import edge, network, process
from veristream.ir import expr as ir
from veristream.ir.clocks import list_clocks
from veristream.ir.network import Network
from veristream.ir.oracle.evaluate import satisfies
from veristream.ir.oracle.interpret import Interpreter
from veristream.ir.state import State

X, Y, B = ir.ClockRef("x"), ir.ClockRef("y"), ir.Load("b")
NOT_B = ir.Unary("not", B)


def _bound(
    left: ir.ClockRef,
    op: ir.ClockOp,
    limit: int,
    right: ir.ClockRef | None = None,
    when: ir.Expr | None = None,
) -> ir.ClockConstraint:
    return ir.ClockConstraint(left, right, op, ir.Const(limit), when)


# The guard, its discrete part, and its clock constraints.
GUARDS = [
    ("x < 3", None, [_bound(X, "<", 3)]),
    ("x >= 3 && b", B, [_bound(X, ">=", 3)]),
    ("x == 3", None, [_bound(X, "==", 3)]),
    ("3 < x", None, [_bound(X, ">", 3)]),
    ("5 >= x && x > 2", None, [_bound(X, "<=", 5), _bound(X, ">", 2)]),
    ("x - y < 3", None, [_bound(X, "<", 3, Y)]),
    ("x < y", None, [_bound(X, "<", 0, Y)]),
    ("x < y + 3", None, [_bound(X, "<", 3, Y)]),
    ("2 + x <= y", None, [_bound(X, "<=", -2, Y)]),
    ("x + 2 >= 5", None, [_bound(X, ">=", 3)]),
    ("5 - x > 2", None, [_bound(X, "<", 3)]),
    ("b || x < 3", None, [_bound(X, "<", 3, when=NOT_B)]),
    ("x < 3 || b", None, [_bound(X, "<", 3, when=NOT_B)]),
    ("b imply x < 3", None, [_bound(X, "<", 3, when=B)]),
    ("b imply (x < 3 && y > 1)", None, [_bound(X, "<", 3, when=B), _bound(Y, ">", 1, when=B)]),
    ("b ? x < 3 : y < 4", None, [_bound(X, "<", 3, when=B), _bound(Y, "<", 4, when=NOT_B)]),
    (
        "forall (i : int[0,1]) z[i] < i + 4",
        None,
        [
            _bound(ir.ClockRef("z", (ir.Const(0),)), "<", 4),
            _bound(ir.ClockRef("z", (ir.Const(1),)), "<", 5),
        ],
    ),
    (
        "forall (i : int[0,1]) (i == 1 || z[i] < 4) && (i == 0 imply !b)",
        NOT_B,
        [_bound(ir.ClockRef("z", (ir.Const(0),)), "<", 4)],
    ),
    ("w[3] < 4", None, [_bound(ir.ClockRef("w", (ir.Const(1),)), "<", 4)]),
    (
        "w[n] <= n",
        None,
        [
            ir.ClockConstraint(
                ir.ClockRef("w", (ir.Binary("-", ir.Load("n"), ir.Const(2)),)), None, "<=", ir.Load("n")
            )
        ],
    ),
]
WORLD = "clock x, y, z[2], w[int[2,3]]; bool b; int n = 2;"


@pytest.mark.parametrize(("guard", "discrete", "clocks"), GUARDS)
def test_guards(guard: str, discrete: ir.Expr | None, clocks: list[ir.ClockConstraint]) -> None:
    found = edge(f"guard {guard};", WORLD)
    assert found.guard == discrete
    assert list(found.clock_guard) == clocks


def test_invariants() -> None:
    text = process("", WORLD, invariant="x <= 5 && b && (b || y < n) && x - y >= 2")
    location = network(text).components[0].locations[0]
    assert location.invariant == B
    assert location.clock_invariant == (
        _bound(X, "<=", 5),
        ir.ClockConstraint(Y, None, "<", ir.Load("n"), NOT_B),
        _bound(X, ">=", 2, Y),
    )


def test_invariants_may_have_lower_bounds() -> None:
    location = network(process("", WORLD, invariant="x >= 2 && x <= 5 && 1 < y")).components[0].locations[0]
    assert location.clock_invariant == (_bound(X, ">=", 2), _bound(X, "<=", 5), _bound(Y, ">", 1))


_LIMITS = st.integers(-1, 3)
_CLOCKS = st.tuples(
    st.sampled_from(["x", "y", "x - y", "y - x"]), st.sampled_from(["<", "<=", "==", ">=", ">"]), _LIMITS
).map(lambda one: f"({one[0]} {one[1]} {one[2]})")
_DATA = st.sampled_from(["b", "c", "!b", "(n > 1)", "(b == c)", "true", "false"])
_GUARDS = st.recursive(
    _CLOCKS | _DATA,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda two: f"({two[0]} && {two[1]})"),
        st.tuples(_DATA, inner).map(lambda two: f"({two[0]} || {two[1]})"),
        st.tuples(inner, _DATA).map(lambda two: f"({two[0]} || {two[1]})"),
        st.tuples(_DATA, inner).map(lambda two: f"({two[0]} imply {two[1]})"),
        st.tuples(_DATA, inner, inner).map(lambda three: "({} ? {} : {})".format(*three)),
    ),
    max_leaves=6,
)


def _python(guard: str) -> str:
    """Returns the guard in Python; `a imply b`, always in parentheses here, becomes `not a or b`."""
    found = guard.replace("&&", "and").replace("||", "or").replace("!b", "(not b)")
    found = found.replace("true", "True").replace("false", "False").replace(" imply ", " <= ")
    while "?" in found:  # the innermost choice first: it has no other within its parentheses
        middle = found.index("?", found.rindex("?"))
        found = _choose(found, middle)
    return found


def _choose(text: str, middle: int) -> str:
    begin = _matching(text, middle, -1)
    end = _matching(text, middle, 1)
    condition, rest = text[begin + 1 : middle], text[middle + 1 : end]
    colon = _top_level_colon(rest)
    return f"{text[:begin]}(({rest[:colon]}) if {condition} else ({rest[colon + 1 :]})){text[end + 1 :]}"


def _matching(text: str, position: int, step: int) -> int:
    depth = 0
    while True:
        position += step
        if text[position] in "()":
            depth += 1 if (text[position] == "(") == (step > 0) else -1
        if depth < 0:
            return position


def _top_level_colon(text: str) -> int:
    depth = 0
    for position, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if letter == ":" and depth == 0:
            return position
    raise AssertionError(text)


def _moments() -> Iterator[dict[str, Fraction]]:
    halves = [Fraction(one, 2) for one in range(7)]
    return ({"x": x, "y": y} for x, y in product(halves, halves))


def _enabled(model: Network, interpreter: Interpreter, state: State, at: dict[str, Fraction]) -> bool:
    clocks = tuple(at[name] if name else Fraction(0) for name in list_clocks(model))
    return any(satisfies(clocks, taken.clocks.bounds) for taken in interpreter.steps(state))


@settings(max_examples=25, deadline=None)
@given(_GUARDS, st.booleans(), st.booleans(), st.integers(0, 2))
def test_guards_agree_with_python(guard: str, b: bool, c: bool, n: int) -> None:
    text = f"clock x, y; bool b = {int(b)}, c = {int(c)}; int n = {n};"
    model = network(process(f"guard {guard};", text))
    interpreter = Interpreter(model)
    state = interpreter.initial()
    code = compile(_python(guard), "guard", "eval")
    for at in _moments():
        expected = bool(eval(code, {}, {"b": b, "c": c, "n": n, **at}))
        assert _enabled(model, interpreter, state, at) == expected
