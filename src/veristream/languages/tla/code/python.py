"""Small parts of Python's syntax trees; a tree's line numbers are places in a table of spans.

The traceback of an error in compiled code thus says which expression of the specification failed.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from veristream.source import NOWHERE, Span


@dataclass(slots=True)
class Places:
    """Spans by line number; line 1 is nowhere."""

    spans: list[Span] = field(default_factory=lambda: [NOWHERE, NOWHERE])

    def line(self, span: Span) -> int:
        self.spans.append(span)
        return len(self.spans) - 1


def name(text: str) -> ast.expr:
    return ast.Name(text, ast.Load())


def constant(value: Any) -> ast.expr:
    return ast.Constant(value)


def call(function: str, *arguments: ast.expr) -> ast.expr:
    return ast.Call(name(function), list(arguments), [])


def call_of(function: ast.expr, *arguments: ast.expr) -> ast.expr:
    return ast.Call(function, list(arguments), [])


def parameters(names: Sequence[str]) -> ast.arguments:
    return ast.arguments([], [ast.arg(one) for one in names], None, [], [], None, [])


def function(names: Sequence[str], body: ast.expr) -> ast.expr:
    return ast.Lambda(parameters(names), body)


def tuple_of(items: Sequence[ast.expr]) -> ast.expr:
    return ast.Tuple(list(items), ast.Load())


def item(of: str, at: int) -> ast.expr:
    return ast.Subscript(name(of), constant(at), ast.Load())


def target(names: Sequence[str], of_tuple: bool) -> ast.expr:
    if not of_tuple:
        return ast.Name(names[0], ast.Store())
    return ast.Tuple([ast.Name(one, ast.Store()) for one in names], ast.Store())


def loop(to: ast.expr, over: ast.expr, body: list[ast.stmt]) -> ast.stmt:
    return ast.For(to, over, body, [])


def define(called: str, names: Sequence[str], body: list[ast.stmt]) -> ast.stmt:
    made = ast.FunctionDef(called, parameters(names), body or [ast.Pass()], [])
    made.type_params = []  # type: ignore[attr-defined]  # from Python 3.12 on
    return made


_LOCAL = re.compile(r"[lok]_\d+")


def free_names(*trees: ast.AST) -> tuple[str, ...]:
    """The local names that trees use and do not bind; local names are unique."""
    used: set[str] = set()
    bound: set[str] = set()
    for tree in trees:
        for part in ast.walk(tree):
            match part:
                case ast.Name(id=called, ctx=ast.Load()) if _LOCAL.fullmatch(called):
                    used.add(called)
                case ast.Name(id=called, ctx=ast.Store()) | ast.arg(arg=called):
                    bound.add(called)
                case ast.FunctionDef(name=called):
                    bound.add(called)
    return tuple(sorted(used - bound))


Tree = TypeVar("Tree", bound=ast.AST)


def at_line(tree: Tree, line: int) -> Tree:
    """Gives the line to the parts of a tree that have none yet."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        part = waiting.pop()
        if "lineno" in part._attributes:
            if hasattr(part, "lineno"):
                continue
            part.lineno = part.end_lineno = line  # type: ignore[attr-defined]
            part.col_offset = part.end_col_offset = 0  # type: ignore[attr-defined]
        waiting.extend(ast.iter_child_nodes(part))
    return tree
