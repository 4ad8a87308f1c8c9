"""Syntax errors: unexpected tokens, with message, hint and location."""

from __future__ import annotations

import pytest

from tests.unit.languages.csp.reading import error

# The text, the line of the error, its message, and its hint.
WRONG = [
    ("P = a -> Skip\nQ = b -> Skip;", 2, "unexpected `Q`", "is a `;` missing before this?"),
    ("P = if (x = 1) {Skip};\nvar x;", 1, "unexpected `=`", "use `==` to compare"),
    ("P := a -> Skip;", 1, "unexpected `:=`", "use `=` for assignments and definitions"),
    ("P == a -> Skip;", 1, "unexpected `==`", "use a single `=` in a definition"),
    ("#assert P deadlockFree;\nP = Skip;", 1, "unexpected `deadlockFree`", "did you mean `deadlockfree`?"),
    ("#assert P deadlock;\nP = Skip;", 1, "unexpected `deadlock`", "did you mean `deadlockfree`?"),
    (
        "#assert P |= [] (a;\nP = a -> P;",
        1,
        "this `(` is not closed before the declaration on line 2",
        "add the missing `)`",
    ),
    (
        "P = if (true) Skip;",
        1,
        "unexpected `Skip`",
        "put the branches of `if`, `ifa`, `ifb` and `atomic` in braces",
    ),
    (
        "P = a(1) -> P;",
        1,
        "unexpected `->`",
        "expected an event before `->`; its arguments follow dots: `a.1.x -> P`",
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
        '#import "PAT.Lib.Sets";\nP = Skip;',
        1,
        "the C# library PAT.Lib.Sets is not supported",
        (
            "there are PAT.Lib.List, PAT.Lib.Queue, PAT.Lib.Stack, PAT.Lib.Set, PAT.Lib.HashTable; write"
            " the functions of others as macros, `#define f(x) ...;` with `call(f, 1)`, or as programs"
        ),
    ),
    (
        "#include <x>;\nP = Skip;",
        1,
        "C# libraries are not supported",
        "write it as a macro, `#define f(x) ...;` with `call(f, 1)`, or as a program in braces",
    ),
    (
        "hvar<Set> s;\nP = Skip;",
        1,
        "an `hvar` of a C# type is not supported",
        "declare it with `var`, or use numbers and arrays of numbers",
    ),
    (
        "P = tau{s.Add(1)} -> P;\nvar s;",
        1,
        "`s` is no object of the library",
        "declare it: `var<List> s;`",
    ),
    (
        "P = tau{for (i = 0; i < 3; i++) {x = 1}} -> P;\nvar x;",
        1,
        "`for` loops are not supported",
        "write `var i = 0; while (i < n) { ... i++; }`",
    ),
    ("P = (a -> Skip;", 1, "this `(` is not closed", "add the missing `)`"),
    ("P = a -> Skip);", 1, "unmatched `)`", "remove it, or add the opening bracket"),
    (
        "P = {x = 1 -> P; var x;\n#assert P deadlockfree;",
        1,
        "this `{` is not closed before the declaration on line 2",
        "add the missing `}`",
    ),
    ("#defin N 3;", 1, "unknown directive `#defin`", "did you mean `#define`?"),
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
        "expected an event before `->`; its arguments follow dots: `a.1.x -> P`",
    ),
    ("P = [x > 1 ] ;\nvar x;", 1, "unexpected `;`", "a process is missing here"),
    ("var if;\nP = Skip;", 1, "unexpected `if`", "`if` is a keyword; choose another name"),
    ("P = a -> Skip", 1, "unexpected end of file", "declarations end with `;`"),
    ("#define N 3\nP = Skip;", 2, "unexpected `P`", "is a `;` missing before this?"),
    (
        "P = case { x == 1 : Skip; x == 2: Stop };\nvar x;",
        1,
        "unexpected `==`",
        "expected a process, not a condition; do not separate the branches of `case` by `;`",
    ),
    ("P = a..b -> P;", 1, "unexpected `..`", "expected `;`, `!`, `(`, `->`, `.`, `<>`, or more"),
    ('P = "x" -> P;', 1, 'unexpected `"x"`', "expected a process"),
    ("P = /* a -> P;", 1, "unterminated comment", "close it with `*/`"),
    (
        "P = Skip -> P;",
        1,
        "unexpected `->`",
        "`Skip` is a process, not an event; choose another name for the event",
    ),
    ("P = if (true) {Skip};\nelse {Stop};", 2, "unexpected `else`", "remove the `;` before `else`"),
    (
        "P = if (true) {Skip;} else {Stop};",
        1,
        "unexpected `}`",
        "`;` joins two processes; remove it, or add a process before `}`",
    ),
    (
        "P = wf(a) -> P;",
        1,
        "unexpected `->`",
        "expected an event before `->`; its arguments follow dots: `a.1.x -> P`",
    ),
    ("P = a -> P || ;", 1, "unexpected `;`", "a process is missing here"),
    (
        "channel c = 3;\nP = Skip;",
        1,
        "unexpected `=`",
        "write the capacity of a channel without `=`: `channel c 3;`",
    ),
    ("var x == 1;\nP = Skip;", 1, "unexpected `==`", "use a single `=` in a definition"),
    ("P = a' -> P;", 1, "unexpected character `'`", "names consist of letters, digits and `_`"),
    ("P = call(ccount, c);\nchannel c 1;", 1, "unexpected `call`", "expected a process"),
]


@pytest.mark.parametrize(("text", "line", "message", "hint"), WRONG, ids=[row[0] for row in WRONG])
def test_message_hint_and_line(text: str, line: int, message: str, hint: str) -> None:
    wrong = error(text)
    assert (wrong.message, wrong.hint) == (message, hint)
    assert wrong.span.line == line


def test_the_error_shows_location_and_excerpt() -> None:
    wrong = error("var x;\nP = if (x = 1) {Skip};")
    assert wrong.render() == (
        "model.csp:2:11: error: unexpected `=`\n"
        "2 | P = if (x = 1) {Skip};\n"
        "  |           ^\n"
        "hint: use `==` to compare"
    )


def test_an_unclosed_bracket_is_reported_where_it_was_opened() -> None:
    wrong = error("P = a -> (b -> Skip [] c -> Skip;\nQ(i) = P;\nvar x;")
    assert wrong.message == "this `(` is not closed before the declaration on line 2"
    assert wrong.span.column == 10
    wrong = error("P = tau{if (x == 1) {x = 2;} -> P;\nvar x; #assert P deadlockfree;")
    assert wrong.message == "this `{` is not closed before the declaration on line 2"
    wrong = error("P = a -> (Q];\nQ = Skip;")
    assert wrong.message == "this `(` is not closed before the `]` on line 1"


def test_a_model_that_is_nested_too_deeply() -> None:
    assert error("P = " + "(" * 400 + "Skip" + ")" * 400 + ";").message == "the model is nested too deeply"
