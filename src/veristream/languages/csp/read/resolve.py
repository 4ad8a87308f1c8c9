"""Resolves names: from the parsed declarations of a model to a Specification.

`declarations` handles constants, variables and channels; `resolve_process`, `resolve_program`,
`resolve_expr` and `formula` the rest. Reading ends here; lowering starts from the result.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, cast

from lark import Token

from veristream.errors import ModelError, suggest
from veristream.ir.text.read_tree import Node, child, children, maybe, optional, token
from veristream.languages.csp import syntax as csp
from veristream.languages.csp.read.arrays import find_arrays
from veristream.languages.csp.read.declarations import declare_all, range_of
from veristream.languages.csp.read.formula import resolve_formula
from veristream.languages.csp.read.include import Piece
from veristream.languages.csp.read.names import Names, Scope, check_fresh, element_names
from veristream.languages.csp.read.resolve_expr import resolve_expr, uses_globals
from veristream.languages.csp.read.resolve_process import resolve_events, resolve_process, resolve_ref
from veristream.languages.csp.read.resolve_program import check_define
from veristream.languages.csp.read.tokens import blank
from veristream.source import Source, Span


def resolve(source: Source, pieces: list[Piece], constants: Mapping[str, int]) -> csp.Specification:
    """Returns the specification that the declarations form; raises ModelError if it is invalid."""
    names = declare_all(pieces, constants)
    if not names.processes:
        hint = "define one: `P() = a -> P();`"
        raise ModelError("the model defines no process", Span(source, 0, min(1, len(source.text))), hint)
    for define in [*names.defines.values(), *names.macros.values()]:
        check_define(Scope(names, define.source), define)
    find_arrays(names, pieces)
    alphabets = _find_alphabets(names, pieces)
    definitions = tuple(
        _definition(Scope(names, piece.source), piece.node, alphabets)
        for piece in pieces
        if piece.node.data == "definition"
    )
    assertions = tuple(
        _assertion(Scope(names, piece.source), piece.node)
        for piece in pieces
        if piece.node.data == "assertion"
    )
    return csp.Specification(
        tuple(names.variables.values()),
        tuple(names.channels.values()),
        definitions,
        assertions,
        span=Span(source, 0, len(source.text)),
    )


def _find_alphabets(names: Names, pieces: list[Piece]) -> dict[str, Piece]:
    """Maps each process with an `#alphabet` to that declaration."""
    found: dict[str, Piece] = {}
    for piece in pieces:
        if piece.node.data != "alphabet":
            continue
        scope, name = Scope(names, piece.source), token(piece.node, 0)
        if str(name) not in names.processes:
            hint = suggest(str(name), list(names.processes), "`#alphabet` must name a defined process")
            raise scope.error(name, f"there is no process `{name}`", hint)
        if str(name) in found:
            raise scope.error(
                name, f"`{name}` already has an alphabet", "put all its events in one `#alphabet`"
            )
        found[str(name)] = piece
    return found


def _definition(scope: Scope, node: Node, alphabets: dict[str, Piece]) -> csp.Definition:
    name = str(token(node, 0))
    given = optional(node, 1)
    parameters, inner = _parameters(scope, name, children(given) if given is not None else [])
    body = resolve_process(inner, child(node, 2))
    alphabet = None
    if name in alphabets:
        piece = alphabets[name]
        alphabet = _alphabet(Scope(scope.names, piece.source, inner.bound), child(piece.node, 1))
    return csp.Definition(name, tuple(parameters), body, alphabet, span=scope.span(token(node, 0)))


def _parameters(scope: Scope, process: str, nodes: list[Node]) -> tuple[list[csp.Parameter], Scope]:
    """Returns the parameters of a process, one for each element of an array, and the scope with them."""
    found: list[csp.Parameter] = []
    inner = scope
    for position, node in enumerate(nodes):
        name, shape = token(node, 0), scope.names.array_parameters.get((process, position))
        check_fresh(scope, name, str(name), "parameter")
        if str(name) in inner.bound:
            raise scope.error(name, f"duplicate parameter `{name}`", "rename one of them")
        low, high = range_of(scope, optional(node, 1))
        names = [str(name)] if shape is None else element_names(str(name), shape)
        found += [csp.Parameter(each, low, high, span=scope.span(name)) for each in names]
        inner = inner.binding(str(name)) if shape is None else inner.binding_array(str(name), shape)
    return found, inner


def _alphabet(scope: Scope, node: Node) -> tuple[csp.Events, ...]:
    events = resolve_events(scope, node)
    for entry, written in zip(events, children(node), strict=True):
        if any(uses_globals(argument) for argument in entry.event.arguments):
            hint = "use constants, indices and the parameters of the process"
            raise scope.error(written, "an alphabet cannot depend on variables", hint)
    return events


def _assertion(scope: Scope, node: Node) -> csp.Assertion:
    process, claim, span = child(node, 0), child(node, 1), scope.span(node)
    written = scope.source.text[scope.span(process).start : span.end].rstrip().removesuffix(";")
    ref = resolve_ref(scope, process)
    if any(uses_globals(argument) for argument in ref.arguments):
        raise scope.error(process, "the arguments of an asserted process must be constants")
    return csp.Assertion(ref, _claim(scope, claim), blank(written), span=span)


def _claim(scope: Scope, node: Node) -> csp.Claim:
    match node.data:
        case "simple":
            return csp.Simple(cast("Literal['deadlockfree']", str(token(node, 0))))
        case "reaches":
            return _reaches(scope, node)
        case "refines":
            return _refines(scope, node)
        case _:
            return csp.Satisfies(
                resolve_formula(scope, [part for part in node.children if isinstance(part, Token)])
            )


def _reaches(scope: Scope, node: Node) -> csp.Claim:
    goal, extreme = child(node, 0), optional(node, 1)
    if goal.data == "name" and str(token(goal, 0)) not in scope.names.kinds:
        name = str(token(goal, 0))
        hint = suggest(name, list(scope.names.defines), f"define it: `#define {name} x == 1;`")
        raise scope.error(goal, f"there is no condition `{name}`", hint)
    condition = resolve_expr(scope, goal)
    if extreme is None:
        return csp.Reaches(condition)
    value = resolve_expr(scope, child(extreme, 1))
    return csp.Reaches(condition, "min" if token(extreme, 0) == "min" else "max", value)


def _refines(scope: Scope, node: Node) -> csp.Claim:
    written = maybe(node, 0)
    model = "T" if written is None else str(written)
    match model:
        case "T" | "F" | "FD":
            return csp.Refines(resolve_ref(scope, child(node, 1)), model)
        case _:
            raise scope.error(
                token(node, 0),
                f"unknown refinement `<{model}>`",
                "use `refines`, `refines<F>` or `refines<FD>`",
            )
