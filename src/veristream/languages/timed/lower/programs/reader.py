"""The state of lowering the expressions of one scope, without the lowering itself.

Expressions contain calls, assignments and clock comparisons, and these contain expressions. The modules for
calls, effects and constraints use this interface; `expressions` implements it with their functions.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Self

from veristream.errors import ModelError
from veristream.ir import expr as ir
from veristream.languages.timed import syntax
from veristream.languages.timed.lower.model import Model
from veristream.languages.timed.lower.scope import Fixed, FunctionName, LocalNames, Ref, Scope
from veristream.languages.timed.lower.types import Dimension, Range


@dataclass(slots=True)
class Reader(ABC):
    """Lowers the expressions of one scope.

    `effects` collects the statements for side effects; it is None where side effects are not allowed.
    """

    model: Model
    scope: Scope
    names: LocalNames
    effects: list[ir.Statement] | None = None
    queries: bool = False  # in queries, clocks can be compared anywhere, and processes named

    @abstractmethod
    def value(self, expr: syntax.Expression) -> ir.Expr:
        """Returns the IR expression for the value of `expr`."""

    @abstractmethod
    def place(self, expr: syntax.Expression) -> Fixed | Ref:
        """Returns the constant, variable, clock, channel, or part of one, that the expression denotes."""

    def inline(self, function: FunctionName, call: syntax.Call) -> ir.Expr:
        """Inlines a function that changes a local variable of the caller; only functions have any."""
        raise ModelError(
            f"`{call.name}` assigns an argument that cannot be assigned", call.span, "pass a variable"
        )

    def within(self, scope: Scope) -> Self:
        """Returns this reader for another scope."""
        return replace(self, scope=scope)

    def mark(self) -> int:
        """Returns the number of statements so far."""
        return len(self.effects) if self.effects is not None else 0

    def keep(self, values: list[ir.Expr], mark: int) -> list[ir.Expr]:
        """Saves the values in local variables, before the side effects that start at `mark`."""
        assert self.effects is not None
        kept: list[ir.Expr] = []
        for value in values:
            if isinstance(value, ir.Const):
                kept.append(value)
                continue
            name = self.names.fresh("kept")
            self.effects.insert(mark, ir.Let(name, ir.INT, value, span=value.span))
            mark += 1
            kept.append(ir.Local(name, span=value.span))
        return kept

    def at_run_time(self, number: ir.Expr, type_: Range | Dimension) -> ir.Expr:
        """Returns the number; if it is a constant outside the range, as a fault of the run.

        Whatever uses it may never be executed, and `verify` would refuse the constant.
        """
        if not isinstance(number, ir.Const) or type_.low <= number.value <= type_.high:
            return number
        return ir.Fold("sum", self.names.fresh("once"), 0, 0, number, span=number.span)

    def emit(self, statement: ir.Statement) -> None:
        """Adds a side effect; raises ModelError where none is allowed."""
        if self.effects is None:
            raise ModelError(
                "side effects are not allowed here",
                statement.span,
                "only updates and functions can assign",
            )
        self.effects.append(statement)
