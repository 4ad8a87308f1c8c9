"""Instantiates the processes of the system line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from veristream.errors import ModelError, unknown
from veristream.ir import expr as ir
from veristream.languages.timed import syntax
from veristream.languages.timed.lower.constant import (
    bounded,
    check_range,
    evaluate,
    find_fixed,
    numbers,
    type_of_parameter,
)
from veristream.languages.timed.lower.model import Model
from veristream.languages.timed.lower.programs.expressions import ExpressionReader
from veristream.languages.timed.lower.scope import Fixed, LocalNames, Ref, Scope
from veristream.languages.timed.lower.types import Range, Type, describe, same_layout
from veristream.source import Span

Definition = syntax.Template | syntax.Instantiation
Bound = Mapping[str, Fixed | Ref]
"""The arguments, keyed by parameter."""
PROCESSES_MAX = 10_000
"""The most values of one free parameter."""


@dataclass(frozen=True, slots=True)
class Instance:
    """A process: its template, its arguments, and its priority on the system line.

    `values` are the values of the free parameters, or None if there are none.
    """

    name: str
    line_name: str
    values: tuple[int, ...] | None
    template: syntax.Template
    bound: Bound
    priority: int
    span: Span


@dataclass(frozen=True, slots=True)
class Instances:
    """Instantiates processes; arguments are evaluated in the scope of the system line."""

    definitions: Mapping[str, Definition]
    model: Model
    scope: Scope

    def of(self, process: syntax.ProcessName, priority: int) -> Iterator[Instance]:
        """Yields one process, or one per choice of values for the free parameters."""
        definition = self._find(process.name, process.span)
        for values in self._choices(definition.parameters, {}, process):
            template, bound = self._follow(definition, values, ())
            chosen = tuple(one.value for one in values.values())
            written = f"({', '.join(map(str, chosen))})" if chosen else ""
            yield Instance(
                process.name + written,
                process.name,
                chosen or None,
                template,
                bound,
                priority,
                process.span,
            )

    def _find(self, name: str, span: Span) -> Definition:
        if name not in self.definitions:
            known = ", ".join(self.definitions) or "none"
            raise unknown("template", name, self.definitions, span, f"the templates are: {known}")
        return self.definitions[name]

    def _choices(
        self,
        parameters: tuple[syntax.Parameter, ...],
        before: dict[str, Fixed],
        process: syntax.ProcessName,
    ) -> Iterator[dict[str, Fixed]]:
        """Yields all choices of values for the parameters; the last parameter varies fastest."""
        if not parameters:
            yield before
            return
        first, *rest = parameters
        if first.reference or first.shape:
            raise ModelError(
                f"`{process.name}` needs an argument for `{first.name}`",
                process.span,
                f"write `Name = {process.name}(...);`, and use `Name` on the system line",
            )
        type_ = bounded(first.type, self._with(before))
        if len(numbers(type_)) > PROCESSES_MAX:
            raise ModelError(
                f"`{process.name}` has {len(numbers(type_))} processes for the values of `{first.name}`",
                process.span,
                f"the maximum is {PROCESSES_MAX}: make the range of `{first.name}` smaller",
            )
        for value in numbers(type_):
            yield from self._choices(tuple(rest), {**before, first.name: Fixed(value, type_)}, process)

    def _with(self, bound: Mapping[str, Fixed | Ref]) -> Scope:
        return Scope(self.scope, "", dict(bound))

    def _follow(
        self, definition: Definition, bound: Bound, seen: tuple[str, ...]
    ) -> tuple[syntax.Template, Bound]:
        """Returns the template and arguments behind a chain of partial instantiations."""
        if isinstance(definition, syntax.Template):
            return definition, bound
        if definition.name in seen:
            raise ModelError(
                f"`{definition.name}` instantiates itself", definition.span, "write a template after `=`"
            )
        target = self._find(definition.template, definition.span)
        if len(definition.arguments) != len(target.parameters):
            names = ", ".join(one.name for one in target.parameters)
            raise ModelError(
                f"`{target.name}` takes {len(target.parameters)} argument(s), "
                f"not {len(definition.arguments)}",
                definition.span,
                f"write `{target.name}({names})`",
            )
        scope = self._with(bound)
        passed: dict[str, Fixed | Ref] = {}
        for parameter, argument in zip(target.parameters, definition.arguments, strict=True):
            type_ = type_of_parameter(parameter, self._with(passed))
            passed[parameter.name] = self._argument(parameter, type_, argument, scope)
        return self._follow(target, passed, (*seen, definition.name))

    def _argument(
        self, parameter: syntax.Parameter, type_: Type, argument: syntax.Expression, scope: Scope
    ) -> Fixed | Ref:
        if not parameter.reference and isinstance(type_, Range):
            value = evaluate(argument, scope)
            return Fixed(check_range(value, type_, argument.span), type_)
        if parameter.reference:
            place = ExpressionReader(self.model, scope, LocalNames()).place(argument)
            if isinstance(place, Ref):
                _check_indices(place, argument.span)
        else:
            place = find_fixed(argument, scope)
        if not same_layout(place.type, type_):
            raise ModelError(
                f"expected {describe(type_)} for `{parameter.name}`, found {describe(place.type)}"
                if describe(type_) != describe(place.type)
                else f"the argument for `{parameter.name}` is {describe(type_)} of a different type",
                argument.span,
                "pass an argument of the parameter's type",
            )
        return place


def _check_indices(place: Ref, span: Span) -> None:
    for index, dimension in zip(place.indices, place.dimensions, strict=True):
        if isinstance(index, ir.Fold):
            message = f"an index of `{place.name}` is outside {dimension.low}..{dimension.high}"
            raise ModelError(message, span, "change the index or the size of the array")
        if not isinstance(index, ir.Const):
            raise ModelError("this index is not constant", span, "use a number")
