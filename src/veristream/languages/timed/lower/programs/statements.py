"""Lowers functions and their statements."""

from __future__ import annotations

from dataclasses import dataclass, replace

from veristream.errors import ModelError
from veristream.ir import expr as ir
from veristream.ir import network as net
from veristream.languages.timed import syntax
from veristream.languages.timed.lower.constant import bounded, resolve_type, type_of_parameter
from veristream.languages.timed.lower.declare import declare_constant
from veristream.languages.timed.lower.initial import initial_values, record_items
from veristream.languages.timed.lower.kinds import type_of
from veristream.languages.timed.lower.model import Model, Request
from veristream.languages.timed.lower.programs import access
from veristream.languages.timed.lower.programs.calls import pass_by_value, refer
from veristream.languages.timed.lower.programs.changes import count_returns
from veristream.languages.timed.lower.programs.effects import as_type, assign, perform
from veristream.languages.timed.lower.programs.expressions import ExpressionReader
from veristream.languages.timed.lower.programs.reader import Reader
from veristream.languages.timed.lower.scope import FunctionName, Home, LocalNames, Ref, Scope, TypeName
from veristream.languages.timed.lower.types import (
    Array,
    Range,
    Record,
    Type,
    Void,
    default,
    describe,
    leaves,
    of_constants,
)
from veristream.source import Span

ITERATIONS_MAX = 1_000_000
NO_VALUE = Range(0, 0)
"""The result type of a `void` function in the IR."""


def lower_functions(model: Model) -> None:
    """Lowers all requested functions, and the functions that they request in turn."""
    while model.pending:
        request = model.pending.pop(0)
        model.functions[request.name] = _function(model, request)


def _function(model: Model, request: Request) -> net.Function:
    declaration, outer = request.function.declaration, request.function.scope
    names = LocalNames(set(request.hidden))
    reader = FunctionReader(model, outer.inner(), names, [], path=(declaration.name,))
    parameters = [net.Parameter(name, ir.INT, span=declaration.span) for name in request.hidden]
    for parameter in declaration.parameters:
        if parameter.name in request.references:
            reader.scope.declare(parameter.name, request.references[parameter.name], parameter.span)
        else:
            parameters += _take(reader, parameter)
    result = _result(request.function)
    body = Body(reader, result, request.name)
    statements = (*(reader.effects or ()), *body.block(declaration.body))
    given = NO_VALUE if isinstance(result, Void) else result
    return net.Function(request.name, tuple(parameters), given, statements, span=declaration.span)


def _result(function: FunctionName) -> Range | Void:
    declaration = function.declaration
    result = resolve_type(declaration.result, (), function.scope)
    if not isinstance(result, Range | Void):
        raise ModelError(
            f"`{declaration.name}` returns {describe(result)}, which is not supported here",
            declaration.span,
            "return a number, or fill a variable passed by reference with `&`",
        )
    return result


def _take(reader: Reader, parameter: syntax.Parameter) -> list[net.Parameter]:
    """Declares a parameter by value, and returns its numbers; a struct or array is assembled from them."""
    type_ = type_of_parameter(parameter, reader.scope)
    name = reader.names.fresh(parameter.name)
    ref = Ref(name, type_, Home.LOCAL, writable=not parameter.constant)
    reader.scope.declare(parameter.name, ref, parameter.span)
    if isinstance(type_, Range):
        return [net.Parameter(name, type_, span=parameter.span)]
    passed: list[net.Parameter] = []
    declare_locals(reader, ref, parameter.span)
    for leaf, part in access.elements(ref):
        if not isinstance(leaf.type, Range):
            raise ModelError(
                f"{describe(leaf.type)} can only be passed by reference",
                parameter.span,
                "write `&` before the parameter",
            )
        passed.append(net.Parameter(reader.names.fresh(f"{name}_of"), leaf.type, span=parameter.span))
        value = ir.Local(passed[-1].name, span=parameter.span)
        reader.emit(ir.Assign(access.target(part, parameter.span), value, span=parameter.span))
    return passed


def declare_locals(reader: Reader, ref: Ref, span: Span) -> None:
    """Declares the local variables for a variable, one per leaf, with default values."""
    for leaf in leaves(ref.type):
        if not isinstance(leaf.type, Range):
            raise ModelError(
                f"{describe(leaf.type)} cannot be local to a function",
                span,
                "declare it outside the function",
            )
        size = leaf.count if leaf.dimensions else None
        reader.emit(ir.Let(ref.name + leaf.path, leaf.type, ir.Const(default(leaf.type)), size, span=span))


def _is_known(type_: Type, declaration: syntax.Variable, scope: Scope) -> bool:
    """Returns whether a local constant has the same value in every call."""
    try:
        initial_values(type_, declaration.initial, scope, declaration.span)
    except ModelError:
        return False
    return True


@dataclass(slots=True)
class FunctionReader(ExpressionReader):
    """Lowers the expressions of a function; `path` has the functions being inlined."""

    path: tuple[str, ...] = ()

    def inline(self, function: FunctionName, call: syntax.Call) -> ir.Expr:
        """Inlines the function at its call, and returns its result."""
        declaration = function.declaration
        if declaration.name in self.path:
            raise ModelError(f"function `{declaration.name}` calls itself", call.span, "use a loop")
        if self.effects is None:
            raise ModelError(
                "side effects are not allowed here", call.span, "call the function in an earlier statement"
            )
        scope = function.scope.inner()
        for parameter, argument in zip(declaration.parameters, call.arguments, strict=True):
            scope.declare(parameter.name, self._argument(function, parameter, argument), parameter.span)
        inside = replace(self, scope=scope.inner(), path=(*self.path, declaration.name))
        body = Body(inside, _result(function), self.path[0])
        return body.inline(declaration)

    def _argument(
        self, function: FunctionName, parameter: syntax.Parameter, argument: syntax.Expression
    ) -> Ref:
        type_ = type_of_parameter(parameter, function.scope)
        if parameter.reference:
            place = refer(self, parameter, type_, argument)
            return replace(place, indices=tuple(self.keep(list(place.indices), self.mark())))
        values = pass_by_value(self, type_, argument)
        ref = Ref(self.names.fresh(parameter.name), type_, Home.LOCAL, writable=not parameter.constant)
        declare_locals(self, ref, parameter.span)
        for (_, part), value in zip(access.elements(ref), values, strict=True):
            self.emit(ir.Assign(access.target(part, parameter.span), value, span=argument.span))
        return ref


@dataclass(frozen=True, slots=True)
class Body:
    """Lowers the statements of a function with the given result type."""

    reader: Reader
    result: Range | Void
    function: str

    def block(self, block: syntax.Block) -> ir.Block:
        """Lowers a block in a scope of its own."""
        inner = self._inner(self.reader.scope.inner())
        for declaration in block.declarations:
            inner.declare(declaration)
        for statement in block.statements:
            inner.statement(statement)
        return tuple(inner.reader.effects or ())

    def inline(self, declaration: syntax.Function) -> ir.Expr:
        """Inlines the function, which may only return at its end."""
        statements = declaration.body.statements
        last = statements[-1] if statements and isinstance(statements[-1], syntax.Return) else None
        if count_returns(declaration) > (last is not None):
            raise ModelError(
                f"`{declaration.name}` changes a local variable of its caller and returns early",
                declaration.span,
                "return once, at its end",
            )
        for one in declaration.body.declarations:
            self.declare(one)
        for statement in statements if last is None else statements[:-1]:
            self.statement(statement)
        if last is None or last.value is None or isinstance(self.result, Void):
            return ir.Const(0, declaration.span)
        return self.reader.keep([self._typed(last.value, self.result)], self.reader.mark())[0]

    def _inner(self, scope: Scope) -> Body:
        return replace(self, reader=replace(self.reader, scope=scope, effects=[]))

    def _nested(self, statement: syntax.Statement | None) -> ir.Block:
        """Lowers a statement to a block."""
        match statement:
            case None:
                return ()
            case syntax.Block():
                return self.block(statement)
            case _:
                inner = self._inner(self.reader.scope)
                inner.statement(statement)
                return tuple(inner.reader.effects or ())

    def declare(self, declaration: syntax.Variable | syntax.TypeDefinition) -> None:
        """Declares a local variable, constant or type."""
        scope = self.reader.scope
        type_ = resolve_type(declaration.type, declaration.shape, scope)
        if isinstance(declaration, syntax.TypeDefinition):
            scope.declare(declaration.name, TypeName(type_), declaration.span)
            return
        if declaration.constant:
            type_ = of_constants(type_)
        name = self.reader.names.fresh(declaration.name)
        if declaration.constant and _is_known(type_, declaration, scope):
            declare_constant(declaration, type_, scope, f"{self.function}.{name}")
            return
        ref = Ref(name, type_, Home.LOCAL, writable=not declaration.constant)
        if isinstance(type_, Range) and declaration.initial is not None:
            self._begin(ref, type_, declaration.initial, declaration.span)
        else:
            declare_locals(self.reader, ref, declaration.span)
            self._fill(replace(ref, writable=True), declaration.initial, declaration.span)
        scope.declare(declaration.name, ref, declaration.span)

    def _begin(self, ref: Ref, type_: Range, initial: syntax.Initial, span: Span) -> None:
        if isinstance(initial, syntax.InitialList):
            raise ModelError("expected a number, found a list", initial.span, "remove the braces")
        value = self._typed(initial, type_)
        self.reader.emit(ir.Let(ref.name, type_, value, span=span))

    def _typed(self, expr: syntax.Expression, type_: Range) -> ir.Expr:
        value = as_type(self.reader.value(expr), type_, type_of(expr, self.reader.scope) == ir.BOOL)
        return self.reader.at_run_time(value, type_)

    def _fill(self, ref: Ref, initial: syntax.Initial | None, span: Span) -> None:
        """Assigns the initial value of a local array or struct, part by part."""
        match ref.type:
            case _ if initial is None:
                return
            case Range() as type_ if not isinstance(initial, syntax.InitialList):
                value = self._typed(initial, type_)
                self.reader.emit(ir.Assign(access.target(ref, span), value, span=span))
            case Record() as type_ if isinstance(initial, syntax.InitialList):
                for name, item in record_items(type_, initial, span).items():
                    part = ref.part(name)
                    assert part is not None
                    self._fill(part, item, span)
            case Array(dimension=dimension) if isinstance(initial, syntax.InitialList):
                if len(initial.items) != dimension.size:
                    raise ModelError(
                        f"expected {dimension.size} value(s) for the array, found {len(initial.items)}",
                        initial.span,
                        "write one value per element",
                    )
                for number, (_, item) in enumerate(initial.items, dimension.low):
                    self._fill(ref.at(ir.Const(number)), item, span)
            case _ if not isinstance(initial, syntax.InitialList):
                inner = self.reader.within(self.reader.scope.bind("=", ref))
                assign(inner, syntax.Assignment("=", syntax.Name("=", span=span), initial, span=span))
            case _:
                raise ModelError("expected a number, found a list", initial.span, "remove the braces")

    def statement(self, statement: syntax.Statement) -> None:
        """Appends a lowered statement to the block."""
        reader = self.reader
        match statement:
            case syntax.Block():
                for inner in self.block(statement):
                    reader.emit(inner)
            case syntax.Evaluate(value=value):
                perform(reader, value)
            case syntax.For(begin=begin, condition=condition, after=after, body=body, span=span):
                for expr in begin:
                    perform(reader, expr)
                tail = tuple(syntax.Evaluate(expr, span=expr.span) for expr in after)
                self._loop(condition or syntax.Number(1, span=span), body, tail, span)
            case syntax.While(condition=condition, body=body, body_first=False, span=span):
                self._loop(condition, body, (), span)
            case syntax.While(condition=condition, body=body, span=span):
                self._repeat(condition, body, span)
            case syntax.ForEach():
                self._for_each(statement)
            case syntax.If(condition=condition, then=then, otherwise=otherwise, span=span):
                chosen = reader.value(condition)
                reader.emit(ir.If(chosen, self._nested(then), self._nested(otherwise), span=span))
            case syntax.Return():
                self._return(statement)
            case syntax.Nothing():
                pass

    def _for_each(self, loop: syntax.ForEach) -> None:
        type_ = bounded(loop.type, self.reader.scope)
        name = self.reader.names.fresh(loop.name)
        counter = Ref(name, type_, Home.LOCAL, writable=False)
        inner = replace(self, reader=self.reader.within(self.reader.scope.bind(loop.name, counter)))
        self.reader.emit(ir.For(name, type_.low, type_.high, inner._nested(loop.body), span=loop.span))

    def _loop(
        self,
        condition: syntax.Expression,
        body: syntax.Statement,
        tail: tuple[syntax.Statement, ...],
        span: Span,
    ) -> None:
        """Lowers `while`, with `tail` after each iteration; a condition with side effects moves inside."""
        test = self._inner(self.reader.scope)
        value = test.reader.value(condition)
        before = tuple(test.reader.effects or ())
        after = self._nested(syntax.Block((), tail, span=span))
        rounds = (*self._nested(body), *after)
        if not before:
            self.reader.emit(ir.While(value, rounds, ITERATIONS_MAX, span=span))
            return
        again = self.reader.names.fresh("again")
        stop = ir.Assign(ir.Local(again), ir.FALSE, span=span)
        self.reader.emit(ir.Let(again, ir.BOOL, ir.TRUE, span=span))
        inside = (*before, ir.If(value, rounds, (stop,), span=span))
        self.reader.emit(ir.While(ir.Local(again), inside, ITERATIONS_MAX, span=span))

    def _repeat(self, condition: syntax.Expression, body: syntax.Statement, span: Span) -> None:
        """Lowers `do ... while`."""
        again = self.reader.names.fresh("again")
        self.reader.emit(ir.Let(again, ir.BOOL, ir.TRUE, span=span))
        rounds = self._nested(body)
        test = self._inner(self.reader.scope)
        value = as_type(
            test.reader.value(condition), ir.BOOL, type_of(condition, test.reader.scope) == ir.BOOL
        )
        inside = (*rounds, *(test.reader.effects or ()), ir.Assign(ir.Local(again), value, span=span))
        self.reader.emit(ir.While(ir.Local(again), inside, ITERATIONS_MAX, span=span))

    def _return(self, statement: syntax.Return) -> None:
        if isinstance(self.result, Void):
            if statement.value is not None:
                raise ModelError(
                    "a `void` function cannot return a value", statement.value.span, "write `return;`"
                )
            self.reader.emit(ir.Return(ir.Const(0), span=statement.span))
            return
        if statement.value is None:
            raise ModelError("this `return` needs a value", statement.span, "write `return value;`")
        value = self._typed(statement.value, self.result)
        self.reader.emit(ir.Return(value, span=statement.span))
