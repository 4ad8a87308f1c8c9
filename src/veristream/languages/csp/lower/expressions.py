"""Expressions and programs during lowering: substitution, free names, and translation to the IR."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from veristream.ir import expr as ir
from veristream.ir.walk import walk
from veristream.languages.csp import syntax as csp
from veristream.source import Span

Values = Mapping[str, csp.Expr]
"""A substitution: numbers, other bound names or expressions for bound names."""

OUTSIDE = "outside"
"""A function that fails: an index is outside of an array that was passed or received."""

WHILE_LIMIT = 1_000_000
"""A loop with more iterations is a run-time error."""


def truncate(left: int, right: int) -> int:
    """Divides with truncation towards zero."""
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


_OPERATIONS: dict[csp.BinaryOp, Callable[[int, int], int]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": truncate,
    "%": lambda a, b: a % abs(b),
    "&": lambda a, b: a & b,
    "|": lambda a, b: a | b,
    "^": lambda a, b: a ^ b,
    "==": lambda a, b: int(a == b),
    "!=": lambda a, b: int(a != b),
    "<": lambda a, b: int(a < b),
    "<=": lambda a, b: int(a <= b),
    ">": lambda a, b: int(a > b),
    ">=": lambda a, b: int(a >= b),
    "&&": lambda a, b: int(bool(a) and bool(b)),
    "||": lambda a, b: int(bool(a) or bool(b)),
    "xor": lambda a, b: int(bool(a) != bool(b)),
}


def put_in(expr: csp.Expr, values: Values) -> csp.Expr:
    """Substitutes values for bound names and folds constants."""
    match expr:
        case csp.Number():
            return expr
        case csp.Bound(name=name):
            return values.get(name, expr)
        case csp.Global(indices=indices) | csp.Query(indices=indices):
            if not indices:
                return expr
            return replace(expr, indices=tuple(put_in(index, values) for index in indices))
        case csp.Unary(op=op, operand=operand):
            inner = put_in(operand, values)
            if isinstance(inner, csp.Number):
                number = {"-": -inner.value, "!": int(not inner.value), "~": ~inner.value}[op]
                return csp.Number(number, span=expr.span)
            return expr if inner is operand else csp.Unary(op, inner, span=expr.span)
        case csp.Binary(op=op, left=left, right=right):
            return _binary(expr, op, put_in(left, values), put_in(right, values))
        case csp.Pick(values=parts, index=index):
            return pick(tuple(put_in(part, values) for part in parts), put_in(index, values), expr.span)


def pick(values: tuple[csp.Expr, ...], index: csp.Expr, span: Span) -> csp.Expr:
    """Returns an element of an array; at once if its index is known and within bounds."""
    if isinstance(index, csp.Number) and 0 <= index.value < len(values):
        return values[index.value]
    return csp.Pick(values, index, span=span)


def _binary(expr: csp.Binary, op: csp.BinaryOp, left: csp.Expr, right: csp.Expr) -> csp.Expr:
    if isinstance(left, csp.Number):
        if op in ("&&", "||") and bool(left.value) == (op == "||"):
            return csp.Number(int(bool(left.value)), span=expr.span)  # short-circuit
        if isinstance(right, csp.Number) and not (op in ("/", "%") and right.value == 0):
            return csp.Number(_OPERATIONS[op](left.value, right.value), span=expr.span)
    if left is expr.left and right is expr.right:
        return expr
    return csp.Binary(op, left, right, span=expr.span)


def put_in_program(program: csp.Program, values: Values) -> csp.Program:
    """Substitutes values for bound names in a program."""
    return tuple(_put_in_statement(statement, values) for statement in program)


def _put_in_statement(statement: csp.Statement, values: Values) -> csp.Statement:
    match statement:
        case csp.Declare(value=value):
            return replace(statement, value=put_in(value, values))
        case csp.Assign(target=target, value=value, index=index):
            new = put_in(target, values) if isinstance(target, csp.Global) else target
            assert isinstance(new, csp.Global | csp.Bound)
            at = None if index is None else put_in(index, values)
            return replace(statement, target=new, value=put_in(value, values), index=at)
        case csp.If(condition=condition, then=then, otherwise=otherwise):
            test = put_in(condition, values)
            return replace(
                statement,
                condition=test,
                then=() if _is(test, False) else put_in_program(then, values),
                otherwise=() if _is(test, True) else put_in_program(otherwise, values),
            )
        case csp.While(condition=condition, body=body):
            test = put_in(condition, values)
            again = () if _is(test, False) else put_in_program(body, values)
            return replace(statement, condition=test, body=again)


def rename_locals(program: csp.Program, mark: str) -> csp.Program:
    """Appends a mark to the names of a program's local variables, so that another program may follow it."""
    declared = {node.name for node in walk(program) if isinstance(node, csp.Declare)}
    values = {name: csp.Bound(name + mark) for name in declared}
    return tuple(_rename_locals(statement, values) for statement in put_in_program(program, values))


def _rename_locals(statement: csp.Statement, values: Mapping[str, csp.Bound]) -> csp.Statement:
    """Renames what `put_in_program` leaves: declarations and targets."""
    match statement:
        case csp.Declare(name=name):
            return replace(statement, name=values[name].name)
        case csp.Assign(target=csp.Bound(name=name) as target) if name in values:
            return replace(statement, target=replace(target, name=values[name].name))
        case csp.If(then=then, otherwise=otherwise):
            parts = [tuple(_rename_locals(one, values) for one in part) for part in (then, otherwise)]
            return replace(statement, then=parts[0], otherwise=parts[1])
        case csp.While(body=body):
            return replace(statement, body=tuple(_rename_locals(one, values) for one in body))
        case _:
            return statement


def _is(condition: csp.Expr, truth: bool) -> bool:
    """Whether the condition is constant and has the truth value, so that one branch never runs."""
    return isinstance(condition, csp.Number) and bool(condition.value) == truth


def bound_names(expr: csp.Expr) -> Iterator[str]:
    """Yields the bound names of an expression in textual order."""
    match expr:
        case csp.Bound(name=name):
            yield name
        case csp.Global(indices=indices) | csp.Query(indices=indices):
            for index in indices:
                yield from bound_names(index)
        case csp.Unary(operand=operand):
            yield from bound_names(operand)
        case csp.Binary(left=left, right=right):
            yield from bound_names(left)
            yield from bound_names(right)
        case csp.Pick(values=values, index=index):
            for value in (index, *values):
                yield from bound_names(value)
        case csp.Number():
            return


def names_of_program(program: csp.Program) -> Iterator[str]:
    """Yields the bound names that a program uses but does not declare."""
    declared: set[str] = set()
    for statement in program:
        for name in _names_of_statement(statement):
            if name not in declared:
                yield name
        if isinstance(statement, csp.Declare):
            declared.add(statement.name)


def _names_of_statement(statement: csp.Statement) -> Iterator[str]:
    match statement:
        case csp.Declare(value=value):
            yield from bound_names(value)
        case csp.Assign(target=target, value=value, index=index):
            for part in (target, value, index):
                if part is not None:
                    yield from bound_names(part)
        case csp.If(condition=condition, then=then, otherwise=otherwise):
            yield from bound_names(condition)
            yield from names_of_program(then)
            yield from names_of_program(otherwise)
        case csp.While(condition=condition, body=body):
            yield from bound_names(condition)
            yield from names_of_program(body)


def reads_state(expr: csp.Expr) -> bool:
    """Whether the value depends on global variables or the contents of channels."""
    match expr:
        case csp.Number() | csp.Bound():
            return False
        case csp.Global() | csp.Query():
            return True
        case csp.Unary(operand=operand):
            return reads_state(operand)
        case csp.Binary(left=left, right=right):
            return reads_state(left) or reads_state(right)
        case csp.Pick(values=values, index=index):
            return any(map(reads_state, (index, *values)))


# --- Translation to the IR --------------------------------------------------------------------------

_SAME: dict[csp.BinaryOp, ir.BinaryOp] = {
    "+": "+",
    "-": "-",
    "*": "*",
    "/": "div",
    "%": "mod",
    "&": "&",
    "|": "|",
    "^": "^",
    "==": "==",
    "!=": "!=",
    "<": "<",
    "<=": "<=",
    ">": ">",
    ">=": ">=",
    "&&": "and",
    "||": "or",
}


class Translator:
    """Translates expressions and programs to the IR.

    `shapes` holds the shapes of the global variables, `capacities` those of the channels, and `bound` the
    meaning of each bound name: a slot of the component, a received field or a captured value.
    """

    def __init__(
        self,
        shapes: Mapping[str, tuple[int, ...]],
        capacities: Mapping[str, int],
        bound: Mapping[str, ir.Expr],
    ) -> None:
        self._shapes = shapes
        self._capacities = capacities
        self._bound = dict(bound)
        self._locals = 0

    def expr(self, expr: csp.Expr) -> ir.Expr:
        """Translates an expression."""
        match expr:
            case csp.Number(value=value):
                return ir.Const(value, expr.span)
            case csp.Bound(name=name):
                return replace(self._bound[name], span=expr.span)
            case csp.Global(name=name, indices=indices):
                return self._load(name, indices, expr)
            case csp.Query():
                return self._query(expr)
            case csp.Unary(op=op, operand=operand):
                word: ir.UnaryOp = "not" if op == "!" else op
                return ir.Unary(word, self.expr(operand), span=expr.span)
            case csp.Binary(op="xor", left=left, right=right):
                first, second = (ir.Unary("not", self.expr(side), span=expr.span) for side in (left, right))
                return ir.Binary("!=", first, second, span=expr.span)
            case csp.Binary(op="%", left=left, right=right) if not isinstance(right, csp.Number):
                by = self.expr(right)
                size = ir.Binary("max", by, ir.Unary("-", by), span=expr.span)
                return ir.Binary("mod", self.expr(left), size, span=expr.span)
            case csp.Binary(op=op, left=left, right=right):
                return ir.Binary(_SAME[op], self.expr(left), self.expr(right), span=expr.span)
            case csp.Pick(values=values, index=index):
                return self._pick([self.expr(value) for value in values], self.expr(index), expr.span)

    @staticmethod
    def _pick(values: list[ir.Expr], index: ir.Expr, span: Span) -> ir.Expr:
        result: ir.Expr = ir.Call(OUTSIDE, (), span=span)
        for position in reversed(range(len(values))):
            here = ir.Binary("==", index, ir.Const(position), span=span)
            result = ir.Conditional(here, values[position], result, span=span)
        return result

    def _load(self, name: str, indices: tuple[csp.Expr, ...], expr: csp.Global) -> ir.Load:
        shape = self._shapes[name]
        at = tuple(self.expr(index) for index in indices)
        if len(at) == 1 and len(shape) > 1:  # PAT stores every array flat
            at = unflatten(at[0], shape)
        return ir.Load(name, at, span=expr.span)

    def _query(self, expr: csp.Query) -> ir.Expr:
        indices = tuple(self.expr(index) for index in expr.indices)
        match expr.op:
            case "count":
                return ir.Queue("len", expr.channel, indices, span=expr.span)
            case "empty" | "full":
                return ir.Queue(expr.op, expr.channel, indices, span=expr.span)
            case "size":
                return ir.Const(self._capacities[expr.channel], expr.span)
            case "peek":
                return ir.Peek(expr.channel, ir.Const(0), 0, indices, span=expr.span)

    def program(self, program: csp.Program) -> ir.Block:
        """Translates a program; its local variables get unique names."""
        outer = dict(self._bound)
        block = tuple(self._statement(statement) for statement in program)
        self._bound = outer
        return block

    def _statement(self, statement: csp.Statement) -> ir.Statement:
        match statement:
            case csp.Declare(name=name, value=value, size=size):
                first = self.expr(value)
                self._locals += 1
                local = f"{name}_{self._locals}"
                self._bound[name] = ir.Local(local)
                return ir.Let(local, ir.INT, first, size, span=statement.span)
            case csp.Assign(target=target, value=value, index=index):
                place = self.expr(target)
                assert isinstance(place, ir.Load | ir.Local)
                if index is not None and isinstance(place, ir.Local):
                    place = replace(place, index=self.expr(index))
                return ir.Assign(place, self.expr(value), span=statement.span)
            case csp.If(condition=condition, then=then, otherwise=otherwise):
                return ir.If(
                    self.expr(condition), self.program(then), self.program(otherwise), span=statement.span
                )
            case csp.While(condition=condition, body=body):
                return ir.While(self.expr(condition), self.program(body), WHILE_LIMIT, span=statement.span)


def unflatten(index: ir.Expr, shape: tuple[int, ...]) -> tuple[ir.Expr, ...]:
    """Converts an index into the flattened array to one index per dimension."""
    out: list[ir.Expr] = []
    for size in reversed(shape[1:]):
        out.append(ir.Binary("rem", index, ir.Const(size)))  # stays negative, and so out of range
        index = ir.Binary("div", index, ir.Const(size))
    out.append(index)
    return tuple(reversed(out))
