"""Lowers expressions.

As in C, expressions may have side effects. Where these are allowed, they become statements that run before
the value is used, in C's order of evaluation. Values read before a side effect are saved in local
variables.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from veristream.errors import ModelError, unknown
from veristream.ir import expr as ir
from veristream.languages.timed import syntax
from veristream.languages.timed.lower.builtin import ABSOLUTE
from veristream.languages.timed.lower.constant import (
    OPERATORS,
    bounded,
    evaluate,
    exponent,
    find_part,
    numbers,
)
from veristream.languages.timed.lower.kinds import (
    COMPARISONS,
    CONNECTIVES,
    find_process,
    mentions_clock,
    mentions_process_of,
    no_number,
    range_of,
    type_of,
)
from veristream.languages.timed.lower.programs import access
from veristream.languages.timed.lower.programs.calls import is_builtin, lower_call
from veristream.languages.timed.lower.programs.constraints import compare_clocks
from veristream.languages.timed.lower.programs.effects import assign, increment
from veristream.languages.timed.lower.programs.fold import combine, conjunction, fold, has_call, negation
from veristream.languages.timed.lower.programs.reader import Reader
from veristream.languages.timed.lower.scope import Family, Fixed, FunctionName, Home, Process, Ref
from veristream.languages.timed.lower.types import Array, Range, Record, Void, describe, same_layout
from veristream.source import Span

_FOLDS: dict[str, ir.FoldOp] = {"forall": "all", "exists": "any", "sum": "sum"}
_UNROLLED: dict[str, ir.BinaryOp] = {"forall": "and", "exists": "or", "sum": "+"}


@dataclass(slots=True)
class ExpressionReader(Reader):
    """Lowers all kinds of expressions."""

    def value(self, expr: syntax.Expression) -> ir.Expr:
        match expr:
            case syntax.Number(value=value, span=span):
                return ir.Const(value, span)
            case syntax.Name() | syntax.Index():
                return self._read(expr)
            case syntax.Member():
                return self._member(expr)
            case syntax.Unary():
                return self._unary(expr)
            case syntax.Binary():
                return self._binary(expr)
            case syntax.Ternary():
                return self._ternary(expr)
            case syntax.Call():
                return self._call(expr)
            case syntax.ProcessCall():
                return self._process_call(expr)
            case syntax.Assignment(target=target):
                assign(self, expr)
                return self._read(target)
            case syntax.Increment():
                return increment(self, expr)
            case syntax.Quantified():
                return self._quantified(expr)
            case syntax.Deadlock(span=span):
                return ir.Deadlocked(span=span)

    def place(self, expr: syntax.Expression) -> Fixed | Ref:
        match expr:
            case syntax.Name(name=name, span=span):
                entity = self.scope.find(name, span)
                if isinstance(entity, Fixed | Ref):
                    return entity
                raise ModelError(f"`{name}` has no value", span, "use a variable or a constant")
            case syntax.Index():
                return self._element(expr)
            case syntax.Member(base=base, name=name, span=span):
                if find_process(base, self.scope) is not None:
                    return self._of_process(expr)
                whole = self.place(base)
                if not isinstance(whole, Ref) or not isinstance(whole.type, Record):
                    raise ModelError(f"{describe(whole.type)} has no fields", span, f"remove `.{name}`")
                return find_part(whole, name, span)
            case _:
                raise ModelError(
                    "expected a variable", expr.span, "use a variable, or an element or field of one"
                )

    def _element(self, expr: syntax.Index) -> Ref:
        whole = self.place(expr.base)
        if not isinstance(whole, Ref) or not isinstance(whole.type, Array):
            raise ModelError(f"{describe(whole.type)} cannot be indexed", expr.span, "remove the index")
        dimension = whole.type.dimension
        mark = self.mark()
        index = self.value(expr.index)
        if self.mark() > mark:
            whole = replace(whole, indices=tuple(self.keep(list(whole.indices), mark)))
        known = isinstance(index, ir.Const) and dimension.low <= index.value <= dimension.high
        values = range_of(expr.index, self.scope)
        index = self.at_run_time(index, dimension)
        confined = access.confine(whole, index, values, dimension)
        if confined is not index and self.effects is not None and has_call(index):  # evaluated twice
            confined = access.confine(whole, self.keep([index], self.mark())[0], values, dimension)
        return whole.at(index if known else confined)

    def _read(self, expr: syntax.Expression) -> ir.Expr:
        return self._number(self.place(expr), expr)

    def _number(self, place: Fixed | Ref, expr: syntax.Expression) -> ir.Expr:
        if isinstance(place, Fixed):
            return ir.Const(place.value, expr.span)
        if not isinstance(place.type, Range):
            raise no_number(expr, describe(place.type))
        return access.read(place, self.model, expr.span)

    def _member(self, expr: syntax.Member) -> ir.Expr:
        if find_process(expr.base, self.scope) is None:
            return self._read(expr)
        process = self.process(expr.base)
        if expr.name in process.locations:
            return ir.AtLocation(process.component, process.locations[expr.name], span=expr.span)
        return self._number(self._of_process(expr), expr)

    def _of_process(self, expr: syntax.Member) -> Fixed | Ref:
        process = self.process(expr.base)
        entity = process.scope.names.get(expr.name)
        if isinstance(entity, Fixed | Ref):
            return entity
        if expr.name in process.locations:
            raise ModelError(f"`{expr.name}` is a location, not a variable", expr.span, "use a variable")
        known = [*process.locations, *process.scope.names]
        hint = f"`{process.component}` has {', '.join(known)}"
        raise unknown("location or variable", expr.name, known, expr.span, hint)

    def process(self, expr: syntax.Expression) -> Process:
        """Returns the process that an expression of a query denotes."""
        match expr:
            case syntax.Name(name=name, span=span):
                entity = self.scope.find(name, span)
                if isinstance(entity, Process):
                    return entity
                assert isinstance(entity, Family)
                example = next(iter(entity.members.values())).component
                raise ModelError(f"`{name}` has parameters", span, f"write `{example}`")
            case syntax.Call(name=name, arguments=arguments, span=span):
                entity = self.scope.find(name, span)
                if isinstance(entity, Process):
                    raise ModelError(f"`{name}` has no parameters", span, f"write `{name}`")
                assert isinstance(entity, Family)
                values = tuple(evaluate(one, self.scope) for one in arguments)
                if values not in entity.members:
                    known = ", ".join(one.component for one in entity.members.values())
                    written = ", ".join(map(str, values))
                    raise ModelError(
                        f"there is no process `{name}({written})`", span, f"the processes are {known}"
                    )
                return entity.members[values]
            case _:
                raise ModelError("this is not a process", expr.span, "use a process of the system line")

    def _unary(self, expr: syntax.Unary) -> ir.Expr:
        operand = self.value(expr.operand)
        match expr.op:
            case "+":
                return operand
            case "-" if isinstance(operand, ir.Const):
                return ir.Const(-operand.value, expr.span)
            case "-":
                return ir.Unary("-", operand, span=expr.span)
            case "not":
                return negation(operand)

    def _power(self, expr: syntax.Binary) -> ir.Expr:
        """Lowers `left ** right` to multiplications."""
        base = self.value(expr.left)
        if self.effects is not None and has_call(base):  # evaluated more than once
            (base,) = self.keep([base], self.mark())
        power: ir.Expr = ir.Const(1, expr.span)
        for number in range(exponent(expr, self.scope)):
            power = fold("*", power, base, expr.span) if number else base
        return power

    def _binary(self, expr: syntax.Binary) -> ir.Expr:
        if expr.op == "**":
            return self._power(expr)
        if expr.op in COMPARISONS:
            if self.queries and mentions_clock(expr, self.scope):
                return compare_clocks(self, expr)
            if isinstance(type_of(expr.left, self.scope), Record | Array):
                return self._same_parts(expr)
        mark = self.mark()
        left = self.value(expr.left)
        middle = self.mark()
        right = self.value(expr.right)
        if self.mark() > middle:
            if expr.op in CONNECTIVES:
                raise _conditional_effect(expr.right.span)
            left = self.keep([left], max(mark, middle))[0]
        return fold(OPERATORS[expr.op], left, right, expr.span)

    def _same_parts(self, expr: syntax.Binary) -> ir.Expr:
        """Compares two structs or arrays element by element."""
        left, right = self.place(expr.left), self.place(expr.right)
        if isinstance(left, Fixed) or isinstance(right, Fixed) or not same_layout(left.type, right.type):
            raise ModelError(
                "the operands have different types", expr.span, "compare their elements or fields"
            )
        if expr.op not in ("==", "!="):
            raise ModelError(
                f"{describe(left.type)} cannot be ordered", expr.span, "compare elements or fields"
            )
        equal = [
            ir.Binary("==", self._number(one, expr.left), self._number(other, expr.right), span=expr.span)
            for (_, one), (_, other) in zip(access.elements(left), access.elements(right), strict=True)
        ]
        both = conjunction(equal)
        return both if expr.op == "==" else negation(both)

    def _ternary(self, expr: syntax.Ternary) -> ir.Expr:
        condition = self.value(expr.condition)
        mark = self.mark()
        then, otherwise = self.value(expr.then), self.value(expr.otherwise)
        if self.mark() > mark:
            raise _conditional_effect(expr.span)
        if isinstance(condition, ir.Const):
            return then if condition.value else otherwise
        return ir.Conditional(condition, then, otherwise, span=expr.span)

    def _process_call(self, expr: syntax.ProcessCall) -> ir.Expr:
        """Lowers a call of a process's function.

        The arguments belong to the scope of the caller, which therefore binds the function's full name.
        """
        process = self.process(expr.process)
        entity = process.scope.names.get(expr.call.name)
        if not isinstance(entity, FunctionName):
            known = [name for name, one in process.scope.names.items() if isinstance(one, FunctionName)]
            hint = f"its functions are {', '.join(known)}" if known else "the process has no functions"
            raise unknown("function", f"{process.component}.{expr.call.name}", (), expr.span, hint)
        scope = self.scope.bind(entity.full_name, entity)
        return self.within(scope).value(replace(expr.call, name=entity.full_name))

    def _call(self, expr: syntax.Call) -> ir.Expr:
        if is_builtin(expr, ABSOLUTE, self.scope):
            (value,) = map(self.value, expr.arguments)
            if isinstance(value, ir.Const):
                return ir.Const(abs(value.value), expr.span)
            if self.effects is not None and has_call(value):  # evaluated twice
                (value,) = self.keep([value], self.mark())
            return ir.Binary("max", value, ir.Unary("-", value, span=expr.span), span=expr.span)
        if isinstance(type_of(expr, self.scope), Void):
            raise ModelError(
                f"`{expr.name}` returns no value", expr.span, "call it as a statement of its own"
            )
        return lower_call(self, expr)

    def _quantified(self, expr: syntax.Quantified) -> ir.Expr:
        type_ = bounded(expr.type, self.scope)
        if self.queries and self._must_unroll(expr):
            sides = [
                self.within(self.scope.bind(expr.name, Fixed(i, type_))).value(expr.body)
                for i in numbers(type_)
            ]
            return combine(_UNROLLED[expr.op], sides, expr.span)
        name = self.names.fresh(expr.name)
        bound = Ref(name, type_, Home.LOCAL, writable=False)
        inner = replace(self, scope=self.scope.bind(expr.name, bound), effects=None)
        body = inner.value(expr.body)
        return ir.Fold(_FOLDS[expr.op], name, type_.low, type_.high, body, span=expr.span)

    def _must_unroll(self, expr: syntax.Quantified) -> bool:
        """Returns whether the IR cannot fold it: it has clocks, or processes selected by the bound name."""
        return mentions_clock(expr, self.scope) or mentions_process_of(expr.body, expr.name)


def _conditional_effect(span: Span) -> ModelError:
    return ModelError("this has side effects, but may not be evaluated", span, "use an `if` in a function")
