"""Small networks and their steps, for tests of the interpreter."""

from __future__ import annotations

from dataclasses import replace

from veristream.ir.expr import (
    Assign,
    Binary,
    Const,
    Expr,
    Load,
    Type,
)
from veristream.ir.network import (
    Bind,
    Channel,
    ChannelKind,
    Component,
    Edge,
    Label,
    Location,
    LocationKind,
    Meet,
    Network,
    Receive,
    Variable,
)
from veristream.ir.oracle.interpret import Interpreter
from veristream.ir.state import State

DIGIT = Type(0, 9)
V = Load("v")
W = Load("w")
BAD = Binary("div", Const(1), Const(0))
NOT_ZERO = Binary("div", Const(1), V)
"""Faults while v is 0, as it is initially."""
COMMITTED, ATOMIC = LocationKind.COMMITTED, LocationKind.ATOMIC


def add(left: Expr, right: Expr) -> Binary:
    return Binary("+", left, right)


def set_v(value: Expr) -> tuple[Assign]:
    return (Assign(V, value),)


def process(name: str, *edges: Edge, locations: tuple[Location, ...] = ()) -> Component:
    """Returns a component that starts at `x` and can go to `y`."""
    return Component(name, locations or (Location("x"), Location("y")), edges, "x")


def network(*components: Component, channels: tuple[Channel, ...] = ()) -> Network:
    """Returns components with two shared digits, v and w."""
    digits = (Variable("v", DIGIT), Variable("w", DIGIT))
    return Network("n", variables=digits, channels=channels, components=components)


def outcomes(model: Network, state: State | None = None) -> list[tuple[str, str, State]]:
    """Returns label, process and state of every step."""
    interpreter = Interpreter(model)
    return [(s.label, s.process, s.state) for s in interpreter.steps(state or interpreter.initial())]


def labels(model: Network, state: State | None = None) -> list[str]:
    """The labels of the steps."""
    return [label for label, _, _ in outcomes(model, state)]


def faults(model: Network, state: State | None = None) -> list[tuple[str, str, str]]:
    """Returns label, process and message of every failure."""
    interpreter = Interpreter(model)
    found = interpreter.failures(state or interpreter.initial())
    return [(f.label, f.process, f.fault.message) for f in found]


def go(name: str = "go", /, **parts: object) -> Edge:
    """Returns an edge from x to y with that label."""
    return replace(Edge("x", "y", label=Label(name)), **parts)  # type: ignore[arg-type]


PAIR = Channel("c", ChannelKind.RENDEZVOUS, (DIGIT,))
PAIRS = replace(PAIR, shape=(3,))


CAST = Channel("c", ChannelKind.BROADCAST, (DIGIT,))


def hear(**parts: object) -> Edge:
    edge = Edge("x", "y", sync=Receive("c", (), (Bind("r"),)))
    return replace(edge, **parts)  # type: ignore[arg-type]


def buffer(**parts: object) -> Channel:
    channel = Channel("q", ChannelKind.BUFFER, (DIGIT, DIGIT), capacity=2)
    return replace(channel, **parts)  # type: ignore[arg-type]


def barrier(*vectors: tuple[str, ...], shape: tuple[int, ...] = ()) -> Channel:
    return Channel("c", ChannelKind.BARRIER, shape=shape, vectors=vectors)


def meet(name: str, digit: int, **parts: object) -> Component:
    """Returns a component that doubles v and adds its digit when it meets."""
    append = set_v(add(Binary("*", V, Const(2)), Const(digit)))
    edge = replace(Edge("x", "y", sync=Meet("c"), update=append), **parts)  # type: ignore[arg-type]
    return process(name, edge)


SLOT = Component(
    "S",
    (Location("x"), Location("done", final=True)),
    (Edge("x", "done", label=Label("work"), update=(Assign(Load("S.n", (Const(0),)), Const(5)),)),),
    "x",
    idle=True,
    variables=(Variable("S.n", DIGIT, (2,), (1, 2)),),
)


def slotted(*edges: Edge) -> Network:
    """Returns a component P with a slot S that it can start."""
    return network(process("P", *edges), SLOT)


def at(name: str, kind: LocationKind, *edges: Edge) -> Component:
    return process(name, *edges, locations=(Location("x", kind), Location("y")))
