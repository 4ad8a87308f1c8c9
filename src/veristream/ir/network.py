"""The Network: all that languages and engines share.

A Network is a set of components that move between locations along edges, read and write bounded
variables, and synchronise over channels. One step of it is one *action*:

1. **Who.** An edge without synchronisation, or on a buffered channel, moves alone. On a rendezvous
   channel a sender moves with one receiver of another component. On a broadcast channel a sender
   moves with every other component that has an enabled receiving edge (one edge each, every
   combination is a step of its own; none at all is fine). On a barrier channel all components of one
   of its vectors move together, one edge each. The sender, or the vector's first component, *leads*.
2. **When.** All in the state before the step; the first test that fails ends the evaluation. First
   each mover is at its edge's source and its join components are done. Then, for each choice of its
   selected values, the leader: an edge that sends, meets or does not synchronise tests its guard,
   then evaluates its channel indices, the room in the buffer (a full one disables the edge, or is a
   fault where the channel says so) and the sent values (a fault outside the field's type); an edge
   that receives from a buffer evaluates its indices, needs a message, compares what it demands
   (`Match`) field by field, then tests its guard. Then each follower, for each choice of its selected
   values: its indices agree with the leader's, what it demands is equal, its guard holds.
3. **What.** In a copy of the state: movers go to their targets; the buffer gives or takes its message;
   the movers' joined and killed components become idle, with their variables back at their initial
   values; forked components start at the location that the fork names, else at their initial one,
   with their initial values (a fault if one is not idle); then the leader's update runs, then the
   followers' in the order of the components. A step whose result breaks the `invariant` of a location
   that some component is at, tested in the order of the components, does not exist. Last, the label's
   arguments are evaluated, in the state before the step.
4. **Priority.** While a component is at a *committed* location, only steps that move a component out
   of a committed location exist. Otherwise, if a step exists that moves a component out of an *atomic*
   location, along an edge that is not *late*, only such steps exist.

A fault (see `expr`) while an action is evaluated makes the action *fail*: it is not a step but a
finding, and the search stops with the trace to it. The guard of a failing action is not relied on.

A *timed* network has clocks, which all begin at 0 and grow together while time passes:

5. **Delay.** Time passes as long as the clock invariants of all locations hold, never in a state where
   a component is at an urgent or committed location, and never while a step on an urgent channel is
   enabled (its movers' tests hold).
6. **Clock guards.** A mover's clock guard is evaluated right after its guard, in the state before the
   step, and the clocks must satisfy it. Updates may set clocks (`Reset`); what else is said of updates
   stays. The clock invariants of all locations in the state after the step must hold, with the clocks
   as they were set, else the step does not exist.
7. **Priorities.** A step has the priority of its channel (0 without one) and then the greatest of its
   movers; a step is not possible at a moment where one of greater priority is.

A state without a step has *terminated* when every component is idle or at a final location, or when
the network's `terminal` condition holds, else it is a *deadlock*. For temporal properties a state
without a step repeats for ever, with no action.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum as PythonEnum

from veristream.ir.expr import Block, ClockConstraint, Expr, Type
from veristream.ir.property import Property
from veristream.source import NOWHERE, Span


@dataclass(frozen=True, slots=True)
class Enumeration:
    """Names for the numbers `low`, `low` + 1, ...; only for showing and reading values.

    With `of_set` a number is a mask: bit i says whether member i is in a set.
    """

    name: str
    members: tuple[str, ...]
    low: int = 0
    of_set: bool = False
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Variable:
    """Part of the state: one value, or an array of the given shape, row by row in `initial`.

    A struct is one variable a field, `s.f`; an array of structs has arrays as fields.
    """

    name: str
    type: Type
    shape: tuple[int, ...] = ()
    initial: tuple[int, ...] = (0,)
    span: Span = field(default=NOWHERE, compare=False, repr=False)


class ChannelKind(PythonEnum):
    """How edges on a channel move together; see the module's text."""

    RENDEZVOUS = "rendezvous"
    BUFFER = "buffer"
    BROADCAST = "broadcast"
    BARRIER = "barrier"


@dataclass(frozen=True, slots=True)
class Channel:
    """A channel, or an array of them; `fields` are the types of a message's parts."""

    name: str
    kind: ChannelKind
    fields: tuple[Type, ...] = ()
    shape: tuple[int, ...] = ()
    capacity: int = 0  # of a buffer, at least 1
    overflow_faults: bool = False  # a send to a full buffer: a fault, or not enabled
    vectors: tuple[tuple[str, ...], ...] = ()  # of a barrier: who moves together
    urgent: bool = False  # no time passes while a step on it is possible
    priority: int = 0  # of its steps; those without a channel have 0
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Clock:
    """A clock, or an array of them; a component's own is named `Component.x`.

    The clocks of a network are numbered from 1 in their order, arrays row by row.
    """

    name: str
    shape: tuple[int, ...] = ()
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Parameter:
    """A function's parameter, passed by value."""

    name: str
    type: Type
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Function:
    """A function of the model; it may read and assign state, and may not call itself.

    Without a `Return` it gives 0. Its result must lie in `result`, else a fault.
    """

    name: str
    parameters: tuple[Parameter, ...]
    result: Type
    body: Block
    span: Span = field(default=NOWHERE, compare=False, repr=False)


class LocationKind(PythonEnum):
    """What a component at the location means for the others."""

    NORMAL = "normal"
    URGENT = "urgent"  # no time passes; no meaning in untimed networks
    COMMITTED = "committed"  # the next step must leave a committed location
    ATOMIC = "atomic"  # goes first where it can


@dataclass(frozen=True, slots=True)
class Location:
    """Where a component can be; at a `final` one it has terminated properly."""

    name: str
    kind: LocationKind = LocationKind.NORMAL
    final: bool = False
    invariant: Expr | None = None
    clock_invariant: tuple[ClockConstraint, ...] = ()
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Select:
    """A non-deterministic choice of a value, known to the whole edge."""

    name: str
    low: int
    high: int
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Send:
    """Sends one value a field."""

    channel: str
    indices: tuple[Expr, ...] = ()
    values: tuple[Expr, ...] = ()
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Bind:
    """Gives the received field a name, known to the whole edge but its channel indices and matches."""

    name: str
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Match:
    """Demands that the received field equals the value."""

    value: Expr
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Receive:
    """Receives one pattern a field; from a buffer the oldest message."""

    channel: str
    indices: tuple[Expr, ...] = ()
    patterns: tuple[Bind | Match, ...] = ()
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Meet:
    """Takes part in a barrier."""

    channel: str
    indices: tuple[Expr, ...] = ()
    span: Span = field(default=NOWHERE, compare=False, repr=False)


Sync = Send | Receive | Meet


@dataclass(frozen=True, slots=True)
class Label:
    """The name of an action, with arguments evaluated before the step in the leader's scope."""

    name: str
    arguments: tuple[Expr, ...] = ()
    span: Span = field(default=NOWHERE, compare=False, repr=False)


class FairnessMark(PythonEnum):
    """What every run owes an edge: nothing, or weak or strong fairness of its actions."""

    NONE = "none"
    WEAK = "weak"
    STRONG = "strong"


@dataclass(frozen=True, slots=True)
class Fork:
    """Starts an idle component, at its initial location where none is named."""

    component: str
    location: str | None = None
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Edge:
    """A possible move of a component; see the module's text for what happens in which order.

    The scope holds the selected values, then the received fields, then what the update declares.
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
    visible: bool = True  # an invisible action is CSP's tau
    fairness: FairnessMark = FairnessMark.NONE
    actors: tuple[str, ...] = ()  # who is said to take the step, where it is not the component itself
    late: bool = False  # out of an atomic location, but not one of the steps that go first
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Component:
    """A process: locations and edges, with variables of its own named `Component.x`."""

    name: str
    locations: tuple[Location, ...]
    edges: tuple[Edge, ...]
    initial: str
    idle: bool = False  # a slot that an edge must fork first
    variables: tuple[Variable, ...] = ()
    priority: int = 0
    span: Span = field(default=NOWHERE, compare=False, repr=False)


class SymmetricValues(PythonEnum):
    """What a permutation of a symmetry's instances does to the values of a variable."""

    OTHER = "other"  # nothing
    ID = "id"  # a value is the number of an instance
    SET = "set"  # a value is a mask of instances


@dataclass(frozen=True, slots=True)
class SymmetricVariable:
    """A variable that a symmetry's permutations change: some of its dimensions count instances, or
    its values stand for instances; `low` is the number of instance 0, smaller ones stand for none."""

    variable: str
    dimensions: tuple[int, ...] = ()
    values: SymmetricValues = SymmetricValues.OTHER
    low: int = 0


@dataclass(frozen=True, slots=True)
class Symmetry:
    """Instances that the network cannot tell apart: permuting them permutes its states and steps."""

    name: str
    size: int
    variables: tuple[SymmetricVariable, ...]
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Sorted:
    """A bag: the first `length` items, each one element of every variable of `items`, are kept in
    lexicographic order. Inner dimensions come last; all variables share the outer ones."""

    length: str
    items: tuple[str, ...]
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Network:
    """A whole model; `verify` says whether it makes sense."""

    name: str
    enums: tuple[Enumeration, ...] = ()
    variables: tuple[Variable, ...] = ()
    channels: tuple[Channel, ...] = ()
    clocks: tuple[Clock, ...] = ()
    functions: tuple[Function, ...] = ()
    components: tuple[Component, ...] = ()
    properties: tuple[Property, ...] = ()
    terminal: Expr | None = None  # a state without a step where this holds has terminated properly
    symmetries: tuple[Symmetry, ...] = ()
    bags: tuple[Sorted, ...] = ()
    timed: bool = False  # time passes; only such a network has clocks, urgency and priorities
    remark: str = ""  # what every verdict should say, such as a bound that the model was given
    span: Span = field(default=NOWHERE, compare=False, repr=False)


def enum_range(enum: Enumeration) -> tuple[int, int]:
    """The least and the greatest number that the enum shows."""
    count = len(enum.members)
    return (0, (1 << count) - 1) if enum.of_set else (enum.low, enum.low + count - 1)


def all_variables(network: Network) -> tuple[Variable, ...]:
    """The network's variables, then each component's, in order: the order of a state's values."""
    own = tuple(v for component in network.components for v in component.variables)
    return network.variables + own
