"""Reads expressions, constants and types of the text form.

Constants and template parameters are replaced by numbers, and expressions of only these are evaluated at
once, so that `fork[(i + 1) mod N]` has a constant index. Expressions of literals stay unevaluated: reading
the printed form of a network must return the same network.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import cast

from lark import Token, Tree

from veristream.errors import ModelError, suggest
from veristream.ir import expr as ir
from veristream.ir.constant import constant_value
from veristream.ir.network import enum_range
from veristream.ir.text.parse import name_of
from veristream.ir.text.read_names import Scope, Struct, find_constant, find_variable, unknown_name
from veristream.ir.text.read_row import Grouping, group
from veristream.ir.text.read_tree import Branch, Node, child, children, maybe, optional, span_of, token
from veristream.ir.text.spelling import BUILT_IN, COMPARISONS, LEVELS, PREFIX_LEVELS, RIGHTWARD
from veristream.source import Span

_SYNONYMS = {"->": "implies", "||": "or", "&&": "and", "!": "not"}
_FOLDS: dict[str, tuple[ir.FoldOp, ir.BinaryOp]] = {
    "forall": ("all", "and"),
    "exists": ("any", "or"),
    "sum": ("sum", "+"),
}


@dataclass(frozen=True, slots=True)
class Value:
    """An expression; `named` if it is a number from a name, `literal` if it is a number in the text."""

    expr: ir.Expr
    named: bool = False
    literal: bool = False


def read_expr(node: Node, scope: Scope) -> ir.Expr:
    return read_value(node, scope).expr


def read_exprs(nodes: Sequence[Node], scope: Scope) -> tuple[ir.Expr, ...]:
    return tuple(read_expr(node, scope) for node in nodes)


def read_constant(node: Node, scope: Scope) -> int:
    """Reads a constant; raises ModelError if it depends on the state."""
    value = constant_value(read_expr(node, scope))
    if value is None:
        raise ModelError(
            "expected a constant",
            span_of(scope.names.source, node),
            "use numbers, constants, enum members and a component's parameters",
        )
    return value


def read_range(node: Node, scope: Scope) -> tuple[int, int]:
    """Reads the bounds of a non-empty range `low..high`."""
    low, high = (read_constant(bound, scope) for bound in children(node)[:2])
    if low > high:
        raise ModelError(
            f"the range {low}..{high} is empty",
            span_of(scope.names.source, node),
            "write the lower bound first",
        )
    return low, high


def read_type(node: Node, scope: Scope) -> ir.Type:
    """Reads the type of a single value."""
    found = read_type_or_struct(node, scope)
    if isinstance(found, Struct):
        raise ModelError(
            f"expected the type of a single value, found the struct `{found.name}`",
            span_of(scope.names.source, node),
            "use a range, `bool` or an enum",
        )
    return found


def read_type_or_struct(node: Node, scope: Scope) -> ir.Type | Struct:
    """Reads a type: a range, `bool`, an enum or a struct."""
    low, enum = child(node, 0), maybe(node, 2)
    if maybe(node, 1) is not None:
        shown = name_of(enum) if isinstance(enum, Token) else None
        return ir.Type(*read_range(node, scope), shown)
    span = span_of(scope.names.source, node)
    if low.data != "reference":
        raise ModelError("expected a type", span, "write `low..high`, `bool` or an enum")
    name = str(token(low, 0))
    built_in = {"bool": ir.BOOL, "int": ir.INT}.get(name)
    if built_in is not None:
        return built_in
    name = name_of(token(low, 0))
    if name in scope.names.enums:
        return ir.Type(*enum_range(scope.names.enums[name]), name)
    if name in scope.names.structs:
        return scope.names.structs[name]
    known = ["bool", "int", *scope.names.enums, *scope.names.structs]
    raise ModelError(
        f"unknown type `{name}`", span, suggest(name, known, "write `low..high`, `bool` or an enum")
    )


def read_component(node: Node, scope: Scope) -> str:
    """Reads the full name of a component, `P` or `P(0, 1)` with constant arguments."""
    base = child(node, 0) if node.data == "call" else node
    if base.data not in ("reference", "component_ref"):
        raise ModelError("expected a component", span_of(scope.names.source, node), "write `P` or `P(0)`")
    name = name_of(token(base, 0))
    arguments = optional(node, 1) if len(node.children) > 1 else None
    if arguments is None:
        return name
    return instance_name(name, [read_constant(value, scope) for value in children(arguments)])


def instance_name(template: str, values: Sequence[int]) -> str:
    """Returns the name of a template's component."""
    return f"{template}({', '.join(map(str, values))})"


def read_value(node: Node, scope: Scope) -> Value:
    """Reads an expression and records how it was written."""
    span = span_of(scope.names.source, node)
    match node.data:
        case "number":
            return Value(ir.Const(int(token(node, 0)), span), literal=True)
        case "paren":
            inner = read_value(child(node, 0), scope)
            return Value(inner.expr, inner.named)
        case "row":
            return _row(node, scope)
        case "conditional":
            return _conditional(node, scope)
        case "fold":
            return _fold(node, scope)
        case "call":
            return Value(_call(node, scope))
        case "at":
            component = read_component(child(node, 0), scope)
            return Value(ir.AtLocation(component, name_of(token(node, 1)), span=span))
        case "primed":
            return Value(_primed(node, scope))
        case "clock_test":
            return Value(_clock_test(child(node, 0), scope, span))
        case "reference" if str(token(node, 0)) == "deadlock":
            return Value(ir.Deadlocked(span=span))
        case _:
            return _path(node, scope)


def _row(node: Node, scope: Scope) -> Value:
    grouping = Grouping(
        LEVELS,
        PREFIX_LEVELS,
        RIGHTWARD,
        COMPARISONS,
        _SYNONYMS,
        lambda operand: read_value(operand, scope),
        partial(_prefix, scope),
        _infix,
    )
    return group(scope.names.source, node.children, grouping)


def _prefix(scope: Scope, written: Token, op: str, operand: Value) -> Value:
    start = span_of(scope.names.source, written)
    span = Span(start.source, start.start, operand.expr.span.end)
    if op == "-" and operand.literal and isinstance(operand.expr, ir.Const):
        return Value(ir.Const(-operand.expr.value, span))
    return _fold_constant(ir.Unary(cast(ir.UnaryOp, op), operand.expr, span=span), operand.named)


def _infix(op: str, left: Value, right: Value) -> Value:
    start = left.expr.span
    span = Span(start.source, start.start, max(start.end, right.expr.span.end))
    binary = ir.Binary(cast(ir.BinaryOp, op), left.expr, right.expr, span=span)
    if left.named and isinstance(left.expr, ir.Const):
        # Code that a parameter excludes may be invalid, such as a[i - 1] for i = 0.
        truth = left.expr.value != 0
        if (op == "and" and not truth) or (op == "or" and truth) or (op == "implies" and not truth):
            return Value(ir.Const(int(op != "and"), span), named=True)
    return _fold_constant(binary, left.named or right.named)


def _fold_constant(expr: ir.Unary | ir.Binary, named: bool) -> Value:
    value = constant_value(expr) if named else None
    return Value(expr) if value is None else Value(ir.Const(value, expr.span), named=True)


def _conditional(node: Node, scope: Scope) -> Value:
    condition, then, otherwise = (read_value(inner, scope) for inner in children(node))
    if condition.named and isinstance(condition.expr, ir.Const):
        return then if condition.expr.value else otherwise
    span = span_of(scope.names.source, node)
    return Value(ir.Conditional(condition.expr, then.expr, otherwise.expr, span=span))


def _fold(node: Node, scope: Scope) -> Value:
    name, body = name_of(token(node, 1)), child(node, 3)
    op, connective = _FOLDS[str(token(node, 0))]
    low, high = read_range(child(node, 2), scope)
    span = span_of(scope.names.source, node)
    if not _chooses_component(body, str(token(node, 1))):
        return Value(ir.Fold(op, name, low, high, read_expr(body, scope.declare(name)), span=span))
    # Expressions of a Network name components by constants, so substitute the counter.
    parts = [read_expr(body, scope.define(name, number)) for number in range(low, high + 1)]
    neutral = ir.Const(int(op == "all"), span)
    result = ir.Binary(connective, neutral, parts[0], span=span) if len(parts) == 1 else parts[0]
    for value in parts[1:]:
        result = ir.Binary(connective, result, value, span=span)
    return Value(result)


def _chooses_component(node: Node, counter: str) -> bool:
    """Returns whether the expression selects a component by the counter."""
    return any(
        counter == str(found)
        for inner in node.iter_subtrees()
        for component in _component_parts(inner)
        for found in component.scan_values(lambda leaf: isinstance(leaf, Token))
    )


def _component_parts(node: Node) -> list[Node]:
    first = node.children[0] if node.children else None
    if not isinstance(first, Tree):
        return []
    if node.data == "at" or (node.data == "field" and first.data == "call"):
        return [first]
    is_test = node.data == "call" and first.data == "reference" and first.children[0] in ("done", "idle")
    return [node] if is_test else []


def _primed(node: Node, scope: Scope) -> ir.Expr:
    operand = read_expr(child(node, 0), scope)
    span = span_of(scope.names.source, node)
    if not isinstance(operand, ir.Load):
        raise ModelError("`'` must follow a variable", span, "write `next(...)` for an expression")
    return ir.Primed(operand, span=span)


def _clock_test(node: Node, scope: Scope, span: Span) -> ir.Expr:
    """Reads the value of a clock, or a test of a clock constraint."""
    if child(node, 0).data != "row" and maybe(node, 1) is None:
        return ir.ClockValue(read_clock(child(node, 0), scope), span=span)
    return ir.ClockTest(read_constraint(node, scope), span=span)


def read_constraint(node: Node, scope: Scope) -> ir.ClockConstraint:
    """Reads `x < 3` or `x - y < 3`, a row that begins with clocks, with an optional `if` condition."""
    written, when = child(node, 0), optional(node, 1)
    clocks, rest = _clock_operands(list(written.children) if written.data == "row" else [])
    if not clocks or not _compares(rest):
        raise ModelError(
            "expected a clock constraint",
            span_of(scope.names.source, written),
            "write `x < 3`, `x >= 2` or `x - y <= 5`, with commas between several",
        )
    bound = rest[1:]
    # The bound is the rest of the row; it keeps the positions of its parts.
    row = bound[0] if len(bound) == 1 and isinstance(bound[0], Tree) else Tree("row", bound, written.meta)
    return ir.ClockConstraint(
        read_clock(clocks[0], scope),
        read_clock(clocks[1], scope) if len(clocks) > 1 else None,
        cast(ir.ClockOp, str(rest[0])),
        read_expr(row, scope),
        None if when is None else read_expr(when, scope),
        span=span_of(scope.names.source, node),
    )


def _compares(rest: list[Branch]) -> bool:
    """Returns whether the items are a comparison and a bound, without looser operators."""
    if not rest or str(rest[0]) not in COMPARISONS - {"!="}:
        return False
    ops = [str(part) for part in rest[1:] if isinstance(part, Token) and part.type == "OPERATOR"]
    return all(LEVELS[_SYNONYMS.get(op, op)] > LEVELS["<"] for op in ops)


def _clock_operands(items: list[Branch]) -> tuple[list[Node], list[Branch]]:
    """Splits a constraint's row into its first one or two operands and the rest."""
    operands: list[Node] = []
    while items and isinstance(items[0], Tree) and len(operands) < 2:
        operands.append(items[0])
        items = items[1:]
        if not items or items[0] != "-" or len(operands) == 2:
            break
        items = items[1:]
    return operands, items


def read_clock(node: Node, scope: Scope) -> ir.ClockRef:
    """Reads a clock by its full name, with its indices."""
    head, steps = _steps(node)
    span = span_of(scope.names.source, node)
    if head.data not in ("call", "reference", "outermost"):
        raise ModelError("expected a clock", span, "write `x`, `x[i]` or `P(0).x`")
    name = read_component(head, scope) if head.data == "call" else name_of(token(head, 0))
    name = ".".join([name, *(name_of(token(step, 1)) for step in steps if step.data == "field")])
    return ir.ClockRef(
        name, read_exprs([child(step, 1) for step in steps if step.data == "index"], scope), span=span
    )


def _call(node: Node, scope: Scope) -> ir.Expr:
    base, arguments = child(node, 0), children(child(node, 1))
    span = span_of(scope.names.source, node)
    if base.data != "reference":
        raise ModelError("only a function can be called", span)
    if str(token(base, 0)) in BUILT_IN:
        return _built_in(str(token(base, 0)), arguments, scope, span)
    name = name_of(token(base, 0))
    if name not in scope.names.functions:
        known = [*scope.names.functions, *BUILT_IN]
        raise ModelError(
            f"unknown function `{name}`", span, suggest(name, known, "declare it with `function`")
        )
    return ir.Call(name, read_exprs(arguments, scope), span=span)


def _built_in(name: str, arguments: list[Node], scope: Scope, span: Span) -> ir.Expr:
    counts = {"min": (2,), "max": (2,), "peek": (2, 3)}.get(name, (1,))
    if len(arguments) not in counts:
        wanted = " or ".join(map(str, counts))
        raise ModelError(f"`{name}` takes {wanted} argument(s), not {len(arguments)}", span)
    match name:
        case "min" | "max":
            left, right = read_exprs(arguments, scope)
            return ir.Binary(cast(ir.BinaryOp, name), left, right, span=span)
        case "done":
            return ir.IsDone(read_component(arguments[0], scope), span=span)
        case "idle":
            return ir.IsIdle(read_component(arguments[0], scope), span=span)
        case "next":
            return ir.Primed(read_expr(arguments[0], scope), span=span)
        case "peek":
            channel, indices = _channel(arguments[0], scope)
            which = read_constant(arguments[2], scope) if len(arguments) > 2 else 0
            return ir.Peek(channel, read_expr(arguments[1], scope), which, indices, span=span)
        case _:
            channel, indices = _channel(arguments[0], scope)
            return ir.Queue(cast(ir.QueueOp, name), channel, indices, span=span)


def _channel(node: Node, scope: Scope) -> tuple[str, tuple[ir.Expr, ...]]:
    head, steps = _steps(node)
    if head.data != "reference" or any(step.data != "index" for step in steps):
        raise ModelError("expected a channel", span_of(scope.names.source, node), "write `c` or `c[i]`")
    return name_of(token(head, 0)), read_exprs([child(step, 1) for step in steps], scope)


def _steps(node: Node) -> tuple[Node, list[Node]]:
    """Splits a path into its first part and its indices and fields in source order."""
    steps: list[Node] = []
    while node.data in ("index", "field"):
        steps.insert(0, node)
        node = child(node, 0)
    return node, steps


def _path(node: Node, scope: Scope) -> Value:
    """Reads a name with its fields and indices: a local, a variable or a constant."""
    head, steps = _steps(node)
    span = span_of(scope.names.source, node)
    indices = read_exprs([child(step, 1) for step in steps if step.data == "index"], scope)
    if head.data == "call":
        name = read_component(head, scope)
    elif head.data in ("reference", "outermost"):
        name = name_of(token(head, 0))
    else:
        raise ModelError("only a variable has indices and fields", span)
    name = ".".join([name, *(name_of(token(step, 1)) for step in steps if step.data == "field")])
    outermost = head.data == "outermost"
    if node.data != "field" and head.data == "reference" and name in scope.locals:
        return Value(_local(name, indices, span))
    variable = None
    if name not in scope.constants or outermost:
        variable = find_variable(name, scope, outermost or head.data == "call")
    if variable is not None:
        return Value(ir.Load(variable, indices, span=span))
    if node.data == "reference" and str(token(node, 0)) in ("true", "false"):
        return Value(ir.Const(int(token(node, 0) == "true"), span))
    constant = find_constant(name, scope, span)
    if constant is None:
        raise unknown_name(name, scope, span)
    if indices:
        raise ModelError(f"`{name}` is a constant and cannot be indexed", span)
    return Value(ir.Const(constant, span), named=True)


def _local(name: str, indices: tuple[ir.Expr, ...], span: Span) -> ir.Local:
    if len(indices) > 1:
        raise ModelError(f"`{name}` is a local array and takes one index", span)
    return ir.Local(name, indices[0] if indices else None, span=span)
