"""Random small timed Networks, and properties of them, for Hypothesis.

They are valid by construction, never fault, and are small enough for `ir.timed` to visit all regions of
most of them in a fraction of a second: constants are at most 3, and smaller where there are more clocks.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from hypothesis import strategies as st

from tests.expressions import COMPARISONS, Builder, Draw
from veristream.ir.expr import (
    Assign,
    AtLocation,
    Binary,
    BinaryOp,
    Block,
    ClockConstraint,
    ClockOp,
    ClockRef,
    ClockTest,
    Const,
    Deadlocked,
    Expr,
    Fold,
    Load,
    Local,
    Reset,
    Type,
    Unary,
)
from veristream.ir.network import (
    Channel,
    ChannelKind,
    Clock,
    Component,
    Edge,
    Label,
    Location,
    LocationKind,
    Network,
    Receive,
    Select,
    Send,
    Sync,
    Variable,
)
from veristream.ir.property import (
    Always,
    Claim,
    DeadlockFree,
    Inevitable,
    LeadsTo,
    PotentiallyAlways,
    Property,
    Reachable,
)

N = Load("n")
"""The one variable, 0..2."""
OPS: tuple[ClockOp, ...] = ("<=", ">=", "<", ">", "==")
UPPER: tuple[ClockOp, ...] = ("<=", "<")


def timed_networks(*, closed: bool = False, priorities: bool = True) -> st.SearchStrategy[Network]:
    """Valid timed networks of two components and one to three clocks.

    A closed one has no strict bounds; without priorities neither channels nor components have any.
    """
    return _networks(closed, priorities)


def timed_properties(network: Network) -> st.SearchStrategy[Property]:
    """A valid property of the network; only `Always` and `Reachable` speak of deadlocks."""
    return _properties(network)


@st.composite
def _networks(draw: Draw, closed: bool, priorities: bool) -> Network:
    return _NetworkBuilder(draw, _Options(closed, priorities)).network()


@st.composite
def _properties(draw: Draw, network: Network) -> Property:
    return _PropertyBuilder(draw, _Options(), network).property()


@dataclass(frozen=True, slots=True)
class _Options:
    closed: bool = False
    priorities: bool = True


class _TimedBuilder(Builder):
    """Draws what networks and properties share: constraints of clocks."""

    def __init__(self, draw: Draw, options: _Options) -> None:
        super().__init__(draw, faults=False)
        self.options = options
        self.clocks: tuple[Clock, ...] = ()
        self.constant_max = 3

    def clock(self) -> ClockRef:
        """A clock; of an array an element that is fixed, or that the variable chooses."""
        clock = self.pick(self.clocks)
        if not clock.shape:
            return ClockRef(clock.name)
        chosen = Binary("mod", N, Const(2)) if self.rarely(3) else Const(self.upto(1))
        return ClockRef(clock.name, (chosen,))

    def constraint(self, ops: tuple[ClockOp, ...] = OPS) -> ClockConstraint:
        """A comparison of a clock, rarely of two, with a small number."""
        op = self.pick(tuple(op for op in ops if not self.options.closed or "=" in op))
        low = 1 if op == "<" else 0  # nothing is less than 0
        bound: Expr = Const(self.upto(self.constant_max, low))
        if self.rarely(6):
            bound = Binary("min", Binary("max", N, Const(low)), Const(self.constant_max))
        right = self.clock() if self.rarely(8) else None
        when = self.discrete() if self.rarely(8) else None
        return ClockConstraint(self.clock(), right, op, bound, when)

    def discrete(self) -> Expr:
        """A condition of the variable."""
        return Binary(self.pick(COMPARISONS), N, Const(self.upto(2)))


class _NetworkBuilder(_TimedBuilder):
    """Draws a network."""

    def network(self) -> Network:
        """A valid timed network."""
        shapes: tuple[tuple[int, ...], ...] = self.pick((((),), ((), ()), ((2,),), ((), (2,))))
        self.clocks = tuple(Clock(f"x{i}", shape) for i, shape in enumerate(shapes))
        self.constant_max = 4 - sum(prod(shape) for shape in shapes)
        channels = tuple(self._channel(f"c{i}") for i in range(self.upto(2)))
        components = tuple(self._component(f"P{i}") for i in range(2))
        for channel in channels:
            components = self._with_traffic(channel, components)
        if self.options.priorities and self.rarely(4) and not any(map(_casts, channels)):
            components = (replace(components[0], priority=self.pick((1, -1))), components[1])
        start = (self.upto(2),)
        return Network(
            "random",
            variables=(Variable("n", Type(0, 2), (), start),),
            channels=channels,
            clocks=self.clocks,
            components=components,
            timed=True,
        )

    def _channel(self, name: str) -> Channel:
        kind = self.pick((ChannelKind.RENDEZVOUS, ChannelKind.RENDEZVOUS, ChannelKind.BROADCAST))
        priority = self.pick((1, -1)) if self.options.priorities and self.rarely(4) else 0
        return Channel(name, kind, urgent=self.rarely(3), priority=priority)

    def _component(self, name: str) -> Component:
        locations = tuple(self._location(f"l{i}", i == 0) for i in range(self.upto(3, 2)))
        component = Component(name, locations, (), "l0")
        edges = tuple(self._edge(component, place) for place in locations)
        more = tuple(self._edge(component, self.pick(locations)) for _ in range(self.pick((1, 2, 0, 3))))
        return replace(component, edges=edges + more)

    def _location(self, name: str, initial: bool) -> Location:
        kinds = (LocationKind.NORMAL,) * 6 + (LocationKind.URGENT, LocationKind.COMMITTED)
        # All clocks begin at 0, where only upper bounds are sure to hold.
        ops = UPPER if initial or not self.rarely(6) else OPS
        invariant = tuple(self.constraint(ops) for _ in range(self.pick((0, 0, 1, 1, 2))))
        return Location(name, self.pick(kinds), final=self.rarely(6), clock_invariant=invariant)

    def _edge(
        self, component: Component, source: Location, sync: Sync | None = None, *, urgent: bool = False
    ) -> Edge:
        """An edge out of the location, mostly to the next one; those on urgent channels ask no clocks."""
        after = component.locations.index(source) + 1
        target = self.pick((component.locations[after % len(component.locations)], *component.locations))
        select = (Select("s", 0, self.upto(1)),) if self.rarely(8) else ()
        guard = self.discrete() if self.rarely(4) else None
        clock_guard = tuple(self.constraint() for _ in range(self.pick((0, 0, 1, 1, 1, 2))))
        return Edge(
            source.name,
            target.name,
            label=Label(f"a{next(self._numbers)}"),
            select=select,
            guard=guard,
            clock_guard=() if urgent else clock_guard,
            sync=sync,
            update=self._update(Local("s") if select else None),
        )

    def _update(self, chosen: Expr | None) -> Block:
        block: Block = tuple(
            Reset(self.clock(), self._reset_value()) for _ in range(self.pick((0, 1, 1, 2)))
        )
        if chosen is not None or self.rarely(3):
            step = Binary("+", N, chosen or Const(self.upto(2, 1)))
            block += (Assign(N, Binary("mod", step, Const(3))),)
        return block

    def _reset_value(self) -> Expr:
        values: tuple[Expr, ...] = (Const(0), Const(0), Const(0), Const(1), Binary("min", N, Const(1)))
        return self.pick(values)

    def _with_traffic(self, channel: Channel, components: tuple[Component, ...]) -> tuple[Component, ...]:
        """The components with an edge that sends in one, and edges that receive in the other."""
        sender = self.upto(1)
        uses: list[tuple[int, Sync]] = [(sender, Send(channel.name))]
        uses += [(1 - sender, Receive(channel.name))] * self.pick((1, 1, 2))
        result = list(components)
        for owner, sync in uses:
            component = result[owner]
            edge = self._edge(component, self.pick(component.locations), sync, urgent=channel.urgent)
            result[owner] = replace(component, edges=(*component.edges, edge))
        return tuple(result)


def _casts(channel: Channel) -> bool:
    return channel.kind is ChannelKind.BROADCAST


class _PropertyBuilder(_TimedBuilder):
    """Draws a property of a network that is there already."""

    def __init__(self, draw: Draw, options: _Options, network: Network) -> None:
        super().__init__(draw, options)
        self.clocks = network.clocks
        self.constant_max = 4 - sum(prod(clock.shape) for clock in network.clocks)
        self._components = network.components

    def property(self) -> Property:
        """A valid property."""
        return Property("random", self._claim())

    def _claim(self) -> Claim:
        match self.pick(("always", "reachable", "inevitable", "potentially", "leadsto", "deadlockfree")):
            case "always":
                return Always(self._condition(2, deadlocks=True))
            case "reachable":
                return Reachable(self._condition(2, deadlocks=True))
            case "inevitable":
                return Inevitable(self._condition(2))
            case "potentially":
                return PotentiallyAlways(self._condition(2))
            case "leadsto":
                return LeadsTo(self._condition(1), self._condition(2))
            case _:
                return DeadlockFree()

    def _condition(self, depth: int, *, deadlocks: bool = False) -> Expr:
        kinds = ("at", "clock", "clock", "n") + (("and", "and", "not", "fold") if depth else ())
        match self.pick(kinds + (("deadlock",) if deadlocks else ())):
            case "at":
                component = self.pick(self._components)
                return AtLocation(component.name, self.pick(component.locations).name)
            case "n":
                return self.discrete()
            case "and":
                ops: tuple[BinaryOp, ...] = ("and", "or", "implies")
                left = self._condition(depth - 1, deadlocks=deadlocks)
                return Binary(self.pick(ops), left, self._condition(depth - 1, deadlocks=deadlocks))
            case "not":
                return Unary("not", self._condition(depth - 1, deadlocks=deadlocks))
            case "fold":
                return self._fold_of_clocks()
            case "deadlock":
                return Deadlocked()
            case _:
                return ClockTest(self.constraint())

    def _fold_of_clocks(self) -> Expr:
        """All or any of two bounds that a counter gives."""
        name = self.fresh("k")
        test = ClockTest(replace(self.constraint(), bound=Local(name)))
        return Fold(self.pick(("all", "any")), name, 0, 1, test)
