"""Builds expressions and types from parse trees."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import cast

from lark import Token

from veristream.errors import ModelError
from veristream.ir.text.read_tree import Branch, Node, child, children, optional, span_of, token
from veristream.languages.timed import syntax
from veristream.source import Source, Span

BUILTIN_TYPES = frozenset({"int8_t", "uint8_t", "int16_t", "uint16_t", "int32_t"})
"""Predefined types."""

_SPELLING = {"&&": "and", "||": "or", "!": "not", ":=": "="}
_LEVELS = (
    ("or", "xor", "imply"),
    ("and",),
    ("|",),
    ("^",),
    ("&",),
    ("==", "!="),
    ("<", "<=", ">", ">="),
    ("<?", ">?"),
    ("<<", ">>"),
    ("+", "-"),
    ("*", "/", "%"),
    ("**",),
)
"""Binary operators, loosest first; all except `**` are left-associative, including `imply`."""
_ASSOCIATIVE = frozenset({"and", "or", "+"})
CHAIN_MAX = 64
"""Longer chains of an associative operation become trees."""
_STRENGTH = {op: level for level, ops in enumerate(_LEVELS) for op in ops}


@dataclass(frozen=True, slots=True)
class Scope:
    """The file being read, and the names of the types in scope."""

    source: Source
    types: set[str]

    def inner(self) -> Scope:
        """Returns a nested scope."""
        return Scope(self.source, set(self.types))

    def span(self, branch: Branch) -> Span:
        """Returns the position of a part of the tree."""
        return span_of(self.source, branch)


def join(first: Span, last: Span) -> Span:
    """Returns the span from the start of `first` to the end of `last`."""
    return Span(first.source, first.start, last.end)


# --- Expressions


def read_expression(scope: Scope, node: Node) -> syntax.Expression:
    """Builds the expression from a flat row of operands and operators."""
    row = _Row(scope, node.children)
    found = row.assignment()
    assert row.done(), node
    return found


def maybe_expression(scope: Scope, node: Node | None) -> syntax.Expression | None:
    """Reads an optional expression."""
    return None if node is None else read_expression(scope, node)


def read_expressions(scope: Scope, node: Node | None) -> tuple[syntax.Expression, ...]:
    """Reads an optional list of expressions."""
    return () if node is None else tuple(read_expression(scope, part) for part in children(node))


def conjunction(parts: Sequence[syntax.Expression]) -> syntax.Expression | None:
    """Returns the conjunction of the conditions, or None if there are none."""
    if not parts:
        return None
    whole = parts[0]
    for part in parts[1:]:
        whole = syntax.Binary("and", whole, part, span=join(whole.span, part.span))
    return whole


def refuse_assignment(condition: syntax.Expression) -> None:
    """Raises ModelError if the condition is an assignment such as `x = 5`."""
    if isinstance(condition, syntax.Assignment):
        raise ModelError("a condition cannot assign", condition.span, "use `==` to compare")


class _Row:
    """A precedence climber over a row of operands and operators."""

    __slots__ = ("_items", "_position", "_scope")

    def __init__(self, scope: Scope, items: list[Branch]) -> None:
        self._scope = scope
        self._items = items
        self._position = 0

    def done(self) -> bool:
        return self._position == len(self._items)

    def assignment(self) -> syntax.Expression:
        """Reads assignments and `?:`, which bind loosest and are right-associative."""
        left = self._binary(0)
        if self.done():
            return left
        item = self._next()
        if isinstance(item, Token):
            value = self.assignment()
            op = cast("syntax.AssignOp", _SPELLING.get(item, str(item)))
            return syntax.Assignment(op, left, value, span=join(left.span, value.span))
        then = read_expression(self._scope, child(item, 1))
        otherwise = self.assignment()
        return syntax.Ternary(left, then, otherwise, span=join(left.span, otherwise.span))

    def _binary(self, level: int) -> syntax.Expression:
        """Reads binary operators that bind at least as tightly as `level`."""
        left = self._unary()
        while True:
            op = self._operator()
            if op is None or _STRENGTH[op] < level:
                return _shallow(left)
            self._next()
            right = self._binary(_STRENGTH[op] + (op != "**"))
            if isinstance(left, syntax.Binary) and left.op != op:
                left = _shallow(left)
            left = _combine(op, left, right)

    def _operator(self) -> str | None:
        """Returns the next item if it is a binary operator."""
        if self.done():
            return None
        item = self._items[self._position]
        op = _SPELLING.get(item, str(item)) if isinstance(item, Token) else ""
        return op if op in _STRENGTH else None

    def _unary(self) -> syntax.Expression:
        item = self._next()
        if isinstance(item, Token):
            operand = self._unary()
            span = join(self._scope.span(item), operand.span)
            if item.type == "STEP":
                return syntax.Increment("++" if item == "++" else "--", operand, True, span=span)
            return syntax.Unary(cast("syntax.UnaryOp", _SPELLING.get(item, str(item))), operand, span=span)
        if item.data == "quantifier":
            op = cast("syntax.QuantifierOp", str(token(item, 0)))
            kind = read_type(self._scope, child(item, 2))
            body = self.assignment()
            span = join(self._scope.span(item), body.span)
            return syntax.Quantified(op, str(token(item, 1)), kind, body, span=span)
        return _read_operand(self._scope, item)

    def _next(self) -> Branch:
        self._position += 1
        return self._items[self._position - 1]


def _shallow(expr: syntax.Expression) -> syntax.Expression:
    """Returns a long chain of one associative operation as a tree that is not deep."""
    if not isinstance(expr, syntax.Binary) or expr.op not in _ASSOCIATIVE:
        return expr
    parts, rest = list[syntax.Expression](), cast("syntax.Expression", expr)
    while isinstance(rest, syntax.Binary) and rest.op == expr.op:
        parts.append(rest.right)
        rest = rest.left
    if len(parts) < CHAIN_MAX:
        return expr
    return _balanced(expr.op, [rest, *reversed(parts)])


def _balanced(op: syntax.BinaryOp, parts: list[syntax.Expression]) -> syntax.Expression:
    if len(parts) == 1:
        return parts[0]
    left, right = (_balanced(op, half) for half in (parts[: len(parts) // 2], parts[len(parts) // 2 :]))
    return syntax.Binary(op, left, right, span=join(left.span, right.span))


def _combine(op: str, left: syntax.Expression, right: syntax.Expression) -> syntax.Expression:
    span = join(left.span, right.span)
    if op == "xor":  # exactly one is true; any number except 0 is
        negated = (syntax.Unary("not", left, span=left.span), syntax.Unary("not", right, span=right.span))
        return syntax.Binary("!=", *negated, span=span)
    return syntax.Binary(cast("syntax.BinaryOp", op), left, right, span=span)


def _read_operand(scope: Scope, node: Node) -> syntax.Expression:
    span = scope.span(node)
    match node.data:
        case "number":
            word = token(node, 0)
            values = {"true": 1, "false": 0}
            return syntax.Number(values[word] if word in values else int(word), span=span)
        case "name":
            return syntax.Name(str(token(node, 0)), span=span)
        case "deadlock":
            return syntax.Deadlock(span=span)
        case "paren":
            return replace(read_expression(scope, child(node, 0)), span=span)
        case "index":
            base = _read_operand(scope, child(node, 0))
            return syntax.Index(base, read_expression(scope, child(node, 1)), span=span)
        case "member":
            return syntax.Member(_read_operand(scope, child(node, 0)), str(token(node, 1)), span=span)
        case "call":
            return syntax.Call(str(token(node, 0)), read_expressions(scope, optional(node, 1)), span=span)
        case "process_call":
            call = syntax.Call(str(token(node, 1)), read_expressions(scope, optional(node, 2)), span=span)
            return syntax.ProcessCall(_read_operand(scope, child(node, 0)), call, span=span)
        case _:
            target = _read_operand(scope, child(node, 0))
            return syntax.Increment("++" if token(node, 1) == "++" else "--", target, False, span=span)


def read_old_value(scope: Scope, node: Node) -> syntax.Expression:
    """Reads the value in `const N -5;`: an operand with an optional sign."""
    if node.data != "negative":
        return _read_operand(scope, node)
    sign, number = token(node, 0), token(node, 1)
    value = syntax.Number(int(number), span=scope.span(number))
    return syntax.Unary(cast("syntax.UnaryOp", str(sign)), value, span=scope.span(node))


def read_channel(scope: Scope, node: Node) -> syntax.Expression:
    """Reads the channel of an edge or priority: a name with indices."""
    if node.data != "channel":
        return _read_operand(scope, node)
    word = token(node, 0)
    found: syntax.Expression = syntax.Name(str(word), span=scope.span(word))
    for part in children(node):
        index = read_expression(scope, part)
        found = syntax.Index(found, index, span=join(found.span, scope.span(node)))
    return found


# --- Types


def read_type(scope: Scope, node: Node) -> syntax.Type:
    """Reads a type; raises ModelError for `const` and `meta`."""
    found, prefixes = read_prefixed(scope, node)
    for word in ("const", "meta"):
        if word in prefixes:
            raise ModelError(f"`{word}` is not allowed here", scope.span(node), "remove it")
    return found


def read_prefixed(scope: Scope, node: Node) -> tuple[syntax.Type, frozenset[str]]:
    """Reads a type, and those prefixes that belong to the variable: `const` and `meta`."""
    *before, base = children(node)
    prefixes = frozenset(str(token(part, 0)) for part in before)
    span = scope.span(node)
    urgent, broadcast = "urgent" in prefixes, "broadcast" in prefixes
    if (urgent or broadcast) and base.data not in {"chan", "named"}:
        word = "urgent" if urgent else "broadcast"
        raise ModelError(f"only channels can be `{word}`", span, f"write `{word} chan`")
    found: syntax.Type
    match base.data:
        case "int":
            low, high = optional(base, 0), optional(base, 1)
            found = syntax.IntType(maybe_expression(scope, low), maybe_expression(scope, high), span=span)
        case "scalar":
            found = syntax.ScalarType(read_expression(scope, child(base, 0)), span=span)
        case "plain":
            found = _plain(str(token(base, 0)), span)
        case "chan":
            found = syntax.ChannelType(urgent, broadcast, span=span)
        case "struct":
            found = syntax.StructType(tuple(_read_fields(scope, base)), span=span)
        case _:
            found = syntax.NamedType(str(token(base, 0)), urgent, broadcast, span=span)
    return found, prefixes & {"const", "meta"}


def _plain(word: str, span: Span) -> syntax.PlainType:
    match word:
        case "bool" | "clock" | "void":
            return syntax.PlainType(word, span=span)
        case _:
            raise AssertionError(word)


def _read_fields(scope: Scope, node: Node) -> Iterator[syntax.StructField]:
    for part in children(node):
        kind, _ = read_prefixed(scope, child(part, 0))  # `meta` has no meaning for a field
        for defined in children(part)[1:]:
            name = token(defined, 0)
            yield syntax.StructField(
                str(name), kind, read_shape(scope, child(defined, 1)), span=scope.span(defined)
            )


def read_shape(scope: Scope, node: Node) -> tuple[syntax.Expression | syntax.Type, ...]:
    """Reads the dimensions of an array; a name is a type if the scope has a type of that name."""
    return tuple(_read_dimension(scope, part) for part in children(node))


def _read_dimension(scope: Scope, node: Node) -> syntax.Expression | syntax.Type:
    if node.data == "type":
        return read_type(scope, node)
    size = read_expression(scope, node)
    if isinstance(size, syntax.Name) and size.name in scope.types:
        return syntax.NamedType(size.name, span=size.span)
    return size
