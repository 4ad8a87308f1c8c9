"""Lowers processes to components."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import product

from veristream.errors import ModelError
from veristream.ir import expr as ir
from veristream.ir import network as net
from veristream.languages.timed import syntax
from veristream.languages.timed.lower.constant import bounded, numbers
from veristream.languages.timed.lower.declare import declare_all
from veristream.languages.timed.lower.instances import Instance
from veristream.languages.timed.lower.kinds import mentions_clock
from veristream.languages.timed.lower.listeners import add_listening
from veristream.languages.timed.lower.model import Model, Update
from veristream.languages.timed.lower.programs import access
from veristream.languages.timed.lower.programs.changes import assigned
from veristream.languages.timed.lower.programs.constraints import check_invariant, split
from veristream.languages.timed.lower.programs.effects import perform
from veristream.languages.timed.lower.programs.expressions import ExpressionReader
from veristream.languages.timed.lower.programs.fold import condition_of
from veristream.languages.timed.lower.programs.reader import Reader
from veristream.languages.timed.lower.scope import Fixed, Home, LocalNames, Process, Ref, Scope, stored
from veristream.languages.timed.lower.types import Channel, describe
from veristream.source import Span

_KINDS = {
    "normal": net.LocationKind.NORMAL,
    "urgent": net.LocationKind.URGENT,
    "committed": net.LocationKind.COMMITTED,
}


def lower_process(instance: Instance, model: Model, outer: Scope) -> tuple[net.Component, Process]:
    """Returns the component, and the process as seen by queries."""
    writer = ComponentWriter(instance, model, Scope(outer, f"{instance.name}."))
    return writer.component(), writer.process()


@dataclass(slots=True)
class ComponentWriter:
    """Lowers one process."""

    instance: Instance
    model: Model
    scope: Scope
    variables: list[net.Variable] = field(default_factory=list)
    locations: dict[str, str] = field(default_factory=dict)  # key -> name

    def component(self) -> net.Component:
        template = self.instance.template
        self._bind_parameters()
        declare_all(template.declarations, self.scope, self.model, self.variables)
        self._name_locations()
        if template.initial is None:
            raise ModelError(
                f"template `{template.name}` has no initial location", template.span, "mark one as initial"
            )
        locations = tuple(self._location(one) for one in template.locations)
        edges = [edge for one in self._whole_edges() for edge in self._edges(one)]
        committed = {one.name for one in locations if one.kind is net.LocationKind.COMMITTED}
        broadcasts = {one.name for one in self.model.channels if one.kind is net.ChannelKind.BROADCAST}
        return net.Component(
            self.instance.name,
            locations,
            add_listening(edges, broadcasts, committed),
            self._end(template.initial, template.span),
            variables=tuple(self.variables),
            priority=self.instance.priority,
            span=template.span,
        )

    def _bind_parameters(self) -> None:
        """Binds parameters; one passed by value is a constant, or a variable if the template assigns it."""
        changing = assigned(self.instance.template)
        for one in self.instance.template.parameters:
            entity = self.instance.bound[one.name]
            if isinstance(entity, Fixed) and not one.constant and one.name in changing:
                name = self.scope.owner + one.name
                self.variables.append(net.Variable(name, entity.type, (), (entity.value,), span=one.span))
                entity = stored(name, entity.type)
            self.scope.declare(one.name, entity, one.span)

    def process(self) -> Process:
        """Returns the process as seen by queries."""
        named = {one.name: self.locations[one.key] for one in self.instance.template.locations if one.name}
        return Process(self.instance.name, named, self.scope)

    def _name_locations(self) -> None:
        taken: set[str] = set()
        for one in self.instance.template.locations:
            if one.name and (one.name in taken or one.name in self.scope.names):
                raise ModelError(f"`{one.name}` is declared twice", one.span, "rename the location")
            taken.add(one.name)
        names = LocalNames(taken)
        for one in self.instance.template.locations:
            self.locations[one.key] = one.name or names.fresh(f"_{one.key}")

    def _end(self, key: str, span: Span) -> str:
        if key not in self.locations:
            raise ModelError(f"unknown location `{key}`", span, "use a location of the same template")
        return self.locations[key]

    def _location(self, location: syntax.Location) -> net.Location:
        conditions = split(ExpressionReader(self.model, self.scope, LocalNames()), location.invariant)
        check_invariant(conditions)
        return net.Location(
            self.locations[location.key],
            _KINDS[location.kind],
            invariant=condition_of(conditions.discrete),
            clock_invariant=tuple(conditions.clocks),
            span=location.span,
        )

    def _whole_edges(self) -> Iterator[syntax.Edge]:
        """Yields the edges between locations; an edge through a branchpoint is joined with each branch."""
        points = {one.key for one in self.instance.template.branchpoints}
        edges = self.instance.template.edges
        for edge in edges:
            if edge.source in points:
                continue
            if edge.target not in points:
                yield edge
                continue
            for branch in edges:
                if branch.source == edge.target:
                    yield _join(edge, branch, points)

    def _edges(self, edge: syntax.Edge) -> Iterator[net.Edge]:
        """Lowers an edge; a broadcast receiver with a clock guard becomes one edge per selected value."""
        scope = self.scope.inner()
        names = LocalNames()
        selects: list[net.Select] = []
        for one in edge.select:
            type_ = bounded(one.type, scope)
            name = names.fresh(one.name)
            scope.declare(one.name, Ref(name, type_, Home.LOCAL, writable=False), one.span)
            selects.append(net.Select(name, type_.low, type_.high, span=one.span))
        reader = ExpressionReader(self.model, scope, names)
        listens = edge.sync is not None and edge.sync.direction == "?" and edge.guard is not None
        if selects and listens and edge.sync and edge.guard and mentions_clock(edge.guard, scope):
            channel = self._channel(reader, edge.sync)
            if isinstance(channel.type, Channel) and channel.type.broadcast:
                yield from self._per_selection(edge)
                return
        yield self._edge(edge, reader, tuple(selects))

    def _per_selection(self, edge: syntax.Edge) -> Iterator[net.Edge]:
        types = [bounded(one.type, self.scope) for one in edge.select]
        for values in product(*map(numbers, types)):
            scope = self.scope.inner()
            for one, type_, value in zip(edge.select, types, values, strict=True):
                scope.declare(one.name, Fixed(value, type_), one.span)
            yield self._edge(edge, ExpressionReader(self.model, scope, LocalNames()), ())

    def _edge(self, edge: syntax.Edge, reader: Reader, selects: tuple[net.Select, ...]) -> net.Edge:
        conditions = split(reader, edge.guard)
        sync: net.Send | net.Receive | None = None
        if edge.sync is not None:
            channel = self._channel(reader, edge.sync)
            assert isinstance(channel.type, Channel)
            if channel.type.urgent and conditions.clocks:
                raise ModelError(
                    f"an edge on the urgent channel `{channel.name}` cannot have a clock guard",
                    conditions.clocks[0].span,
                    "test clocks on another edge, or declare the channel without `urgent`",
                )
            kind = net.Send if edge.sync.direction == "!" else net.Receive
            sync = kind(channel.name, access.places(channel), span=edge.sync.span)
        updating = replace(reader, effects=[])
        before, after = self._around(sync)
        for one in before:
            perform(updating.within(one.scope), one.expr)
        for expr in edge.update:
            perform(updating, expr)
        for one in after:
            perform(updating.within(one.scope), one.expr)
        return net.Edge(
            self._end(edge.source, edge.span),
            self._end(edge.target, edge.span),
            select=selects,
            guard=condition_of(conditions.discrete),
            clock_guard=tuple(conditions.clocks),
            sync=sync,
            update=tuple(updating.effects or ()),
            span=edge.span,
        )

    def _around(self, sync: net.Send | net.Receive | None) -> tuple[list[Update], list[Update]]:
        """Returns what runs before and after the edge's update: the first and the last one of a step.

        After a broadcast, a component of its own does; see `after_broadcasts`.
        """
        match sync:
            case None:
                return self.model.before, self.model.after
            case net.Send():
                return self.model.before, []
            case net.Receive(channel=name):
                kind = next(one.kind for one in self.model.channels if one.name == name)
                return [], self.model.after if kind is net.ChannelKind.RENDEZVOUS else []

    def _channel(self, reader: Reader, sync: syntax.Sync) -> Ref:
        channel = reader.place(sync.channel)
        if isinstance(channel, Ref) and isinstance(channel.type, Channel):
            return channel
        raise ModelError(
            f"expected a channel, found {describe(channel.type)}",
            sync.channel.span,
            "declare it with `chan`, and select an element if it is an array",
        )


def after_broadcasts(model: Model) -> Iterator[net.Component]:
    """Yields a last component that receives every broadcast, for the updates after every step."""
    channels = [one for one in model.channels if one.kind is net.ChannelKind.BROADCAST]
    if not model.after or not channels:
        return
    edges = []
    for channel in channels:
        reader = ExpressionReader(model, model.after[0].scope, LocalNames(), effects=[])
        selects = tuple(net.Select(reader.names.fresh("i"), 0, size - 1) for size in channel.shape)
        for one in model.after:
            perform(reader.within(one.scope), one.expr)
        receive = net.Receive(channel.name, tuple(ir.Local(one.name) for one in selects))
        edges.append(
            net.Edge("always", "always", select=selects, sync=receive, update=tuple(reader.effects or ()))
        )
    yield net.Component("after_update", (net.Location("always"),), tuple(edges), "always")


def _join(edge: syntax.Edge, branch: syntax.Edge, points: set[str]) -> syntax.Edge:
    """Joins an edge into a branchpoint with an edge out of it."""
    if branch.target in points:
        raise ModelError(
            "a branch cannot lead to another branchpoint", branch.span, "make a location its target"
        )
    if branch.guard is not None or branch.sync is not None:
        raise ModelError(
            "a branch can only have a selection and an update",
            branch.span,
            "put the guard and synchronisation on the edge into the branchpoint",
        )
    select, update = (*edge.select, *branch.select), (*edge.update, *branch.update)
    return replace(edge, target=branch.target, select=select, update=update)
