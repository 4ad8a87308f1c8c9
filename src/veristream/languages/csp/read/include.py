"""The declarations of a file and of the files it includes, in the order in which they stand."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from veristream.errors import ModelError
from veristream.ir.text.read_tree import Node, children, span_of, token
from veristream.languages.csp.read.tree import parse
from veristream.source import Source, Span, read_source


@dataclass(frozen=True, slots=True)
class Piece:
    """One declaration, as it was parsed, with the file it stands in."""

    source: Source
    node: Node


def gather(source: Source) -> list[Piece]:
    """All declarations; a file that is included twice counts once. Raises ModelError."""
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
            hint = "move what both files need into a third one"
            raise ModelError(f"`{file.name}` includes itself, directly or through others", span, hint)
        if identity not in seen:
            pieces += _gather(_read(file, span), (*path, identity), seen)
    return pieces


def _identity(file: Path) -> Path:
    return file.resolve()


def _read(file: Path, span: Span) -> Source:
    try:
        return read_source(file)
    except OSError:
        hint = f"it was looked for as {file}: the path is relative to the including file"
        raise ModelError(f"there is no file `{file.name}` to include", span, hint) from None
    except UnicodeDecodeError:
        raise ModelError(f"`{file.name}` is not UTF-8 text", span, "save it as UTF-8") from None
