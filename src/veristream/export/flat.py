"""A Network as guarded commands over plain variables: what SPIN and TLC both understand.

Where a component is becomes a variable of its own (`@name`; none for a component that never leaves
its one location). Each action becomes one command, a barrier's action one for each combination of
edges. Choices stay symbolic: TLC quantifies over them, SPIN gets one option for each.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from veristream.export.rewrite import all_of, any_of, binary, substitute, substitute_statement, truth
from veristream.export.straight import Straightener, idle_code, location_variable
from veristream.ir.expr import (
    BOOL,
    FALSE,
    TRUE,
    Assign,
    Block,
    Check,
    Const,
    Expr,
    If,
    Let,
    Load,
    Local,
    Statement,
    Type,
)
from veristream.ir.network import Channel, ChannelKind, Network, Select, Variable, all_variables
from veristream.source import NOWHERE, Span


@dataclass(frozen=True, slots=True)
class Test:
    """A condition of a command; where `safe` is false the model faults."""

    condition: Expr
    safe: Expr = TRUE
    message: str = ""


@dataclass(frozen=True, slots=True)
class Put:
    """Appends a message to a buffer that has room."""

    channel: str
    indices: tuple[Expr, ...]
    values: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Take:
    """Drops the oldest message of a buffer that has one."""

    channel: str
    indices: tuple[Expr, ...]


FlatBlock = tuple[Statement | Put | Take, ...]
"""Straight statements; the two of buffers stand only at the top."""

READY = Local("ready$")
KEPT = Local("kept$")


@dataclass(frozen=True, slots=True)
class Command:
    """One action: possible when all tests hold, `ready` sets READY and `kept`, run after the update,
    sets KEPT; the last two are empty where there is nothing to find out.

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
    """All of a Network; `terminated` is None where no property asks for deadlocks.

    Otherwise it is the condition that all have terminated properly; whoever looks for deadlocks must
    let such a state be.
    """

    name: str
    variables: tuple[Variable, ...]
    buffers: tuple[Channel, ...]
    commands: tuple[Command, ...]
    terminated: Expr | None
    committed: Expr  # some component is at a committed location
    atomic: Expr  # some component is at an atomic location
    straight: Straightener


@dataclass(frozen=True, slots=True)
class Demand:
    """A test before it is straightened: `evaluated` must not fault and `fits` must lie in its type;
    where `fault` is set the condition must hold or the model faults with that message."""

    condition: Expr
    evaluated: tuple[Expr, ...] = ()
    fault: str = ""
    span: Span = NOWHERE
    fits: tuple[Expr, Type] | None = None


def location_variables(network: Network) -> tuple[Variable, ...]:
    """One variable for each component that can be at two places, idle being one."""
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
        found.append(Variable(name, Type(0, high), (), (start,), component.span))
    return tuple(found)


def settle(demands: list[Demand], straight: Straightener) -> tuple[tuple[Test, ...], FlatBlock]:
    """Plain tests as far as they go, then the block that finds out about the rest."""
    tests: list[Test] = []
    for i, demand in enumerate(demands):
        if not all(map(straight.is_plain, (demand.condition, *demand.evaluated))):
            return tuple(tests), _ready(demands[i:], straight)
        demand = _with_range(demand, straight)
        safe = all_of([straight.safe(part) for part in (*demand.evaluated, demand.condition)])
        condition = truth(straight.expand(demand.condition))
        message = demand.fault or "a test of the model fails"
        if demand.fault:
            safe, condition = binary("and", safe, condition), TRUE
        if (safe, condition) != (TRUE, TRUE):
            tests.append(Test(condition, safe, message))
        straight.learn(condition)
    return tuple(tests), ()


def _with_range(demand: Demand, straight: Straightener) -> Demand:
    """The demand with what is left of its range, which earlier tests may have made sure of."""
    if demand.fits is None:
        return demand
    return replace(demand, condition=straight.in_range(*demand.fits))


def _ready(demands: list[Demand], straight: Straightener) -> FlatBlock:
    inner: list[Statement] = [Assign(READY, TRUE)]
    for demand in reversed(demands):
        out: list[Statement] = []
        demand = _with_range(demand, straight)
        for part in demand.evaluated:
            straight.value(part, out)
        condition = straight.value(demand.condition, out)
        if demand.fault:
            inner = [*out, Check(condition, demand.fault, demand.span), *inner]
        else:
            inner = [*out, If(condition, tuple(inner))]
    return (Let(READY.name, BOOL, FALSE), *inner)


def termination(network: Network, straight: Straightener) -> Expr:
    """The condition that every component is idle or at a final location, or `terminal` holds."""
    ended = all_of(
        binary("or", straight.idle(component.name), straight.done(component.name))
        for component in network.components
    )
    if network.terminal is None:
        return ended
    return binary("or", ended, straight.rename(network.terminal, {}))


def buffers(network: Network) -> tuple[Channel, ...]:
    """The channels that are part of the state."""
    return tuple(channel for channel in network.channels if channel.kind is ChannelKind.BUFFER)


def state_variables(network: Network) -> tuple[Variable, ...]:
    """Where the components are, then the variables."""
    return location_variables(network) + all_variables(network)


def some_at(network: Network, straight: Straightener, places: set[tuple[str, str]]) -> Expr:
    """The condition that some component is at one of the places."""
    return any_of(
        [
            straight.at(component.name, place.name)
            for component in network.components
            for place in component.locations
            if (component.name, place.name) in places
        ]
    )


def set_location(component: str, code: int, straight: Straightener) -> Block:
    """Sends the component to the location; nothing if it is nowhere else."""
    name = location_variable(component)
    return (Assign(Load(name), Const(code)),) if name in straight.located else ()


def specialise(command: Command, values: dict[str, Expr]) -> Command:
    """The command for one choice of its values."""
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


def substitute_exchange(statement: Put | Take, values: dict[str, Expr]) -> Put | Take:
    """The statement with local names replaced."""
    indices = tuple(substitute(index, values) for index in statement.indices)
    if isinstance(statement, Take):
        return replace(statement, indices=indices)
    sent = tuple(substitute(value, values) for value in statement.values)
    return replace(statement, indices=indices, values=sent)
