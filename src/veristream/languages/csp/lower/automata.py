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

A recursion before a `;` lets terms grow. If it grows very large ones and something may bound it, what is
behind a `;` moves from the term to a stack of the component (`stacks`), and the construction starts over.

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
    Frame,
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
from veristream.languages.csp.lower.slots import (
    GrowthError,
    Widened,
    canonical,
    forked_number,
    refuse_growth,
)
from veristream.languages.csp.lower.spell import spell_term
from veristream.languages.csp.lower.stacks.frames import (
    is_stop,
    return_to,
    take_apart,
    ways,
    when_empty,
    without_stack,
)
from veristream.languages.csp.lower.stacks.recursion import may_end, recurs
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
    is_skip,
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
    """The components of a process, the root first, and their construction.

    With `stack_max`, what is behind a `;` waits on a stack of at most that height.
    """

    steps: Steps
    alphabets: Alphabets
    widened: Widened
    fork_sequences: bool = False
    stack_max: int = 0
    components: list[Component] = field(default_factory=list)
    names: set[str] = field(default_factory=set)

    def build(self, process: csp.Ref) -> tuple[Start, ...]:
        """Builds all components of a process; returns those that run at its start, the root first."""
        root = self._component(process, None, 0, 0)
        begin = self._plan(root, self._first(process))
        found = True
        while found or any(component.pending for component in self.components):
            for component in self.components:  # grows during the loop
                self._explore(component)
            found = sum(self._return(component) for component in self.components) > 0
        for component in self.components:
            _forget_stack(component)
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
        if not self.stack_max:
            return self._plan_head(component, term)
        head, rest = take_apart(term)
        if len(rest) > self.stack_max:
            message = f"more than {self.stack_max} processes wait behind `;`"
            raise ModelError(message, term.span, f"raise the limit: --max-stack {len(rest)}")
        own, *others = self._plan_head(component, head)
        frames = tuple(self._frame(component, one) for one in reversed(rest))
        return (replace(own, pushed=frames), *others)

    def _frame(self, component: Component, process: csp.Process) -> Frame:
        if component.counted and component.parent is not None:
            raise UncountedError(component.parent.span)
        written, values = canonical(process, self.widened)
        if written not in component.frames:
            component.frames[written] = len(component.frames) + 1
            component.frame_slots.append(len(values))
        return Frame(component.frames[written], values)

    def _plan_head(self, component: Component, term: Term) -> tuple[Start, ...]:
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
            if self.stack_max and any(isinstance(branch, csp.Sequence) for branch in inner.branches):
                raise UncountedError(inner.span)
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
                return self._within(inner, lambda new: replace(term, process=new), hidden, alone=True)
            case csp.Atomic(process=inner):
                return self._within(inner, lambda new: replace(term, process=new), atomic=True)
            case csp.Interrupt(process=inner, by=by):
                point = self._within(inner, lambda new: replace(term, process=new), alone=True)
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
        alone: bool = False,
    ) -> ForkPoint | None:
        """Returns the composition of a term inside an operator, or None; `alone`, a process is one too.

        A process that runs as a component of its own has a stack.
        """
        point = self._fork_point(inner)
        if point is None and alone and self.stack_max and not isinstance(inner, Forked):
            point = ForkPoint(Running(True, (inner,), (), (inner,), span=inner.span))
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
                    component.ends.append((here, when_empty(move) if self.stack_max else move))
                    component.returns.append((here, move))
                    continue
                for one in split(move, around, data=True):
                    for each in split_sent(one, around) if self.steps.meets(one) else (one,):
                        self._add_arcs(component, here, each)

    def _add_arcs(self, component: Component, here: str, move: Move) -> None:
        if not self.stack_max:
            component.arcs.append(self._arc(component, here, move))
            return
        component.arcs += [self._arc(component, here, one) for one in ways(move)]
        if is_skip(move.target):
            component.returns.append((here, move))

    def _return(self, component: Component) -> bool:
        """Adds the arcs on which the next process of the stack runs; returns whether there are new ones."""
        before = len(component.returned)
        for at, (here, move) in enumerate(component.returns):
            for process, number in list(component.frames.items()):
                if (at, number) not in component.returned:
                    component.returned.add((at, number))
                    popping = return_to(move, process, number, component.frame_slots[number - 1])
                    arc = self._arc(component, here, popping)
                    component.arcs.append(replace(arc, pops=not arc.clears))
        return len(component.returned) > before

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
        actors = _actors(component, move, starts)
        return Arc(here, move, starts, barrier, hidden, actors, clears=is_stop(move.target))


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


def _forget_stack(component: Component) -> None:
    """Removes the conditions of a component on its stack if no process ever waits there."""
    if component.frames:
        return
    arcs = [(arc, without_stack(arc.move)) for arc in component.arcs]
    component.arcs = [replace(arc, move=move) for arc, move in arcs if move is not None]
    ends = [(at, without_stack(move)) for at, move in component.ends]
    component.ends = [(at, move) for at, move in ends if move is not None]


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


def build(
    specification: csp.Specification, process: csp.Ref, stack_max: int
) -> tuple[tuple[Start, ...], Automata]:
    """Builds the automata of a process; returns them with what runs at its start, the root first.

    Starts over with more slots, without some bags, with more forks or with stacks as the construction
    demands.
    """
    definitions = {definition.name: definition for definition in specification.definitions}
    channels = {channel.name: channel for channel in specification.channels}
    widened: Widened = frozenset()
    uncounted: frozenset[Span] = frozenset()
    fork_sequences = False
    stacks = 0

    def may_grow() -> bool:
        return recurs(definitions, process) and may_end(definitions, process)

    while True:
        alphabets = Alphabets(definitions)
        steps = Steps(definitions, channels, alphabets, uncounted)
        automata = Automata(steps, alphabets, widened, fork_sequences, stacks)
        try:
            return automata.build(process), automata
        except WidenError as wider:
            widened = wider.widened
        except UncountedError as error:
            uncounted |= {error.composition}
        except ForkSequencesError:
            fork_sequences = True
            stacks = stack_max if may_grow() else 0
        except GrowthError:
            if stacks or not may_grow():
                raise
            fork_sequences, stacks = True, stack_max
