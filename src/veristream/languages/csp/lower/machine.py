"""The parts of automata: components, the compositions that they fork, and the arcs between locations.

`automata` builds them, `components` and `bags` write them as a Network.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from veristream.languages.csp import syntax as csp
from veristream.languages.csp.lower.moves import Happens, Move, concrete
from veristream.languages.csp.lower.steps import shared_events
from veristream.languages.csp.lower.terms import Alphabet, Name, Running, Term
from veristream.source import Span

BAG = "bag"
"""The only location of a component that represents the members of a bag."""


@dataclass(frozen=True, slots=True)
class Signature:
    """The key of a composition among those that a component may fork."""

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
    number: int
    span: Span
    branches: list[Component] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class ForkPoint:
    """A composition inside a term; `put` replaces it in the term.

    `hidden` and `atomic` describe the operators around it.
    """

    composition: csp.Parallel | csp.Copies | Running
    hidden: Alphabet = frozenset()
    atomic: bool = False
    put: Callable[[Term], Term] = lambda new: new


@dataclass(frozen=True, slots=True)
class Frame:
    """A process that waits behind a `;`: its number in `Component.frames`, and the values it keeps."""

    number: int
    values: tuple[csp.Expr, ...]


@dataclass(frozen=True, slots=True)
class Start:
    """A component at a location with the values of its slots, or a bag with where its members are.

    `pushed` are the frames that go onto its stack, the next process last.
    """

    component: Component
    location: str
    slots: tuple[csp.Expr, ...] = ()
    members: tuple[Start, ...] = ()
    pushed: tuple[Frame, ...] = ()


@dataclass(frozen=True, slots=True)
class Arc:
    """A step of a component: the first of `starts` is its own new location, the others are forked.

    A step with a `barrier` synchronises with other components; a `hidden` one is silent. In a rendezvous of
    two members of a bag, `other` is where the second one comes from and where it goes. An arc that `pops`
    takes the next process from the stack; one that `clears` leaves none.
    """

    source: str
    move: Move
    starts: tuple[Start, ...]
    barrier: tuple[Name, Composition] | None = None
    hidden: bool = False
    actors: tuple[str, ...] = ()
    other: tuple[str, Start] | None = None
    pops: bool = False
    clears: bool = False


@dataclass(eq=False, slots=True)
class Component:
    """An automaton; `ends` lists the locations that can terminate, each with its move.

    A `counted` one represents all members of a bag: `size` of them, or copies of `endless`. If they keep
    values, it is `listed`. `frames` numbers the processes that may wait on its stack, from 1; `frame_slots`
    are the numbers of values that they keep, and `returns` the moves after which the next of them runs.
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
    holding: dict[str, Composition] = field(default_factory=dict)  # at which locations branches run
    compositions: dict[Signature, Composition] = field(default_factory=dict)
    values: dict[tuple[str, int], set[int]] = field(default_factory=dict)
    pending: deque[Term] = field(default_factory=deque)
    counted: bool = False
    size: int = 0
    endless: str | None = None
    frames: dict[Term, int] = field(default_factory=dict)
    frame_slots: list[int] = field(default_factory=list)
    returns: list[tuple[str, Move]] = field(default_factory=list)
    returned: set[tuple[int, int]] = field(default_factory=set)  # which of them has an arc to which frame

    def outward(self) -> Iterator[tuple[Composition, int]]:
        """Yields the enclosing compositions and the position in each, innermost first."""
        here: Component | None = self
        while here is not None and here.parent is not None:
            yield here.parent, here.position
            here = here.parent.owner

    @property
    def slot_count(self) -> int:
        """The greatest number of slots of a location."""
        return max(self.slots.values(), default=0)

    @property
    def listed(self) -> bool:
        """Whether the members of a bag keep values, so that their number at each location is not enough."""
        return self.counted and self.slot_count > 0

    @property
    def atomic(self) -> bool:
        """Whether all steps of the component are atomic."""
        return any(composition.signature.atomic for composition, _ in self.outward())


def participants(composition: Composition, name: Name) -> list[tuple[Component, ...]]:
    """Returns each combination of components that can perform the event of a composition together."""
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


def inside(composition: Composition) -> Iterator[Component]:
    """Yields the components of the composition, including those that its branches fork."""
    for branch in composition.branches:
        yield branch
        for inner in branch.compositions.values():
            yield from inside(inner)
