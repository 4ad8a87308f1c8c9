"""The largest constants that each clock is compared with, by location.

Beyond them the exact value of a clock does not matter, so extrapolation leaves finitely many zones. A
location needs the constants of the tests that its component can reach before it sets the clock
(Behrmann, Bouyer, Fleury, Larsen, "Static guard analysis in timed automata verification", TACAS 2003).
Constants of lower bounds (`x > c`) are separate from those of upper bounds (`x < c`).

Differences of two clocks are a list, because zones must be split along them first (Bengtsson and Yi, "On
clock difference constraints and termination in reachability analysis of timed automata", 2003).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

import numpy as np
from numpy.typing import NDArray

from veristream.errors import ModelError
from veristream.ir import expr as ir
from veristream.ir.bounds import Names, edge_names, interval, names_of
from veristream.ir.clocks import Bound, NumberedClock, bounds_of, count_clocks, number_clocks
from veristream.ir.constant import constant_value
from veristream.ir.network import Component, Edge, Function, Network

NEVER = -1
"""The bound of a clock without comparisons."""

VALUES_MAX = 64
"""The maximum number of values that the bound of a difference can have."""


@dataclass(frozen=True, slots=True)
class ClockBounds:
    """The largest constants of lower and of upper bounds, by location and clock number.

    Locations are numbered across all components. `NEVER` marks a clock without comparisons. Zones are split
    along `differences`.
    """

    lower: NDArray[np.int32]
    upper: NDArray[np.int32]
    differences: tuple[Bound, ...]


@dataclass(frozen=True, slots=True)
class _Analysis:
    network: Network
    numbers: dict[str, NumberedClock]
    functions: dict[str, Function]
    count: int


def clock_bounds(network: Network, asked: Sequence[ir.ClockConstraint]) -> ClockBounds:
    """Computes the bounds of a network; `asked` are the constraints of its properties."""
    functions = {function.name: function for function in network.functions}
    analysis = _Analysis(network, number_clocks(network), functions, count_clocks(network))
    names = names_of(network)
    tables = [_of_component(analysis, component, names) for component in network.components]
    lower = np.concatenate([table[0] for table in tables])
    upper = np.concatenate([table[1] for table in tables])
    for constraint in asked:
        _note(analysis, constraint, names, lower, upper)
    differences = tuple(dict.fromkeys(_differences(analysis, names, asked)))
    most = max((value for value in _set_values(analysis)), default=0)
    for bound in differences:
        for clock in (bound.left, bound.right):
            reach = abs(bound.limit) + most
            np.maximum(lower[:, clock], reach, out=lower[:, clock])
            np.maximum(upper[:, clock], reach, out=upper[:, clock])
    return ClockBounds(lower, upper, differences)


def _of_component(
    analysis: _Analysis, component: Component, names: Names
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Fills the tables of one component: propagates the constants of its edges and invariants backwards."""
    shape = (len(component.locations), analysis.count + 1)
    lower, upper = np.full(shape, NEVER, np.int32), np.full(shape, NEVER, np.int32)
    at = {location.name: i for i, location in enumerate(component.locations)}
    for i, location in enumerate(component.locations):
        for constraint in location.clock_invariant:
            _note(analysis, constraint, names, lower[i : i + 1], upper[i : i + 1])
    kept: list[tuple[int, int, NDArray[np.bool_]]] = []
    for edge in component.edges:
        i = at[edge.source]
        known = edge_names(names, edge)
        for constraint in edge.clock_guard:
            _note(analysis, constraint, known, lower[i : i + 1], upper[i : i + 1])
        kept.append((i, at[edge.target], _kept(analysis, edge)))
    changed = True
    while changed:
        changed = False
        for source, target, keeps in kept:
            for table in (lower, upper):
                more = keeps & (table[target] > table[source])
                if more.any():
                    table[source, more] = table[target, more]
                    changed = True
    return lower, upper


def _note(
    analysis: _Analysis,
    constraint: ir.ClockConstraint,
    names: Names,
    lower: NDArray[np.int32],
    upper: NDArray[np.int32],
) -> None:
    """Raises the entries of the tables to the constant of a comparison."""
    if constraint.right is not None:
        return
    limit = max(0, interval(constraint.bound, names).high)
    for number in _numbers(analysis, constraint.left):
        if constraint.op in (">", ">=", "=="):
            np.maximum(lower[:, number], limit, out=lower[:, number])
        if constraint.op in ("<", "<=", "=="):
            np.maximum(upper[:, number], limit, out=upper[:, number])


def _numbers(analysis: _Analysis, ref: ir.ClockRef) -> list[int]:
    """Returns the numbers of the clocks that the reference can denote."""
    clock = analysis.numbers[ref.clock]
    at = [constant_value(index) for index in ref.indices]
    if any(index is None for index in at):
        return list(range(clock.first, clock.first + prod(clock.shape)))
    offset = 0
    for index, size in zip(at, clock.shape, strict=True):
        offset = offset * size + (index or 0)
    return [clock.first + offset] if offset < prod(clock.shape) else []


def _kept(analysis: _Analysis, edge: Edge) -> NDArray[np.bool_]:
    """Returns, by clock number, whether the clock may keep its value along the edge."""
    keeps = np.ones(analysis.count + 1, np.bool_)
    for number in _surely_set(analysis, edge.update):
        keeps[number] = False
    return keeps


def _surely_set(analysis: _Analysis, block: ir.Block) -> Iterable[int]:
    """Yields the clocks that the block sets on every path."""
    for statement in block:
        match statement:
            case ir.Reset(clock=ref):
                numbers = _numbers(analysis, ref)
                if len(numbers) == 1:
                    yield numbers[0]
            case ir.Evaluate(value=ir.Call(function=name)) | ir.Assign(value=ir.Call(function=name)):
                yield from _surely_set(analysis, analysis.functions[name].body)
            case ir.Assign() | ir.Let() | ir.Evaluate():
                pass
            case _:  # the block may end early from here on
                return


def _set_values(analysis: _Analysis) -> Iterable[int]:
    """Yields the largest value of each reset."""
    names = names_of(analysis.network)
    for function in analysis.network.functions:
        scope = names
        for parameter in function.parameters:
            scope = scope.add(parameter.name, parameter.type)
        yield from _values_in(function.body, scope)
    for component in analysis.network.components:
        for edge in component.edges:
            yield from _values_in(edge.update, edge_names(names, edge))


def _values_in(block: ir.Block, names: Names) -> Iterable[int]:
    for statement in block:
        match statement:
            case ir.Reset(value=value):
                yield interval(value, names).high
            case ir.Let(name=name, type=type_):
                names = names.add(name, type_)
            case ir.If(then=then, otherwise=otherwise):
                yield from _values_in(then, names)
                yield from _values_in(otherwise, names)
            case ir.While(body=body):
                yield from _values_in(body, names)
            case ir.For(name=name, low=low, high=high, body=body):
                yield from _values_in(body, names.add(name, ir.Type(low, high)))
            case _:
                pass


def _differences(analysis: _Analysis, names: Names, asked: Sequence[ir.ClockConstraint]) -> Iterable[Bound]:
    """Yields every compared difference of two clocks, once for each bound it can have."""
    for constraint in asked:
        yield from _difference(analysis, constraint, names)
    for component in analysis.network.components:
        for location in component.locations:
            for constraint in location.clock_invariant:
                yield from _difference(analysis, constraint, names)
        for edge in component.edges:
            for constraint in edge.clock_guard:
                yield from _difference(analysis, constraint, edge_names(names, edge))


def _difference(analysis: _Analysis, constraint: ir.ClockConstraint, names: Names) -> Iterable[Bound]:
    if constraint.right is None:
        return
    limits = _values(constraint.bound, names)
    lefts, rights = _numbers(analysis, constraint.left), _numbers(analysis, constraint.right)
    for left, right, limit in product(lefts, rights, limits):
        if left != right:
            yield from bounds_of(constraint.op, left, right, limit)


def _values(bound: ir.Expr, names: Names) -> range:
    found = interval(bound, names)
    if found.high - found.low >= VALUES_MAX:
        raise ModelError(
            f"the bound of this clock difference has {found.high - found.low + 1} values",
            bound.span,
            f"use a constant, or a variable with at most {VALUES_MAX} values",
        )
    return range(found.low, found.high + 1)
