"""The effects of a command: moves, messages, stopped and started components, updates."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

from veristream.export.flat import KEPT, FlatBlock, Put, Take, set_location
from veristream.export.rewrite import binary, truth
from veristream.export.straight import Straightener, idle_code
from veristream.ir import expr as ir
from veristream.ir.actions import Action
from veristream.ir.network import Bind, ChannelKind, Component, Edge, Fork, Network, Receive, Send
from veristream.ir.state import start_location
from veristream.ir.walk import walk


@dataclass(slots=True)
class Mover:
    """A component on an edge; `scope` has the values of local names before the step.

    `taken` is the condition that it moves, and `enabled` the condition, in the state before the step, that
    it can. Both are TRUE except for followers that are chosen in the command.
    """

    component: Component
    edge: Edge
    scope: dict[str, ir.Expr]
    taken: ir.Expr = ir.TRUE
    enabled: ir.Expr = ir.TRUE


@dataclass(frozen=True, slots=True)
class Message:
    """What the leader offers: its channel's indices and the values it sends."""

    indices: tuple[ir.Expr, ...] = ()
    values: tuple[ir.Expr, ...] = ()


class Effects:
    """Writes the effects of the commands of one network.

    A `prelude` runs first, in the state before the step: it saves the values that are needed later.
    """

    def __init__(self, network: Network, straight: Straightener) -> None:
        self.network = network
        self.straight = straight
        self.channels = {channel.name: channel for channel in network.channels}

    def label(self, action: Action, mover: Mover, prelude: list[ir.Statement]) -> None:
        """Evaluates the label's arguments, which are not exported but may fault."""
        for argument in action.label.arguments:
            self.straight.value(self.straight.rename(argument, mover.scope), prelude)

    def update(
        self, movers: list[Mover], leader: Mover, message: Message, prelude: list[ir.Statement]
    ) -> FlatBlock:
        """Returns the prelude, then the effects of all movers in the order of the semantics."""
        kept: dict[ir.Expr, ir.Expr] = {}
        scopes = [self._scope_after(mover, kept, prelude) for mover in movers]
        exchange = self._exchange(leader, message, prelude)
        rest: list[ir.Statement] = []
        for mover in movers:
            code = [place.name for place in mover.component.locations].index(mover.edge.target)
            rest += _only_if(mover.taken, set_location(mover.component.name, code, self.straight))
        split = len(rest)
        for mover in movers:
            stopped = (*mover.edge.join, *mover.edge.kill)
            rest += _only_if(mover.taken, tuple(s for name in stopped for s in self._stop(name)))
        for mover in movers:
            forked = tuple(s for fork in mover.edge.fork for s in self._start(fork, mover.edge))
            rest += _only_if(mover.taken, forked)
        for mover, scope in zip(movers, scopes, strict=True):
            rest += _only_if(mover.taken, tuple(self.straight.block(mover.edge.update, scope)))
        return (*prelude, *rest[:split], *exchange, *rest[split:])

    def _scope_after(
        self, mover: Mover, kept: dict[ir.Expr, ir.Expr], prelude: list[ir.Statement]
    ) -> dict[str, ir.Expr]:
        """Returns the scope of the mover's update; values that the update may change are saved first."""
        scope = dict(mover.scope)
        used, assigned = _locals_of(mover.edge.update)
        for name, value in mover.scope.items():
            if name in assigned:
                type_ = self._type_of(mover.edge, name)
                local = self.straight.fresh(name, type_)
                prelude.append(ir.Let(local.name, type_, self.known(value, prelude)))
                scope[name] = local
            elif name in used:
                scope[name] = self._keep(name, value, kept, prelude)
        return scope

    def _type_of(self, edge: Edge, name: str) -> ir.Type:
        for select in edge.select:
            if select.name == name:
                return ir.Type(select.low, select.high)
        assert isinstance(edge.sync, Receive)
        fields = self.channels[edge.sync.channel].fields
        names = [p.name if isinstance(p, Bind) else "" for p in edge.sync.patterns]
        return fields[names.index(name)]

    def known(self, value: ir.Expr, prelude: list[ir.Statement]) -> ir.Expr:
        """Returns the value of an expression that the tests have evaluated without a fault."""
        straight = self.straight
        return straight.expand(value) if straight.is_plain(value) else straight.value(value, prelude)

    def _keep(
        self, name: str, value: ir.Expr, kept: dict[ir.Expr, ir.Expr], prelude: list[ir.Statement]
    ) -> ir.Expr:
        if isinstance(value, ir.Local) and value.index is None:
            return value  # a selected value, which is never assigned
        if value not in kept:
            kept[value] = self.straight.keep(name, self.known(value, prelude), prelude)
        return kept[value]

    def _keep_moved(self, name: str, value: ir.Expr, prelude: list[ir.Statement]) -> ir.Expr:
        """Returns the value as it was before the movers moved; moving changes only locations."""
        plain = self.known(value, prelude)
        places = [part for part in walk(plain) if isinstance(part, ir.Load) and part.variable[0] == "@"]
        return self._keep(name, plain, {}, prelude) if places else plain

    def _exchange(
        self, leader: Mover, message: Message, prelude: list[ir.Statement]
    ) -> tuple[Put | Take, ...]:
        sync = leader.edge.sync
        if sync is None or self.channels[sync.channel].kind is not ChannelKind.BUFFER:
            return ()
        indices = tuple(self._keep_moved("index", index, prelude) for index in message.indices)
        if isinstance(sync, Receive):
            return (Take(sync.channel, indices),)
        assert isinstance(sync, Send)
        values = tuple(self._keep_moved("sent", value, prelude) for value in message.values)
        return (Put(sync.channel, indices, values),)

    def _restore(self, component: Component) -> ir.Block:
        """Resets the component's variables to their initial values."""
        out: list[ir.Statement] = []
        for variable in component.variables:
            places = product(*(range(size) for size in variable.shape))
            for place, value in zip(places, variable.initial, strict=True):
                target = ir.Load(variable.name, tuple(map(ir.Const, place)))
                out.append(ir.Assign(target, ir.Const(value)))
                self.straight.facts.forget(target)
        return tuple(out)

    def _stop(self, name: str) -> ir.Block:
        component = self.straight.components[name]
        idle = set_location(name, idle_code(component), self.straight)
        return (*idle, *self._restore(component))

    def _start(self, fork: Fork, edge: Edge) -> ir.Block:
        name = fork.component
        component = self.straight.components[name]
        code = start_location(component, fork.location)
        check = ir.Check(self.straight.idle(name), f"{name} is forked but is not idle", span=edge.span)
        return (check, *set_location(name, code, self.straight), *self._restore(component))

    def kept(self, movers: list[Mover], loose: list[Mover]) -> FlatBlock:
        """Computes KEPT: whether the invariants of all locations hold after the step."""
        known = {mover.component.name: mover.edge.target for mover in movers}
        for mover in (*movers, *loose):
            for name in (*mover.edge.join, *mover.edge.kill, *(f.component for f in mover.edge.fork)):
                known.pop(name, None)
        out: list[ir.Statement] = []
        for component in self.network.components:
            for place in component.locations:
                if place.invariant is None or known.get(component.name, place.name) != place.name:
                    continue
                inner: list[ir.Statement] = []
                condition = self.straight.value(self.straight.rename(place.invariant, {}), inner)
                if not inner and isinstance(condition, ir.Const) and condition.value:
                    continue
                inner.append(ir.Assign(KEPT, truth(condition)))
                here = self.straight.at(component.name, place.name)
                if component.name in known:
                    here = ir.TRUE
                out.append(ir.If(binary("and", KEPT, here), tuple(inner)))
        return (ir.Let(KEPT.name, ir.BOOL, ir.TRUE), *out) if out else ()


def _only_if(condition: ir.Expr, block: ir.Block) -> ir.Block:
    if condition == ir.TRUE or not block:
        return block
    return (ir.If(condition, block),)


def _locals_of(block: ir.Block) -> tuple[set[str], set[str]]:
    """Returns the local names that the block uses, and those that it assigns."""
    nodes = list(walk(block))
    targets = (node.target for node in nodes if isinstance(node, ir.Assign))
    used = {node.name for node in nodes if isinstance(node, ir.Local)}
    return used, {target.name for target in targets if isinstance(target, ir.Local)}
