"""Follows `#include`: collects the parsed declarations of a file and of all files it includes.

The parser (`tree`) sees one file at a time; `resolve` sees the declarations of all of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from veristream.errors import ModelError
from veristream.ir.text.read_tree import Node, children, span_of, token
from veristream.languages.csp.read.tree import parse
from veristream.source import Source, Span, read_source


@dataclass(frozen=True, slots=True)
class Piece:
    """The parse tree of one declaration and the file that contains it."""

    source: Source
    node: Node


def gather(source: Source) -> list[Piece]:
    """Returns all declarations in textual order; a file that is included twice counts once.

    Raises ModelError if a file cannot be read, includes itself or imports a C# library.
    """
    return _gather(source, (_identity(Path(source.name)),), set())


def _gather(source: Source, path: tuple[Path, ...], seen: set[Path]) -> list[Piece]:
    seen.add(path[-1])
    pieces: list[Piece] = []
    for node in children(parse(source)):
        span = span_of(source, node)
        if node.data == "import":
            hint = "write its functions as macros, `#define f(x) ...;` with `call(f, 1)`, or as programs"
            raise ModelError("C# libraries are not supported", span, hint)
        if node.data != "include":
            pieces.append(Piece(source, node))
            continue
        file = Path(source.name).parent / str(token(node, 0))[1:-1].replace("\\", "/")
        identity = _identity(file)
        if identity in path:
            hint = "move the declarations that both files need into a third file"
            raise ModelError(f"`{file.name}` includes itself, directly or indirectly", span, hint)
        if identity not in seen:
            pieces += _gather(_read(file, span), (*path, identity), seen)
    return pieces


def _identity(file: Path) -> Path:
    return file.resolve()


def _read(file: Path, span: Span) -> Source:
    try:
        return read_source(file)
    except OSError:
        hint = f"looked for {file}; paths are relative to the including file"
        raise ModelError(f"cannot read the included file `{file.name}`", span, hint) from None
    except UnicodeDecodeError:
        raise ModelError(f"`{file.name}` is not UTF-8 text", span, "save it as UTF-8") from None
