"""Sentences about vacuity: properties that are true for a reason that says little about the model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

from veristream.ir.expr import Expr
from veristream.ir.oracle.evaluate import ModelFault
from veristream.ir.property import Property, Temporal
from veristream.ir.text.printer import print_expr
from veristream.ir.vacuity import as_condition, initially, sentence_initial, sentence_never

T = TypeVar("T")


class Evaluator(Protocol[T]):
    """An interpreter, of timed or of untimed networks."""

    def initial(self) -> T: ...
    def holds(self, condition: Expr, state: T, /) -> bool: ...


def true_from_the_start(interpreter: Evaluator[T], property_: Property) -> str | None:
    """The sentence for a property that is true before any action; None for others."""
    if isinstance(property_.claim, Temporal) and as_condition(property_.claim.formula) is not None:
        return "it has no temporal operator, so only the initial state is checked"
    condition = initially(property_)
    if condition is None:
        return None
    try:
        holds = interpreter.holds(condition, interpreter.initial())
    except ModelFault:
        return None
    return sentence_initial(print_expr(condition)) if holds else None


def unmet_premise(seen: int, premises: Sequence[tuple[int, Expr]]) -> str | None:
    """The sentence for the first premise, given with its bit, that never held; None if all did."""
    for bit, premise in premises:
        if not seen >> bit & 1:
            return sentence_never(print_expr(premise))
    return None
