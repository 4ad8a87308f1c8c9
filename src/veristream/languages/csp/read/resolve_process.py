"""Resolves processes: groups operators by precedence, looks up names and binds the fields of inputs.

Part of `resolve`; expressions and programs inside a process go to `resolve_expr` and `resolve_program`.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import TypeAlias, cast

from lark import Token, Tree

from veristream.errors import suggest
from veristream.ir.text.read_tree import Branch, Node, child, children, maybe, optional, token
from veristream.languages.csp import syntax as csp
from veristream.languages.csp.read.names import Scope, element_names
from veristream.languages.csp.read.resolve_expr import (
    resolve_array,
    resolve_channel,
    resolve_expr,
    resolve_indices,
    uses_globals,
)
from veristream.languages.csp.read.resolve_program import resolve_program
from veristream.source import Span

Head: TypeAlias = csp.Prefix | csp.Output | csp.Input

_LOOSEST_FIRST = ("BAR3", "BAR2", "BOX", "DIAMOND", "STARBOX", "INTERRUPT")
_CHOICES: dict[str, csp.ChoiceKind] = {"BOX": "general", "DIAMOND": "internal", "STARBOX": "external"}
_REPLICATED: dict[str, csp.Operator] = {
    **_CHOICES,
    "BAR3": "interleave",
    "BAR2": "parallel",
    "SEMI": "sequence",
}
_HEADS = {"prefix", "silent", "choice_of_events", "output", "input"}


def resolve_process(scope: Scope, node: Node) -> csp.Process:
    """Returns the process of a parse tree; raises ModelError if it is invalid."""
    match node.data:
        case "process":
            return _row(scope, node.children)
        case "replicated":
            indices = resolve_indices(scope, child(node, 1))
            body = resolve_process(scope.binding(*(index.name for index in indices)), child(node, 2))
            return csp.Replicated(_REPLICATED[token(node, 0).type], indices, body, span=scope.span(node))
        case "copies":
            return _copies(scope, node)
        case _:
            return _term(scope, node)


def resolve_ref(scope: Scope, node: Node) -> csp.Ref:
    """Resolves a reference; raises ModelError if the process is undefined or takes other arguments."""
    written, arguments = token(node, 0), optional(node, 1)
    name, processes = str(written), scope.names.processes
    if name not in processes:
        otherwise = f"define it: `{name}() = ...;`; if it is an event, add a process: `{name} -> Skip`"
        hint = suggest(name, [*processes, "Skip", "Stop"], otherwise)
        raise scope.error(written, f"there is no process `{name}`", hint)
    parts = children(arguments) if arguments is not None else []
    if len(parts) != processes[name]:
        plural = "argument" if processes[name] == 1 else "arguments"
        message = f"`{name}` takes {processes[name]} {plural}, not {len(parts)}"
        raise scope.error(node, message, "pass one value for each parameter of its definition")
    shapes = scope.names.array_parameters
    values = [_passed(scope, part, shapes.get((name, position))) for position, part in enumerate(parts)]
    return csp.Ref(name, tuple(value for part in values for value in part), span=scope.span(node))


def _passed(scope: Scope, node: Node, shape: tuple[int, ...] | None) -> tuple[csp.Expr, ...]:
    """Returns the values of an argument or of a field that is sent: all elements of an array."""
    array = resolve_array(scope, node)
    if shape is None and array is None:
        return (resolve_expr(scope, node),)
    if array is None:
        hint = f"write `[...({prod(shape or ())})]` for an array of equal elements"
        raise scope.error(node, f"an array of {prod(shape or ())} elements is passed here elsewhere", hint)
    return array.elements


def resolve_events(scope: Scope, node: Node) -> tuple[csp.Events, ...]:
    """Resolves the events of an alphabet or of a hidden set."""
    found = []
    for part in children(node):
        if part.data == "event":
            found.append(csp.Events(_event(scope, part)))
            continue
        indices = resolve_indices(scope, child(part, 0))
        inner = scope.binding(*(index.name for index in indices))
        found.append(csp.Events(_event(inner, child(part, 1)), indices))
    return tuple(found)


def _event(scope: Scope, node: Node) -> csp.Event:
    if token(node, 0).type == "TAU":
        raise scope.error(
            node, "`tau` takes no arguments and cannot be in a set of events", "give the event a name"
        )
    arguments = tuple(resolve_expr(scope, part) for part in children(node))
    return csp.Event(str(token(node, 0)), arguments, span=scope.span(node))


def _copies(scope: Scope, node: Node) -> csp.Process:
    count: csp.Expr | None = None
    written = maybe(node, 1)
    if isinstance(written, Tree):
        count = resolve_expr(scope, written)
        if uses_globals(count) or (isinstance(count, csp.Number) and count.value < 0):
            raise scope.error(
                written, "the number of copies must be a non-negative constant", "use `#define N 3;`"
            )
    return csp.Copies(count, resolve_process(scope, child(node, 2)), span=scope.span(node))


def _row(scope: Scope, parts: list[Branch]) -> csp.Process:
    """Resolves a flat row of terms and operators by splitting it at the loosest operator."""
    for kind in _LOOSEST_FIRST:
        groups = _split(parts, kind)
        if len(groups) > 1:
            branches = tuple(_row(scope, group) for group in groups)
            return _join(kind, branches, _span(scope, parts))
    return _hidden(scope, parts)


def _join(kind: str, branches: tuple[csp.Process, ...], span: Span) -> csp.Process:
    match kind:
        case "BAR3" | "BAR2":
            return csp.Parallel(kind == "BAR3", branches, span=span)
        case "INTERRUPT":
            process = branches[0]
            for by in branches[1:]:
                process = csp.Interrupt(process, by, span=span)
            return process
        case _:
            return csp.Choice(_CHOICES[kind], branches, span=span)


def _hidden(scope: Scope, parts: list[Branch]) -> csp.Process:
    """Resolves `P; Q \\ {a}`, which hides in the whole sequence."""
    hides = [part for part in parts if isinstance(part, Tree) and part.data == "hide"]
    sequence = parts[: len(parts) - len(hides)]
    misplaced = [part for part in sequence if isinstance(part, Tree) and part.data == "hide"]
    if misplaced:
        raise scope.error(misplaced[0], "the scope of this hiding is ambiguous", "write `(P \\ {a}); Q`")
    process: csp.Process | None = None
    for group in _split(sequence, "SEMI"):
        part = resolve_process(scope, cast(Node, group[0]))
        process = part if process is None else csp.Sequence(process, part, span=_span(scope, sequence))
    assert process is not None
    for hide in hides:
        process = csp.Hide(process, resolve_events(scope, child(hide, 0)), span=_span(scope, parts))
    return process


def _split(parts: list[Branch], kind: str) -> list[list[Branch]]:
    groups: list[list[Branch]] = [[]]
    for part in parts:
        if isinstance(part, Token) and part.type == kind:
            groups.append([])
        else:
            groups[-1].append(part)
    return groups


def _span(scope: Scope, parts: list[Branch]) -> Span:
    return Span(scope.source, scope.span(parts[0]).start, scope.span(parts[-1]).end)


def _term(scope: Scope, node: Node) -> csp.Process:
    """Resolves a chain of events and the process at its end; a loop, since chains can be long."""
    chain: list[tuple[Head, ...]] = []
    while node.data in _HEADS:
        heads, scope, node = _heads(scope, node)
        chain.append(heads)
    process = _atom(scope, node)
    for heads in reversed(chain):
        led = tuple(replace(head, then=process) for head in heads)
        process = led[0] if len(led) == 1 else csp.Choice("general", led, span=led[0].span)
    return process


def _heads(scope: Scope, node: Node) -> tuple[tuple[Head, ...], Scope, Node]:
    """Returns the events before an arrow, the scope after it, and the parse tree of what follows it."""
    span, nothing = scope.span(node), csp.Stop()
    last = child(node, -1)
    match node.data:
        case "prefix":
            event, block = child(node, 0), optional(node, 1)
            program = resolve_program(scope, block)
            return (csp.Prefix(_performed(scope, event), program, nothing, span=span),), scope, last
        case "silent":
            return (
                (csp.Prefix(None, resolve_program(scope, child(node, 0)), nothing, span=span),),
                scope,
                last,
            )
        case "choice_of_events":
            events = children(node)[:-1]
            heads = tuple(
                csp.Prefix(_listed(scope, event), None, nothing, span=scope.span(event)) for event in events
            )
            return heads, scope, last
        case "output":
            return (_output(scope, node, nothing),), scope, last
        case _:
            head, after = _input(scope, node, nothing)
            return (head,), after, last


def _performed(scope: Scope, node: Node) -> csp.Event | None:
    """Returns the event of a prefix, or None for tau."""
    if token(node, 0).type == "TAU" and len(node.children) == 1:
        return None
    event = _event(scope, node)
    scope.names.events.add(event.name)
    return event


def _listed(scope: Scope, node: Node) -> csp.Event | None:
    """Resolves an event of `(a, b) -> P`, which was parsed as a process."""
    if node.data == "bare_event" or (node.data == "reference" and optional(node, 1) is None):
        written: list[Branch] = [token(node, 0), *children(node)]
        return _performed(scope, Tree("event", written, node.meta))
    raise scope.error(
        node, "expected an event before `->`, found a process", "write `P; Q` to run P before Q"
    )


def _output(scope: Scope, node: Node, then: csp.Process) -> csp.Output:
    channel, fields, block = _channel_of(scope, node), optional(node, 2), optional(node, 3)
    written = children(fields) if fields is not None else []
    if written and isinstance(written[0].children[0], Token) and written[0].children[0].type == "NOT":
        raise scope.error(written[0], "`!!` is ambiguous", "to send a negation write `c!(!x)`")
    shapes = scope.names.array_fields
    values = [
        _passed(scope, value, shapes.get((channel[0], len(written), position)))
        for position, value in enumerate(written)
    ]
    sent = tuple(value for part in values for value in part)
    return csp.Output(*channel, sent, resolve_program(scope, block), then, span=scope.span(node))


def _channel_of(scope: Scope, node: Node) -> tuple[str, tuple[csp.Expr, ...]]:
    written = node.children[0]
    return resolve_channel(scope, written if isinstance(written, Token) else token(written, 0), written)


def _input(scope: Scope, node: Node, then: csp.Process) -> tuple[csp.Input, Scope]:
    """Resolves an input; returns it with the scope in which its fields are bound."""
    channel = _channel_of(scope, node)
    guard, written, block = optional(node, 2), optional(node, 3), optional(node, 4)
    fields: list[csp.Binder | csp.Expr] = []
    bound: list[str] = []
    inner, parts = scope, children(written) if written is not None else []
    for position, part in enumerate(parts):
        shape = scope.names.array_fields.get((channel[0], len(parts), position))
        name = _binds(scope, part)
        if name is None:
            fields += _passed(scope, part, shape)
            continue
        if name in bound:
            hint = f"give the second field another name and compare: `?[{name} == y]{name}.y`"
            raise scope.error(part, f"this input binds `{name}` twice", hint)
        bound.append(name)
        names = [name] if shape is None else element_names(name, shape)
        fields += [csp.Binder(each, span=scope.span(part)) for each in names]
        inner = inner.binding(name) if shape is None else inner.binding_array(name, shape)
    condition = resolve_expr(inner, child(guard, 0)) if guard is not None else None
    program = resolve_program(inner, block)
    return csp.Input(*channel, tuple(fields), condition, program, then, span=scope.span(node)), inner


def _binds(scope: Scope, node: Node) -> str | None:
    """Returns the name that a field of an input binds, or None if the field must match a value."""
    if node.data != "name":
        return None
    name = str(token(node, 0))
    known = name in scope.bound or name in scope.names.constants or name in scope.names.defines
    return None if known else name


def _atom(scope: Scope, node: Node) -> csp.Process:
    span = scope.span(node)
    match node.data:
        case "skip":
            return csp.Skip(span=span)
        case "stop":
            return csp.Stop(span=span)
        case "reference":
            return resolve_ref(scope, node)
        case "group":
            return resolve_process(scope, child(node, 0))
        case "guard":
            return csp.Guard(
                resolve_expr(scope, child(node, 0)), resolve_process(scope, child(node, 1)), span=span
            )
        case "atomic":
            return csp.Atomic(resolve_process(scope, child(node, 1)), span=span)
        case "assertion_term":
            return csp.Assert(resolve_expr(scope, child(node, 1)), span=span)
        case "case":
            return _case(scope, node)
        case "if_process" | "ifa_process" | "ifb_process":
            return _conditional(scope, node)
        case "bare_element":
            raise scope.error(
                node,
                "expected a process, found an array element",
                "to send or receive on a channel, write `c[i]!x` or `c[i]?x`",
            )
        case "bare_event":
            raise scope.error(
                node,
                "expected a process, found an event",
                "add what follows it: `-> Skip`, `-> Stop` or `-> P()`",
            )
        case _:
            return resolve_process(scope, node)


def _conditional(scope: Scope, node: Node) -> csp.Process:
    condition, then, *rest = children(node)
    test, span = resolve_expr(scope, condition), scope.span(node)
    if node.data == "ifb_process":
        return csp.Guard(test, resolve_process(scope, then), span=span)
    otherwise = resolve_process(scope, rest[0]) if rest else csp.Skip()
    return csp.Conditional(
        test, resolve_process(scope, then), otherwise, node.data == "ifa_process", span=span
    )


def _case(scope: Scope, node: Node) -> csp.Process:
    branches: list[tuple[csp.Expr, csp.Process]] = []
    default: csp.Process = csp.Skip()
    for part in children(node):
        if part.data == "case_default":
            default = resolve_process(scope, child(part, 0))
        else:
            branches.append((resolve_expr(scope, child(part, 0)), resolve_process(scope, child(part, 1))))
    return csp.Case(tuple(branches), default, span=scope.span(node))
