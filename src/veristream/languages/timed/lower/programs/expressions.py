"""Expressions, lowered.

As in C, an expression may have effects. Where they are allowed they become statements that run before
the expression's value is taken, in the order of C; what was read before an effect is kept in a local.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce

from veristream.errors import ModelError
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
from veristream.languages.timed.lower.constraints import compare_clocks
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
from veristream.languages.timed.lower.model import Model
from veristream.languages.timed.lower.programs import access
from veristream.languages.timed.lower.programs.calls import is_builtin, lower_call
from veristream.languages.timed.lower.programs.effects import assign, increment
from veristream.languages.timed.lower.programs.fold import conjunction, fold, has_call, negation
from veristream.languages.timed.lower.scope import (
    Family,
    Fixed,
    FunctionName,
    Home,
    LocalNames,
    Process,
    Ref,
    Scope,
    unknown,
)
from veristream.languages.timed.lower.types import Array, Range, Record, Void, describe, same_layout
from veristream.source import Span

_FOLDS: dict[str, ir.FoldOp] = {"forall": "all", "exists": "any", "sum": "sum"}
_UNROLLED: dict[str, ir.BinaryOp] = {"forall": "and", "exists": "or", "sum": "+"}


@dataclass(slots=True)
class Reader:
    """Lowers expressions of one scope; `effects` takes the statements, and is None where none may be."""

    model: Model
    scope: Scope
    names: LocalNames
    effects: list[ir.Statement] | None = None
    queries: bool = False  # clocks may be compared anywhere, and processes spoken of

    def within(self, scope: Scope) -> Reader:
        """The same in an inner scope."""
        return replace(self, scope=scope)

    def value(self, expr: syntax.Expression) -> ir.Expr:
        """The number that the expression stands for."""
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
                return ir.Deadlocked(span)

    def mark(self) -> int:
        """How many statements there are so far."""
        return len(self.effects) if self.effects is not None else 0

    def keep(self, values: list[ir.Expr], mark: int) -> list[ir.Expr]:
        """The values, kept in locals before the effects that began at the mark."""
        assert self.effects is not None
        kept: list[ir.Expr] = []
        for value in values:
            if isinstance(value, ir.Const):
                kept.append(value)
                continue
            name = self.names.fresh("kept")
            self.effects.insert(mark, ir.Let(name, ir.INT, value, span=value.span))
            mark += 1
            kept.append(ir.Local(name, None, value.span))
        return kept

    def emit(self, statement: ir.Statement) -> None:
        """An effect, where effects may be."""
        if self.effects is None:
            raise ModelError(
                "this has an effect, and nothing may change here",
                statement.span,
                "only updates and functions assign",
            )
        self.effects.append(statement)

    def write_out(self, function: FunctionName, call: syntax.Call) -> ir.Expr:
        """The call of a function that changes a local of ours; only functions have any."""
        raise ModelError(
            f"`{call.name}` would change what cannot be changed", call.span, "pass a variable to it"
        )

    def place(self, expr: syntax.Expression) -> Fixed | Ref:
        """The constant, variable, clock or channel, or the part of one, that the expression names."""
        match expr:
            case syntax.Name(name=name, span=span):
                entity = self.scope.find(name, span)
                if isinstance(entity, Fixed | Ref):
                    return entity
                raise ModelError(f"`{name}` has no value", span, "a variable or constant belongs here")
            case syntax.Index():
                return self._element(expr)
            case syntax.Member(base=base, name=name, span=span):
                if find_process(base, self.scope) is not None:
                    return self._of_process(expr)
                whole = self.place(base)
                if not isinstance(whole, Ref) or not isinstance(whole.type, Record):
                    raise ModelError(f"{describe(whole.type)} has no fields", span, f"leave `.{name}` out")
                return find_part(whole, name, span)
            case _:
                raise ModelError("this has no place to be stored", expr.span, "a variable belongs here")

    def _element(self, expr: syntax.Index) -> Ref:
        whole = self.place(expr.base)
        if not isinstance(whole, Ref) or not isinstance(whole.type, Array):
            raise ModelError(
                f"{describe(whole.type)} has no elements", expr.span, "this is an index too many"
            )
        dimension = whole.type.dimension
        mark = self.mark()
        index = self.value(expr.index)
        if self.mark() > mark:
            whole = replace(whole, indices=tuple(self.keep(list(whole.indices), mark)))
        constant = index.value if isinstance(index, ir.Const) else None
        if constant is not None and not dimension.low <= constant <= dimension.high:
            raise ModelError(
                f"index {constant} is outside {dimension.low}..{dimension.high} of `{whole.name}`",
                expr.index.span,
                "change the index or the array's size",
            )
        values = range_of(expr.index, self.scope)
        confined = access.confine(whole, index, values, dimension)
        if confined is not index and self.effects is not None and has_call(index):  # evaluated twice
            confined = access.confine(whole, self.keep([index], self.mark())[0], values, dimension)
        return whole.at(confined if constant is None else index)

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
            return ir.AtLocation(process.component, process.locations[expr.name], expr.span)
        return self._number(self._of_process(expr), expr)

    def _of_process(self, expr: syntax.Member) -> Fixed | Ref:
        process = self.process(expr.base)
        entity = process.scope.names.get(expr.name)
        if isinstance(entity, Fixed | Ref):
            return entity
        if expr.name in process.locations:
            raise ModelError(f"`{expr.name}` is a location", expr.span, "it has no value to store")
        known = [*process.locations, *process.scope.names]
        hint = f"`{process.component}` has {', '.join(known)}"
        raise unknown("location or variable", expr.name, known, expr.span, hint)

    def process(self, expr: syntax.Expression) -> Process:
        """The process that a query speaks of."""
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
                    raise ModelError(f"there is no `{name}({written})`", span, f"there are {known}")
                return entity.members[values]
            case _:
                raise ModelError("this is not a process", expr.span, "name one of the system line")

    def _unary(self, expr: syntax.Unary) -> ir.Expr:
        operand = self.value(expr.operand)
        match expr.op:
            case "+":
                return operand
            case "-" if isinstance(operand, ir.Const):
                return ir.Const(-operand.value, expr.span)
            case "-":
                return ir.Unary("-", operand, expr.span)
            case "not":
                return negation(operand)

    def _power(self, expr: syntax.Binary) -> ir.Expr:
        """`left ** right`, multiplied out."""
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
                raise _perhaps(expr.right.span)
            left = self.keep([left], max(mark, middle))[0]
        return fold(OPERATORS[expr.op], left, right, expr.span)

    def _same_parts(self, expr: syntax.Binary) -> ir.Expr:
        """Whether two structs or arrays are equal, part by part."""
        left, right = self.place(expr.left), self.place(expr.right)
        if isinstance(left, Fixed) or isinstance(right, Fixed) or not same_layout(left.type, right.type):
            raise ModelError("the two sides have different types", expr.span, "compare parts of them")
        if expr.op not in ("==", "!="):
            raise ModelError(f"{describe(left.type)} has no order", expr.span, "compare parts of them")
        equal = [
            ir.Binary("==", self._number(one, expr.left), self._number(other, expr.right), expr.span)
            for (_, one), (_, other) in zip(access.elements(left), access.elements(right), strict=True)
        ]
        both = conjunction(equal)
        return both if expr.op == "==" else negation(both)

    def _ternary(self, expr: syntax.Ternary) -> ir.Expr:
        condition = self.value(expr.condition)
        mark = self.mark()
        then, otherwise = self.value(expr.then), self.value(expr.otherwise)
        if self.mark() > mark:
            raise _perhaps(expr.span)
        if isinstance(condition, ir.Const):
            return then if condition.value else otherwise
        return ir.Conditional(condition, then, otherwise, expr.span)

    def _process_call(self, expr: syntax.ProcessCall) -> ir.Expr:
        """A function of a process; arguments are read here, so it is known here by its whole name."""
        process = self.process(expr.process)
        entity = process.scope.names.get(expr.call.name)
        if not isinstance(entity, FunctionName):
            known = [name for name, one in process.scope.names.items() if isinstance(one, FunctionName)]
            hint = f"its functions are {', '.join(known)}" if known else "it has no functions"
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
            return ir.Binary("max", value, ir.Unary("-", value, expr.span), expr.span)
        if isinstance(type_of(expr, self.scope), Void):
            raise ModelError(f"`{expr.name}` gives no value", expr.span, "call it alone")
        return lower_call(self, expr)

    def _quantified(self, expr: syntax.Quantified) -> ir.Expr:
        type_ = bounded(expr.type, self.scope)
        if self.queries and self._must_unroll(expr):
            sides = [
                self.within(self.scope.bind(expr.name, Fixed(i, type_))).value(expr.body)
                for i in numbers(type_)
            ]
            op = _UNROLLED[expr.op]
            return reduce(lambda one, other: fold(op, one, other, expr.span), sides)
        name = self.names.fresh(expr.name)
        bound = Ref(name, type_, Home.LOCAL, writable=False)
        inner = replace(self, scope=self.scope.bind(expr.name, bound), effects=None)
        body = inner.value(expr.body)
        return ir.Fold(_FOLDS[expr.op], name, type_.low, type_.high, body, expr.span)

    def _must_unroll(self, expr: syntax.Quantified) -> bool:
        """The IR's folds hold neither clocks nor processes that depend on what is bound."""
        return mentions_clock(expr, self.scope) or mentions_process_of(expr.body, expr.name)


def _perhaps(span: Span) -> ModelError:
    return ModelError(
        "this has an effect, but may not be evaluated at all", span, "write an `if` in a function"
    )
