"""Compiles uses of names to Python: variables, definitions, operators as arguments, parts of definitions.

Compiled code has two states at hand: `s`, and `t`, the one after the step. An expression is compiled for
one of them, its *moment*; a prime moves it to the other.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any, Final

from veristream.errors import ModelError
from veristream.languages.tla.code import python as py
from veristream.languages.tla.levels import Level, Levels
from veristream.languages.tla.scope import (
    Binding,
    Built,
    ByName,
    Constant,
    Defined,
    Linker,
    Local,
    LocalOperator,
    Scope,
    Undefined,
    Variable,
    check_count,
)
from veristream.languages.tla.syntax import (
    Boolean,
    Expression,
    Junction,
    Lambda,
    Number,
    Operator,
    Part,
    Previous,
    Prime,
    Quantifier,
    Record,
    SetOf,
    Square,
    Text,
    Tuple,
    Use,
)
from veristream.languages.tla.values.operations import RUNTIME, Lazy
from veristream.source import Span

NOW: Final = "s"
NEXT: Final = "t"
_DIRECT: Final = {
    "=": "equal", "\\in": "member", "\\cup": "union", "\\cap": "intersection", "\\": "difference",
    "\\subseteq": "is_subset", "SUBSET": "subsets", "UNION": "big_union", "DOMAIN": "domain",
    "+": "add", "-": "subtract", "*": "multiply", "<": "less", ">": "greater", "=<": "at_most",
    ">=": "at_least", "..": "interval",
}  # fmt: skip
"""Operators that compiled code calls by their name in the runtime."""
_IS_BOOLEAN: Final = (
    "=", "#", "\\in", "\\notin", "\\subseteq", "<", ">", "=<", ">=", "~", "=>", "<=>",
    "ENABLED", "UNCHANGED",
)  # fmt: skip


class NameCompiler:
    """Compiles the expressions of one specification; `globals` is what the compiled code runs in."""

    def __init__(self, linker: Linker) -> None:
        self.linker = linker
        self.levels = Levels(linker.resolve)
        self.places = py.Places()
        self.file = f"<specification {id(self)}>"
        self.globals: dict[str, Any] = dict(RUNTIME)
        self._count = 0
        self._functions: dict[tuple[object, ...], tuple[str, tuple[str, ...]]] = {}
        self._kept: list[object] = []  # so that no id is used again

    # Names

    def fresh(self, hint: str) -> str:
        self._count += 1
        return f"{hint}_{self._count}"

    def keep_global(self, value: object, hint: str) -> str:
        called = self.fresh(hint)
        self.globals[called] = value
        return called

    def run(self, statement: ast.stmt, called: str) -> None:
        """Adds a definition to the globals."""
        module = py.at_line(ast.Module([statement], []), 1)
        exec(compile(module, self.file, "exec"), self.globals)  # our own code
        assert called in self.globals

    # Entry points

    def function(self, expression: Expression, scope: Scope) -> Callable[..., Any]:
        """The expression as a function of two states."""
        called = self.fresh("e")
        body = self.compile(expression, scope, NOW)
        self.run(py.define(called, (NOW, NEXT), [ast.Return(body)]), called)
        compiled: Callable[..., Any] = self.globals[called]
        return compiled

    def truth(self, expression: Expression, scope: Scope, moment: str) -> ast.expr:
        """The expression where it must be TRUE or FALSE."""
        compiled = self.compile(expression, scope, moment)
        if _is_boolean(expression):
            return compiled
        return self._at(expression, py.call("boolean", compiled))

    def compile(self, expression: Expression, scope: Scope, moment: str) -> ast.expr:
        """The expression at a moment."""
        return self._at(expression, self._compile(expression, scope, moment))

    def _at(self, expression: Expression, compiled: ast.expr) -> ast.expr:
        return py.at_line(compiled, self.places.line(expression.span))

    def _all(self, items: Sequence[Expression], scope: Scope, moment: str) -> list[ast.expr]:
        return [self.compile(one, scope, moment) for one in items]

    def _compile(self, node: Expression, scope: Scope, moment: str) -> ast.expr:
        raise NotImplementedError

    def parameters(
        self, operator: Operator, scope: Scope, lazy: Sequence[bool] = ()
    ) -> tuple[Scope, list[str]]:
        """The scope of an operator's body, and the names of its parameters in the code."""
        inner, codes = scope.inside({}), list[str]()
        for at, parameter in enumerate(operator.parameters):
            code = self.fresh("o" if parameter.arity else "l")
            codes.append(code)
            is_lazy = bool(lazy) and lazy[at]
            inner.names[parameter.name] = LocalOperator(code) if parameter.arity else Local(code, is_lazy)
        return inner, codes

    # Uses of names

    def _use(self, node: Use, scope: Scope, moment: str) -> ast.expr:
        match node:
            case Use("UNION", (SetOf(items),)):  # whose elements may have no end
                return py.call("union_of", *self._all(items, scope, moment))
        if node.name in ("UNCHANGED", "ENABLED", "=>", "[]", "<>", "~>", "-+->", "\\cdot"):
            return self._special(node, scope, moment)
        binding = self.linker.resolve(node, scope)
        return self.use_of(binding, node, scope, moment)

    def _special(self, node: Use, scope: Scope, moment: str) -> ast.expr:
        match node.name, node.arguments:
            case "=>", (left, right):
                negated = ast.UnaryOp(ast.Not(), self.truth(left, scope, moment))
                return ast.BoolOp(ast.Or(), [negated, self.truth(right, scope, moment)])
            case "UNCHANGED", (operand,):
                after, before = self.compile(operand, scope, NEXT), self.compile(operand, scope, NOW)
                return py.call("equal", after, before)
            case "ENABLED", (operand,):
                return self.enabled(operand, scope, moment)
            case "\\cdot", _:
                raise ModelError("the composition of actions cannot be checked yet", node.span)
            case _:
                hint = "name it as a PROPERTY of the configuration, and it is checked on runs"
                raise ModelError("a formula about runs is no value of a state", node.span, hint)

    def enabled(self, action: Expression, scope: Scope, moment: str) -> ast.expr:
        raise NotImplementedError

    def use_of(self, binding: Binding, node: Use, scope: Scope, moment: str) -> ast.expr:
        match binding:
            case Defined():
                return self._call(binding, node, scope, moment)
            case Built(native=native):
                check_count(node.name, native.arity, len(node.arguments), node.span)
                return self._built(binding, node, scope, moment)
            case LocalOperator(code):
                return py.call(code, *self._moments(moment), *self._all(node.arguments, scope, moment))
            case ByName(expression, at):
                if not node.arguments:
                    return self.compile(expression, at, moment)
                return self._call_by_name(expression, at, node, scope, moment)
        if node.arguments:
            check_count(node.name, 0, len(node.arguments), node.span)
        return self._binding(binding, node.span, moment)

    def _call_by_name(
        self, expression: Expression, at: Scope, node: Use, scope: Scope, moment: str
    ) -> ast.expr:
        """An operator that another operator, or a LAMBDA, stands for."""
        match expression:
            case Use(name=name, arguments=()):
                inner = self.linker.resolve(expression, at)
                return self.use_of(inner, Use(name, node.arguments, span=node.span), scope, moment)
            case Lambda(names, body):
                check_count("LAMBDA", len(names), len(node.arguments), node.span)
                bound: dict[str, Binding] = {
                    name: ByName(argument, scope)
                    for name, argument in zip(names, node.arguments, strict=True)
                }
                return self.compile(body, at.inside(bound), moment)
            case _:
                raise ModelError(f"{node.name} is no operator that takes arguments", node.span)

    def _moments(self, moment: str) -> tuple[ast.expr, ast.expr]:
        if moment == NOW:
            return py.name(NOW), py.name(NEXT)
        return py.name(NEXT), py.constant(None)

    def _binding(self, binding: Binding | None, span: Span, moment: str) -> ast.expr:
        match binding:
            case Variable(name, place):
                return self.variable(name, place, moment)
            case Constant(value):
                if isinstance(value, int | str):
                    return py.constant(value)
                return py.name(self.keep_global(value, "c"))
            case Local(code, lazy):
                return py.call(code) if lazy else py.name(code)
            case ByName(expression, scope):
                return self.compile(expression, scope, moment)
            case Undefined(parameter):
                hint = f"give it a value in the configuration: CONSTANT {parameter.name} = ..."
                raise ModelError(f"the constant {parameter.name} has no value", span, hint)
            case _:
                raise ModelError("this is no value", span)

    def variable(self, name: str, place: int, moment: str) -> ast.expr:
        if moment == NEXT:
            return py.call("assigned", py.name(NEXT), py.constant(place), py.constant(f"{name}'"))
        return py.item(moment, place)

    def _built(self, binding: Built, node: Use, scope: Scope, moment: str) -> ast.expr:
        native, values = binding.native, list[ast.expr]()
        for at, argument in enumerate(node.arguments):
            if at in native.operators:
                values.append(self.operator_value(argument, scope, moment, arity=None))
            else:
                values.append(self.compile(argument, scope, moment))
        if binding.name in _DIRECT:
            return py.call(_DIRECT[binding.name], *values)
        key = (binding.name, id(native))
        if key not in self._functions:
            self._functions[key] = self.keep_global(native.compute, "n"), ()
        return py.call(self._functions[key][0], *values)

    def operator_value(
        self, argument: Expression, scope: Scope, moment: str, arity: int | None
    ) -> ast.expr:
        """An operator as a Python function: of two states and values; for a native operator, of values."""
        states = () if arity is None else (NOW, NEXT)
        if isinstance(argument, Lambda):
            codes = [self.fresh("l") for _ in argument.parameters]
            inner = scope.inside(
                {name: Local(code) for name, code in zip(argument.parameters, codes, strict=True)}
            )
            at = moment if arity is None else NOW
            return py.function([*states, *codes], self.compile(argument.body, inner, at))
        if not isinstance(argument, Use) or argument.arguments:
            raise ModelError("an operator is expected here", argument.span, "name one, or write LAMBDA")
        binding = self.linker.resolve(argument, scope)
        takes = self._arity(binding, arity or 1)
        codes = [self.fresh("l") for _ in range(takes)]
        names = [f"\0{code}" for code in codes]
        inner = scope.inside({name: Local(code) for name, code in zip(names, codes, strict=True)})
        use = Use(argument.name, tuple(map(Use, names)), span=argument.span)
        at = moment if arity is None else NOW
        return py.function([*states, *codes], self.use_of(binding, use, inner, at))

    def _arity(self, binding: Binding, otherwise: int) -> int:
        match binding:
            case Defined(operator):
                return len(operator.parameters)
            case Built(native=native):
                return native.arity
            case ByName(Lambda(names)):
                return len(names)
            case ByName(Use() as use, scope):
                return self._arity(self.linker.resolve(use, scope), otherwise)
            case _:
                return otherwise

    def _call(self, defined: Defined, node: Use, scope: Scope, moment: str) -> ast.expr:
        operator = defined.operator
        check_count(operator.name, len(operator.parameters), len(node.arguments), node.span)
        if not operator.parameters:
            if self.levels.of_binding(defined) is Level.CONSTANT:
                return self._constant(defined)
            return self._defined(defined, (), moment, ())
        if self.must_inline(defined, node, scope):
            return self.compile(operator.body, self.inlined(defined, node, scope), moment)
        values: list[ast.expr] = []
        lazy: list[bool] = []
        for parameter, argument in zip(operator.parameters, node.arguments, strict=True):
            if parameter.arity:
                values.append(self.operator_value(argument, scope, moment, parameter.arity))
                lazy.append(False)
                continue
            value = self.compile(argument, scope, moment)
            lazy.append(not self._is_total(argument, scope))
            values.append(py.call("Lazy", py.function([], value)) if lazy[-1] else value)
        return self._defined(defined, tuple(lazy), moment, values)

    def must_inline(self, defined: Defined, node: Use, scope: Scope) -> bool:
        """Whether expressions must stand for the parameters, since they are used in another state."""
        primed = self.levels.primed(defined.operator, defined.scope)
        pairs = zip(defined.operator.parameters, node.arguments, strict=True)
        return any(
            parameter.name in primed and self.levels.level(argument, scope) >= Level.STATE
            for parameter, argument in pairs
        )

    def inlined(self, defined: Defined, node: Use, scope: Scope) -> Scope:
        """The scope of an operator's body in which expressions stand for its parameters."""
        pairs = zip(defined.operator.parameters, node.arguments, strict=True)
        return defined.scope.inside({one.name: ByName(argument, scope) for one, argument in pairs})

    def _is_total(self, argument: Expression, scope: Scope) -> bool:
        """Whether an argument may be evaluated although nobody may need it: it is cheap and has a value."""
        match argument:
            case Number() | Text() | Boolean() | Previous():
                return True
            case Use(arguments=(), prefix=()):
                binding = scope.find(argument.name)
                return isinstance(binding, Variable | Constant) or (
                    isinstance(binding, Local) and not binding.lazy
                )
            case Use(name="+" | "-", arguments=arguments):
                return all(self._is_total(one, scope) for one in arguments)
            case Tuple(items):
                return all(self._is_total(one, scope) for one in items)
            case Record(fields):
                return all(self._is_total(one, scope) for _, one in fields)
            case _:
                return False

    def _constant(self, defined: Defined) -> ast.expr:
        """A definition whose value is the same in all states: computed once."""
        key = (id(defined.operator), id(defined.scope), "constant")
        if key not in self._functions:
            self._kept.append(defined)
            body = self.compile(defined.operator.body, defined.scope, NOW)
            if py.free_names(body):
                return body
            inner = self.fresh("f")
            called = self.fresh(_python_name(defined.operator.name))
            self._functions[key] = called, ()
            self.run(py.define(inner, (NOW, NEXT), [ast.Return(body)]), inner)
            compute = self.globals[inner]
            self.globals[called] = Lazy(lambda: compute(None, None))
        return py.call(self._functions[key][0])

    def _defined(
        self, defined: Defined, lazy: tuple[bool, ...], moment: str, values: Sequence[ast.expr]
    ) -> ast.expr:
        """A call of a definition; which of its arguments are evaluated only if needed is given.

        What its body uses of the code around it gets to it as further arguments.
        """
        key = (id(defined.operator), id(defined.scope), lazy)
        if key not in self._functions:
            called = self.fresh(_python_name(defined.operator.name))
            self._functions[key] = called, ()
            self._kept.append(defined)
            inner, codes = self.parameters(defined.operator, defined.scope, lazy)
            body: ast.expr = py.constant(None)

            def emit() -> list[ast.expr]:
                nonlocal body
                body = self.compile(defined.operator.body, inner, NOW)
                return [body]

            free = self.settle(key, codes, emit)
            self.run(py.define(called, (NOW, NEXT, *codes, *free), [ast.Return(body)]), called)
        called, free = self._functions[key]
        return py.call(called, *self._moments(moment), *values, *map(py.name, free))

    def settle(
        self, key: tuple[object, ...], codes: Sequence[str], emit: Callable[[], Sequence[ast.AST]]
    ) -> tuple[str, ...]:
        """Compiles a definition until it is known what it uses of the code around it; returns that.

        A recursive definition has to give it to itself.
        """
        called, free = self._functions[key]
        while True:
            found = tuple(one for one in py.free_names(*emit()) if one not in codes)
            if set(found) <= set(free):
                return free
            free = found
            self._functions[key] = called, free

    def part(self, node: Part, scope: Scope) -> tuple[Expression, Scope]:
        """A part of a definition's body, and the scope that it is in."""
        binding = self.linker.resolve(node.of, scope)
        while isinstance(binding, ByName) and isinstance(binding.expression, Use):
            binding = self.linker.resolve(binding.expression, binding.scope)
        if not isinstance(binding, Defined):
            raise ModelError(f"{node.of.name} is no definition", node.span)
        check_count(node.of.name, len(binding.operator.parameters), len(node.of.arguments), node.of.span)
        expression, at = binding.operator.body, self.inlined(binding, node.of, scope)
        for number in node.path:
            items: tuple[Expression, ...] = ()
            match expression:
                case Junction(items=found) | Use(arguments=found) | SetOf(items=found):
                    items = found
            if not 1 <= number <= len(items):
                raise ModelError(f"{node.of.name} has no part {number} here", node.span)
            expression = items[number - 1]
        return expression, at


def _python_name(name: str) -> str:
    return name if name.isidentifier() and name.isascii() else "op"


def _is_boolean(expression: Expression) -> bool:
    match expression:
        case Junction() | Quantifier() | Boolean() | Square():
            return True
        case Use(name=name):
            return name in _IS_BOOLEAN
        case Prime(operand):
            return _is_boolean(operand)
        case _:
            return False
