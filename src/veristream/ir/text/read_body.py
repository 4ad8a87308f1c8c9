"""Reads statements, edges and locations of the text form."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import cast

from lark import Token, Tree

from veristream.errors import ModelError
from veristream.ir import expr as ir
from veristream.ir import network as net
from veristream.ir.text.parse import name_of
from veristream.ir.text.read_expr import (
    read_clock,
    read_component,
    read_constant,
    read_constraint,
    read_expr,
    read_exprs,
    read_range,
    read_type,
    read_value,
)
from veristream.ir.text.read_names import Scope
from veristream.ir.text.read_tree import Node, child, children, maybe, optional, span_of, token
from veristream.source import Span


def read_block(node: Node, scope: Scope) -> ir.Block:
    """Reads statements; a declaration is visible to the statements after it."""
    statements: list[ir.Statement] = []
    for inner in children(node):
        statement = _statement(inner, scope)
        statements.append(statement)
        if isinstance(statement, ir.Let):
            scope = scope.declare(statement.name)
    return tuple(statements)


def _statement(node: Node, scope: Scope) -> ir.Statement:
    span = span_of(scope.names.source, node)
    match node.data:
        case "assign":
            return ir.Assign(_target(child(node, 0), scope), read_expr(child(node, 1), scope), span=span)
        case "evaluate":
            return _evaluate(node, scope, span)
        case "let":
            return _let(node, scope, span)
        case "if":
            return _if(node, scope, span)
        case "while":
            limit = read_constant(child(node, 1), scope)
            condition = read_expr(child(node, 0), scope)
            return ir.While(condition, read_block(child(node, 2), scope), limit, span=span)
        case "for":
            name = name_of(token(node, 0))
            low, high = read_range(child(node, 1), scope)
            return ir.For(name, low, high, read_block(child(node, 2), scope.declare(name)), span=span)
        case "check":
            written = maybe(node, 1)
            message = "a check failed" if written is None else json.loads(str(written), strict=False)
            return ir.Check(read_expr(child(node, 0), scope), message, span=span)
        case "reset":
            return ir.Reset(read_clock(child(node, 0), scope), read_expr(child(node, 1), scope), span=span)
        case _:
            return ir.Return(read_expr(child(node, 0), scope), span=span)


def _target(node: Node, scope: Scope) -> ir.Load | ir.Local:
    target = read_expr(node, scope)
    if not isinstance(target, ir.Load | ir.Local):
        raise ModelError(
            "only a variable can be assigned", span_of(scope.names.source, node), "write `x := value`"
        )
    return target


def _evaluate(node: Node, scope: Scope, span: Span) -> ir.Evaluate:
    value = read_expr(child(node, 0), scope)
    if not isinstance(value, ir.Call):
        raise ModelError("the value is not used", span, "call a function, or assign with `:=`")
    return ir.Evaluate(value, span=span)


def _let(node: Node, scope: Scope, span: Span) -> ir.Let:
    size, type_ = optional(node, 1), optional(node, 2)
    return ir.Let(
        name_of(token(node, 0)),
        ir.INT if type_ is None else read_type(type_, scope),
        read_expr(child(node, 3), scope),
        None if size is None else read_constant(size, scope),
        span=span,
    )


def _if(node: Node, scope: Scope, span: Span) -> ir.If:
    condition = read_value(child(node, 0), scope)
    then = read_block(child(node, 1), scope)
    last = optional(node, 2)
    otherwise: ir.Block = ()
    if last is not None:
        otherwise = (_statement(last, scope),) if last.data == "if" else read_block(last, scope)
    if condition.named and isinstance(condition.expr, ir.Const):
        # Code that a parameter excludes may be invalid, such as a[i - 1] for i = 0.
        then, otherwise = (then, ()) if condition.expr.value else ((), otherwise)
    return ir.If(condition.expr, then, otherwise, span=span)


def read_location(node: Node, scope: Scope) -> tuple[net.Location, bool]:
    """Reads a location; also returns whether it is the initial one."""
    kinds = {"committed": net.LocationKind.COMMITTED, "atomic": net.LocationKind.ATOMIC}
    written = maybe(node, 0)
    kind = net.LocationKind.NORMAL
    if written is not None:
        kind = net.LocationKind.URGENT if isinstance(written, Tree) else kinds[str(written)]
    parts = _parts_by_kind(children(node), scope)
    invariant = parts.get("invariant")
    clocks = parts.get("clock_guard")
    location = net.Location(
        name_of(token(node, 1)),
        kind,
        "final_mark" in parts,
        None if invariant is None else read_expr(child(invariant, 0), scope),
        () if clocks is None else _clock_constraints(clocks, scope),
        span=span_of(scope.names.source, node),
    )
    return location, "initial_mark" in parts


def _parts_by_kind(nodes: Sequence[Node], scope: Scope) -> dict[str, Node]:
    parts: dict[str, Node] = {}
    for node in nodes:
        if node.data in parts:
            raise ModelError(
                f"duplicate `{node.data.split('_')[0]}`",
                span_of(scope.names.source, node),
                "combine the two",
            )
        parts[str(node.data)] = node
    return parts


def _clock_constraints(node: Node, scope: Scope) -> tuple[ir.ClockConstraint, ...]:
    return tuple(read_constraint(part, scope) for part in children(node))


def read_edge(node: Node, scope: Scope) -> net.Edge | None:
    """Reads an edge; returns None if the template's parameters exclude it."""
    every = [part for part in children(node) if part.data not in ("select", "slots")]
    clauses = _parts_by_kind(every, scope)
    syncs = [clauses[kind] for kind in ("send", "receive", "meet") if kind in clauses]
    labels = [clauses[kind] for kind in ("action", "tau") if kind in clauses]
    _only_one(syncs, "an edge has at most one synchronisation", scope)
    _only_one(labels, "an edge has at most one name", scope)
    selects = tuple(_selections(node, scope))
    chosen = scope.declare(*(select.name for select in selects))
    guard: ir.Expr | None = None
    sync = _sync(syncs[0], chosen) if syncs else None
    known = chosen.declare(*_bound_names(sync))
    if "when" in clauses:
        test = read_value(child(clauses["when"], 0), known)
        if test.named and isinstance(test.expr, ir.Const) and test.expr.value == 0:
            return None
        guard = test.expr
    return net.Edge(
        name_of(token(node, 0)),
        name_of(token(node, 1)),
        _label(labels[0], known) if labels else None,
        selects,
        guard,
        _clock_constraints(clauses["clock_guard"], known) if "clock_guard" in clauses else (),
        sync,
        read_block(child(clauses["do"], 0), known) if "do" in clauses else (),
        _forks(node, scope),
        _slots(node, "join", scope),
        _slots(node, "kill", scope),
        "tau" not in clauses,
        net.FairnessMark(str(token(clauses["fair"], 0))) if "fair" in clauses else net.FairnessMark.NONE,
        _slots(node, "actors", scope),
        "late" in clauses,
        span=span_of(scope.names.source, node),
    )


def _only_one(nodes: list[Node], message: str, scope: Scope) -> None:
    if len(nodes) > 1:
        raise ModelError(message, span_of(scope.names.source, nodes[1]), "use two edges")


def _selections(node: Node, scope: Scope) -> Iterator[net.Select]:
    for clause in children(node):
        for part in children(clause) if clause.data == "select" else ():
            type_ = read_type(child(part, 1), scope)
            span = span_of(scope.names.source, part)
            yield net.Select(name_of(token(part, 0)), type_.low, type_.high, span=span)


def _bound_names(sync: net.Sync | None) -> list[str]:
    patterns = sync.patterns if isinstance(sync, net.Receive) else ()
    return [pattern.name for pattern in patterns if isinstance(pattern, net.Bind)]


def _sync(node: Node, scope: Scope) -> net.Sync:
    span = span_of(scope.names.source, node)
    channel = name_of(token(node, 0))
    indices = read_exprs(children(child(node, 1)), scope)
    if node.data == "meet":
        return net.Meet(channel, indices, span=span)
    last = optional(node, 2)
    parts = [] if last is None else children(last)
    if node.data == "send":
        return net.Send(channel, indices, read_exprs(parts, scope), span=span)
    return net.Receive(channel, indices, tuple(_pattern(part, scope) for part in parts), span=span)


def _pattern(node: Node, scope: Scope) -> net.Bind | net.Match:
    span = span_of(scope.names.source, node)
    if node.data == "bind":
        return net.Bind(name_of(token(node, 0)), span=span)
    return net.Match(read_expr(child(node, 0), scope), span=span)


def _label(node: Node, scope: Scope) -> net.Label | None:
    label = optional(node, 0)
    if label is None:
        return None
    arguments = optional(label, 1)
    return net.Label(
        name_of(cast(Token, label.children[0])),
        () if arguments is None else read_exprs(children(arguments), scope),
        span=span_of(scope.names.source, label),
    )


def _forks(node: Node, scope: Scope) -> tuple[net.Fork, ...]:
    return tuple(
        net.Fork(
            read_component(child(part, 0), scope),
            name_of(token(part, 1)) if maybe(part, 1) else None,
            span=span_of(scope.names.source, part),
        )
        for clause in children(node)
        if clause.data == "forks"
        for part in children(clause)
    )


def _slots(node: Node, kind: str, scope: Scope) -> tuple[str, ...]:
    return tuple(
        read_component(part, scope)
        for clause in children(node)
        if clause.data == "slots" and str(token(clause, 0)) == kind
        for part in children(clause)
    )
