"""Reads declarations, processes, instantiations and system lines."""

from __future__ import annotations

from dataclasses import dataclass

from veristream.errors import ModelError
from veristream.ir.text.read_tree import Node, children, optional, token
from veristream.languages.timed.read.declarations import read_declarations, read_parameters
from veristream.languages.timed.read.expressions import Scope, read_expressions
from veristream.languages.timed.read.process import read_process
from veristream.languages.timed.read.tokens import Fragment, Mode
from veristream.languages.timed.read.tree import parse
from veristream.languages.timed.syntax import Declaration, Instantiation, ProcessName, Template
from veristream.source import Span


@dataclass(frozen=True, slots=True)
class World:
    """The contents of one text; `lines` are its system lines with their positions."""

    declarations: tuple[Declaration, ...] = ()
    templates: tuple[Template, ...] = ()
    instantiations: tuple[Instantiation, ...] = ()
    lines: tuple[tuple[Span, tuple[tuple[ProcessName, ...], ...]], ...] = ()


def read_world(scope: Scope, fragment: Fragment, mode: Mode) -> World:
    """Reads a whole text, and adds its types to the scope."""
    world = World()
    for node in children(parse(fragment, "world", mode)):
        match node.data:
            case "process":
                more = World(templates=(read_process(scope, node),))
            case "instantiation":
                more = World(instantiations=(_read_instantiation(scope, node),))
            case "system":
                more = World(lines=((scope.span(node), _read_line(scope, node)),))
            case _:
                more = World(declarations=read_declarations(scope, [node]))
        world = both(world, more)
    return world


def both(first: World, second: World) -> World:
    """Concatenates the contents of two texts."""
    return World(
        first.declarations + second.declarations,
        first.templates + second.templates,
        first.instantiations + second.instantiations,
        first.lines + second.lines,
    )


def only_line(world: World, where: Span) -> tuple[tuple[ProcessName, ...], ...]:
    """Returns the system line; raises ModelError if there is none, or more than one."""
    if not world.lines:
        hint = "end it with a line such as `system P, Q;` that lists its processes"
        raise ModelError("the model has no system line", where, hint)
    if len(world.lines) > 1:
        first, second = (span for span, _ in world.lines[:2])
        hint = f"the first is on line {first.line}; list all processes there"
        raise ModelError("the model has a second system line", second, hint)
    return world.lines[0][1]


def _read_instantiation(scope: Scope, node: Node) -> Instantiation:
    inner, name, template = scope.inner(), str(token(node, 0)), str(token(node, 3))
    written = optional(node, 1)
    parameters = read_parameters(inner, None if written is None else optional(written, 0))
    arguments = read_expressions(inner, optional(node, 4))
    return Instantiation(name, parameters, template, arguments, span=scope.span(node))


def _read_line(scope: Scope, node: Node) -> tuple[tuple[ProcessName, ...], ...]:
    groups = []
    for group in children(node):
        words = [token(group, place) for place in range(len(group.children))]
        groups.append(tuple(ProcessName(str(word), span=scope.span(word)) for word in words))
    return tuple(groups)
