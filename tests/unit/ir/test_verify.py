"""The errors of `verify` with their places, and networks that it accepts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from veristream.errors import ModelError
from veristream.ir.expr import (
    BOOL,
    INT,
    Assign,
    Binary,
    Block,
    Call,
    ClockConstraint,
    ClockRef,
    Const,
    Evaluate,
    Fold,
    For,
    Let,
    Load,
    Local,
    Primed,
    Return,
    Type,
    While,
)
from veristream.ir.network import (
    Channel,
    ChannelKind,
    Component,
    Edge,
    Enumeration,
    Function,
    Label,
    Location,
    Meet,
    Network,
    Parameter,
    Select,
    Variable,
)
from veristream.ir.property import Always, Formula, Holds, Occurs, Property, Temporal, TemporalBinary
from veristream.ir.text.read import read_network
from veristream.ir.verify import verify
from veristream.source import Source


def fail(text: str) -> tuple[str, str, str]:
    """Returns the error's message, the text it marks, and its hint."""
    with pytest.raises(ModelError) as caught:
        read_network(Source("m.net", text))
    span = caught.value.span
    return caught.value.message, text[span.start : span.end], caught.value.hint


def message_of(network: Network) -> str:
    with pytest.raises(ModelError) as caught:
        verify(network)
    return caught.value.message


# Declarations.


@pytest.mark.parametrize(
    ("text", "message", "marked"),
    [
        ("var x: bool var x: bool", "variable `x` is declared twice", "var x: bool"),
        (
            "channel c: broadcast channel c: broadcast",
            "channel `c` is declared twice",
            "channel c: broadcast",
        ),
        ("clock c clock c", "clock `c` is declared twice", "clock c"),
        ("function f() { } function f() { }", "function `f` is declared twice", "f"),
        (
            "property p: deadlockfree property p: deadlockfree",
            "property `p` is",
            "property p: deadlockfree",
        ),
        (
            "component P { location a initial location a }",
            "location of `P` `a` is declared twice",
            "location a",
        ),
        (
            "component P(i: 0..1) { location a initial } component P(1) { location a initial }",
            "component `P(1)` is declared twice",
            "P",
        ),
        ("enum E { a, a }", "member of `E` `a` is declared twice", "enum E { a, a }"),
        ("enum bool { a, b }", "`bool` is built in", "enum bool { a, b }"),
        ("var x: 0..4611686018427387904", "the range 0..4611686018427387904 is too large", None),
        ("var x: 0..3 as E", "unknown enum `E`", "var x: 0..3 as E"),
        ("enum E { a, b } var x: 0..2 as E", "the range 0..2 is not within `E`", "var x: 0..2 as E"),
        ("var x[0]: bool", "variable `x` has no elements", "var x[0]: bool"),
        ("var x: 0..3 = 4", "the initial value 4 is outside the range 0..3 of `x`", "var x: 0..3 = 4"),
        ("var x[2]: 0..3 = [1, -1]", "the initial value -1 is outside", "var x[2]: 0..3 = [1, -1]"),
        ("channel c: buffer 0", "buffer `c` has no capacity", "channel c: buffer 0"),
        ("channel c[0]: buffer 1", "channel `c` has no elements", "channel c[0]: buffer 1"),
        ("channel c: barrier { (P) }", "unknown component `P`", "channel c: barrier { (P) }"),
        (
            "channel c: barrier { (P, P) } component P { location a initial }",
            "a vector of `c` names a component twice",
            "channel c: barrier { (P, P) }",
        ),
    ],
)
def test_declarations(text: str, message: str, marked: str | None) -> None:
    found_message, found_marked, hint = fail(f"network m {text}")
    assert found_message.startswith(message)
    assert marked is None or found_marked == marked
    assert hint


def test_the_second_declaration_is_the_wrong_one() -> None:
    text = "network m\nvar x: bool\nvar y: bool\nvar x: 0..3"
    with pytest.raises(ModelError) as caught:
        read_network(Source("m.net", text))
    assert caught.value.span.place == "m.net:4:1"


# Edges: the text of one, in a network with one of everything.

WORLD = """network m
var n: 0..9
var a[2][3]: 0..5
channel meeting: rendezvous (0..3, bool)
channel queue[2]: buffer 2 (0..3)
channel all: broadcast
channel gate: barrier {{ (P, Q) }}
function pure(v: 0..3): 0..3 {{ return v }}
function impure(): bool {{ n := 0; return true }}
function indirect(): bool {{ return impure() }}
component P {{
  location here initial
  location there
  edge here -> there {{ {} }}
}}
component Q {{ location here initial edge here -> here {{ meet gate }} }}
idle component Slot {{ location here initial final }}
"""


@pytest.mark.parametrize(
    ("clauses", "message", "marked"),
    [
        ("when a[1]", "`a` has 2 dimension(s) but 1 index(es)", "a[1]"),
        ("when n[1]", "`n` is not an array", "n[1]"),
        ("when a[1][3]", "index 3 is outside 0..2 of `a`", "3"),
        ("when a[1 + 1][0]", "index 2 is outside 0..1 of `a`", "1 + 1"),
        ("when len(queue[2])", "index 2 is outside 0..1 of `queue`", "2"),
        ("when len(queue)", "`queue` has 1 dimension(s)", "len(queue)"),
        ("when len(meeting)", "`meeting` is a rendezvous channel and stores no messages", "len(meeting)"),
        ("when len(quue[0])", "unknown channel `quue`", "len(quue[0])"),
        ("when peek(queue[0], 0, 1)", "a message of `queue` has no field 1", "peek(queue[0], 0, 1)"),
        ("when R@here", "unknown component `R`", "R@here"),
        ("when Q@there", "unknown location `there`", "Q@there"),
        ("when done(R)", "unknown component `R`", "done(R)"),
        ("when pure()", "`pure` takes 1 argument(s), not 0", "pure()"),
        ("when pure(4)", "4 is outside the range 0..3 of `v`", "4"),
        ("when impure()", "`impure` assigns variables and cannot be called here", "impure()"),
        ("when 1 + indirect() > 0", "`indirect` assigns variables", "indirect()"),
        ("when n' > 0", "primes are not allowed here", "n'"),
        ("action go(impure())", "`impure` assigns variables", "impure()"),
        ("send meeting(1, impure())", "`impure` assigns variables", "impure()"),
        ("send queue[impure()](1)", "`impure` assigns variables", "impure()"),
        ("send meeting(1)", "a message of `meeting` has 2 field(s), not 1", "send meeting(1)"),
        ("send meeting(4, 0)", "4 is outside the range 0..3 of a field of `meeting`", "4"),
        ("send nowhere", "unknown channel `nowhere`", "send nowhere"),
        ("send queue(1)", "`queue` has 1 dimension(s)", "send queue(1)"),
        ("send gate", "`gate` is a barrier", "send gate"),
        ("receive gate", "`gate` is a barrier", "receive gate"),
        ("meet all", "`all` is not a barrier", "meet all"),
        ("receive meeting(?v)", "a message of `meeting` has 2 field(s), not 1", "receive meeting(?v)"),
        ("receive meeting(?v, ?v)", "`v` is already declared", "?v"),
        ("select v: 0..1 receive meeting(?v, 1)", "`v` is already declared", "?v"),
        ("select v: 0..1, v: 0..2", "`v` is already declared", "v: 0..2"),
        ("do { n := 10 }", "10 is outside the range 0..9 of `n`", "10"),
        ("do { a[1][1] := 2 * 3 }", "6 is outside the range 0..5 of `a`", "2 * 3"),
        ("do { let t: 0..3 = 4 }", "4 is outside the range 0..3 of `t`", "4"),
        ("do { let t: 0..3 = 0; t := 4 }", "4 is outside the range 0..3 of `t`", "4"),
        ("do { let t[0]: 0..3 = 0 }", "the array `t` has no elements", "let t[0]: 0..3 = 0"),
        ("do { let t[2]: 0..3 = 0; n := t }", "`t` has 1 dimension(s)", "t"),
        ("do { let t[2]: 0..3 = 0; n := t[2] }", "index 2 is outside 0..1 of `t`", "2"),
        ("do { let t: 0..3 = 0; n := t[0] }", "`t` is not an array", "t[0]"),
        ("do { let t = 0; let t = 1 }", "`t` is already declared", "let t = 1"),
        ("do { let t = 0; for t in 0..1 { } }", "`t` is already declared", "for t in 0..1 { }"),
        ("select t: 0..1 do { if (1) { let t = 1 } }", "`t` is already declared", "let t = 1"),
        ("select k: 0..1 do { k := 0 }", "`k` cannot be assigned", "k"),
        ("receive queue[0](?v) do { v := 0 }", "`v` cannot be assigned", "v"),
        ("do { for k in 0..1 { k := 0 } }", "`k` cannot be assigned", "k"),
        ("do { return 1 }", "`return` is allowed only in functions", "return 1"),
        ("do { while (1) limit -1 { } }", "the loop limit -1 is too small", "while (1) limit -1 { }"),
        ("fork Q", "`Q` cannot be forked: it is already running at the start", None),
        ("fork Slit", "unknown component `Slit`", None),
        ("join Slit", "unknown component `Slit`", None),
        ("kill Slit", "unknown component `Slit`", None),
        ("fork Slot, Slot", "`Slot` is named twice", None),
        ("do { n := 4611686018427387903 * 4 }", None, "4611686018427387903 * 4"),
    ],
)
def test_edges(clauses: str, message: str | None, marked: str | None) -> None:
    found_message, found_marked, _ = fail(WORLD.format(clauses))
    assert message is None or found_message.startswith(message)
    assert marked is None or found_marked == marked


@pytest.mark.parametrize(
    "clauses",
    [
        "select v: 0..2 send queue[v mod 2](v) when a[1][v] > pure(v)",
        "do { if (impure()) { let t = 1; n := 1 } else { let t = 2; n := 2 } let t = n }",
        "do { for k in 0..2 { a[1][k] := k } for k in 0..1 { a[k][0] := k } }",
        "do { indirect(); n := indirect() }",
        "receive meeting(?v, 1) when v > 0 do { n := v }",
        "fork Slot join Slot kill Slot",
        "kill Q",
        "kill Q fork Q",
        "when (forall k in 0..1: a[k][0] > 0) and (exists k in 0..1: a[k][1] > 0)",
        "do { let t[3]: 0..3 = 0; t[n mod 3] := 1; n := t[2] }",
    ],
)
def test_edges_that_make_sense(clauses: str) -> None:
    read_network(Source("m.net", WORLD.format(clauses)))


def test_hints_name_the_nearest() -> None:
    assert fail(WORLD.format("send quee[0](1)"))[2] == "did you mean `queue`?"
    assert fail(WORLD.format("fork Slit"))[2] == "did you mean `Slot`?"
    template = "network m component P(i: 0..1) { location a initial } property p: always P@a"
    assert fail(template)[2] == "write `P(0)`"


# Functions.


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("function f(): bool { return f() }", "function `f` calls itself"),
        (
            "function f() { g() } function g() { h() } function h(): int { return 1 + g() }",
            "functions call each other: g -> h -> g",
        ),
        ("function f(): 0..3 { return 4 }", "4 is outside the range 0..3 of the result"),
        ("function f(a: bool, a: bool) { }", "`a` is already declared"),
        ("function f(a: bool) { let a = 1 }", "`a` is already declared"),
        ("function f(a: bool): bool { a := 2; return a }", "2 is outside the range 0..1 of `a`"),
    ],
)
def test_functions(text: str, message: str) -> None:
    assert fail(f"network m {text}")[0] == message


def test_parameters_can_be_assigned() -> None:
    text = "network m function f(a: 0..3): 0..3 { if (a < 3) { a := a + 1 } return a }"
    network = read_network(Source("m.net", text))
    assert network.functions[0].parameters == (Parameter("a", Type(0, 3)),)


# Properties.


@pytest.mark.parametrize(
    ("claim", "message"),
    [
        ("always next(n) > 0", "primes are not allowed here"),
        ("transition next(n + n') > 0", "primes are not allowed here"),
        ("reachable n' > 0", "primes are not allowed here"),
        ("ltl [] {n' > 0}", "primes are not allowed here"),
        ("always set()", "`set` assigns variables and cannot be called here"),
        ("reachable n > 0 maximise set()", "`set` assigns variables and cannot be called here"),
        ("set() leadsto n > 0", "`set` assigns variables and cannot be called here"),
        ("n > 0 leadsto set()", "`set` assigns variables and cannot be called here"),
        ("ltl [] {set()}", "`set` assigns variables and cannot be called here"),
        ("transition next(set())", "`set` assigns variables and cannot be called here"),
    ],
)
def test_properties(claim: str, message: str) -> None:
    text = f"network m var n: 0..3 function set(): bool {{ n := 0; return true }} property p: {claim}"
    assert fail(text)[0] == message


def _either(parts: list[Formula]) -> Formula:
    formula = parts[0]
    for part in parts[1:]:
        formula = TemporalBinary("||", formula, part)
    return formula


@pytest.mark.parametrize(
    ("make", "most", "kind"),
    [
        (lambda i: Occurs("a", (i,)), 31, "action"),
        (lambda i: Holds(Binary("==", Load("n"), Const(i))), 60, "state"),
    ],
)
def test_propositions_are_limited(make: Callable[[int], Formula], most: int, kind: str) -> None:
    def network(count: int) -> Network:
        formula = _either([make(i) for i in range(count)] + [make(0)])
        return Network(
            "m", variables=(Variable("n", BOOL),), properties=(Property("p", Temporal(formula)),)
        )

    verify(network(most))
    assert message_of(network(most + 1)) == f"property `p` has {most + 1} {kind} propositions"


# Networks that only a program can build, not the text form.

PLAIN = Component("P", (Location("a"),), (), "a")


def edge_network(edge: Edge, *variables: Variable) -> Network:
    return Network("m", variables=variables, components=(replace(PLAIN, edges=(edge,)),))


def function_network(body: Block) -> Network:
    return Network("m", functions=(Function("f", (), INT, body),))


@pytest.mark.parametrize(
    ("network", "message"),
    [
        (Network(""), "the network's name is empty"),
        (Network("m", (Enumeration("E", ()),)), "enum `E` has no members"),
        (Network("m", variables=(Variable("", BOOL),)), "the name of variable is empty"),
        (Network("m", variables=(Variable("x", BOOL, (2,), (0,)),)), "`x` has 2 element(s) but 1 initial"),
        (Network("m", variables=(Variable("x", Type(2, 1)),)), "the range 2..1 is empty"),
        (Network("m", components=(replace(PLAIN, initial="b"),)), "unknown initial location `b`"),
        (
            Network("m", components=(replace(PLAIN, variables=(Variable("x", BOOL),)),)),
            "`x` does not begin with its component's name",
        ),
        (edge_network(Edge("a", "b")), "unknown location `b`"),
        (edge_network(Edge("b", "a")), "unknown location `b`"),
        (edge_network(Edge("a", "a", Label(""))), "the action's name is empty"),
        (edge_network(Edge("a", "a", select=(Select("k", 1, 0),))), "the range 1..0 is empty"),
        (edge_network(Edge("a", "a", guard=Load("x"))), "unknown variable `x`"),
        (edge_network(Edge("a", "a", guard=Local("x"))), "unknown local name `x`"),
        (edge_network(Edge("a", "a", guard=Call("f", ()))), "unknown function `f`"),
        (edge_network(Edge("a", "a", guard=Fold("all", "k", 1, 0, Const(1)))), "the range 1..0 is empty"),
        (
            edge_network(Edge("a", "a", guard=Fold("all", "k", 0, 1, Fold("any", "k", 0, 1, Local("k"))))),
            "`k` is already declared",
        ),
        (
            edge_network(Edge("a", "a", update=(For("k", 1, 0, ()),))),
            "the range 1..0 is empty",
        ),
        (
            edge_network(Edge("a", "a", update=(Assign(Load("x"), Load("y")),)), Variable("x", BOOL)),
            "unknown variable `y`",
        ),
        (function_network((Evaluate(Const(1)),)), "the value is not used"),
        (function_network((Let("", INT, Const(1)),)), "a local name is empty"),
        (
            function_network((While(Const(1), (Let("t", INT, Const(0)),), 2), Return(Local("t")))),
            "unknown local name `t`",
        ),
        (
            Network("m", channels=(Channel("c", ChannelKind.RENDEZVOUS, capacity=1),)),
            "only a buffer has a capacity, not `c`",
        ),
        (
            Network("m", channels=(Channel("c", ChannelKind.BROADCAST, vectors=(("P",),)),)),
            "only a barrier has vectors, not `c`",
        ),
        (
            Network("m", channels=(Channel("c", ChannelKind.BARRIER, (BOOL,)),)),
            "barrier `c` cannot pass values",
        ),
        (
            Network("m", channels=(Channel("c", ChannelKind.BARRIER, vectors=((),)),)),
            "a vector of `c` is empty",
        ),
        (
            Network(
                "m",
                channels=(Channel("c", ChannelKind.BARRIER, vectors=(("Q",),)),),
                components=(
                    replace(PLAIN, edges=(Edge("a", "a", sync=Meet("c")),)),
                    replace(PLAIN, name="Q"),
                ),
            ),
            "no vector of `c` names `P`",
        ),
        (
            edge_network(
                Edge("a", "a", clock_guard=(ClockConstraint(ClockRef("x"), None, "<", Const(1)),))
            ),
            "unknown clock `x`",
        ),
        (
            Network(
                "m",
                variables=(Variable("x", BOOL),),
                properties=(Property("p", Always(Primed(Load("x")))),),
            ),
            "primes are not allowed here",
        ),
        (
            Network("m", properties=(Property("p", Temporal(Occurs(""))),)),
            "the action's name is empty",
        ),
    ],
)
def test_networks_that_were_built(network: Network, message: str) -> None:
    assert message_of(network).startswith(message)


def test_a_small_network_passes() -> None:
    verify(Network("m", components=(PLAIN,)))
