"""Parses a model into Python's own syntax tree, and maps its nodes to source spans."""

from __future__ import annotations

import ast
import re
import warnings
from dataclasses import dataclass
from functools import cached_property

from veristream.errors import ModelError
from veristream.source import Source, Span

Node = ast.expr | ast.stmt | ast.arg | ast.keyword

_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")
"""A line as Python's parser counts them; other separators, such as a form feed, do not end a line."""


def _line_starts(text: str) -> list[int]:
    """Returns the offset of each line, and the offset of the end of the text."""
    return [*(found.start() for found in _LINE.finditer(text)), len(text)]


@dataclass(frozen=True)
class Text:
    """A source with the offsets of its lines, which maps Python's positions to spans."""

    source: Source

    @cached_property
    def _starts(self) -> list[int]:
        return _line_starts(self.source.text)

    def span(self, node: Node) -> Span:
        """Returns the span of a node, limited to its first line."""
        start = self._offset(node.lineno, node.col_offset)
        end_line, end_column = node.end_lineno or node.lineno, node.end_col_offset or 0
        end = self._offset(end_line, end_column)
        if end_line > node.lineno:
            first = self.source.text[start : self._starts[node.lineno]]
            end = start + len(first.rstrip())
        return Span(self.source, start, max(end, start + 1))

    def _offset(self, line: int, column_bytes: int) -> int:
        start = self._starts[line - 1]
        text = self.source.text[start : self._starts[line]]
        return start + len(text.encode()[:column_bytes].decode(errors="replace"))

    def error(self, node: Node, message: str, hint: str = "") -> ModelError:
        """Returns an error at the node."""
        return ModelError(message, self.span(node), hint)


def parse(source: Source) -> ast.Module:
    """Parses a module; raises ModelError if the text is not valid Python."""
    if not source.text.strip():
        raise ModelError(
            f"{source.name} is empty", hint="a model declares state and actions; see docs/actions.md"
        )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(source.text, source.name)
            # Python reports some mistakes only here, such as `global x` after a use of x.
            compile(source.text, source.name, "exec", dont_inherit=True)
    except SyntaxError as error:
        raise _syntax_error(source, error) from None
    except (ValueError, RecursionError, MemoryError, OverflowError) as error:
        raise ModelError(f"{source.name} is not valid Python: {error}") from None
    return tree


def _syntax_error(source: Source, error: SyntaxError) -> ModelError:
    starts = _line_starts(source.text)
    line = min(max(error.lineno or 1, 1), max(len(starts) - 1, 1))
    start = min(starts[line - 1] + max((error.offset or 1) - 1, 0), max(len(source.text) - 1, 0))
    hint = "a model is a Python module; `python -m py_compile` reports the same mistake"
    return ModelError(f"invalid Python: {error.msg}", Span(source, start, start + 1), hint)
