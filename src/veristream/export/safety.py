"""Computes the condition under which an expression does not fault.

In SPIN's and TLC's languages, unlike ours, an expression cannot fault, so each possible fault gets an
explicit condition. `ir.bounds` says where none is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import assert_never

from veristream.export.rewrite import all_of, binary, both, negate, unroll
from veristream.ir import expr as ir
from veristream.ir.bounds import SHIFT_MAX, Names, interval

WIDEST = ir.Type(-(2**31), 2**31 - 1)
"""The range of SPIN's and TLC's integers; a type this wide is not checked, since no value can leave it."""


@dataclass(slots=True)
class Knowledge:
    """What is known about the names in an expression; it grows as locals are declared."""

    names: Names  # its `locals` is a dict that the owner extends
    shapes: dict[str, tuple[int, ...]]  # of variables
    sizes: dict[str, int]  # of local arrays
    call: Callable[[ir.Call], ir.Expr]  # the condition that a call that expands to an expression is safe
    trusted: set[ir.Expr] = field(default_factory=set)  # expressions that earlier tests made safe


_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


@dataclass(frozen=True, slots=True)
class Facts:
    """What tests imply about variables, until they are assigned."""

    narrowed: dict[str, ir.Type] = field(default_factory=dict)

    def learn(self, condition: ir.Expr, types: Mapping[str, ir.Type]) -> None:
        """Narrows the types of variables that the condition compares with constants."""
        match condition:
            case ir.Binary(op="and", left=left, right=right):
                self.learn(left, types)
                self.learn(right, types)
            case ir.Binary(op=op, left=ir.Load(variable=name, indices=()), right=ir.Const(value=value)):
                self._narrow(name, op, value, types[name])
            case ir.Binary(op=op, left=ir.Const(value=value), right=ir.Load(variable=name, indices=())):
                self._narrow(name, _MIRRORED.get(op, op), value, types[name])
            case _:
                pass

    def _narrow(self, name: str, op: str, value: int, type_: ir.Type) -> None:
        low, high = type_.low, type_.high
        match op:
            case "==":
                low, high = max(low, value), min(high, value)
            case "!=":
                low, high = low + (low == value), high - (high == value)
            case "<" | "<=":
                high = min(high, value - (op == "<"))
            case ">" | ">=":
                low = max(low, value + (op == ">"))
            case _:
                return
        if low <= high:
            self.narrowed[name] = ir.Type(low, high)

    def forget(self, place: ir.Load | ir.Local) -> None:
        """Drops what is known about a place, after an assignment."""
        if isinstance(place, ir.Load):
            self.narrowed.pop(place.variable, None)

    def forget_all(self) -> None:
        """Drops everything but the declarations."""
        self.narrowed.clear()


def in_range(expr: ir.Expr, type_: ir.Type, known: Knowledge) -> ir.Expr:
    """Returns the condition that the value is within the type; TRUE if it always is."""
    if type_.low <= WIDEST.low and type_.high >= WIDEST.high:
        return ir.TRUE
    values = interval(expr, known.names)
    parts: list[ir.Expr] = []
    if values.low < type_.low:
        parts.append(ir.Binary(">=", expr, ir.Const(type_.low)))
    if values.high > type_.high:
        parts.append(ir.Binary("<=", expr, ir.Const(type_.high)))
    return all_of(parts)


def safe(expr: ir.Expr, known: Knowledge) -> ir.Expr:
    """Returns the condition, itself safe, that evaluating the expression does not fault."""
    if expr in known.trusted:
        return ir.TRUE
    match expr:
        case ir.Const() | ir.AtLocation() | ir.IsDone() | ir.IsIdle():
            return ir.TRUE
        case ir.Load(variable=name, indices=indices):
            return _safe_indices(indices, known.shapes[name], known)
        case ir.Local(name=name, index=index):
            return ir.TRUE if index is None else _safe_indices((index,), (known.sizes[name],), known)
        case ir.Queue(channel=name, indices=indices):
            return _safe_indices(indices, known.names.channels[name].shape, known)
        case ir.Unary(operand=operand) | ir.Primed(operand=operand):
            return safe(operand, known)
        case ir.Binary():
            return _safe_binary(expr, known)
        case ir.Conditional(condition=condition, then=then, otherwise=otherwise):
            sides = safe(then, known), safe(otherwise, known)
            chosen = ir.TRUE if sides == (ir.TRUE, ir.TRUE) else ir.Conditional(condition, *sides)
            return both(safe(condition, known), chosen)
        case ir.Fold(body=body):
            return ir.TRUE if safe(body, known) == ir.TRUE else safe(unroll(expr), known)
        case ir.Call():
            return known.call(expr)
        case ir.Peek(channel=name, indices=indices, position=position):
            queue = _safe_indices(indices, known.names.channels[name].shape, known)
            length = ir.Queue("len", name, indices)
            there = both(_at_least(position, 0, known), ir.Binary("<", position, length))
            return all_of([queue, safe(position, known), there])
        case ir.ClockTest() | ir.ClockValue() | ir.Deadlocked():
            raise AssertionError("timed networks are not exported")
        case _:
            assert_never(expr)


def _at_least(expr: ir.Expr, low: int, known: Knowledge) -> ir.Expr:
    return ir.TRUE if interval(expr, known.names).low >= low else ir.Binary(">=", expr, ir.Const(low))


def _safe_indices(indices: tuple[ir.Expr, ...], shape: tuple[int, ...], known: Knowledge) -> ir.Expr:
    parts: list[ir.Expr] = []
    for index, size in zip(indices, shape, strict=True):
        parts += [safe(index, known), in_range(index, ir.Type(0, size - 1), known)]
    return all_of(parts)


def _safe_binary(expr: ir.Binary, known: Knowledge) -> ir.Expr:
    left, right = safe(expr.left, known), safe(expr.right, known)
    own: ir.Expr = ir.TRUE
    match expr.op:
        case "and" | "implies":
            return both(left, ir.TRUE if right == ir.TRUE else binary("or", negate(expr.left), right))
        case "or":
            return both(left, ir.TRUE if right == ir.TRUE else binary("or", expr.left, right))
        case "div" | "rem":
            divisor = interval(expr.right, known.names)
            fine = divisor.low > 0 or divisor.high < 0
            if not fine:
                own = ir.Binary("!=", expr.right, ir.Const(0))
        case "mod":
            own = _at_least(expr.right, 1, known)
        case "<<" | ">>":
            own = in_range(expr.right, ir.Type(0, SHIFT_MAX), known)
        case _:
            pass
    return all_of((left, right, own))
