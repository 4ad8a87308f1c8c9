"""Resolves constants, variables and channels, before `resolve` turns to processes and assertions.

The order is fixed: all names, then constants, then channels, then variables, since an initial value may
use any constant and the variables declared earlier.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from lark import Token

from veristream.errors import ModelError
from veristream.ir.text.read_tree import Node, child, children, optional, span_of, token
from veristream.languages.csp.read.constant import evaluate
from veristream.languages.csp.read.include import Piece
from veristream.languages.csp.read.names import Constant, Define, Names, Scope, declare
from veristream.languages.csp.read.resolve_expr import (
    as_repeated,
    resolve_constant,
    resolve_expr,
    value_body,
)
from veristream.languages.csp.syntax import Channel, Variable
from veristream.source import NOWHERE, Span

_TRUTH = {"==", "!=", "<", "<=", ">", ">=", "&&", "||", "xor", "!"}
_ELEMENTS_MAX = 1_000_000
_ROOM_MAX = 100_000
"""The most messages in a channel, or in an array of them: every state has room for all."""


def declare_all(pieces: list[Piece], settings: Mapping[str, int]) -> Names:
    """Returns the tables of all names; `settings` overrides values of constants.

    Raises ModelError if a name is declared twice or a declaration is invalid.
    """
    names = Names()
    for piece in pieces:
        _note(names, piece)
    _settle_constants(names, pieces, settings)
    for piece in pieces:
        if piece.node.data == "channel":
            _channels(Scope(names, piece.source), piece.node)
    for piece in pieces:
        if piece.node.data in {"var", "hvar"}:
            for node in children(piece.node):
                variable = _variable(Scope(names, piece.source), node, piece.node.data == "hvar")
                names.variables[variable.name] = variable
    return names


def range_of(scope: Scope, node: Node | None) -> tuple[int | None, int | None]:
    """Returns the bounds of `:{low..high}`; either may be omitted."""
    if node is None:
        return None, None
    low, high = (
        None if bound is None else resolve_constant(scope, bound, "the bound of a range")
        for bound in (optional(node, 0), optional(node, 1))
    )
    if low is not None and high is not None and low > high:
        raise scope.error(node, f"the range {low}..{high} is empty", "write the lower bound first")
    return low, high


def _note(names: Names, piece: Piece) -> None:
    """Records the names of a declaration without evaluating it."""
    source, node = piece.source, piece.node

    def note(name: Token, kind: str) -> None:
        declare(names, str(name), kind, span_of(source, name))

    match node.data:
        case "define":
            name, parameters, body = token(node, 0), optional(node, 1), child(node, 2)
            words = tuple(str(word) for word in parameters.children) if parameters is not None else ()
            define = Define(str(name), words, body, source, span_of(source, name))
            note(name, "definition" if parameters is None else "macro")
            _keep(names, define)
        case "enum":
            for value, member in enumerate(node.children):
                assert isinstance(member, Token)
                note(member, "constant")
                names.constants[str(member)] = Constant(value, False, span_of(source, member))
        case "var" | "hvar" | "channel":
            for part in children(node):
                if part.data in {"variable", "channel_name"}:
                    note(token(part, 0), "channel" if node.data == "channel" else "variable")
        case "objects":
            for part in children(node):
                name = token(part, 0)
                note(name, "C# object")
                names.objects[str(name)] = str(token(node, 0))
        case "definition":
            note(token(node, 0), "process")
            given = optional(node, 1)
            names.processes[str(token(node, 0))] = len(children(given)) if given is not None else 0
        case _:
            pass


def _keep(names: Names, define: Define) -> None:
    if not define.parameters:
        names.defines[define.name] = define
        return
    key = (define.name, len(define.parameters))
    if key in names.macros:
        line = names.macros[key].span.line
        message = f"a macro `{define.name}` with as many parameters is already declared, see line {line}"
        raise ModelError(message, define.span, "rename one of them")
    if len(set(define.parameters)) < len(define.parameters):
        raise ModelError(
            f"`{define.name}` has two parameters with the same name", define.span, "rename one of them"
        )
    names.macros[key] = define


def _settle_constants(names: Names, pieces: list[Piece], settings: Mapping[str, int]) -> None:
    """Turns the definitions that depend on constants only into constants."""
    order = [name for name in names.defines if _is_constant(names, name, ())]
    for name in settings:
        if name not in order:
            known = ", ".join(f"`{other}`" for other in order) or "none"
            hint = f"it has these constants: {known}"
            span = Span(pieces[0].source, 0, 0) if pieces else NOWHERE
            raise ModelError(f"the model has no constant `{name}` to set", span, hint)
    for name in order:
        _settle(names, name, settings)


def _is_constant(names: Names, name: str, path: tuple[str, ...]) -> bool:
    if name in names.constants:
        return True
    if name in path:
        define = names.defines[name]
        hint = "a definition may only use earlier ones"
        raise ModelError(f"`{name}` is defined in terms of itself", define.span, hint)
    if name not in names.defines or value_body(names.defines[name].body) is None:
        return False
    body = names.defines[name].body
    words = {
        str(word)
        for word in body.scan_values(lambda value: isinstance(value, Token))
        if word.type == "NAME"
    }
    calls = any(True for _ in body.find_pred(lambda part: part.data in {"invoke", "method"}))
    return not calls and all(_is_constant(names, word, (*path, name)) for word in sorted(words))


def _settle(names: Names, name: str, settings: Mapping[str, int]) -> None:
    if name in names.constants:
        return
    define = names.defines[name]
    body = value_body(define.body)
    assert body is not None
    for word in body.scan_values(lambda value: isinstance(value, Token) and value.type == "NAME"):
        _settle(names, str(word), settings)
    scope = Scope(names, define.source)
    boolean = _is_truth(scope, body)
    value = settings[name] if name in settings else resolve_constant(scope, body, f"`{name}`")
    names.constants[name] = Constant(value, boolean, define.span)
    del names.defines[name]
    names.kinds[name] = ("constant", define.span)


def _is_truth(scope: Scope, node: Node) -> bool:
    """Whether an expression yields a truth value rather than a number."""
    names = scope.names
    match node.data:
        case "number":
            return token(node, 0).type in {"TRUE", "FALSE"}
        case "name":
            name = str(token(node, 0))
            if name in names.constants:
                return names.constants[name].boolean
            return name in names.variables and names.variables[name].boolean
        case "paren":
            return _is_truth(scope, child(node, 0))
        case "indexed":
            return True
        case _:
            return any(isinstance(part, Token) and str(part) in _TRUTH for part in node.children)


def _channels(scope: Scope, node: Node) -> None:
    *parts, written = children(node)
    capacity = resolve_constant(scope, written, "the capacity of a channel")
    if capacity < 0:
        hint = "use 0 for a rendezvous channel"
        raise scope.error(written, "the capacity of a channel must be at least 0", hint)
    for part in parts:
        name, shape = token(part, 0), _shape(scope, child(part, 1))
        room = capacity * prod(shape)
        if room > _ROOM_MAX:
            hint = f"the maximum is {_ROOM_MAX}"
            raise scope.error(written, f"a channel cannot have room for {room} messages", hint)
        scope.names.channels[str(name)] = Channel(str(name), capacity, shape, span=scope.span(name))


def _shape(scope: Scope, node: Node) -> tuple[int, ...]:
    sizes = []
    for size in children(node):
        value = resolve_constant(scope, size, "a size")
        if value < 1:
            raise scope.error(size, f"a size must be at least 1, not {value}")
        sizes.append(value)
    if prod(sizes) > _ELEMENTS_MAX:
        raise scope.error(
            node, f"an array cannot have {prod(sizes)} elements", f"the maximum is {_ELEMENTS_MAX}"
        )
    return tuple(sizes)


def _variable(scope: Scope, node: Node, hidden: bool) -> Variable:
    name, shape = token(node, 0), _shape(scope, child(node, 1))
    low, high = range_of(scope, optional(node, 2))
    initial, boolean = (0,) * prod(shape), False
    written = optional(node, 3)
    if written is not None and written.data == "record":
        initial, boolean = _record(scope, written)
        shape = shape or (len(initial),)
        if len(initial) != prod(shape):
            message = f"`{name}` has {prod(shape)} elements, but {len(initial)} values are given"
            raise scope.error(written, message, "`0(3)` means three elements with the value 0")
    elif written is not None:
        if shape:
            hint = f"write `[...({prod(shape)})]` to give every element the same value"
            message = f"the array `{name}` cannot be initialised with a single value"
            raise scope.error(written, message, hint)
        initial, boolean = (_value(scope, written),), _is_truth(scope, written)
    for value in initial:
        if (low is not None and value < low) or (high is not None and value > high):
            place = written if written is not None else name
            hint = "choose an initial value within the range"
            raise scope.error(place, f"the initial value {value} of `{name}` is outside its range", hint)
    return Variable(str(name), shape, initial, low, high, boolean, hidden, span=scope.span(name))


def _record(scope: Scope, node: Node) -> tuple[tuple[int, ...], bool]:
    """Returns the values of `[1(2), 3..6, x]`, and whether all of them are truth values."""
    values: list[int] = []
    truths: list[bool] = []
    for part in children(node):
        written = as_repeated(part)
        first = child(written, 0)
        truths.append(_is_truth(scope, first))
        value = _value(scope, first)
        match written.data:
            case "repeated":
                count = resolve_constant(scope, child(written, 1), "a number of elements")
                _check_count(scope, part, count)
                values += [value] * count
            case "counted":
                last = resolve_constant(scope, child(written, 1), "the end of a range")
                _check_count(scope, part, abs(last - value))
                step = 1 if last >= value else -1
                values += range(value, last + step, step)
            case _:
                values.append(value)
    return tuple(values), all(truths)


def _check_count(scope: Scope, node: Node, count: int) -> None:
    if not 0 <= count <= _ELEMENTS_MAX:
        hint = f"the number must be between 0 and {_ELEMENTS_MAX}"
        raise scope.error(node, f"an array cannot have {count} elements", hint)


def _value(scope: Scope, node: Node) -> int:
    """Evaluates an initial value, which may use variables declared earlier."""
    expr = resolve_expr(scope, node)
    value = evaluate(expr, scope.names.variables)
    if value is None:
        raise scope.error(
            node, "an initial value must be known", "use constants and variables declared earlier"
        )
    return value
