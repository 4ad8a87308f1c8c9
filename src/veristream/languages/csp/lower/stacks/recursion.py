"""Recursion before a `;` in definitions: whether there is any, and whether something may bound it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from veristream.ir.walk import walk
from veristream.languages.csp import syntax as csp

Definitions = Mapping[str, csp.Definition]


def recurs(definitions: Definitions, process: csp.Ref) -> bool:
    """Whether a process that the given one reaches may return to itself before a `;`."""
    return any(
        name in _reached(definitions, first)
        for name in _reached(definitions, [process.name])
        for first in _first(definitions[name].body)
    )


def may_end(definitions: Definitions, process: csp.Ref) -> bool:
    """Whether conditions, arguments, channels or joint events may bound the recursion of a process.

    Without any of them, every step of it is possible again and again.
    """
    return any(
        isinstance(node, csp.Guard | csp.Conditional | csp.Case | csp.Input | csp.Output | csp.Atomic)
        or (isinstance(node, csp.Ref) and bool(node.arguments))
        or (isinstance(node, csp.Parallel) and not node.interleave)
        or (isinstance(node, csp.Replicated) and node.operator == "parallel")
        for name in _reached(definitions, [process.name])
        for node in walk(definitions[name].body)
    )


def _first(body: csp.Process) -> Iterable[list[str]]:
    """Yields what each process before a `;` refers to."""
    for node in walk(body):
        if isinstance(node, csp.Sequence):
            yield _references(node.first)
        elif isinstance(node, csp.Replicated) and node.operator == "sequence":
            yield _references(node.body)


def _references(process: csp.Process) -> list[str]:
    return [node.name for node in walk(process) if isinstance(node, csp.Ref)]


def _reached(definitions: Definitions, names: Iterable[str]) -> set[str]:
    """Returns the definitions that these names reach, themselves included."""
    found: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += _references(definitions[name].body)
    return found
