"""A Network as guarded commands over plain variables, which both SPIN and TLC support.

The location of a component becomes a variable (`@name`; none for a component that has only one location).
Each action becomes one command; a barrier becomes one for each combination of edges. Choices stay symbolic:
TLC quantifies over them, SPIN gets one option for each value.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from veristream.export.rewrite import all_of, any_of, binary, substitute, substitute_statement, truth
from veristream.export.straight import Straightener, idle_code, location_variable
from veristream.ir import expr as ir
from veristream.ir.network import Channel, ChannelKind, Network, Select, Variable, all_variables
from veristream.source import NOWHERE, Span


@dataclass(frozen=True, slots=True)
class Test:
    """A condition of a command; the model faults if `safe` is false."""

    condition: ir.Expr
    safe: ir.Expr = ir.TRUE
    message: str = ""


@dataclass(frozen=True, slots=True)
class Put:
    """Appends a message to a buffer that has room."""

    channel: str
    indices: tuple[ir.Expr, ...]
    values: tuple[ir.Expr, ...]


@dataclass(frozen=True, slots=True)
class Take:
    """Removes the oldest message of a buffer that is not empty."""

    channel: str
    indices: tuple[ir.Expr, ...]


FlatBlock = tuple[ir.Statement | Put | Take, ...]
"""Straight statements; `Put` and `Take` occur only at the top level."""

READY = ir.Local("ready$")
KEPT = ir.Local("kept$")


@dataclass(frozen=True, slots=True)
class Command:
    """One action. It is possible if all tests hold, `ready` sets READY, and `kept`, run after the update,
    sets KEPT; the latter two are empty if there is nothing to check.

    `first` says that the command leaves an atomic location.
    """

    name: str
    comment: str
    choices: tuple[Select, ...]
    tests: tuple[Test, ...]
    ready: FlatBlock
    update: FlatBlock
    kept: FlatBlock
    first: bool = False


@dataclass(frozen=True, slots=True)
class Flat:
    """A whole Network; `terminated` is None if no property asks for deadlock freedom.

    Otherwise it is the condition that all components have terminated properly, which is not a deadlock.
    """

    name: str
    variables: tuple[Variable, ...]
    buffers: tuple[Channel, ...]
    commands: tuple[Command, ...]
    terminated: ir.Expr | None
    committed: ir.Expr  # some component is at a committed location
    atomic: ir.Expr  # some component is at an atomic location
    straight: Straightener


@dataclass(frozen=True, slots=True)
class Demand:
    """A test before it is straightened: `evaluated` must not fault and `fits` must be within its type. If
    `fault` is set, the model faults with that message unless the condition holds."""

    condition: ir.Expr
    evaluated: tuple[ir.Expr, ...] = ()
    fault: str = ""
    span: Span = NOWHERE
    fits: tuple[ir.Expr, ir.Type] | None = None


def location_variables(network: Network) -> tuple[Variable, ...]:
    """Returns a variable for each component that has at least two locations, counting idle."""
    stopped = {
        name
        for component in network.components
        for edge in component.edges
        for name in (*edge.join, *edge.kill)
    }
    found: list[Variable] = []
    for component in network.components:
        idles = component.idle or component.name in stopped
        places = [place.name for place in component.locations]
        if not idles and len(places) == 1:
            continue
        start = idle_code(component) if component.idle else places.index(component.initial)
        high = idle_code(component) if idles else len(places) - 1
        name = location_variable(component.name)
        found.append(Variable(name, ir.Type(0, high), (), (start,), span=component.span))
    return tuple(found)


def settle(demands: list[Demand], straight: Straightener) -> tuple[tuple[Test, ...], FlatBlock]:
    """Returns the leading demands as plain tests, and a block that evaluates the rest."""
    tests: list[Test] = []
    for i, demand in enumerate(demands):
        if not all(map(straight.is_plain, (demand.condition, *demand.evaluated))):
            return tuple(tests), _ready(demands[i:], straight)
        demand = _with_range(demand, straight)
        safe = all_of([straight.safe(part) for part in (*demand.evaluated, demand.condition)])
        condition = truth(straight.expand(demand.condition))
        message = demand.fault or "a test of the model fails"
        if demand.fault:
            safe, condition = binary("and", safe, condition), ir.TRUE
        if (safe, condition) != (ir.TRUE, ir.TRUE):
            tests.append(Test(condition, safe, message))
        straight.learn(condition)
    return tuple(tests), ()


def _with_range(demand: Demand, straight: Straightener) -> Demand:
    """Adds to the demand the part of its range check that earlier tests do not imply."""
    if demand.fits is None:
        return demand
    return replace(demand, condition=straight.in_range(*demand.fits))


def _ready(demands: list[Demand], straight: Straightener) -> FlatBlock:
    inner: list[ir.Statement] = [ir.Assign(READY, ir.TRUE)]
    for demand in reversed(demands):
        out: list[ir.Statement] = []
        demand = _with_range(demand, straight)
        for part in demand.evaluated:
            straight.value(part, out)
        condition = straight.value(demand.condition, out)
        if demand.fault:
            inner = [*out, ir.Check(condition, demand.fault, span=demand.span), *inner]
        else:
            inner = [*out, ir.If(condition, tuple(inner))]
    return (ir.Let(READY.name, ir.BOOL, ir.FALSE), *inner)


def termination(network: Network, straight: Straightener) -> ir.Expr:
    """Returns the condition that every component is idle or at a final location, or `terminal` holds."""
    ended = all_of(
        binary("or", straight.idle(component.name), straight.done(component.name))
        for component in network.components
    )
    if network.terminal is None:
        return ended
    return binary("or", ended, straight.rename(network.terminal, {}))


def buffers(network: Network) -> tuple[Channel, ...]:
    """Returns the channels that are part of the state."""
    return tuple(channel for channel in network.channels if channel.kind is ChannelKind.BUFFER)


def state_variables(network: Network) -> tuple[Variable, ...]:
    """Returns the location variables, then the model's variables."""
    return location_variables(network) + all_variables(network)


def some_at(network: Network, straight: Straightener, places: set[tuple[str, str]]) -> ir.Expr:
    """Returns the condition that some component is at one of the places."""
    return any_of(
        [
            straight.at(component.name, place.name)
            for component in network.components
            for place in component.locations
            if (component.name, place.name) in places
        ]
    )


def set_location(component: str, code: int, straight: Straightener) -> ir.Block:
    """Moves the component to the location; empty if it has only one."""
    name = location_variable(component)
    return (ir.Assign(ir.Load(name), ir.Const(code)),) if name in straight.located else ()


def specialise(command: Command, values: dict[str, ir.Expr]) -> Command:
    """Returns the command for one choice of values."""
    if not values:
        return command
    tests = tuple(
        Test(substitute(test.condition, values), substitute(test.safe, values), test.message)
        for test in command.tests
    )
    update = tuple(
        substitute_exchange(statement, values)
        if isinstance(statement, Put | Take)
        else substitute_statement(statement, values)
        for statement in command.update
    )
    return replace(command, choices=(), tests=tests, update=update)


def substitute_exchange(statement: Put | Take, values: dict[str, ir.Expr]) -> Put | Take:
    """Replaces local names in the statement."""
    indices = tuple(substitute(index, values) for index in statement.indices)
    if isinstance(statement, Take):
        return replace(statement, indices=indices)
    sent = tuple(substitute(value, values) for value in statement.values)
    return replace(statement, indices=indices, values=sent)
