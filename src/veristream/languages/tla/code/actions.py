"""Compiles actions to Python: functions that call `k` for each way in which the action can be taken.

A conjunction is taken apart from left to right; the first conjunct that fixes the next value of a variable
assigns it, later ones test it. Initial predicates are compiled in the same way, with variables in the place
of primed ones.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, Final

from veristream.languages.tla.code import python as py
from veristream.languages.tla.code.expressions import ExpressionCompiler
from veristream.languages.tla.code.names import NEXT, NOW
from veristream.languages.tla.levels import SPECIAL, TEMPORAL, Level
from veristream.languages.tla.scope import ByName, Defined, Linker, Scope, Variable, check_count
from veristream.languages.tla.syntax import (
    Apply,
    Case,
    Expression,
    Function,
    If,
    Junction,
    Lambda,
    Let,
    Operator,
    Parameter,
    Part,
    Prime,
    Quantifier,
    Square,
    Tuple,
    Use,
)

Rest = Callable[[], list[ast.stmt]]
"""Emits what happens once an action has been taken so far."""

DEEPEST: Final = 12
"""So many blocks may be inside each other; Python allows 20."""


_NO_DEFINITION: Final = (*SPECIAL, *TEMPORAL, "UNCHANGED", "ENABLED")


class Mode(Enum):
    """What an action assigns."""

    INIT = NOW
    NEXT = NEXT


class ActionCompiler(ExpressionCompiler):
    """Compiles actions and initial predicates."""

    def __init__(self, linker: Linker) -> None:
        super().__init__(linker)
        self._mode = Mode.NEXT
        self._depth = 0
        self._operators: dict[int, Operator] = {}  # of functions that are taken apart

    def action(self, expression: Expression, scope: Scope, mode: Mode) -> Callable[..., Any]:
        """The action as a function of two states and of what to call when it is taken."""
        called = self.fresh("a")
        free, body = self._whole(expression, scope, mode)
        assert not free
        self.run(py.define(called, (NOW, NEXT, "k"), body), called)
        compiled: Callable[..., Any] = self.globals[called]
        return compiled

    def _whole(
        self, expression: Expression, scope: Scope, mode: Mode
    ) -> tuple[tuple[str, ...], list[ast.stmt]]:
        before, self._mode, self._depth = (self._mode, self._depth), mode, 0
        try:
            body = self._act(expression, scope, lambda: [ast.Expr(py.call("k"))])
        finally:
            self._mode, self._depth = before
        return py.free_names(*body), body

    def enabled(self, action: Expression, scope: Scope, moment: str) -> ast.expr:
        free, body = self._whole(action, scope, Mode.NEXT)
        called = self.fresh("a")
        self.run(py.define(called, (NOW, NEXT, "k", *free), body), called)
        given = (py.name(one) for one in (NOW, NEXT, "k", *free))
        compiled = py.function((NOW, NEXT, "k"), py.call(called, *given))
        count = py.constant(len(self.linker.variables))
        return py.call("enabled", count, self._moments(moment)[0], compiled)

    def variable(self, name: str, place: int, moment: str) -> ast.expr:
        if self._mode is Mode.INIT and moment == NOW:
            return py.call("assigned", py.name(NOW), py.constant(place), py.constant(name))
        return super().variable(name, place, moment)

    # Statements

    def _act(self, node: Expression, scope: Scope, rest: Rest) -> list[ast.stmt]:
        """The statements of an action, and of the rest after it."""
        if self._depth >= DEEPEST:
            return self._deeper(node, scope, rest)
        self._depth += 1
        try:
            made = self._statements(node, scope, rest)
        finally:
            self._depth -= 1
        line = self.places.line(node.span)
        return [py.at_line(one, line) for one in made]

    def _deeper(self, node: Expression, scope: Scope, rest: Rest) -> list[ast.stmt]:
        called, depth = self.fresh("k"), self._depth
        self._depth = 0
        try:
            body = self._act(node, scope, rest)
        finally:
            self._depth = depth
        return [py.define(called, (), body), ast.Expr(py.call(called))]

    def _statements(self, node: Expression, scope: Scope, rest: Rest) -> list[ast.stmt]:
        match node:
            case Junction("/\\", items):
                return self._sequence(items, scope, rest)
            case Junction("\\/", items):
                before, again = self._shared(rest)
                return before + [one for item in items for one in self._act(item, scope, again)]
            case _ if not self._is_taken_apart(node, scope):
                return self._predicate_statements(node, scope, rest)
            case Quantifier("\\E"):
                return self._some(node, scope, rest)
            case Quantifier("\\A"):
                return self._every(node, scope, rest)
            case If(condition, yes, no):
                before, again = self._shared(rest)
                branches = (self._act(yes, scope, again), self._act(no, scope, again))
                return [*before, ast.If(self.truth(condition, scope, NOW), *branches)]
            case Case():
                return self._cases(node, scope, rest)
            case Let():
                inner, steps = self.let_scope(node, scope, NOW, is_action=True)
                made: list[ast.stmt] = [
                    ast.Assign([ast.Name(code, ast.Store())], value) for code, value in steps
                ]
                return made + self._act(node.body, inner, rest)
            case Part():
                inner_node, at = self.part(node, scope)
                return self._act(inner_node, at, rest)
            case Square(action, subscript, angle) if self._mode is Mode.NEXT:
                return self._square_action(action, subscript, angle, scope, rest)
            case Use():
                return self._use_action(node, scope, rest)
            case Apply():
                return self._applied(node, scope, rest)
            case _:
                return self._predicate_statements(node, scope, rest)

    def _applied(self, node: Apply, scope: Scope, rest: Rest) -> list[ast.stmt]:
        """As in TLC, a function that a definition gives is taken apart where it is applied."""
        found = self.levels.applied(node, scope)
        if found is None:
            return self._predicate_statements(node, scope, rest)
        function, at = found
        if id(function) not in self._operators:
            names = [name for bound in function.bounds for name in bound.names]
            parameters = tuple(map(Parameter, names))
            name = function.name or "function"
            self._operators[id(function)] = Operator(name, parameters, function.value, span=function.span)
        operator = self._operators[id(function)]
        use = Use(operator.name, node.arguments, span=node.span)
        return [
            self._in_domain(function, at, node, scope),
            *self._call_action(Defined(operator, at), use, scope, rest),
        ]

    def _in_domain(self, function: Function, at: Scope, node: Apply, scope: Scope) -> ast.stmt:
        """Fails where a function is applied outside of its domain."""
        sets = [
            self.compile(bound.set, at, NOW) for bound in function.bounds for _ in bound.names if bound.set
        ]
        values = [self.compile(one, scope, NOW) for one in node.arguments]
        return ast.Expr(py.call("check_domain", py.tuple_of(sets), py.tuple_of(values)))

    def _is_taken_apart(self, node: Expression, scope: Scope) -> bool:
        """Whether an action may assign a variable in this expression, or be taken in several ways.

        As in TLC, a disjunction or an existential quantifier gives a step for each way in which it is true.
        """
        least = Level.STATE if self._mode is Mode.INIT else Level.ACTION
        return self.levels.level(node, scope) >= least or self.levels.branches(node, scope)

    def _when(self, test: ast.expr, rest: Rest) -> list[ast.stmt]:
        return [ast.If(test, rest() or [ast.Pass()], [])]

    def _predicate_statements(self, node: Expression, scope: Scope, rest: Rest) -> list[ast.stmt]:
        return self._when(self.truth(node, scope, NOW), rest)

    def _sequence(self, items: Sequence[Expression], scope: Scope, rest: Rest) -> list[ast.stmt]:
        if not items:
            return rest()
        return self._act(items[0], scope, lambda: self._sequence(items[1:], scope, rest))

    def _shared(self, rest: Rest) -> tuple[list[ast.stmt], Rest]:
        """The rest as a function, so that several branches can go on with it."""
        called, depth = self.fresh("k"), self._depth
        self._depth = 0
        try:
            body = rest()
        finally:
            self._depth = depth
        if len(body) == 1 and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Call):
            only = body[0].value
            if isinstance(only.func, ast.Name) and not only.args:
                again = only.func.id
                return [], lambda: [ast.Expr(py.call(again))]
        return [py.define(called, (), body)], lambda: [ast.Expr(py.call(called))]

    def _some(
        self,
        node: Quantifier,
        scope: Scope,
        rest: Rest,
        emit: Callable[[Expression, Scope], list[ast.stmt]] | None = None,
    ) -> list[ast.stmt]:
        before, again = self._shared(rest) if emit is None else ([], rest)
        inner, codes = self.bind(node.bounds, scope)
        groups = [
            (bound, group)
            for bound, its in zip(node.bounds, codes, strict=True)
            for group in bound.groups(its)
        ]

        def loops(at: int) -> list[ast.stmt]:
            if at == len(groups):
                return self._act(node.body, inner, again) if emit is None else emit(node.body, inner)
            bound, group = groups[at]
            to = py.target(group, bound.of_tuple)
            self._depth += 1
            try:
                return [py.loop(to, self.over(bound, scope, NOW, "ordered"), loops(at + 1) or [ast.Pass()])]
            finally:
                self._depth -= 1

        return before + loops(0)

    def _every(self, node: Quantifier, scope: Scope, rest: Rest) -> list[ast.stmt]:
        """A conjunction of one action for each element: each calls the next."""
        before, again = self._shared(rest)
        inner, codes = self.bind(node.bounds, scope)
        generators: list[ast.comprehension] = []
        for bound, its in zip(node.bounds, codes, strict=True):
            for group in bound.groups(its):
                to = py.target(group, bound.of_tuple)
                generators.append(ast.comprehension(to, self.over(bound, scope, NOW, "ordered"), [], 0))
        names = [one for its in codes for one in its]
        items, step, at = self.fresh("l"), self.fresh("k"), self.fresh("l")
        listed = ast.ListComp(py.tuple_of([py.name(one) for one in names]), generators)
        following = ast.BinOp(py.name(at), ast.Add(), py.constant(1))
        on = ast.Expr(py.call(step, following))
        self._depth, depth = 0, self._depth
        try:
            body = self._act(node.body, inner, lambda: [on])
        finally:
            self._depth = depth
        item = ast.Subscript(py.name(items), py.name(at), ast.Load())
        unpack: ast.stmt = ast.Assign([py.target(names, True)], item)
        is_done = ast.Compare(py.name(at), [ast.Eq()], [py.call("len", py.name(items))])
        return [
            *before,
            ast.Assign([ast.Name(items, ast.Store())], listed),
            py.define(step, (at,), [ast.If(is_done, again(), [unpack, *body])]),
            ast.Expr(py.call(step, py.constant(0))),
        ]

    def _cases(self, node: Case, scope: Scope, rest: Rest) -> list[ast.stmt]:
        before, again = self._shared(rest)
        last: list[ast.stmt] = [ast.Expr(py.call("no_case"))]
        if node.other is not None:
            last = self._act(node.other, scope, again)
        for condition, value in reversed(node.arms):
            last = [ast.If(self.truth(condition, scope, NOW), self._act(value, scope, again), last)]
        return before + last

    def _square_action(
        self, action: Expression, subscript: Expression, angle: bool, scope: Scope, rest: Rest
    ) -> list[ast.stmt]:
        if angle:

            def differs() -> list[ast.stmt]:
                after = self.compile(subscript, scope, NEXT)
                same = py.call("equal", after, self.compile(subscript, scope, NOW))
                return self._when(ast.UnaryOp(ast.Not(), same), rest)

            return self._act(action, scope, differs)
        before, again = self._shared(rest)
        taken = self._act(action, scope, again)
        return before + taken + self._unchanged(subscript, scope, again)

    def _unchanged(self, node: Expression, scope: Scope, rest: Rest) -> list[ast.stmt]:
        places = self._variables(node, scope)
        if places is None:
            after, now = self.compile(node, scope, NEXT), self.compile(node, scope, NOW)
            return self._when(py.call("equal", after, now), rest)
        listed = py.constant(tuple(dict.fromkeys(places)))
        kept = py.call("keep", py.name(NOW), py.name(NEXT), listed)
        return [py.loop(ast.Name("_", ast.Store()), kept, rest() or [ast.Pass()])]

    def _variables(self, node: Expression, scope: Scope) -> list[int] | None:
        """The places of the variables of a tuple; None if it is of anything else."""
        match node:
            case Tuple(items):
                parts = [self._variables(one, scope) for one in items]
                if any(one is None for one in parts):
                    return None
                return [place for one in parts if one is not None for place in one]
            case Use(arguments=()):
                match self.linker.resolve(node, scope):
                    case Variable(place=place):
                        return [place]
                    case ByName(expression, at):
                        return self._variables(expression, at)
                    case Defined(operator, at) if not operator.parameters:
                        return self._variables(operator.body, at)
        return None

    def _variable(self, node: Expression, scope: Scope) -> Variable | None:
        """The variable that an expression is, maybe under another name."""
        if not isinstance(node, Use) or node.arguments:
            return None
        match self.linker.resolve(node, scope):
            case Variable() as variable:
                return variable
            case ByName(expression, at):
                return self._variable(expression, at)
            case Defined(operator, at) if not operator.parameters:
                return self._variable(operator.body, at)
        return None

    def _assigned(self, node: Expression, scope: Scope) -> Variable | None:
        """The variable whose value a conjunct with this left side fixes."""
        if self._mode is Mode.INIT:
            return self._variable(node, scope)
        match node:
            case Prime(operand):
                return self._variable(operand, scope)
            case Use(arguments=()):
                match self.linker.resolve(node, scope):
                    case ByName(expression, at):
                        return self._assigned(expression, at)
        return None

    def _use_action(self, node: Use, scope: Scope, rest: Rest) -> list[ast.stmt]:
        match node:
            case Use("=" | "\\in", (left, right)):
                variable = self._assigned(left, scope)
                if variable is not None:
                    kind = "assign" if node.name == "=" else "assign_each"
                    place = py.constant(variable.place)
                    value = self.compile(right, scope, NOW)
                    over = py.call(kind, py.name(self._mode.value), place, value)
                    return [py.loop(ast.Name("_", ast.Store()), over, rest() or [ast.Pass()])]
            case Use("UNCHANGED", (operand,)) if self._mode is Mode.NEXT:
                return self._unchanged(operand, scope, rest)
            case Use("=>", (premise, conclusion)):
                before, again = self._shared(rest)
                test = self.truth(premise, scope, NOW)
                return [*before, ast.If(test, self._act(conclusion, scope, again), again())]
        if node.name in ("ENABLED", "\\cdot"):
            return self._predicate_statements(node, scope, rest)
        match self.linker.resolve(node, scope):
            case Defined() as defined:
                return self._call_action(defined, node, scope, rest)
            case ByName(expression, at) if not node.arguments:
                return self._act(expression, at, rest)
            case ByName(Use(name=name, arguments=(), prefix=prefix), at):
                names = {f"\0{number}": ByName(one, scope) for number, one in enumerate(node.arguments)}
                arguments = tuple(Use(one, span=node.span) for one in names)
                use = Use(name, arguments, prefix, span=node.span)
                return self._act(use, at.inside(names), rest)
            case _:
                return self._predicate_statements(node, scope, rest)

    def _call_action(self, defined: Defined, node: Use, scope: Scope, rest: Rest) -> list[ast.stmt]:
        operator = defined.operator
        check_count(operator.name, len(operator.parameters), len(node.arguments), node.span)
        is_primed = any(self.levels.level(one, scope) >= Level.ACTION for one in node.arguments)
        if is_primed or self.must_inline(defined, node, scope):
            return self._act(operator.body, self.inlined(defined, node, scope), rest)
        called, free = self._action_function(operator, defined.scope)
        values = [
            self.operator_value(argument, scope, NOW, parameter.arity)
            if parameter.arity
            else py.call("Lazy", py.function([], self.compile(argument, scope, NOW)))
            for parameter, argument in zip(operator.parameters, node.arguments, strict=True)
        ]
        before, again = self._shared(rest)
        (on,) = again()
        assert isinstance(on, ast.Expr)
        assert isinstance(on.value, ast.Call)
        given = (py.name(NOW), py.name(NEXT), on.value.func, *values, *map(py.name, free))
        return [*before, ast.Expr(py.call(called, *given))]

    def _action_function(self, operator: Operator, scope: Scope) -> tuple[str, tuple[str, ...]]:
        """The function of an action with parameters; all of them are evaluated when they are needed."""
        key = (id(operator), id(scope), self._mode)
        if key not in self._functions:
            called = self.fresh("action")
            self._functions[key] = called, ()
            self._kept += (operator, scope)
            inner, codes = self.parameters(operator, scope, [True] * len(operator.parameters))
            body: list[ast.stmt] = []

            def emit() -> list[ast.stmt]:
                nonlocal body
                body = self._whole(operator.body, inner, self._mode)[1]
                return body

            free = self.settle(key, codes, emit)
            self.run(py.define(called, (NOW, NEXT, "k", *codes, *free), body), called)
        return self._functions[key]

    # Names of actions

    def named_action(self, expression: Expression, scope: Scope) -> Callable[..., Any]:
        """The action as a function that tells which definition gives each step.

        The action is taken apart at its disjunctions, quantifiers and definitions; what is left of it has
        the name of the definition around it, and the arguments of that.
        """
        called = self.fresh("a")
        self._mode, self._depth = Mode.NEXT, 0
        self.run(py.define(called, (NOW, NEXT, "k"), self._named(expression, scope, None)), called)
        compiled: Callable[..., Any] = self.globals[called]
        return compiled

    def _named(self, node: Expression, scope: Scope, label: tuple[Use, Scope] | None) -> list[ast.stmt]:
        match node:
            case Junction("\\/", items):
                return [one for item in items for one in self._named(item, scope, label)]
            case Quantifier("\\E"):
                return self._some(node, scope, list, lambda body, at: self._named(body, at, label))
            case Use():
                binding = self.linker.resolve(node, scope) if node.name not in _NO_DEFINITION else None
                match binding:
                    case Defined(operator, at) if self.levels.of_binding(binding) is Level.ACTION:
                        if len(operator.parameters) == len(node.arguments):
                            return self._named(
                                operator.body, self.inlined(binding, node, scope), (node, scope)
                            )
                    case ByName(expression, at) if not node.arguments:
                        return self._named(expression, at, label)
        return self._act(node, scope, lambda: [ast.Expr(py.call("k", self._label(label)))])

    def _label(self, label: tuple[Use, Scope] | None) -> ast.expr:
        if label is None:
            return py.constant("Next")
        use, scope = label
        values = [self.compile(one, scope, NOW) for one in use.arguments if not isinstance(one, Lambda)]
        return py.call("label", py.constant(use.name), *values)
