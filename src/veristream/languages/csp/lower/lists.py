"""Writes bags whose members keep values: a list of the members in a canonical order.

Part of `components`; `bags` has the bags whose members can be counted. A member consists of its location
and the values of its slots. The members are sorted after each step, so that states which differ only in the
order of their members are equal, as in PAT. Of members that are equal, only the first one moves.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import product

from veristream.ir import expr as ir
from veristream.ir import network as net
from veristream.languages.csp.lower.bags import Writes
from veristream.languages.csp.lower.expressions import Translator, put_in
from veristream.languages.csp.lower.machine import BAG, Arc, Component, Start
from veristream.languages.csp.lower.moves import Meets, with_own_names
from veristream.languages.csp.lower.slots import other_slot_name, slot_name
from veristream.languages.csp.lower.steps import meet
from veristream.languages.csp.syntax import Bound, Number

MEMBER, OTHER = "member#", "other#"
_EACH = "each#"


@dataclass(frozen=True, slots=True)
class _List:
    """The variables of a list of members."""

    component: Component

    @property
    def names(self) -> list[str]:
        """The variables that make up a member, in the order in which members are compared."""
        name = self.component.name
        return [f"{name}.at", *(f"{name}.v{position}" for position in range(self.component.slot_count))]

    @property
    def size(self) -> int:
        return self.component.size

    def place(self, location: str) -> ir.Const:
        return ir.Const(list(self.component.locations.values()).index(location))

    def is_at(self, member: ir.Expr, location: str) -> ir.Expr:
        return ir.Binary("==", ir.Load(self.names[0], (member,)), self.place(location))

    def compare(self, op: ir.BinaryOp, one: ir.Expr, other: ir.Expr) -> ir.Expr:
        """Returns whether one member differs from another (`!=`), or comes after it (`>`)."""
        result: ir.Expr | None = None
        for name in reversed(self.names):
            left, right = ir.Load(name, (one,)), ir.Load(name, (other,))
            here = ir.Binary(op, left, right)
            if result is None:
                result = here
            elif op == "!=":
                result = ir.Binary("or", here, result)
            else:
                result = ir.Binary("or", here, ir.Binary("and", ir.Binary("==", left, right), result))
        assert result is not None
        return result

    def sort(self, rounds: int) -> ir.Block:
        """Returns statements that sort the list if at most `rounds` members are out of place."""
        last = self.size - 2
        if last < 0:
            return ()
        up, down = ir.Local("up#"), ir.Binary("-", ir.Const(last), ir.Local("down#"))
        passes = (
            ir.For("up#", 0, last, self._exchange(up)),
            ir.For("down#", 0, last, self._exchange(down)),
        )
        return passes if rounds == 1 else (ir.For("round#", 1, rounds, passes),)

    def _exchange(self, first: ir.Expr) -> ir.Block:
        second = ir.Binary("+", first, ir.Const(1))
        statements: list[ir.Statement] = []
        for position, name in enumerate(self.names):
            one, other = ir.Load(name, (first,)), ir.Load(name, (second,))
            kept = f"kept{position}#"
            statements += [
                ir.Let(kept, ir.INT, one),
                ir.Assign(one, other),
                ir.Assign(other, ir.Local(kept)),
            ]
        return (ir.If(self.compare(">", first, second), tuple(statements)),)

    def put(self, member: ir.Expr, at: ir.Expr, slots: Sequence[ir.Expr]) -> ir.Block:
        """Returns the assignments that make a member; slots that it does not use are 0."""
        values = [at, *slots, *(ir.Const(0),) * (len(self.names) - 1 - len(slots))]
        return tuple(
            ir.Assign(ir.Load(name, (member,)), value)
            for name, value in zip(self.names, values, strict=True)
        )


def write(writer: Writes, component: Component) -> net.Component:
    """Returns the component of a bag whose members keep values."""
    edges = [
        _of_member(component, edge, ((MEMBER, arc.source),))
        for arc in component.arcs
        for edge in writer.edges(component, arc)
    ]
    edges += _meetings(writer, component)
    start = writer.started(component)
    items = _first_items(start) if start else [(0,) * (component.slot_count + 1)] * component.size
    types = [ir.Type(0, len(component.locations) - 1), *(ir.INT,) * component.slot_count]
    variables = tuple(
        net.Variable(name, type_, (component.size,), tuple(item[position] for item in items))
        for position, (name, type_) in enumerate(zip(_List(component).names, types, strict=True))
    )
    return net.Component(
        component.name,
        (net.Location(BAG),),
        tuple(edges),
        BAG,
        start is None,
        variables,
        span=component.span,
    )


def _first_items(start: Start) -> list[tuple[int, ...]]:
    """Returns the sorted members of a bag in which all values are constant."""
    items: list[tuple[int, ...]] = []
    for member in start.members:
        values = [slot.value for slot in member.slots if isinstance(slot, Number)]
        empty = (0,) * (start.component.slot_count - len(values))
        items.append((_List(start.component).place(member.location).value, *values, *empty))
    return sorted(items)


def beginning(start: Start, translator: Translator) -> ir.Block:
    """Returns the statements that make and sort the members when a bag is forked."""
    members = _List(start.component)
    if all(isinstance(slot, Number) for member in start.members for slot in member.slots):
        return tuple(
            statement
            for position, (at, *values) in enumerate(_first_items(start))
            for statement in members.put(
                ir.Const(position), ir.Const(at), [ir.Const(value) for value in values]
            )
        )
    statements: list[ir.Statement] = []
    for position, member in enumerate(start.members):
        slots = [translator.expr(slot) for slot in member.slots]
        statements += members.put(ir.Const(position), members.place(member.location), slots)
    return (*statements, *members.sort(members.size))


def moved(arc: Arc, translator: Translator) -> ir.Block:
    """Returns the statements that put the members of an arc to their new places and sort the list."""
    own = arc.starts[0]
    members = _List(own.component)
    goes = [(MEMBER, own), *([(OTHER, arc.other[1])] if arc.other else [])]
    kept: list[ir.Statement] = []
    puts: list[ir.Statement] = []
    for name, start in goes:
        slots: list[ir.Expr] = []
        for position, slot in enumerate(start.slots):
            value = f"{name}{position}"
            kept.append(ir.Let(value, ir.INT, translator.expr(slot)))
            slots.append(ir.Local(value))
        puts += members.put(ir.Local(name), members.place(start.location), slots)
    return (*kept, *puts, *members.sort(len(goes)))


def slots_of(component: Component) -> dict[str, ir.Expr]:
    """Returns the meaning of the slots of the members that move."""
    names = _List(component).names[1:]
    found: dict[str, ir.Expr] = {}
    for position, name in enumerate(names):
        found[slot_name(position)] = ir.Load(name, (ir.Local(MEMBER),))
        found[other_slot_name(position)] = ir.Load(name, (ir.Local(OTHER),))
    return found


def can_end(writer: Writes, component: Component) -> ir.Expr | None:
    """Returns the condition that every member can terminate, or None if that is never possible."""
    members, each = _List(component), ir.Local(_EACH)
    slots: dict[str, ir.Expr] = {
        slot_name(position): ir.Load(name, (each,)) for position, name in enumerate(members.names[1:])
    }
    any_: ir.Expr | None = None
    for location, move in component.ends:
        here = members.is_at(each, location)
        guard = writer.condition(component, move.conditions, slots)
        here = here if guard is None else ir.Binary("and", here, guard)
        any_ = here if any_ is None else ir.Binary("or", any_, here)
    return None if any_ is None else ir.Fold("all", _EACH, 0, component.size - 1, any_)


# --- Edges ------------------------------------------------------------------------------------------


def _meetings(writer: Writes, component: Component) -> Iterable[net.Edge]:
    """Yields the edges for a rendezvous between two members."""
    slots = {slot_name(at): Bound(other_slot_name(at)) for at in range(component.slot_count)}
    for output, entry in product(component.arcs, component.arcs):
        move, names = with_own_names(entry.move, slots, "'")
        joined = meet(output.move, move)
        if joined is None or not isinstance(joined.act, Meets):
            continue
        if writer.channels.named(joined.act.channel).capacity:
            continue
        there = entry.starts[0]
        there = replace(there, slots=tuple(put_in(slot, names) for slot in there.slots))
        arc = Arc(output.source, joined, (output.starts[0],), other=(entry.source, there))
        for edge in writer.edges(component, arc):
            yield _of_member(component, edge, ((MEMBER, output.source), (OTHER, entry.source)))


def _of_member(component: Component, edge: net.Edge, sources: tuple[tuple[str, str], ...]) -> net.Edge:
    """Returns an edge for each choice of members at the sources; equal members are one choice.

    What it tests before its guard must not fail for a member that is elsewhere.
    """
    members = _List(component)
    tests: list[ir.Expr] = []
    for name, source in sources:
        tests += [members.is_at(ir.Local(name), source), _is_first(members, name)]
    sync = edge.sync
    if isinstance(sync, net.Receive):
        here = tests[0]
        indices = tuple(
            index if isinstance(index, ir.Const) else ir.Conditional(here, index, ir.Const(0))
            for index in sync.indices
        )
        patterns: list[net.Bind | net.Match] = []
        for position, pattern in enumerate(sync.patterns):
            if isinstance(pattern, net.Match) and not isinstance(pattern.value, ir.Const):
                field = ir.Local(f"field{position}#")
                tests.append(ir.Binary("==", field, pattern.value))
                patterns.append(net.Bind(field.name, span=pattern.span))
            else:
                patterns.append(pattern)
        sync = replace(sync, indices=indices, patterns=tuple(patterns))
    guard = edge.guard
    for test in reversed(tests):
        guard = test if guard is None else ir.Binary("and", test, guard)
    select = tuple(net.Select(name, 0, component.size - 1) for name, _ in sources)
    return replace(edge, source=BAG, target=BAG, select=select, guard=guard, sync=sync)


def _is_first(members: _List, name: str) -> ir.Expr:
    """Returns whether no equal member precedes this one; for the second of two, but the first of them."""
    here = ir.Local(name)
    before = ir.Binary("-", here, ir.Const(1))
    alone: ir.Expr = ir.Binary("==", here, ir.Const(0))
    if name == OTHER:
        alone = ir.Binary("or", alone, ir.Binary("==", before, ir.Local(MEMBER)))
    first = ir.Binary("or", alone, members.compare("!=", before, here))
    if name == OTHER:
        return ir.Binary("and", ir.Binary("!=", here, ir.Local(MEMBER)), first)
    return first
