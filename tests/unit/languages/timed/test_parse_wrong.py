"""Syntax errors and unsupported constructs: message, hint and position."""

from __future__ import annotations

import re

import pytest

from tests.unit.languages.timed.parse_texts import (
    PROCESS,
    edge,
    error,
    formula,
    label,
    marked,
    nta,
    query_error,
    read,
)
from veristream.errors import ModelError

SYMBOLIC = "models are checked exhaustively, not by simulation: use `int`, `bool` and `clock`"

# Declarations, the text that the error points at, its message and its hint.
WRONG = [
    ("int x = 3 int y;", "int", "unexpected `int`", "is a `;` missing before it?"),
    ("int x == 3;", "==", "unexpected `==`", "write an initial value with a single `=`"),
    ("int f() { return 1 }", "}", "unexpected `}`", "is a `;` missing before it?"),
    ("void f() { if x { } }", "x", "unexpected `x`", "expected `(`"),
    ("clock ;", ";", "unexpected `;`", "expected a name"),
    ("int for;", "for", "unexpected `for`", "`for` is a keyword; choose another name"),
    ("int a[3;", "[", "this `[` is not closed", "add the missing `]`"),
    ("int a[(3];", "(", "this `(` is not closed before the `]` on line 1", "add the missing `)`"),
    ("int a = 3);", ")", "unmatched `)`", "remove it, or add the opening bracket"),
    ("int x = ;", ";", "unexpected `;`", "expected an expression, `{`"),
    ("int x @ 3;", "@", "unexpected character `@`", "names consist of letters, digits and `_`"),
    ("int x; /* y", "/", "unterminated comment", "close it with `*/`"),
    ('import "x', '"', "unterminated string", 'close it with `"` on the same line'),
    ("int x = 9999999999;", "9999999999", "`9999999999` is too large", "numbers have 32 bits"),
    ("int x = 2 * * 3;", "*", "unexpected `*`", "expected an expression"),
    ("bool b = x =< 3;", "<", "unexpected `<`", "write `<=` for less than or equal"),
    ("bool b = x => 3;", ">", "unexpected `>`", "write `>=` for greater than or equal"),
    ("struct S { int a; } s;", "S", "unexpected `S`", "write the fields of a struct in braces"),
    (
        "int x; x = 3;",
        "3",
        "unexpected `3`",
        "write an instance as `P1 = P(1);`; assignments are only allowed on edges and in functions",
    ),
    (
        "void f() { x = 1; int y; }",
        "int y;",
        "declarations must precede statements",
        "move it to the beginning of the block, or open a nested block with `{`",
    ),
    ("const int f() { return 1; }", "const int", "`const` is not allowed here", "remove it"),
    ("urgent int x;", "urgent int", "only channels can be `urgent`", "write `urgent chan`"),
    ("void f(x) { }", "x", "the parameter `x` has no type", "write `int x`"),
    ("double x;", "double", "`double` is a statistical or hybrid construct", SYMBOLIC),
    ("hybrid clock x;", "hybrid", "`hybrid` is a statistical or hybrid construct", SYMBOLIC),
    (
        "int x = 1.5;",
        "1.5",
        "the real number `1.5` is a statistical or hybrid construct",
        "use integers",
    ),
    (
        "dynamic P(int x);",
        "dynamic",
        "`dynamic` is a statistical construct: processes cannot be made at run time",
        SYMBOLIC,
    ),
    (
        "void f() { spawn P(1); }",
        "spawn",
        "`spawn` is a statistical construct: processes cannot be made at run time",
        SYMBOLIC,
    ),
    (
        "void f() { exit(); }",
        "exit",
        "`exit` is a statistical construct: processes cannot terminate at run time",
        SYMBOLIC,
    ),
    (
        "int f() { return random(3); }",
        "random",
        "`random` is a statistical construct",
        "use `select` on an edge",
    ),
    (
        'import "libx.so" { int f(); };',
        "import",
        "`import` of C libraries is not supported",
        "write the function in the model",
    ),
    ("before_update x = 1;", "x", "unexpected `x`", "expected `{`"),
    ("after_update { x = 1; }", ";", "unexpected `;`", "expected an operator, `,`, `}`"),
    (
        "int before_update;",
        "before_update",
        "unexpected `before_update`",
        "`before_update` is a keyword; choose another name",
    ),
    (
        "void f() { while (1) break; }",
        "break",
        "`break` is not a statement of UPPAAL",
        "move it into the condition of the loop",
    ),
]


@pytest.mark.parametrize(("text", "points_at", "message", "hint"), WRONG)
def test_declarations(text: str, points_at: str, message: str, hint: str) -> None:
    wrong = error(f"{text} {PROCESS}")
    assert (wrong.message, wrong.hint, marked(wrong)) == (message, hint, points_at)


PROCESSES = [
    ("", "P", "the process `P` has no locations", "add `state A; init A;`"),
    (
        "state A;",
        "P",
        "the process `P` has no initial location",
        "add `init A;` after its locations",
    ),
    ("state A; init B;", "B", "there is no location `B`", "the locations are: A"),
    ("state Idle; init Idel;", "Idel", "there is no location `Idel`", "did you mean `Idle`?"),
    ("state A, A; init A;", "A", "there are two locations `A`", "rename one of them"),
    ("state A; init A; trans A -> B { };", "B", "there is no location `B`", "the locations are: A"),
    (
        "state A; init A; trans -> A { };",
        "-> A { }",
        "the first edge has no source",
        "write `A -> A`; only later edges can omit `A`",
    ),
    (
        "state A; init A; trans A -> A { sync c; };",
        "c",
        "this synchronisation has neither `!` nor `?`",
        "write `c!` to send or `c?` to receive; CSP synchronisation is not supported",
    ),
]


@pytest.mark.parametrize(("body", "points_at", "message", "hint"), PROCESSES)
def test_processes(body: str, points_at: str, message: str, hint: str) -> None:
    wrong = error(f"process P() {{ {body} }} system P;")
    assert (wrong.message, wrong.hint, marked(wrong)) == (message, hint, points_at)


SYSTEMS = [
    ("", "}", "the model has no system line"),
    ("system P(1);", "(", "unexpected `(`"),
    ("system P; system P;", "system P;", "the model has a second system line"),
    ("Q = P(1) system Q;", "system", "unexpected `system`"),
    ("system P", "P", "unexpected end of text"),
]


@pytest.mark.parametrize(("text", "points_at", "message"), SYSTEMS)
def test_system_lines(text: str, points_at: str, message: str) -> None:
    wrong = error(f"process P() {{ state A; init A; }} {text}")
    assert (wrong.message, marked(wrong)) == (message, points_at)


LABELS = [
    ("guard", "x = 5", "a condition cannot assign", "use `==` to compare"),
    ("guard", "x &&", "unexpected end of text", "expected an expression"),
    (
        "guard",
        "x' == 0",
        "clock rates, written with `'`, are a statistical or hybrid construct",
        "remove it; all clocks run at the same rate and cannot be stopped",
    ),
    ("select", "i", "unexpected end of text", "expected `:`"),
    ("synchronisation", "c! d", "unexpected `d`", "expected end of text"),
    (
        "assignment",
        "x = 1;",
        "unexpected `;`",
        "labels and queries do not end with `;`; separate their parts with `,`",
    ),
]


@pytest.mark.parametrize(("kind", "text", "message", "hint"), LABELS)
def test_labels(kind: str, text: str, message: str, hint: str) -> None:
    with pytest.raises(ModelError) as caught:
        edge(label(kind, text))
    assert (caught.value.message, caught.value.hint) == (message, hint)


BEGINNINGS = "start a query with `A[]`, `E<>`, `E[]`, `A<>`, `sup`, `inf` or `bounds`, or use `-->`"
QUERIES = [
    ("A[] x = 3", "x = 3", "a condition cannot assign", "use `==` to compare"),
    ("AG x", "x", "unexpected `x`", BEGINNINGS),
    ("A[]", "A[]", "unexpected end of text", "expected an expression"),
    ("x -> y", "-&gt;", "unexpected `->`", "write `-->` for leads to, and `imply` for implies"),
    ("x", "x", "unexpected end of text", "expected an operator, `-->`"),
]


@pytest.mark.parametrize(("text", "points_at", "message", "hint"), QUERIES)
def test_queries(text: str, points_at: str, message: str, hint: str) -> None:
    wrong = query_error(nta(queries=formula(text)))
    assert (wrong.message, wrong.hint, marked(wrong)) == (message, hint, points_at)


def test_rates_in_invariants() -> None:
    invariant = label("invariant", "x <= 3 && x' == 0")
    wrong = error(nta(f'<location id="a">{invariant}</location>'))
    assert wrong.message.endswith("are a statistical or hybrid construct")
    assert marked(wrong) == "'"


def test_nesting_has_an_end() -> None:
    assert len(read(f"int x = {'(' * 100}1{')' * 100}; {PROCESS}").declarations) == 1
    wrong = error(f"int x = {'(' * 5000}1{')' * 5000}; {PROCESS}")
    assert wrong.message == "the model is nested too deeply"
    assert len(read(f"int x = {'1 + ' * 2000}1; {PROCESS}").declarations) == 1


SOME_OF_EVERYTHING = """
const int N = 2; typedef int[0, N - 1] id_t; urgent broadcast chan go[id_t]; struct { int a; } s = { a: 1 };
int f(int &x, id_t y[2]) { int z = 0; for (i : id_t) { z += i; } for (z = 0; z < 3; z++) ;
  if (z) return 1; else do z--; while (z > 0); return z ? 1 : 2; }
chan priority a < default;
process P(const id_t me, int &n) { clock x; state A { x <= 3 }, B; branchpoint C; commit B; init A; trans
  A -> C { select i : id_t; guard forall (k : id_t) k; sync go[me]!; assign x := 0, n++; }, -> B { }; }
Q(const id_t i) = P(i, k); system Q, P < Q; progress { x; }
"""


def wrong_in(text: str) -> ModelError | None:
    """Returns the error in the text, if any."""
    try:
        read(text)
    except ModelError as wrong:
        return wrong
    return None


def test_every_missing_token_is_reported_or_harmless() -> None:
    """Without any single token the text still parses, or the error has a position and a hint."""
    assert len(read(SOME_OF_EVERYTHING).templates[0].edges) == 2
    words = list(re.finditer(r"\w+|[^\w\s]", SOME_OF_EVERYTHING))
    texts = [SOME_OF_EVERYTHING[: word.start()] + SOME_OF_EVERYTHING[word.end() :] for word in words]
    errors = [wrong for text in texts if (wrong := wrong_in(text)) is not None]
    assert len(words) / 2 < len(errors) < len(words)
    for wrong in errors:
        assert wrong.message and wrong.hint
        assert wrong.span.start < wrong.span.end
