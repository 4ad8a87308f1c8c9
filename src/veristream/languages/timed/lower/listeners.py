"""Broadcast receivers with clock guards.

A broadcast moves every component that has an enabled receiving edge. The network decides this by the
discrete guards alone: it compares clocks only after the moving components are known. A component whose
discrete guards hold would therefore have to receive even where its clock guards fail, and the broadcast
would be blocked. To prevent this, we add self-loops: at each location with such edges, for every set of
edges such that exactly their discrete guards hold, loops on the same channel test that the clock guards of
the whole set fail. If an edge without a clock guard is also enabled, the component must take one of the
edges, so the loops require that no such edge is enabled.

In the IR such a loop leaves its location, so a committed location must not have one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

from veristream.errors import ModelError
from veristream.ir import expr as ir
from veristream.ir import network as net
from veristream.ir.actions import can_agree
from veristream.languages.timed.lower.programs.constraints import negate
from veristream.languages.timed.lower.programs.fold import conjunction, negation

GUARDED_MAX = 6
"""The maximum number of receiving edges with clock guards per location and channel, or element of one."""


def add_listening(
    edges: Sequence[net.Edge], broadcasts: set[str], committed: set[str]
) -> tuple[net.Edge, ...]:
    """Returns the edges of a component with the self-loops for broadcasts that it does not receive."""
    groups: dict[tuple[str, str], list[net.Edge]] = {}
    for edge in edges:
        if isinstance(edge.sync, net.Receive) and edge.sync.channel in broadcasts:
            groups.setdefault((edge.source, edge.sync.channel), []).append(edge)
    loops: list[net.Edge] = []
    for (source, _), group in groups.items():
        guarded = [edge for edge in group if edge.clock_guard]
        if guarded:
            _check(guarded[0], source in committed)
            loops += _loops(guarded, [edge for edge in group if not edge.clock_guard])
    return (*edges, *loops)


def _check(guarded: net.Edge, committed: bool) -> None:
    if committed:
        raise ModelError(
            "a clock guard on a broadcast receiver at a committed location is not supported",
            guarded.span,
            "make the location urgent, or test the clock on another edge",
        )


def _loops(guarded: list[net.Edge], plain: list[net.Edge]) -> Iterator[net.Edge]:
    """Yields the loops of a location, for each channel that an edge with a clock guard uses."""
    for indices in dict.fromkeys(_indices(edge) for edge in guarded):
        none_plain = [negation(_enabled(edge, indices)) for edge in _agreeing(plain, indices)]
        possible = [edge for edge in _agreeing(guarded, indices) if _enabled(edge, indices) != ir.FALSE]
        _check_count(possible)
        for chosen in product((False, True), repeat=len(possible)):
            enabled = [edge for edge, one in zip(possible, chosen, strict=True) if one]
            if not enabled:
                continue
            tests = [
                _enabled(edge, indices) if one else negation(_enabled(edge, indices))
                for edge, one in zip(possible, chosen, strict=True)
            ]
            for failing in product(*(edge.clock_guard for edge in enabled)):
                yield from _staying(enabled[0], [*tests, *none_plain], failing)


def _agreeing(edges: list[net.Edge], indices: tuple[ir.Expr, ...]) -> list[net.Edge]:
    return [edge for edge in edges if can_agree(_indices(edge), indices)]


def _check_count(possible: list[net.Edge]) -> None:
    if len(possible) > GUARDED_MAX:
        raise ModelError(
            f"this location has {len(possible)} receiving edges with clock guards",
            possible[0].span,
            f"at most {GUARDED_MAX} are supported per location and broadcast channel",
        )


def _staying(
    edge: net.Edge, tests: list[ir.Expr], failing: tuple[ir.ClockConstraint, ...]
) -> Iterator[net.Edge]:
    """Yields loops which test that every constraint fails."""
    guard = conjunction([*tests, *(one.when for one in failing if one.when is not None)])
    if guard == ir.FALSE:
        return
    for clocks in product(*(negate(one) for one in failing)):
        yield net.Edge(
            edge.source,
            edge.source,
            guard=None if guard == ir.TRUE else guard,
            clock_guard=clocks,
            sync=edge.sync,
            span=edge.span,
        )


def _indices(edge: net.Edge) -> tuple[ir.Expr, ...]:
    assert isinstance(edge.sync, net.Receive)
    return edge.sync.indices


def _enabled(edge: net.Edge, indices: tuple[ir.Expr, ...]) -> ir.Expr:
    """Returns the condition, without clocks, for the edge to receive on the channel with these indices."""
    same = [_equal(one, other) for one, other in zip(_indices(edge), indices, strict=True)]
    condition = conjunction([*same, ir.TRUE if edge.guard is None else edge.guard])
    for select in reversed(edge.select):
        condition = ir.Fold("any", select.name, select.low, select.high, condition, span=select.span)
    return condition


def _equal(one: ir.Expr, other: ir.Expr) -> ir.Expr:
    if one == other:
        return ir.TRUE
    if isinstance(one, ir.Const) and isinstance(other, ir.Const):
        return ir.FALSE
    return ir.Binary("==", one, other, span=one.span)
