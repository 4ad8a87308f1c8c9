"""Lowers the declarations of the model and of its templates."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

from veristream.errors import ModelError, unknown
from veristream.ir import network as net
from veristream.languages.timed import syntax
from veristream.languages.timed.lower.constant import resolve_type
from veristream.languages.timed.lower.initial import initial_values
from veristream.languages.timed.lower.model import Model, Update
from veristream.languages.timed.lower.scope import (
    Fixed,
    FunctionName,
    Home,
    Ref,
    Scope,
    Table,
    TypeName,
    stored,
)
from veristream.languages.timed.lower.types import (
    Array,
    Channel,
    Clock,
    Leaf,
    Range,
    Type,
    Void,
    default,
    lay_out,
    leaves,
    of_constants,
)

_HOOKS = frozenset({"__ON_CONSTRUCT__", "__ON_DESTRUCT__", "__ON_BEGIN__", "__ON_END__"})


def declare_all(
    declarations: Iterable[syntax.Declaration],
    scope: Scope,
    model: Model,
    variables: list[net.Variable],
) -> None:
    """Declares the names in `scope`; appends variables to `variables` and everything else to `model`."""
    for one in declarations:
        match one:
            case syntax.Variable(constant=True):
                type_ = resolve_type(one.type, one.shape, scope)
                declare_constant(one, type_, scope, scope.owner + one.name)
            case syntax.Variable():
                _declare_variable(one, scope, model, variables)
            case syntax.TypeDefinition():
                type_ = resolve_type(one.type, one.shape, scope)
                scope.declare(one.name, TypeName(type_), one.span)
            case syntax.Function(name=name) if name in _HOOKS:
                raise ModelError(
                    f"the callback `{name}` is not supported",
                    one.span,
                    "rename it and call it in the updates that need it",
                )
            case syntax.Function():
                scope.declare(one.name, FunctionName(one, scope), one.span)
            case syntax.ChannelPriority():
                _declare_priorities(one, scope, model)
            case syntax.Hook():
                _declare_hook(one, scope, model)


def declare_constant(variable: syntax.Variable, type_: Type, scope: Scope, full_name: str) -> None:
    """Declares a constant: a number, or for a struct or array one table per leaf."""
    if variable.initial is None:
        raise ModelError(
            f"the constant `{variable.name}` has no value",
            variable.span,
            "write `= value` after it, or `&` before it if it is a parameter",
        )
    type_ = of_constants(type_)
    values = initial_values(type_, variable.initial, scope, variable.span)
    if isinstance(type_, Range):
        scope.declare(variable.name, Fixed(values[""][0], type_), variable.span)
        return
    tables = {
        full_name + leaf.path: Table(leaf, tuple(values[leaf.path]))
        for leaf in leaves(type_)
        if isinstance(leaf.type, Range)
    }
    ref = Ref(full_name, type_, Home.FIXED, writable=False, tables=tables)
    scope.declare(variable.name, ref, variable.span)


def _declare_variable(
    variable: syntax.Variable, scope: Scope, model: Model, variables: list[net.Variable]
) -> None:
    type_ = resolve_type(variable.type, variable.shape, scope)
    if isinstance(type_, Void):
        raise ModelError(
            f"the variable `{variable.name}` cannot be `void`",
            variable.span,
            "only functions can be `void`",
        )
    name = scope.owner + variable.name
    ref = stored(name, type_)
    scope.declare(variable.name, ref, variable.span)
    values = initial_values(type_, variable.initial, scope, variable.span)
    for leaf in leaves(type_):
        full, shape = name + leaf.path, _shape(leaf, ref.padded)
        match leaf.type:
            case Range() as numbers:
                begin = _padded(leaf, values[leaf.path], shape, ref.padded)
                variables.append(net.Variable(full, numbers, shape, begin, span=variable.span))
            case Clock():
                model.clocks.append(net.Clock(full, shape, span=variable.span))
            case Channel(urgent=urgent, broadcast=broadcast):
                kind = net.ChannelKind.BROADCAST if broadcast else net.ChannelKind.RENDEZVOUS
                model.channels.append(
                    net.Channel(full, kind, shape=shape, urgent=urgent, span=variable.span)
                )


def _shape(leaf: Leaf, padded: bool) -> tuple[int, ...]:
    return tuple(lay_out(one, padded).size for one in leaf.dimensions)


def _padded(leaf: Leaf, values: list[int], shape: tuple[int, ...], padded: bool) -> tuple[int, ...]:
    """Returns the initial values, with padding."""
    assert isinstance(leaf.type, Range)
    laid = [default(leaf.type)] * prod(shape)
    for indices, value in zip(leaf.places(), values, strict=True):
        position = 0
        for index, dimension, size in zip(indices, leaf.dimensions, shape, strict=True):
            position = position * size + index - lay_out(dimension, padded).shift
        laid[position] = value
    return tuple(laid)


def _declare_hook(hook: syntax.Hook, scope: Scope, model: Model) -> None:
    if scope.owner:
        raise ModelError(
            f"`{hook.when}_update` belongs to no template", hook.span, "move it to the global declarations"
        )
    updates = model.before if hook.when == "before" else model.after
    updates += [Update(expr, scope) for expr in hook.update]


def _declare_priorities(priority: syntax.ChannelPriority, scope: Scope, model: Model) -> None:
    """Records the levels relative to `default`, which is 0, and the lowest level if it is not listed."""
    levels = priority.levels
    standard = next(
        (
            number
            for number, level in enumerate(levels)
            if any(isinstance(one, syntax.Name) and one.name == "default" for one in level)
        ),
        0,
    )
    for number, level in enumerate(levels):
        for one in level:
            if isinstance(one, syntax.Name) and one.name == "default":
                continue
            model.priorities[_channel_name(one, scope)] = number - standard


def _channel_name(expr: syntax.Expression, scope: Scope) -> str:
    if isinstance(expr, syntax.Index):
        raise ModelError(
            "a priority for a single element of a channel array is not supported",
            expr.span,
            "give the whole array one priority, or declare the channel separately",
        )
    if not isinstance(expr, syntax.Name):
        raise ModelError("this is not a channel", expr.span, "write the name of a channel")
    entity = scope.look_up(expr.name)
    if entity is None:
        raise unknown("channel", expr.name, scope.known(), expr.span, "declare it before its priority")
    type_ = entity.type if isinstance(entity, Ref) else None
    while isinstance(type_, Array):
        type_ = type_.element
    if not isinstance(entity, Ref) or not isinstance(type_, Channel):
        raise ModelError(f"`{expr.name}` is not a channel", expr.span, "declare it with `chan`")
    return entity.name
