"""Follows `#include`: collects the parsed declarations of a file and of all files it includes.

The parser (`tree`) sees one file at a time; `resolve` sees the declarations of all of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from veristream.errors import ModelError, suggest
from veristream.ir.text.read_tree import Node, child, children, optional, span_of, token
from veristream.languages.csp.read.library import MODULES, TYPES, declarations_of
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
            _check_import(source, span, str(token(node, 0))[1:-1])
            continue
        if node.data == "objects":
            pieces += _objects(source, node)
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


def _check_import(source: Source, span: Span, name: str) -> None:
    """Raises ModelError unless the library is one of PAT's that we have."""
    if name not in MODULES:
        hint = (
            f"there are {', '.join(MODULES)}; write the functions of others as macros,"
            " `#define f(x) ...;` with `call(f, 1)`, or as programs"
        )
        raise ModelError(f"the C# library {name} is not supported", span, hint)
    folder = Path(source.name).parent
    for own in (folder / f"{MODULES[name]}.cs", folder / "Lib" / f"{MODULES[name]}.cs"):
        if own.exists():
            hint = f"remove it if it is PAT's own {MODULES[name]}"
            raise ModelError(f"`{own.name}` beside the model is C#, which is not supported", span, hint)


def _objects(source: Source, node: Node) -> list[Piece]:
    """Returns the declarations that stand for objects of the library."""
    written = token(node, 0)
    if written not in TYPES:
        hint = suggest(written, TYPES, f"the types are {', '.join(TYPES)}")
        raise ModelError(f"the C# type {written} is not supported", span_of(source, written), hint)
    pieces: list[Piece] = []
    for one in children(node):
        name, made, arguments = token(one, 0), one.children[2], optional(one, 3)
        if child(one, 1).children:
            hint = f"declare one variable for each: `var<{written}> {name}0, {name}1;`"
            raise ModelError("an array of objects is not supported", span_of(source, one), hint)
        if arguments is not None and (str(made) != str(written) or arguments.children):
            hint = f"write `var<{written}> {name};`"
            raise ModelError(f"a {written} starts empty", span_of(source, one), hint)
        library = Source(f"PAT.Lib.{written}", declarations_of(str(name), str(written)))
        pieces += [Piece(library, part) for part in children(parse(library))]
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
