"""Source texts and spans in them.

Every syntax and IR node carries a Span, so that an error can show the file, the line and the characters
it refers to.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """A named text; error messages show `name`, usually the path as the user wrote it."""

    name: str
    text: str

    def __repr__(self) -> str:
        return f"Source({self.name!r})"


@dataclass(frozen=True, slots=True)
class Span:
    """The characters from `start` up to but not including `end` of a source."""

    source: Source
    start: int
    end: int

    @property
    def line(self) -> int:
        """The line of the first character, counted from 1."""
        return self.source.text.count("\n", 0, self.start) + 1

    @property
    def column(self) -> int:
        """The column of the first character, counted from 1."""
        return self.start - (self.source.text.rfind("\n", 0, self.start) + 1) + 1

    def contains(self, other: Span) -> bool:
        """Returns whether the other span lies in this one; sources are compared by their names."""
        if self.source.name != other.source.name or self.source.name == NOWHERE.source.name:
            return False
        return self.start <= other.start and other.end <= self.end

    @property
    def place(self) -> str:
        """`file:line:column`, the format of compilers."""
        return f"{self.source.name}:{self.line}:{self.column}"

    def excerpt(self) -> str:
        """Returns the span's first line with carets under the part that the span covers."""
        text = self.source.text
        begin = text.rfind("\n", 0, self.start) + 1
        stop = text.find("\n", self.start)
        line = text[begin:] if stop < 0 else text[begin:stop]
        pad = "".join("\t" if char == "\t" else " " for char in line[: self.start - begin])
        width = max(1, min(self.end, begin + len(line)) - self.start)
        number = str(self.line)
        margin = " " * len(number)
        return f"{number} | {line}\n{margin} | {pad}{'^' * width}"


NOWHERE = Span(Source("<built>", ""), 0, 0)
"""The span of a node without source text, such as one built by a test."""


@dataclass(frozen=True, slots=True)
class Node:
    """A part of a model, with its span; equality and `repr` ignore the span."""

    span: Span = field(default=NOWHERE, compare=False, repr=False, kw_only=True)


def read_source(path: Path) -> Source:
    """Reads a file and drops a leading byte order mark. Raises OSError and UnicodeDecodeError."""
    return Source(str(path), path.read_text(encoding="utf-8-sig"))
