"""Straight statements: no calls, no returns, and every possible fault an explicit `Check`.

Functions are not recursive, so each call is replaced by the function's body. A body that is a short
expression stays an expression; any other becomes statements before the calling expression. Every local name
gets a number, so that names are unique within a command.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import assert_never

from veristream.errors import ModelError
from veristream.export.returns import always_returns, block_as_expression, may_return, without
from veristream.export.rewrite import (
    all_of,
    binary,
    children,
    negate,
    rebuild,
    truth,
    unroll,
    walk,
)
from veristream.export.safety import Facts, Knowledge, in_range, safe
from veristream.ir.bounds import Names, interval
from veristream.ir.expr import (
    BOOL,
    FALSE,
    TRUE,
    Assign,
    AtLocation,
    Binary,
    Block,
    Call,
    Check,
    Conditional,
    Const,
    Evaluate,
    Expr,
    Fold,
    For,
    If,
    IsDone,
    IsIdle,
    Let,
    Load,
    Local,
    Reset,
    Return,
    Statement,
    Type,
    While,
)
from veristream.ir.network import Component, Function, Network, Variable, all_variables
from veristream.source import Span

Scope = Mapping[str, Expr]
"""The expression that each local name of the model refers to."""

EXPRESSION_SIZE_MAX = 200
"""A function with a larger body becomes statements."""


def location_variable(component: str) -> str:
    """Returns the variable that holds a component's location; no model can declare this name."""
    return f"@{component}"


def idle_code(component: Component) -> int:
    """Returns the location variable's value for an idle component."""
    return len(component.locations)


@dataclass(frozen=True, slots=True)
class Frame:
    """Where a call's result goes; `done` is set after a `Return`."""

    result: Local
    type: Type
    done: Local


class Straightener:
    """Straightens the expressions and statements of one network; records the locals that it creates."""

    def __init__(self, network: Network, locations: tuple[Variable, ...]) -> None:
        self.functions = {function.name: function for function in network.functions}
        self.components = {component.name: component for component in network.components}
        self.located = {variable.name for variable in locations}
        self.locals: dict[str, Type] = {}
        variables = all_variables(network) + locations
        self.declared = {variable.name: variable.type for variable in variables}
        self.facts = Facts()
        names = Names(
            ChainMap(self.facts.narrowed, self.declared),
            {channel.name: channel for channel in network.channels},
            self.functions,
            self.locals,
        )
        shapes = {variable.name: variable.shape for variable in variables}
        self.known = Knowledge(names, shapes, {}, self._safe_call)
        self._count = 0
        self._bodies: dict[str, Expr | None] = {}
        self._flags_read: set[str] = set()

    # Names.

    def fresh(self, name: str, type_: Type, size: int | None = None) -> Local:
        """Creates a new local."""
        self._count += 1
        unique = f"{name}${self._count}"
        self.locals[unique] = type_
        if size is not None:
            self.known.sizes[unique] = size
        return Local(unique)

    def rename(self, expr: Expr, scope: Scope) -> Expr:
        """Replaces locals, and turns location tests into comparisons of variables."""
        match expr:
            case Local(name=name, index=None):
                return scope[name]
            case Local(name=name, index=index) if index is not None:
                array = scope[name]
                assert isinstance(array, Local)
                return replace(array, index=self.rename(index, scope))
            case Fold(name=name, low=low, high=high, body=body):
                counter = self.fresh(name, Type(low, max(low, high)))
                inner = self.rename(body, {**scope, name: counter})
                return replace(expr, name=counter.name, body=inner)
            case AtLocation(component=component, location=location):
                return self.at(component, location)
            case IsDone(component=component):
                return self.done(component)
            case IsIdle(component=component):
                return self.idle(component)
            case _:
                parts = children(expr)
                return rebuild(expr, tuple(self.rename(part, scope) for part in parts))

    def at(self, component: str, location: str) -> Expr:
        """Returns the condition that the component is at the location."""
        places = [place.name for place in self.components[component].locations]
        return self._at_code(component, places.index(location))

    def done(self, component: str) -> Expr:
        """Returns the condition that the component is at a final location."""
        places = self.components[component].locations
        found: Expr = FALSE
        for code, place in enumerate(places):
            if place.final:
                found = binary("or", found, self._at_code(component, code))
        return found

    def idle(self, component: str) -> Expr:
        """Returns the condition that the component is idle."""
        owner = self.components[component]
        if location_variable(component) not in self.located:
            return FALSE
        if self.declared[location_variable(component)].high < idle_code(owner):
            return FALSE
        return self._at_code(component, idle_code(owner))

    def _at_code(self, component: str, code: int) -> Expr:
        name = location_variable(component)
        return Binary("==", Load(name), Const(code)) if name in self.located else TRUE

    # Expressions.

    def is_plain(self, expr: Expr) -> bool:
        """Whether the expression needs no statements before it."""
        return all(
            self._as_expression(self.functions[part.function]) is not None
            for part in walk(expr)
            if isinstance(part, Call)
        )

    def expand(self, expr: Expr) -> Expr:
        """Expands the calls of a plain expression."""
        if isinstance(expr, Call):
            return self.expand(self._body_of_call(expr))
        parts = children(expr)
        return rebuild(expr, tuple(map(self.expand, parts))) if parts else expr

    def safe(self, expr: Expr) -> Expr:
        """Returns the condition, without calls, that the plain expression does not fault."""
        return self.expand(safe(expr, self.known))

    def learn(self, condition: Expr) -> None:
        """Assumes the condition from here on, until its variables are assigned."""
        self.facts.learn(condition, self.known.names.variables)

    def in_range(self, expr: Expr, type_: Type) -> Expr:
        """Returns the condition that the value is within the type; TRUE if it always is."""
        return in_range(expr, type_, self.known)

    def value(self, expr: Expr, out: list[Statement]) -> Expr:
        """Returns the renamed expression without calls; appends the statements it needs to `out`."""
        if self.is_plain(expr):
            self._check(self.safe(expr), "the model fails here", expr.span, out)
            return self.expand(expr)
        match expr:
            case Call():
                return self._inline(expr, out)
            case Binary(op="and" | "or" | "implies"):
                return self._connective(expr, out)
            case Conditional(condition=condition, then=then, otherwise=otherwise):
                return self._choice(condition, then, otherwise, expr, out)
            case Fold():
                return self._fold(expr, out)
            case _:
                return self._operands(expr, out)

    def _operands(self, expr: Expr, out: list[Statement]) -> Expr:
        """Evaluates the parts in order; saves a value if the calls of a later part might change it."""
        parts = children(expr)
        values: list[Expr] = []
        for i, part in enumerate(parts):
            value = self.value(part, out)
            later = any(not self.is_plain(other) for other in parts[i + 1 :])
            values.append(self.keep("part", value, out) if later else value)
        whole = rebuild(expr, tuple(values))
        self._check(self.safe(whole), "the model fails here", expr.span, out)
        return whole

    def keep(self, name: str, value: Expr, out: list[Statement]) -> Expr:
        """Saves the value in a new local, unless it is a constant."""
        if isinstance(value, Const):
            return value
        values = interval(value, self.known.names)
        return self._let(name, Type(values.low, values.high), value, out)

    def _let(self, name: str, type_: Type, value: Expr, out: list[Statement]) -> Local:
        local = self.fresh(name, type_)
        out.append(Let(local.name, type_, value))
        return local

    def _connective(self, expr: Binary, out: list[Statement]) -> Expr:
        left = truth(self.value(expr.left, out))
        result = self._let("truth", BOOL, negate(left) if expr.op == "implies" else left, out)
        inner: list[Statement] = []
        right = truth(self.value(expr.right, inner))
        inner.append(Assign(result, right))
        out.append(If(result if expr.op == "and" else negate(result), tuple(inner)))
        return result

    def _choice(
        self, condition: Expr, then: Expr, otherwise: Expr, whole: Expr, out: list[Statement]
    ) -> Expr:
        chosen = self.value(condition, out)
        values = interval(whole, self.known.names)
        result = self._let("chosen", Type(values.low, values.high), Const(values.low), out)
        sides: list[Block] = []
        for side in (then, otherwise):
            inner: list[Statement] = []
            inner.append(Assign(result, self.value(side, inner)))
            sides.append(tuple(inner))
        out.append(If(chosen, sides[0], sides[1]))
        return result

    def _fold(self, fold: Fold, out: list[Statement]) -> Expr:
        return self.value(unroll(fold), out) if fold.low <= fold.high else unroll(fold)

    def _check(self, condition: Expr, message: str, span: Span, out: list[Statement]) -> None:
        if condition != TRUE:
            out.append(Check(condition, message, span))

    # Calls.

    def _as_expression(self, function: Function) -> Expr | None:
        """Returns the function's body as one expression; None if it is long or has effects."""
        if function.name not in self._bodies:
            found = block_as_expression(function.body)
            if found is not None and not all(
                self._as_expression(self.functions[part.function]) is not None
                for part in walk(found)
                if isinstance(part, Call)
            ):
                found = None
            if found is not None and self._weigh(found) > EXPRESSION_SIZE_MAX:
                found = None
            self._bodies[function.name] = found
        return self._bodies[function.name]

    def _weigh(self, expr: Expr) -> int:
        """Returns the number of parts of the expression with its calls expanded."""
        called = (self._bodies[p.function] for p in walk(expr) if isinstance(p, Call))
        return sum(1 for _ in walk(expr)) + sum(self._weigh(b) for b in called if b is not None)

    def _body_of_call(self, call: Call) -> Expr:
        function = self.functions[call.function]
        body = self._as_expression(function)
        assert body is not None
        names = [parameter.name for parameter in function.parameters]
        return self.rename(body, dict(zip(names, call.arguments, strict=True)))

    def _safe_call(self, call: Call) -> Expr:
        function = self.functions[call.function]
        parts: list[Expr] = []
        for parameter, argument in zip(function.parameters, call.arguments, strict=True):
            parts += [safe(argument, self.known), self.in_range(argument, parameter.type)]
        body = self._body_of_call(call)
        return all_of([*parts, safe(body, self.known), self.in_range(body, function.result)])

    def _inline(self, call: Call, out: list[Statement]) -> Expr:
        function = self.functions[call.function]
        scope: dict[str, Expr] = {}
        for parameter, argument in zip(function.parameters, call.arguments, strict=True):
            value = self.value(argument, out)
            self._check_range(value, parameter.type, parameter.name, argument.span, out)
            scope[parameter.name] = self._let(parameter.name, parameter.type, value, out)
        values = _join_results(function.result)
        result = self._let("result", values, Const(0), out)
        frame = Frame(result, function.result, self.fresh("done", BOOL))
        body = tuple(self.block(function.body, scope, frame))
        if frame.done.name in self._flags_read:
            out.append(Let(frame.done.name, BOOL, FALSE))
        else:
            body = without(body, frame.done.name)
        out.extend(body)
        if not function.result.low <= 0 <= function.result.high and not always_returns(function.body):
            self._check(binary(">=", result, Const(function.result.low)), "no result", call.span, out)
            self._check(binary("<=", result, Const(function.result.high)), "no result", call.span, out)
        return result

    def _check_range(self, value: Expr, type_: Type, owner: str, span: Span, out: list[Statement]) -> None:
        self._check(self.in_range(value, type_), f"outside {type_.low}..{type_.high} of {owner}", span, out)

    # Statements.

    def block(self, block: Block, scope: Scope, frame: Frame | None = None) -> list[Statement]:
        """Straightens the statements of a block; statements after a `Return` are skipped."""
        inner = dict(scope)
        out: list[Statement] = []
        for i, statement in enumerate(block):
            rest = block[i + 1 :]
            if isinstance(statement, Return):
                self._statement(statement, inner, frame, out)
                break
            if rest and may_return(statement):
                self._before_rest(statement, rest, inner, frame, out)
                break
            self._statement(statement, inner, frame, out)
        return out

    def _before_rest(
        self,
        statement: Statement,
        rest: Block,
        scope: dict[str, Expr],
        frame: Frame | None,
        out: list[Statement],
    ) -> None:
        assert frame is not None, "a return outside of a function"
        if isinstance(statement, If) and always_returns(statement.then):
            statement = replace(statement, otherwise=statement.otherwise + rest)
            self._statement(statement, scope, frame, out)
        elif isinstance(statement, If) and always_returns(statement.otherwise):
            statement = replace(statement, then=statement.then + rest)
            self._statement(statement, scope, frame, out)
        else:
            self._statement(statement, scope, frame, out)
            out.append(If(self._not_done(frame), tuple(self.block(rest, scope, frame))))

    def _not_done(self, frame: Frame) -> Expr:
        self._flags_read.add(frame.done.name)
        return negate(frame.done)

    def _statement(
        self, statement: Statement, scope: dict[str, Expr], frame: Frame | None, out: list[Statement]
    ) -> None:
        match statement:
            case Assign():
                self._assign(statement, scope, out)
            case Let(name=name, type=type_, value=value, size=size, span=span):
                initial = self.value(self.rename(value, scope), out)
                self._check_range(initial, type_, name, span, out)
                local = self.fresh(name, type_, size)
                out.append(Let(local.name, type_, initial, size, span))
                scope[name] = local
            case If(condition=condition, then=then, otherwise=otherwise):
                chosen = self.value(self.rename(condition, scope), out)
                sides = [tuple(self.block(side, scope, frame)) for side in (then, otherwise)]
                if sides[0] or sides[1]:
                    out.append(If(chosen, sides[0], sides[1]))
            case While():
                self.facts.forget_all()  # the next iteration starts with what the body assigned
                self._while(statement, scope, frame, out)
            case For(name=name, low=low, high=high, body=body):
                self.facts.forget_all()
                counter = self.fresh(name, Type(low, max(low, high)))
                inner = tuple(self.block(body, {**scope, name: counter}, frame))
                if frame is not None and may_return(statement):
                    inner = (If(self._not_done(frame), inner),)
                out.append(For(counter.name, low, high, inner, statement.span))
            case Return(value=value, span=span):
                assert frame is not None, "a return outside of a function"
                result = self.value(self.rename(value, scope), out)
                self._check_range(result, frame.type, "the result", span, out)
                out += [Assign(frame.result, result), Assign(frame.done, TRUE)]
            case Evaluate(value=value):
                self.value(self.rename(value, scope), out)
            case Check(condition=condition, message=message, span=span):
                out.append(Check(self.value(self.rename(condition, scope), out), message, span))
            case Reset(span=span):
                raise ModelError("a clock cannot be exported", span, "remove the clocks")
            case _:
                assert_never(statement)

    def _assign(self, statement: Assign, scope: Scope, out: list[Statement]) -> None:
        value = self.value(self.rename(statement.value, scope), out)
        target = self.rename(statement.target, scope)
        assert isinstance(target, Load | Local), "a name that cannot be assigned"
        if not self.is_plain(target):
            value = self.keep("value", value, out)
        place = self.value(target, out)
        assert isinstance(place, Load | Local)
        match place:
            case Load(variable=name):
                type_, owner = self.declared[name], name
            case Local(name=name):
                type_, owner = self.locals[name], name.partition("$")[0]
        self._check_range(value, type_, owner, statement.span, out)
        out.append(Assign(place, value, statement.span))
        self.facts.forget(place)

    def _while(self, loop: While, scope: Scope, frame: Frame | None, out: list[Statement]) -> None:
        """Turns the limit on iterations into a check; a condition that needs statements gets a flag."""
        rounds = self._let("rounds", Type(0, loop.limit), Const(0), out)
        count: list[Statement] = [
            Check(Binary("<", rounds, Const(loop.limit)), "the loop runs too often", loop.span),
            Assign(rounds, Binary("+", rounds, Const(1))),
        ]
        before: list[Statement] = []
        condition = self.value(self.rename(loop.condition, scope), before)
        body = self.block(loop.body, scope, frame)
        returns = frame is not None and any(map(may_return, loop.body))
        if not before and not returns:
            out.append(While(condition, (*count, *body), loop.limit, loop.span))
            return
        out.extend(before)
        going = self._let("going", BOOL, truth(condition), out)
        again: list[Statement] = []
        again.append(Assign(going, truth(self.value(self.rename(loop.condition, scope), again))))
        if returns and frame is not None:
            again = [If(self._not_done(frame), tuple(again), (Assign(going, FALSE),))]
        out.append(While(going, (*count, *body, *again), loop.limit, loop.span))


def _join_results(type_: Type) -> Type:
    return Type(min(0, type_.low), max(0, type_.high))
