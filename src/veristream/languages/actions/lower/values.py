"""Values under compilation: where each part of a value is read from.

`Plain` is an expression, `Stored` a path into the state, `Held` a local variable, `Fields` a record
under construction, `Items` a sequence under construction. A `Listed` is not a value yet: it is a literal
that takes its type from the context. Values are read leaf by leaf (see `types`), so the same few functions
copy and compare records, maps and sequences.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from itertools import count

from veristream.ir.expr import Binary, Conditional, Const, Expr, Fold, Load, Local, Primed
from veristream.ir.walk import mentions
from veristream.languages.actions.read import types
from veristream.languages.actions.read.module import Module
from veristream.source import Span


@dataclass(frozen=True, slots=True)
class Plain:
    """A number or a mask; the shape of a whole number is a range that contains it."""

    shape: types.Scalar | types.SetOf
    expr: Expr


@dataclass(frozen=True, slots=True)
class Stored:
    """A part of the state: the prefix of a variable's name, and the first indices."""

    shape: types.Shape
    variable: str
    indices: tuple[Expr, ...] = ()


@dataclass(frozen=True, slots=True)
class Held:
    """A local variable of the action: one IR local per leaf."""

    shape: types.Scalar | types.SetOf | types.Record
    name: str


@dataclass(frozen=True, slots=True)
class Fields:
    """A record built from its fields."""

    shape: types.Record
    parts: Mapping[str, Value]


@dataclass(frozen=True, slots=True)
class Items:
    """A sequence built from its items, or a bag of at most one item."""

    shape: types.SeqOf
    items: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Chosen:
    """A conditional between two records or collections of the same type."""

    shape: types.Shape
    condition: Expr
    then: Value
    otherwise: Value


Value = Plain | Stored | Held | Fields | Items | Chosen


@dataclass(frozen=True, slots=True)
class Listed:
    """A literal list, tuple or set, which takes its type from the context."""

    node: ast.expr
    items: tuple[ast.expr, ...]

    @property
    def is_set(self) -> bool:
        """Whether it is written as a set: `{...}` or `set()`."""
        return isinstance(self.node, ast.Set | ast.Call)


@dataclass(slots=True)
class Fresh:
    """Generates unique names for locals."""

    numbers: count[int] = field(default_factory=count)

    def name(self, stem: str) -> str:
        """Returns a name that no other local of the action has."""
        return f"{stem}_{next(self.numbers)}"


@dataclass(frozen=True, slots=True)
class Scope:
    """The context of an expression; `compile` compiles its subexpressions."""

    module: Module
    compile: Callable[[ast.expr, Scope, types.Shape | None], Value | Listed]
    locals: Mapping[str, Value] = field(default_factory=dict)
    fresh: Fresh = field(default_factory=Fresh)
    calls: tuple[str, ...] = ()  # the functions being expanded, outermost first
    allows_after: bool = False
    unset: frozenset[str] = frozenset()  # the names that are set only on some paths

    def bind(self, name: str, value: Value) -> Scope:
        """Returns this scope with one more name."""
        return replace(self, locals={**self.locals, name: value}, unset=self.unset - {name})

    def span(self, node: ast.expr | ast.stmt) -> Span:
        return self.module.text.span(node)


def leaf_of(value: Value, leaf: types.Leaf, inner: tuple[Expr, ...] = ()) -> Expr:
    """Returns the expression that reads a leaf of a value at the inner indices."""
    match value:
        case Plain(expr=expr):
            return expr
        case Stored(variable=variable, indices=indices):
            return Load(variable + leaf.suffix, indices + inner)
        case Held(name=name):
            return Local(local_name(name, leaf))
        case Fields(shape=shape, parts=parts):
            for name, part in shape.fields:
                for candidate in types.leaves(part):
                    if f".{name}{candidate.suffix}" == leaf.suffix:
                        return leaf_of(parts[name], candidate, inner)
            raise AssertionError(f"{shape} has no leaf {leaf}")
        case Items():
            return _leaf_of_items(value, leaf, inner)
        case Chosen(condition=condition, then=then, otherwise=otherwise):
            return Conditional(condition, leaf_of(then, leaf, inner), leaf_of(otherwise, leaf, inner))


def _leaf_of_items(value: Items, leaf: types.Leaf, inner: tuple[Expr, ...]) -> Expr:
    if not leaf.dimensions:
        return Const(len(value.items))
    part = next(part for part in types.leaves(value.shape.item) if f".item{part.suffix}" == leaf.suffix)
    index, *rest = inner
    result: Expr = Const(types.rest_of(part.type))
    for position, item in reversed(list(enumerate(value.items))):
        here = leaf_of(item, part, tuple(rest))
        if isinstance(index, Const):
            result = here if index.value == position else result
        else:
            result = Conditional(Binary("==", index, Const(position)), here, result)
    return result


def local_name(name: str, leaf: types.Leaf) -> str:
    """Returns the IR local that holds a leaf of a local variable."""
    return name + leaf.suffix.replace(".", "__")


def scalar(value: Value) -> Expr:
    """Returns the single expression of a number or set."""
    assert isinstance(value.shape, types.Scalar | types.SetOf)
    return leaf_of(value, types.leaves(value.shape)[0])


def part_of(value: Value, name: str) -> Value:
    """Returns a field of a record."""
    assert not isinstance(value, Plain | Items) and isinstance(value.shape, types.Record)
    shape = value.shape.field(name)
    assert shape is not None
    match value:
        case Stored(variable=variable, indices=indices):
            return Stored(shape, f"{variable}.{name}", indices)
        case Fields(parts=parts):
            return parts[name]
        case Held(name=local):
            assert not isinstance(shape, types.MapOf | types.SeqOf)
            return Held(shape, f"{local}__{name}")
        case Chosen(condition=condition, then=then, otherwise=otherwise):
            return choose(condition, part_of(then, name), part_of(otherwise, name))


def choose(condition: Expr, then: Value, otherwise: Value) -> Value:
    """Builds a conditional between two values of the same type."""
    shape = then.shape
    if isinstance(shape, types.SetOf):
        return Plain(shape, Conditional(condition, scalar(then), scalar(otherwise)))
    if not isinstance(shape, types.Scalar):
        return Chosen(shape, condition, then, otherwise)
    assert isinstance(otherwise.shape, types.Scalar)
    if shape.kind == "int" and not shape.maybe:
        shape = types.joined(shape, otherwise.shape)
    elif otherwise.shape.maybe:
        shape = otherwise.shape
    return Plain(shape, Conditional(condition, scalar(then), scalar(otherwise)))


def item_at(value: Stored, index: Expr) -> Stored:
    """Returns an item of a sequence, or a value of a map."""
    match value.shape:
        case types.SeqOf(item=item):
            return Stored(item, value.variable + ".item", (*value.indices, index))
        case types.MapOf(value=inner):
            return Stored(inner, value.variable, (*value.indices, index))
        case _:
            raise AssertionError("only sequences and maps have items")


def length_of(value: Value) -> Expr:
    """Returns the length of a sequence or bag."""
    return leaf_of(value, types.leaves(value.shape)[0])


def equal(left: Value, right: Value, fresh: Fresh) -> Expr:
    """Compares two values of the same type leaf by leaf."""
    result: Expr | None = None
    for leaf in types.leaves(left.shape):
        names = [fresh.name("i") for _ in leaf.dimensions]
        inner = tuple(Local(name) for name in names)
        same: Expr = Binary("==", leaf_of(left, leaf, inner), leaf_of(right, leaf, inner))
        for name, size in reversed(list(zip(names, leaf.dimensions, strict=True))):
            same = Fold("all", name, 0, size - 1, same)
        result = same if result is None else Binary("and", result, same)
    assert result is not None
    return result


def conjunction(parts: list[Expr]) -> Expr:
    """Joins the conditions with `and`, in order."""
    return reduce(partial(Binary, "and"), parts) if parts else Const(1)


def disjunction(parts: list[Expr]) -> Expr:
    """Joins the conditions with `or`, in order."""
    return reduce(partial(Binary, "or"), parts) if parts else Const(0)


def primed(value: Plain | Stored) -> Plain:
    """Returns the value in the state after the step."""
    assert isinstance(value.shape, types.Scalar | types.SetOf)
    return Plain(value.shape, Primed(scalar(value)))


def reads_state(value: Value) -> bool:
    """Returns whether a change of the state could change the value."""
    match value:
        case Plain(expr=expr):
            return mentions(expr, Load)
        case Held():
            return False
        case Fields(parts=parts):
            return any(map(reads_state, parts.values()))
        case Items(items=items):
            return any(map(reads_state, items))
        case Stored() | Chosen():
            return True
