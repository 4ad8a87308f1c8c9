"""Collections in expressions: iteration, length, comprehensions."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass

from veristream.ir.expr import Binary, Conditional, Const, Expr, Fold, FoldOp, Local
from veristream.languages.actions.lower import values
from veristream.languages.actions.lower.convert import (
    compile_condition,
    compile_number,
    compile_open,
    compile_value,
    describe_value,
    element_of,
    shifted,
)
from veristream.languages.actions.read import types
from veristream.languages.actions.read.constants import constant_value, is_constant


@dataclass(frozen=True, slots=True)
class Domain:
    """The domain of a loop: counters low..high, a filter on them, and the element of each."""

    low: int
    high: int
    element: Callable[[Expr], values.Value]
    counts: Callable[[Expr], Expr] | None = None  # the filter; None accepts all counters
    repeats: bool = False  # whether an element may occur twice


def static_domain(node: ast.expr, scope: values.Scope) -> Domain | None:
    """Returns the domain of a role, an enum or a range of constants; None for other expressions."""
    module = scope.module
    match node:
        case ast.Call(func=ast.Name(id="range"), args=arguments, keywords=keywords):
            if keywords or not 1 <= len(arguments) <= 2:
                raise module.text.error(
                    node, "range takes one or two numbers here", "write range(low, end)"
                )
            if len(arguments) == 1 and _length_argument(arguments[0], scope) is not None:
                return None
            bounds = [_bound(argument, scope) for argument in arguments]
            low, end = (0, bounds[0]) if len(bounds) == 1 else bounds
            return _numbers(low, end)
        case ast.Name(id=name) if name in module.roles:
            role = module.roles[name].scalar
            return Domain(0, role.high, lambda counter: values.Plain(role, counter))
        case ast.Name(id=name) if name in module.enums:
            enum = module.enum(name)
            return Domain(0, enum.high, lambda counter: values.Plain(enum, counter))
        case _:
            return None


def _bound(node: ast.expr, scope: values.Scope) -> int:
    if not is_constant(node, scope.module):
        raise scope.module.text.error(
            node, "this loop has no fixed bound", "range(...) takes constants, or len(...) of a sequence"
        )
    return int(constant_value(node, scope.module))


def _numbers(low: int, end: int) -> Domain:
    if low >= end:
        return Domain(
            low, low, lambda counter: values.Plain(types.Scalar(low, low), counter), lambda _: Const(0)
        )
    return Domain(low, end - 1, lambda counter: values.Plain(types.Scalar(low, end - 1), counter))


def _length_argument(node: ast.expr, scope: values.Scope) -> values.Value | None:
    """Returns the sequence of `len(queue)`; None for other expressions."""
    match node:
        case ast.Call(func=ast.Name(id="len"), args=[inner], keywords=[]):
            if is_constant(node, scope.module):
                return None
            value = compile_open(inner, scope)
            if not isinstance(value, values.Listed) and isinstance(value.shape, types.SeqOf):
                return value
    return None


def range_of_length(node: ast.expr, scope: values.Scope) -> tuple[int, Expr] | None:
    """Returns the sequence's bound and length of `range(len(queue))`; None for other expressions."""
    match node:
        case ast.Call(func=ast.Name(id="range"), args=[argument], keywords=[]):
            sequence = _length_argument(argument, scope)
            if sequence is not None:
                assert isinstance(sequence.shape, types.SeqOf)
                return sequence.shape.bound, values.length_of(sequence)
    return None


def numbers_below(bound: int, length: Expr) -> Domain:
    """Returns the domain of the numbers below a length, which is at most the bound."""
    numbers = types.Scalar(0, bound - 1)
    return Domain(0, bound - 1, lambda c: values.Plain(numbers, c), lambda c: Binary("<", c, length))


def domain_of(node: ast.expr, scope: values.Scope) -> Domain:
    """Returns the domain of an expression after `in`."""
    static = static_domain(node, scope)
    if static is not None:
        return static
    limited = range_of_length(node, scope)
    if limited is not None:
        return numbers_below(*limited)
    return domain_of_value(collection_in(node, scope))


def collection_in(node: ast.expr, scope: values.Scope) -> values.Value:
    """Compiles an expression to a set, sequence, bag or map."""
    value = compile_open(node, scope)
    if not isinstance(value, values.Listed) and isinstance(
        value.shape, types.SetOf | types.SeqOf | types.MapOf
    ):
        return value
    raise scope.module.text.error(
        node,
        f"{describe_value(value)} is not iterable",
        "loop over range(...), a role, an enum, a set, a sequence, a bag or a map's keys",
    )


def domain_of_value(value: values.Value) -> Domain:
    """Returns the domain of a set, sequence, bag or map."""
    match value.shape:
        case types.SetOf(item=item):
            mask = values.scalar(value)
            return Domain(
                item.low, item.high, lambda c: values.Plain(item, c), lambda c: has_bit(mask, item, c)
            )
        case types.SeqOf(bound=bound) if isinstance(value, values.Stored):
            stored, length = value, values.length_of(value)
            return Domain(
                0,
                bound - 1,
                lambda c: values.item_at(stored, c),
                lambda c: Binary("<", c, length),
                repeats=True,
            )
        case types.MapOf(key=key):
            return Domain(key.low, key.high, lambda c: values.Plain(key, c))
        case _:
            raise AssertionError(f"{value.shape} is not an iterable part of the state")


def has_bit(mask: Expr, item: types.Scalar, element: Expr) -> Expr:
    """Tests membership of an element that lies within the set's type."""
    if isinstance(element, Const):
        bit: Expr = Const(1 << (element.value - item.low))
    else:
        bit = Binary("<<", Const(1), shifted(element, item.low))
    return Binary("!=", Binary("&", mask, bit), Const(0))


def fold(op: FoldOp, domain: Domain, scope: values.Scope, body: Callable[[values.Value], Expr]) -> Expr:
    """Builds a fold over a domain; skips the counters that the domain filters out."""
    name = scope.fresh.name("k")
    counter = Local(name)
    inner = body(domain.element(counter))
    if domain.counts is not None:
        inner = _filtered(op, domain.counts(counter), inner)
    return Fold(op, name, domain.low, domain.high, inner)


def _filtered(op: FoldOp, condition: Expr, inner: Expr) -> Expr:
    """Returns the body of a fold, neutral where the condition is false."""
    match op:
        case "all":
            return Binary("implies", condition, inner)
        case "any":
            return Binary("and", condition, inner)
        case "sum":
            return Conditional(condition, inner, Const(0))


def compile_length(call: ast.Call, scope: values.Scope) -> values.Value:
    """Compiles `len(...)` of a collection, a role or an enum."""
    if is_constant(call, scope.module):
        number = constant_value(call, scope.module)
        return values.Plain(types.Scalar(number, number), Const(number))
    node = call.args[0]
    value = compile_open(node, scope)
    if not isinstance(value, values.Listed):
        match value.shape:
            case types.SeqOf(bound=bound):
                return values.Plain(types.Scalar(0, bound), values.length_of(value))
            case types.SetOf(item=item):
                count = fold("sum", domain_of_value(value), scope, lambda _: Const(1))
                return values.Plain(types.Scalar(0, item.size), count)
            case types.MapOf(key=key):
                return values.Plain(types.Scalar(key.size, key.size), Const(key.size))
    raise scope.module.text.error(
        node,
        f"{describe_value(value)} has no length",
        "only sets, sequences, bags, maps, roles and enums have one",
    )


def compile_fold(op: FoldOp, generator: ast.GeneratorExp, scope: values.Scope) -> values.Value:
    """Compiles `all`, `any` or `sum` of a generator."""

    def innermost(inside: values.Scope) -> Expr:
        if op != "sum":
            return compile_condition(generator.elt, inside)
        value = compile_open(generator.elt, inside)
        # Python counts True as 1, so a sum of conditions counts those that hold.
        if not isinstance(value, values.Listed) and value.shape == types.BOOLEAN:
            return values.scalar(value)
        return compile_number(generator.elt, inside).expr

    result = _generators(op, generator.generators, scope, innermost)
    return values.Plain(types.INTEGER if op == "sum" else types.BOOLEAN, result)


def _generators(
    op: FoldOp,
    generators: list[ast.comprehension],
    scope: values.Scope,
    innermost: Callable[[values.Scope], Expr],
) -> Expr:
    if not generators:
        return innermost(scope)
    first, *rest = generators
    name = loop_name(first, scope)
    domain = domain_of(first.iter, scope)

    def body(value: values.Value) -> Expr:
        inside = scope.bind(name, value)
        inner = _generators(op, rest, inside, innermost)
        for condition in reversed(first.ifs):
            inner = _filtered(op, compile_condition(condition, inside), inner)
        return inner

    return fold(op, domain, scope, body)


def loop_name(loop: ast.comprehension | ast.For, scope: values.Scope) -> str:
    """Returns the loop variable's name."""
    target = loop.target
    if isinstance(loop, ast.comprehension) and loop.is_async:
        raise scope.module.text.error(target, "models cannot use async", "actions are atomic already")
    if not isinstance(target, ast.Name):
        raise scope.module.text.error(target, "a loop has one variable", "write `for x in ...`")
    scope.module.check_local(target.id, target)
    return target.id


def compile_set_comprehension(
    node: ast.SetComp, scope: values.Scope, wanted: types.Shape | None
) -> values.Value:
    """Compiles `{... for x in xs if ...}`: sums the bits of all values that occur at least once."""
    item = _item_of(node, scope, wanted)
    generator = node.generators[0]
    names = isinstance(generator.target, ast.Name) and isinstance(node.elt, ast.Name)
    if names and len(node.generators) == 1 and not domain_of(generator.iter, scope).repeats:
        assert isinstance(generator.target, ast.Name) and isinstance(node.elt, ast.Name)
        if generator.target.id == node.elt.id:
            bits = _generators("sum", node.generators, scope, lambda inside: _bit(node.elt, item, inside))
            return values.Plain(types.SetOf(item), bits)

    def comes(value: values.Value) -> Expr:
        def same(inside: values.Scope) -> Expr:
            return Binary("==", values.scalar(value), _element(node.elt, item, inside))

        bit = Binary("<<", Const(1), shifted(values.scalar(value), item.low))
        return Conditional(_generators("any", node.generators, scope, same), bit, Const(0))

    every = Domain(item.low, item.high, lambda counter: values.Plain(item, counter))
    return values.Plain(types.SetOf(item), fold("sum", every, scope, comes))


def _bit(node: ast.expr, item: types.Scalar, scope: values.Scope) -> Expr:
    return Binary("<<", Const(1), shifted(_element(node, item, scope), item.low))


def _element(node: ast.expr, item: types.Scalar, scope: values.Scope) -> Expr:
    """Compiles an element of a set; a value outside the set's type is a run-time error."""
    return values.scalar(element_of(item, compile_value(node, scope, item), node, scope))


def _item_of(node: ast.SetComp, scope: values.Scope, wanted: types.Shape | None) -> types.Scalar:
    """Returns the type of a comprehension's elements: the expected one, or their own."""
    found: list[types.Shape] = []

    def look(inside: values.Scope) -> Expr:
        found.append(compile_value(node.elt, inside).shape)
        return Const(1)

    _generators("any", node.generators, scope, look)
    shape = found[0]
    if not isinstance(shape, types.Scalar) or shape.kind == "none":
        raise scope.module.text.error(
            node.elt,
            f"a set cannot hold {types.describe(shape)}",
            "it holds numbers, bools, enums and roles",
        )
    if isinstance(wanted, types.SetOf):
        item = wanted.item
        if (item.kind, item.name, item.maybe) == (shape.kind, shape.name, shape.maybe):
            return item
    if shape.size > types.SET_SIZE_MAX:
        raise scope.module.text.error(
            node.elt,
            f"a set over {shape.size} values is too large",
            f"a set ranges over at most {types.SET_SIZE_MAX} values; build it from a smaller range",
        )
    return shape
