"""Parses UPPAAL files, XML or XTA with an optional query file, to syntax."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TypeGuard

from veristream.errors import ModelError
from veristream.languages.timed.read.expressions import BUILTIN_TYPES, Scope
from veristream.languages.timed.read.nta import read_nta
from veristream.languages.timed.read.queries import Asked, queries_of_file, queries_of_nta, read_queries
from veristream.languages.timed.read.tokens import whole
from veristream.languages.timed.read.world import World, both, only_line, read_world
from veristream.languages.timed.read.xml import read_xml
from veristream.languages.timed.syntax import Declaration, IntType, Number, System, Variable
from veristream.source import Source, Span, read_source


def read_system(source: Source, constants: Mapping[str, int], queries: Source | None = None) -> System:
    """Parses the system in a file; `constants` overrides the values of global `const int` constants.

    The queries come from `queries`; without that from the file or, if it has none, from the `.q` file
    beside it. Raises ModelError, with position and hint, if the text is invalid.
    """
    try:
        return _read(source, constants, None if queries is None else _queries_in(queries))
    except RecursionError:
        hint = "move parts of it to functions or constants"
        raise ModelError("the model is nested too deeply", Span(source, 0, 0), hint) from None


def _read(source: Source, constants: Mapping[str, int], asked: list[Asked] | None) -> System:
    scope, own, beside = Scope(source, set(BUILTIN_TYPES)), list[Asked](), World()
    if source.text.lstrip().startswith("<"):
        root = read_xml(source)
        world, beside = read_nta(scope, root)
        own, end = queries_of_nta(root), (root.first("system") or root).span
    else:
        world = read_world(scope, whole(source), "xta")
        size = len(source.text.rstrip())
        end = Span(source, max(size - 1, 0), size)
    everything = both(world, beside)
    if asked is None:
        asked = own or _queries_beside(source)
    queries, skipped = read_queries(scope.types, asked)
    return System(
        _with_constants(source, world.declarations, constants),
        everything.templates,
        everything.instantiations,
        beside.declarations,
        only_line(everything, end),
        queries,
        skipped,
        span=Span(source, 0, len(source.text)),
    )


def _queries_in(source: Source) -> list[Asked]:
    """Reads the queries of a `.q` file, or of a model in XML; raises ModelError if it has none."""
    is_xml = source.text.lstrip().startswith("<")
    found = queries_of_nta(read_xml(source)) if is_xml else queries_of_file(source)
    if not found:
        hint = "write one query on each line, such as `A[] not deadlock`"
        raise ModelError("the file has no queries", Span(source, 0, 0), hint)
    return found


def _queries_beside(source: Source) -> list[Asked]:
    """Reads the queries of the `.q` file with the model's name, if it exists."""
    path = Path(source.name)
    if not path.name or not path.with_suffix(".q").is_file():
        return []
    try:
        return queries_of_file(read_source(path.with_suffix(".q")))
    except (OSError, UnicodeDecodeError) as error:
        message = f"cannot read the queries in `{path.with_suffix('.q')}`: {error}"
        raise ModelError(message, Span(source, 0, 0), "make it a readable UTF-8 file") from None


def _with_constants(
    source: Source, declarations: tuple[Declaration, ...], constants: Mapping[str, int]
) -> tuple[Declaration, ...]:
    """Returns the declarations with overridden constants; raises ModelError for an unknown constant."""
    known = [item.name for item in declarations if _is_settable(item)]
    for name in constants:
        if name not in known:
            others = ", ".join(f"`{other}`" for other in known) or "none"
            hint = f"the constants are: {others}"
            raise ModelError(f"the model has no constant `{name}` to set", Span(source, 0, 0), hint)
    found = []
    for item in declarations:
        if _is_settable(item) and item.name in constants:
            item = replace(item, initial=Number(constants[item.name], span=item.span))
        found.append(item)
    return tuple(found)


def _is_settable(item: Declaration) -> TypeGuard[Variable]:
    """Returns whether the declaration is a `const int`, and not an array."""
    return (
        isinstance(item, Variable) and item.constant and isinstance(item.type, IntType) and not item.shape
    )
