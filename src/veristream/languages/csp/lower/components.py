"""Writes automata as components of a Network, edge by edge.

`automata` decides which components, locations and arcs there are; this module translates them, with
`channels` for the channels and `expressions` for guards and updates. `network` assembles the result.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import product

from veristream.ir import expr as ir
from veristream.ir import network as net
from veristream.languages.csp.lower import bags, lists
from veristream.languages.csp.lower.automata import Automata
from veristream.languages.csp.lower.channels import Channels
from veristream.languages.csp.lower.expressions import Translator
from veristream.languages.csp.lower.machine import (
    Arc,
    Component,
    Composition,
    Start,
    inside,
    participants,
)
from veristream.languages.csp.lower.moves import (
    Happens,
    Meets,
    Move,
    Receives,
    Sends,
    Silent,
    Terminates,
    hidden_name,
    show,
)
from veristream.languages.csp.lower.slots import slot_name
from veristream.languages.csp.lower.spell import spell_term
from veristream.languages.csp.lower.stacks.write import Stack
from veristream.languages.csp.lower.terms import Forked, Name, Term, end_name, first_end_name
from veristream.languages.csp.syntax import Binder, Expr, Number, Specification, Stop
from veristream.source import Span

ENDED = "✓"
TERMINATE = "terminate"
SPLIT_MAX = 64
"""An index known only at run time becomes one edge per channel up to this many channels."""


@dataclass(slots=True)
class Writer:
    """Writes the components and barriers of one Network; `begin` says what runs first, the root first."""

    specification: Specification
    automata: Automata
    begin: tuple[Start, ...]
    _shapes: dict[str, tuple[int, ...]] = field(init=False)
    channels: Channels = field(init=False)
    _ends: dict[Composition, ir.Expr] = field(default_factory=dict)
    _first_ends: dict[Composition, ir.Expr] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.channels = Channels(self.specification, self.automata)
        self._shapes = {one.name: one.shape for one in self.specification.variables}

    def components(self) -> tuple[net.Component, ...]:
        """Returns all components, the root first."""
        return tuple(
            self._bag(component) if component.counted else self._component(component)
            for component in self.automata.components
        )

    def enums(self) -> tuple[net.Enumeration, ...]:
        """Returns the names of what waits in stacks."""
        parts = self.automata.components
        return tuple(one for component in parts for one in self._stack(component).enumeration())

    def _bag(self, component: Component) -> net.Component:
        return lists.write(self, component) if component.listed else bags.write(self, component)

    def barriers(self) -> tuple[net.Channel, ...]:
        """Returns a barrier for each event on which a composition synchronises."""
        found: dict[str, net.Channel] = {}
        for component in self.automata.components:
            for arc in component.arcs:
                if arc.barrier is not None:
                    name, composition = arc.barrier
                    label = barrier_name(name, composition)
                    if label not in found:
                        vectors = tuple(
                            tuple(one.name for one in way) for way in participants(composition, name)
                        )
                        found[label] = net.Channel(label, net.ChannelKind.BARRIER, vectors=vectors)
        return tuple(channel for channel in found.values() if channel.vectors)

    def _component(self, component: Component) -> net.Component:
        root, start = component is self.begin[0].component, self.started(component)
        edges = [edge for arc in component.arcs for edge in self.edges(component, arc)]
        if root:
            edges += self._endings(component)
        locations = [
            net.Location(name, self._kind(component, name)) for name in component.locations.values()
        ]
        if root:
            ends = dict.fromkeys((ENDED, *(edge.target for edge in self._endings(component))))
            locations += [net.Location(name, final=True) for name in ends]
        size = max(component.slots.values(), default=0)
        first = constants(start.slots) if start else []
        variables = tuple(
            net.Variable(variable_name(component, position), ir.INT, (), (value,))
            for position, value in enumerate((*first, *(0,) * (size - len(first))))
        )
        return net.Component(
            component.name,
            tuple(locations),
            tuple(edges),
            start.location if start else locations[0].name,
            start is None,
            variables + self._stack(component).variables(start),
            span=component.span,
        )

    def _stack(self, component: Component) -> Stack:
        return Stack(component, self.automata.stack_max)

    def started(self, component: Component) -> Start | None:
        """Returns where the component is when the process begins, or None if it is forked later."""
        return next((start for start in self.begin if start.component is component), None)

    @staticmethod
    def _kind(component: Component, location: str) -> net.LocationKind:
        return net.LocationKind.ATOMIC if location in component.urgent else net.LocationKind.NORMAL

    def _endings(self, component: Component) -> list[net.Edge]:
        """Returns the edges by which the whole process terminates."""
        edges: list[net.Edge] = []
        label = net.Label(TERMINATE)
        for location, move in component.ends:
            guard = self.condition(component, move.conditions)
            update = self._checks(component, move)
            after = ended(move.target)
            kill = self._left(component, location)
            late = location in component.urgent and not move.atomic
            edges.append(
                net.Edge(
                    location,
                    after,
                    label,
                    guard=guard,
                    update=update,
                    kill=kill,
                    late=late,
                    span=move.span,
                )
            )
        return edges

    def _can_end(self, composition: Composition) -> ir.Expr | None:
        """Returns the condition that every branch can terminate, or None if one never can."""
        all_: ir.Expr | None = None
        for branch in composition.branches:
            if branch.counted:
                return lists.can_end(self, branch) if branch.listed else bags.can_end(self, branch)
            any_ = self._any_end(branch, branch.ends)
            if any_ is None:
                return None
            all_ = any_ if all_ is None else ir.Binary("and", all_, any_)
        return all_

    def _ends_first(self, composition: Composition) -> ir.Expr:
        """Returns the condition that every branch can terminate, at least one of them atomically."""
        first: ir.Expr | None = None
        for branch in composition.branches:
            here = self._any_end(branch, ((at, move) for at, move in branch.ends if move.atomic))
            if here is not None:
                first = here if first is None else ir.Binary("or", first, here)
        return ir.FALSE if first is None else ir.Binary("and", first, self._end_of(composition))

    def _any_end(self, branch: Component, ends: Iterable[tuple[str, Move]]) -> ir.Expr | None:
        """Returns the condition that one of the ends is possible, or None if there are no ends."""
        any_: ir.Expr | None = None
        for location, move in ends:
            here: ir.Expr = ir.AtLocation(branch.name, location)
            guard = self.condition(branch, move.conditions)
            here = here if guard is None else ir.Binary("and", here, guard)
            any_ = here if any_ is None else ir.Binary("or", any_, here)
        return any_

    # --- Edges --------------------------------------------------------------------------------------

    def translator(self, component: Component, more: Mapping[str, ir.Expr] | None = None) -> Translator:
        """Returns a translator that knows the slots of the component and the given names."""
        capacities = {channel.name: channel.capacity for channel in self.specification.channels}
        size = max(component.slots.values(), default=0)
        bound: dict[str, ir.Expr] = {
            slot_name(position): ir.Load(variable_name(component, position)) for position in range(size)
        }
        if component.listed:
            bound = lists.slots_of(component)
        bound |= self._stack(component).bound()
        for composition in component.compositions.values():
            forked = Forked(composition.number)
            bound[end_name(forked)] = self._end_of(composition)
            bound[first_end_name(forked)] = self._first_end_of(composition)
        return Translator(self._shapes, capacities, {**bound, **(more or {})})

    def _end_of(self, composition: Composition) -> ir.Expr:
        if composition not in self._ends:
            self._ends[composition] = self._can_end(composition) or ir.FALSE
        return self._ends[composition]

    def _first_end_of(self, composition: Composition) -> ir.Expr:
        if composition not in self._first_ends:
            self._first_ends[composition] = self._ends_first(composition)
        return self._first_ends[composition]

    @staticmethod
    def _left(component: Component, location: str, arc: Arc | None = None) -> tuple[str, ...]:
        """Returns the components to kill when the component leaves the location."""
        held = component.holding.get(location)
        if held is None:
            return ()
        stays = arc is not None and len(arc.starts) == 1
        if stays and arc is not None and component.holding.get(arc.starts[0].location) is held:
            return ()
        return tuple(one.name for one in inside(held))

    def condition(
        self, component: Component, conditions: Iterable[Expr], more: Mapping[str, ir.Expr] | None = None
    ) -> ir.Expr | None:
        translator = self.translator(component, more)
        result: ir.Expr | None = None
        for condition in conditions:
            if isinstance(condition, Number) and condition.value:
                continue
            here = translator.expr(condition)
            result = here if result is None else ir.Binary("and", result, here)
        return result

    def _checks(self, component: Component, move: Move) -> ir.Block:
        translator = self.translator(component)
        return tuple(
            ir.Check(
                translator.expr(check), "an assertion fails or an argument is out of range", span=check.span
            )
            for check in move.checks
            if not (isinstance(check, Number) and check.value)
        )

    def edges(self, component: Component, arc: Arc) -> Iterable[net.Edge]:
        """Yields the edge of an arc, or one for each channel of an array if the index is not constant."""
        if arc.barrier is not None and not participants(arc.barrier[1], arc.barrier[0]):
            return
        act = arc.move.act
        indices = act.indices if isinstance(act, Sends | Receives | Meets) else ()
        shape = self.channels.named(act.channel).shape if isinstance(act, Sends | Receives | Meets) else ()
        unknown = [at for at, index in enumerate(indices) if not isinstance(index, Number)]
        ways = [range(shape[at]) for at in unknown]
        count = 1
        for way in ways:
            count *= len(way)
        if count > SPLIT_MAX:
            yield self._edge(component, arc, indices, ())
            return
        for chosen in product(*ways):
            known = list(indices)
            tests: list[tuple[Expr, int]] = []
            for at, value in zip(unknown, chosen, strict=True):
                tests.append((indices[at], value))
                known[at] = Number(value)
            yield self._edge(component, arc, tuple(known), tuple(tests))

    def _edge(
        self,
        component: Component,
        arc: Arc,
        indices: tuple[Expr, ...],
        tests: tuple[tuple[Expr, int], ...],
    ) -> net.Edge:
        move = arc.move
        received = {
            part.name: ir.Local(part.name)
            for part in (move.act.fields if isinstance(move.act, Receives) else ())
            if isinstance(part, Binder)
        }
        translator = self.translator(component, received)
        guard = self.condition(component, move.conditions, received)
        for index, value in tests:
            same = ir.Binary("==", translator.expr(index), ir.Const(value))
            guard = same if guard is None else ir.Binary("and", same, guard)
        sync = self._sync(arc, indices, translator)
        label = self._label(arc, indices, translator)
        forks = tuple(net.Fork(one.component.name, one.location) for one in arc.starts[1:])
        return net.Edge(
            arc.source,
            arc.starts[0].location,
            label,
            guard=guard,
            sync=sync,
            update=self._update(component, arc, received),
            fork=forks,
            kill=self._left(component, arc.source, arc),
            visible=not (isinstance(move.act, Silent) or arc.hidden),
            actors=arc.actors,
            late=arc.source in component.urgent and not (move.atomic or component.atomic),
            span=move.span,
        )

    def _sync(self, arc: Arc, indices: tuple[Expr, ...], translator: Translator) -> net.Sync | None:
        span = arc.move.span
        at = tuple(translator.expr(index) for index in indices)
        match arc.move.act:
            case Sends(channel=channel, values=values):
                name = self.channels.name(channel, len(values))
                sent = tuple(translator.expr(value) for value in values)
                return net.Send(name, at, self.channels.padded(channel, sent), span=span)
            case Receives(channel=channel, fields=fields):
                name = self.channels.name(channel, len(fields))
                patterns: list[net.Bind | net.Match] = [
                    net.Bind(part.name, span=part.span)
                    if isinstance(part, Binder)
                    else net.Match(translator.expr(part), span=part.span)
                    for part in fields
                ]
                return net.Receive(name, at, self.channels.patterns(channel, patterns), span=span)
            case _:
                if arc.barrier is None:
                    return None
                return net.Meet(barrier_name(*arc.barrier), span=span)

    def _label(self, arc: Arc, indices: tuple[Expr, ...], translator: Translator) -> net.Label:
        span = arc.move.span
        match arc.move.act:
            case Silent(shown=shown):
                return net.Label(shown, span=span)
            case Happens() if arc.hidden and arc.barrier is not None:
                return net.Label(hidden_name(arc.barrier[0]), span=span)
            case Happens(event=event):
                arguments = tuple(translator.expr(each) for each in event.arguments)
                return net.Label(event.name + ("." if arguments else ""), arguments, span=span)
            case Terminates():
                raise AssertionError("a termination is not an arc")
            case Sends(channel=channel, values=fields) if arc.hidden:
                name = (channel, tuple(each.value for each in fields if isinstance(each, Number)))
                return net.Label(hidden_name(name), span=span)
            case Sends(channel=channel, values=fields) | Meets(channel=channel, values=fields):
                sent = tuple(translator.expr(each) for each in fields)
                return self._channel_label(channel, "!", indices, sent, translator, span)
            case Receives(channel=channel, fields=parts):
                got = tuple(
                    ir.Local(part.name) if isinstance(part, Binder) else translator.expr(part)
                    for part in parts
                )
                return self._channel_label(channel, "?", indices, got, translator, span)

    def _channel_label(
        self,
        channel: str,
        mark: str,
        indices: tuple[Expr, ...],
        fields: tuple[ir.Expr, ...],
        translator: Translator,
        span: Span,
    ) -> net.Label:
        known = all(isinstance(index, Number) for index in indices)
        name = channel
        if known:
            name += "".join(f"[{index.value}]" for index in indices if isinstance(index, Number))
        else:
            fields = (*(translator.expr(index) for index in indices), *fields)
        if not self.channels.named(channel).capacity:
            mark = "." if fields else ""
        return net.Label(name + mark, fields, span=span)

    def _update(self, component: Component, arc: Arc, received: Mapping[str, ir.Expr]) -> ir.Block:
        """Returns the update of an arc: capture values of the old state, run the program, set the slots."""
        move = arc.move
        names: dict[str, ir.Expr] = dict(received)
        block: list[ir.Statement] = list(self._checks(component, move))
        for name, value in move.captured:
            translator = self.translator(component, names)
            block.append(ir.Let(f"{name}'", ir.INT, translator.expr(value)))
            names[name] = ir.Local(f"{name}'")
        translator = self.translator(component, names)
        block += translator.program(move.program)
        block += self._stack(component).check(arc)
        block += self._slots(component, arc, translator)
        return tuple(block)

    def _slots(self, component: Component, arc: Arc, translator: Translator) -> ir.Block:
        if component.listed:
            return lists.moved(arc, translator)
        wanted: list[tuple[ir.Load, ir.Expr]] = []
        begun: ir.Block = ()
        own = arc.starts[0]
        for one in arc.starts:
            # If it ran when the process began, its variables do not return to 0.
            again = one is not own and self.started(one.component) is not None
            if one.component.listed:
                begun += lists.beginning(one, translator)
            elif one.component.counted:
                wanted += bags.beginning(one, again)
            if again or (one is own and arc.clears):
                begun += self._stack(one.component).cleared()
            if one is own:
                wanted += self._stack(component).moved(arc, translator)
            else:
                wanted += self._stack(one.component).begun(one, translator)
            for position, value in enumerate(one.slots):
                target = ir.Load(variable_name(one.component, position))
                wanted.append((target, translator.expr(value)))
            if again and not one.component.counted:
                size = max(one.component.slots.values(), default=0)
                for position in range(len(one.slots), size):
                    wanted.append((ir.Load(variable_name(one.component, position)), ir.Const(0)))
        for position in range(len(own.slots), component.slots.get(arc.source, 0)):
            wanted.append((ir.Load(variable_name(component, position)), ir.Const(0)))
        changed = [(target, value) for target, value in wanted if target != value]
        if len(changed) < 2 or all(isinstance(value, ir.Const) for _, value in changed):
            return begun + tuple(ir.Assign(target, value) for target, value in changed)
        kept = tuple(ir.Let(f"slot{at}", ir.INT, value) for at, (_, value) in enumerate(changed))
        return (
            *kept,
            *begun,
            *(ir.Assign(target, ir.Local(f"slot{at}")) for at, (target, _) in enumerate(changed)),
        )


def ended(target: Term) -> str:
    """Names the location after termination; PAT distinguishes the operators that remain around Stop."""
    return ENDED if isinstance(target, Stop) else f"{ENDED} {spell_term(target)}"


def constants(slots: Iterable[Expr]) -> list[int]:
    """Returns the values of slots when a process begins: the arguments of an assertion are constant."""
    return [slot.value for slot in slots if isinstance(slot, Number)]


def variable_name(component: Component, position: int) -> str:
    """Names the variable that holds a slot of the component."""
    return f"{component.name}.v{position}"


def barrier_name(name: Name, composition: Composition) -> str:
    """Names the barrier on which the branches of a composition synchronise an event."""
    return f"{show(name)} @ {composition.owner.name} {composition.number}"
