"""Formulas about runs as formulas over propositions of steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import product

from veristream.errors import ModelError
from veristream.ir.property import Formula, Occurs, TemporalBinary, TemporalUnary
from veristream.languages.tla.code.actions import ActionCompiler
from veristream.languages.tla.levels import Level
from veristream.languages.tla.scope import Binding, ByName, Constant, Defined, Scope
from veristream.languages.tla.syntax import (
    Bound,
    Expression,
    Fair,
    If,
    Junction,
    Let,
    Quantifier,
    Square,
    Use,
)
from veristream.languages.tla.values.values import EvaluationError, Value, in_order

Step = Callable[..., Value]
"""A condition of a step, as a function of the states before and after it."""


@dataclass(slots=True)
class RunCompiler:
    """Compiles the formulas of one property; `propositions` are the conditions of steps in it."""

    compiler: ActionCompiler
    propositions: dict[str, Step] = field(default_factory=dict)

    def formula(self, node: Expression, scope: Scope) -> Formula:
        if self.compiler.levels.level(node, scope) is not Level.TEMPORAL:
            return self._proposition(self.compiler.function(node, scope))
        match node:
            case Junction(op, items):
                parts = [self.formula(one, scope) for one in items]
                return join("&&" if op == "/\\" else "||", parts)
            case Use("~", (operand,)):
                return TemporalUnary("!", self.formula(operand, scope))
            case Use("=>", (left, right)):
                return TemporalBinary("->", self.formula(left, scope), self.formula(right, scope))
            case Use("<=>", (left, right)):
                return TemporalBinary("<->", self.formula(left, scope), self.formula(right, scope))
            case Use("[]", (operand,)):
                return TemporalUnary("[]", self.formula(operand, scope))
            case Use("<>", (operand,)):
                return TemporalUnary("<>", self.formula(operand, scope))
            case Use("~>", (left, right)):
                then = TemporalUnary("<>", self.formula(right, scope))
                return TemporalUnary("[]", TemporalBinary("->", self.formula(left, scope), then))
            case Fair():
                return self._fair(node, scope)
            case Quantifier(op, bounds, body):
                parts = [self.formula(body, inner) for inner in self._each(bounds, scope)]
                return join("&&" if op == "\\A" else "||", parts or [self._always(op == "\\A")])
            case If(condition, yes, no):
                test = self.formula(condition, scope)
                otherwise = TemporalBinary("||", test, self.formula(no, scope))
                return TemporalBinary("&&", TemporalBinary("->", test, self.formula(yes, scope)), otherwise)
            case Let():
                return self.formula(node.body, self.compiler.levels.with_definitions(node, scope))
            case Use():
                return self._definition(node, scope)
            case _:
                raise ModelError("this formula about runs is not supported", node.span)

    def _definition(self, node: Use, scope: Scope) -> Formula:
        match self.compiler.linker.resolve(node, scope):
            case Defined() as defined if len(defined.operator.parameters) == len(node.arguments):
                return self.formula(defined.operator.body, self.compiler.inlined(defined, node, scope))
            case ByName(expression, at) if not node.arguments:
                return self.formula(expression, at)
            case _:
                raise ModelError("this formula about runs is not supported", node.span)

    def _proposition(self, step: Step) -> Occurs:
        name = f"p{len(self.propositions)}"
        self.propositions[name] = step
        return Occurs(name)

    def _always(self, value: bool) -> Formula:
        return self._proposition(lambda before, after: value)

    def _fair(self, node: Fair, scope: Scope) -> Formula:
        """Weak: infinitely often taken or not enabled. Strong: if infinitely often enabled, then taken."""
        step = Square(node.action, node.subscript, True, span=node.span)
        taken = self.compiler.function(step, scope)
        enabled = self.compiler.function(Use("ENABLED", (step,), span=node.span), scope)
        if not node.strong:
            either = self._proposition(
                lambda before, after: taken(before, after) or not enabled(before, after)
            )
            return _infinitely(either)
        often = _infinitely(self._proposition(enabled))
        return TemporalBinary("->", often, _infinitely(self._proposition(taken)))

    def _each(self, bounds: tuple[Bound, ...], scope: Scope) -> Iterator[Scope]:
        """The scope of a quantifier's body for each of its values, which are constants."""
        values_of: list[list[Value]] = []
        for bound in bounds:
            if bound.set is None or self.compiler.levels.level(bound.set, scope) > Level.CONSTANT:
                hint = "quantify over a set that is the same in all states"
                raise ModelError(
                    "this quantifier over a formula about runs is not supported", bound.span, hint
                )
            try:
                values = in_order(self.compiler.function(bound.set, scope)(None, None))
            except EvaluationError as error:
                raise ModelError(str(error), bound.span) from error
            values_of += [values] * len(bound.groups(bound.names))
        names = [group for bound in bounds for group in bound.groups(bound.names)]
        for chosen in product(*values_of):
            found: dict[str, Binding] = {}
            for group, value in zip(names, chosen, strict=True):
                parts = value if len(group) > 1 else (value,)
                found.update((name, Constant(part)) for name, part in zip(group, parts, strict=True))
            yield scope.inside(found)


def _infinitely(operand: Formula) -> Formula:
    return TemporalUnary("[]", TemporalUnary("<>", operand))


def join(op: str, parts: list[Formula]) -> Formula:
    joined = parts[0]
    for one in parts[1:]:
        joined = TemporalBinary("&&" if op == "&&" else "||", joined, one)
    return joined
