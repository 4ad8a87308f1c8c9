"""Random small Networks, and properties of them, for Hypothesis.

Everything is valid by construction: names are fresh, indices are brought into bounds and values into
their ranges, so nothing is filtered out. With `faults` a few of those precautions are left out at
random, so that some networks fail at run time; without, none does.
"""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

from hypothesis import strategies as st

from tests.expressions import COMPARISONS, TYPES, Builder, Draw, Words
from veristream.ir.actions import list_actions
from veristream.ir.expr import (
    Assign,
    Binary,
    Block,
    Check,
    Const,
    Evaluate,
    For,
    If,
    IsIdle,
    Let,
    Load,
    Local,
    Primed,
    Return,
    Statement,
    Type,
    While,
)
from veristream.ir.network import (
    Bind,
    Channel,
    ChannelKind,
    Component,
    Edge,
    Enumeration,
    FairnessMark,
    Fork,
    Function,
    Label,
    Location,
    LocationKind,
    Match,
    Meet,
    Network,
    Parameter,
    Receive,
    Select,
    Send,
    Sync,
    Variable,
)
from veristream.ir.property import (
    Always,
    BinaryTemporal,
    Claim,
    DeadlockFree,
    DivergenceFree,
    Fairness,
    Formula,
    Holds,
    LeadsTo,
    NonTerminating,
    Occurs,
    Optimise,
    Property,
    Reachable,
    Silent,
    Temporal,
    TemporalBinary,
    TemporalUnary,
    Transition,
    UnaryTemporal,
)

COLOR = Enumeration("Color", ("red", "green", "blue"))
LABELS = (("a", 0), ("b", 1), ("c", 2))
"""Labels with how many arguments each takes."""


def networks(*, faults: bool = True) -> st.SearchStrategy[Network]:
    """Valid networks of one to four components, mostly with fewer than 5,000 states."""
    return _networks(faults)


def properties(network: Network, *, faults: bool = False) -> st.SearchStrategy[Property]:
    """A valid property of the network: any claim, any fairness."""
    return _properties(network, faults)


@st.composite
def _networks(draw: Draw, faults: bool) -> Network:
    return _NetworkBuilder(draw, faults).network()


@st.composite
def _properties(draw: Draw, network: Network, faults: bool) -> Property:
    return _PropertyBuilder(draw, faults, network).property()


class _NetworkBuilder(Builder):
    """Draws a network: first its names and shapes, then what happens."""

    def network(self) -> Network:
        """A valid network."""
        skeleton = self._skeleton()
        words = Words(skeleton)
        for number in range(self.upto(2)):
            function = self._function(f"f{number}", words)
            words = Words(replace(words.network, functions=(*words.network.functions, function)))
        components = [self._fill(component, words) for component in words.network.components]
        if any(component.idle for component in components):
            components[0] = self._with_fork(components[0], words)
        network = replace(words.network, components=tuple(components))
        for channel in network.channels:
            if channel.kind is ChannelKind.BARRIER:
                network = self._with_meeting(network, channel)
            else:
                network = self._with_traffic(network, channel)
        return network

    def _skeleton(self) -> Network:
        names = [f"P{i}" for i in range(self.pick((2, 3, 1, 3)))]
        components = tuple(self._empty_component(name) for name in names)
        if self.rarely(4):
            slot = replace(self._empty_component("S"), idle=True)
            last = replace(slot.locations[-1], final=True)
            components += (replace(slot, locations=(*slot.locations[:-1], last)),)
        return Network(
            "random",
            enums=(COLOR,),
            variables=tuple(self._variable(f"v{i}") for i in range(self.pick((2, 3, 1)))),
            channels=tuple(self._channel(f"ch{i}", len(names)) for i in range(self.pick((1, 2, 0)))),
            components=components,
        )

    def _variable(self, name: str) -> Variable:
        type_ = self.pick(TYPES)
        shape = self.pick(((), (), (), (2,), (1, 2)))
        size = 1 if not shape else 2
        return Variable(name, type_, shape, tuple(self.upto(type_.high, type_.low) for _ in range(size)))

    def _channel(self, name: str, component_count: int) -> Channel:
        kinds = (ChannelKind.BUFFER, ChannelKind.RENDEZVOUS, ChannelKind.BROADCAST, ChannelKind.BARRIER)
        kind = self.pick(kinds if component_count > 1 else kinds[:3])
        shape = self.pick(((), (), (2,)))
        if kind is ChannelKind.BARRIER:
            return Channel(name, kind, (), shape)
        fields = tuple(self.pick(TYPES) for _ in range(self.pick((1, 1, 0, 2))))
        if kind is not ChannelKind.BUFFER:
            return Channel(name, kind, fields, shape)
        return Channel(name, kind, fields, shape, self.pick((1, 1, 2)), overflow_faults=self.careless())

    def _empty_component(self, name: str) -> Component:
        kinds = (LocationKind.NORMAL,) * 5 + (
            LocationKind.COMMITTED,
            LocationKind.ATOMIC,
            LocationKind.URGENT,
        )
        # The first location is a normal one: a component that never leaves the others stops the rest.
        locations = tuple(
            Location(f"l{i}", self.pick(kinds) if i else kinds[0], final=self.rarely(4))
            for i in range(self.pick((2, 3, 1, 4)))
        )
        own = (self._variable(f"{name}.x"),) if self.rarely(4) else ()
        return Component(name, locations, (), self.pick(locations).name, variables=own)

    def _function(self, name: str, words: Words) -> Function:
        parameters = tuple(Parameter(self.fresh("p"), self.pick(TYPES)) for _ in range(self.upto(2)))
        for parameter in parameters:
            words = words.add(parameter.name, parameter.type, assignable=True)
        result = self.pick(TYPES)
        pure = not self.rarely(2)
        if not pure:
            self.impure.add(name)
        body, inner = self._block(words, 1, pure=pure, result=result)
        # A function without a return gives 0, which may not be a value of its type.
        if not self.rarely(4) or not (result.low <= 0 <= result.high or self.careless()):
            body += (Return(self.fit(self.number(inner, 1), result)),)
        return Function(name, parameters, result, body)

    def _fill(self, component: Component, words: Words) -> Component:
        """The component with a way out of most locations, more edges, and perhaps invariants."""
        ring = tuple(
            self._edge(component, words, place)
            for place in component.locations
            if not (place.final and self.rarely(2))
        )
        more = tuple(
            self._edge(component, words, self.pick(component.locations)) for _ in range(self.upto(2))
        )
        locations = tuple(
            replace(place, invariant=self.condition(words, 1)) if self.rarely(10) else place
            for place in component.locations
        )
        return replace(component, edges=ring + more, locations=locations)

    def _edge(
        self, component: Component, words: Words, source: Location, use: tuple[Channel, type] | None = None
    ) -> Edge:
        """An edge out of the location, which sends, receives or meets if `use` says so."""
        select = (Select(self.fresh("s"), 0, self.upto(2)),) if self.rarely(4) else ()
        for one in select:
            words = words.add(one.name, Type(one.low, one.high))
        sync = None if use is None else self._sync(*use, words)
        if isinstance(sync, Receive) and use is not None:
            for type_, pattern in zip(use[0].fields, sync.patterns, strict=True):
                if isinstance(pattern, Bind):
                    words = words.add(pattern.name, type_)
        after = component.locations.index(source) + 1
        next_place = component.locations[after % len(component.locations)]
        return Edge(
            source.name,
            self.pick((next_place, next_place, *component.locations)).name,
            label=self._label(words) if self.rarely(2) else None,
            select=select,
            guard=self.condition(words) if self.rarely(4) else None,
            sync=sync,
            update=self._block(words, 1)[0],
            visible=not self.rarely(6),
            fairness=self.pick((FairnessMark.NONE,) * 4 + (FairnessMark.WEAK, FairnessMark.STRONG)),
            late=self.rarely(4),
        )

    def _label(self, words: Words) -> Label:
        name, arguments = self.pick(LABELS)
        return Label(name, tuple(self.leaf(words) for _ in range(arguments)))

    def _sync(self, channel: Channel, kind: type, words: Words) -> Sync:
        indices = self.indices(channel.shape, words)
        if kind is Meet:
            return Meet(channel.name, indices)
        if kind is Send:
            values = (self.fit(self.number(words, 1), type_) for type_ in channel.fields)
            return Send(channel.name, indices, tuple(values))
        patterns = (
            Match(self.number(words, 1)) if self.rarely(4) else Bind(self.fresh("r"))
            for _ in channel.fields
        )
        return Receive(channel.name, indices, tuple(patterns))

    def _with_traffic(self, network: Network, channel: Channel) -> Network:
        """The network with some edges on the channel: a sender, a receiver, perhaps more."""
        components = list(network.components)
        first = self.upto(len(components) - 1)
        kinds = (Send, Receive, *self.pick(((Receive,), (), (Send, Receive), (Receive, Receive))))
        for turn, kind in enumerate(kinds):
            owner = (first + turn) % len(components)
            components[owner] = self._with_use(components[owner], Words(network), (channel, kind))
        return replace(network, components=tuple(components))

    def _with_use(self, component: Component, words: Words, use: tuple[Channel, type]) -> Component:
        """The component with an edge on the channel out of one location, or out of each."""
        places = component.locations
        sources = places if self.rarely(2) else (self.pick(places),)
        edges = tuple(self._edge(component, words, source, use) for source in sources)
        return replace(component, edges=component.edges + edges)

    def _block(
        self, words: Words, depth: int, *, pure: bool = False, result: Type | None = None
    ) -> tuple[Block, Words]:
        """Some statements, and the words known after them; only with a result may they return."""
        block: Block = ()
        for _ in range(self.pick((1, 2, 1, 0))):
            statements, words = self._statement(words, depth, pure, result)
            block += statements
        return block, words

    def _statement(self, words: Words, depth: int, pure: bool, result: Type | None) -> tuple[Block, Words]:
        simple = ("assign", "assign", "assign", "let", "array", "call")
        kind = self.pick(simple + (("if", "for", "while", "return") if depth else ()))
        if kind == "let":
            name, type_ = self.fresh("t"), self.pick((Type(-9, 9), *TYPES))
            let = Let(name, type_, self.fit(self.number(words, 1), type_))
            return (let,), words.add(name, type_, assignable=True)
        if kind == "array":
            name, type_ = self.fresh("t"), self.pick(TYPES)
            let = Let(name, type_, self.fit(self.leaf(words), type_), size=2)
            return (let,), replace(words, arrays=(*words.arrays, (name, 2, type_)))
        if kind == "while":
            return self._while(words, depth, pure, result), words
        return (self._plain_statement(kind, words, depth, pure, result),), words

    def _plain_statement(
        self, kind: str, words: Words, depth: int, pure: bool, result: Type | None
    ) -> Statement:
        match kind:
            case "call" if call := self.call(words, pure=pure):
                return Evaluate(call)
            case "if":
                then = self._block(words, depth - 1, pure=pure, result=result)[0]
                otherwise = self._block(words, depth - 1, pure=pure, result=result)[0]
                return If(self.condition(words, 1), then, otherwise)
            case "for":
                name, low = self.fresh("i"), self.upto(1)
                high = low + self.upto(1)
                inner = words.add(name, Type(low, high))
                return For(name, low, high, self._block(inner, depth - 1, pure=pure, result=result)[0])
            case "return" if result is not None:
                value = self.fit(self.number(words, 1), result)
                return If(self.condition(words, 1), (Return(value),))
            case "return" if self.careless():
                return Check(self.condition(words, 1), "the model's own check failed")
            case _:
                return self._assign(words, pure)

    def _assign(self, words: Words, pure: bool) -> Statement:
        locals_ = [(Local(name), type_) for name, type_ in words.assignable]
        elements = [
            (Local(name, self.indices((size,), words)[0]), type_) for name, size, type_ in words.arrays
        ]
        targets: list[tuple[Load | Local, Type]] = [*locals_, *elements]
        if not pure:
            variable = self.pick(words.variables)
            load = Load(variable.name, self.indices(variable.shape, words))
            targets = [(load, variable.type), (load, variable.type), *targets]
        if not targets:
            return If(self.condition(words, 1), ())
        target, type_ = self.pick(targets)
        called = None if pure or not self.rarely(4) else self.call(words, pure=False)
        return Assign(target, self.fit(called or self.number(words, 1), type_))

    def _while(self, words: Words, depth: int, pure: bool, result: Type | None) -> Block:
        name, rounds = self.fresh("n"), self.upto(2)
        body = self._block(words, depth - 1, pure=pure, result=result)[0]
        count_up = Assign(Local(name), Binary("+", Local(name), Const(1)))
        condition = Binary("<", Local(name), Const(rounds))
        limit = max(1, rounds - 1) if self.careless() else max(1, rounds)
        return (Let(name, Type(0, 3), Const(0)), While(condition, (count_up, *body), limit))

    def _fork(self) -> Fork:
        return Fork("S", "l0" if self.rarely(2) else None)  # every component has an l0

    def _with_fork(self, component: Component, words: Words) -> Component:
        """The component with edges that start the idle slot, join it and perhaps kill it."""
        places = component.locations
        guard = None if self.careless() else IsIdle("S")
        edges = [
            Edge(self.pick(places).name, self.pick(places).name, guard=guard, fork=(self._fork(),)),
            Edge(self.pick(places).name, self.pick(places).name, join=("S",)),
        ]
        if self.rarely(2):
            edges.append(
                Edge(
                    self.pick(places).name,
                    self.pick(places).name,
                    guard=self.condition(words, 1),
                    kill=("S",),
                    fork=(self._fork(),) if self.rarely(2) else (),
                )
            )
        return replace(component, edges=component.edges + tuple(edges))

    def _with_meeting(self, network: Network, channel: Channel) -> Network:
        """The network with who meets on the barrier, and an edge for each to do so."""
        active = [component.name for component in network.components if not component.idle]
        vectors = []
        for _ in range(self.upto(2, 1)):
            order: list[str] = self.draw(st.permutations(active))
            vectors.append(tuple(order[: self.upto(len(order), 2)]))
        distinct = tuple(dict.fromkeys(vectors))
        members = {name for vector in distinct for name in vector}
        components = tuple(
            self._with_use(component, Words(network), (channel, Meet))
            if component.name in members
            else component
            for component in network.components
        )
        channels = (replace(c, vectors=distinct) if c is channel else c for c in network.channels)
        return replace(network, channels=tuple(channels), components=components)


class _PropertyBuilder(Builder):
    """Draws a property of a network that is there already."""

    def __init__(self, draw: Draw, faults: bool, network: Network) -> None:
        super().__init__(draw, faults)
        self._words = Words(replace(network, functions=()))
        self._labels = tuple(dict.fromkeys(action.label for action in list_actions(network)))

    def property(self) -> Property:
        """A valid property."""
        return Property("random", self._claim(), self.pick(tuple(Fairness)))

    def _claim(self) -> Claim:
        match self.pick(
            ("always", "reachable", "deadlock", "end", "divergence", "transition", "ltl", "leads")
        ):
            case "always":
                return Always(self.condition(self._words))
            case "reachable":
                extreme = Optimise("max" if self.rarely(2) else "min", self.number(self._words))
                return Reachable(self.condition(self._words), extreme if self.rarely(3) else None)
            case "deadlock":
                return DeadlockFree()
            case "end":
                return NonTerminating()
            case "divergence":
                return DivergenceFree()
            case "transition":
                after = Primed(self.number(self._words, 1))
                return Transition(Binary(self.pick(COMPARISONS), self.number(self._words, 1), after))
            case "leads":
                return LeadsTo(self.condition(self._words), self.condition(self._words))
            case _:
                return Temporal(self._formula(3))

    def _formula(self, depth: int) -> Formula:
        kinds = ("holds", "occurs", "silent") + (("unary", "unary", "binary", "binary") if depth else ())
        match self.pick(kinds):
            case "occurs" if self._labels:
                label = self.pick(self._labels)
                wanted = tuple(self.pick((None, 0, 1)) for _ in label.arguments)
                return Occurs(label.name, None if self.rarely(2) else wanted)
            case "silent" if self.rarely(2):
                return Silent()
            case "unary":
                unary: tuple[UnaryTemporal, ...] = get_args(UnaryTemporal)
                return TemporalUnary(self.pick(unary), self._formula(depth - 1))
            case "binary":
                binary: tuple[BinaryTemporal, ...] = get_args(BinaryTemporal)
                left = self._formula(depth - 1)
                return TemporalBinary(self.pick(binary), left, self._formula(depth - 1))
            case _:
                return Holds(self.condition(self._words, 1))
