"""Terms become components: one for each branch that runs on its own, with a location for each term.

A composition in the last place of a term (nothing comes after it) runs as components of their own;
the component it came from stays where it forked them. Anywhere else (before a `;`, within a choice or
an interrupt) it stays inside its component's terms, as PAT writes them.

The members of a bag, which nobody can tell apart, are one component that counts how many of them are
at each location, as PAT does; where a member cannot be counted (it keeps values, or forks), all bags
of the process run as components of their own, and only the numbers of states differ from PAT's.

Where a parameter takes many values, or a component has very many locations, the values go into slots
instead (`Widened`), and everything is built again.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from veristream.errors import ModelError
from veristream.languages.csp.alphabet import Alphabets, start
from veristream.languages.csp.spell import spell_term
from veristream.languages.csp.steps import (
    Happens,
    Meets,
    Move,
    Silent,
    Steps,
    Terminates,
    concrete,
    hidden_name,
    shared_events,
    split,
)
from veristream.languages.csp.syntax import (
    Atomic,
    Choice,
    Copies,
    Expr,
    Hide,
    Interrupt,
    Number,
    Parallel,
    Ref,
    Sequence,
    Specification,
)
from veristream.languages.csp.terms import (
    COPIES_MAX,
    Alphabet,
    Name,
    Running,
    Term,
    Widened,
    begin,
    canonical,
    names_of,
)
from veristream.source import Span

VALUES_MAX = 64
LOCATIONS_MAX = 3_000
COMPONENTS_MAX = 600
DEPTH_MAX = 40
NESTING_MAX = 60
BAG = "bag"
"""Where a component that counts members is."""


class WidenError(Exception):
    """Asks for the automata to be built again with more parameters in slots."""

    def __init__(self, widened: Widened) -> None:
        super().__init__()
        self.widened = widened


class UncountedError(Exception):
    """Asks for the automata to be built again without counting the members of bags."""


@dataclass(frozen=True, slots=True)
class Signature:
    """What sets one composition of a component apart from another that it may fork."""

    interleave: bool
    alphabets: tuple[Alphabet, ...]
    hidden: Alphabet
    atomic: bool
    size: int
    bag: bool = False
    endless: Term | None = None


@dataclass(eq=False, slots=True)
class Composition:
    """The components that one component forks together."""

    signature: Signature
    owner: Component
    branches: list[Component] = field(default_factory=list)

    @property
    def location(self) -> str:
        """Where the owner is while they run."""
        return f"fork {list(self.owner.compositions).index(self.signature)}"


@dataclass(frozen=True, slots=True)
class Start:
    """A component at a location, with the values of its slots; of a counted one its members' locations."""

    component: Component
    location: str
    slots: tuple[Expr, ...] = ()
    members: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Arc:
    """A step of a component: from a location to one of its own, first of `starts`; the others it forks.

    A step on a `barrier` waits for others; `hidden` makes it silent.
    """

    source: str
    move: Move
    starts: tuple[Start, ...]
    barrier: tuple[Name, Composition] | None = None
    hidden: bool = False
    actors: tuple[str, ...] = ()


@dataclass(eq=False, slots=True)
class Component:
    """A part that runs on its own; `ends` are its locations that may terminate, and when.

    A `counted` one is all members of a bag: `size` of them, or any number of copies of `endless`.
    """

    name: str
    parent: Composition | None
    position: int
    depth: int
    span: Span
    locations: dict[Term, str] = field(default_factory=dict)
    alike: Counter[str] = field(default_factory=Counter)
    slots: dict[str, int] = field(default_factory=dict)
    arcs: list[Arc] = field(default_factory=list)
    ends: list[tuple[str, Move]] = field(default_factory=list)
    urgent: set[str] = field(default_factory=set)
    compositions: dict[Signature, Composition] = field(default_factory=dict)
    values: dict[tuple[str, int], set[int]] = field(default_factory=dict)
    pending: deque[Term] = field(default_factory=deque)
    counted: bool = False
    size: int = 0
    endless: str | None = None

    def outward(self) -> Iterator[tuple[Composition, int]]:
        """The compositions that it is part of, with its place in each, innermost first."""
        here: Component | None = self
        while here is not None and here.parent is not None:
            yield here.parent, here.position
            here = here.parent.owner

    @property
    def atomic(self) -> bool:
        """Whether everything it does goes first."""
        return any(composition.signature.atomic for composition, _ in self.outward())


@dataclass(slots=True)
class Automata:
    """All components of a process; the first is the whole."""

    steps: Steps
    alphabets: Alphabets
    widened: Widened
    components: list[Component] = field(default_factory=list)
    names: set[str] = field(default_factory=set)

    def build(self, process: Ref) -> Start:
        """Builds every component that the process needs; how the first one starts."""
        root = self._component(process, None, 0, 0)
        begin = self._plan(root, process)
        for component in self.components:  # grows while it is walked
            self._explore(component)
        while any(component.pending for component in self.components):
            for component in self.components:
                self._explore(component)
        return begin[0]

    def _component(self, term: Term, parent: Composition | None, position: int, depth: int) -> Component:
        if depth > DEPTH_MAX or len(self.components) >= COMPONENTS_MAX:
            raise ModelError(
                "this composition begins new copies of itself without end",
                term.span,
                "let a process go on only after `;` or `->` in one branch, or bound the recursion",
            )
        name = self._name(term, parent, position)
        self.names.add(name)
        component = Component(name, parent, position, depth, term.span)
        self.components.append(component)
        return component

    def _name(self, term: Term, parent: Composition | None, position: int) -> str:
        base = f"{parent.owner.name}_{position}" if parent else "System"
        if isinstance(term, Ref):
            known = [each.value for each in term.arguments if isinstance(each, Number)]
            base = term.name
            if term.arguments and len(known) == len(term.arguments):
                base = f"{term.name}({', '.join(map(str, known))})"
        name, copy = base, 1
        while name in self.names:
            copy += 1
            plain = base.replace("(", "_").replace(")", "").replace(", ", "_").replace("-", "m")
            name = f"{plain}_{copy}"
        return name

    def _plan(self, component: Component, term: Term) -> tuple[Start, ...]:
        """How the component, and those that it forks at once, start when it becomes the term."""
        hidden: frozenset[Name] = frozenset()
        is_atomic, inner = False, term
        while isinstance(inner, Hide | Atomic):
            if isinstance(inner, Hide):
                hidden |= names_of(inner.events, "an argument of a hidden event")
            else:
                is_atomic = True
            inner = inner.process
        if isinstance(inner, Parallel | Copies):
            inner = begin(inner, start(inner, self.alphabets), counted=self.steps.counted)
        if not isinstance(inner, Running):
            return (self._at(component, term),)
        if component.counted or (inner.bag and is_atomic):
            raise UncountedError
        size = len(inner.origin if inner.bag else inner.branches)
        signature = Signature(
            inner.interleave, inner.alphabets, hidden, is_atomic, size, inner.bag, inner.endless
        )
        if inner.bag:
            return self._plan_bag(component, inner, signature)
        composition = component.compositions.get(signature)
        if composition is None:
            composition = component.compositions[signature] = Composition(signature, component)
            for position, origin in enumerate(inner.origin):
                composition.branches.append(
                    self._component(origin, composition, position, component.depth + 1)
                )
        component.slots[composition.location] = 0
        starts = [Start(component, composition.location)]
        for child, branch in zip(composition.branches, inner.branches, strict=True):
            starts += self._plan(child, branch)
        return tuple(starts)

    def _plan_bag(self, component: Component, term: Running, signature: Signature) -> tuple[Start, ...]:
        composition = component.compositions.get(signature)
        if composition is None:
            composition = component.compositions[signature] = Composition(signature, component)
            bag = self._component(term.origin[0], composition, 0, component.depth + 1)
            bag.counted, bag.size = True, signature.size
            composition.branches.append(bag)
            if term.endless is not None:
                bag.size = COPIES_MAX
                bag.endless = self._at(bag, term.endless).location
        component.slots[composition.location] = 0
        bag = composition.branches[0]
        members = tuple(self._at(bag, branch).location for branch in term.branches)
        return (Start(component, composition.location), Start(bag, BAG, (), members))

    def _at(self, component: Component, term: Term) -> Start:
        _refuse_growth(term)
        written, slots = canonical(term, self.widened)
        if component.counted and slots:
            raise UncountedError
        if written not in component.locations:
            self._count(component, written)
            name = spell_term(written)
            component.alike[name] += 1
            if component.alike[name] > 1:
                name = f"{name} #{component.alike[name]}"
            component.locations[written] = name
            component.slots[name] = len(slots)
            component.pending.append(written)
        return Start(component, component.locations[written], slots)

    def _count(self, component: Component, term: Term) -> None:
        """Notes the values of parameters; too many of them ask for slots."""
        if isinstance(term, Ref):
            for position, argument in enumerate(term.arguments):
                if isinstance(argument, Number):
                    seen = component.values.setdefault((term.name, position), set())
                    seen.add(argument.value)
                    if len(seen) > VALUES_MAX:
                        raise WidenError(self.widened | {(term.name, position)})
        if len(component.locations) < LOCATIONS_MAX:
            return
        many = frozenset(key for key, seen in component.values.items() if len(seen) > 2)
        if many:
            raise WidenError(self.widened | many)
        raise ModelError(
            f"a part of {component.name} has more than {LOCATIONS_MAX:,} forms",
            component.span,
            "compositions before a `;`, in a choice or in an interrupt are written out whole: make this"
            " one smaller, or put what comes after it into a process that waits",
        )

    def _explore(self, component: Component) -> None:
        while component.pending:
            term = component.pending.popleft()
            here = component.locations[term]
            for move in self.steps.of(term):
                if move.atomic or component.atomic:
                    component.urgent.add(here)
                    if component.counted:
                        raise UncountedError
                if isinstance(move.act, Terminates):
                    component.ends.append((here, move))
                    continue
                for one in split(move, _names_around(component), data=True):
                    component.arcs.append(self._arc(component, here, one))

    def _arc(self, component: Component, here: str, move: Move) -> Arc:
        barrier: tuple[Name, Composition] | None = None
        hidden = False
        name = _event_of(move)
        synchronises = concrete(move) is not None
        for composition, position in component.outward():
            if name is None or hidden:
                break
            signature = composition.signature
            shared = shared_events(signature.alphabets)
            if synchronises and name in shared and name in signature.alphabets[position]:
                barrier = (name, composition)
            hidden = name in signature.hidden
        if hidden and barrier is None:
            assert name is not None
            move = replace(move, act=Silent(hidden_name(name)))
        starts = self._plan(component, move.target)
        return Arc(here, move, starts, barrier, hidden, _actors(component, move, starts))


def _actors(component: Component, move: Move, starts: tuple[Start, ...]) -> tuple[str, ...]:
    """The components that a step belongs to which its component takes for them: its first one."""
    forked = {one.component: one.location for one in starts}
    names: list[str] = []
    for path in move.actors:
        here = component
        for position in path:
            inside = [one for one in here.compositions.values() if one.location == forked.get(here)]
            if not inside or inside[0].signature.bag:
                break
            here = inside[0].branches[position]
        names.append(here.name)
    return () if set(names) == {component.name} else tuple(dict.fromkeys(names))


def _refuse_growth(term: Term) -> None:
    """A process that goes on before its own `;`, or in a branch of itself, never stops growing."""
    layer: list[Term] = [term]
    for _ in range(NESTING_MAX):
        layer = [part for one in layer for part in _heads(one)]
        if not layer:
            return
    raise ModelError(
        "this process grows without end: it goes on before what is to come after it",
        layer[0].span,
        "let it go on in the last place: `P = a -> Skip; P`, not `P = (a -> P); Skip`",
    )


def _heads(term: Term) -> tuple[Term, ...]:
    """The parts of a term that move while the whole stays around them."""
    match term:
        case Sequence(first=first):
            return (first,)
        case Interrupt(process=inner, by=by):
            return (inner, by)
        case Hide(process=inner) | Atomic(process=inner):
            return (inner,)
        case Running(branches=parts):
            return parts
        case Parallel(branches=branches) | Choice(kind="external", branches=branches):
            return branches
        case _:
            return ()


def _event_of(move: Move) -> Name | None:
    if isinstance(move.act, Meets) and all(isinstance(value, Number) for value in move.act.values):
        return move.act.channel, tuple(v.value for v in move.act.values if isinstance(v, Number))
    return concrete(move, data=True)


def _names_around(component: Component) -> Alphabet:
    """The events that something around the component shares or hides."""
    names: set[Name] = set()
    for composition, _ in component.outward():
        names |= shared_events(composition.signature.alphabets) | composition.signature.hidden
    return frozenset(names)


def build(specification: Specification, process: Ref) -> tuple[Start, Automata]:
    """The components of a process of the specification, and how the first one starts."""
    definitions = {definition.name: definition for definition in specification.definitions}
    channels = {channel.name: channel for channel in specification.channels}
    widened: Widened = frozenset()
    counted = True
    while True:
        alphabets = Alphabets(definitions)
        steps = Steps(definitions, channels, alphabets, counted=counted)
        automata = Automata(steps, alphabets, widened)
        try:
            return automata.build(process), automata
        except WidenError as wider:
            widened = wider.widened
        except UncountedError:
            counted = False


def participants(composition: Composition, name: Name) -> list[tuple[Component, ...]]:
    """Who makes the event together when the composition makes it; one tuple for each way."""
    signature = composition.signature
    ways = [_ways(branch, name) for branch in composition.branches]
    shared = name in shared_events(signature.alphabets)
    joined: list[tuple[Component, ...]] = [()] if shared else []
    for position, mine in enumerate(ways):
        if not shared:
            joined += mine
        elif name in signature.alphabets[position]:
            joined = [(*left, *right) for left in joined for right in mine]
    return joined


def _ways(component: Component, name: Name) -> list[tuple[Component, ...]]:
    own = any(
        isinstance(arc.move.act, Happens) and concrete(arc.move) == name and arc.barrier is not None
        for arc in component.arcs
    )
    ways: list[tuple[Component, ...]] = [(component,)] if own else []
    for composition in component.compositions.values():
        if name not in composition.signature.hidden:
            ways += participants(composition, name)
    return ways
