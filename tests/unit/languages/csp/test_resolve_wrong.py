"""Errors in well-formed text: unknown names, wrong arity, invalid values."""

from __future__ import annotations

import pytest

from tests.unit.languages.csp.reading import error
from veristream.errors import ModelError
from veristream.languages.csp.lower.network import read_models
from veristream.source import Source

# The text, the line of the error, its message, and its hint.
WRONG = [
    (
        "P = a -> b;",
        1,
        "there is no process `b`",
        "define it: `b() = ...;`; if it is an event, add a process: `b -> Skip`",
    ),
    ("P = a -> Q;\nQ = b -> Qq;", 2, "there is no process `Qq`", "did you mean `Q`?"),
    (
        "P(i) = a -> P(i);\nQ = P;",
        2,
        "`P` takes 1 argument, not 0",
        "pass one value for each parameter of its definition",
    ),
    (
        "P = a -> P(1);",
        1,
        "`P` takes 0 arguments, not 1",
        "pass one value for each parameter of its definition",
    ),
    ("P = cc!1 -> P;\nchannel c 0;", 1, "there is no channel `cc`", "did you mean `c`?"),
    ("P = c[1]!1 -> P;\nchannel c 0;", 1, "the channel `c` takes 0 indices, not 1", "write `c`"),
    (
        "P = [y == 1] Skip;\nvar x;",
        1,
        "cannot find `y` in this scope",
        "declare it: `var y = 0;` or `#define y 0;`",
    ),
    ("P = Skip;\nP = Stop;", 2, "`P` is already declared as a process, see line 1", "rename one of them"),
    (
        "var x;\nvar x;\nP = Skip;",
        2,
        "`x` is already declared as a variable, see line 1",
        "rename one of them",
    ),
    (
        "channel x 0;\nvar x; P = Skip;",
        2,
        "`x` is already declared as a channel, see line 1",
        "rename one of them",
    ),
    (
        "#define N 3;\nP = tau{N = 4} -> P;",
        2,
        "`N` is a constant and cannot be assigned",
        "declare `var N = ...;`",
    ),
    (
        "P(i) = tau{i = 4} -> P(1);",
        1,
        "`i` is a parameter or received value and cannot be assigned",
        "copy it into a variable: `var v = i;`",
    ),
    ("var x:{5..2};\nP = Skip;", 1, "the range 5..2 is empty", "write the lower bound first"),
    (
        "#alphabet Q {a};\nP = Skip;",
        1,
        "there is no process `Q`",
        "`#alphabet` must name a defined process",
    ),
    ("", 1, "the model defines no process", "define one: `P() = a -> P();`"),
    ("// nothing\n", 1, "the model defines no process", "define one: `P() = a -> P();`"),
    (
        "var a[3] = [1,2];\nP = Skip;",
        1,
        "`a` has 3 elements, but 2 values are given",
        "`0(3)` means three elements with the value 0",
    ),
    (
        "var a[2] = 5;\nP = Skip;",
        1,
        "the array `a` cannot be initialised with a single value",
        "write `[...(2)]` to give every element the same value",
    ),
    ("P = skip;", 1, "there is no process `skip`", "did you mean `Skip`?"),
    ("P = a -> skip;", 1, "there is no process `skip`", "did you mean `Skip`?"),
    (
        "#assert P reaches gaol;\n#define goal x == 1;\nvar x;\nP = Skip;",
        1,
        "there is no condition `gaol`",
        "did you mean `goal`?",
    ),
    (
        "#assert P |= [] reqest;\nP = request -> P;",
        1,
        "there is no event, channel or condition `reqest`",
        "did you mean `request`?",
    ),
    (
        "#assert P |= a b;\nP = a -> P;",
        1,
        "expected an operator in the formula",
        "join formulas with `&&`, `||`, `->`, `<->`, `U` or `R`",
    ),
    (
        "#assert P |= [] ;\nP = a -> P;",
        1,
        "expected a condition or an event in the formula",
        "for example `[] (request -> <> reply)`",
    ),
    (
        "P = [f(x) > 1] Skip;\nvar x;",
        1,
        "`f(...)` is not an expression: CSP# has no functions",
        "write a macro, `#define f(x) ...;`, and `call(f, ...)`",
    ),
    (
        "P = tau{call(f, 1)} -> P;",
        1,
        "there is no macro `f`",
        "C# libraries are not supported: write `#define f(x) ...;`",
    ),
    ("P = c!!x -> P;\nchannel c 0;\nvar x;", 1, "`!!` is ambiguous", "to send a negation write `c!(!x)`"),
    ("P(i) = |||i:{0..2}@P(i);", 1, "`i` is already bound here", "give this index another name"),
    (
        "var x;\nP = |||x:{0..1}@Skip;",
        2,
        "`x` is already declared as a variable",
        "give this index another name",
    ),
    (
        "P = c?v.v -> P;\nchannel c 0;",
        1,
        "this input binds `v` twice",
        "give the second field another name and compare: `?[v == y]v.y`",
    ),
    (
        "P = c?v -> Skip;\nQ(v);\nQ(i) = Skip;\nchannel c 0;",
        2,
        "cannot find `v` in this scope",
        "declare it: `var v = 0;` or `#define v 0;`",
    ),
    ("P = e.a -> P;\nvar a[2];", 1, "`a` is an array", "read an element: `a[0]`"),
    ("P = [x[1] == 1] P;\nvar x;", 1, "`x` is not an array", "declare it as one: `var x[3];`"),
    ("P = [m[1][2][3] == 1] P;\nvar m[2][2];", 1, "`m` takes 2 indices, not 3", ""),
    (
        "#define a b;\n#define b a;\nP = [a] Skip;",
        1,
        "`a` is defined in terms of itself",
        "a definition may only use earlier ones",
    ),
    (
        "#define m(x) call(m, x);\nP = [call(m, 1)] Skip;",
        1,
        "`m` is defined in terms of itself",
        "a definition may only use earlier ones",
    ),
    (
        "#define g x == 1;\nP = Skip;",
        1,
        "cannot find `x` in this scope",
        "declare it: `var x = 0;` or `#define x 0;`",
    ),
    ("P = |||x:{3..1}@Skip;", 1, "the range 3..1 is empty", "write the lower bound first"),
    (
        "P = P \\ {a};\nQ = (P \\ {a}) ;\nQ \\ {b};\nP;",
        3,
        "the scope of this hiding is ambiguous",
        "write `(P \\ {a}); Q`",
    ),
    (
        "P = a -> Q \\ {a};\nQ;\nQ = Skip;",
        1,
        "the scope of this hiding is ambiguous",
        "write `(P \\ {a}); Q`",
    ),
    ("var x = y;\nvar y;\nP = Skip;", 1, "`y` is used before its declaration", "move its declaration up"),
    (
        "var x:{1..3};\nP = Skip;",
        1,
        "the initial value 0 of `x` is outside its range",
        "choose an initial value within the range",
    ),
    (
        "channel c -1;\nP = Skip;",
        1,
        "the capacity of a channel must be at least 0",
        "use 0 for a rendezvous channel",
    ),
    (
        "channel c[1001] 100;\nP = Skip;",
        1,
        "a channel cannot have room for 100100 messages",
        "the maximum is 100000",
    ),
    (
        "P = tau{x} -> P;\nvar x;",
        1,
        "this statement has no effect",
        "a statement must assign, as in `x = x + 1;`, or call a macro that does",
    ),
    (
        "P = tau{x == 1;} -> P;\nvar x;",
        1,
        "this statement has no effect",
        "a statement must assign, as in `x = x + 1;`, or call a macro that does",
    ),
    (
        "#assert P |= [] c.1;\nchannel c 3;\nP = c!1 -> P;",
        1,
        "`c` is a buffered channel",
        'write `"c!1"` for sending or `"c?1"` for receiving',
    ),
    ("#assert P |= [] a!1;\nP = a -> P;", 1, "there is no channel `a`", "declare it: `channel a 1;`"),
    ("#assert P |= <> tau;\nP = a -> P;", 1, "`tau` cannot be observed", "give the event a name"),
    (
        "#assert P |= [] p.x;\nvar x;\nP = p.x -> P;",
        1,
        "expected a value",
        "in a formula the arguments of events must be numbers or constants",
    ),
    (
        "#assert P refines<X> P;\nP = a -> P;",
        1,
        "unknown refinement `<X>`",
        "use `refines`, `refines<F>` or `refines<FD>`",
    ),
    (
        "#assert P(x) deadlockfree;\nvar x;\nP(i) = Skip;",
        1,
        "the arguments of an asserted process must be constants",
        "",
    ),
    (
        "P = tau{var t[2]; x = t[0];} -> P;\nvar x;",
        1,
        "elements of the local array `t` cannot be read",
        "make it a global array: `hvar t[...];`",
    ),
    ("P = a.b -> P;", 1, "cannot find `b` in this scope", "declare it: `var b = 0;` or `#define b 0;`"),
    (
        "P = a.1;",
        1,
        "expected a process, found an event",
        "add what follows it: `-> Skip`, `-> Stop` or `-> P()`",
    ),
    (
        "P = tau;",
        1,
        "expected a process, found an event",
        "add what follows it: `-> Skip`, `-> Stop` or `-> P()`",
    ),
    (
        "#assert P reaches x;\nP = Skip;\nchannel x 0;",
        1,
        "`x` is a channel, not a value",
        "query a channel with `call(ccount, x)`, `call(cempty, x)` and so on",
    ),
    (
        "P = ||| x:{0..y}@Skip;\nvar y;",
        1,
        "the values of an index cannot depend on variables",
        "use constants, parameters and received values",
    ),
    (
        "P = |||{x}@Skip;\nvar x;",
        1,
        "the number of copies must be a non-negative constant",
        "use `#define N 3;`",
    ),
    (
        "enum {a, a};\nP = Skip;",
        1,
        "`a` is already declared as a constant, see line 1",
        "rename one of them",
    ),
    ("P(i, i) = Skip;", 1, "duplicate parameter `i`", "rename one of them"),
    ("var a[0];\nP = Skip;", 1, "a size must be at least 1, not 0", ""),
    (
        "#alphabet P {a.x};\nvar x;\nP = Skip;",
        1,
        "an alphabet cannot depend on variables",
        "use constants, indices and the parameters of the process",
    ),
    (
        "#alphabet P {a};\n#alphabet P {b};\nP = Skip;",
        2,
        "`P` already has an alphabet",
        "put all its events in one `#alphabet`",
    ),
    (
        "#assert P |= G F U a;\nP = a -> P;",
        1,
        "expected a condition or an event in the formula",
        "for example `[] (request -> <> reply)`",
    ),
    ("P = [call(ccount, 1)] Skip;", 1, "`ccount` takes one channel", "write `call(ccount, c)`"),
    ("P = [call(ccount, x)] Skip;\nvar x;", 1, "there is no channel `x`", "declare it: `channel x 0;`"),
    (
        "P = [c > 1] Skip;\nchannel c 1;",
        1,
        "`c` is a channel, not a value",
        "query a channel with `call(ccount, c)`, `call(cempty, c)` and so on",
    ),
]


@pytest.mark.parametrize(("text", "line", "message", "hint"), WRONG, ids=[row[0] for row in WRONG])
def test_message_hint_and_line(text: str, line: int, message: str, hint: str) -> None:
    wrong = error(text)
    assert (wrong.message, wrong.hint) == (message, hint)
    assert wrong.span.line == line


def test_what_has_no_text_is_wrong_at_its_process() -> None:
    text = "var x;\nR = a.x -> R;\n#alphabet R {a.9223372036854775807};\nT = R || R;"
    with pytest.raises(ModelError) as caught:
        read_models(Source("m.csp", text), {}, ())
    assert caught.value.message == "the range 9223372036854775807..9223372036854775807 is too large"
    assert caught.value.span.line == 4
