"""The conditions of an action or a goal: what must be true at the same time for it to be possible.

A condition compares one stored number with a constant, so that a table can describe it. Whatever cannot be
described like that is the *rest*, of which only the places are known that it reads. The tests of an action
are evaluated in a fixed order, and the first that is false ends the evaluation. Behind a test that might
fault, no condition stands for itself: while it is false, another action could make the evaluation fault,
and that must not be missed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Literal

from veristream.ir import expr as ir
from veristream.ir.bounds import Names
from veristream.search.reduction.faults import Faults
from veristream.search.reduction.places import Places

Comparison = Literal["==", "!=", "<", "<=", ">", ">="]
_SWAPPED: dict[str, Comparison] = {"==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_NEGATED: dict[str, Comparison] = {"==": "!=", "!=": "==", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}


class Of(Enum):
    """What the number is that a condition compares."""

    VALUE = "element of a variable"
    LOCATION = "location of a component"
    LENGTH = "length of a queue"


@dataclass(frozen=True, slots=True)
class Condition:
    """`number` counts the elements, components or queues."""

    of: Of
    number: int
    op: Comparison
    value: int

    def allows(self, number: int) -> bool:
        """Whether the condition holds for the number."""
        match self.op:
            case "==":
                return number == self.value
            case "!=":
                return number != self.value
            case "<":
                return number < self.value
            case "<=":
                return number <= self.value
            case ">":
                return number > self.value
            case ">=":
                return number >= self.value


@dataclass(slots=True)
class Conditions:
    """A conjunction while it is collected, in the order of its evaluation."""

    places: Places
    faults: Faults
    known: list[Condition] = field(default_factory=list)
    rest: set[int] = field(default_factory=set)  # the places that the rest reads
    has_rest: bool = False
    may_fault: bool = False  # a test so far may fault
    never: bool = False  # a test is false in every state, and none before it may fault

    def require(self, condition: Condition, reads: frozenset[int]) -> None:
        """Adds a condition that cannot fault; `reads` are the places that can change it."""
        if self.may_fault:
            self.depend(reads, False)
        elif condition not in self.known:
            self.known.append(condition)

    def depend(self, reads: frozenset[int], may_fault: bool) -> None:
        """Adds a test of which nothing else is known."""
        self.rest |= reads
        self.has_rest = True
        self.may_fault |= may_fault

    def evaluate(self, expr: ir.Expr, names: Names, wanted: bool = True) -> None:
        """Adds the test that the expression is true, or false."""
        match expr:
            case ir.Const(value=value):
                if bool(value) != wanted:
                    self.never |= not self.may_fault
                    self.depend(frozenset(), False)
            case ir.Unary(op="not", operand=operand):
                self.evaluate(operand, names, not wanted)
            case ir.Binary(op="and", left=left, right=right) if wanted:
                self.evaluate(left, names)
                self.evaluate(right, names)
            case ir.Binary(op="or", left=left, right=right) if not wanted:
                self.evaluate(left, names, False)
                self.evaluate(right, names, False)
            case ir.Binary(op="implies", left=left, right=right) if not wanted:
                self.evaluate(left, names)
                self.evaluate(right, names, False)
            case _:
                self._test(expr, names, wanted)

    def _test(self, expr: ir.Expr, names: Names, wanted: bool) -> None:
        reads = self.places.footprint(expr, names).reads
        condition = _simple(expr, self.places, names, wanted)
        if condition is None or self.faults.may_fault(expr, names):
            self.depend(reads, self.faults.may_fault(expr, names))
        else:
            self.require(condition, reads)


def _simple(expr: ir.Expr, places: Places, names: Names, wanted: bool) -> Condition | None:
    """The test as a condition, if it has such a form."""
    match expr:
        case ir.Load():
            return _about(expr, "!=" if wanted else "==", 0, places, names)
        case ir.Binary(
            op="==" | "!=" | "<" | "<=" | ">" | ">=" as op, left=left, right=ir.Const(value=value)
        ):
            return _about(left, op if wanted else _NEGATED[op], value, places, names)
        case ir.Binary(
            op="==" | "!=" | "<" | "<=" | ">" | ">=" as op, left=ir.Const(value=value), right=right
        ):
            turned = _SWAPPED[op]
            return _about(right, turned if wanted else _NEGATED[turned], value, places, names)
        case ir.AtLocation(component=name, location=location):
            component = places.component(name)
            at = places.location(component, location)
            return Condition(Of.LOCATION, component, "==" if wanted else "!=", at)
        case _:
            return None


def _about(expr: ir.Expr, op: Comparison, value: int, places: Places, names: Names) -> Condition | None:
    match expr:
        case ir.Load(variable=name, indices=indices):
            elements = places.elements(name, indices, names)
            if len(elements) == 1:
                return Condition(Of.VALUE, next(iter(elements)), op, value)
            return None
        case _:
            return None
