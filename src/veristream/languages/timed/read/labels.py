"""Reads the labels of edges and locations, which XML and XTA files share."""

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
    """Reads a guard or invariant; a comma means `and`."""
    conditions = read_expressions(scope, optional(node, 0))
    for condition in conditions:
        refuse_assignment(condition)
    return conjunction(conditions)


def read_updates(scope: Scope, node: Node) -> tuple[Expression, ...]:
    """Reads the expressions of an update, in order."""
    return read_expressions(scope, optional(node, 0))


def read_selects(scope: Scope, node: Node) -> tuple[Select, ...]:
    """Reads the selections of an edge."""
    return tuple(
        Select(str(token(part, 0)), read_type(scope, children(part)[0]), span=scope.span(part))
        for part in children(node)
    )


def read_sync(scope: Scope, node: Node) -> Sync | None:
    """Reads the channel and direction of an edge; None if the label is empty."""
    channel = optional(node, 0)
    if channel is None:
        return None
    direction = token(node, 1)
    return Sync(read_channel(scope, channel), "!" if direction == "!" else "?", span=scope.span(node))
