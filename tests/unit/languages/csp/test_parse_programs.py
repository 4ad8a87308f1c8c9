"""Expressions and programs: each construct is read as the node it means."""

from __future__ import annotations

import pytest

from tests.unit.languages.csp.reading import WORLD, expression, program, read
from veristream.languages.csp.syntax import (
    Assign,
    Binary,
    Bound,
    Declare,
    Expr,
    Global,
    If,
    Number,
    Prefix,
    Program,
    Query,
    Unary,
    While,
)

X, Y, OK, AN_I = Global("x"), Global("y"), Global("ok"), Bound("i")
ZERO, ONE, TWO, THREE = Number(0), Number(1), Number(2), Number(3)


def at(name: str, *indices: Expr) -> Global:
    return Global(name, indices)


EXPRESSIONS: list[tuple[str, Expr]] = [
    ("1", ONE),
    ("true", ONE),
    ("false", ZERO),
    ("-5", Number(-5)),
    ("+x", X),
    ("- -x", Unary("-", Unary("-", X))),
    ("!ok", Unary("!", OK)),
    ("!!ok", Unary("!", Unary("!", OK))),
    ("~x", Unary("~", X)),
    ("!x == 1", Binary("==", Unary("!", X), ONE)),
    ("N", THREE),
    ("green", ONE),
    ("goal", Binary("==", X, ONE)),
    ("i", AN_I),
    ("x + y * 2", Binary("+", X, Binary("*", Y, TWO))),
    ("(x + y) * 2", Binary("*", Binary("+", X, Y), TWO)),
    ("x - y - 1", Binary("-", Binary("-", X, Y), ONE)),
    ("x / y % 2", Binary("%", Binary("/", X, Y), TWO)),
    ("x-1", Binary("-", X, ONE)),
    ("x <= y == ok", Binary("==", Binary("<=", X, Y), OK)),
    ("x == 1 & y == 2", Binary("&", Binary("==", X, ONE), Binary("==", Y, TWO))),
    ("x | y ^ i", Binary("^", Binary("|", X, Y), AN_I)),
    ("ok xor x > 1", Binary("xor", OK, Binary(">", X, ONE))),
    ("ok && x < 1 || y >= 2", Binary("||", Binary("&&", OK, Binary("<", X, ONE)), Binary(">=", Y, TWO))),
    ("ok || ok && ok", Binary("||", OK, Binary("&&", OK, OK))),
    ("x != -1", Binary("!=", X, Number(-1))),
    ("a[1]", at("a", ONE)),
    ("a[x+1]", at("a", Binary("+", X, ONE))),
    ("a[a[0]]", at("a", at("a", ZERO))),
    ("m[1][i]", at("m", ONE, AN_I)),
    ("m[4]", at("m", Number(4))),
    ("call(cfull, c)", Query("full", "c")),
    ("call(cempty, c)", Query("empty", "c")),
    ("call(ccount, c) > 1", Binary(">", Query("count", "c"), ONE)),
    ("call(csize, c)", Query("size", "c")),
    ("call(cpeek, c)", Query("peek", "c")),
    ("call(cfull, e[i])", Query("full", "e", (AN_I,))),
    ("!call(cempty, f[0][1])", Unary("!", Query("empty", "f", (ZERO, ONE)))),
    (
        "&& k:{0..1}@(a[k] == 0)",
        Binary("&&", Binary("==", at("a", ZERO), ZERO), Binary("==", at("a", ONE), ZERO)),
    ),
    ("|| k:{1,2}@a[k] > i", Binary("||", Binary(">", at("a", ONE), AN_I), Binary(">", at("a", TWO), AN_I))),
    (
        "ok && (|| k:{0..1};l:{0..0}@(m[k][l] == 1))",
        Binary(
            "&&",
            OK,
            Binary("||", Binary("==", at("m", ZERO, ZERO), ONE), Binary("==", at("m", ONE, ZERO), ONE)),
        ),
    ),
    (
        "xor k:{0..1}@(a[k] == 1)",
        Binary("xor", Binary("==", at("a", ZERO), ONE), Binary("==", at("a", ONE), ONE)),
    ),
]

FOLDED = [
    ("2 + 3 * 4", 14),
    ("(0-1) % 3", 2),
    ("-7 / 2", -3),
    ("7 / -2", -3),
    ("N - 1 == 2", 1),
    ("true && false", 0),
    ("6 & 3 | 8", 10),
    ("6 ^ 3", 5),
    ("true xor true", 0),
    ("~0", -1),
    ("!3", 0),
]

PROGRAMS: list[tuple[str, Program]] = [
    ("", ()),
    (";", ()),
    ("x = 1", (Assign(X, ONE),)),
    ("x = 1; y = x;", (Assign(X, ONE), Assign(Y, X))),
    ("x++", (Assign(X, Binary("+", X, ONE)),)),
    ("x--;", (Assign(X, Binary("-", X, ONE)),)),
    ("a[i] = 2", (Assign(at("a", AN_I), TWO),)),
    ("a[0]++", (Assign(at("a", ZERO), Binary("+", at("a", ZERO), ONE)),)),
    ("m[1][2] = x", (Assign(at("m", ONE, TWO), X),)),
    ("m[5] = x", (Assign(at("m", Number(5)), X),)),
    ("x = y = 2", (Assign(Y, TWO), Assign(X, Y))),
    ("var t = x; y = t + 1;", (Declare("t", X), Assign(Y, Binary("+", Bound("t"), ONE)))),
    (
        "var t; t = 1; t++;",
        (Declare("t", ZERO), Assign(Bound("t"), ONE), Assign(Bound("t"), Binary("+", Bound("t"), ONE))),
    ),
    ("var t[3]; t[x] = 2;", (Declare("t", ZERO, 3), Assign(Bound("t"), TWO, X))),
    (
        "var t[2][3]; t[x][1] = 2;",
        (Declare("t", ZERO, 6), Assign(Bound("t"), TWO, Binary("+", Binary("*", X, THREE), ONE))),
    ),
    ("if (ok) {x = 1;}", (If(OK, (Assign(X, ONE),)),)),
    ("if (ok) {x = 1}; y = 2;", (If(OK, (Assign(X, ONE),)), Assign(Y, TWO))),
    ("if (ok) x = 1; else x = 2;", (If(OK, (Assign(X, ONE),), (Assign(X, TWO),)),)),
    (
        "if (ok) {x = 1;} else if (x > 1) {x = 2;} else {y = 1;}",
        (If(OK, (Assign(X, ONE),), (If(Binary(">", X, ONE), (Assign(X, TWO),), (Assign(Y, ONE),)),)),),
    ),
    ("while (x > 0) {x--;}", (While(Binary(">", X, ZERO), (Assign(X, Binary("-", X, ONE)),)),)),
    ("while (ok) x = 1; y = 1", (While(OK, (Assign(X, ONE),)), Assign(Y, ONE))),
    ("{x = 1;} {y = 2}", (Assign(X, ONE), Assign(Y, TWO))),
    (
        "{var t = 1; x = t;} {var t = 2; y = t;}",
        (Declare("t", ONE), Assign(X, Bound("t")), Declare("t_2", TWO), Assign(Y, Bound("t_2"))),
    ),
]


@pytest.mark.parametrize(("text", "meant"), EXPRESSIONS, ids=[text for text, _ in EXPRESSIONS])
def test_expressions(text: str, meant: Expr) -> None:
    assert expression(text, "i") == meant


@pytest.mark.parametrize(("text", "value"), FOLDED)
def test_constant_expressions_are_folded(text: str, value: int) -> None:
    assert expression(text) == Number(value)


def test_a_division_by_zero_is_not_folded() -> None:
    assert expression("1 / 0 == 1") == Binary("==", Binary("/", ONE, ZERO), ONE)


@pytest.mark.parametrize(("text", "meant"), PROGRAMS, ids=[text for text, _ in PROGRAMS])
def test_programs(text: str, meant: Program) -> None:
    assert program(text, "i") == meant


def test_arrays_are_assigned_element_by_element() -> None:
    prefix = read("var a[2]; var b = [3, 4]; P = tau{a = b;} -> P;").definitions[0].body
    assert isinstance(prefix, Prefix)
    assert prefix.program == (Assign(at("a", ZERO), at("b", ZERO)), Assign(at("a", ONE), at("b", ONE)))


def expand(defines: str, text: str) -> Program:
    prefix = read(f"{WORLD}{defines}\nT(i) = tau{{{text}}} -> T(i);").definitions[-1].body
    assert isinstance(prefix, Prefix) and prefix.program is not None
    return prefix.program


def test_a_definition_can_be_a_program() -> None:
    reset = (Assign(X, ZERO), Assign(Y, ZERO))
    assert expand("#define reset {x = 0; y = 0};", "reset;") == reset
    assert expand("#define reset {x = 0; y = 0;};", "reset; x = 1") == (*reset, Assign(X, ONE))
    assert expand("#define clear x = 0;", "if (ok) {clear}") == (If(OK, (Assign(X, ZERO),)),)
    assert expand("#define reset {x = 0; y = 0}; #define all reset;", "all") == reset


def test_a_macro_with_parameters_is_a_value() -> None:
    assert expand("#define sum(p, q) p + q;", "x = call(sum, i, 2) * 3;") == (
        Assign(X, Binary("*", Binary("+", AN_I, TWO), THREE)),
    )
    assert expand("#define both(p) (p && ok);", "ok = call(both, x > 1);") == (
        Assign(OK, Binary("&&", Binary(">", X, ONE), OK)),
    )
    assert expand(
        "#define inner(p) {p * 2}; #define outer(p) call(inner, p) + 1;", "x = call(outer, y)"
    ) == (Assign(X, Binary("+", Binary("*", Y, TWO), ONE)),)


def test_a_macro_with_parameters_is_a_program() -> None:
    assert expand("#define put(p, v) {a[p] = v;};", "call(put, i, 2);") == (Assign(at("a", AN_I), TWO),)
    assert expand("#define put(p) a[p] = 1;", "call(put, 0); call(put, 1)") == (
        Assign(at("a", ZERO), ONE),
        Assign(at("a", ONE), ONE),
    )


def test_local_variables_of_a_macro_do_not_capture_its_arguments() -> None:
    found = expand("#define swap(p) {var t = x; x = p; y = t;};", "var t = 1; call(swap, t);")
    assert found == (
        Declare("t", ONE),
        Declare("t_2", X),
        Assign(X, Bound("t")),
        Assign(Y, Bound("t_2")),
    )


def test_local_variables_of_a_macro_do_not_capture_parameters() -> None:
    text = "var x; #define put(p) {var t = 1; x = p + t;}; P(t) = tau{call(put, t)} -> P(t);"
    prefix = read(text).definitions[0].body
    assert isinstance(prefix, Prefix)
    assert prefix.program == (Declare("t_2", ONE), Assign(X, Binary("+", Bound("t"), Bound("t_2"))))


def test_macros_are_overloaded_by_their_number_of_arguments() -> None:
    defines = "#define g(p) p + 1; #define g(p, q) p + q;"
    assert expand(defines, "x = call(g, i); x = call(g, i, y)") == (
        Assign(X, Binary("+", AN_I, ONE)),
        Assign(X, Binary("+", AN_I, Y)),
    )
