"""Computes the condition under which an expression does not fault.

In SPIN's and TLC's languages, unlike ours, an expression cannot fault, so each possible fault gets an
explicit condition. `ir.bounds` says where none is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import assert_never

from veristream.export.rewrite import all_of, binary, both, negate, unroll
from veristream.ir.bounds import SHIFT_MAX, Names, interval
from veristream.ir.expr import (
    TRUE,
    AtLocation,
    Binary,
    Call,
    ClockTest,
    ClockValue,
    Conditional,
    Const,
    Deadlocked,
    Expr,
    Fold,
    IsDone,
    IsIdle,
    Load,
    Local,
    Peek,
    Primed,
    Queue,
    Type,
    Unary,
)

WIDEST = Type(-(2**31), 2**31 - 1)
"""The range of SPIN's and TLC's integers; a type this wide is not checked, since no value can leave it."""


@dataclass(slots=True)
class Knowledge:
    """What is known about the names in an expression; it grows as locals are declared."""

    names: Names  # its `locals` is a dict that the owner extends
    shapes: dict[str, tuple[int, ...]]  # of variables
    sizes: dict[str, int]  # of local arrays
    call: Callable[[Call], Expr]  # the condition that a call that expands to an expression is safe
    trusted: set[Expr] = field(default_factory=set)  # expressions that earlier tests made safe


_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


@dataclass(frozen=True, slots=True)
class Facts:
    """What tests imply about variables, until they are assigned."""

    narrowed: dict[str, Type] = field(default_factory=dict)

    def learn(self, condition: Expr, types: Mapping[str, Type]) -> None:
        """Narrows the types of variables that the condition compares with constants."""
        match condition:
            case Binary(op="and", left=left, right=right):
                self.learn(left, types)
                self.learn(right, types)
            case Binary(op=op, left=Load(variable=name, indices=()), right=Const(value=value)):
                self._narrow(name, op, value, types[name])
            case Binary(op=op, left=Const(value=value), right=Load(variable=name, indices=())):
                self._narrow(name, _MIRRORED.get(op, op), value, types[name])
            case _:
                pass

    def _narrow(self, name: str, op: str, value: int, type_: Type) -> None:
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
            self.narrowed[name] = Type(low, high)

    def forget(self, place: Load | Local) -> None:
        """Drops what is known about a place, after an assignment."""
        if isinstance(place, Load):
            self.narrowed.pop(place.variable, None)

    def forget_all(self) -> None:
        """Drops everything but the declarations."""
        self.narrowed.clear()


def in_range(expr: Expr, type_: Type, known: Knowledge) -> Expr:
    """Returns the condition that the value is within the type; TRUE if it always is."""
    if type_.low <= WIDEST.low and type_.high >= WIDEST.high:
        return TRUE
    values = interval(expr, known.names)
    parts: list[Expr] = []
    if values.low < type_.low:
        parts.append(Binary(">=", expr, Const(type_.low)))
    if values.high > type_.high:
        parts.append(Binary("<=", expr, Const(type_.high)))
    return all_of(parts)


def safe(expr: Expr, known: Knowledge) -> Expr:
    """Returns the condition, itself safe, that evaluating the expression does not fault."""
    if expr in known.trusted:
        return TRUE
    match expr:
        case Const() | AtLocation() | IsDone() | IsIdle():
            return TRUE
        case Load(variable=name, indices=indices):
            return _safe_indices(indices, known.shapes[name], known)
        case Local(name=name, index=index):
            return TRUE if index is None else _safe_indices((index,), (known.sizes[name],), known)
        case Queue(channel=name, indices=indices):
            return _safe_indices(indices, known.names.channels[name].shape, known)
        case Unary(operand=operand) | Primed(operand=operand):
            return safe(operand, known)
        case Binary():
            return _safe_binary(expr, known)
        case Conditional(condition=condition, then=then, otherwise=otherwise):
            sides = safe(then, known), safe(otherwise, known)
            chosen = TRUE if sides == (TRUE, TRUE) else Conditional(condition, *sides)
            return both(safe(condition, known), chosen)
        case Fold(body=body):
            return TRUE if safe(body, known) == TRUE else safe(unroll(expr), known)
        case Call():
            return known.call(expr)
        case Peek(channel=name, indices=indices, position=position):
            queue = _safe_indices(indices, known.names.channels[name].shape, known)
            length = Queue("len", name, indices)
            there = both(_at_least(position, 0, known), Binary("<", position, length))
            return all_of([queue, safe(position, known), there])
        case ClockTest() | ClockValue() | Deadlocked():
            raise AssertionError("timed networks are not exported")
        case _:
            assert_never(expr)


def _at_least(expr: Expr, low: int, known: Knowledge) -> Expr:
    return TRUE if interval(expr, known.names).low >= low else Binary(">=", expr, Const(low))


def _safe_indices(indices: tuple[Expr, ...], shape: tuple[int, ...], known: Knowledge) -> Expr:
    parts: list[Expr] = []
    for index, size in zip(indices, shape, strict=True):
        parts += [safe(index, known), in_range(index, Type(0, size - 1), known)]
    return all_of(parts)


def _safe_binary(expr: Binary, known: Knowledge) -> Expr:
    left, right = safe(expr.left, known), safe(expr.right, known)
    own: Expr = TRUE
    match expr.op:
        case "and" | "implies":
            return both(left, TRUE if right == TRUE else binary("or", negate(expr.left), right))
        case "or":
            return both(left, TRUE if right == TRUE else binary("or", expr.left, right))
        case "div" | "rem":
            divisor = interval(expr.right, known.names)
            fine = divisor.low > 0 or divisor.high < 0
            if not fine:
                own = Binary("!=", expr.right, Const(0))
        case "mod":
            own = _at_least(expr.right, 1, known)
        case "<<" | ">>":
            own = in_range(expr.right, Type(0, SHIFT_MAX), known)
        case _:
            pass
    return all_of((left, right, own))
