"""Random networks, formulas and fairness: the search and the tableau of `oracle` must agree.

Two kinds of networks are drawn: those of `tests.strategies`, which have everything a network can
have, and small ones of this file, whose states are few and whose graphs are dense, so that cycles,
and with them fairness, matter.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from unittest import mock

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from tests.ltl.oracle import TooLargeError, breaks, oracle_verdict
from tests.strategies import networks
from tests.strategies_ltl import PROPOSITIONS, formulas
from veristream.ir.actions import list_actions
from veristream.ir.expr import Assign, AtLocation, Binary, Block, Const, Expr, Load, Type, Unary
from veristream.ir.network import (
    Channel,
    ChannelKind,
    Component,
    Edge,
    FairnessMark,
    Label,
    Location,
    LocationKind,
    Meet,
    Network,
    Receive,
    Send,
    Sync,
    Variable,
    all_variables,
)
from veristream.ir.property import (
    Claim,
    DivergenceFree,
    Fairness,
    Formula,
    Holds,
    LeadsTo,
    Occurs,
    Property,
    Silent,
    Temporal,
    TemporalBinary,
    TemporalUnary,
)
from veristream.ir.verify import verify
from veristream.search.engine import check
from veristream.search.limits import Limits
from veristream.search.runs import liveness
from veristream.verdict import Result, Violated, word
from veristream_testing.states import explore

STATE_COUNT_MAX = 300
NODE_COUNT_MAX = 100_000

patient = settings(deadline=None, suppress_health_check=list(HealthCheck))


# Small dense networks.


@st.composite
def dense_networks(draw: st.DrawFn) -> Network:
    """One to three components on a bit, with marks, labels, guards and one channel among them."""
    kinds = [ChannelKind.RENDEZVOUS, ChannelKind.BROADCAST, ChannelKind.BARRIER, ChannelKind.BUFFER]
    names = [f"P{i}" for i in range(draw(st.integers(1, 3)))]
    kind = draw(st.sampled_from(kinds if len(names) > 1 else kinds[3:]))
    components = tuple(draw(_components(name, names, kind)) for name in names)
    vectors = tuple(dict.fromkeys(draw(_vectors(names)))) if kind is ChannelKind.BARRIER else ()
    capacity = 1 if kind is ChannelKind.BUFFER else 0
    channel = Channel("c", kind, capacity=capacity, vectors=vectors)
    bit = Variable("x", Type(0, 1))
    network = Network("dense", variables=(bit,), channels=(channel,), components=components)
    return _without_lonely_meetings(network)


def _vectors(names: list[str]) -> st.SearchStrategy[list[tuple[str, ...]]]:
    vector = st.permutations(names).map(lambda order: tuple(order[:2]))
    return st.lists(vector, min_size=1, max_size=2)


@st.composite
def _components(draw: st.DrawFn, name: str, names: list[str], kind: ChannelKind) -> Component:
    places = [f"l{i}" for i in range(draw(st.integers(1, 3)))]
    kinds = [LocationKind.NORMAL] * 8 + [LocationKind.ATOMIC, LocationKind.COMMITTED]
    others = tuple(Location(place, draw(st.sampled_from(kinds))) for place in places[1:])
    edges = draw(st.lists(_edges(places, name, names, kind), min_size=1, max_size=5))
    return Component(name, (Location("l0"), *others), tuple(edges), "l0")


@st.composite
def _edges(draw: st.DrawFn, places: list[str], name: str, names: list[str], kind: ChannelKind) -> Edge:
    place = st.sampled_from(places)
    labels = [None, Label("a"), Label("b"), Label("c", (Const(0),)), Label("c", (Const(1),))]
    labels.append(Label("c", (Load("x"),)))
    syncs: list[Sync | None] = [None, None, None]
    syncs += [Meet("c")] if kind is ChannelKind.BARRIER else [Send("c"), Receive("c")]
    updates: list[Block] = [(), (), (Assign(Load("x"), Binary("-", Const(1), Load("x"))),)]
    updates.append((Assign(Load("x"), Const(draw(st.integers(0, 1)))),))
    marks = [FairnessMark.NONE] * 3 + [FairnessMark.WEAK, FairnessMark.STRONG]
    return Edge(
        draw(place),
        draw(place),
        label=draw(st.sampled_from(labels)),
        guard=draw(st.none() | st.none() | _guards(name, names)),
        sync=draw(st.sampled_from(syncs)),
        update=draw(st.sampled_from(updates)),
        visible=draw(st.sampled_from([True, True, False])),
        fairness=draw(st.sampled_from(marks)),
    )


def _guards(name: str, names: list[str]) -> st.SearchStrategy[Expr]:
    guards: list[Expr] = [Load("x"), Unary("not", Load("x"))]
    guards += [AtLocation(other, "l0") for other in names if other != name]
    return st.sampled_from([*guards, *(Unary("not", guard) for guard in guards[2:])])


def _without_lonely_meetings(network: Network) -> Network:
    """The network without the meetings of those whom no vector names."""
    members = {name for channel in network.channels for vector in channel.vectors for name in vector}

    def keeps(component: Component) -> Component:
        if component.name in members:
            return component
        edges = tuple(edge for edge in component.edges if not isinstance(edge.sync, Meet))
        return replace(component, edges=edges)

    return replace(network, components=tuple(map(keeps, network.components)))


# Properties.


def conditions(network: Network) -> st.SearchStrategy[Expr]:
    """Where a component is, or what a variable's first element is."""
    places: list[Expr] = [
        AtLocation(component.name, location.name)
        for component in network.components
        for location in component.locations
    ]
    values: list[Expr] = [
        Binary(
            "==", Load(variable.name, tuple(Const(0) for _ in variable.shape)), Const(variable.initial[0])
        )
        for variable in all_variables(network)
    ]
    return st.sampled_from(places + values)


def occurrences(network: Network) -> st.SearchStrategy[Formula]:
    """An action of the network, with or without its arguments, or a silent one."""
    labels = [action.label for action in list_actions(network)]
    some: list[Formula] = [Occurs(label.name) for label in labels]
    some += [
        Occurs(label.name, tuple(value for _ in label.arguments))
        for label in labels
        for value in (0, 1, None)
        if label.arguments
    ]
    return st.sampled_from([*some, Silent()])


def properties(network: Network) -> st.SearchStrategy[Property]:
    """A temporal property of the network, under any fairness."""
    condition = conditions(network)
    claims: st.SearchStrategy[Claim] = st.one_of(
        _temporals(network),
        _temporals(network),
        st.builds(LeadsTo, condition, condition),
        st.just(DivergenceFree()),
    )
    return st.builds(Property, st.just("random"), claims, st.sampled_from(Fairness))


def _temporals(network: Network) -> st.SearchStrategy[Claim]:
    named = st.fixed_dictionaries(
        {
            PROPOSITIONS["p"]: conditions(network).map(Holds),
            PROPOSITIONS["q"]: conditions(network).map(Holds),
            PROPOSITIONS["a"]: occurrences(network),
        }
    )
    drawn = st.integers(1, 3).flatmap(lambda depth: formulas(depth, "p q a tau"))
    plain = st.builds(_substitute, drawn, named)
    again = plain.map(lambda f: TemporalUnary("[]", TemporalUnary("<>", f)))
    return st.one_of(plain, plain, again).map(Temporal)


def _substitute(formula: Formula, names: dict[Formula, Formula]) -> Formula:
    match formula:
        case TemporalUnary(op=op, operand=operand):
            return TemporalUnary(op, _substitute(operand, names))
        case TemporalBinary(op=op, left=left, right=right):
            return TemporalBinary(op, _substitute(left, names), _substitute(right, names))
        case _:
            return names.get(formula, formula)


# The tests.


def search_here(network: Network, property_: Property) -> Result:
    """The local engine's result."""
    return check(network, [property_], Limits())[0]


def compare(
    network: Network,
    property_: Property,
    first_look: int,
    search: Callable[[Network, Property], Result] = search_here,
) -> None:
    """The search's verdict is the oracle's, and its lasso is fair and breaks the property.

    The search looks for violations after `first_look` states already, before all are explored.
    """
    verify(replace(network, properties=(property_,)))
    try:
        holds = oracle_verdict(
            network, property_, state_count_max=STATE_COUNT_MAX, node_count_max=NODE_COUNT_MAX
        )
    except TooLargeError:
        event("too large")
        return
    with mock.patch.object(liveness, "FIRST_LOOK", first_look):
        result = search(network, property_)
    event(f"{word(result.verdict)} under {property_.fairness.value}")
    assert word(result.verdict) == ("holds" if holds else "violated")
    if isinstance(result.verdict, Violated):
        assert result.verdict.trace is not None
        # A loop that would have to take very many steps is shown without them, and says so.
        if "a fair run also takes infinitely often" not in result.verdict.reason:
            assert breaks(network, property_, result.verdict.trace)


looks = st.sampled_from([liveness.FIRST_LOOK, 1, 4, 16])


@pytest.mark.parametrize("examples", [40, pytest.param(150, marks=pytest.mark.long)])
def test_search_and_oracle_agree_on_dense_networks(examples: int) -> None:
    settings(patient, max_examples=examples)(given(st.data())(_compare_dense))()


def _compare_dense(data: st.DataObject) -> None:
    network = data.draw(dense_networks())
    compare(network, data.draw(properties(network)), data.draw(looks))


@settings(patient, max_examples=70)
@given(st.data())
def test_search_and_oracle_agree_on_all_networks(data: st.DataObject) -> None:
    network = data.draw(networks(faults=False))
    if explore(network, STATE_COUNT_MAX).complete:
        compare(network, data.draw(properties(network)), data.draw(looks))
