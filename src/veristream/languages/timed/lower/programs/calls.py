"""Calls of functions.

The IR passes numbers. A struct or array passed by value becomes one number an element. For references
the function is copied: in the copy `f<a>` the parameter stands for `a` itself, and what is not known of
the argument, such as `i` in `a[i]`, is passed as one more number. A function that changes a local of its
caller is written out in the place of its call.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from veristream.errors import ModelError
from veristream.ir import expr as ir
from veristream.languages.timed import syntax
from veristream.languages.timed.lower.builtin import REAL_FUNCTIONS
from veristream.languages.timed.lower.constant import check_range, resolve_type
from veristream.languages.timed.lower.kinds import no_number, type_of
from veristream.languages.timed.lower.model import Request
from veristream.languages.timed.lower.programs import access
from veristream.languages.timed.lower.programs.changes import changes, root
from veristream.languages.timed.lower.scope import Fixed, FunctionName, Home, Ref, Scope, unknown
from veristream.languages.timed.lower.types import Range, Type, describe, same_layout

if TYPE_CHECKING:
    from veristream.languages.timed.lower.programs.expressions import Reader


def lower_call(reader: Reader, expr: syntax.Call) -> ir.Expr:
    """What the call gives; the function is asked for, or written out here where it changes a local."""
    function = find_function(reader, expr)
    parameters = function.declaration.parameters
    pairs = list(zip(parameters, expr.arguments, strict=True))
    if any(_changes_local(reader, function, *pair) for pair in pairs):
        return reader.write_out(function, expr)
    references: dict[str, Ref] = {}
    hidden: list[ir.Expr] = []
    values: list[ir.Expr] = []
    for parameter, argument in pairs:
        type_ = resolve_type(parameter.type, parameter.shape, function.scope)
        mark = reader.mark()
        unknowns: list[ir.Expr] = []
        passed: list[ir.Expr] = []
        if parameter.reference and not _can_be_copied(reader, parameter, argument):
            place = refer(reader, parameter, type_, argument)
            references[parameter.name], unknowns = _open(place, parameter.name)
        else:
            passed = pass_by_value(reader, type_, argument)
        if reader.mark() > mark:
            hidden, values = reader.keep(hidden, mark), reader.keep(values, mark)
        hidden, values = hidden + unknowns, values + passed
    name = function.full_name
    if references:
        name += f"<{', '.join(_spell(references.get(one.name)) for one in parameters)}>"
    reader.model.request(Request(name, function, references, _hidden_names(references)))
    return ir.Call(name, (*hidden, *values), expr.span)


def is_builtin(expr: syntax.Call, name: str, scope: Scope) -> bool:
    """Whether the builtin function of one argument is called, and not one of the model's own."""
    if expr.name != name or scope.look_up(name) is not None:
        return False
    if len(expr.arguments) != 1:
        raise ModelError(
            f"`{name}` takes 1 argument, not {len(expr.arguments)}", expr.span, "pass one value"
        )
    return True


def find_function(reader: Reader, expr: syntax.Call) -> FunctionName:
    """The function that the call names, with as many parameters as the call has arguments."""
    entity = reader.scope.look_up(expr.name)
    if entity is None and expr.name in REAL_FUNCTIONS:
        raise ModelError(
            f"`{expr.name}` computes with real numbers, a statistical or hybrid construct",
            expr.span,
            "use whole numbers",
        )
    if entity is None:
        raise unknown("function", expr.name, reader.scope.known(), expr.span, "declare it first")
    if not isinstance(entity, FunctionName):
        raise ModelError(f"`{expr.name}` is not a function", expr.span, "only functions can be called")
    parameters = entity.declaration.parameters
    if len(parameters) != len(expr.arguments):
        names = ", ".join(one.name for one in parameters)
        raise ModelError(
            f"`{expr.name}` takes {len(parameters)} argument(s), not {len(expr.arguments)}",
            expr.span,
            f"call it as `{expr.name}({names})`",
        )
    return entity


def _changes_local(
    reader: Reader, function: FunctionName, parameter: syntax.Parameter, argument: syntax.Expression
) -> bool:
    """Whether the function changes a local of the caller, which the IR cannot pass."""
    if not parameter.reference or parameter.constant or not _is_local(reader, argument):
        return False
    return changes(function, parameter.name)


def _is_local(reader: Reader, argument: syntax.Expression) -> bool:
    name = root(argument)
    whole = None if name is None else reader.scope.look_up(name)
    return isinstance(whole, Ref) and whole.home is Home.LOCAL


def _can_be_copied(reader: Reader, parameter: syntax.Parameter, argument: syntax.Expression) -> bool:
    """Whether a reference may be passed by value: nobody changes what it refers to during the call."""
    if _is_local(reader, argument):
        return True
    name = root(argument)
    known = name is None or isinstance(reader.scope.look_up(name), Fixed)
    return parameter.constant and known


def _hidden_names(references: dict[str, Ref]) -> tuple[str, ...]:
    return tuple(
        index.name for one in references.values() for index in one.indices if isinstance(index, ir.Local)
    )


def pass_by_value(reader: Reader, type_: Type, argument: syntax.Expression) -> list[ir.Expr]:
    """The numbers that an argument by value is passed as."""
    if isinstance(type_, Range):
        value = reader.value(argument)
        if type_ == ir.BOOL and type_of(argument, reader.scope) != ir.BOOL:
            return [ir.Binary("!=", value, ir.Const(0), value.span)]
        if isinstance(value, ir.Const):
            check_range(value.value, type_, argument.span)
        return [value]
    place = reader.place(argument)
    if isinstance(place, Fixed) or not same_layout(place.type, type_):
        raise _mismatch(argument, place.type, type_)
    if not all(isinstance(leaf.type, Range) for leaf, _ in access.elements(place)):
        raise no_number(argument, describe(place.type))
    return [access.read(part, reader.model, argument.span) for _, part in access.elements(place)]


def _mismatch(argument: syntax.Expression, given: Type, wanted: Type) -> ModelError:
    return ModelError(
        f"this is {describe(given)} of another type than the parameter",
        argument.span,
        f"{describe(wanted)} belongs here",
    )


def refer(reader: Reader, parameter: syntax.Parameter, type_: Type, argument: syntax.Expression) -> Ref:
    """What an argument by reference refers to."""
    place = reader.place(argument)
    if not same_layout(place.type, type_):
        raise _mismatch(argument, place.type, type_)
    if isinstance(place, Fixed):
        raise ModelError(
            "a constant cannot be passed by reference", argument.span, "declare the parameter `const`"
        )
    return replace(place, writable=place.writable and not parameter.constant)


def _open(place: Ref, name: str) -> tuple[Ref, list[ir.Expr]]:
    """The reference with locals for those of its indices that are not known, and these indices."""
    unknowns: list[ir.Expr] = []
    indices: list[ir.Expr] = []
    for index in place.indices:
        if isinstance(index, ir.Const):
            indices.append(index)
        else:
            unknowns.append(index)
            indices.append(ir.Local(f"{name}_at_{len(indices)}", None, index.span))
    return replace(place, indices=tuple(indices)), unknowns


def _spell(reference: Ref | None) -> str:
    """What tells copies of a function apart; `_` is a parameter by value."""
    if reference is None:
        return "_"
    places = (str(one.value) if isinstance(one, ir.Const) else "" for one in reference.indices)
    return reference.name + "".join(f"[{place}]" for place in places)
