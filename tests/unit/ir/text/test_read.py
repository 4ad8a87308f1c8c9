"""The reader: shorthands of the text form, spans of nodes, and errors."""

from __future__ import annotations

import subprocess
import sys

import pytest

from veristream.errors import ModelError
from veristream.ir.expr import (
    INT,
    Assign,
    Binary,
    Block,
    Call,
    Conditional,
    Const,
    Expr,
    Fold,
    If,
    Let,
    Load,
    Local,
    Primed,
    Statement,
    Type,
    Unary,
)
from veristream.ir.network import Fork, Match, Network, Receive, Send, Variable
from veristream.ir.property import Always, Occurs, Temporal, TemporalBinary, TemporalUnary
from veristream.ir.text.read import read_network
from veristream.source import Source, Span


def read(text: str, **constants: int) -> Network:
    return read_network(Source("m.net", "network m\n" + text), constants)


def fail(text: str, **constants: int) -> tuple[str, str, str]:
    """Returns the error's message, the text it marks, and its hint."""
    with pytest.raises(ModelError) as caught:
        read_network(Source("m.net", text), constants)
    span = caught.value.span
    return caught.value.message, text[span.start : span.end], caught.value.hint


def condition(text: str, declarations: str = "") -> Expr:
    """Reads an expression as a property's condition."""
    claim = read(f"{declarations}\nproperty p: always {text}").properties[0].claim
    assert isinstance(claim, Always)
    return claim.condition


def update(text: str, declarations: str = "var n: 0..9") -> Block:
    """Reads statements as an edge's update."""
    component = f"component P {{ location a initial edge a -> a {{ do {{ {text} }} }} }}"
    return read(f"{declarations}\n{component}").components[0].edges[0].update


# Constants, templates, structs.


def test_constants_are_replaced_and_computed() -> None:
    text = "const N = 2 + 1\nconst M = N * N\nvar x[M]: 0..N-1 = M mod 2"
    assert read(text).variables == (Variable("x", Type(0, 2), (9,), (1,) * 9),)
    assert read(text, N=2).variables == (Variable("x", Type(0, 1), (4,), (0,) * 4),)
    assert read("const N = 3\nvar x: 0..N", N=7).variables[0].type == Type(0, 7)


def test_only_what_names_a_constant_is_computed() -> None:
    assert condition("1 + 2 == 3") == Binary("==", Binary("+", Const(1), Const(2)), Const(3))
    assert condition("N + 2 == 3", "const N = 1") == Const(1)
    assert condition("x == (N + 2) * 2", "const N = 1 var x: 0..9") == Binary("==", Load("x"), Const(6))


def test_what_a_parameter_rules_out_is_left_out() -> None:
    network = read("""
        var a[2]: bool
        component P(i: 0..1) {
          location l initial
          edge l -> l { when i > 0 do { a[i - 1] := true } }
          edge l -> l {
            when i > 0 and a[i - 1] or i == 0
            do { if (i > 0) { a[i - 1] := i == 0 ? a[i + 5] : false } else { a[i] := true } }
          }
        }""")
    first, second = network.components
    assert len(first.edges) == 1
    assert len(second.edges) == 2
    assert first.edges[0].guard == Const(1)
    assert first.edges[0].update == (If(Const(0), (), (Assign(Load("a", (Const(0),)), Const(1)),)),)
    assert second.edges[1].update == (If(Const(1), (Assign(Load("a", (Const(0),)), Const(0)),), ()),)


def test_a_template_is_one_component_for_each_value() -> None:
    network = read("""
        enum E { p, q }
        component P(i: E, j: 2..3) {
          var x: 0..9 = i * 3 + j
          location l initial
          edge l -> l { do { x := j } }
        }
        component Q { location l initial }""")
    names = [component.name for component in network.components]
    assert names == ["P(0, 2)", "P(0, 3)", "P(1, 2)", "P(1, 3)", "Q"]
    assert network.components[3].variables == (Variable("P(1, 3).x", Type(0, 9), (), (6,)),)
    assert network.components[3].edges[0].update == (Assign(Load("P(1, 3).x"), Const(3)),)


def test_a_struct_is_one_variable_a_member() -> None:
    network = read("""
        enum Fork { free, taken }
        struct Point { x: 0..3, y: 1..2 }
        struct Shape { at: Point, corners[2]: 0..1, kind: Fork }
        var s: Shape = { at: { x: 2 }, kind: taken }
        var many[3]: Shape
        property p: always many[1].corners[0] == s.at.x""")
    assert network.variables[:4] == (
        Variable("s.at.x", Type(0, 3), (), (2,)),
        Variable("s.at.y", Type(1, 2), (), (1,)),
        Variable("s.corners", Type(0, 1), (2,), (0, 0)),
        Variable("s.kind", Type(0, 1, "Fork"), (), (1,)),
    )
    assert network.variables[6] == Variable("many.corners", Type(0, 1), (3, 2), (0,) * 6)
    assert network.properties[0].claim == Always(
        Binary("==", Load("many.corners", (Const(1), Const(0))), Load("s.at.x"))
    )


def test_initial_values() -> None:
    network = read("var a[2][2]: 0..9 = [[1, 2], [3, 4]] var b[2][2]: 0..9 = [1, 2, 3, 4] var c: -5..-3")
    assert network.variables[0].initial == network.variables[1].initial == (1, 2, 3, 4)
    assert network.variables[2].initial == (-5,)


# Names and scopes.


def test_inner_names_go_before_outer_ones() -> None:
    network = read("""
        var x: 0..9
        component P {
          var x: 0..3
          location l initial
          edge l -> l { when x == 1 and ::x == 2 and P.x == 3 }
          edge l -> l { select x: 0..1 when x == 1 and ::x == 2 and P.x == 3 }
        }
        property p: always x == 1""")
    own, outer, local = Load("P.x"), Load("x"), Local("x")
    first, second = network.components[0].edges
    assert first.guard == _equal(own, outer, own)
    assert second.guard == _equal(local, outer, own)
    assert network.properties[0].claim == Always(Binary("==", outer, Const(1)))


def _equal(first: Expr, second: Expr, third: Expr) -> Expr:
    left = Binary("and", Binary("==", first, Const(1)), Binary("==", second, Const(2)))
    return Binary("and", left, Binary("==", third, Const(3)))


def test_received_names_are_not_known_in_matches() -> None:
    network = read("""
        var v: 0..3
        channel c[4]: rendezvous (0..3, 0..3)
        component P { location l initial edge l -> l { receive c[v](?v, v) when v > 0 } }""")
    edge = network.components[0].edges[0]
    assert isinstance(edge.sync, Receive)
    assert edge.sync.indices == (Load("v"),)
    assert edge.sync.patterns[1] == Match(Load("v"))
    assert edge.guard == Binary(">", Local("v"), Const(0))


def test_keywords_of_other_places_can_be_names() -> None:
    network = read("""
        var fork[2]: bool
        channel send: rendezvous
        component join {
          location initial initial
          edge initial -> initial {
            when fork[0] and not fork[1]
            send send
            do { if (fork[0]) { fork[1] := true } fork[0] := false }
            fair weak
          }
          edge initial -> initial { action action when fork[1] fork W }
        }
        idle component W { location kill initial final }""")
    first, second = network.components[0].edges
    assert first.sync == Send("send")
    assert len(first.update) == 2
    assert second.fork == (Fork("W"),)


# Expressions.


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("x || y && !z -> x", "((x or (y and (not z))) implies x)"),
        ("x -> y -> z", "x implies (y implies z)"),
        ("x or y and z", "x or (y and z)"),
        ("not x == y", "not (x == y)"),
        ("x == y & z", "((x == y) & z)"),
        ("x | y ^ z & x", "x | (y ^ (z & x))"),
        ("x + y * z - x", "(x + (y * z)) - x"),
        ("x << y + z", "x << (y + z)"),
        ("-x * y", "(-x) * y"),
        ("x ? y : z ? x : y", "x ? y : (z ? x : y)"),
        ("x or y ? y : z", "(x or y) ? y : z"),
        ("x and forall j in 0..1: y or z", "x and (forall j in 0..1: (y or z))"),
        ("- - x", "-(-x)"),
        ("x -- 1", "x - (-1)"),
    ],
)
def test_what_binds_tighter(left: str, right: str) -> None:
    variables = "var x: bool var y: bool var z: bool"
    assert condition(left, variables) == condition(right, variables)


def test_a_fold_over_components_is_written_out() -> None:
    template = "component P(i: 0..2) { var n: 0..3 location a initial location b }"
    assert condition("forall j in 0..1: P(j)@b", template) == condition("P(0)@b and P(1)@b", template)
    assert condition("exists j in 1..2: P(j).n > j", template) == condition(
        "P(1).n > k1 or P(2).n > k2", f"const k1 = 1 const k2 = 2 {template}"
    )
    assert condition("0 == sum j in 0..2: done(P(j))", template) == condition(
        "0 == (done(P(0)) + done(P(1)) + done(P(2)))", template
    )
    assert condition("forall j in 2..2: idle(P(j))", template) == condition("1 and idle(P(2))", template)
    assert isinstance(condition("forall j in 0..2: P(0).n == j", template), Fold)
    nested = condition("forall j in 0..1: forall k in 0..1: P(j)@a or k == 1", template)
    assert isinstance(nested, Binary)
    assert isinstance(nested.left, Fold)


def test_negative_numbers() -> None:
    assert condition("-3") == Const(-3)
    assert condition("-(3)") == Unary("-", Const(3))
    assert condition("2 - 3") == Binary("-", Const(2), Const(3))


def test_primes() -> None:
    network = read("var a[2]: bool\nproperty p: transition a[1]' == next(a[0] + 1)")
    claim = network.properties[0].claim
    after = Primed(Binary("+", Load("a", (Const(0),)), Const(1)))
    assert getattr(claim, "condition", None) == Binary("==", Primed(Load("a", (Const(1),))), after)


def test_statements() -> None:
    block = update("let t = 3; let a[2]: bool = true; if (n > 0) { n := t } else if (a[0]) { n := 0 }")
    inner = If(Local("a", Const(0)), (Assign(Load("n"), Const(0)),))
    assert block == (
        Let("t", INT, Const(3)),
        Let("a", Type(0, 1, "bool"), Const(1), 2),
        If(Binary(">", Load("n"), Const(0)), (Assign(Load("n"), Local("t")),), (inner,)),
    )


def test_formulas() -> None:
    text = "const K = 2 property p: ltl [] (true -> <> 'a b'(K, _) && !tau U c) under weak-action"
    claim = read(text).properties[0].claim
    assert isinstance(claim, Temporal)
    assert isinstance(claim.formula, TemporalUnary)
    inner = claim.formula.operand
    assert isinstance(inner, TemporalBinary)
    assert isinstance(inner.right, TemporalBinary)
    assert inner.right.op == "&&"
    assert inner.right.left == TemporalUnary("<>", Occurs("a b", (2, None)))


def test_comments_and_semicolons() -> None:
    network = read(
        "var x: bool; # one\n// two\nvar y: bool\n;component P { location a initial; edge a -> a; }"
    )
    assert [variable.name for variable in network.variables] == ["x", "y"]


# Places.


def _texts(expr: Expr | Statement, source: Source) -> str:
    span: Span = expr.span
    return source.text[span.start : span.end]


def test_every_node_knows_its_place() -> None:
    source = Source(
        "m.net",
        "network m\nvar n: 0..9\nfunction f(a: 0..9): 0..9 { let t: 0..9 = a + 1; return t }\n"
        "property p: always (n + 1 > 2 ? f(n) : -1) == (sum j in 0..1: j)",
    )
    network = read_network(source)
    claim = network.properties[0].claim
    assert isinstance(claim, Always)
    equal = claim.condition
    assert isinstance(equal, Binary)
    choice, total = equal.left, equal.right
    assert isinstance(choice, Conditional)
    assert isinstance(choice.then, Call)
    found = [equal, choice.condition, choice.then, choice.then.arguments[0], choice.otherwise, total]
    assert [_texts(part, source) for part in found] == [
        "n + 1 > 2 ? f(n) : -1) == (sum j in 0..1: j",
        "n + 1 > 2",
        "f(n)",
        "n",
        "-1",
        "sum j in 0..1: j",
    ]
    assert [_texts(part, source) for part in network.functions[0].body] == [
        "let t: 0..9 = a + 1",
        "return t",
    ]
    assert network.variables[0].span.place == "m.net:2:1"
    assert network.properties[0].span.line == 4


# Errors.


@pytest.mark.parametrize(
    ("text", "message", "marked", "hint"),
    [
        ("", "the file is empty; a network begins with `network NAME`", "", "`network NAME`"),
        ("// nothing\n", "the file is empty; a network begins with `network NAME`", "", ""),
        ("hello", "a network begins with `network NAME`", "hello", ""),
        ("$", "a network begins with `network NAME`", "$", ""),
        ("network", "unexpected end of file", "k", "expected a name"),
        ("network a var x 3", "unexpected `3`", "3", "expected `.`, `:`, `[`"),
        ("network a var x: 0..", "unexpected end of file", ".", "expected an expression"),
        ("network a $", "unexpected character '$'", "$", "expected `bag`, `channel`, `clock`"),
        ("network a channel c: foo", "unexpected `foo`", "foo", "`barrier`, `buffer`, `rendezvous`"),
        ("network a const N = 7 % 2", "unexpected character '%'", "%", "`rem`"),
        ("network a const N = 7 / 2", "unexpected character '/'", "/", "`div`"),
        ("network a var `x: bool", "unexpected character '`'", "`", "backquote"),
        ("network a property p: always 1 = 1", "unexpected `=`", "=", "comparison is `==`"),
        ("network a function f() { x = 1 }", "unexpected `=`", "=", "assignment is `:=`"),
        ("network a function f() { f() f() }", "unexpected `f`", "f", "statements end with `;`"),
        ("network a property p: always", "unexpected end of file", "s", "expected an expression"),
        ("network a property p: always 1 under luck", "unexpected `luck`", "luck", "`weak-action`"),
        ("network a property p: always 1 < 2 < 3", "comparisons cannot be chained", "<", "a < b and b < c"),
        ("network a property p: ltl [] (a ->", "unexpected end of file", ">", "`{`"),
        ("network a const N = 3 property p: always M", "unknown name `M`", "M", ""),
        ("network a var count: bool property p: always cuont", "unknown name `cuont`", "cuont", "`count`?"),
        ("network a enum E { red } property p: always E.rde", "unknown name `E.rde`", "E.rde", ""),
        ("network a var x: Colour enum Color { red }", "unknown type `Colour`", "Colour", "`Color`?"),
        ("network a var x: 3", "expected a type", "3", "`low..high`"),
        (
            "network a struct S { a: bool } channel c: broadcast (S)",
            "expected the type of a single value",
            "S",
            "a range",
        ),
        (
            "network a var x: bool var y: 0..x",
            "expected a constant, found the variable `x`",
            "x",
            "`const`",
        ),
        ("network a const N = 1 div 0", "expected a constant", "1 div 0", "numbers"),
        ("network a var x: 3..1", "the range 3..1 is empty", "3..1", "lower bound"),
        ("network a var x[2]: bool = [1]", "expected 2 values, found 1", "[1]", "one value"),
        ("network a var x: bool = [1]", "expected a single value", "[1]", ""),
        ("network a const N = 1 const N = 2", "`N` is declared twice", "N", "another name"),
        ("network a enum E { a } enum E { b }", "`E` is declared twice", "E", "another name"),
        ("network a struct S { a: bool, a: bool }", "`a` is declared twice", "a", "another name"),
        (
            "network a enum E { a, b } enum F { b, a } property p: always a",
            "`a` is a member of several enums",
            "a",
            "`E.a` or `F.a`",
        ),
        ("network a struct S { a: bool } var s: S = 1", "`S` is a struct", "1", "{ a: 1"),
        (
            "network a struct S { size: bool } var s: S = { sise: 1 }",
            "`S` has no member `sise`",
            "sise: 1",
            "`size`?",
        ),
        (
            "network a struct S { a: bool } var s: S property p: always s",
            "`s` has no value of its own",
            "s",
            "`s.a`",
        ),
        ("network a function min(): bool { }", "`min` is built in", "min", "another name"),
        ("network a property p: always max(1)", "`max` takes 2 argument(s), not 1", "max(1)", ""),
        ("network a property p: always g(1)", "unknown function `g`", "g(1)", "`function`"),
        ("network a const N = 1 property p: always N[0]", "`N` is a constant", "N[0]", ""),
        ("network a property p: always (1)[0]", "only a variable has indices", "(1)[0]", ""),
        ("network a var x: bool property p: transition (x + 1)'", "`'` must follow", "(x + 1)'", "next"),
        ("network a component P { location l }", "component `P` has no initial location", "P", "`initial`"),
        (
            "network a component P { location k initial location l initial }",
            "component `P` has 2 initial locations",
            "P",
            "`initial`",
        ),
        ("network a component P(i: int) { location l initial }", "`P` expands to", "(i: int)", "4096"),
        ("network a function f() { 3 }", "the value is not used", "3", ":="),
        ("network a function f() { f() := 1 }", "only a variable can be assigned", "f()", ":="),
    ],
)
def test_errors_say_where_and_what_to_do(text: str, message: str, marked: str, hint: str) -> None:
    found_message, found_marked, found_hint = fail(text)
    assert found_message.startswith(message)
    assert found_marked == marked
    assert hint in found_hint


@pytest.mark.parametrize(
    ("clauses", "message", "marked"),
    [
        ("when 1 when 2", "duplicate `when`", "when 2"),
        ("send c receive c", "an edge has at most one synchronisation", "receive c"),
        ("action a tau b", "an edge has at most one name", "tau b"),
        ("clock 3 < 4", "expected a clock", "3"),
        ("clock x != 4", "expected a clock constraint", "x != 4"),
        ("clock x < 4 and x > 1", "expected a clock constraint", "x < 4 and x > 1"),
        ("clock x if 1", "expected a clock constraint", "x"),
        ("clock -x < 4", "expected a clock constraint", "-x < 4"),
        ("clock x - y - z < 4", "expected a clock constraint", "x - y - z < 4"),
        ("clock x - 1 < 4", "expected a clock", "1"),
        ("clock (x) < 4", "expected a clock", "(x)"),
        ("select i: 0..1 fork P(i)", "unknown name `i`", "i"),
        ("when done(1 + 1)", "expected a component", "1 + 1"),
        ("when len(c.d) > 0", "expected a channel", "c.d"),
        ("select i: 0..1 when P(i)@l", "expected a constant", "i"),
    ],
)
def test_errors_of_edges(clauses: str, message: str, marked: str) -> None:
    text = (
        f"network a channel c: rendezvous component P {{ location l initial edge l -> l {{ {clauses} }} }}"
    )
    found_message, found_marked, _ = fail(text)
    assert found_message == message
    assert found_marked == marked


def test_an_override_must_name_a_constant() -> None:
    message, marked, hint = fail("network abc const SIZE = 1", SZE=3)
    assert message == "the network has no constant `SZE`"
    assert marked == "abc"
    assert hint == "did you mean `SIZE`?"
    assert fail("network abc", N=3)[2] == "it has no constants"


def test_an_error_shows_the_line() -> None:
    with pytest.raises(ModelError) as caught:
        read("var count: 0..3\nproperty p: always cuont == 1")
    assert caught.value.render() == (
        "m.net:3:20: error: unknown name `cuont`\n"
        "3 | property p: always cuont == 1\n"
        "  |                    ^^^^^\n"
        "hint: did you mean `count`?"
    )


def test_reading_verifies() -> None:
    message, marked, _ = fail("network a var x: 0..3 function f() { x := 4 }")
    assert message == "4 is outside the range 0..3 of `x`"
    assert marked == "4"


def test_reading_needs_nothing_heavy() -> None:
    """Reading a network must not import a compiler or a data library."""
    heavy = ("numpy", "numba", "llvmlite")
    code = f"import sys, veristream.ir.text.read; print([name for name in {heavy} if name in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
