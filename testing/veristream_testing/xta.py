"""Writes a timed network as UPPAAL's text, so that a reader of UPPAAL's models can be compared with it.

It writes what the random networks of the tests have, and nothing else. UPPAAL has no final locations: a
network with some is another one without them.
"""

from __future__ import annotations

from itertools import pairwise

from veristream.ir.expr import (
    Assign,
    AtLocation,
    Binary,
    Block,
    ClockConstraint,
    ClockRef,
    ClockTest,
    Const,
    Deadlocked,
    Expr,
    Fold,
    Load,
    Local,
    Reset,
    Unary,
)
from veristream.ir.network import (
    Channel,
    ChannelKind,
    Clock,
    Component,
    Edge,
    Location,
    LocationKind,
    Network,
    Send,
    Variable,
)
from veristream.ir.property import (
    Always,
    Claim,
    DeadlockFree,
    Inevitable,
    LeadsTo,
    PotentiallyAlways,
    Reachable,
)

_OPERATORS = {"mod": "%", "min": "<?", "max": ">?", "and": "&&", "or": "||", "implies": "imply"}
_QUANTIFIERS = {"all": "forall", "any": "exists", "sum": "sum"}
_WORDS = {LocationKind.URGENT: "urgent", LocationKind.COMMITTED: "commit"}


def write_xta(network: Network) -> str:
    """Returns the text of a model with the network's components as its processes."""
    lines = [_variable(one) for one in network.variables]
    lines += [_clock(one) for one in network.clocks]
    lines += [_channel(one) for one in network.channels]
    lines += _channel_priorities(network.channels)
    lines += [_process(one) for one in network.components]
    return "\n".join([*lines, _system_line(network.components), ""])


def write_query(claim: Claim) -> str:
    """Returns the claim as a query."""
    match claim:
        case Always(condition=condition):
            return f"A[] {_expr(condition)}"
        case Reachable(condition=condition):
            return f"E<> {_expr(condition)}"
        case Inevitable(condition=condition):
            return f"A<> {_expr(condition)}"
        case PotentiallyAlways(condition=condition):
            return f"E[] {_expr(condition)}"
        case LeadsTo(cause=cause, effect=effect):
            return f"{_expr(cause)} --> {_expr(effect)}"
        case DeadlockFree():
            return "A[] not deadlock"
        case _:
            raise AssertionError(f"no query of UPPAAL: {claim}")


def _variable(variable: Variable) -> str:
    assert not variable.shape
    (start,) = variable.initial
    return f"int[{variable.type.low},{variable.type.high}] {variable.name} = {start};"


def _clock(clock: Clock) -> str:
    return f"clock {clock.name}{''.join(f'[{size}]' for size in clock.shape)};"


def _channel(channel: Channel) -> str:
    urgent = "urgent " if channel.urgent else ""
    broadcast = "broadcast " if channel.kind is ChannelKind.BROADCAST else ""
    return f"{urgent}{broadcast}chan {channel.name};"


def _channel_priorities(channels: tuple[Channel, ...]) -> list[str]:
    """Returns the declaration of priorities, from the lowest; `default` is that of internal steps."""
    levels = sorted({0, *(one.priority for one in channels)})
    if levels == [0]:
        return []
    named = [[one.name for one in channels if one.priority == level] for level in levels]
    words = [
        ", ".join([*(["default"] if level == 0 else []), *([] if level == 0 else names)])
        for level, names in zip(levels, named, strict=True)
    ]
    return [f"chan priority {' < '.join(words)};"]


def _system_line(components: tuple[Component, ...]) -> str:
    ordered = sorted(components, key=lambda one: one.priority)
    text = ordered[0].name
    for before, after in pairwise(ordered):
        text += f"{' <' if before.priority < after.priority else ','} {after.name}"
    return f"system {text};"


def _process(component: Component) -> str:
    states = ", ".join(map(_location, component.locations))
    lines = [f"process {component.name}() {{", f"  state {states};"]
    for kind, word in _WORDS.items():
        names = [one.name for one in component.locations if one.kind is kind]
        lines += [f"  {word} {', '.join(names)};"] if names else []
    lines.append(f"  init {component.initial};")
    edges = ",\n    ".join(map(_edge, component.edges))
    return "\n".join([*lines, *([f"  trans\n    {edges};"] if edges else []), "}"])


def _location(location: Location) -> str:
    invariant = " && ".join(map(_constraint, location.clock_invariant))
    return f"{location.name} {{ {invariant} }}" if invariant else location.name


def _edge(edge: Edge) -> str:
    parts = []
    if edge.select:
        parts.append(
            "select " + ", ".join(f"{one.name} : int[{one.low},{one.high}]" for one in edge.select)
        )
    guards = [] if edge.guard is None else [_expr(edge.guard)]
    guards += map(_constraint, edge.clock_guard)
    if guards:
        parts.append("guard " + " && ".join(guards))
    if edge.sync is not None:
        parts.append(f"sync {edge.sync.channel}{'!' if isinstance(edge.sync, Send) else '?'}")
    if edge.update:
        parts.append("assign " + _updates(edge.update))
    return f"{edge.source} -> {edge.target} {{ {' '.join(f'{part};' for part in parts)} }}"


def _updates(block: Block) -> str:
    found = []
    for statement in block:
        match statement:
            case Reset(clock=clock, value=value):
                found.append(f"{_clock_ref(clock)} = {_expr(value)}")
            case Assign(target=target, value=value):
                found.append(f"{_expr(target)} = {_expr(value)}")
            case _:
                raise AssertionError(f"not in a random network: {statement}")
    return ", ".join(found)


def _constraint(constraint: ClockConstraint) -> str:
    left = _clock_ref(constraint.left)
    if constraint.right is not None:
        left += f" - {_clock_ref(constraint.right)}"
    text = f"{left} {constraint.op} {_expr(constraint.bound)}"
    return text if constraint.when is None else f"(!{_expr(constraint.when)} || {text})"


def _clock_ref(clock: ClockRef) -> str:
    return clock.clock + "".join(f"[{_expr(index)}]" for index in clock.indices)


def _expr(expr: Expr) -> str:
    match expr:
        case Const(value=value):
            return str(value)
        case Load(variable=name, indices=()) | Local(name=name, index=None):
            return name
        case Binary(op=op, left=left, right=right):
            return f"({_expr(left)} {_OPERATORS.get(op, op)} {_expr(right)})"
        case Unary(op="not", operand=operand):
            return f"(not {_expr(operand)})"
        case AtLocation(component=component, location=location):
            return f"{component}.{location}"
        case ClockTest(constraint=constraint):
            return f"({_constraint(constraint)})"
        case Deadlocked():
            return "deadlock"
        case Fold(op=op, name=name, low=low, high=high, body=body):
            return f"({_QUANTIFIERS[op]} ({name} : int[{low},{high}]) {_expr(body)})"
        case _:
            raise AssertionError(f"not in a random network: {expr}")
