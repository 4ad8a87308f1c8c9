"""Writes bags: a component that counts its members at each location, since only their number matters.

Part of `components`; `lists` has the bags whose members keep values. Each step moves a member from one
counter to another.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import product
from typing import Any, Protocol

from veristream.ir import expr as ir
from veristream.ir import network as net
from veristream.languages.csp.lower.channels import Channels
from veristream.languages.csp.lower.machine import BAG, Arc, Component, Start
from veristream.languages.csp.lower.moves import Meets
from veristream.languages.csp.lower.steps import meet
from veristream.languages.csp.syntax import Expr, Skip, Stop


class Writes(Protocol):
    """What bags need of the writer of components."""

    channels: Channels

    def edges(self, component: Component, arc: Arc) -> Iterable[net.Edge]: ...

    def condition(
        self, component: Component, conditions: Iterable[Expr], more: Mapping[str, ir.Expr] | None = None
    ) -> ir.Expr | None: ...

    def started(self, component: Component) -> Start | None: ...


def write(writer: Writes, component: Component) -> net.Component:
    """Returns the component of a bag."""
    edges = [
        replace(edge, source=BAG, target=BAG, **_count(component, [arc], edge))
        for arc in component.arcs
        for edge in writer.edges(component, arc)
    ]
    edges += _meetings(writer, component)
    start = writer.started(component)
    variable = net.Variable(
        f"{component.name}.n",
        ir.Type(0, component.size),
        (len(component.locations),),
        tuple(_numbers(component, start.members if start else ())),
    )
    return net.Component(
        component.name,
        (net.Location(BAG),),
        tuple(edges),
        BAG,
        start is None,
        (variable,),
        span=component.span,
    )


def beginning(start: Start, again: bool) -> list[tuple[ir.Load, ir.Expr]]:
    """Returns the values of the counters when a bag starts; all of them if it starts `again`."""
    places = start.component.locations.values()
    numbers = _numbers(start.component, start.members)
    return [
        (members_at(start.component, place), ir.Const(number))
        for place, number in zip(places, numbers, strict=True)
        if again or number
    ]


def _numbers(component: Component, members: Iterable[Start]) -> list[int]:
    """Returns the number of members at each location; an unlimited supply is not counted."""
    found = Counter(member.location for member in members)
    if component.endless is not None:
        del found[component.endless]
    return [found[place] for place in component.locations.values()]


def _meetings(writer: Writes, component: Component) -> Iterable[net.Edge]:
    """Yields the edges for a rendezvous between two members of a bag."""
    for output, entry in product(component.arcs, component.arcs):
        joined = meet(output.move, entry.move)
        if joined is None or not isinstance(joined.act, Meets):
            continue
        if writer.channels.named(joined.act.channel).capacity:
            continue
        arc = Arc(output.source, joined, (output.starts[0],))
        for edge in writer.edges(component, arc):
            yield replace(edge, source=BAG, target=BAG, **_count(component, [output, entry], edge))


def _count(component: Component, arcs: list[Arc], edge: net.Edge) -> dict[str, Any]:
    """Returns the guard and update of an edge, extended by the members that leave and arrive."""
    guard, update = edge.guard, list(edge.update)
    leaving = Counter(arc.source for arc in arcs)
    arriving = Counter(arc.starts[0].location for arc in arcs)
    if component.endless is not None:  # the supply is unlimited, and finished members are not counted
        del leaving[component.endless]
        for gone in (component.endless, *_finished(component)):
            del arriving[gone]
    tests: list[ir.Expr] = [
        ir.Binary(">=", members_at(component, place), ir.Const(count)) for place, count in leaving.items()
    ]
    more = arriving.total() - leaving.total()
    if component.endless is not None and more > 0:
        index = ir.Load(f"{component.name}.n", (ir.Local("place"),))
        total = ir.Fold("sum", "place", 0, len(component.locations) - 1, index)
        tests.append(ir.Binary("<=", total, ir.Const(component.size - more)))
    for test in reversed(tests):
        guard = test if guard is None else ir.Binary("and", test, guard)
    for place in dict.fromkeys((*leaving, *arriving)):
        change = arriving[place] - leaving[place]
        if change:
            here = members_at(component, place)
            update.append(ir.Assign(here, ir.Binary("+", here, ir.Const(change))))
    return {"guard": guard, "update": tuple(update)}


def _finished(component: Component) -> list[str]:
    return [name for term, name in component.locations.items() if isinstance(term, Skip | Stop)]


def can_end(writer: Writes, component: Component) -> ir.Expr | None:
    """Returns the condition that every member can terminate, or None if that is never possible."""
    result: ir.Expr | None = None
    for place in component.locations.values():
        none: ir.Expr = ir.Binary("==", members_at(component, place), ir.Const(0))
        here = None if place == component.endless else none
        for location, move in component.ends:
            if location == place:
                guard = writer.condition(component, move.conditions) or ir.TRUE
                here = guard if here is None else ir.Binary("or", here, guard)
        if here is None:
            return None
        result = here if result is None else ir.Binary("and", result, here)
    return result


def members_at(component: Component, location: str) -> ir.Load:
    """Returns the counter of the members of a bag at the location."""
    position = list(component.locations.values()).index(location)
    return ir.Load(f"{component.name}.n", (ir.Const(position),))
