"""The text form: the printed form of a network reads back as an equal network, for any names."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.strategies import networks, properties
from tests.strategies_timed import timed_networks, timed_properties
from veristream.ir.expr import (
    BOOL,
    INT,
    Assign,
    AtLocation,
    Binary,
    Call,
    Check,
    ClockConstraint,
    ClockRef,
    ClockTest,
    ClockValue,
    Conditional,
    Const,
    Deadlocked,
    Evaluate,
    Expr,
    Fold,
    For,
    IsDone,
    IsIdle,
    Let,
    Load,
    Local,
    Peek,
    Primed,
    Queue,
    Reset,
    Return,
    Type,
    Unary,
)
from veristream.ir.network import (
    Bind,
    Channel,
    ChannelKind,
    Clock,
    Component,
    Edge,
    Enumeration,
    FairnessMark,
    Fork,
    Function,
    Label,
    Location,
    LocationKind,
    Match,
    Meet,
    Network,
    Parameter,
    Receive,
    Select,
    Send,
    Variable,
)
from veristream.ir.property import (
    Always,
    Fairness,
    Formula,
    Holds,
    Inevitable,
    LeadsTo,
    Occurs,
    Optimise,
    PotentiallyAlways,
    Property,
    Reachable,
    Silent,
    Temporal,
    TemporalBinary,
    TemporalUnary,
    Transition,
)
from veristream.ir.text.printer import print_expr, print_network, print_property
from veristream.ir.text.read import read_network
from veristream.ir.text.spelling import quote, unquote
from veristream.ir.verify import verify
from veristream.source import Source

MODELS = sorted((Path(__file__).parents[3] / "models").glob("*.net"))
GRAMMAR = Path(__file__).parents[4] / "src/veristream/ir/text/network.lark"


def read(text: str) -> Network:
    return read_network(Source("test.net", text))


def assert_round_trip(network: Network) -> None:
    verify(network)
    text = print_network(network)
    assert read(text) == network, text


def words_of_grammar() -> list[str]:
    """Returns every keyword of the grammar."""
    text = re.sub(r"^//.*$", "", GRAMMAR.read_text(), flags=re.MULTILINE)
    quoted = re.findall(r'"([A-Za-z]+)"', text)
    patterns = [word for found in re.findall(r"\(([A-Za-z|]+)\)\\b", text) for word in found.split("|")]
    return sorted({*quoted, *patterns, "not", "X", "U", "R", "V"})


ODD_NAMES = [
    *words_of_grammar(),
    *("true", "false", "bool", "int", "min", "len", "done", "next", "peek", "_", "deadlock"),
    *(
        "a b",
        "P(0)",
        "P(0, 1)",
        "P(0,1)",
        "P(00)",
        "P(-1)",
        "x.y",
        "P(0).x",
        "x.",
        ".x",
        "->",
        "a`b",
        "a\\b",
    ),
    *("a\nb", "a'b", "é", "名", "3", "3x", " ", "//", "#", "::x", "x[0]", "`", "\\", "\\n", "\r", '"'),
]


def network_of_names(name: str) -> Network:
    """Returns a network that uses the name for everything that has a name."""
    own = f"{name}.{name}"
    edge = Edge(
        name,
        name,
        Label(name, (Local("k"), Load(own))),
        (Select("k", 0, 1),),
        Binary("==", Load(name), Load(own)),
        (),
        Receive("the" + name, (), (Bind("got"), Match(Load(name)))),
        (Evaluate(Call(name, (Local("got"),))), Assign(Load(own), Load(name))),
        fork=(Fork(name + "2", name),),
        join=(name + "2",),
    )
    shadow = Edge(
        name,
        name,
        select=(Select(name, 0, 1),),
        guard=Binary("<", Local(name), Load(name)),
        sync=Send(name, (), (Local(name),)),
        update=(Let("t", INT, Load(own)), Assign(Load(name), Local(name))),
        visible=False,
    )
    hidden = Edge(name, name, Label(name), sync=Meet("b " + name), visible=False)
    component = Component(
        name,
        (Location(name, final=True),),
        (edge, shadow, hidden),
        name,
        variables=(Variable(own, Type(0, 1, "e" + name)),),
    )
    slot = Component(name + "2", (Location(name),), (), name, idle=True)
    shows = Binary("and", AtLocation(name, name), Binary("or", IsDone(name), IsIdle(name + "2")))
    formula = TemporalBinary("U", Occurs(name, (0, None)), TemporalUnary("X", Occurs(name)))
    return Network(
        name,
        (Enumeration("e" + name, (name, name + "x")),),
        (Variable(name, Type(0, 1)), Variable(name + "3", BOOL, (2,), (0, 1))),
        (
            Channel(name, ChannelKind.BROADCAST, (Type(0, 1),)),
            Channel("the" + name, ChannelKind.BUFFER, (Type(0, 1), Type(0, 1, "e" + name)), capacity=1),
            Channel("b " + name, ChannelKind.BARRIER, vectors=((name, name + "2"),)),
        ),
        (),
        (Function(name, (Parameter(name, Type(0, 1)),), BOOL, (Return(Local(name)),)),),
        (component, slot),
        (
            Property(name, Always(shows)),
            Property(name + "f", Temporal(formula)),
            Property(name + "c", Always(Call(name, (Load(name),)))),
            Property(
                name + "d", LeadsTo(Load(name), Fold("any", name, 0, 1, Load(name + "3", (Local(name),))))
            ),
            Property(name + "q", Always(Queue("empty", "the" + name))),
            Property(name + "t", Transition(Binary("<=", Load(own), Primed(Load(own))))),
        ),
    )


def timed_network_of_names(name: str) -> Network:
    """Returns a timed network that uses the name for its clocks and everything they are compared with."""
    own, rows = ClockRef(f"{name}.{name}"), ClockRef(name + "4", (Load(name), Local("k")))
    sum_ = Binary("+", Load(name), Local("k"))
    edge = Edge(
        name,
        name,
        select=(Select("k", 0, 1),),
        clock_guard=(
            ClockConstraint(ClockRef(name), own, "<", Const(3)),
            ClockConstraint(ClockRef(name), None, ">=", Const(-1), AtLocation(name, name)),
            ClockConstraint(rows, rows, "==", sum_, Conditional(Load(name), Load(name), Local("k"))),
        ),
        sync=Send(name),
        update=(Reset(own, Const(0)), Reset(rows, sum_)),
    )
    here = Location(name, clock_invariant=(ClockConstraint(own, None, "<=", Load(name), Load(name)),))
    test = ClockTest(ClockConstraint(own, ClockRef(name), ">", Load(name)))
    conditional = ClockTest(ClockConstraint(ClockRef(name), None, "<", Const(2), Load(name)))
    return Network(
        name,
        variables=(Variable(name, Type(0, 1)),),
        channels=(
            Channel(name, ChannelKind.RENDEZVOUS, priority=2),
            Channel("q " + name, ChannelKind.BUFFER, capacity=1, urgent=True, priority=-1),
        ),
        clocks=(Clock(name), Clock(own.clock), Clock(name + "4", (2, 3))),
        components=(Component(name, (here,), (edge,), name, priority=-3),),
        properties=(
            Property(name, Inevitable(Binary("and", test, Unary("not", Deadlocked())))),
            Property(name + "p", PotentiallyAlways(Binary("or", conditional, Load(name)))),
            Property(name + "r", Reachable(test, Optimise("max", ClockValue(own)))),
            Property(name + "l", LeadsTo(conditional, test)),
        ),
        timed=True,
    )


@pytest.mark.parametrize("name", ODD_NAMES)
def test_any_name_round_trips(name: str) -> None:
    assert_round_trip(network_of_names(name))
    assert_round_trip(timed_network_of_names(name))


@given(st.text(min_size=1))
def test_quoted_names_are_read_back(name: str) -> None:
    assert unquote(quote(name)) == name


@settings(deadline=None, max_examples=50)
@given(st.text(min_size=1, max_size=8))
def test_random_names_round_trip(name: str) -> None:
    assert_round_trip(network_of_names(name))
    assert_round_trip(timed_network_of_names(name))


@pytest.mark.parametrize("path", MODELS, ids=lambda path: path.stem)
def test_models_round_trip(path: Path) -> None:
    assert_round_trip(read(path.read_text()))


@settings(deadline=None, max_examples=150, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_random_networks_round_trip(data: st.DataObject) -> None:
    network = data.draw(networks(faults=False))
    claims = [data.draw(properties(network)) for _ in range(2)]
    named = tuple(replace(claim, name=f"p{i}") for i, claim in enumerate(claims))
    assert_round_trip(replace(network, properties=named))


@settings(deadline=None, max_examples=50, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_random_timed_networks_round_trip(data: st.DataObject) -> None:
    network = data.draw(timed_networks())
    assert_round_trip(replace(network, properties=(data.draw(timed_properties(network)),)))


X, Y, A, ONE = Load("x"), Load("y"), Load("a", (Const(0),)), Const(1)


@pytest.mark.parametrize(
    ("expr", "text"),
    [
        (Const(-1), "-1"),
        (Unary("-", ONE), "-(1)"),
        (Unary("-", Const(-1)), "-(-1)"),
        (Unary("-", Unary("-", X)), "--x"),
        (Unary("~", X), "~x"),
        (Unary("not", Binary("==", X, ONE)), "not x == 1"),
        (Binary("==", Unary("not", X), ONE), "(not x) == 1"),
        (Binary("-", Binary("-", X, Y), ONE), "x - y - 1"),
        (Binary("-", X, Binary("-", Y, ONE)), "x - (y - 1)"),
        (Binary("-", X, Const(-1)), "x - -1"),
        (Binary("*", Binary("+", X, Y), A), "(x + y) * a[0]"),
        (Binary("implies", X, Binary("implies", Y, X)), "x implies y implies x"),
        (Binary("implies", Binary("implies", X, Y), X), "(x implies y) implies x"),
        (Binary("and", Binary("or", X, Y), X), "(x or y) and x"),
        (Binary("<", Binary("<", X, Y), ONE), "(x < y) < 1"),
        (Binary("&", X, Binary("==", Y, ONE)), "x & y == 1"),
        (Binary("==", Binary("&", X, Y), ONE), "(x & y) == 1"),
        (Binary("max", X, Binary("min", Y, ONE)), "max(x, min(y, 1))"),
        (Conditional(X, Y, Conditional(Y, X, ONE)), "x ? y : y ? x : 1"),
        (Conditional(Conditional(X, Y, X), Y, X), "(x ? y : x) ? y : x"),
        (Binary("+", Conditional(X, Y, X), ONE), "(x ? y : x) + 1"),
        (Fold("sum", "j", 0, 2, Binary("+", Load("a", (Local("j"),)), X)), "(sum j in 0..2: a[j] + x)"),
        (Binary("and", Fold("all", "j", -1, 1, Local("j")), X), "(forall j in -1..1: j) and x"),
        (Queue("len", "q", (X,)), "len(q[x])"),
        (Peek("q", X, 1, (ONE,)), "peek(q[1], x, 1)"),
        (Binary("rem", Binary("div", X, Y), Binary("mod", X, Y)), "x div y rem (x mod y)"),
        (Binary(">>", X, Binary("<<", ONE, Y)), "x >> (1 << y)"),
        (Binary("^", Binary("|", X, Y), ONE), "(x | y) ^ 1"),
    ],
)
def test_expressions_have_no_needless_parentheses(expr: Expr, text: str) -> None:
    assert print_expr(expr) == text
    queue = Channel("q", ChannelKind.BUFFER, (Type(0, 1), Type(0, 1)), (2,), 2)
    network = Network(
        "n",
        variables=(Variable("x", BOOL), Variable("y", BOOL), Variable("a", BOOL, (3,), (0, 0, 0))),
        channels=(queue,),
        properties=(Property("p", Always(expr)),),
    )
    assert read(print_network(network)) == network


def test_long_chains_are_printed() -> None:
    chain: Expr = X
    for _ in range(2000):
        chain = Binary("and", chain, Y)
    assert print_expr(chain) == "x" + " and y" * 2000


def test_print_property() -> None:
    formula = TemporalUnary(
        "[]",
        TemporalBinary(
            "->", Holds(X), TemporalUnary("<>", TemporalBinary("||", Occurs("a", (1, None)), Silent()))
        ),
    )
    assert (
        print_property(Property("live", Temporal(formula), Fairness.WEAK_PROCESS))
        == "property live: ltl [] ({x} -> <> (a(1, _) || tau)) under weak-process"
    )
    goal = Property("most", Reachable(X, Optimise("max", Y)))
    assert print_property(goal) == "property most: reachable x maximise y"
    step = Property("step", Transition(Binary("<", Primed(X), Primed(Binary("+", X, ONE)))))
    assert print_property(step) == "property step: transition x' < next(x + 1)"


def test_formulas_group_as_they_are_printed() -> None:
    a, b = Occurs("a"), Occurs("b")
    until = TemporalBinary("U", a, TemporalBinary("R", b, a))
    formulas: list[Formula] = [
        until,
        TemporalBinary("U", TemporalBinary("R", b, a), a),
        TemporalBinary("->", TemporalBinary("->", a, b), a),
        TemporalBinary("<->", a, TemporalBinary("<->", b, a)),
        TemporalBinary("&&", TemporalBinary("||", a, b), TemporalBinary("&&", a, b)),
        TemporalUnary("!", TemporalUnary("X", TemporalUnary("<>", until))),
    ]
    network = Network(
        "n", properties=tuple(Property(f"p{i}", Temporal(part)) for i, part in enumerate(formulas))
    )
    assert_round_trip(network)
    assert "p0: ltl a U b R a" in print_network(network)


def test_a_whole_network_as_text() -> None:
    worker = Component(
        "W(0)",
        (
            Location("a", LocationKind.COMMITTED),
            Location("b", final=True, invariant=Binary("<", X, ONE), clock_invariant=()),
        ),
        (
            Edge(
                "a",
                "b",
                Label("go", (X,)),
                sync=Send("c", (ONE,), (X,)),
                update=(
                    Let("t", Type(0, 9), ONE, 4),
                    For("k", 0, 1, (Check(Binary("<", Local("k"), X), 'a "check"\n'),)),
                ),
                fairness=FairnessMark.STRONG,
            ),
            Edge("b", "a"),
        ),
        "a",
        variables=(Variable("W(0).n", Type(0, 2, "E"), (2,), (1, 2)),),
    )
    network = Network(
        "n",
        (Enumeration("E", ("p", "q", "r")),),
        (Variable("x", BOOL), Variable("part", Type(1, 2, "E"), (), (1,))),
        (Channel("c", ChannelKind.BUFFER, (BOOL,), (2,), 3, overflow_faults=True),),
        components=(worker,),
    )
    assert print_network(network) == (
        "network n\n"
        "enum E { p, q, r }\n"
        "var x: bool = 0\n"
        "var part: 1..2 as E = 1\n"
        "channel c[2]: buffer 3 (bool) faults\n"
        "component W(0) {\n"
        "  var n[2]: E = [1, 2]\n"
        "  committed location a initial\n"
        "  location b final invariant x < 1\n"
        "  edge a -> b {\n"
        "    action go(x)\n"
        "    send c[1](x)\n"
        "    do {\n"
        "      let t[4]: 0..9 = 1;\n"
        "      for k in 0..1 {\n"
        '        check (k < x) "a \\"check\\"\\n";\n'
        "      }\n"
        "    }\n"
        "    fair strong\n"
        "  }\n"
        "  edge b -> a\n"
        "}\n"
    )
    assert_round_trip(network)


def test_a_timed_network_as_text() -> None:
    x, own = ClockRef("x"), ClockRef("W(0).y", (Load("n"),))
    guard = (
        ClockConstraint(x, own, "<", Binary("+", Load("n"), ONE)),
        ClockConstraint(x, None, ">=", Const(2), Binary("==", Load("n"), ONE)),
    )
    worker = Component(
        "W(0)",
        (Location("a", clock_invariant=(ClockConstraint(x, None, "<=", Const(5)),)),),
        (Edge("a", "a", clock_guard=guard, sync=Send("c"), update=(Reset(own, Load("n")),)),),
        "a",
        priority=1,
    )
    test = ClockTest(ClockConstraint(own, None, "==", Const(3)))
    network = Network(
        "n",
        variables=(Variable("n", BOOL),),
        channels=(Channel("c", ChannelKind.RENDEZVOUS, (), priority=2),),
        clocks=(Clock("x"), Clock("W(0).y", (2,))),
        components=(worker,),
        properties=(
            Property("i", Inevitable(Binary("or", test, Deadlocked()))),
            Property("p", PotentiallyAlways(Unary("not", ClockTest(guard[1])))),
            Property("m", Reachable(Load("n"), Optimise("min", ClockValue(x)))),
        ),
        timed=True,
    )
    assert print_network(network) == (
        "network n\n"
        "timed\n"
        "var n: bool = 0\n"
        "channel c: rendezvous priority 2\n"
        "clock x\n"
        "clock W(0).y[2]\n"
        "component W(0) priority 1 {\n"
        "  location a initial clock x <= 5\n"
        "  edge a -> a {\n"
        "    clock x - W(0).y[n] < n + 1, x >= 2 if n == 1\n"
        "    send c\n"
        "    do {\n"
        "      reset W(0).y[n] := n;\n"
        "    }\n"
        "  }\n"
        "}\n"
        "property i: inevitable clock(W(0).y[n] == 3) or deadlock\n"
        "property p: potentially not clock(x >= 2 if n == 1)\n"
        "property m: reachable n minimise clock(x)\n"
    )
    assert_round_trip(network)
