"""What a finished search says of vacuity: properties that are true for a reason that says little."""

from __future__ import annotations

from collections.abc import Sequence

from veristream.ir.expr import Expr
from veristream.ir.oracle.evaluate import ModelFault
from veristream.ir.oracle.interpret import Interpreter
from veristream.ir.property import Property, Temporal
from veristream.ir.text.printer import print_expr
from veristream.ir.vacuity import as_condition, initially, sentence_initial, sentence_never


def true_from_the_start(interpreter: Interpreter, property_: Property) -> str | None:
    """The sentence for a property that needs no action to be true; None for others."""
    if isinstance(property_.claim, Temporal) and as_condition(property_.claim.formula) is not None:
        return "it has no temporal operator, so it speaks of the initial state alone"
    condition = initially(property_)
    if condition is None:
        return None
    try:
        holds = interpreter.holds(condition, interpreter.initial())
    except ModelFault:
        return None
    return sentence_initial(print_expr(condition)) if holds else None


def unmet_premise(seen: int, premises: Sequence[tuple[int, Expr]]) -> str | None:
    """The sentence for the first premise, given with its bit, that held nowhere; None if all did."""
    for bit, premise in premises:
        if not seen >> bit & 1:
            return sentence_never(print_expr(premise))
    return None
