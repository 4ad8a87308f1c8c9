"""From the labels of edges and locations to their parts; the same in XML and in XTA files."""

from __future__ import annotations

from veristream.ir.text.read_tree import Node, children, optional, token
from veristream.languages.timed.read.expressions import (
    Scope,
    conjunction,
    read_channel,
    read_expressions,
    read_type,
    refuse_assignment,
)
from veristream.languages.timed.syntax import Expression, Select, Sync


def read_conditions(scope: Scope, node: Node) -> Expression | None:
    """A guard or invariant; commas join conditions as `and` does."""
    conditions = read_expressions(scope, optional(node, 0))
    for condition in conditions:
        refuse_assignment(condition)
    return conjunction(conditions)


def read_updates(scope: Scope, node: Node) -> tuple[Expression, ...]:
    """The expressions of an update, in order."""
    return read_expressions(scope, optional(node, 0))


def read_selects(scope: Scope, node: Node) -> tuple[Select, ...]:
    """The names that an edge chooses values for."""
    return tuple(
        Select(str(token(part, 0)), read_type(scope, children(part)[0]), scope.span(part))
        for part in children(node)
    )


def read_sync(scope: Scope, node: Node) -> Sync | None:
    """The channel of an edge, and whether it sends."""
    channel = optional(node, 0)
    if channel is None:
        return None
    direction = token(node, 1)
    return Sync(read_channel(scope, channel), "!" if direction == "!" else "?", scope.span(node))
