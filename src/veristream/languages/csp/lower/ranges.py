"""Infers ranges for the variables and channels of a Network that were declared without one.

CSP# numbers have 32 bits, but most variables stay in a small range, and every bit saved makes the state
smaller. An interval analysis over all edges runs to a fixpoint; intervals that keep growing are widened,
at worst to 32 bits. Values that only code writes which never runs are included as well: they are legal.
`network` applies it last.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import count

from veristream.errors import ModelError
from veristream.ir import expr as ir
from veristream.ir.bounds import Interval, Names, edge_names, interval
from veristream.ir.constant import constant_value
from veristream.ir.network import Channel, Edge, Network, Receive, Send, Variable, all_variables
from veristream.ir.walk import walk

ROUNDS = 6
_OPPOSITE: dict[str, str] = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "=="}
_NEGATION: dict[str, str] = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "!=": "=="}


@dataclass(slots=True)
class _Found:
    """The intervals found so far; names in `fixed` keep their declared ranges."""

    variables: dict[str, Interval]
    fields: dict[tuple[str, int], Interval]
    fixed: frozenset[str]
    changed: set[object] = field(default_factory=set)
    growths: Counter[object] = field(default_factory=Counter)

    def grow(self, name: str, value: Interval) -> None:
        if name in self.fixed:
            return
        old = self.variables[name]
        new = Interval(min(old.low, value.low), max(old.high, value.high))
        if new != old:
            self.variables[name] = new
            self.changed.add(name)

    def grow_field(self, key: tuple[str, int], value: Interval) -> None:
        old = self.fields.get(key)
        new = value if old is None else Interval(min(old.low, value.low), max(old.high, value.high))
        if new != old:
            self.fields[key] = new
            self.changed.add(key)


def narrow(network: Network, fixed: frozenset[str]) -> Network:
    """Narrows the types of the variables that are not `fixed` and of all channel fields."""
    found = _Found(
        {
            one.name: Interval(one.type.low, one.type.high)
            if one.name in fixed
            else Interval(min(one.initial), max(one.initial))
            for one in all_variables(network)
        },
        {},
        fixed,
    )
    steps = thresholds(network)
    edges = [(edge, _depends_on(edge)) for component in network.components for edge in component.edges]
    before: set[object] | None = None  # what changed in the last turn
    for turn in count():  # ends: a name that grows again and again soon has 32 bits
        found.changed = set()
        names = _names(network, found)
        for edge, known in edges:
            # Nothing that the edge reads has changed since it was last walked: it would find the same.
            if before is not None and known.isdisjoint(before) and known.isdisjoint(found.changed):
                continue
            _walk_edge(edge, names, found)
        if not found.changed:
            break
        before = {key[0] if isinstance(key, tuple) else key for key in found.changed}
        found.growths.update(found.changed)
        if turn >= ROUNDS:
            _widen(found, steps, last=turn >= ROUNDS * 3)
    for edge, _ in edges:
        _include_constants(edge, found)
    return _apply(network, found)


def _depends_on(edge: Edge) -> frozenset[str]:
    """Returns the variables and channels whose intervals determine what a walk along the edge finds."""
    names = {edge.sync.channel} if isinstance(edge.sync, Receive) else set()
    for node in walk((edge.guard, edge.sync, edge.update)):
        if isinstance(node, ir.Load):
            names.add(node.variable)
        elif isinstance(node, ir.Peek):
            names.add(node.channel)
    return frozenset(names)


def thresholds(network: Network) -> tuple[int, ...]:
    """Returns the widening thresholds: constants in guards and their neighbours."""
    numbers = {0, 1}
    for component in network.components:
        for edge in component.edges:
            for number in _numbers(edge.guard):
                numbers |= {number - 1, number, number + 1}
    return tuple(sorted(numbers))


def _numbers(expr: ir.Expr | None) -> Iterator[int]:
    match expr:
        case ir.Const(value=value):
            yield value
        case ir.Binary(left=left, right=right):
            yield from _numbers(left)
            yield from _numbers(right)
        case ir.Unary(operand=operand):
            yield from _numbers(operand)
        case _:
            return


def _widen(found: _Found, steps: tuple[int, ...], *, last: bool) -> None:
    """Widens what has changed to the next thresholds; with `last`, what still grows to 32 bits."""

    def wider(key: object, value: Interval) -> Interval:
        known = () if last and found.growths[key] >= ROUNDS else steps
        low = max((step for step in known if step <= value.low), default=ir.INT.low)
        high = min((step for step in known if step >= value.high), default=ir.INT.high)
        return Interval(max(low, ir.INT.low), min(high, ir.INT.high))

    for key in found.changed:
        if isinstance(key, str):
            found.variables[key] = wider(key, found.variables[key])
        elif isinstance(key, tuple):
            found.fields[key] = wider(key, found.fields[key])


def _clip(value: Interval) -> Interval:
    low, high = max(value.low, ir.INT.low), min(value.high, ir.INT.high)
    return Interval(low, high) if low <= high else Interval(ir.INT.low, ir.INT.high)


def _names(network: Network, found: _Found) -> Names:
    return Names(
        {name: ir.Type(value.low, value.high) for name, value in found.variables.items()},
        {channel.name: _channel(channel, found) for channel in network.channels},
        {function.name: function for function in network.functions},
        {},
    )


def _channel(channel: Channel, found: _Found) -> Channel:
    fields = tuple(_field(channel, position, found) for position in range(len(channel.fields)))
    return replace(channel, fields=fields)


def _field(channel: Channel, position: int, found: _Found) -> ir.Type:
    value = found.fields.get((channel.name, position), Interval(0, 0))
    return ir.Type(min(value.low, 0), max(value.high, 0))


def _apply(network: Network, found: _Found) -> Network:
    def variable(one: Variable) -> Variable:
        if one.name in found.fixed:
            return one
        value = found.variables[one.name]
        enum = one.type.enum if (value.low, value.high) in ((0, 0), (0, 1), (1, 1)) else None
        if enum is not None:
            return replace(one, type=ir.BOOL)
        return replace(one, type=ir.Type(value.low, value.high))

    components = tuple(
        replace(component, variables=tuple(variable(one) for one in component.variables))
        for component in network.components
    )
    return replace(
        network,
        variables=tuple(variable(one) for one in network.variables),
        channels=tuple(_channel(channel, found) for channel in network.channels),
        components=components,
    )


def _include_constants(edge: Edge, found: _Found) -> None:
    """Includes the constants that the edge writes, also where it cannot run, since `verify` checks them."""

    def constant(value: ir.Expr) -> Interval | None:
        number = constant_value(value)
        return None if number is None else _clip(Interval(number, number))

    if isinstance(edge.sync, Send):
        for position, value in enumerate(edge.sync.values):
            if (given := constant(value)) is not None:
                found.grow_field((edge.sync.channel, position), given)
    for node in walk(edge.update):
        if not isinstance(node, ir.Assign) or not isinstance(node.target, ir.Load):
            continue
        if (given := constant(node.value)) is not None:
            found.grow(node.target.variable, given)


# --- One edge ---------------------------------------------------------------------------------------


def _walk_edge(edge: Edge, names: Names, found: _Found) -> None:
    scope = edge_names(names, edge)
    if not isinstance(edge.sync, Receive):  # a sender's update may run after a receiver's guard
        refined = _refine(edge.guard, scope, holds=True)
        if refined is None:
            return
        scope = refined
    if isinstance(edge.sync, Send):
        for position, value in enumerate(edge.sync.values):
            found.grow_field((edge.sync.channel, position), _value(value, scope))
    _walk(edge.update, scope, found)


def _value(expr: ir.Expr, names: Names) -> Interval:
    try:
        return _clip(interval(expr, names))
    except ModelError:  # more than 64 bits: no range fits, and verify will report it
        return Interval(ir.INT.low, ir.INT.high)


def _walk(block: ir.Block, names: Names, found: _Found) -> Names:
    """Walks a block; returns the names after it, without the guard's knowledge of what it assigns."""
    for statement in block:
        match statement:
            case ir.Let(name=name, value=value, size=size):
                known = _value(value, names) if size is None else Interval(ir.INT.low, ir.INT.high)
                names = names.add(name, ir.Type(known.low, known.high))
            case ir.Assign(target=ir.Load(variable=name), value=value):
                given = _value(value, names)
                found.grow(name, given)
                names = _forget(names, (name,), found)
            case ir.Assign(target=ir.Local(name=name, index=index), value=value):
                given = _value(value, names) if index is None else Interval(ir.INT.low, ir.INT.high)
                names = names.add(name, ir.Type(given.low, given.high))
            case ir.If(condition=condition, then=then, otherwise=otherwise):
                names = _walk_if(condition, then, otherwise, names, found)
            case ir.While(condition=condition, body=body):
                loose = _loosen(body, names, found)
                inside = _refine(condition, loose, holds=True)
                if inside is not None:
                    _walk(body, inside, found)
                names = loose
            case ir.For(name=counter, low=low, high=high, body=body):
                names = _loosen(body, names, found)
                _walk(body, names.add(counter, ir.Type(low, high)), found)
            case _:
                pass
    return names


def _walk_if(condition: ir.Expr, then: ir.Block, otherwise: ir.Block, names: Names, found: _Found) -> Names:
    after: list[Names] = []
    for block, holds in ((then, True), (otherwise, False)):
        scope = _refine(condition, names, holds=holds)
        if scope is not None:
            after.append(_walk(block, scope, found))
    if not after:
        return names
    if len(after) == 1:
        return replace(after[0], locals={key: after[0].locals[key] for key in names.locals})
    return replace(
        names,
        variables=_joined(after[0].variables, after[1].variables, names.variables),
        locals=_joined(after[0].locals, after[1].locals, names.locals),
    )


def _joined(
    left: Mapping[str, ir.Type], right: Mapping[str, ir.Type], keys: Iterable[str]
) -> Mapping[str, ir.Type]:
    return {key: _union(left[key], right[key]) for key in keys}


def _union(left: ir.Type, right: ir.Type) -> ir.Type:
    if left is right:
        return left
    return ir.Type(min(left.low, right.low), max(left.high, right.high))


def _forget(names: Names, given: Iterable[str], found: _Found) -> Names:
    """Resets the assigned variables to the full intervals found so far."""
    for name in given:
        known = found.variables[name]
        names = names.narrow(name, ir.Type(known.low, known.high))
    return names


def _loosen(body: ir.Block, names: Names, found: _Found) -> Names:
    """Forgets what is known of the variables that a loop assigns."""
    assigned = set(_assigned(body))
    for name in assigned & set(names.locals):
        names = names.add(name, ir.INT)
    return _forget(names, assigned & set(found.variables), found)


def _assigned(block: ir.Block) -> Iterator[str]:
    for statement in block:
        match statement:
            case ir.Assign(target=ir.Load(variable=name)) | ir.Assign(target=ir.Local(name=name)):
                yield name
            case ir.If(then=then, otherwise=otherwise):
                yield from _assigned(then)
                yield from _assigned(otherwise)
            case ir.While(body=body) | ir.For(body=body):
                yield from _assigned(body)
            case _:
                pass


def _refine(condition: ir.Expr | None, names: Names, *, holds: bool) -> Names | None:
    """Narrows the names by a condition, or if not `holds` by its negation; None if it cannot be true."""
    match condition:
        case None:
            return names
        case ir.Unary(op="not", operand=operand):
            return _refine(operand, names, holds=not holds)
        case ir.Binary(op="and", left=left, right=right) if holds:
            first = _refine(left, names, holds=True)
            return None if first is None else _refine(right, first, holds=True)
        case ir.Binary(op="or", left=left, right=right) if not holds:
            first = _refine(left, names, holds=False)
            return None if first is None else _refine(right, first, holds=False)
        case ir.Binary(op=op, left=left, right=right) if op in _OPPOSITE or op == "!=":
            word: str | None = op if holds else _NEGATION.get(op)
            if word is None or word not in _OPPOSITE:
                return names
            narrowed = _compare(left, word, right, names)
            return None if narrowed is None else _compare(right, _OPPOSITE[word], left, narrowed)
        case _:
            return names


def _compare(left: ir.Expr, op: str, right: ir.Expr, names: Names) -> Names | None:
    """Narrows the left side, if it is a variable or a local, by a comparison; None if that is false."""
    if not isinstance(left, ir.Load | ir.Local) or (isinstance(left, ir.Load) and left.indices):
        return names
    if isinstance(left, ir.Local) and left.index is not None:
        return names
    old, other = _value(left, names), _value(right, names)
    low, high = old.low, old.high
    if op in ("<", "<=", "=="):
        high = min(high, other.high - (op == "<"))
    if op in (">", ">=", "=="):
        low = max(low, other.low + (op == ">"))
    if low > high:
        return None
    if isinstance(left, ir.Local):
        return names.add(left.name, ir.Type(low, high))
    return names.narrow(left.variable, ir.Type(low, high))
