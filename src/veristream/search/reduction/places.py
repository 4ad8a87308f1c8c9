"""What a step can read and write, as numbered *places*.

A place is an element of a variable, the head or the tail of a queue, or the location of a component.
Sending to a buffer writes its tail and receiving from it writes its head, so that both commute whenever
both are possible; an expression about a queue reads both ends.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from math import prod

from veristream.errors import ModelError
from veristream.ir import expr as ir
from veristream.ir import network as net
from veristream.ir.bounds import Interval, Names, interval, names_of
from veristream.ir.state import name_parts
from veristream.ir.walk import walk


@dataclass(frozen=True, slots=True)
class Footprint:
    """The places that code may read and write. What is assigned counts as read too."""

    reads: frozenset[int] = frozenset()
    writes: frozenset[int] = frozenset()

    def __or__(self, other: Footprint) -> Footprint:
        return Footprint(self.reads | other.reads, self.writes | other.writes)


class Places:
    """Numbers the places of a network."""

    def __init__(self, network: net.Network) -> None:
        self._parts = name_parts(network)
        self.names: Names = names_of(network)
        self.value_count = sum(prod(v.shape) for v in net.all_variables(network))
        buffers = [c for c in network.channels if c.kind is net.ChannelKind.BUFFER]
        self.queue_count = sum(prod(channel.shape) for channel in buffers)
        self.count = self.value_count + 2 * self.queue_count + len(network.components)
        self._functions: dict[str, Footprint] = {}

    def head(self, queue: int) -> int:
        """The place of the queue's oldest message."""
        return self.value_count + 2 * queue

    def tail(self, queue: int) -> int:
        """The place where the queue's next message goes."""
        return self.value_count + 2 * queue + 1

    def at(self, component: int) -> int:
        """The place of the component's location."""
        return self.value_count + 2 * self.queue_count + component

    def component(self, name: str) -> int:
        """The number of the component."""
        return self._parts.components[name]

    def location(self, component: int, name: str) -> int:
        """The number of the component's location."""
        return self._parts.locations[component][name]

    def own(self, component: net.Component) -> frozenset[int]:
        """All variables of the component."""
        return frozenset(p for v in component.variables for p in self._elements(v.name, None, self.names))

    def elements(self, name: str, indices: tuple[ir.Expr, ...], names: Names) -> frozenset[int]:
        """The elements of a variable that the indices may select."""
        return frozenset(self._elements(name, indices, names))

    def queues(self, channel: str, indices: tuple[ir.Expr, ...], names: Names) -> tuple[int, ...]:
        """The queues of a buffered channel that the indices may select."""
        first, declared = self._parts.channels[channel]
        return tuple(first + offset for offset in _offsets(declared.shape, indices, names))

    def footprint(self, node: object, names: Names) -> Footprint:
        """What the statement or expression may read and write."""
        reads: set[int] = set()
        writes: set[int] = set()
        for part in walk(node):
            match part:
                case ir.Load(variable=name, indices=indices):
                    reads |= self.elements(name, indices, names)
                case ir.Queue(channel=name, indices=indices) | ir.Peek(channel=name, indices=indices):
                    for queue in self.queues(name, indices, names):
                        reads |= {self.head(queue), self.tail(queue)}
                case ir.AtLocation() | ir.IsDone() | ir.IsIdle():
                    reads.add(self.at(self.component(part.component)))
                case ir.Assign(target=ir.Load(variable=name, indices=indices)):
                    writes |= self.elements(name, indices, names)
                case ir.Call(function=name):
                    called = self._function(name)
                    reads |= called.reads
                    writes |= called.writes
        return Footprint(frozenset(reads), frozenset(writes))

    def _function(self, name: str) -> Footprint:
        if name not in self._functions:
            function = self._parts.functions[name]
            names = with_locals(self.names, (function.parameters, function.body))
            self._functions[name] = self.footprint(function.body, names)
        return self._functions[name]

    def _elements(self, name: str, indices: tuple[ir.Expr, ...] | None, names: Names) -> Iterator[int]:
        first, variable = self._parts.variables[name]
        if indices is None:
            return iter(range(first, first + prod(variable.shape)))
        return (first + offset for offset in _offsets(variable.shape, indices, names))


def with_locals(names: Names, node: object) -> Names:
    """Adds every local name that the node declares anywhere, with the union of its ranges."""
    found: dict[str, ir.Type] = dict(names.locals)
    for part in walk(node):
        match part:
            case ir.Let(name=name, type=type_) | net.Parameter(name=name, type=type_):
                _widen(found, name, type_)
            case ir.For() | ir.Fold() | net.Select():
                _widen(found, part.name, ir.Type(part.low, part.high))
            case net.Receive(channel=channel, patterns=patterns):
                for pattern, type_ in zip(patterns, names.channels[channel].fields, strict=True):
                    if isinstance(pattern, net.Bind):
                        _widen(found, pattern.name, type_)
    return replace(names, locals=found)


def _widen(found: dict[str, ir.Type], name: str, type_: ir.Type) -> None:
    known = found.get(name, type_)
    found[name] = ir.Type(min(known.low, type_.low), max(known.high, type_.high))


def range_of(expr: ir.Expr, names: Names) -> Interval | None:
    """The values that the expression can have; None if they are not known."""
    try:
        return interval(expr, names)
    except (ModelError, KeyError):
        return None


def _offsets(shape: tuple[int, ...], indices: tuple[ir.Expr, ...], names: Names) -> Iterator[int]:
    ranges = [_index_range(size, index, names) for size, index in zip(shape, indices, strict=True)]
    for chosen in product(*ranges):
        flat = 0
        for size, index in zip(shape, chosen, strict=True):
            flat = flat * size + index
        yield flat


def _index_range(size: int, index: ir.Expr, names: Names) -> range:
    values = range_of(index, names)
    if values is None:
        return range(size)
    return range(max(0, values.low), min(size, values.high + 1))
