"""Text that a user wrote, and places in it.

Every syntax and IR node carries a Span, so that an error can show the file, the line and the very
characters it speaks of.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """A named text; `name` is what an error message calls it, usually the path as the user gave it."""

    name: str
    text: str

    def __repr__(self) -> str:
        return f"Source({self.name!r})"


@dataclass(frozen=True, slots=True)
class Span:
    """The characters `start` up to but not including `end` of a source."""

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

    @property
    def place(self) -> str:
        """`file:line:column`, as compilers write it."""
        return f"{self.source.name}:{self.line}:{self.column}"

    def excerpt(self) -> str:
        """The line that the span begins on, with carets under the part it covers."""
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
"""The span of a node that no text stands behind, such as one built by a test."""


def read_source(path: Path) -> Source:
    """The file's text; a leading byte order mark is dropped. Raises OSError and UnicodeDecodeError."""
    return Source(str(path), path.read_text(encoding="utf-8-sig"))
