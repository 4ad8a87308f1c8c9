"""Builds automata from terms: a component for each concurrent branch, a location for each term.

This is the middle of lowering: `steps` derives the steps of each term, and `components` writes the result
as a Network. ADR 4 gives the reasons.

A composition forks into separate components if it is in the last place of a term, or inside an interrupt
that it has no rendezvous with; the component it came from waits. Inside a choice it stays part of its
component's terms, as in PAT. Before a `;` it stays too, so that the process after the `;` follows the last
branch immediately, as in PAT; only if that yields very many terms, it forks and its end takes a step.

The members of a bag are interchangeable. They form one component that counts the members at each
location or, if they keep values, lists them in a canonical order, as PAT does. If a member forks or is
atomic, the members of its bag run as separate components; then only the state counts differ from PAT's.

If a parameter takes many values, or a component has very many locations, its values move into slots
(`Widened`) and the construction starts over.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from veristream.errors import ModelError
from veristream.languages.csp import syntax as csp
from veristream.languages.csp.lower.alphabet import Alphabets, start
from veristream.languages.csp.lower.machine import (
    BAG,
    Arc,
    Component,
    Composition,
    ForkPoint,
    Signature,
    Start,
)
from veristream.languages.csp.lower.moves import (
    Move,
    Sends,
    Silent,
    Terminates,
    concrete,
    event_of,
    hidden_name,
    split,
    split_sent,
)
from veristream.languages.csp.lower.slots import Widened, canonical, forked_number, refuse_growth
from veristream.languages.csp.lower.spell import spell_term
from veristream.languages.csp.lower.steps import Steps, shared_events
from veristream.languages.csp.lower.terms import (
    COPIES_MAX,
    Alphabet,
    Forked,
    Name,
    Running,
    Term,
    begin,
    end_name,
    first_end_name,
    names_of,
)
from veristream.source import Span

VALUES_MAX = 64
LOCATIONS_MAX = 3_000
INLINE_MAX = 500
"""A component with more terms forks its compositions before a `;`."""
COMPONENTS_MAX = 600
DEPTH_MAX = 40


class WidenError(Exception):
    """Restarts the construction with more parameters in slots."""

    def __init__(self, widened: Widened) -> None:
        super().__init__()
        self.widened = widened


class ForkSequencesError(Exception):
    """Restarts the construction with compositions before a `;` forked."""


class UncountedError(Exception):
    """Restarts the construction without the bag of a composition."""

    def __init__(self, composition: Span) -> None:
        super().__init__()
        self.composition = composition


@dataclass(slots=True)
class Automata:
    """The components of a process, the root first, and their construction."""

    steps: Steps
    alphabets: Alphabets
    widened: Widened
    fork_sequences: bool = False
    components: list[Component] = field(default_factory=list)
    names: set[str] = field(default_factory=set)

    def build(self, process: csp.Ref) -> tuple[Start, ...]:
        """Builds all components of a process; returns those that run at its start, the root first."""
        root = self._component(process, None, 0, 0)
        begin = self._plan(root, self._first(process))
        for component in self.components:  # grows during the loop
            self._explore(component)
        while any(component.pending for component in self.components):
            for component in self.components:
                self._explore(component)
        for component in reversed(self.components):  # forked components before their owners
            _end_first(component)
        return begin

    def _first(self, process: csp.Ref) -> Term:
        """Returns the term at the start: a process that is a composition has begun, as in PAT."""
        body = self.steps.body(process)
        return body if isinstance(body, csp.Parallel | csp.Copies) else process

    def _component(self, term: Term, parent: Composition | None, position: int, depth: int) -> Component:
        if depth > DEPTH_MAX or len(self.components) >= COMPONENTS_MAX:
            raise ModelError(
                "this composition starts new copies of itself without bound",
                term.span,
                "recurse in one branch only, after `;` or `->`, or bound the recursion",
            )
        name = self._name(term, parent, position)
        self.names.add(name)
        component = Component(name, parent, position, depth, term.span)
        self.components.append(component)
        return component

    def _name(self, term: Term, parent: Composition | None, position: int) -> str:
        base = f"{parent.owner.name}_{position}" if parent else "System"
        if isinstance(term, csp.Ref):
            known = [each.value for each in term.arguments if isinstance(each, csp.Number)]
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
        """Returns the start of the component at a term, and of the components that it forks there."""
        point = self._fork_point(term)
        if point is None:
            return (self._at(component, term),)
        inner = point.composition
        if not isinstance(inner, Running):
            inner = begin(inner, start(inner, self.alphabets), counted=self.steps.is_counted(inner.span))
        if component.counted and component.parent is not None:
            raise UncountedError(component.parent.span)
        if inner.bag and point.atomic:
            raise UncountedError(inner.span)
        size = len(inner.origin if inner.bag else inner.branches)
        signature = Signature(
            inner.interleave, inner.alphabets, point.hidden, point.atomic, size, inner.bag, inner.endless
        )
        composition = component.compositions.get(signature)
        if composition is None:
            number = len(component.compositions)
            composition = Composition(signature, component, number, inner.span)
            component.compositions[signature] = composition
            self._add_branches(composition, inner)
        own = self._at(component, point.put(Forked(composition.number, span=inner.span)))
        starts = [own]
        if inner.bag:
            bag = composition.branches[0]
            members = tuple(self._at(bag, branch) for branch in inner.branches)
            return (own, Start(bag, BAG, (), members))
        for child, branch in zip(composition.branches, inner.branches, strict=True):
            starts += self._plan(child, branch)
        return tuple(starts)

    def _fork_point(self, term: Term) -> ForkPoint | None:
        """Returns the composition of a term that can run as separate components, or None."""
        match term:
            case csp.Parallel() | csp.Copies() | Running():
                return ForkPoint(term)
            case csp.Hide(process=inner, events=events):
                hidden = names_of(events, "an argument of a hidden event")
                return self._within(inner, lambda new: replace(term, process=new), hidden)
            case csp.Atomic(process=inner):
                return self._within(inner, lambda new: replace(term, process=new), atomic=True)
            case csp.Interrupt(process=inner, by=by):
                point = self._within(inner, lambda new: replace(term, process=new))
                # Separate components could rendezvous, but the two sides of an interrupt must not.
                meets = point is not None and self.steps.may_meet(point.composition, by)
                return None if meets else point
            case csp.Sequence(first=inner) if self.fork_sequences:
                return self._within(inner, lambda new: replace(term, first=new))
            case _:
                return None

    def _within(
        self,
        inner: Term,
        around: Callable[[Any], Term],
        hidden: Alphabet = frozenset(),
        *,
        atomic: bool = False,
    ) -> ForkPoint | None:
        point = self._fork_point(inner)
        if point is None:
            return None
        return ForkPoint(
            point.composition,
            point.hidden | hidden,
            point.atomic or atomic,
            lambda new: around(point.put(new)),
        )

    def _add_branches(self, composition: Composition, term: Running) -> None:
        depth = composition.owner.depth + 1
        if not term.bag:
            for position, origin in enumerate(term.origin):
                composition.branches.append(self._component(origin, composition, position, depth))
            return
        bag = self._component(term.origin[0], composition, 0, depth)
        bag.counted, bag.size = True, composition.signature.size
        composition.branches.append(bag)
        if term.endless is not None:
            bag.size = COPIES_MAX
            bag.endless = self._at(bag, term.endless).location

    def _at(self, component: Component, term: Term) -> Start:
        refuse_growth(term)
        written, slots = canonical(term, self.widened)
        if slots and component.counted and component.parent and component.parent.signature.endless:
            raise UncountedError(component.parent.span)
        if written not in component.locations:
            self._count(component, written)
            name = spell_term(written)
            component.alike[name] += 1
            if component.alike[name] > 1:
                name = f"{name} #{component.alike[name]}"
            component.locations[written] = name
            component.slots[name] = len(slots)
            number = forked_number(written)
            if number is not None:
                component.holding[name] = list(component.compositions.values())[number]
            component.pending.append(written)
        return Start(component, component.locations[written], slots)

    def _count(self, component: Component, term: Term) -> None:
        """Records the values of parameters; restarts the construction if there are too many."""
        if isinstance(term, csp.Ref):
            for position, argument in enumerate(term.arguments):
                if isinstance(argument, csp.Number):
                    seen = component.values.setdefault((term.name, position), set())
                    seen.add(argument.value)
                    if len(seen) > VALUES_MAX:
                        raise WidenError(self.widened | {(term.name, position)})
        if len(component.locations) > INLINE_MAX and not self.fork_sequences:
            raise ForkSequencesError
        if len(component.locations) < LOCATIONS_MAX:
            return
        many = frozenset(key for key, seen in component.values.items() if len(seen) > 2)
        if many:
            raise WidenError(self.widened | many)
        raise ModelError(
            f"the component {component.name} has more than {LOCATIONS_MAX:,} terms",
            component.span,
            "a composition inside a choice is expanded in full; make it smaller",
        )

    def _explore(self, component: Component) -> None:
        around = _names_around(component)
        while component.pending:
            term = component.pending.popleft()
            here = component.locations[term]
            for move in self.steps.of(term):
                if move.atomic or component.atomic:
                    component.urgent.add(here)
                    if component.counted and component.parent is not None:
                        raise UncountedError(component.parent.span)
                if isinstance(move.act, Terminates):
                    component.ends.append((here, move))
                    continue
                for one in split(move, around, data=True):
                    for each in split_sent(one, around) if self.steps.meets(one) else (one,):
                        component.arcs.append(self._arc(component, here, each))

    def _arc(self, component: Component, here: str, move: Move) -> Arc:
        barrier: tuple[Name, Composition] | None = None
        hidden = False
        name = event_of(move) if not isinstance(move.act, Sends) or self.steps.meets(move) else None
        synchronises = concrete(move) is not None
        for composition, position in component.outward():
            if name is None or hidden:
                break
            signature = composition.signature
            shared = shared_events(signature.alphabets)
            if synchronises and name in shared and name in signature.alphabets[position]:
                barrier = (name, composition)
            hidden = name in signature.hidden
        if hidden and barrier is None and not isinstance(move.act, Sends):
            assert name is not None
            move = replace(move, act=Silent(hidden_name(name)))
        starts = self._plan(component, move.target)
        return Arc(here, move, starts, barrier, hidden, _actors(component, move, starts))


def _actors(component: Component, move: Move, starts: tuple[Start, ...]) -> tuple[str, ...]:
    """Returns the forked components for which a component takes a composition's first step, if any."""
    places = {one.component: one.location for one in starts}
    names: list[str] = []
    for path in move.actors:
        here = component
        for position in path:
            inside = here.holding.get(places.get(here, ""))
            if inside is None or inside.signature.bag or len(starts) == 1:
                break
            here = inside.branches[position]
        names.append(here.name)
    return () if set(names) == {component.name} else tuple(dict.fromkeys(names))


def _end_first(component: Component) -> None:
    """Adds atomic ends and arcs for joint terminations of which one branch's termination is atomic."""
    if component.atomic:
        return
    for composition in component.compositions.values():
        if not any(move.atomic for branch in composition.branches for _, move in branch.ends):
            continue
        forked = Forked(composition.number)
        late, first = csp.Bound(end_name(forked)), csp.Bound(first_end_name(forked))
        ends = [(at, move) for at, move in component.ends if late in move.conditions and not move.atomic]
        arcs = [arc for arc in component.arcs if late in arc.move.conditions and not arc.move.atomic]
        component.ends += [(at, _goes_first(move, late, first)) for at, move in ends]
        component.arcs += [replace(arc, move=_goes_first(arc.move, late, first)) for arc in arcs]
        component.urgent.update(at for at, _ in ends)
        component.urgent.update(arc.source for arc in arcs)


def _goes_first(move: Move, late: csp.Expr, first: csp.Expr) -> Move:
    conditions = tuple(first if each == late else each for each in move.conditions)
    return replace(move, conditions=conditions, atomic=True)


def _names_around(component: Component) -> Alphabet:
    """Returns the events that an enclosing composition shares or hides."""
    names: set[Name] = set()
    for composition, _ in component.outward():
        names |= shared_events(composition.signature.alphabets) | composition.signature.hidden
    return frozenset(names)


def build(specification: csp.Specification, process: csp.Ref) -> tuple[tuple[Start, ...], Automata]:
    """Builds the automata of a process; returns them with what runs at its start, the root first.

    Starts over with more slots, without some bags or with more forks as the construction demands.
    """
    definitions = {definition.name: definition for definition in specification.definitions}
    channels = {channel.name: channel for channel in specification.channels}
    widened: Widened = frozenset()
    uncounted: frozenset[Span] = frozenset()
    fork_sequences = False
    while True:
        alphabets = Alphabets(definitions)
        steps = Steps(definitions, channels, alphabets, uncounted)
        automata = Automata(steps, alphabets, widened, fork_sequences)
        try:
            return automata.build(process), automata
        except WidenError as wider:
            widened = wider.widened
        except UncountedError as error:
            uncounted |= {error.composition}
        except ForkSequencesError:
            fork_sequences = True
