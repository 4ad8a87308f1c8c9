"""Ranges of the parameters of functions that are declared `const int`.

Such a parameter has 32 bits. With that range, products and clocks that are set to it would often exceed
what a Network can hold. So it gets a range that contains the default one and everything that is passed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from veristream.errors import ModelError
from veristream.ir import expr as ir
from veristream.ir import network as net
from veristream.ir.bounds import Interval, Names, interval, names_of
from veristream.ir.walk import walk
from veristream.languages.timed.lower.types import INT, WIDE, Range


def narrow_parameters(network: net.Network) -> net.Network:
    """Returns the Network with the least ranges for the wide parameters of its functions."""
    functions = {one.name: one for one in network.functions}
    if not any(parameter.type == WIDE for one in network.functions for parameter in one.parameters):
        return network
    names, passed = names_of(network), dict[tuple[str, int], list[Interval]]()
    for owner in (network.components, network.properties):
        _collect(owner, names, passed)
    for name in _callers_first(functions):
        functions[name] = _narrowed(functions[name], passed)
        _collect(functions[name], names, passed)
    return replace(network, functions=tuple(functions.values()))


def _narrowed(function: net.Function, passed: dict[tuple[str, int], list[Interval]]) -> net.Function:
    parameters = tuple(
        replace(one, type=_hull(passed.get((function.name, number), ()))) if one.type == WIDE else one
        for number, one in enumerate(function.parameters)
    )
    return replace(function, parameters=parameters)


def _hull(intervals: Iterable[Interval]) -> Range:
    found = list(intervals)
    low = min([INT.low, *(one.low for one in found)])
    high = max([INT.high, *(one.high for one in found)])
    return Range(max(low, WIDE.low), min(high, WIDE.high))


def _collect(owner: object, names: Names, passed: dict[tuple[str, int], list[Interval]]) -> None:
    """Adds the intervals of the arguments of all calls in the owner."""
    for part in owner if isinstance(owner, tuple) else (owner,):
        locals_: dict[str, ir.Type] = {}
        for name, type_ in _locals(part):
            known = locals_.get(name, type_)
            locals_[name] = Range(min(known.low, type_.low), max(known.high, type_.high))
        scope = replace(names, locals=locals_)
        for call in walk(part):
            if isinstance(call, ir.Call):
                for number, argument in enumerate(call.arguments):
                    passed.setdefault((call.function, number), []).append(_interval(argument, scope))


def _interval(argument: ir.Expr, names: Names) -> Interval:
    try:
        return interval(argument, names)
    except ModelError:  # past 64 bits, which `verify` reports
        return Interval(WIDE.low, WIDE.high)


def _locals(owner: object) -> Iterator[tuple[str, ir.Type]]:
    """Yields the names that the owner declares anywhere inside."""
    for part in walk(owner):
        match part:
            case net.Parameter(name=name, type=type_) | ir.Let(name=name, type=type_):
                yield name, type_
            case net.Select(name=name, low=low, high=high):
                yield name, Range(low, high)
            case ir.For(name=name, low=low, high=high) | ir.Fold(name=name, low=low, high=high):
                yield name, Range(low, high)


def _callers_first(functions: dict[str, net.Function]) -> list[str]:
    """Returns the names of the functions, each before those that it calls."""
    found: dict[str, None] = {}
    begun: set[str] = set()

    def visit(name: str) -> None:
        if name in begun or name not in functions:
            return
        begun.add(name)
        for part in walk(functions[name].body):
            if isinstance(part, ir.Call):
                visit(part.function)
        found[name] = None

    for name in functions:
        visit(name)
    return list(reversed(found))
