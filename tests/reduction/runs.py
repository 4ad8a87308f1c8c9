"""Random pairs of a network and a temporal property, and verdicts with and without reduction of runs."""

from __future__ import annotations

from collections.abc import Callable
from unittest import mock

from hypothesis import strategies as st

from tests.ltl.test_random import conditions, occurrences
from tests.strategies_ltl import PROPOSITIONS, formulas
from veristream.ir.expr import Assign, AtLocation, Binary, Block, Const, Expr, Load, Type, Unary
from veristream.ir.network import (
    Channel,
    ChannelKind,
    Component,
    Edge,
    Label,
    Location,
    Network,
    Receive,
    Send,
    Sync,
    Variable,
)
from veristream.ir.property import (
    Claim,
    Formula,
    Holds,
    LeadsTo,
    Property,
    Temporal,
    TemporalBinary,
    TemporalUnary,
)
from veristream.search.engine import check
from veristream.search.limits import Limits
from veristream.search.reduction.relations import Relations
from veristream.search.runs import liveness
from veristream.search.runs.interruption import is_interruptible
from veristream.search.runs.product import formula_of
from veristream.search.runs.reduction import relations_of
from veristream.verdict import Result

Spoil = Callable[[Relations], Relations]
"""Plants a mistake in the relations."""


def faithful(relations: Relations) -> Relations:
    """Plants no mistake."""
    return relations


def check_in_full(network: Network, property_: Property, states_max: int | None = None) -> Result:
    """The result without reduction."""
    (result,) = check(network, [property_], Limits(workers=1, states_max=states_max))
    return result


def check_reduced(network: Network, property_: Property, spoil: Spoil = faithful) -> Result:
    """The result with reduction, which begins with the first state, and with every look for a violation."""
    with (
        mock.patch.object(liveness, "FIRST_LOOK", 1),
        mock.patch.object(liveness, "relations_of", lambda product: spoil(relations_of(product))),
    ):
        (result,) = check(network, [property_], Limits(workers=1, reduction=True))
    return result


# Networks whose components have little to do with each other.


@st.composite
def loose_networks(draw: st.DrawFn) -> Network:
    """Three to five components that mostly move by themselves, a shared bit, and a channel."""
    names = [f"P{i}" for i in range(draw(st.integers(3, 5)))]
    kind = draw(st.sampled_from([ChannelKind.RENDEZVOUS, ChannelKind.BROADCAST, ChannelKind.BUFFER]))
    components = tuple(draw(_components(name, names)) for name in names)
    channel = Channel("c", kind, capacity=2 if kind is ChannelKind.BUFFER else 0)
    shared = Variable("x", Type(0, 1))
    own = tuple(Variable(f"v{name}", Type(0, 2)) for name in names)
    return Network("loose", variables=(shared, *own), channels=(channel,), components=components)


@st.composite
def _components(draw: st.DrawFn, name: str, names: list[str]) -> Component:
    places = [f"l{i}" for i in range(draw(st.integers(2, 4)))]
    locations = tuple(Location(place) for place in places)
    edges = draw(st.lists(_edges(places, name, names), min_size=1, max_size=5))
    return Component(name, locations, tuple(edges), "l0")


@st.composite
def _edges(draw: st.DrawFn, places: list[str], name: str, names: list[str]) -> Edge:
    own, shared = Load(f"v{name}"), Load("x")
    labels = [None, Label("a"), Label("b"), Label("c", (own,)), Label("c", (Const(1),))]
    syncs: list[Sync | None] = [None] * 8
    turned = Binary("mod", Binary("+", own, Const(1)), Const(3))
    updates: list[Block] = [(), (), (), (Assign(own, Const(1)),), (Assign(own, turned),)]
    updates += [(Assign(shared, Binary("-", Const(1), shared)),)]
    guards: list[Expr | None] = [None] * 5
    guards += [Binary("==", own, Const(1)), Unary("not", shared)]
    guards += [AtLocation(other, "l0") for other in names[:2] if other != name]
    return Edge(
        draw(st.sampled_from(places)),
        draw(st.sampled_from(places)),
        label=draw(st.sampled_from(labels)),
        guard=draw(st.sampled_from(guards)),
        sync=draw(st.sampled_from([*syncs, Send("c"), Receive("c")])),
        update=draw(st.sampled_from(updates)),
        visible=draw(st.sampled_from([True, True, False])),
    )


# Properties without next.


def properties(network: Network) -> st.SearchStrategy[Property]:
    """A temporal property of the network that does not notice invisible steps, under no fairness."""
    condition = conditions(network)
    claims: st.SearchStrategy[Claim] = st.one_of(
        _temporals(network), _temporals(network), st.builds(LeadsTo, condition, condition)
    )
    made = st.builds(Property, st.just("random"), claims)
    return made.filter(lambda one: is_interruptible(formula_of(one)))


def _temporals(network: Network) -> st.SearchStrategy[Claim]:
    named = st.fixed_dictionaries(
        {
            PROPOSITIONS["p"]: conditions(network).map(Holds),
            PROPOSITIONS["q"]: conditions(network).map(Holds),
            PROPOSITIONS["a"]: occurrences(network),
        }
    )
    drawn = st.integers(1, 3).flatmap(lambda depth: formulas(depth, "p q a"))
    plain = st.builds(_substitute, drawn, named)
    again = plain.map(lambda f: TemporalUnary("[]", TemporalUnary("<>", f)))
    stays = plain.map(lambda f: TemporalUnary("<>", TemporalUnary("[]", f)))
    return st.one_of(plain, again, stays).map(Temporal)


def _substitute(formula: Formula, names: dict[Formula, Formula]) -> Formula:
    """The formula with other propositions, and without next."""
    match formula:
        case TemporalUnary(op="X", operand=operand):
            return _substitute(operand, names)
        case TemporalUnary(op=op, operand=operand):
            return TemporalUnary(op, _substitute(operand, names))
        case TemporalBinary(op=op, left=left, right=right):
            return TemporalBinary(op, _substitute(left, names), _substitute(right, names))
        case _:
            return names.get(formula, formula)
