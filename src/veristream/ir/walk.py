"""Searches the nodes of a Network, an expression or another tree of frozen dataclasses and tuples."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from functools import cache
from types import UnionType

from veristream.ir.expr import Binary, Call, ClockRef, Expr, Load, Local, Peek, Queue

_PARTIAL = ("div", "rem", "mod", "<<", ">>")


def walk(node: object) -> Iterator[object]:
    """Yields the node and all nodes inside it, except spans, each before its parts."""
    pending = [node]
    while pending:
        node = pending.pop()
        if isinstance(node, tuple):
            pending.extend(reversed(node))
            continue
        kind: type = type(node)
        parts = _parts_of(kind)
        if parts is not None:
            yield node
            pending.extend(getattr(node, name) for name in parts)


@cache
def _parts_of(kind: type) -> tuple[str, ...] | None:
    """Returns the fields of a node, except its span, the last first; None if it is no dataclass."""
    if not is_dataclass(kind):
        return None
    return tuple(part.name for part in reversed(fields(kind)) if part.name != "span")


def mentions(node: object, kind: type | UnionType) -> bool:
    """Returns whether the node is of the kind or contains a node of the kind."""
    return any(isinstance(part, kind) for part in walk(node))


def may_fault(expr: Expr) -> bool:
    """Returns whether an evaluation might fault, judged by the expression's form."""
    return any(map(_may_fault, walk(expr)))


def _may_fault(node: object) -> bool:
    match node:
        case Load(indices=indices) | Queue(indices=indices) | ClockRef(indices=indices):
            return bool(indices)
        case Local(index=index):
            return index is not None
        case Binary(op=op):
            return op in _PARTIAL
        case _:
            return isinstance(node, Call | Peek)
