"""The Network: the model that all languages compile to and all engines check.

A Network is a set of components that move between locations along edges, read and write bounded
variables, and synchronise over channels. Each step is one *action*:

1. **Who.** An edge without synchronisation, or on a buffered channel, moves alone. On a rendezvous
   channel a sender moves with one receiver of another component. On a broadcast channel a sender
   moves with every other component that has an enabled receiving edge (one edge each; every
   combination is a separate step; there may be no receiver). On a barrier channel all components of
   one of its vectors move together, one edge each. The sender, or the vector's first component, *leads*.
2. **When.** All tests are evaluated in the state before the step; the first test that fails ends the
   evaluation. First, each mover is at its edge's source and its join components are done. Then the
   leader is tested for each choice of its selected values. An edge that sends, meets or does not
   synchronise tests its guard, then evaluates its channel indices, the free space of the buffer (a full
   buffer disables the edge, or is a fault if the channel says so) and the sent values (a value outside
   the field's type is a fault). An edge that receives from a buffer evaluates its indices, requires a
   message, compares the fields with its `Match` patterns one by one, then tests its guard. Then each
   follower is tested for each choice of its selected values: its indices equal the leader's, the
   message matches its patterns, and its guard holds.
3. **What.** The effects apply to a copy of the state. Movers go to their targets. The buffer stores or
   releases its message. The joined and killed components of the movers become idle, and their
   variables return to their initial values. Forked components start with their initial values at the
   location that the fork names, or at their initial location (forking a component that is not idle is
   a fault). Then the leader's update runs, then the followers' updates in the order of the components.
   A step does not exist if its result violates the `invariant` of a component's location; the
   invariants are tested in the order of the components. Last, the label's arguments are evaluated in
   the state before the step.
4. **Priority.** While a component is at a *committed* location, only steps that move a component out
   of a committed location exist. Otherwise, if a step moves a component out of an *atomic* location
   along an edge that is not *late*, only such steps exist.

A fault (see `expr`) during the evaluation of an action makes the action *fail*: it is not a step but a
finding, and the search stops with the trace to it, whatever the guard of the failing action is.

A *timed* network has clocks, which all start at 0 and advance together while time passes:

5. **Delay.** Time can pass while the clock invariants of all locations hold, but not in a state where
   a component is at an urgent or committed location, and not while a step on an urgent channel is
   enabled (its movers' tests hold).
6. **Clock guards.** A mover's clock guard is evaluated right after its guard, in the state before the
   step, and the clocks must satisfy it. Updates can also set clocks (`Reset`). A step does not exist if
   its result, with the clocks after the updates, violates the clock invariant of a location.
7. **Priorities.** Steps are ordered by the priority of their channel (0 without one), then by the
   highest priority of their movers; a step is possible only if no step of higher priority is.

A state without steps has *terminated* if every component is idle or at a final location, or if the
network's `terminal` condition holds; otherwise it is a *deadlock*. For temporal properties a state
without steps repeats forever, with no action.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum as PythonEnum

from veristream.ir.expr import Block, ClockConstraint, Expr, Type
from veristream.ir.property import Property, Rejected
from veristream.source import Node


@dataclass(frozen=True, slots=True)
class Enumeration(Node):
    """Names for the numbers `low`, `low` + 1, ...; used only to display and read values.

    With `of_set` a number is a bit mask: bit i says whether the set contains member i.
    """

    name: str
    members: tuple[str, ...]
    low: int = 0
    of_set: bool = False


@dataclass(frozen=True, slots=True)
class Variable(Node):
    """A state variable: a value, or an array of the given shape with its `initial` values row by row.

    A struct has one variable per field, `s.f`; the fields of an array of structs are arrays.
    """

    name: str
    type: Type
    shape: tuple[int, ...] = ()
    initial: tuple[int, ...] = (0,)


class ChannelKind(PythonEnum):
    """How edges on a channel synchronise; see the module's docstring."""

    RENDEZVOUS = "rendezvous"
    BUFFER = "buffer"
    BROADCAST = "broadcast"
    BARRIER = "barrier"


@dataclass(frozen=True, slots=True)
class Channel(Node):
    """A channel, or an array of channels; `fields` are the types of a message's fields."""

    name: str
    kind: ChannelKind
    fields: tuple[Type, ...] = ()
    shape: tuple[int, ...] = ()
    capacity: int = 0  # of a buffer, at least 1
    overflow_faults: bool = False  # whether a send to a full buffer is a fault or is disabled
    vectors: tuple[tuple[str, ...], ...] = ()  # of a barrier: the components that move together
    urgent: bool = False  # time does not pass while a step on the channel is possible
    priority: int = 0  # of its steps; steps without a channel have 0


@dataclass(frozen=True, slots=True)
class Clock(Node):
    """A clock, or an array of clocks; a component's own is named `Component.x`.

    The clocks of a network are numbered from 1 in their order, arrays row by row.
    """

    name: str
    shape: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Parameter(Node):
    """A function's parameter, passed by value."""

    name: str
    type: Type


@dataclass(frozen=True, slots=True)
class Function(Node):
    """A function of the model; it can read and assign state but not call itself.

    Without a `Return` it returns 0. A result outside the type `result` is a fault.
    """

    name: str
    parameters: tuple[Parameter, ...]
    result: Type
    body: Block


class LocationKind(PythonEnum):
    """How a component at the location affects the others."""

    NORMAL = "normal"
    URGENT = "urgent"  # time does not pass; ignored in untimed networks
    COMMITTED = "committed"  # the next step must leave a committed location
    ATOMIC = "atomic"  # moves first if it can


@dataclass(frozen=True, slots=True)
class Location(Node):
    """A location of a component; a component at a `final` location has terminated."""

    name: str
    kind: LocationKind = LocationKind.NORMAL
    final: bool = False
    invariant: Expr | None = None
    clock_invariant: tuple[ClockConstraint, ...] = ()


@dataclass(frozen=True, slots=True)
class Select(Node):
    """A nondeterministic choice of a value, visible in the whole edge."""

    name: str
    low: int
    high: int


@dataclass(frozen=True, slots=True)
class Send(Node):
    """Sends one value per field."""

    channel: str
    indices: tuple[Expr, ...] = ()
    values: tuple[Expr, ...] = ()


@dataclass(frozen=True, slots=True)
class Bind(Node):
    """Names the received field; the name is visible in the edge except in channel indices and matches."""

    name: str


@dataclass(frozen=True, slots=True)
class Match(Node):
    """Requires that the received field equals the value."""

    value: Expr


@dataclass(frozen=True, slots=True)
class Receive(Node):
    """Receives a message, with one pattern per field; from a buffer, the oldest message."""

    channel: str
    indices: tuple[Expr, ...] = ()
    patterns: tuple[Bind | Match, ...] = ()


@dataclass(frozen=True, slots=True)
class Meet(Node):
    """Takes part in a barrier."""

    channel: str
    indices: tuple[Expr, ...] = ()


Sync = Send | Receive | Meet


@dataclass(frozen=True, slots=True)
class Label(Node):
    """The name of an action; its arguments are evaluated before the step in the leader's scope."""

    name: str
    arguments: tuple[Expr, ...] = ()


class FairnessMark(PythonEnum):
    """The fairness that all runs must give an edge's actions: none, weak or strong."""

    NONE = "none"
    WEAK = "weak"
    STRONG = "strong"


@dataclass(frozen=True, slots=True)
class Fork(Node):
    """Starts an idle component at the location, or at its initial location if none is named."""

    component: str
    location: str | None = None


@dataclass(frozen=True, slots=True)
class Edge(Node):
    """A possible move of a component; see the module's docstring for the order of evaluation.

    The scope contains the selected values, then the received fields, then the update's declarations.
    """

    source: str
    target: str
    label: Label | None = None
    select: tuple[Select, ...] = ()
    guard: Expr | None = None
    clock_guard: tuple[ClockConstraint, ...] = ()
    sync: Sync | None = None
    update: Block = ()
    fork: tuple[Fork, ...] = ()
    join: tuple[str, ...] = ()
    kill: tuple[str, ...] = ()
    visible: bool = True  # an invisible action is a tau of CSP
    fairness: FairnessMark = FairnessMark.NONE
    actors: tuple[str, ...] = ()  # reported as the movers instead of the component
    late: bool = False  # leaves an atomic location without priority


@dataclass(frozen=True, slots=True)
class Component(Node):
    """A process: locations, edges and its own variables, which are named `Component.x`."""

    name: str
    locations: tuple[Location, ...]
    edges: tuple[Edge, ...]
    initial: str
    idle: bool = (
        False  # a slot that starts only when an edge forks it; others may be killed and forked again
    )
    variables: tuple[Variable, ...] = ()
    priority: int = 0


class SymmetricValues(PythonEnum):
    """How a permutation of a symmetry's instances changes the values of a variable."""

    OTHER = "other"  # not at all
    ID = "id"  # a value is the number of an instance
    SET = "set"  # a value is a bit mask of instances


@dataclass(frozen=True, slots=True)
class SymmetricVariable:
    """A variable that a symmetry's permutations change: instances index some of its dimensions, or are its
    values. `low` is the number of instance 0; smaller numbers mean no instance."""

    variable: str
    dimensions: tuple[int, ...] = ()
    values: SymmetricValues = SymmetricValues.OTHER
    low: int = 0


@dataclass(frozen=True, slots=True)
class Symmetry(Node):
    """Instances that the network does not distinguish: permuting them permutes its states and steps."""

    name: str
    size: int
    variables: tuple[SymmetricVariable, ...]


@dataclass(frozen=True, slots=True)
class Sorted(Node):
    """A bag: its first `length` items are in lexicographic order.

    An item consists of one element of every variable of `items`. Inner dimensions come last; all variables
    share the outer ones.
    """

    length: str
    items: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Network(Node):
    """A complete model; `verify` checks that it is well-formed."""

    name: str
    enums: tuple[Enumeration, ...] = ()
    variables: tuple[Variable, ...] = ()
    channels: tuple[Channel, ...] = ()
    clocks: tuple[Clock, ...] = ()
    functions: tuple[Function, ...] = ()
    components: tuple[Component, ...] = ()
    properties: tuple[Property, ...] = ()
    terminal: Expr | None = None  # a state without steps where this holds has terminated
    symmetries: tuple[Symmetry, ...] = ()
    bags: tuple[Sorted, ...] = ()
    timed: bool = False  # only a timed network has clocks, urgency and priorities
    remark: str = ""  # shown with every verdict, such as a bound on the model
    rejected: tuple[Rejected, ...] = ()  # by position


def enum_range(enum: Enumeration) -> tuple[int, int]:
    """Returns the smallest and the largest number of the enum."""
    count = len(enum.members)
    return (0, (1 << count) - 1) if enum.of_set else (enum.low, enum.low + count - 1)


def all_properties(network: Network) -> tuple[Property | Rejected, ...]:
    """Returns the properties and the rejected ones, in the order of the model."""
    found: list[Property | Rejected] = list(network.properties)
    for one in network.rejected:
        found.insert(one.position, one)
    return tuple(found)


def all_variables(network: Network) -> tuple[Variable, ...]:
    """Returns the network's variables, then each component's: the order of a state's values."""
    own = tuple(v for component in network.components for v in component.variables)
    return network.variables + own
