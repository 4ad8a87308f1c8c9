"""Prints a Network in its text form, which `read` turns back into an equal Network."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import assert_never

from veristream.ir import network as net
from veristream.ir import property as prop
from veristream.ir.expr import ClockConstraint
from veristream.ir.text.printer_expr import (
    Spelling,
    print_block,
    print_constraint,
    print_expr,
    print_indices,
    print_list,
    print_type,
    spelling_of,
)
from veristream.ir.text.spelling import (
    LOOSEST,
    TEMPORAL_LEVELS,
    TEMPORAL_PREFIX_LEVELS,
    TEMPORAL_RIGHTWARD,
    TIGHTEST,
    spell_component,
    spell_function,
    spell_label,
    spell_name,
    spell_occurrence,
    spell_path,
)

__all__ = ["print_expr", "print_network", "print_property"]


def print_network(network: net.Network) -> str:
    """Returns the text form of the network, one declaration per line or paragraph."""
    spelling = spelling_of(network)
    lines = [f"network {spell_name(network.name)}"]
    lines += ["timed"] if network.timed else []
    lines += [_print_enum(enum) for enum in network.enums]
    lines += [_print_variable(variable, variable.name, spelling) for variable in network.variables]
    lines += [_print_channel(channel, spelling) for channel in network.channels]
    lines += [_print_clock(clock) for clock in network.clocks]
    for function in network.functions:
        lines += _print_function(function, spelling)
    for component in network.components:
        lines += _print_component(component, spelling)
    lines += [print_property(property_, spelling) for property_ in network.properties]
    if network.remark:
        lines.append(f"remark {json.dumps(network.remark, ensure_ascii=False)}")
    if network.terminal is not None:
        lines.append(f"terminal {print_expr(network.terminal, spelling)}")
    lines += [_print_symmetry(symmetry) for symmetry in network.symmetries]
    lines += [
        f"bag {spell_path(bag.length)} {{ {', '.join(map(spell_path, bag.items))} }}"
        for bag in network.bags
    ]
    return "\n".join(lines) + "\n"


def _print_symmetry(symmetry: net.Symmetry) -> str:
    parts = []
    for variable in symmetry.variables:
        by = f" by {', '.join(map(str, variable.dimensions))}" if variable.dimensions else ""
        is_other = variable.values is net.SymmetricValues.OTHER
        values = "" if is_other else f" {variable.values.value} from {variable.low}"
        parts.append(spell_path(variable.variable) + by + values)
    return f"symmetry {spell_name(symmetry.name)} {symmetry.size} {{ {'; '.join(parts)} }}"


def print_property(property_: prop.Property, spelling: Spelling | None = None) -> str:
    """Returns the declaration of the property."""
    claim = _print_claim(property_.claim, Spelling() if spelling is None else spelling)
    fairness = property_.fairness
    under = "" if fairness is prop.Fairness.NONE else f" under {fairness.value}"
    return f"property {spell_name(property_.name)}: {claim}{under}"


def _print_enum(enum: net.Enumeration) -> str:
    kind = " set" if enum.of_set else f" from {enum.low}" if enum.low else ""
    return f"enum {spell_name(enum.name)}{kind} {{ {', '.join(map(spell_name, enum.members))} }}"


def _print_shape(shape: tuple[int, ...]) -> str:
    return "".join(f"[{size}]" for size in shape)


def _print_variable(variable: net.Variable, name: str, spelling: Spelling) -> str:
    """Returns the declaration of the variable under `name`, the short one for a component's own."""
    values = [str(value) for value in variable.initial]
    initial = values[0] if len(set(values)) == 1 else f"[{', '.join(values)}]"
    # The full name of a component's variable cannot be declared as a path elsewhere.
    written = spell_path(name) if "(" not in name else spell_name(name)
    type_ = print_type(variable.type, spelling)
    return f"var {written}{_print_shape(variable.shape)}: {type_} = {initial}"


def _print_clock(clock: net.Clock) -> str:
    return f"clock {spell_path(clock.name)}{_print_shape(clock.shape)}"


def _print_priority(priority: int) -> str:
    return f" priority {priority}" if priority else ""


def _print_channel(channel: net.Channel, spelling: Spelling) -> str:
    return _print_plain_channel(channel, spelling) + _print_priority(channel.priority)


def _print_plain_channel(channel: net.Channel, spelling: Spelling) -> str:
    urgent = "urgent " if channel.urgent else ""
    head = f"{urgent}channel {spell_name(channel.name)}{_print_shape(channel.shape)}: "
    types = ", ".join(print_type(field, spelling) for field in channel.fields)
    fields = f" ({types})" if channel.fields else ""
    match channel.kind:
        case net.ChannelKind.BARRIER:
            vectors = (f"({_print_components(vector)})" for vector in channel.vectors)
            return f"{head}barrier {{ {', '.join(vectors)} }}"
        case net.ChannelKind.BUFFER:
            faults = " faults" if channel.overflow_faults else ""
            return f"{head}buffer {channel.capacity}{fields}{faults}"
        case net.ChannelKind.RENDEZVOUS | net.ChannelKind.BROADCAST:
            return f"{head}{channel.kind.value}{fields}"
        case _:
            assert_never(channel.kind)


def _print_components(names: Iterable[str]) -> str:
    return ", ".join(map(spell_component, names))


def _print_function(function: net.Function, spelling: Spelling) -> Iterator[str]:
    parameters = ", ".join(
        f"{spell_name(parameter.name)}: {print_type(parameter.type, spelling)}"
        for parameter in function.parameters
    )
    result = print_type(function.result, spelling)
    yield f"function {spell_function(function.name)}({parameters}): {result} {{"
    yield from print_block(function.body, "  ", spelling)
    yield "}"


def _print_component(component: net.Component, spelling: Spelling) -> Iterator[str]:
    idle = "idle " if component.idle else ""
    priority = _print_priority(component.priority)
    yield f"{idle}component {spell_component(component.name)}{priority} {{"
    for variable in component.variables:
        own = variable.name.removeprefix(f"{component.name}.")
        yield "  " + _print_variable(variable, own, spelling)
    for location in component.locations:
        yield "  " + _print_location(location, location.name == component.initial, spelling)
    for edge in component.edges:
        yield from _print_edge(edge, spelling)
    yield "}"


def _print_location(location: net.Location, initial: bool, spelling: Spelling) -> str:
    parts = [] if location.kind is net.LocationKind.NORMAL else [location.kind.value]
    parts += ["location", spell_name(location.name)]
    if initial:
        parts.append("initial")
    if location.final:
        parts.append("final")
    if location.invariant is not None:
        parts.append(f"invariant {print_expr(location.invariant, spelling)}")
    if location.clock_invariant:
        parts.append(_print_clock_constraints(location.clock_invariant, spelling))
    return " ".join(parts)


def _print_clock_constraints(constraints: Iterable[ClockConstraint], spelling: Spelling) -> str:
    return "clock " + ", ".join(print_constraint(constraint, spelling) for constraint in constraints)


def _print_edge(edge: net.Edge, spelling: Spelling) -> Iterator[str]:
    head = f"  edge {spell_name(edge.source)} -> {spell_name(edge.target)}"
    clauses = list(_print_clauses(edge, spelling))
    if not clauses:
        yield head
        return
    yield head + " {"
    yield from ("    " + clause for clause in clauses)
    yield "  }"


def _print_clauses(edge: net.Edge, spelling: Spelling) -> Iterator[str]:
    for select in edge.select:
        yield f"select {spell_name(select.name)}: {select.low}..{select.high}"
    word = "action" if edge.visible else "tau"
    if edge.label is not None:
        arguments = print_list(edge.label.arguments, spelling)
        yield f"{word} {spell_label(edge.label.name)}" + (f"({arguments})" if arguments else "")
    elif not edge.visible:
        yield word
    if edge.guard is not None:
        yield f"when {print_expr(edge.guard, spelling)}"
    if edge.clock_guard:
        yield _print_clock_constraints(edge.clock_guard, spelling)
    if edge.sync is not None:
        yield _print_sync(edge.sync, spelling)
    if edge.update:
        yield "do {"
        yield from print_block(edge.update, "  ", spelling)
        yield "}"
    if edge.fork:
        yield "fork " + ", ".join(_print_fork(fork) for fork in edge.fork)
    for slots_word, slots in (("join", edge.join), ("kill", edge.kill), ("actors", edge.actors)):
        if slots:
            yield f"{slots_word} {_print_components(slots)}"
    if edge.late:
        yield "late"
    if edge.fairness is not net.FairnessMark.NONE:
        yield f"fair {edge.fairness.value}"


def _print_fork(fork: net.Fork) -> str:
    at = "" if fork.location is None else f"@{spell_name(fork.location)}"
    return _print_components((fork.component,)) + at


def _print_sync(sync: net.Sync, spelling: Spelling) -> str:
    channel = spell_name(sync.channel) + print_indices(sync.indices, spelling)
    match sync:
        case net.Send(values=values):
            return f"send {channel}" + (f"({print_list(values, spelling)})" if values else "")
        case net.Receive(patterns=patterns):
            parts = ", ".join(
                f"?{spell_name(pattern.name)}"
                if isinstance(pattern, net.Bind)
                else print_expr(pattern.value, spelling)
                for pattern in patterns
            )
            return f"receive {channel}" + (f"({parts})" if patterns else "")
        case net.Meet():
            return f"meet {channel}"
        case _:
            assert_never(sync)


def _print_claim(claim: prop.Claim, spelling: Spelling) -> str:
    kind = prop.kind_of(claim)
    match claim:
        case prop.DeadlockFree() | prop.DivergenceFree() | prop.NonTerminating() | prop.Deterministic():
            return kind
        case prop.Refines(specification=specification):
            lines = print_network(specification).rstrip("\n").split("\n")
            return "\n".join([f"{kind} {{", *("  " + line for line in lines), "}"])
        case prop.Reachable(condition=condition, optimise=prop.Optimise(direction=direction, value=value)):
            goal = f"{kind} {print_expr(condition, spelling)}"
            return f"{goal} {direction}imise {print_expr(value, spelling)}"
        case (
            prop.Always()
            | prop.Reachable()
            | prop.Transition()
            | prop.Inevitable()
            | prop.PotentiallyAlways()
        ):
            return f"{kind} {print_expr(claim.condition, spelling)}"
        case prop.Temporal(formula=formula):
            return f"{kind} {_print_formula(formula, LOOSEST, spelling)}"
        case prop.LeadsTo(cause=cause, effect=effect):
            return f"{print_expr(cause, spelling)} {kind} {print_expr(effect, spelling)}"
        case _:
            assert_never(claim)


def _print_formula(formula: prop.Formula, level: int, spelling: Spelling) -> str:
    own, text = _formula_and_level(formula, spelling)
    return text if own >= level else f"({text})"


def _formula_and_level(formula: prop.Formula, spelling: Spelling) -> tuple[int, str]:
    match formula:
        case prop.Holds(condition=condition):
            return TIGHTEST, f"{{{print_expr(condition, spelling)}}}"
        case prop.Occurs(name=name, arguments=arguments):
            if arguments is None:
                return TIGHTEST, spell_occurrence(name)
            shown = ", ".join("_" if value is None else str(value) for value in arguments)
            return TIGHTEST, f"{spell_occurrence(name)}({shown})"
        case prop.Silent():
            return TIGHTEST, "tau"
        case prop.TemporalUnary(op=op, operand=operand):
            level = TEMPORAL_PREFIX_LEVELS[op]
            return level, f"{op} {_print_formula(operand, level, spelling)}"
        case prop.TemporalBinary(op=binary_op, left=left, right=right):
            level = TEMPORAL_LEVELS[binary_op]
            rightward = binary_op in TEMPORAL_RIGHTWARD
            left_text = _print_formula(left, level + rightward, spelling)
            right_text = _print_formula(right, level + (not rightward), spelling)
            return level, f"{left_text} {binary_op} {right_text}"
        case _:
            assert_never(formula)
