"""Wrong texts: words that do not fit where they stand."""

from __future__ import annotations

import pytest

from tests.unit.languages.csp.reading import error

# The text, the line of the error, its message, and its hint.
WRONG = [
    ("P = a -> Skip\nQ = b -> Skip;", 2, "unexpected `Q`", "is a `;` missing before it?"),
    ("P = if (x = 1) {Skip};\nvar x;", 1, "unexpected `=`", "comparison is `==`"),
    ("P := a -> Skip;", 1, "unexpected `:=`", "assignments and definitions are written with `=`"),
    ("P == a -> Skip;", 1, "unexpected `==`", "a definition is written with one `=`"),
    ("#assert P deadlockFree;\nP = Skip;", 1, "unexpected `deadlockFree`", "did you mean `deadlockfree`?"),
    ("#assert P deadlock;\nP = Skip;", 1, "unexpected `deadlock`", "did you mean `deadlockfree`?"),
    (
        "#assert P |= [] (a;\nP = a -> P;",
        1,
        "this `(` is not closed before the declaration of line 2",
        "add `)` where it ends",
    ),
    (
        "P = if (true) Skip;",
        1,
        "unexpected `Skip`",
        "the branches of `if`, `ifa`, `ifb` and `atomic` stand in braces",
    ),
    (
        "P = a(1) -> P;",
        1,
        "unexpected `->`",
        "before `->` stands an event; its arguments follow dots: `a.1.x -> P`",
    ),
    ("P = a -> P [] ;", 1, "unexpected `;`", "a process is missing here"),
    (
        "P = a -> [] P;",
        1,
        "unexpected `;`",
        "expected `:`",
    ),
    ("P = tau{x += 1} -> P;\nvar x;", 1, "unexpected `+=`", "write `x = x + 1` instead"),
    ("P = tau{x = 1 y = 2} -> P;\nvar x;\nvar y;", 1, "unexpected `y`", "statements end with `;`"),
    (
        '#import "PAT.Lib.Set";\nP = Skip;',
        1,
        "C# libraries are not supported",
        "write its functions as macros, `#define f(x) ...;` with `call(f, 1)`, or as programs",
    ),
    (
        "#include <x>;\nP = Skip;",
        1,
        "C# libraries are not supported",
        "write it as a macro, `#define f(x) ...;` with `call(f, 1)`, or as a program in braces",
    ),
    (
        "var<Set> s;\nP = Skip;",
        1,
        "variables of C# types are not supported",
        "use numbers and arrays of numbers",
    ),
    (
        "P = tau{s.Add(1)} -> P;\nvar s;",
        1,
        "methods of C# objects, such as `Add`, are not supported",
        "write it as a macro, `#define f(x) ...;` with `call(f, 1)`, or as a program in braces",
    ),
    (
        "P = tau{for (i = 0; i < 3; i++) {x = 1}} -> P;\nvar x;",
        1,
        "there is no `for`",
        "write `var i = 0; while (i < n) { ... i++; }`",
    ),
    ("P = (a -> Skip;", 1, "this `(` is not closed", "add `)` where it ends"),
    ("P = a -> Skip);", 1, "`)` closes nothing", "remove it, or add the bracket that it closes"),
    (
        "P = {x = 1 -> P; var x;\n#assert P deadlockfree;",
        1,
        "this `{` is not closed before the declaration of line 2",
        "add `}` where it ends",
    ),
    ("#defin N 3;", 1, "`#defin` is unknown", "did you mean `#define`?"),
    (
        "P = a -> Skip § ;",
        1,
        "unexpected character '§'",
        "names consist of the letters a to z, digits and `_`",
    ),
    (
        "P = a[1] -> P;\nvar a[2];",
        1,
        "unexpected `->`",
        "before `->` stands an event; its arguments follow dots: `a.1.x -> P`",
    ),
    ("P = [x > 1 ] ;\nvar x;", 1, "unexpected `;`", "a process is missing here"),
    ("var if;\nP = Skip;", 1, "unexpected `if`", "`if` is a word of the language; choose another name"),
    ("P = a -> Skip", 1, "the text ends too early", "declarations end with `;`"),
    ("#define N 3\nP = Skip;", 2, "unexpected `P`", "is a `;` missing before it?"),
    (
        "P = case { x == 1 : Skip; x == 2: Stop };\nvar x;",
        1,
        "unexpected `==`",
        "a process is expected here, not a condition; no `;` stands between the branches of `case`",
    ),
    ("P = a..b -> P;", 1, "unexpected `..`", "expected `;`, `!`, `(`, `->`, `.`, `<>`, or more"),
    ('P = "x" -> P;', 1, 'unexpected `"x"`', "expected a process"),
    ("P = /* a -> P;", 1, "this comment is never closed", "a comment ends with `*/`"),
    ("P = Skip -> P;", 1, "unexpected `->`", "`Skip` ends a process; events have other names"),
    ("P = if (true) {Skip};\nelse {Stop};", 2, "unexpected `else`", "no `;` stands before `else`"),
    (
        "P = if (true) {Skip;} else {Stop};",
        1,
        "unexpected `}`",
        "a `;` joins two processes; none stands before `}`",
    ),
    (
        "P = wf(a) -> P;",
        1,
        "unexpected `->`",
        "before `->` stands an event; its arguments follow dots: `a.1.x -> P`",
    ),
    ("P = a -> P || ;", 1, "unexpected `;`", "a process is missing here"),
    (
        "channel c = 3;\nP = Skip;",
        1,
        "unexpected `=`",
        "the capacity of a channel stands without `=`: `channel c 3;`",
    ),
    ("var x == 1;\nP = Skip;", 1, "unexpected `==`", "a definition is written with one `=`"),
    ("P = a' -> P;", 1, "unexpected character `'`", "names consist of letters, digits and `_`"),
    ("P = call(ccount, c);\nchannel c 1;", 1, "unexpected `call`", "expected a process"),
]


@pytest.mark.parametrize(("text", "line", "message", "hint"), WRONG, ids=[row[0] for row in WRONG])
def test_what_is_said_of_a_wrong_text(text: str, line: int, message: str, hint: str) -> None:
    wrong = error(text)
    assert (wrong.message, wrong.hint) == (message, hint)
    assert wrong.span.line == line


def test_the_error_shows_where_and_what() -> None:
    wrong = error("var x;\nP = if (x = 1) {Skip};")
    assert wrong.render() == (
        "model.csp:2:11: error: unexpected `=`\n"
        "2 | P = if (x = 1) {Skip};\n"
        "  |           ^\n"
        "hint: comparison is `==`"
    )


def test_a_bracket_that_is_not_closed_is_shown_where_it_was_opened() -> None:
    wrong = error("P = a -> (b -> Skip [] c -> Skip;\nQ(i) = P;\nvar x;")
    assert wrong.message == "this `(` is not closed before the declaration of line 2"
    assert wrong.span.column == 10
    wrong = error("P = tau{if (x == 1) {x = 2;} -> P;\nvar x; #assert P deadlockfree;")
    assert wrong.message == "this `{` is not closed before the declaration of line 2"
    wrong = error("P = a -> (Q];\nQ = Skip;")
    assert wrong.message == "this `(` is not closed before the `]` of line 1"


def test_a_text_that_is_nested_too_deeply() -> None:
    assert error("P = " + "(" * 400 + "Skip" + ")" * 400 + ";").message == "the model is nested too deeply"
