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
)
from veristream.export.safety import Facts, Knowledge, in_range, safe
from veristream.ir import expr as ir
from veristream.ir.bounds import Names, interval
from veristream.ir.network import Component, Function, Network, Variable, all_variables
from veristream.ir.walk import walk
from veristream.source import Span

Scope = Mapping[str, ir.Expr]
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

    result: ir.Local
    type: ir.Type
    done: ir.Local


class Straightener:
    """Straightens the expressions and statements of one network; records the locals that it creates."""

    def __init__(self, network: Network, locations: tuple[Variable, ...]) -> None:
        self.functions = {function.name: function for function in network.functions}
        self.components = {component.name: component for component in network.components}
        self.located = {variable.name for variable in locations}
        self.locals: dict[str, ir.Type] = {}
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
        self._bodies: dict[str, ir.Expr | None] = {}
        self._flags_read: set[str] = set()

    # Names.

    def fresh(self, name: str, type_: ir.Type, size: int | None = None) -> ir.Local:
        """Creates a new local."""
        self._count += 1
        unique = f"{name}${self._count}"
        self.locals[unique] = type_
        if size is not None:
            self.known.sizes[unique] = size
        return ir.Local(unique)

    def rename(self, expr: ir.Expr, scope: Scope) -> ir.Expr:
        """Replaces locals, and turns location tests into comparisons of variables."""
        match expr:
            case ir.Local(name=name, index=None):
                return scope[name]
            case ir.Local(name=name, index=index) if index is not None:
                array = scope[name]
                assert isinstance(array, ir.Local)
                return replace(array, index=self.rename(index, scope))
            case ir.Fold(name=name, low=low, high=high, body=body):
                counter = self.fresh(name, ir.Type(low, max(low, high)))
                inner = self.rename(body, {**scope, name: counter})
                return replace(expr, name=counter.name, body=inner)
            case ir.AtLocation(component=component, location=location):
                return self.at(component, location)
            case ir.IsDone(component=component):
                return self.done(component)
            case ir.IsIdle(component=component):
                return self.idle(component)
            case _:
                parts = children(expr)
                return rebuild(expr, tuple(self.rename(part, scope) for part in parts))

    def at(self, component: str, location: str) -> ir.Expr:
        """Returns the condition that the component is at the location."""
        places = [place.name for place in self.components[component].locations]
        return self._at_code(component, places.index(location))

    def done(self, component: str) -> ir.Expr:
        """Returns the condition that the component is at a final location."""
        places = self.components[component].locations
        found: ir.Expr = ir.FALSE
        for code, place in enumerate(places):
            if place.final:
                found = binary("or", found, self._at_code(component, code))
        return found

    def idle(self, component: str) -> ir.Expr:
        """Returns the condition that the component is idle."""
        owner = self.components[component]
        if location_variable(component) not in self.located:
            return ir.FALSE
        if self.declared[location_variable(component)].high < idle_code(owner):
            return ir.FALSE
        return self._at_code(component, idle_code(owner))

    def _at_code(self, component: str, code: int) -> ir.Expr:
        name = location_variable(component)
        return ir.Binary("==", ir.Load(name), ir.Const(code)) if name in self.located else ir.TRUE

    # Expressions.

    def is_plain(self, expr: ir.Expr) -> bool:
        """Whether the expression needs no statements before it."""
        return all(
            self._as_expression(self.functions[part.function]) is not None
            for part in walk(expr)
            if isinstance(part, ir.Call)
        )

    def expand(self, expr: ir.Expr) -> ir.Expr:
        """Expands the calls of a plain expression."""
        if isinstance(expr, ir.Call):
            return self.expand(self._body_of_call(expr))
        parts = children(expr)
        return rebuild(expr, tuple(map(self.expand, parts))) if parts else expr

    def safe(self, expr: ir.Expr) -> ir.Expr:
        """Returns the condition, without calls, that the plain expression does not fault."""
        return self.expand(safe(expr, self.known))

    def learn(self, condition: ir.Expr) -> None:
        """Assumes the condition from here on, until its variables are assigned."""
        self.facts.learn(condition, self.known.names.variables)

    def in_range(self, expr: ir.Expr, type_: ir.Type) -> ir.Expr:
        """Returns the condition that the value is within the type; TRUE if it always is."""
        return in_range(expr, type_, self.known)

    def value(self, expr: ir.Expr, out: list[ir.Statement]) -> ir.Expr:
        """Returns the renamed expression without calls; appends the statements it needs to `out`."""
        if self.is_plain(expr):
            self._check(self.safe(expr), "the model fails here", expr.span, out)
            return self.expand(expr)
        match expr:
            case ir.Call():
                return self._inline(expr, out)
            case ir.Binary(op="and" | "or" | "implies"):
                return self._connective(expr, out)
            case ir.Conditional(condition=condition, then=then, otherwise=otherwise):
                return self._choice(condition, then, otherwise, expr, out)
            case ir.Fold():
                return self._fold(expr, out)
            case _:
                return self._operands(expr, out)

    def _operands(self, expr: ir.Expr, out: list[ir.Statement]) -> ir.Expr:
        """Evaluates the parts in order; saves a value if the calls of a later part might change it."""
        parts = children(expr)
        values: list[ir.Expr] = []
        for i, part in enumerate(parts):
            value = self.value(part, out)
            later = any(not self.is_plain(other) for other in parts[i + 1 :])
            values.append(self.keep("part", value, out) if later else value)
        whole = rebuild(expr, tuple(values))
        self._check(self.safe(whole), "the model fails here", expr.span, out)
        return whole

    def keep(self, name: str, value: ir.Expr, out: list[ir.Statement]) -> ir.Expr:
        """Saves the value in a new local, unless it is a constant."""
        if isinstance(value, ir.Const):
            return value
        values = interval(value, self.known.names)
        return self._let(name, ir.Type(values.low, values.high), value, out)

    def _let(self, name: str, type_: ir.Type, value: ir.Expr, out: list[ir.Statement]) -> ir.Local:
        local = self.fresh(name, type_)
        out.append(ir.Let(local.name, type_, value))
        return local

    def _connective(self, expr: ir.Binary, out: list[ir.Statement]) -> ir.Expr:
        left = truth(self.value(expr.left, out))
        result = self._let("truth", ir.BOOL, negate(left) if expr.op == "implies" else left, out)
        inner: list[ir.Statement] = []
        right = truth(self.value(expr.right, inner))
        inner.append(ir.Assign(result, right))
        out.append(ir.If(result if expr.op == "and" else negate(result), tuple(inner)))
        return result

    def _choice(
        self, condition: ir.Expr, then: ir.Expr, otherwise: ir.Expr, whole: ir.Expr, out: list[ir.Statement]
    ) -> ir.Expr:
        chosen = self.value(condition, out)
        values = interval(whole, self.known.names)
        result = self._let("chosen", ir.Type(values.low, values.high), ir.Const(values.low), out)
        sides: list[ir.Block] = []
        for side in (then, otherwise):
            inner: list[ir.Statement] = []
            inner.append(ir.Assign(result, self.value(side, inner)))
            sides.append(tuple(inner))
        out.append(ir.If(chosen, sides[0], sides[1]))
        return result

    def _fold(self, fold: ir.Fold, out: list[ir.Statement]) -> ir.Expr:
        return self.value(unroll(fold), out) if fold.low <= fold.high else unroll(fold)

    def _check(self, condition: ir.Expr, message: str, span: Span, out: list[ir.Statement]) -> None:
        if condition != ir.TRUE:
            out.append(ir.Check(condition, message, span=span))

    # Calls.

    def _as_expression(self, function: Function) -> ir.Expr | None:
        """Returns the function's body as one expression; None if it is long or has effects."""
        if function.name not in self._bodies:
            found = block_as_expression(function.body)
            if found is not None and not all(
                self._as_expression(self.functions[part.function]) is not None
                for part in walk(found)
                if isinstance(part, ir.Call)
            ):
                found = None
            if found is not None and self._weigh(found) > EXPRESSION_SIZE_MAX:
                found = None
            self._bodies[function.name] = found
        return self._bodies[function.name]

    def _weigh(self, expr: ir.Expr) -> int:
        """Returns the number of parts of the expression with its calls expanded."""
        called = (self._bodies[p.function] for p in walk(expr) if isinstance(p, ir.Call))
        return sum(1 for _ in walk(expr)) + sum(self._weigh(b) for b in called if b is not None)

    def _body_of_call(self, call: ir.Call) -> ir.Expr:
        function = self.functions[call.function]
        body = self._as_expression(function)
        assert body is not None
        names = [parameter.name for parameter in function.parameters]
        return self.rename(body, dict(zip(names, call.arguments, strict=True)))

    def _safe_call(self, call: ir.Call) -> ir.Expr:
        function = self.functions[call.function]
        parts: list[ir.Expr] = []
        for parameter, argument in zip(function.parameters, call.arguments, strict=True):
            parts += [safe(argument, self.known), self.in_range(argument, parameter.type)]
        body = self._body_of_call(call)
        return all_of([*parts, safe(body, self.known), self.in_range(body, function.result)])

    def _inline(self, call: ir.Call, out: list[ir.Statement]) -> ir.Expr:
        function = self.functions[call.function]
        scope: dict[str, ir.Expr] = {}
        for parameter, argument in zip(function.parameters, call.arguments, strict=True):
            value = self.value(argument, out)
            self._check_range(value, parameter.type, parameter.name, argument.span, out)
            scope[parameter.name] = self._let(parameter.name, parameter.type, value, out)
        values = _join_results(function.result)
        result = self._let("result", values, ir.Const(0), out)
        frame = Frame(result, function.result, self.fresh("done", ir.BOOL))
        body = tuple(self.block(function.body, scope, frame))
        if frame.done.name in self._flags_read:
            out.append(ir.Let(frame.done.name, ir.BOOL, ir.FALSE))
        else:
            body = without(body, frame.done.name)
        out.extend(body)
        if not function.result.low <= 0 <= function.result.high and not always_returns(function.body):
            self._check(binary(">=", result, ir.Const(function.result.low)), "no result", call.span, out)
            self._check(binary("<=", result, ir.Const(function.result.high)), "no result", call.span, out)
        return result

    def _check_range(
        self, value: ir.Expr, type_: ir.Type, owner: str, span: Span, out: list[ir.Statement]
    ) -> None:
        self._check(self.in_range(value, type_), f"outside {type_.low}..{type_.high} of {owner}", span, out)

    # Statements.

    def block(self, block: ir.Block, scope: Scope, frame: Frame | None = None) -> list[ir.Statement]:
        """Straightens the statements of a block; statements after a `Return` are skipped."""
        inner = dict(scope)
        out: list[ir.Statement] = []
        for i, statement in enumerate(block):
            rest = block[i + 1 :]
            if isinstance(statement, ir.Return):
                self._statement(statement, inner, frame, out)
                break
            if rest and may_return(statement):
                self._before_rest(statement, rest, inner, frame, out)
                break
            self._statement(statement, inner, frame, out)
        return out

    def _before_rest(
        self,
        statement: ir.Statement,
        rest: ir.Block,
        scope: dict[str, ir.Expr],
        frame: Frame | None,
        out: list[ir.Statement],
    ) -> None:
        assert frame is not None, "a return outside of a function"
        if isinstance(statement, ir.If) and always_returns(statement.then):
            statement = replace(statement, otherwise=statement.otherwise + rest)
            self._statement(statement, scope, frame, out)
        elif isinstance(statement, ir.If) and always_returns(statement.otherwise):
            statement = replace(statement, then=statement.then + rest)
            self._statement(statement, scope, frame, out)
        else:
            self._statement(statement, scope, frame, out)
            out.append(ir.If(self._not_done(frame), tuple(self.block(rest, scope, frame))))

    def _not_done(self, frame: Frame) -> ir.Expr:
        self._flags_read.add(frame.done.name)
        return negate(frame.done)

    def _statement(
        self,
        statement: ir.Statement,
        scope: dict[str, ir.Expr],
        frame: Frame | None,
        out: list[ir.Statement],
    ) -> None:
        match statement:
            case ir.Assign():
                self._assign(statement, scope, out)
            case ir.Let(name=name, type=type_, value=value, size=size, span=span):
                initial = self.value(self.rename(value, scope), out)
                self._check_range(initial, type_, name, span, out)
                local = self.fresh(name, type_, size)
                out.append(ir.Let(local.name, type_, initial, size, span=span))
                scope[name] = local
            case ir.If(condition=condition, then=then, otherwise=otherwise):
                chosen = self.value(self.rename(condition, scope), out)
                sides = [tuple(self.block(side, scope, frame)) for side in (then, otherwise)]
                if sides[0] or sides[1]:
                    out.append(ir.If(chosen, sides[0], sides[1]))
            case ir.While():
                self.facts.forget_all()  # the next iteration starts with what the body assigned
                self._while(statement, scope, frame, out)
            case ir.For(name=name, low=low, high=high, body=body):
                self.facts.forget_all()
                counter = self.fresh(name, ir.Type(low, max(low, high)))
                inner = tuple(self.block(body, {**scope, name: counter}, frame))
                if frame is not None and may_return(statement):
                    inner = (ir.If(self._not_done(frame), inner),)
                out.append(ir.For(counter.name, low, high, inner, span=statement.span))
            case ir.Return(value=value, span=span):
                assert frame is not None, "a return outside of a function"
                result = self.value(self.rename(value, scope), out)
                self._check_range(result, frame.type, "the result", span, out)
                out += [ir.Assign(frame.result, result), ir.Assign(frame.done, ir.TRUE)]
            case ir.Evaluate(value=value):
                self.value(self.rename(value, scope), out)
            case ir.Check(condition=condition, message=message, span=span):
                out.append(ir.Check(self.value(self.rename(condition, scope), out), message, span=span))
            case ir.Reset(span=span):
                raise ModelError("a clock cannot be exported", span, "remove the clocks")
            case _:
                assert_never(statement)

    def _assign(self, statement: ir.Assign, scope: Scope, out: list[ir.Statement]) -> None:
        value = self.value(self.rename(statement.value, scope), out)
        target = self.rename(statement.target, scope)
        assert isinstance(target, ir.Load | ir.Local), "a name that cannot be assigned"
        if not self.is_plain(target):
            value = self.keep("value", value, out)
        place = self.value(target, out)
        assert isinstance(place, ir.Load | ir.Local)
        match place:
            case ir.Load(variable=name):
                type_, owner = self.declared[name], name
            case ir.Local(name=name):
                type_, owner = self.locals[name], name.partition("$")[0]
        self._check_range(value, type_, owner, statement.span, out)
        out.append(ir.Assign(place, value, span=statement.span))
        self.facts.forget(place)

    def _while(self, loop: ir.While, scope: Scope, frame: Frame | None, out: list[ir.Statement]) -> None:
        """Turns the limit on iterations into a check; a condition that needs statements gets a flag."""
        rounds = self._let("rounds", ir.Type(0, loop.limit), ir.Const(0), out)
        count: list[ir.Statement] = [
            ir.Check(
                ir.Binary("<", rounds, ir.Const(loop.limit)), "the loop runs too often", span=loop.span
            ),
            ir.Assign(rounds, ir.Binary("+", rounds, ir.Const(1))),
        ]
        before: list[ir.Statement] = []
        condition = self.value(self.rename(loop.condition, scope), before)
        body = self.block(loop.body, scope, frame)
        returns = frame is not None and any(map(may_return, loop.body))
        if not before and not returns:
            out.append(ir.While(condition, (*count, *body), loop.limit, span=loop.span))
            return
        out.extend(before)
        going = self._let("going", ir.BOOL, truth(condition), out)
        again: list[ir.Statement] = []
        again.append(ir.Assign(going, truth(self.value(self.rename(loop.condition, scope), again))))
        if returns and frame is not None:
            again = [ir.If(self._not_done(frame), tuple(again), (ir.Assign(going, ir.FALSE),))]
        out.append(ir.While(going, (*count, *body, *again), loop.limit, span=loop.span))


def _join_results(type_: ir.Type) -> ir.Type:
    return ir.Type(min(0, type_.low), max(0, type_.high))
