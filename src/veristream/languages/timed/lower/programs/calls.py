"""Function calls.

The IR passes only numbers. A struct or array passed by value becomes one number per element. For reference
parameters the function is specialised: in the copy `f<a>` the parameter denotes `a` itself, and any unknown
part of the argument, such as `i` in `a[i]`, becomes an additional number parameter. A function that changes
a local variable of its caller is inlined.
"""

from __future__ import annotations

from dataclasses import replace

from veristream.errors import ModelError, unknown
from veristream.ir import expr as ir
from veristream.languages.timed import syntax
from veristream.languages.timed.lower.builtin import REAL_FUNCTIONS
from veristream.languages.timed.lower.constant import type_of_parameter
from veristream.languages.timed.lower.kinds import no_number, type_of
from veristream.languages.timed.lower.model import Request
from veristream.languages.timed.lower.programs import access
from veristream.languages.timed.lower.programs.changes import changes, root
from veristream.languages.timed.lower.programs.reader import Reader
from veristream.languages.timed.lower.scope import Fixed, FunctionName, Home, Ref, Scope
from veristream.languages.timed.lower.types import Range, Type, describe, same_layout


def lower_call(reader: Reader, expr: syntax.Call) -> ir.Expr:
    """Lowers a call: requests the function, or inlines it if it changes a local variable of the caller."""
    function = find_function(reader, expr)
    parameters = function.declaration.parameters
    pairs = list(zip(parameters, expr.arguments, strict=True))
    if any(_changes_local(reader, function, *pair) for pair in pairs):
        return reader.inline(function, expr)
    references: dict[str, Ref] = {}
    hidden: list[ir.Expr] = []
    values: list[ir.Expr] = []
    for parameter, argument in pairs:
        type_ = type_of_parameter(parameter, function.scope)
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
    return ir.Call(name, (*hidden, *values), span=expr.span)


def is_builtin(expr: syntax.Call, name: str, scope: Scope) -> bool:
    """Returns whether `expr` calls the predefined function `name`, which takes one argument.

    A function of the model with the same name takes precedence. Raises ModelError for a wrong number of
    arguments.
    """
    if expr.name != name or scope.look_up(name) is not None:
        return False
    if len(expr.arguments) != 1:
        raise ModelError(
            f"`{name}` takes 1 argument, not {len(expr.arguments)}", expr.span, "pass one value"
        )
    return True


def find_function(reader: Reader, expr: syntax.Call) -> FunctionName:
    """Returns the called function; raises ModelError if it is unknown or the argument count is wrong."""
    entity = reader.scope.look_up(expr.name)
    if entity is None and expr.name in REAL_FUNCTIONS:
        raise ModelError(
            f"`{expr.name}` computes with real numbers, which only statistical and hybrid models support",
            expr.span,
            "use integers",
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
    """Returns whether the function changes a local variable of the caller, which the IR cannot pass."""
    if not parameter.reference or parameter.constant or not _is_local(reader, argument):
        return False
    return changes(function, parameter.name)


def _is_local(reader: Reader, argument: syntax.Expression) -> bool:
    name = root(argument)
    whole = None if name is None else reader.scope.look_up(name)
    return isinstance(whole, Ref) and whole.home is Home.LOCAL


def _can_be_copied(reader: Reader, parameter: syntax.Parameter, argument: syntax.Expression) -> bool:
    """Returns whether a reference can be passed by value: its target stays unchanged during the call."""
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
    """Returns the numbers that represent an argument passed by value."""
    if isinstance(type_, Range):
        value = reader.value(argument)
        if type_ == ir.BOOL and type_of(argument, reader.scope) != ir.BOOL:
            return [ir.Binary("!=", value, ir.Const(0), span=value.span)]
        return [reader.at_run_time(value, type_)]
    place = reader.place(argument)
    if isinstance(place, Fixed) or not same_layout(place.type, type_):
        raise _mismatch(argument, place.type, type_)
    if not all(isinstance(leaf.type, Range) for leaf, _ in access.elements(place)):
        raise no_number(argument, describe(place.type))
    return [access.read(part, reader.model, argument.span) for _, part in access.elements(place)]


def _mismatch(argument: syntax.Expression, given: Type, wanted: Type) -> ModelError:
    return ModelError(
        f"the argument is {describe(given)} of a different type than the parameter",
        argument.span,
        f"pass {describe(wanted)} of the parameter's type",
    )


def refer(reader: Reader, parameter: syntax.Parameter, type_: Type, argument: syntax.Expression) -> Ref:
    """Returns the target of an argument passed by reference."""
    place = reader.place(argument)
    if not same_layout(place.type, type_):
        raise _mismatch(argument, place.type, type_)
    if isinstance(place, Fixed):
        raise ModelError(
            "a constant cannot be passed by reference", argument.span, "declare the parameter `const`"
        )
    return replace(place, writable=place.writable and not parameter.constant)


def _open(place: Ref, name: str) -> tuple[Ref, list[ir.Expr]]:
    """Replaces unknown indices of a reference by local variables; returns it and the replaced indices."""
    unknowns: list[ir.Expr] = []
    indices: list[ir.Expr] = []
    for index in place.indices:
        if isinstance(index, ir.Const):
            indices.append(index)
        else:
            unknowns.append(index)
            indices.append(ir.Local(f"{name}_at_{len(indices)}", span=index.span))
    return replace(place, indices=tuple(indices)), unknowns


def _spell(reference: Ref | None) -> str:
    """Returns a reference's part of the name of a specialised function; `_` is a parameter by value."""
    if reference is None:
        return "_"
    places = (str(one.value) if isinstance(one, ir.Const) else "" for one in reference.indices)
    return reference.name + "".join(f"[{place}]" for place in places)
