"""Evaluates constant expressions and resolves types at compile time."""

from __future__ import annotations

from veristream.errors import ModelError, unknown
from veristream.ir import expr as ir
from veristream.ir.constant import constant_value
from veristream.languages.timed import syntax
from veristream.languages.timed.lower.scope import Fixed, Home, Ref, Scope, TypeName
from veristream.languages.timed.lower.types import (
    INT,
    Array,
    Channel,
    Clock,
    Dimension,
    Range,
    Record,
    Type,
    Void,
    describe,
    leaves,
    of_constants,
)
from veristream.source import Span

_RENAMED: dict[str, ir.BinaryOp] = {"/": "div", "%": "rem", "<?": "min", ">?": "max", "imply": "implies"}
_KEPT: tuple[ir.BinaryOp, ...] = (
    *("+", "-", "*", "&", "|", "^", "<<", ">>"),
    *("==", "!=", "<", "<=", ">", ">=", "and", "or"),
)
ELEMENTS_MAX = 1_000_000
CLOCKS_MAX = 1000
"""The most elements and clocks of one declaration."""
OPERATORS: dict[str, ir.BinaryOp] = {**{op: op for op in _KEPT}, **_RENAMED}
"""The IR's spelling of the operators; it has no `**`."""
EXPONENT_MAX = 31


def evaluate(expr: syntax.Expression, scope: Scope) -> int:
    """Returns the value of a constant expression; raises ModelError if it is not constant."""
    match expr:
        case syntax.Number(value=value):
            return value
        case syntax.Name() | syntax.Index() | syntax.Member():
            return _number(find_fixed(expr, scope), expr.span)
        case syntax.Unary(op=op, operand=operand):
            value = evaluate(operand, scope)
            return {"-": -value, "+": value, "not": int(not value)}[op]
        case syntax.Binary():
            return _binary(expr, scope)
        case syntax.Ternary(condition=condition, then=then, otherwise=otherwise):
            return evaluate(then if evaluate(condition, scope) else otherwise, scope)
        case syntax.Quantified(op=op, name=name, body=body):
            type_ = bounded(expr.type, scope)
            values = [evaluate(body, scope.bind(name, Fixed(i, type_))) for i in numbers(type_)]
            return sum(values) if op == "sum" else int((all if op == "forall" else any)(values))
        case syntax.Call():
            return scope.call(expr)
        case _:
            raise _not_constant(expr.span)


def _not_constant(span: Span) -> ModelError:
    return ModelError(
        "this expression is not constant", span, "use numbers, `const` names and parameters passed by value"
    )


def _binary(expr: syntax.Binary, scope: Scope) -> int:
    left = evaluate(expr.left, scope)
    match expr.op:  # the right side may be invalid if it is not needed, as in `n == 0 or m / n > 2`
        case "and" if not left:
            return 0
        case "or" if left:
            return 1
        case "imply" if not left:
            return 1
        case "**":
            return int(left ** exponent(expr, scope))
    right = evaluate(expr.right, scope)
    value = constant_value(ir.Binary(OPERATORS[expr.op], ir.Const(left), ir.Const(right)))
    if value is None:
        raise ModelError(f"`{left} {expr.op} {right}` is undefined", expr.span, "change the right operand")
    return value


def exponent(expr: syntax.Binary, scope: Scope) -> int:
    """Returns the right operand of `**`, which must be constant."""
    value = evaluate(expr.right, scope)
    if not 0 <= value <= EXPONENT_MAX:
        raise ModelError(
            f"the exponent {value} is outside 0..{EXPONENT_MAX}", expr.right.span, "numbers have 32 bits"
        )
    return value


def find_fixed(expr: syntax.Expression, scope: Scope) -> Fixed | Ref:
    """Returns the constant, or part of a constant, that the expression denotes."""
    match expr:
        case syntax.Name(name=name, span=span):
            entity = scope.find(name, span)
            if isinstance(entity, Fixed) or (isinstance(entity, Ref) and entity.home is Home.FIXED):
                return entity
            raise ModelError(f"`{name}` is not a constant", span, "declare it with `const`")
        case syntax.Index(base=base, index=index, span=span):
            whole = find_fixed(base, scope)
            if not isinstance(whole, Ref) or not isinstance(whole.type, Array):
                raise ModelError("only arrays can be indexed", span, "remove the index")
            return whole.at(ir.Const(evaluate(index, scope), index.span))
        case syntax.Member(base=base, name=name, span=span):
            whole = find_fixed(base, scope)
            if not isinstance(whole, Ref) or not isinstance(whole.type, Record):
                raise ModelError("only structs have fields", span, "remove the field")
            return find_part(whole, name, span)
        case _:
            raise _not_constant(expr.span)


def find_part(whole: Ref, name: str, span: Span) -> Ref:
    """Returns the field of a struct; raises ModelError if there is no such field."""
    part = whole.part(name)
    if part is None:
        assert isinstance(whole.type, Record)
        known = [one for one, _ in whole.type.fields]
        raise unknown("field", name, known, span, f"the fields are {', '.join(known)}")
    return part


def _number(found: Fixed | Ref, span: Span) -> int:
    if isinstance(found, Fixed):
        return found.value
    if not isinstance(found.type, Range):
        raise ModelError(f"{describe(found.type)} is not a number", span, "select an element or a field")
    return look_up(found, span)


def look_up(ref: Ref, span: Span) -> int:
    """Returns the value of a constant's leaf at constant indices; raises ModelError if out of bounds."""
    indices = tuple(index.value for index in ref.indices if isinstance(index, ir.Const))
    value = ref.tables[ref.name].at(indices)
    if value is None:
        written = "".join(f"[{index}]" for index in indices)
        ranges = "".join(f"[{one.low}..{one.high}]" for one in ref.dimensions)
        raise ModelError(
            f"`{ref.name}{written}` is out of bounds", span, f"the bounds are `{ref.name}{ranges}`"
        )
    return value


def numbers(type_: Range) -> range:
    """Returns all values of the type."""
    return range(type_.low, type_.high + 1)


def bounded(type_: syntax.Type, scope: Scope) -> Range:
    """Resolves a type whose values can be enumerated; raises ModelError for any other type."""
    resolved = resolve_type(type_, (), scope)
    if not isinstance(resolved, Range):
        raise ModelError(
            f"the values of {describe(resolved)} cannot be enumerated", type_.span, "use `int[low, high]`"
        )
    if isinstance(type_, syntax.IntType) and type_.low is None and type_.high is None:
        raise ModelError("`int` has too many values to enumerate", type_.span, "use `int[low, high]`")
    return resolved


def resolve_type(
    type_: syntax.Type, shape: tuple[syntax.Expression | syntax.Type, ...], scope: Scope
) -> Type:
    """Resolves the type, with the array dimensions in `shape`."""
    resolved = _resolve(type_, scope)
    for size in reversed(shape):
        resolved = Array(_dimension(size, scope), resolved)
        _check_size(resolved, size.span)
    return resolved


def _check_size(type_: Array, span: Span) -> None:
    """Raises ModelError if the array is so large that listing its elements would take all memory."""
    found = leaves(type_)
    clocks = sum(leaf.count for leaf in found if isinstance(leaf.type, Clock))
    for count, most, what in (
        (clocks, CLOCKS_MAX, "clocks"),
        (sum(leaf.count for leaf in found), ELEMENTS_MAX, "elements"),
    ):
        if count > most:
            raise ModelError(f"an array cannot have {count} {what}", span, f"the maximum is {most}")


def type_of_parameter(parameter: syntax.Parameter, scope: Scope) -> Type:
    """Resolves the type of a parameter; a constant one has no default range."""
    type_ = resolve_type(parameter.type, parameter.shape, scope)
    return of_constants(type_) if parameter.constant else type_


def _resolve(type_: syntax.Type, scope: Scope) -> Type:
    match type_:
        case syntax.IntType(low=low, high=high, span=span):
            least = INT.low if low is None else evaluate(low, scope)
            greatest = INT.high if high is None else evaluate(high, scope)
            return _range(least, greatest, span)
        case syntax.ScalarType(size=size, span=span):
            return _range(0, evaluate(size, scope) - 1, span)
        case syntax.PlainType(kind="bool"):
            return ir.BOOL
        case syntax.PlainType(kind="clock"):
            return Clock()
        case syntax.PlainType():
            return Void()
        case syntax.ChannelType(urgent=urgent, broadcast=broadcast):
            return Channel(urgent, broadcast)
        case syntax.StructType(fields=fields):
            _check_fields(fields)
            return Record(tuple((one.name, resolve_type(one.type, one.shape, scope)) for one in fields))
        case syntax.NamedType():
            return _named(type_, scope)


def _check_fields(fields: tuple[syntax.StructField, ...]) -> None:
    seen: set[str] = set()
    for one in fields:
        if one.name in seen:
            raise ModelError(f"the field `{one.name}` is declared twice", one.span, "rename one of them")
        seen.add(one.name)


def _range(low: int, high: int, span: Span) -> Range:
    if low > high:
        raise ModelError(f"the range {low}..{high} is empty", span, "write the lower bound first")
    return Range(low, high)


def _named(type_: syntax.NamedType, scope: Scope) -> Type:
    entity = scope.look_up(type_.name)
    if entity is None:
        raise unknown("type", type_.name, scope.known(), type_.span, "declare it with `typedef`")
    if not isinstance(entity, TypeName):
        raise ModelError(f"`{type_.name}` is not a type", type_.span, "declare one with `typedef`")
    if not type_.urgent and not type_.broadcast:
        return entity.type
    return _prefixed(entity.type, type_)


def _prefixed(type_: Type, prefix: syntax.NamedType) -> Type:
    match type_:
        case Channel(urgent=urgent, broadcast=broadcast):
            return Channel(urgent or prefix.urgent, broadcast or prefix.broadcast)
        case Array(dimension=dimension, element=element):
            return Array(dimension, _prefixed(element, prefix))
        case _:
            raise ModelError(
                "only channels can be urgent or broadcast",
                prefix.span,
                f"`{prefix.name}` is not a channel type",
            )


def _dimension(size: syntax.Expression | syntax.Type, scope: Scope) -> Dimension:
    if isinstance(size, syntax.Name | syntax.NamedType):  # the scope tells types from constants
        entity = scope.find(size.name, size.span)
        if isinstance(entity, TypeName):
            size = syntax.NamedType(size.name, span=size.span)
        else:
            size = syntax.Name(size.name, span=size.span)
    match size:
        case syntax.NamedType() | syntax.IntType() | syntax.ScalarType() | syntax.PlainType():
            values = bounded(size, scope)
            return Dimension(values.low, values.high)
        case syntax.ChannelType() | syntax.StructType():
            raise ModelError("this type cannot index an array", size.span, "use `int[low, high]`")
    count = evaluate(size, scope)
    if count < 1:
        raise ModelError(f"the array has {count} elements", size.span, "every dimension must be at least 1")
    return Dimension(0, count - 1)


def check_range(value: int, type_: Range, span: Span) -> int:
    """Returns the value; raises ModelError if it is outside the range of the type."""
    if not type_.low <= value <= type_.high:
        raise ModelError(
            f"{value} is outside the range {type_.low}..{type_.high}",
            span,
            "widen the type or change the value",
        )
    return value
