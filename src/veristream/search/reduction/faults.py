"""Which code cannot fail at run time, judged by the ranges of its expressions."""

from __future__ import annotations

from veristream.ir import expr as ir
from veristream.ir.bounds import SHIFT_MAX, Names
from veristream.ir.network import Component, Edge, Network
from veristream.ir.state import name_parts
from veristream.ir.walk import walk
from veristream.search.reduction.places import range_of


class Faults:
    """Knows the shapes of arrays, and which components can be started only once."""

    def __init__(self, network: Network) -> None:
        parts = name_parts(network)
        self._shapes = {name: variable.shape for name, (_, variable) in parts.variables.items()}
        self._shapes |= {name: channel.shape for name, (_, channel) in parts.channels.items()}
        self._started_once = _started_once(network)

    def may_fault(self, node: object, names: Names) -> bool:
        """Whether evaluating the expression or running the statements might fail."""
        return any(self._may_fault(part, names) for part in walk(node))

    def starts_safely(self, edge: Edge) -> bool:
        """Whether every component that the edge forks is certainly idle then."""
        return all(fork.component in self._started_once for fork in edge.fork)

    def indices_may_fault(self, name: str, indices: tuple[ir.Expr, ...], names: Names) -> bool:
        """Whether an index of the variable or channel might be out of bounds."""
        for size, index in zip(self._shapes[name], indices, strict=True):
            values = range_of(index, names)
            if values is None or not values.within(0, size - 1):
                return True
        return False

    def may_leave(self, value: ir.Expr, type_: ir.Type, names: Names) -> bool:
        """Whether the value might lie outside of the type."""
        return _leaves(value, type_, names)

    def _may_fault(self, node: object, names: Names) -> bool:
        match node:
            case ir.Load(variable=name, indices=indices) | ir.Queue(channel=name, indices=indices):
                return self.indices_may_fault(name, indices, names)
            case ir.Local(index=index):
                return index is not None
            case ir.Binary(op="div" | "rem" | "mod" | "<<" | ">>"):
                return not _is_total(node, names)
            case ir.Assign(target=ir.Load(variable=name), value=value):
                return _leaves(value, names.variables[name], names)
            case ir.Let(type=type_, value=value):
                return _leaves(value, type_, names)
            case ir.Assign() | ir.Call() | ir.Peek() | ir.While() | ir.Check() | ir.Reset() | ir.Return():
                return True  # an assigned local may have another declaration, with another range
            case _:
                return False


def _is_total(expr: ir.Binary, names: Names) -> bool:
    """Whether the right operand is one for which the operation is defined."""
    right = range_of(expr.right, names)
    if right is None:
        return False
    match expr.op:
        case "div" | "rem":
            return right.low > 0 or right.high < 0
        case "mod":
            return right.low > 0
        case _:
            return right.within(0, SHIFT_MAX)


def _leaves(value: ir.Expr, type_: ir.Type, names: Names) -> bool:
    """Whether the value might lie outside of the type."""
    values = range_of(value, names)
    return values is None or not values.within(type_.low, type_.high)


def _started_once(network: Network) -> frozenset[str]:
    """Idle components that only edges from one location start, which their component leaves for good."""
    starters: dict[str, set[tuple[str, str]]] = {}
    for component in network.components:
        for edge in component.edges:
            for fork in edge.fork:
                starters.setdefault(fork.component, set()).add((component.name, edge.source))
    components = {component.name: component for component in network.components}
    return frozenset(
        name
        for name, sources in starters.items()
        if components[name].idle
        and len(sources) == 1
        and all(_leaves_for_good(components[c], at, starters) for c, at in sources)
    )


def _leaves_for_good(
    component: Component, location: str, starters: dict[str, set[tuple[str, str]]]
) -> bool:
    if component.name in starters:
        return False
    forked = [fork.component for edge in component.edges for fork in edge.fork if edge.source == location]
    once = all(
        len({f.component for f in edge.fork}) == len(edge.fork) and not (edge.join or edge.kill)
        for edge in component.edges
        if edge.source == location
    )
    return bool(forked) and once and all(edge.target != location for edge in component.edges)
