"""Reads the processes of XTA files."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from lark import Token

from veristream.errors import ModelError, suggest
from veristream.ir.text.read_tree import Node, child, children, maybe, optional, token
from veristream.languages.timed.read.declarations import read_declarations, read_parameters
from veristream.languages.timed.read.expressions import Scope
from veristream.languages.timed.read.labels import read_conditions, read_selects, read_sync, read_updates
from veristream.languages.timed.syntax import Branchpoint, Edge, Expression, Location, Select, Template
from veristream.source import Span


@dataclass(slots=True)
class _Body:
    """The parts of a process read so far."""

    locations: dict[str, Location] = field(default_factory=dict)
    branchpoints: dict[str, Branchpoint] = field(default_factory=dict)
    initial: str | None = None
    edges: list[Edge] = field(default_factory=list)


def read_process(scope: Scope, node: Node) -> Template:
    """Reads `process P(parameters) { ... }`; names serve as keys of locations."""
    inner, name, written = scope.inner(), token(node, 0), optional(node, 1)
    parameters = read_parameters(inner, None if written is None else optional(written, 0))
    declarations = read_declarations(inner, children(child(node, 2)))
    body, content = _Body(), optional(node, 3)
    if content is None:
        message = f"the process `{name}` has no locations"
        raise ModelError(message, scope.span(name), "add `state A; init A;`")
    for part in sorted(children(content), key=lambda part: part.data == "transitions"):
        _read_part(inner, part, body)
    if body.initial is None:
        message = f"the process `{name}` has no initial location"
        first = next(iter(body.locations))
        raise ModelError(message, scope.span(name), f"add `init {first};` after its locations")
    return Template(
        str(name),
        parameters,
        declarations,
        tuple(body.locations.values()),
        tuple(body.branchpoints.values()),
        body.initial,
        tuple(body.edges),
        span=scope.span(name),
    )


def _read_part(scope: Scope, node: Node, body: _Body) -> None:
    match node.data:
        case "states":
            for state in children(node):
                _read_location(scope, state, body)
        case "branchpoints":
            for word in node.children:
                assert isinstance(word, Token)
                _refuse_twice(word, scope.span(word), body)
                body.branchpoints[str(word)] = Branchpoint(str(word), span=scope.span(word))
        case "flags":
            _read_flags(scope, node, body)
        case "init":
            body.initial = _known(scope, token(node, 0), list(body.locations))
        case _:
            before: Token | None = None
            for transition in children(node):
                before = _read_edge(scope, transition, before, body)


def _read_location(scope: Scope, node: Node, body: _Body) -> None:
    name, conditions = token(node, 0), optional(node, 1)
    invariant = None if conditions is None else read_conditions(scope, conditions)
    _refuse_twice(name, scope.span(name), body)
    body.locations[str(name)] = Location(str(name), str(name), invariant, span=scope.span(name))


def _refuse_twice(name: str, span: Span, body: _Body) -> None:
    if name in body.locations or name in body.branchpoints:
        raise ModelError(f"there are two locations `{name}`", span, "rename one of them")


def _read_flags(scope: Scope, node: Node, body: _Body) -> None:
    """Reads `commit A, B;` and `urgent C;`; a committed location is urgent anyway."""
    kind: Literal["urgent", "committed"] = "committed" if token(node, 0) == "commit" else "urgent"
    for place in range(1, len(node.children)):
        name = _known(scope, token(node, place), list(body.locations))
        old = body.locations[name]
        if old.kind != "committed":
            body.locations[name] = Location(old.key, old.name, old.invariant, kind, span=old.span)


def _known(scope: Scope, word: Token, names: list[str]) -> str:
    if word not in names:
        hint = suggest(word, names, f"the locations are: {', '.join(names)}")
        raise ModelError(f"there is no location `{word}`", scope.span(word), hint)
    return str(word)


def _read_edge(scope: Scope, node: Node, before: Token | None, body: _Body) -> Token:
    """Adds one edge and returns its source; an omitted source is that of the previous edge."""
    first, target = maybe(node, 0), token(node, 1)
    source = first if isinstance(first, Token) else before
    if source is None:
        hint = f"write `A -> {target}`; only later edges can omit `A`"
        raise ModelError("the first edge has no source", scope.span(node), hint)
    names = [*body.locations, *body.branchpoints]
    ends = (_known(scope, source, names), _known(scope, target, names))
    inner = scope.inner()
    select: tuple[Select, ...] = ()
    update: tuple[Expression, ...] = ()
    guard, sync = None, None
    for label in children(node):
        content = child(label, 0)
        match label.data:
            case "select_label":
                select = read_selects(inner, content)
            case "guard_label":
                guard = read_conditions(inner, content)
            case "sync_label":
                sync = read_sync(inner, content)
            case "assign_label":
                update = read_updates(inner, content)
    body.edges.append(Edge(*ends, select, guard, sync, update, span=scope.span(node)))
    return source
