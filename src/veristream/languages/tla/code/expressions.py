"""Compiles expressions to Python."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from veristream.errors import ModelError
from veristream.languages.tla.code import python as py
from veristream.languages.tla.code.names import NEXT, NOW, NameCompiler
from veristream.languages.tla.levels import Level, mentions
from veristream.languages.tla.scope import (
    Binding,
    ByName,
    Defined,
    Local,
    LocalOperator,
    Named,
    Scope,
)
from veristream.languages.tla.syntax import (
    Apply,
    Boolean,
    Bound,
    Case,
    Choose,
    Except,
    Expression,
    Fair,
    Filter,
    Function,
    FunctionSet,
    If,
    Image,
    Junction,
    Lambda,
    Let,
    Number,
    Operator,
    Part,
    Previous,
    Prime,
    Product,
    Quantifier,
    Record,
    RecordSet,
    SetOf,
    Square,
    Text,
    Tuple,
    Unsupported,
    Update,
    Use,
)
from veristream.source import Span


class ExpressionCompiler(NameCompiler):
    """Compiles the expressions of one specification."""

    def _compile(self, node: Expression, scope: Scope, moment: str) -> ast.expr:
        match node:
            case Number(value) | Text(value) | Boolean(value):
                return py.constant(value)
            case Use():
                return self._use(node, scope, moment)
            case Junction(op, items):
                if len(items) == 1:
                    return self.truth(items[0], scope, moment)
                kind: ast.boolop = ast.And() if op == "/\\" else ast.Or()
                return ast.BoolOp(kind, [self.truth(one, scope, moment) for one in items])
            case If(condition, yes, no):
                test = self.truth(condition, scope, moment)
                return ast.IfExp(test, *self._all((yes, no), scope, moment))
            case Case():
                return self._case(node, scope, moment)
            case Let():
                return self._let(node, scope, moment)
            case Prime(operand):
                if moment == NEXT:
                    raise ModelError("an expression has two primes", node.span, "remove one of them")
                return self.compile(operand, scope, NEXT)
            case Part():
                inner, at = self.part(node, scope)
                return self.compile(inner, at, moment)
            case Square(action, subscript, angle):
                return self._square(action, subscript, angle, scope, moment)
            case Fair():
                raise ModelError("fairness is no value of a state", node.span)
            case Lambda():
                hint = "LAMBDA is an argument for a parameter such as F(_)"
                raise ModelError("LAMBDA is used as a value", node.span, hint)
            case Unsupported(what, hint):
                raise ModelError(f"{what} cannot be checked", node.span, hint)
            case _:
                return self._value(node, scope, moment)

    def _value(self, node: Expression, scope: Scope, moment: str) -> ast.expr:
        match node:
            case SetOf(items):
                return py.call("make_set", py.tuple_of(self._all(items, scope, moment)))
            case Tuple(items):
                return py.tuple_of(self._all(items, scope, moment))
            case Product(items):
                return py.call("product", *self._all(items, scope, moment))
            case Record(fields):
                return py.call("record", self._fields(fields, scope, moment))
            case RecordSet(fields):
                return py.call("records", self._fields(fields, scope, moment))
            case FunctionSet(domain, range_):
                return py.call("functions", *self._all((domain, range_), scope, moment))
            case Apply(function, arguments):
                values = self._all(arguments, scope, moment)
                argument = values[0] if len(values) == 1 else py.tuple_of(values)
                return py.call("apply", self.compile(function, scope, moment), argument)
            case Function():
                return self._function(node, scope, moment)
            case Except():
                return self._except(node, scope, moment)
            case Previous():
                return self._binding(scope.find("@"), node.span, moment)
            case Quantifier() | Choose() | Filter() | Image():
                return self._bound(node, scope, moment)
            case _:
                raise AssertionError(node)

    def _fields(self, fields: tuple[tuple[str, Expression], ...], scope: Scope, moment: str) -> ast.expr:
        names: list[ast.expr | None] = [py.constant(name) for name, _ in fields]
        return ast.Dict(names, [self.compile(value, scope, moment) for _, value in fields])

    def _case(self, node: Case, scope: Scope, moment: str) -> ast.expr:
        result = py.call("no_case") if node.other is None else self.compile(node.other, scope, moment)
        for condition, value in reversed(node.arms):
            test = self.truth(condition, scope, moment)
            result = ast.IfExp(test, self.compile(value, scope, moment), result)
        return result

    def _square(
        self, action: Expression, subscript: Expression, angle: bool, scope: Scope, moment: str
    ) -> ast.expr:
        before = self.compile(subscript, scope, NOW)
        after = self.compile(subscript, scope, NEXT)
        same = py.call("equal", after, before)
        taken = self.truth(action, scope, moment)
        if angle:
            return ast.BoolOp(ast.And(), [ast.UnaryOp(ast.Not(), same), taken])
        return ast.BoolOp(ast.Or(), [same, taken])

    # Binders

    def bind(self, bounds: Sequence[Bound], scope: Scope) -> tuple[Scope, list[list[str]]]:
        """A scope with the bound identifiers, and their names in the code."""
        codes = [[self.fresh("l") for _ in bound.names] for bound in bounds]
        names: dict[str, Binding] = {
            name: Local(code)
            for bound, its in zip(bounds, codes, strict=True)
            for name, code in zip(bound.names, its, strict=True)
        }
        return scope.inside(names), codes

    def over(self, bound: Bound, scope: Scope, moment: str, elements: str = "elements") -> ast.expr:
        """What a bound identifier ranges over."""
        if bound.set is None:
            what = py.constant("a quantifier without a set cannot be evaluated: write `\\in S`")
            return self._here(bound.span, py.call("fail", what))
        set_ = self.compile(bound.set, scope, moment)
        if bound.of_tuple:
            return self._here(bound.span, py.call("tuples", set_, py.constant(len(bound.names))))
        return self._here(bound.span, py.call(elements, set_))

    def _here(self, span: Span, tree: ast.expr) -> ast.expr:
        return py.at_line(tree, self.places.line(span))

    def _generators(
        self, bounds: Sequence[Bound], scope: Scope, moment: str
    ) -> tuple[list[ast.comprehension], Scope]:
        inner, codes = self.bind(bounds, scope)
        found: list[ast.comprehension] = []
        for bound, its in zip(bounds, codes, strict=True):
            for group in bound.groups(its):
                to = py.target(group, bound.of_tuple)
                found.append(ast.comprehension(to, self.over(bound, scope, moment), [], 0))
        return found, inner

    def _bound(self, node: Quantifier | Choose | Filter | Image, scope: Scope, moment: str) -> ast.expr:
        match node:
            case Quantifier(op, bounds, body):
                generators, inner = self._generators(bounds, scope, moment)
                test = self.truth(body, inner, moment)
                return py.call("all" if op == "\\A" else "any", ast.GeneratorExp(test, generators))
            case Image(value, bounds):
                generators, inner = self._generators(bounds, scope, moment)
                return py.call("image", ast.GeneratorExp(self.compile(value, inner, moment), generators))
            case Filter(bound, condition):
                whole = self.fresh("l")
                test = self._predicate(bound, condition, scope, moment)
                called = py.call_of(test, py.name(whole))
                only = ast.comprehension(
                    py.target([whole], False), self._elements(bound, scope, moment), [called], 0
                )
                return py.call("frozenset", ast.GeneratorExp(py.name(whole), [only]))
            case Choose(bound, body):
                if bound.set is None:
                    what = "an unbounded CHOOSE cannot be evaluated: write `CHOOSE x \\in S`, or give the"
                    return py.call("fail", py.constant(f"{what} definition a value in the configuration"))
                test = self._predicate(bound, body, scope, moment)
                return py.call("choose", self.compile(bound.set, scope, moment), test)

    def _elements(self, bound: Bound, scope: Scope, moment: str) -> ast.expr:
        assert bound.set is not None
        return self._here(bound.span, py.call("elements", self.compile(bound.set, scope, moment)))

    def _predicate(self, bound: Bound, condition: Expression, scope: Scope, moment: str) -> ast.expr:
        """A condition as a function of the value that is bound."""
        inner, (codes,) = self.bind([bound], scope)
        test = py.function(codes, self.truth(condition, inner, moment))
        if not bound.of_tuple:
            return test
        whole = self.fresh("l")
        parts = [py.item(whole, at) for at in range(len(codes))]
        return py.function([whole], py.call_of(test, *parts))

    def _function(self, node: Function, scope: Scope, moment: str) -> ast.expr:
        inner, codes = self.bind(node.bounds, scope)
        is_recursive = node.name is not None and mentions(node.value, node.name)
        itself = self.fresh("l")
        if is_recursive:
            assert node.name is not None
            inner = inner.inside({node.name: Local(itself)})
            names = {name: inner.find(name) for bound in node.bounds for name in bound.names}
            inner.names.update((name, one) for name, one in names.items() if one is not None)
        value = self.compile(node.value, inner, moment)
        domain, compute = self._arguments(node.bounds, codes, value, scope, moment)
        if not is_recursive:
            return py.call("build", domain, compute)
        argument = self.fresh("l")
        curried = py.function([itself, argument], py.call_of(compute, py.name(argument)))
        return py.call("recursive", domain, curried)

    def _arguments(
        self, bounds: Sequence[Bound], codes: list[list[str]], value: ast.expr, scope: Scope, moment: str
    ) -> tuple[ast.expr, ast.expr]:
        """The domain of a function, and its value as a function of one argument."""
        factors: list[ast.expr] = []
        parts: list[ast.expr] = []
        whole = self.fresh("l")
        single = sum(1 if bound.of_tuple else len(bound.names) for bound in bounds) == 1
        for bound, its in zip(bounds, codes, strict=True):
            assert bound.set is not None
            for group in bound.groups(its):
                here = py.name(whole) if single else py.item(whole, len(factors))
                factors.append(self.compile(bound.set, scope, moment))
                if not bound.of_tuple:
                    parts.append(here)
                    continue
                parts.extend(ast.Subscript(here, py.constant(at), ast.Load()) for at in range(len(group)))
        names = [one for its in codes for one in its]
        compute = py.function([whole], py.call_of(py.function(names, value), *parts))
        return factors[0] if single else py.call("product", *factors), compute

    def _except(self, node: Except, scope: Scope, moment: str) -> ast.expr:
        result = self.compile(node.base, scope, moment)
        for update in node.updates:
            result = self._here(update.span, self._updated(result, update, scope, moment))
        return result

    def _updated(self, base: ast.expr, update: Update, scope: Scope, moment: str) -> ast.expr:
        before = self.fresh("l")
        inner = scope.inside({"@": Local(before)})
        path: list[ast.expr] = []
        for arguments in update.path:
            values = self._all(arguments, inner, moment)
            path.append(values[0] if len(values) == 1 else py.tuple_of(values))
        compute = py.function([before], self.compile(update.value, inner, moment))
        return py.call("changed", base, py.tuple_of(path), compute)

    # LET

    def _let(self, node: Let, scope: Scope, moment: str) -> ast.expr:
        inner, steps = self.let_scope(node, scope, moment)
        body = self.compile(node.body, inner, moment)
        for code, value in reversed(steps):
            body = py.call_of(py.function([code], body), value)
        return body

    def let_scope(
        self, node: Let, scope: Scope, moment: str, is_action: bool = False
    ) -> tuple[Scope, list[tuple[str, ast.expr]]]:
        """The scope in a LET, and what its names have to be bound to, in order."""
        inner = scope.inside({})
        steps: list[tuple[str, ast.expr]] = []
        recursive = {name for one in node.definitions for name in getattr(one, "names", ())}
        own = {one.name for one in node.definitions if isinstance(one, Operator)}
        moved = self.levels.moved(node.body, own, self.levels.with_definitions(node, scope))
        for one in node.definitions:
            match one:
                case Operator(name, parameters, body):
                    level = self.levels.of_binding(Defined(one, self.levels.with_definitions(node, scope)))
                    is_moved = level >= Level.ACTION or name in moved
                    if not parameters and is_moved and level:
                        inner.names[name] = ByName(body, _copy(inner))
                    elif (is_action and isinstance(body, Function)) or (parameters and is_moved):
                        itself = _copy(inner)
                        itself.names[name] = inner.names[name] = Defined(one, itself)
                    elif not parameters:
                        code = self.fresh("l")
                        value = self.compile(body, inner, moment)
                        steps.append((code, py.call("Lazy", py.function([], value))))
                        inner.names[name] = Local(code, lazy=True)
                    else:
                        code = self.fresh("o")
                        steps.append((code, self._local_operator(one, code, inner, name in recursive)))
                        inner.names[name] = LocalOperator(code)
                case _ if getattr(one, "module", None) is not None:
                    assert one.name is not None  # type: ignore[union-attr]
                    inner.names[one.name] = Named(one, inner)  # type: ignore[union-attr, arg-type]
        return inner, steps

    def _local_operator(self, one: Operator, code: str, scope: Scope, is_recursive: bool) -> ast.expr:
        itself = self.fresh("o")
        inner, codes = self.parameters(one, scope)
        if is_recursive or mentions(one.body, one.name):
            inner.names[one.name] = LocalOperator(itself)
        body = py.function([NOW, NEXT, *codes], self.compile(one.body, inner, NOW))
        if is_recursive or mentions(one.body, one.name):
            return py.call("fix", py.function([itself], body))
        return body


def _copy(scope: Scope) -> Scope:
    return Scope(dict(scope.names), scope.outer)
